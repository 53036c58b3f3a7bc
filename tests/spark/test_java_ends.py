"""Spark's Java process is killed: one clear line and an exit code, wherever the job is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.spark.installation import Installation

JOB = """
stream: s
source: {format: json, path: INBOX, schema: 'id BIGINT'}
message: {exchange: "'amq.topic'", routing_key: "'k'", application_properties: {id: id}}
trigger: 1 second
"""


def until(found: Callable[[], object], process: subprocess.Popen[str]) -> None:
    """Wait for something that a run does, as long as it runs."""
    end = time.monotonic() + 240
    while not found():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.01)


def java_of(pid: int) -> int | None:
    """Spark's Java process below a process; not the short-lived one that Spark's script asks for its command."""
    try:
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            command = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            if command[0].endswith(b"java") and b"org.apache.spark.launcher.Main" not in command:
                return int(child)
            found = java_of(int(child))
            if found is not None:
                return found
    except (FileNotFoundError, ProcessLookupError):
        pass  # a process that ended while it was looked at
    return None


@pytest.mark.parametrize("moment", ["it starts", "a batch runs", "it waits", "it stops"])
def test_a_killed_java_process_ends_the_job_in_one_line(installation: Installation, moment: str) -> None:
    installation.queue("all")
    installation.write_lines(*(json.dumps({"id": number}) for number in range(10)), file="a.json")
    config = installation.root / "job.yaml"
    config.write_text(JOB.replace("INBOX", str(installation.inbox)))
    command = [sys.executable, "-m", "bindery.cli.main", "route", "--config", str(config)]
    command += ["--data", installation.data.root, "--master", "local[1]", "--log", str(installation.root / "log")]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK_"))}
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        command, env=environment, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            until(lambda: java_of(process.pid), process)
            java = java_of(process.pid)
            assert java is not None
            if moment == "a batch runs":
                until(lambda: list(Path(installation.data.root, "pins").glob("*/0.json")), process)
            elif moment != "it starts":
                until((installation.checkpoint / "commits" / "0").exists, process)
            if moment == "it stops":
                process.send_signal(signal.SIGTERM)
            os.kill(java, signal.SIGKILL)
            said, error = process.communicate(timeout=240)
        finally:
            process.kill()
    assert process.returncode == 1, error
    *summary, line, hint = error.strip().splitlines()
    assert all(one.startswith("10 records ") for one in summary), error  # of batches that had ended
    assert len(summary) <= 1
    assert line.startswith("error:")
    assert "the Java process of Spark" in line
    assert hint.startswith("hint:")
    assert "Traceback" not in said
