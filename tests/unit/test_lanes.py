"""Tests in several processes: each runs once, a file in one process, and all that needs the session in the same."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONFTEST = """
from tests.conftest import pytest_report_to_serializable, pytest_xdist_make_scheduler
"""
TESTS = """
import logging
import os
import pytest

@pytest.mark.parametrize("number", range(3))
def test_something(number):
    logging.getLogger().warning("half a surrogate: \\udcff")
    with open("ran", "a") as file:
        file.write(f"{os.environ['PYTEST_XDIST_WORKER']} {__file__} {number}\\n")
"""


def test_every_test_runs_once_and_those_with_spark_in_one_process(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    files = [
        "tests/spark/test_a.py",
        "tests/pages/test_b.py",
        *(f"tests/conformance/test_c{number}.py" for number in range(6)),
        "tests/faults/test_schedules.py",
    ]
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "xdist.plugin", "-n", "2"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    ran = [line.split() for line in (tmp_path / "ran").read_text().splitlines()]
    assert Counter((file, number) for _, file, number in ran) == Counter(
        (str(tmp_path / name), str(number)) for name in files for number in range(3)
    )
    begun = {worker: file for worker, file, _ in reversed(ran)}
    assert {*begun.values()} <= {str(tmp_path / name) for name in (*files[:2], files[-1])}, (
        "what takes longest is first"
    )
    processes = {name: {worker for worker, file, _ in ran if file == str(tmp_path / name)} for name in files}
    assert all(len(workers) == 1 for workers in processes.values())
    assert processes[files[0]] == processes[files[1]]
    assert len({worker for worker, *_ in ran}) == 2
