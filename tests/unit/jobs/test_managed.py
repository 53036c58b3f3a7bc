"""What a submitted job says about the executors that it waits for; the session is a stand-in."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bindery.jobs import managed
from bindery.jobs.managed import Reporter
from bindery.store.jobs import JobFolder


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(managed, "_LOOK", 0.01)


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    return JobFolder(tmp_path)


def session(*, master: str, block_managers: int, busy: bool | None = None) -> Any:
    """A session with that many block managers, the driver's included; `busy` of its query, if it has one."""
    status = {"isTriggerActive": busy, "isDataAvailable": busy, "message": "Waiting"}
    query = SimpleNamespace(status=status, lastProgress=None)
    scala = SimpleNamespace(getExecutorMemoryStatus=lambda: SimpleNamespace(size=lambda: block_managers))
    context = SimpleNamespace(master=master, _jsc=SimpleNamespace(sc=lambda: scala))
    return SimpleNamespace(sparkContext=context, streams=Streams([] if busy is None else [query]))


class Streams:
    """Queries that end the watch when they are looked at for the second time."""

    def __init__(self, queries: list[Any]) -> None:
        self._queries = queries
        self._looks = 0
        self.ended = threading.Event()

    @property
    def active(self) -> list[Any]:
        self._looks += 1
        if self._looks == 2:
            self.ended.set()
        return self._queries


def watched(folder: JobFolder, *sessions: Any) -> list[tuple[str, bool]]:
    """The state that is on record after each of these moments, and whether the job waits."""
    reporter = Reporter(folder, "r1")
    seen: list[tuple[str, bool]] = []
    for spark in sessions:
        managed._watch(spark, reporter, spark.streams.ended)
        said = folder.status("r1")
        assert said is not None
        waiting = (said.progress or {}).get("waiting")
        assert waiting is None or (waiting["since"] > 0 and waiting["reason"].startswith("no executor"))
        seen.append((said.state, waiting is not None))
    return seen


CLUSTER = "spark://master:7077"


def test_a_job_without_executors_says_that_it_waits(folder: JobFolder) -> None:
    assert watched(
        folder,
        session(master=CLUSTER, block_managers=1),
        session(master=CLUSTER, block_managers=1, busy=True),
        session(master=CLUSTER, block_managers=2, busy=True),
        session(master=CLUSTER, block_managers=1, busy=True),
    ) == [("starting", True), ("running", True), ("running", False), ("running", True)]


def test_a_job_that_needs_no_executor_does_not_wait(folder: JobFolder) -> None:
    assert watched(
        folder,
        session(master=CLUSTER, block_managers=1, busy=False),
        session(master="local[2]", block_managers=1, busy=True),
        session(master="local", block_managers=1, busy=True),
        session(master="local-cluster[1,1,1024]", block_managers=1, busy=True),
    ) == [("idle", False), ("running", False), ("running", False), ("running", True)]


def test_since_when_it_waits_stays_while_it_waits(folder: JobFolder) -> None:
    reporter = Reporter(folder, "r1")
    since = []
    for reason in ("no executor", "no executor", None, "no executor"):
        reporter.waits(reason)
        said = folder.status("r1")
        assert said is not None
        assert said.progress is not None
        since.append(said.progress["waiting"] and said.progress["waiting"]["since"])
    assert since[0] == since[1]
    assert since[2] is None
    assert since[3] > since[0]


def test_how_far_behind_is_what_the_source_says(folder: JobFolder) -> None:
    metrics = {"avgOffsetsBehindLatest": "3.5", "maxOffsetsBehindLatest": "7", "minOffsetsBehindLatest": "0"}
    Reporter(folder, "r1").look(busy=False, progress={"sources": [{"metrics": metrics}]})
    said = folder.status("r1")
    assert said is not None
    assert (said.progress or {})["lag"] == {"seconds": 0.0, "offsets": 7}
