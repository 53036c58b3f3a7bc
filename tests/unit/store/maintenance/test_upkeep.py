"""Maintenance beside a committer: when it has gathered enough, on its own thread, and without harm to commits."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from bindery.router.errors import StorageFailed
from bindery.store import faults
from bindery.store.commit import TableCommit
from bindery.store.log import TableLog
from bindery.store.maintenance import Policy, Upkeep
from bindery.store.maintenance.table_places import place_of
from bindery.store.maintenance.upkeep import _Table
from bindery.store.paths import DataDir
from bindery.store.places import at as place
from bindery.store.read import read_queue
from bindery.store.tables import QUEUE
from tests.unit.store.conftest import deliver
from tests.unit.store.maintenance.conftest import NOTHING_OLD, Stream, entries_of

HOUR = 3_600.0


def eventually(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 120
    while not condition() and time.monotonic() < until:
        time.sleep(0.02)
    assert condition()


def live(data: DataDir, name: str) -> int:
    return len(TableLog(data.queue("/", name), files=True).files or ())


def batch(stream: Stream, *names: str) -> tuple[TableCommit, ...]:
    stream.batches += 1
    return deliver(stream.data, stream.committer, stream.batches, stream.version, *names)


def test_tables_are_compacted_while_batches_are_committed(data: DataDir, stream: Stream) -> None:
    with Upkeep(data) as upkeep:
        for _ in range(48):
            upkeep.committed(batch(stream, "a", "b"))
        # 24 files are what patience has room for, and what 24 others were merged into
        eventually(lambda: live(data, "a") <= 25 and live(data, "b") <= 25)
    assert read_queue(data, "a").num_rows == read_queue(data, "b").num_rows == 48 * 3


def test_a_drain_waits_for_what_is_due(data: DataDir, stream: Stream) -> None:
    with Upkeep(data) as upkeep:
        upkeep.drain()
        for _ in range(24):
            upkeep.committed(batch(stream, "a", "b"))
        upkeep.drain()
        # 16 files at least were merged into one
        assert (live(data, "a") <= 9, live(data, "b") <= 9) == (True, True)


@pytest.mark.long
def test_old_files_and_entries_go_while_batches_are_committed(data: DataDir, stream: Stream) -> None:
    with Upkeep(data, replace(NOTHING_OLD, orphan_age=timedelta(days=1))) as upkeep:

        def committed() -> None:
            upkeep.committed(batch(stream, "a"))

        def gone() -> bool:
            # a clean-up that comes before the log's first checkpoint, or whose checkpoint is newer than what it keeps,
            # leaves the entries to the next one, which needs as many commits again
            committed()
            return entries_of(data.queue("/", "a"))[0] > 0

        for _ in range(150):
            committed()
        eventually(gone)
    assert read_queue(data, "a").num_rows == stream.batches * 3


def test_a_queue_that_cannot_be_maintained_does_not_keep_others_from_it(
    data: DataDir, stream: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(point: str, path: str) -> None:
        if point == "write.before" and "/a/compact-" in path:
            raise StorageFailed("no space", where=path)

    with faults.installed(broken), Upkeep(data) as upkeep:
        for _ in range(40):
            upkeep.committed(batch(stream, "a", "b"))
        eventually(lambda: live(data, "b") <= 25 and "no space" in caplog.text)
    assert live(data, "a") == 40
    assert place(data.queue("/", "a")).is_folder()


@pytest.mark.parametrize(("listed", "commits"), [(0, 64), (1_000, 64), (10_000, 625)])
def test_cleaning_comes_after_as_many_commits_as_its_cost_asks_for(data: DataDir, listed: int, commits: int) -> None:
    table = _Table(place_of(data, QUEUE, data.queue("/", "a")), 16, since=0.0, listed=listed)
    table.uncleaned = commits - 1
    assert not table.wants_cleaning(10.0, HOUR)
    table.uncleaned = commits
    assert table.wants_cleaning(10.0, HOUR)


def test_after_an_hour_any_commit_is_enough(data: DataDir) -> None:
    table = _Table(place_of(data, QUEUE, data.queue("/", "a")), 16, since=0.0)
    assert not table.wants_cleaning(4_000.0, HOUR)
    table.uncleaned = 1
    assert table.wants_cleaning(4_000.0, HOUR)


@pytest.mark.parametrize(("retention", "seconds"), [(None, HOUR), (86_400, HOUR), (600, 600.0), (1, 60.0)])
def test_what_is_kept_for_less_than_an_hour_goes_as_soon(data: DataDir, retention: int | None, seconds: float) -> None:
    kept = None if retention is None else timedelta(seconds=retention)
    with Upkeep(data, Policy(retention=kept, shortest=timedelta(0))) as upkeep:
        assert upkeep._clean_each == seconds


def test_whole_passes_reach_tables_that_nobody_commits_to(data: DataDir, stream: Stream) -> None:
    stream.run(20)
    with Upkeep(data, Policy(), everything_each=0.05):
        eventually(lambda: live(data, "a") == 1)
