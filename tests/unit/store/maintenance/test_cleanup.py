"""Log cleanup: what goes, what every reader still needs, and that it may stop anywhere."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from deltalake import DeltaTable

from bindery.router.errors import StorageFailed
from bindery.store import data_files, faults, tables
from bindery.store.actions import Transaction
from bindery.store.checkpoints import write_checkpoint
from bindery.store.log import TableLog
from bindery.store.maintenance import Policy
from bindery.store.maintenance.cleanup import CROWD, KEPT, clean_log, superfluous, wants_checkpoint
from bindery.store.maintenance.holds import find_holds
from bindery.store.maintenance.horizon import Horizon
from bindery.store.maintenance.listing import LogFiles
from bindery.store.maintenance.run import maintain_table
from bindery.store.maintenance.table_places import place_of
from bindery.store.paths import DataDir
from bindery.store.places import Place
from bindery.store.places import at as place
from bindery.store.tables import ensure_queue_table
from bindery.store.topology import TopologyStore
from tests.unit.store.conftest import Crash, queue_rows
from tests.unit.store.maintenance.conftest import entries_of


@pytest.fixture
def path(data: DataDir, store: TopologyStore) -> str:
    ensure_queue_table(data, "/", "a")
    return data.queue("/", "a")


def commits(path: str, number: int, *, checkpoints: tuple[int, ...] = ()) -> TableLog:
    log = TableLog(path, files=True)
    for _ in range(number):
        rows = queue_rows(log.version, range(1), version=1)
        log.commit([data_files.write_file(path, rows)], transactions=[Transaction("s:1", log.version)])
        if log.version in checkpoints:
            write_checkpoint(path)
    return log


def listed(entries: int, *checkpoints: int, recorded: int | None = None) -> LogFiles:
    last = max(checkpoints, default=None) if recorded is None else recorded
    return LogFiles(place("log"), tuple(range(entries)), dict.fromkeys(checkpoints, ()), (), last)


def test_what_is_below_the_newest_checkpoint_at_the_horizon_goes() -> None:
    found = superfluous(listed(50, 10, 20, 30, 40), Horizon(25, 0))
    assert (found.entries, found.checkpoints, found.base) == (tuple(range(20)), (10,), 20)


def test_without_a_checkpoint_at_the_horizon_nothing_goes() -> None:
    assert superfluous(listed(50, 30, 40), Horizon(25, 0)).entries == ()
    assert superfluous(listed(50), Horizon(25, 0)).entries == ()


@pytest.mark.parametrize(
    ("files", "horizon", "wanted"),
    [
        (listed(50), Horizon(CROWD, 0), True),
        (listed(50), Horizon(CROWD - 1, 0), False),
        (listed(50, 5), Horizon(5 + CROWD, 0), True),
        (listed(50, 5), Horizon(4 + CROWD, 0), False),
        (listed(50, 5, 40), Horizon(30, 0), False),
        (listed(50, 5, 30), Horizon(30, 0), False),
        (listed(50), None, False),
        (listed(0), Horizon(CROWD, 0), False),
    ],
)
def test_a_crowd_of_old_entries_wants_a_checkpoint_above_them(
    files: LogFiles, horizon: Horizon | None, wanted: bool
) -> None:
    assert wants_checkpoint(files, horizon) is wanted


def test_a_table_that_is_seldom_committed_to_keeps_few_entries(
    data: DataDir, path: str, dated: Callable[[Place, float], None]
) -> None:
    begin, week = time.time(), Policy(retention=timedelta(days=7), shortest=timedelta(0))
    table = place_of(data, tables.QUEUE, path)
    entries: list[int] = []
    for day in range(40):
        commits(path, 1)
        dated(LogFiles.of(path).entry(day + 1), begin + day * 86_400)
        moment = int((begin + day * 86_400 + 3_600) * 1_000)
        report = maintain_table(
            table, None, week, find_holds(data, week.hold_limit, moment), clock=partial(int, moment)
        )
        assert report.error is None
        entries.append(len(entries_of(path)))
    # those within the retention, a crowd, and those of a retention that pass until the checkpoint is old enough
    assert max(entries) <= 2 * 8 + CROWD + 2
    assert DeltaTable(path).to_pyarrow_table().num_rows == 40


def test_checkpoints_within_the_retention_are_thinned_to_a_few() -> None:
    found = superfluous(listed(5_000, *range(100, 5_000, 100)), Horizon(150, 0))
    left = sorted(set(range(100, 5_000, 100)) - set(found.checkpoints))
    assert left[0] == 100
    assert left[-2:] == [4_800, 4_900]
    assert len(left) <= KEPT + 3


def test_the_checkpoint_on_record_stays_whatever_it_is() -> None:
    found = superfluous(listed(5_000, *range(100, 5_000, 100), recorded=1_300), Horizon(150, 0))
    assert 1_300 not in found.checkpoints


def test_a_table_that_is_kept_for_ever_loses_checkpoints_only() -> None:
    found = superfluous(listed(9_000, *range(100, 9_000, 100)), None)
    assert found.entries == ()
    left = sorted(set(range(100, 9_000, 100)) - set(found.checkpoints))
    assert all(after - before <= 1_200 for before, after in itertools.pairwise(left))
    assert len(left) < 13


def test_every_reader_goes_on_after_a_cleanup(path: str) -> None:
    lagging = TableLog(path)
    log = commits(path, 30, checkpoints=(10, 20))
    other = DeltaTable(path)
    assert clean_log(LogFiles.of(path), Horizon(25, 0)).entries == 20
    assert entries_of(path) == list(range(20, 31))
    assert len(DeltaTable(path).file_uris()) == len(other.file_uris()) == 30
    assert DeltaTable(path, version=25).to_pyarrow_table().num_rows == 25
    assert lagging.refresh() and lagging.version == 30
    assert lagging.transaction_version("s:1") == 29
    log.commit(())
    other.update_incremental()
    assert other.version() == 31


def test_the_checkpoint_on_record_is_never_missing(path: str) -> None:
    commits(path, 30, checkpoints=(10, 20))
    recorded = place(path, "_delta_log", "_last_checkpoint")
    recorded.replace(json.dumps({"version": 10, "size": 1}).encode())
    clean_log(LogFiles.of(path), Horizon(25, 0))
    version = json.loads(recorded.read() or b"")["version"]
    assert LogFiles.of(path).checkpoints[version]
    assert DeltaTable(path).to_pyarrow_table().num_rows == 30


def test_nothing_goes_while_the_checkpoint_cannot_be_read(path: str) -> None:
    commits(path, 30, checkpoints=(20,))
    checkpoint = place(path, "_delta_log", f"{20:020}.checkpoint.parquet")
    whole = checkpoint.read()
    assert whole is not None
    checkpoint.replace(whole[:-100])
    assert clean_log(LogFiles.of(path), Horizon(25, 0)).entries == 0
    assert entries_of(path)[0] == 0
    checkpoint.replace(whole)
    assert clean_log(LogFiles.of(path), Horizon(25, 0)).entries == 20


@pytest.mark.parametrize("removals", [0, 1, 5, 20])
def test_a_cleanup_that_stops_anywhere_is_finished_by_the_next(path: str, removals: int) -> None:
    commits(path, 30, checkpoints=(10, 20))
    done = [0]

    def stop(point: str, _path: str) -> None:
        if point == "remove.before":
            if done[0] == removals:
                raise Crash(point)
            done[0] += 1

    with faults.installed(stop), pytest.raises(Crash):
        clean_log(LogFiles.of(path), Horizon(25, 0))
    assert DeltaTable(path).to_pyarrow_table().num_rows == 30
    log = TableLog(path, files=True)
    assert (log.version, log.commit(())) == (30, 31)
    clean_log(LogFiles.of(path), Horizon(25, 0))
    assert entries_of(path) == list(range(20, 32))


def test_a_committer_that_was_stopped_meanwhile_takes_its_commit_back(path: str) -> None:
    stopped = TableLog(path)
    commits(path, 30, checkpoints=(20,))
    stopped._version, stopped._anchor, stopped._seen = 4, stopped._stamp(4), 0.0

    def clean(point: str, _path: str) -> None:
        if point == "put.before":
            clean_log(LogFiles.of(path), Horizon(25, 0))

    with faults.installed(clean), pytest.raises(StorageFailed, match="cleaned up while"):
        stopped.commit(())
    assert entries_of(path) == list(range(20, 31))


def test_two_cleanups_at_once_do_no_harm(path: str) -> None:
    commits(path, 30, checkpoints=(10, 20))
    files = LogFiles.of(path)
    clean_log(files, Horizon(25, 0))
    clean_log(replace(files), Horizon(25, 0))
    assert entries_of(path) == list(range(20, 31))
