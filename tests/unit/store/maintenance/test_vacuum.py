"""Vacuum: files that nothing needs go, those of whoever still writes, reads or was stopped do not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from deltalake import DeltaTable

from bindery.router.errors import StorageFailed
from bindery.store import data_files, faults, tables
from bindery.store.checkpoints import write_checkpoint
from bindery.store.commit import BatchCounts
from bindery.store.log import TableLog
from bindery.store.maintenance import Policy, TableReport, maintain
from bindery.store.paths import DataDir
from bindery.store.places import Place
from bindery.store.places import at as place
from bindery.store.read import delete_matching, read_queue
from bindery.store.topology import TopologyStore
from tests.unit.store.conftest import Crash, at, crash, declare_queues, queue_rows, written
from tests.unit.store.maintenance.conftest import NOTHING_OLD, Clock, Stream, data_files_of

Age = Callable[[Place, float], None]

A_WEEK = Policy(retention=timedelta(days=7))


def asides(path: str) -> list[str]:
    return [name for name in place(path).files() if name.endswith(".aside")]


def queue_report(data: DataDir, policy: Policy, clock: Clock) -> TableReport:
    found = maintain(data, policy, clock=clock, only=lambda place: place.name.endswith("/a"))
    (one,) = found.tables
    assert one.error is None
    return one


def test_removed_files_stay_as_long_as_a_version_that_has_them(data: DataDir, stream: Stream, clock: Clock) -> None:
    stream.run(3)
    path = data.queue("/", "a")
    version = TableLog(path).version
    delete_matching(data, "a", None)
    for days, left in ((6.9, 3), (7.1, 0)):
        clock.ahead = timedelta(days=days)
        queue_report(data, A_WEEK, clock)
        assert len(data_files_of(path)) == left
        if left:
            assert DeltaTable(path, version=version).to_pyarrow_table().num_rows == 9


@pytest.mark.parametrize("retention", [0, 30], ids=["forgotten", "remembered"])
def test_files_that_no_kept_version_has_go_at_once_whatever_checkpoints_remember(
    data: DataDir, stream: Stream, clock: Clock, retention: int
) -> None:
    """A checkpoint forgets what was removed before the retention; nothing here is old enough for an orphan."""
    path = data.queue("/", "a")
    policy = Policy(retention=timedelta(seconds=retention), shortest=timedelta(0), fan_in=2)
    for _ in range(3):
        stream.run(8)
        queue_report(data, policy, clock)
        write_checkpoint(path)
        clock.ahead += timedelta(seconds=retention + 1)
        queue_report(data, policy, clock)
        assert data_files_of(path) == set(tables.files_of(TableLog(path, files=True)))
    assert read_queue(data, "a").num_rows == 72


def test_what_a_table_states_holds_where_nothing_is_asked_for(data: DataDir, stream: Stream, clock: Clock) -> None:
    stream.run(3)
    path = data.queue("/", "a")
    queue_report(data, Policy(retention=timedelta(days=2)), clock)
    assert DeltaTable(path).metadata().configuration["delta.deletedFileRetentionDuration"] == "interval 2 days"
    delete_matching(data, "a", None)
    clock.ahead = timedelta(days=1.9)
    assert queue_report(data, Policy(), clock).deleted == 0
    clock.ahead = timedelta(days=2.1)
    assert queue_report(data, Policy(), clock).deleted == 3


# -- files without a version ---------------------------------------------------------------------------


def test_orphans_go_when_no_batch_takes_so_long(data: DataDir, stream: Stream, clock: Clock, age: Age) -> None:
    stream.run(3)
    path = data.queue("/", "a")
    young, old = (written(data, "a", queue_rows(9, range(3), version=1)).path for _ in range(2))
    age(place(path, old), 1.1)
    age(place(path, young), 0.9)
    rows = read_queue(data, "a")
    assert queue_report(data, A_WEEK, clock).deleted == 1
    assert young in data_files_of(path)
    assert old not in data_files_of(path)
    assert read_queue(data, "a").equals(rows)


def test_drafts_of_processes_that_died_go(data: DataDir, stream: Stream, clock: Clock, age: Age) -> None:
    drafts = [
        place(data.queue("/", "a"), "_delta_log", name)
        for name in (".00000000000000000009.json.ab.tmp", "00000000000000000009.checkpoint.parquet#1")
    ]
    for draft in drafts:
        draft.replace(b"half")
        age(draft, 2)
    fresh = drafts[0].parent / ".00000000000000000010.json.cd.tmp"
    fresh.replace(b"half")
    queue_report(data, A_WEEK, clock)
    assert not any(draft.exists() for draft in drafts)
    assert fresh.exists()


def test_a_batch_that_was_stopped_for_too_long_fails_instead_of_naming_files_that_are_gone(
    data: DataDir, stream: Stream, clock: Clock, age: Age
) -> None:
    committer = stream.committer
    pin = committer.pin(0, stream.version, 1_000)
    late = written(data, "a", queue_rows(0, range(3), version=stream.version))
    age(place(data.queue("/", "a"), late.path), 2)
    queue_report(data, A_WEEK, clock)
    with pytest.raises(StorageFailed, match="is not in"):
        committer.commit(0, pin, [late], BatchCounts(records=3, copies=3))
    again = written(data, "a", queue_rows(0, range(3), version=stream.version))
    committer.commit(0, pin, [again], BatchCounts(records=3, copies=3))
    assert read_queue(data, "a").num_rows == 3


def test_a_batch_committed_while_its_files_are_put_aside_gets_them_back(
    data: DataDir, stream: Stream, clock: Clock, age: Age
) -> None:
    """The commit was checked before, and stopped between the check and the entry: the worst moment."""
    stream.run(1)
    path = data.queue("/", "a")
    late = written(data, "a", queue_rows(7, range(5), version=stream.version))
    stopped = TableLog(path)
    action = data_files.found_file(path, late.path, late.rows, late.stats)
    age(place(path, late.path), 2)
    with faults.installed(at("rename.after", lambda: stopped.commit([action]), where=late.path)):
        queue_report(data, A_WEEK, clock)
    assert read_queue(data, "a").num_rows == 8
    assert asides(path) == []


def test_a_commit_on_a_version_before_the_fence_is_lost(data: DataDir, stream: Stream, clock: Clock, age: Age) -> None:
    path = data.queue("/", "a")
    late = written(data, "a", queue_rows(7, range(5), version=stream.version))
    stopped = TableLog(path)
    action = data_files.found_file(path, late.path, late.rows, late.stats)
    age(place(path, late.path), 2)
    queue_report(data, A_WEEK, clock)
    assert stopped.commit([action]) is None
    stopped.refresh()
    with pytest.raises(StorageFailed):
        data_files.found_file(path, late.path, late.rows, late.stats)


@pytest.mark.parametrize("point", ["rename.after", "put.before", "put.after", "remove.before"])
def test_what_an_interrupted_run_has_put_aside_is_dealt_with_by_the_next(
    data: DataDir, stream: Stream, clock: Clock, age: Age, point: str
) -> None:
    stream.run(1)
    path = data.queue("/", "a")
    queue_report(data, A_WEEK, clock)
    orphan = place(path, written(data, "a", queue_rows(7, range(5), version=stream.version)).path)
    age(orphan, 2)

    with faults.installed(at(point, crash, where="/a/")), pytest.raises(Crash):
        queue_report(data, A_WEEK, clock)
    assert read_queue(data, "a").num_rows == 3
    queue_report(data, A_WEEK, clock)
    assert not orphan.exists()
    assert asides(path) == []
    assert read_queue(data, "a").num_rows == 3


def files_of_topology(data: DataDir) -> list[str]:
    return [name for name in place(data.topology).within() if name.endswith(".parquet")]


def test_of_the_topology_only_files_go_that_no_version_ever_had(
    data: DataDir, store: TopologyStore, stream: Stream, clock: Clock, age: Age
) -> None:
    for number in range(30):
        store.edit(declare_queues(f"q{number}"), author="t")
    before = files_of_topology(data)
    newest = store.load()
    old = place(data.topology, "part-left.parquet")
    old.replace(b"")
    age(old, 100)
    clock.ahead = timedelta(days=400)
    maintain(data, NOTHING_OLD, clock=clock)
    assert files_of_topology(data) == before
    again = TopologyStore(data)
    assert [len(again.load(version=version).queues) for version in (2, 12, 32)] == [2, 12, 32]
    assert again.load().version == newest.version + 1
    assert set(again.load().queues) == set(newest.queues)
    assert again.history(limit=1)[0].author == "bindery"
    place(data.topology, "_delta_log", f"{1:020}.json").remove()
    old.replace(b"")
    age(old, 100)
    maintain(data, NOTHING_OLD, clock=clock)
    assert old.exists()


def test_what_spark_and_others_keep_beside_the_files_is_left_alone(
    data: DataDir, stream: Stream, clock: Clock, age: Age
) -> None:
    path = place(data.queue("/", "a"))
    others = [path / "_SUCCESS", path / ".part.parquet.crc", path / "notes.txt", path / ".hidden.parquet"]
    for one in others:
        one.replace(b"x")
        age(one, 30)
    queue_report(data, NOTHING_OLD, clock)
    assert all(one.exists() for one in others)


# -- outside of tables ---------------------------------------------------------------------------------


def test_pins_of_streams_that_are_no_more_and_drafts_of_plans_go(
    data: DataDir, stream: Stream, clock: Clock, age: Age
) -> None:
    from bindery.store.streams import register

    epoch = register(data, "orders", "c1")
    kept = place(data.pins(epoch.app_id), "4.json")
    dead = place(data.pins("api:0123"), "4.json")
    plan = place(data.root, "redrives/~2F/1.parquet")
    of_plan = place(data.pins("redrive:/"), "0.json")
    draft = place(data.root, "redrives/~2F/.2.parquet.abcd.tmp")
    for path in (kept, dead, plan, of_plan, draft):
        path.parent.make_folder()
        path.replace(b"{}")
        age(path, 3)
        age(path.parent, 3)
    young = place(data.pins("api:4567"), "4.json")
    young.parent.make_folder()
    young.replace(b"{}")
    maintain(data, A_WEEK, clock=clock)
    assert all(path.exists() for path in (kept, plan, young))
    assert not any(path.exists() for path in (dead, of_plan, draft))
    assert tables.exists(data.queue("/", "a"))
