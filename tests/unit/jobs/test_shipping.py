"""Executors that have another Bindery than the driver, as processes of their own; test_executors.py has Spark's."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from bindery.jobs.shipping import OtherCode, fingerprint, results, shipped
from bindery.router.engine import Router
from bindery.router.message import Message
from tests.packages import PROJECT

#: What a Python worker of Spark does with a function, that far: its output is the rows of its result, or the error.
EXECUTOR = """
import pickle, sys
run = pickle.load(sys.stdin.buffer)
for batch in run(iter(())):
    print(*batch.column(0).to_pylist(), sep="\\n")
"""


class Task:
    """A function that needs Bindery where it arrives."""

    def __init__(self) -> None:
        self.message = Message("x", "key")
        self.needs = Router  # and with it re2

    def __call__(self, _batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"result": [json.dumps({"key": self.message.routing_key})]})


def sent(**options: Any) -> bytes:
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        function: bytes = cloudpickle.dumps(shipped(Task(), **options))
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    return function


def executed(path: Path, function: bytes) -> subprocess.CompletedProcess[bytes]:
    """What an executor does whose Bindery is at that place, and nowhere else."""
    code = f"import sys\nsys.path.insert(0, {str(path)!r})\n{EXECUTOR}"
    return subprocess.run([sys.executable, "-c", code], input=function, cwd="/", capture_output=True, check=False)


def told(path: Path) -> str:
    """The error of a driver whose executor has its Bindery at that place."""
    done = executed(path, sent())
    assert done.returncode == 0, done.stderr.decode()
    rows: Any = [SimpleNamespace(result=done.stdout.decode())]
    with pytest.raises(OtherCode) as raised:
        list(results(rows))
    assert raised.value.exit_code == 3
    assert "--py-files" in (raised.value.hint or "")
    return raised.value.message


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The package elsewhere."""
    shutil.copytree(PROJECT / "bindery", tmp_path / "bindery", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def zipped(folder: Path) -> Path:
    path = folder / "bindery.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted((folder / "bindery").rglob("*"), reverse=True):
            if file.suffix in (".py", ".lark"):
                archive.write(file, file.relative_to(folder))
    return path


@pytest.mark.parametrize("as_zip", [False, True])
def test_the_same_code_is_the_same_wherever_it_lies(copy: Path, as_zip: bool) -> None:
    done = executed(zipped(copy) if as_zip else copy, sent())
    assert (json.loads(done.stdout), done.stderr) == ({"key": "key"}, b"")


@pytest.mark.parametrize("file", ["router/engine/walk.py", "router/filters/amqp_sql.lark", "store/writer.py"])
def test_a_change_of_a_source_is_another_bindery(copy: Path, file: str) -> None:
    with (copy / "bindery" / file).open("a") as source:
        source.write("\n")
    line = told(copy)
    assert "has Bindery 0.1.0 (" in line
    assert line.endswith(f"the driver has Bindery {fingerprint()}")
    assert line.count(fingerprint()) == 1


def test_a_version_is_named(copy: Path) -> None:
    init = copy / "bindery" / "__init__.py"
    init.write_text(init.read_text().replace('"0.1.0"', '"0.0.9"'))
    assert f"has Bindery {fingerprint().replace('0.1.0', '0.0.9')}, the driver" in told(copy)


def test_what_tasks_do_not_run_may_differ(copy: Path) -> None:
    shutil.rmtree(copy / "bindery" / "api")
    shutil.rmtree(copy / "bindery" / "cli")
    assert executed(copy, sent()).returncode == 0
    (copy / "bindery" / "router" / ".walk.py").write_text("what an editor keeps")
    assert json.loads(executed(copy, sent()).stdout) == {"key": "key"}


def test_an_older_bindery_and_none(copy: Path) -> None:
    (copy / "bindery" / "jobs" / "shipping.py").write_text("")
    assert "has an older Bindery, without bindery.jobs.shipping, " in told(copy)
    (copy / "bindery" / "jobs" / "shipping.py").unlink()
    assert "has an older Bindery, without bindery.jobs.shipping, " in told(copy)
    (copy / "bindery" / "__init__.py").write_text("raise ModuleNotFoundError('none', name='bindery')")
    assert "has no Bindery, " in told(copy)


def test_a_library_that_is_missing(copy: Path) -> None:
    (copy / "re2.py").write_text("raise ModuleNotFoundError('none', name='re2')")
    assert "has no module 're2', " in told(copy)


def test_a_task_without_results_fails_with_the_line(copy: Path) -> None:
    (copy / "bindery" / "jobs" / "task.py").write_text("")
    done = executed(copy, sent(gives_results=False))
    assert done.returncode == 1
    assert done.stderr.decode().splitlines()[-1].startswith("RuntimeError: the executor on ")
