"""The driver of submitted jobs, in the session of the tests: what it checks first, and what it says."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bindery.jobs.control.launch import this_process
from bindery.jobs.managed import main
from bindery.store.jobs import JobFolder, JobRecord, JobRegistry, Run, RunStatus
from tests.spark.installation import Installation


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


class Job:
    """A job on record, to be run here instead of in a process of its own."""

    def __init__(self, installation: Installation, **more: Any) -> None:
        self.data = installation.data
        self.source = installation.inbox
        self.document: dict[str, Any] = {
            "stream": "s",
            "source": {"format": "json", "path": str(self.source), "schema": "a STRING"},
            "message": {"exchange": "'amq.topic'", "routing_key": "a"},
            "trigger": "available-now",
            **more,
        }
        self.folder: JobFolder = JobRegistry(self.data).folder("s")
        self.folder.path.mkdir(parents=True)
        run = Run("r1", 1, this_process(), 1.0)
        self.folder.save(JobRecord("s", self.document, "ann", 1.0, run))

    def run(self, *more: str, run: str = "r1") -> tuple[int, RunStatus | None]:
        arguments = ["--job", str(self.folder.path), "--data", self.data.root, "--run", run]
        code = main([*arguments, "--root", str(self.source), *more])
        return code, self.folder.status(run)


def test_a_job_says_what_it_has_done(installation: Installation) -> None:
    installation.queue("q", key="x")
    job = Job(installation)
    (job.source / "1.json").write_text("".join(json.dumps({"a": key}) + "\n" for key in "xxy"))
    code, said = job.run()
    assert said is not None
    assert said.progress is not None
    assert (code, said.state, said.error, said.driver) == (0, "stopped", None, this_process())
    assert {name: said.progress[name] for name in ("batches", "records", "copies", "unroutable")} == {
        "batches": 1,
        "records": 3,
        "copies": 2,
        "unroutable": 1,
    }
    assert said.progress["last_batch"]["seconds"].keys() >= {"prepare", "tasks", "commit"}


def test_what_spark_parses_decides_before_anything_runs(installation: Installation) -> None:
    job = Job(installation, message={"routing_key": "(VALUES ('x'))"})
    code, said = job.run()
    assert said is not None
    assert said.error is not None
    assert (code, said.state) == (2, "failed")
    assert said.error["message"] == "message.routing_key: subqueries are not allowed in a submitted job"
    assert not Path(job.data.checkpoint("s")).exists()


def test_the_rules_are_kept_again_when_a_job_starts(installation: Installation) -> None:
    """A link may have been turned since the document was accepted."""
    job = Job(installation)
    moved = job.source.with_name("moved")
    job.source.rename(moved)
    job.source.symlink_to("/etc")
    code = main(["--job", str(job.folder.path), "--data", job.data.root, "--run", "r1", "--root", str(moved)])
    said = job.folder.status("r1")
    assert said is not None
    assert (code, said.state) == (2, "failed")
    assert str((said.error or {})["message"]).startswith("source.path: outside")


def test_secrets_are_resolved_here_and_masked_in_what_is_said(
    installation: Installation, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BINDERY_SECRET_K", "no_such_column_s3cr3t")
    source = {"format": "json", "path": str(installation.inbox), "schema": "a STRING"}
    source["options"] = {"fs.s3a.secret.key": {"secret": "K"}}  # type: ignore[assignment]
    job = Job(installation, source=source, message={"routing_key": "no_such_column_s3cr3t"})
    code, said = job.run()
    assert said is not None
    assert (code, said.state) == (2, "failed")
    assert "***" in str(said.error)
    assert "s3cr3t" not in str(said.error) + capfd.readouterr().err


def test_a_run_that_is_not_the_one_on_record_touches_nothing(installation: Installation, spark: SparkSession) -> None:
    job = Job(installation)
    code, said = job.run(run="r0")
    assert said is not None
    assert (code, said.state) == (3, "failed")
    assert not Path(job.data.checkpoint("s")).exists()
