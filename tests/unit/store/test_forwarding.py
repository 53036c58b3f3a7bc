"""Positions of forwarders, and what was appended to a queue."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest

from bindery.router.declarations import TopologyEditor
from bindery.router.errors import Fenced, Refused, StorageFailed, UnsupportedTable
from bindery.router.message import QUEUE_SCHEMA as QUEUE
from bindery.store import faults, file_rows
from bindery.store.forwarding import Forwarding, Position, QueueLog, has_position, recorded, recorded_of
from bindery.store.maintenance import Policy, maintain
from bindery.store.maintenance.holds import find_holds
from bindery.store.paths import DataDir
from bindery.store.places import at as file_at
from bindery.store.read import delete_matching, take
from bindery.store.topology import TopologyStore
from tests.unit.store.conftest import FailingDisk, at, declare_queues
from tests.unit.store.maintenance.conftest import NOTHING_OLD, Clock, Stream, clock, data_files_of, stream

__all__ = ["clock", "stream"]

MERGING = Policy(fan_in=2, orphan_age=timedelta(days=1))


def place(version: int, **fields: int) -> Position:
    return Position("t", version, **fields)  # type: ignore[arg-type]


# -- positions ------------------------------------------------------------------------------------------------


def test_a_position_is_kept_from_one_start_to_the_next(data: DataDir) -> None:
    assert not has_position(data, "a/b")
    first = Forwarding(data, "a/b")
    assert first.position is None
    assert list(recorded(data)) == []
    first.move(Position("t", 3, 2, True), rows=7)
    assert Forwarding(data, "a/b").position == Position("t", 3, 2, True)
    assert has_position(data, "a/b")
    assert Forwarding(data, "other").position is None
    (one,) = recorded(data)
    assert (one.name, one.position.version, one.rows) == ("a/b", 3, 7)
    assert recorded_of(data, "a/b") == one
    assert recorded_of(data, "other") is None
    Forwarding(data, "a/b").move(place(4), rows=2)
    (one,) = recorded(data)
    assert one.rows == 9


def test_a_record_of_an_older_bindery_counts_from_now_on(data: DataDir) -> None:
    Forwarding(data, "f").move(place(3), rows=7)
    record = file_at(data.root, "forwards", "f", "1.json")
    stated = json.loads(record.read() or b"")
    del stated["rows"]
    record.replace(json.dumps(stated).encode())
    right = Forwarding(data, "f")
    assert right.position == place(3)
    right.move(place(4), rows=2)
    found = recorded_of(data, "f")
    assert found is not None and found.rows == 2


def test_a_start_over_knows_no_position(data: DataDir) -> None:
    Forwarding(data, "f").move(place(3))
    assert Forwarding(data, "f", start_over=True).position is None
    assert Forwarding(data, "f").position is None


def test_the_newest_forwarder_of_a_name_ends_the_others(data: DataDir) -> None:
    old = Forwarding(data, "f")
    old.move(place(3))
    old.check()
    new = Forwarding(data, "f")
    with pytest.raises(Fenced) as refused:
        old.move(place(4))
    assert refused.value.exit_code == 3
    new.move(place(5))
    assert Forwarding(data, "f").position == place(5)


def test_a_position_written_too_late_does_not_count(data: DataDir) -> None:
    """The other one starts between an old forwarder's last look and its write."""
    old = Forwarding(data, "f")
    old.move(place(3))

    with faults.installed(at("replace.before", lambda: Forwarding(data, "f").move(place(7)))):
        old.move(place(4))
    assert Forwarding(data, "f").position == place(7)
    assert list(file_at(data.root, "forwards", "f").files()) == ["3.json"]


def test_of_forwarders_that_start_at_once_one_goes_on(data: DataDir) -> None:
    Forwarding(data, "f").move(place(3))
    with ThreadPoolExecutor(8) as pool:
        started = list(pool.map(lambda _: Forwarding(data, "f"), range(8)))
    assert {one.position for one in started} == {place(3)}

    def goes_on(one: Forwarding) -> bool:
        try:
            one.check()
        except Fenced:
            return False
        return True

    assert sum(map(goes_on, started)) == 1


def test_a_damaged_position_is_refused_unless_it_is_not_wanted(data: DataDir) -> None:
    Forwarding(data, "f").move(place(3))
    file_at(data.root, "forwards", "f", "1.json").replace(b'{"name": "f"')
    with pytest.raises(UnsupportedTable) as refused:
        Forwarding(data, "f")
    assert "--start-over" in str(refused.value.hint)
    assert list(recorded(data)) == []
    assert Forwarding(data, "f", start_over=True).position is None


@pytest.mark.parametrize("number", range(1, 9))
def test_a_disk_that_fails_loses_no_position(data: DataDir, number: int) -> None:
    Forwarding(data, "f").move(place(3))
    with faults.installed(FailingDisk(number)):
        try:
            Forwarding(data, "f").move(place(4))
            moved = True
        except StorageFailed:
            moved = False
    assert Forwarding(data, "f").position in ((place(4),) if moved else (place(3), place(4)))


# -- what was appended -----------------------------------------------------------------------------------------


def rows_from(data: DataDir, position: Position, queue: str = "a") -> list[tuple[int, int]]:
    """The rows that come from a position on, by batch and number."""
    log = QueueLog(data, "/", queue)
    found: list[tuple[int, int]] = []
    while position.version <= log.version:
        for file in log.files(position)[position.file :]:
            for routing in file_rows.read(log.path, file, QUEUE, columns=["routing"])["routing"].to_pylist():
                found.append((routing["batch_id"], routing["seq"]))
        position = Position(position.table_id, position.version + 1)
    return found


def batches(*numbers: int) -> list[tuple[int, int]]:
    return [(batch, seq) for batch in numbers for seq in range(3)]


def test_rows_come_once_whatever_becomes_of_them(data: DataDir, stream: Stream) -> None:
    begin = QueueLog(data, "/", "a").latest()
    stream.run(5)
    take(data, "a", limit=4)
    take(data, "a", limit=2, requeue=True)
    stream.run(3)
    maintain(data, MERGING)
    delete_matching(data, "a", None)
    stream.run(1)
    assert rows_from(data, begin) == batches(*range(9))


def test_earliest_is_what_the_queue_holds_and_then_what_comes(data: DataDir, stream: Stream) -> None:
    stream.run(5)
    maintain(data, MERGING)
    stream.run(2)
    take(data, "a", limit=4)
    begin = QueueLog(data, "/", "a").earliest()
    assert rows_from(data, begin) == batches(*range(7))[4:]
    stream.run(2)
    maintain(data, MERGING)
    delete_matching(data, "a", None)
    assert rows_from(data, begin) == batches(*range(9))[4:]
    assert rows_from(data, QueueLog(data, "/", "a").latest()) == []


def test_a_queue_that_was_deleted_and_declared_again_goes_on(
    data: DataDir, stream: Stream, store: TopologyStore
) -> None:
    begin = QueueLog(data, "/", "a").latest()
    stream.run(2)
    store.edit(delete_queue("a"), author="t")
    stream.version = store.edit(declare_queues("a"), author="t").version
    stream.run(2)
    assert rows_from(data, begin) == batches(0, 1, 2, 3)


def delete_queue(name: str) -> Callable[[TopologyEditor], None]:
    return lambda editor: editor.delete_queue("/", name)


def test_a_table_that_is_another_one_is_refused(data: DataDir, stream: Stream) -> None:
    stream.run(1)
    log = QueueLog(data, "/", "a")
    with pytest.raises(Refused, match="another table"):
        log.check(replace(log.latest(), table_id="t"))
    with pytest.raises(Refused, match="restored from an older state"):
        log.check(replace(log.latest(), version=9))
    log.check(log.latest())


@pytest.mark.long
def test_what_has_gone_by_the_retention_is_refused(data: DataDir, stream: Stream, clock: Clock) -> None:
    log = QueueLog(data, "/", "a")
    appended, held = log.latest(), log.earliest()
    stream.run(150)
    delete_matching(data, "a", None)
    clock.ahead = timedelta(days=3)
    maintain(data, NOTHING_OLD, clock=clock)
    log = QueueLog(data, "/", "a")
    for position in (appended, held):
        with pytest.raises(Refused, match="can no longer be forwarded") as refused:
            log.files(position)
        assert "--start-over" in str(refused.value.hint)


@pytest.mark.long
def test_maintenance_keeps_what_is_not_forwarded_yet(data: DataDir, stream: Stream, clock: Clock) -> None:
    right = Forwarding(data, "f")
    right.move(QueueLog(data, "/", "a").latest())
    stream.run(150)
    delete_matching(data, "a", None)
    clock.ahead = timedelta(days=3)
    report = maintain(data, NOTHING_OLD, clock=clock)
    (one,) = [table for table in report.tables if table.name.endswith("/a")]
    assert one.held_by == ("forward f",)
    assert right.position is not None
    assert rows_from(data, right.position) == batches(*range(150))
    right.move(QueueLog(data, "/", "a").latest())
    maintain(data, NOTHING_OLD, clock=clock)
    assert data_files_of(data.queue("/", "a")) == set()


@pytest.mark.long
def test_a_snapshot_is_kept_until_it_is_forwarded(data: DataDir, stream: Stream, clock: Clock) -> None:
    stream.run(150)
    begin = QueueLog(data, "/", "a").earliest()
    Forwarding(data, "f").move(begin)
    delete_matching(data, "a", None)
    stream.run(150)
    clock.ahead = timedelta(days=3)
    maintain(data, NOTHING_OLD, clock=clock)
    assert rows_from(data, begin) == batches(*range(300))


def test_a_forwarder_that_has_not_moved_for_long_holds_nothing(data: DataDir) -> None:
    Forwarding(data, "f").move(place(3))
    folder = file_at(data.root, "forwards", "f")
    (name,) = folder.files()
    content = json.loads((folder / name).read() or b"")
    now = int(content["moved_ms"])
    assert [hold.version for hold in find_holds(data, timedelta(days=30), now).active] == [2]
    later = find_holds(data, timedelta(days=30), now + 31 * 86_400_000)
    assert (later.active, [hold.stream for hold in later.expired]) == ((), ["forward f"])


def test_a_log_entry_that_is_damaged_is_named(data: DataDir, stream: Stream) -> None:
    begin = QueueLog(data, "/", "a").latest()
    stream.run(1)
    log = QueueLog(data, "/", "a")
    file_at(log.path, "_delta_log", f"{begin.version:020}.json").replace(b'{"add": 1')
    with pytest.raises(Refused, match="damaged"):
        log.files(begin)
