"""Limits of queues: what stays, against a slow reference; what is read for it; who may come in between."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bindery.router.message import QUEUE_SCHEMA, Message, value_row
from bindery.router.model import Queue
from bindery.router.queue_limits import LimitsOf, QueueLimits
from bindery.router.values import Table, Timestamp, Value
from bindery.store import data_files, faults, file_rows, read, tables
from bindery.store.deferred import flushing
from bindery.store.deferred.tail import Tail
from bindery.store.limit_counts import deleted
from bindery.store.limiting import LimitsReport, keep_limits
from bindery.store.log import TableLog, entry_name
from bindery.store.maintenance import Policy as Keeping
from bindery.store.maintenance import maintain
from bindery.store.maintenance.upkeep import Upkeep
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from tests.unit.store.conftest import FailingDisk, at, declare_queues, remove_data_files
from tests.unit.store.maintenance.test_upkeep import eventually
from tests.unit.store.routed import route
from tests.unit.store.test_deferred import declare

NUMBERS = itertools.count()


@dataclass(frozen=True)
class Row:
    """A message of a queue; `key` names it. Times are in milliseconds."""

    key: str
    routed: int
    ttl: int | None = None
    body: bytes | None = b""
    value: Value = None

    def as_row(self, batch: int, seq: int) -> dict[str, Any]:
        routing = {"topology_version": 1, "stream": "s", "batch_id": batch, "seq": seq, "bindings": [1]}
        header = None if self.ttl is None else {"ttl": self.ttl}
        return {
            "exchange": "x",
            "routing_key": self.key,
            "header": header,
            "body": self.body,
            "application_properties": None if self.value is None else [("v", value_row(self.value))],
            "routing": routing,
            "routed_at": self.routed * 1000,
        }


def fill(data: DataDir, name: str, *files: Sequence[Row]) -> None:
    """Append files of rows to a queue, each in a commit."""
    log = tables.open_log(data.queue("/", name), tables.QUEUE, files=True)
    for rows in files:
        log.refresh()
        with data_files.Draft(log) as draft:
            listed = [row.as_row(next(NUMBERS), 0) for row in rows]
            draft.write(pa.Table.from_pylist(listed, schema=QUEUE_SCHEMA))
            assert draft.commit() is not None


def keep(data: DataDir, limits: QueueLimits, *, now: int, name: str = "q", dry_run: bool = False) -> LimitsReport:
    found = keep_limits(TopologyStore(data), Queue("/", name), limits, lambda: now, dry_run=dry_run)
    assert found.error is None
    return found


def keys(data: DataDir, name: str = "q") -> list[str]:
    return read.read_queue(data, name, columns=["routing_key"])["routing_key"].to_pylist()


def plain(*times: int, **more: Any) -> list[Row]:
    return [Row(f"k{next(NUMBERS)}", time, **more) for time in times]


@pytest.fixture
def q(data: DataDir, store: TopologyStore) -> DataDir:
    store.edit(declare_queues("q"), author="t")
    return data


# -- what stays ---------------------------------------------------------------------------------------


def reference(rows: Sequence[Row], limits: QueueLimits, now: int) -> tuple[list[Row], list[Row], list[Row]]:
    """What stays, what has expired and what is too many, one row after the other; `rows` are in row order."""
    stays: list[Row] = []
    expired, dropped = [], []
    for place, row in enumerate(rows):
        lives = [one for one in (limits.ttl_ms, row.ttl) if one is not None]
        end = None if limits.ttl_ms is None else row.routed + min(lives)
        later = [] if row.value is None else [one for one in rows[place + 1 :] if alike(one.value, row.value)]
        if limits.last_value_key == "v" and later and (end is None or later[0].routed < end):
            continue
        (expired if end is not None and end <= now else stays).append(row)
    while stays and (
        (limits.max_rows is not None and len(stays) > limits.max_rows)
        or (limits.max_bytes is not None and sum(len(row.body or b"") for row in stays) > limits.max_bytes)
    ):
        dropped.append(stays.pop(0))
    return stays, expired, dropped


def alike(one: Value, other: Value) -> bool:
    return type(one) is type(other) and one == other


ROWS = st.lists(
    st.builds(
        Row,
        key=st.builds(lambda: f"k{next(NUMBERS)}"),
        routed=st.integers(1_000, 1_020),
        ttl=st.none() | st.integers(0, 30),
        body=st.none() | st.binary(max_size=4),
        value=st.sampled_from([None, None, 1, 1.0, True, "1", b"1", Timestamp(1), ("1",)]),
    ),
    min_size=1,
    max_size=6,
)
SOME = st.none() | st.integers(0, 12)


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    files=st.lists(ROWS, max_size=4),
    limits=st.builds(
        QueueLimits,
        ttl_ms=st.none() | st.integers(0, 30),
        max_rows=SOME,
        max_bytes=SOME,
        last_value_key=st.sampled_from([None, "v", "w"]),
    ),
    now=st.integers(1_000, 1_040),
)
def test_what_stays_is_what_a_broker_would_keep(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[Row]], limits: QueueLimits, now: int
) -> None:
    data = DataDir.open(str(tmp_path_factory.getbasetemp() / "limits"), create=True)
    store = TopologyStore(data)
    store.create()
    name = f"q{next(NUMBERS)}"
    store.edit(declare_queues(name), author="t")
    fill(data, name, *files)
    rows = sorted(
        (row for rows in files for row in rows), key=lambda row: row.routed
    )  # equal ones as they were written
    stays, expired, dropped = reference(rows, limits, now)
    before = keep(data, limits, now=now, name=name, dry_run=True)
    assert keys(data, name) == [row.key for row in rows]
    found = keep(data, limits, now=now, name=name)
    assert found == before
    assert (found.expired, found.overflowed) == (len(expired), len(dropped))
    assert found.replaced == len(rows) - len(stays) - len(expired) - len(dropped)
    assert keys(data, name) == [row.key for row in stays]
    if limits.ttl_ms is not None and stays:
        ends = [row.routed + min(one for one in (limits.ttl_ms, row.ttl) if one is not None) for row in stays]
        assert found.next_ms is not None and now < found.next_ms + 1 <= min(ends) + 1
    again = keep(data, limits, now=now, name=name)
    assert not again.is_touched


def test_what_is_too_much_in_bytes_is_what_bodies_and_values_hold(q: DataDir) -> None:
    log = tables.open_log(q.queue("/", "q"), tables.QUEUE, files=True)
    values = [{"amqp_value": {"string": "12345"}}, {"amqp_sequence": {"nested": "[1]"}}, {"body": b"12"}]
    rows = [Row(str(n), n).as_row(n, 0) | {"body": None} | value for n, value in enumerate(values)]
    with data_files.Draft(log) as draft:
        draft.write(pa.Table.from_pylist(rows, schema=QUEUE_SCHEMA))
        draft.commit()
    assert keep(q, QueueLimits(max_bytes=10), now=0).overflowed == 0
    assert keep(q, QueueLimits(max_bytes=9), now=0).overflowed == 1
    assert keep(q, QueueLimits(max_bytes=4), now=0).overflowed == 1


def test_a_message_that_had_expired_when_the_next_one_came_was_not_replaced(q: DataDir) -> None:
    fill(q, "q", [Row("a", 0, 5, value=1), Row("b", 5, value=1), Row("c", 7, value=1)])
    found = keep(q, QueueLimits(ttl_ms=50, last_value_key="v"), now=10)
    assert (found.expired, found.replaced) == (1, 1)
    assert keys(q) == ["c"]


# -- deferred queues ----------------------------------------------------------------------------------


def test_limits_act_on_what_waits_for_a_deferred_queue(data: DataDir, store: TopologyStore) -> None:
    """As on the rows of a table; what no limit acts on goes on waiting."""
    declare(store, late=3_600)

    def arrive(batch: int, at_ms: int) -> None:
        route(data, store, [Message("", "late", body=b"x")] * 2, batch_id=batch, clock_ms=at_ms)

    def held() -> tuple[int, int]:
        found = read.counted(data, "late")
        return found.rows, found.waiting

    arrive(0, 1_000)
    assert keep(data, QueueLimits(ttl_ms=100), now=1_050, name="late").expired == 0
    assert held() == (2, 2)
    assert keep(data, QueueLimits(ttl_ms=100), now=1_100, name="late", dry_run=True).expired == 0
    assert keep(data, QueueLimits(ttl_ms=100), now=1_100, name="late").expired == 2
    assert held() == (0, 0)
    arrive(1, 2_000)
    arrive(2, 3_000)
    assert keep(data, QueueLimits(max_rows=4), now=9_000, name="late").overflowed == 0
    assert held() == (4, 4)
    assert keep(data, QueueLimits(max_rows=3), now=9_000, name="late").overflowed == 1
    assert held() == (3, 0)
    arrive(3, 4_000)
    assert keep(data, QueueLimits(max_bytes=4), now=9_000, name="late").overflowed == 1
    assert held() == (4, 0)


@pytest.mark.local_only  # which damages a file
def test_where_a_journal_cannot_be_read_limits_hold_for_the_table(data: DataDir, store: TopologyStore) -> None:
    declare(store, late=3_600)
    route(data, store, [Message("", "late")] * 4)
    read.take(data, "late", limit=0)
    Path(data.journal("flights"), "_delta_log", entry_name(0)).write_text("{")
    found = keep_limits(TopologyStore(data), Queue("/", "late"), QueueLimits(max_rows=1), lambda: 9_000)
    assert found.overflowed == 3
    assert "flights" in (found.error or "")


# -- what it costs ------------------------------------------------------------------------------------


def test_a_pass_reads_of_a_journal_what_its_queues_lack(
    data: DataDir, store: TopologyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = Table({"x-freshness": 36_000, "x-max-length-bytes": 1_000_000})
    store.edit(lambda editor: editor.declare_queue(Queue("/", "bounded", arguments=arguments)), author="t")
    declare(store, late=36_000)
    files: list[int] = []
    monkeypatch.setattr(flushing, "Tail", lambda *given: files.append(len(given[1])) or Tail(*given))
    with Upkeep(data, limits_each=3_600) as upkeep:
        for batch in range(4):
            route(data, store, [Message("", "bounded"), Message("", "late")], batch_id=batch)
            upkeep._keep_limits()
        assert files == [1, 1, 1, 1]
        assert [one.fresh for one in upkeep._tables.values()] == [4]


def test_a_pass_reads_a_journal_once_for_all_queues(
    data: DataDir, store: TopologyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"late{number}" for number in range(5)]
    arguments = Table({"x-freshness": 3_600, "x-max-length": 2})
    store.edit(
        lambda editor: [editor.declare_queue(Queue("/", name, arguments=arguments)) for name in names], author="t"
    )
    route(data, store, [Message("", name) for name in names for _ in range(3)])
    tails: list[Collection[int]] = []
    monkeypatch.setattr(flushing, "Tail", lambda *given: tails.append(given[2]) or Tail(*given))
    assert [one.overflowed for one in maintain(data).limits] == [1] * 5
    assert [len(queues) for queues in tails] == [5]
    assert {read.counted(data, name).rows for name in names} == {2}


def test_files_that_go_whole_are_not_read(q: DataDir) -> None:
    fill(q, "q", plain(1, 2), plain(3, 4), plain(100, 200))
    remove_first_two(q)
    found = keep(q, QueueLimits(ttl_ms=50), now=60)
    assert (found.expired, found.files) == (4, 2)
    assert found.bytes > 0
    assert found.next_ms == 150


def test_the_oldest_files_go_without_being_read(q: DataDir) -> None:
    fill(q, "q", plain(1, 2), plain(3, 4), plain(100, 200, 300))
    remove_first_two(q)
    assert keep(q, QueueLimits(max_rows=3), now=0).overflowed == 4


def test_a_file_that_begins_first_does_not_go_whole_when_it_ends_later(q: DataDir) -> None:
    fill(q, "q", [Row("a", 1), Row("b", 100)], [Row("c", 20), Row("d", 30)])
    assert keep(q, QueueLimits(max_rows=2), now=0).overflowed == 2
    assert keys(q) == ["d", "b"]


def remove_first_two(data: DataDir) -> None:
    """The data of the two files that begin first are gone; the log has them still."""
    log = TableLog(data.queue("/", "q"), files=True)
    for name in list(tables.files_of(log))[:2]:
        data_files.drop_unused(log.path, [name])


def test_nothing_is_read_of_a_queue_that_keeps_its_limits(q: DataDir, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(q, "q", plain(100, 200), plain(100, 200))

    def nothing(*_: Any, **__: Any) -> Any:
        raise AssertionError("rows were read")

    monkeypatch.setattr(file_rows, "batches", nothing)
    assert not keep(q, QueueLimits(ttl_ms=50, max_rows=4), now=120).is_touched


def test_last_values_are_looked_for_where_files_have_changed_only(q: DataDir, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(q, "q", [Row("a", 1, value=1)], [Row("b", 2, value=1)])
    assert keep(q, QueueLimits(last_value_key="v"), now=3).replaced == 1
    assert keep(q, QueueLimits(last_value_key="v"), now=3).replaced == 0
    looked: list[str] = []
    original = file_rows.batches

    def batches(path: str, name: str, *more: Any, **options: Any) -> Any:
        looked.append(name)
        return original(path, name, *more, **options)

    monkeypatch.setattr(file_rows, "batches", batches)
    assert not keep(q, QueueLimits(last_value_key="v"), now=3).is_touched
    assert looked == []
    fill(q, "q", [Row("c", 4, value=1)])
    assert keep(q, QueueLimits(last_value_key="v"), now=3).replaced == 1


def test_a_queue_without_limits_is_not_looked_at(q: DataDir, store: TopologyStore) -> None:
    fill(q, "q", plain(1, 2, ttl=1))
    remove_data_files(q.queue("/", "q"))
    assert list(LimitsOf(store.load()).limited()) == []
    assert maintain(q, Keeping(), dry_run=True).limits == []


# -- beside others ------------------------------------------------------------------------------------


def test_what_somebody_takes_meanwhile_is_not_missed(q: DataDir) -> None:
    fill(q, "q", plain(1, 2, 3), plain(4, 5, 6))
    late = plain(7)

    def meanwhile() -> None:
        assert read.take(q, "q", limit=1).rows.num_rows == 1
        fill(q, "q", late)

    with faults.installed(at("write.before", meanwhile, where="limits-")):
        found = keep(q, QueueLimits(max_rows=4), now=0)
    # of six one was taken; the one that came is judged with the others, since they were judged anew
    assert found.overflowed == 2
    assert keys(q)[-1] == late[0].key
    assert len(keys(q)) == 4


@pytest.mark.parametrize("number", range(1, 7))
def test_a_disk_that_fails_loses_nothing(q: DataDir, number: int) -> None:
    fill(q, "q", plain(1, 2, 3))
    before = keys(q)
    disk = FailingDisk(number)
    with faults.installed(disk):
        found = keep_limits(TopologyStore(q), Queue("/", "q"), QueueLimits(max_rows=2), lambda: 0)
    assert (found.error is None) or disk.failed
    assert keys(q) in (before, before[1:])
    keep(q, QueueLimits(max_rows=2), now=0)
    assert keys(q) == before[1:]
    assert deleted(TableLog(q.queue("/", "q"))) == {"expired": 0, "maxlen": 1, "replaced": 0}


def test_deletions_are_counted_for_all_time(q: DataDir) -> None:
    fill(q, "q", plain(1, 2, 3))
    keep(q, QueueLimits(max_rows=2), now=0)
    keep(q, QueueLimits(ttl_ms=1), now=3)
    assert deleted(TableLog(q.queue("/", "q"))) == {"expired": 1, "maxlen": 1, "replaced": 0}


# -- maintenance --------------------------------------------------------------------------------------


def limited(**arguments: Any) -> Callable[..., None]:
    table = Table({name.replace("_", "-"): value for name, value in arguments.items()})
    return lambda editor: editor.declare_queue(Queue("/", "l", arguments=table))


def test_maintenance_keeps_limits(q: DataDir, store: TopologyStore) -> None:
    store.edit(limited(x_max_length=1), author="t")
    fill(q, "l", plain(1, 2))
    fill(q, "q", plain(1, 2))
    dry = maintain(q, Keeping(), dry_run=True)
    assert [(one.queue, one.overflowed) for one in dry.limits] == [("l", 1)]
    assert len(keys(q, "l")) == 2
    assert [one.overflowed for one in maintain(q, Keeping()).limits] == [1]
    assert (len(keys(q, "l")), len(keys(q))) == (1, 2)


def test_limits_are_kept_beside_a_service(q: DataDir, store: TopologyStore) -> None:
    store.edit(limited(x_message_ttl=1), author="t")
    fill(q, "l", plain(1, 2))
    with Upkeep(q, limits_each=0.05) as upkeep:
        eventually(lambda: keys(q, "l") == [])
        # nobody else commits to the table: what limits delete is reason to clean it up
        eventually(lambda: [one.uncleaned for one in upkeep._tables.values()] == [1])
