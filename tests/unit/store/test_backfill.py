"""A queue gets what journals have for it, each message once, beside streams, consumers and other backfills."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindery.router.declarations import TopologyEditor
from bindery.router.errors import InvalidDeclaration, NotFound, StorageFailed
from bindery.router.message import QUEUE_SCHEMA, Message
from bindery.router.model import Binding, Exchange, Queue, Topology
from bindery.router.reference import NaiveRouter
from bindery.router.values import Table
from bindery.store import backfill_work, faults, tables
from bindery.store.backfill import Backfiller, Selection
from bindery.store.backfill_records import Records
from bindery.store.commit import BatchCommitter
from bindery.store.copying import copy_data
from bindery.store.maintenance import maintain
from bindery.store.maintenance.journals import Kept, keep_journal
from bindery.store.maintenance.upkeep import Upkeep
from bindery.store.paths import DataDir
from bindery.store.places import at as place
from bindery.store.read import read_queue, take
from bindery.store.redrive import Redriver
from bindery.store.topology import TopologyStore
from bindery.store.unroutable import Selection as Lost
from tests.examples import examples
from tests.unit.store.conftest import Crash, FailingDisk, declare_queues
from tests.unit.store.conftest import at as reached
from tests.unit.store.routed import route

CLOCK = 1_700_000_000_000
SELECTOR = "x-filter-jms-selector"
Identity = tuple[str, int, int]


def bind(editor: TopologyEditor, key: str, queue: str = "q", **arguments: Any) -> None:
    editor.bind(Binding(0, "/", "amq.topic", queue, "queue", key, arguments=Table(arguments)))


def bound(key: str, queue: str = "q", **arguments: Any) -> Any:
    return lambda editor: bind(editor, key, queue, **arguments)


def held(data: DataDir, queue: str = "q") -> list[Identity]:
    """The messages of a queue in row order."""
    found = []
    path = data.queue("/", queue)
    for file in tables.files_of(tables.open_log(path, tables.QUEUE, files=True)):
        found += place(path, file).read_parquet(QUEUE_SCHEMA).to_pylist()
    found.sort(key=lambda row: (row["routed_at"], row["routing"]["stream"], row["routing"]["seq"]))
    return [(row["routing"]["stream"], row["routing"]["batch_id"], row["routing"]["seq"]) for row in found]


def sent(*keys: str) -> list[Message]:
    return [Message("amq.topic", key) for key in keys]


@pytest.fixture
def past(data: DataDir, store: TopologyStore) -> TopologyStore:
    """Three batches from before anything is bound to the queue; the queue "other" has had all of it."""
    store.edit(declare_queues("other"), author="t")
    store.edit(bound("#", "other"), author="t")
    for number in range(3):
        route(data, store, sent("a", "b", "a.c"), batch_id=number, journal=True, clock_ms=CLOCK + number)
    store.edit(declare_queues("q"), author="t")
    return store


# -- what arrives ---------------------------------------------------------------------------------------


def test_a_queue_gets_what_it_would_have_got_and_no_other_queue_anything(data: DataDir, past: TopologyStore) -> None:
    topology = past.edit(bound("a"), author="t").topology
    before = tables.open_log(data.queue("/", "other"), tables.QUEUE).version
    found = Backfiller(data, past, "/").backfill("q")
    assert held(data) == [("flights", number, 0) for number in range(3)]
    assert tables.open_log(data.queue("/", "other"), tables.QUEUE).version == before
    assert found.as_data() == {
        "queue": "q",
        "topology_version": topology.version,
        "rows": 3,
        "first": "2023-11-14T22:13:20.000Z",
        "last": "2023-11-14T22:13:20.002Z",
        "streams": [
            {"stream": "flights", "messages": 9, "rows": 3, "journal_from": "2023-11-14T22:13:20.000Z"},
        ],
        "under_way": [],
        "finished": 0,
    }
    (first, *_) = read_queue(data, "q").to_pylist()
    (binding,) = (one for one in topology.bindings.values() if one.destination == "q")
    assert first["routing"]["bindings"][-1] == binding.id
    assert first["routing"]["topology_version"] == topology.version
    assert first["routed_at"] == datetime.fromtimestamp(CLOCK / 1000, UTC)


def test_a_second_backfill_brings_what_is_new_alone(data: DataDir, past: TopologyStore) -> None:
    """What the stream has delivered, and what an earlier backfill has, stays where it is: even if it was consumed."""
    past.edit(bound("a"), author="t")
    work = Backfiller(data, past, "/")
    assert work.backfill("q", dry_run=True).rows == 3
    assert held(data) == []
    assert work.backfill("q").rows == 3
    route(data, past, sent("a", "b"), batch_id=3, journal=True, clock_ms=CLOCK + 3)
    assert take(data, "q", limit=10).rows.num_rows == 4
    assert work.backfill("q", dry_run=True).rows == 0
    assert work.backfill("q").rows == 0
    past.edit(bound("b"), author="t")
    assert work.backfill("q").rows == 4
    assert held(data) == [("flights", number, 1) for number in range(4)]


def test_times_streams_and_filters_choose(data: DataDir, past: TopologyStore) -> None:
    past.edit(bound("#"), author="t")
    route(data, past, sent("a"), batch_id=0, stream="other", journal=True, clock_ms=CLOCK)
    work = Backfiller(data, past, "/")

    def at(milliseconds: int) -> datetime:
        return datetime.fromtimestamp((CLOCK + milliseconds) / 1000, UTC)

    span = Selection(since=at(1), until=at(2))
    assert work.backfill("q", span).rows == 3
    assert {number for stream, number, _ in held(data) if stream == "flights"} == {1}
    assert work.backfill("q", Selection(stream="other")).rows == 0, "its stream has delivered it"
    assert work.backfill("q", Selection(filter="1 = 2")).rows == 0
    assert work.backfill("q", Selection(stream="flights")).rows == 6
    with pytest.raises(NotFound, match="no journal of stream 'none'"):
        work.backfill("q", Selection(stream="none"))


def test_what_a_redrive_has_brought_is_not_brought_again(data: DataDir, past: TopologyStore) -> None:
    """A message that reached no queue, and was redriven into this one, has had its copy."""
    route(data, past, [Message("none", "a"), Message("none", "b")], batch_id=3, journal=True, clock_ms=CLOCK + 3)

    def declared(editor: TopologyEditor) -> None:
        editor.declare_exchange(Exchange("/", "none", "direct"))
        editor.bind(Binding(0, "/", "none", "q", "queue", "a"))

    past.edit(declared, author="t")
    assert Redriver(data, past, "/").redrive(Lost()).copies == 1
    past.edit(lambda editor: editor.bind(Binding(0, "/", "none", "q", "queue", "b")), author="t")
    assert Backfiller(data, past, "/").backfill("q").rows == 1
    assert Counter(stream for stream, _, _ in held(data)) == {"redrive:/": 1, "flights": 1}


def test_a_queue_declared_anew_is_another_one(data: DataDir, past: TopologyStore) -> None:
    past.edit(bound("a"), author="t")
    work = Backfiller(data, past, "/")
    assert work.backfill("q").rows == 3
    past.edit(lambda editor: editor.delete_queue("/", "q"), author="t")
    assert held(data) == []
    past.edit(declare_queues("q"), author="t")
    past.edit(bound("a"), author="t")
    assert work.backfill("q").rows == 3


def test_a_queue_deleted_meanwhile_gets_nothing(data: DataDir, past: TopologyStore) -> None:
    past.edit(bound("a"), author="t")

    def delete() -> None:
        past.edit(lambda editor: editor.delete_queue("/", "q"), author="t")

    with faults.installed(reached("backfill.planned", delete)), pytest.raises(NotFound):
        Backfiller(data, past, "/").backfill("q")
    assert held(data) == []
    past.edit(declare_queues("q"), author="t")
    past.edit(bound("a"), author="t")
    assert Records(data, "/", "q").orders() == []
    assert Backfiller(data, past, "/").backfill("q").rows == 3


# -- the seam -------------------------------------------------------------------------------------------


def test_a_batch_under_way_by_an_older_topology_is_waited_for(data: DataDir, past: TopologyStore) -> None:
    """It is pinned before the binding was there and commits after the backfill began: no gap, and no overlap."""
    older = past.load().version
    with BatchCommitter(data, stream="flights", app_id="flights:c") as driver:
        driver.pin(3, older, CLOCK + 3)
    past.edit(bound("a"), author="t")
    work = Backfiller(data, past, "/")
    found = work.backfill("q")
    assert found.rows == 3
    assert [(one.stream, one.batch_id, one.topology_version) for one in found.under_way] == [("flights", 3, older)]

    def commit() -> None:
        # the pin says by which topology
        route(data, TopologyStore(data), sent("a", "b"), batch_id=3, journal=True, version=older)

    ending = threading.Timer(0.5, commit)
    ending.start()
    found = work.backfill("q", wait=20)
    ending.join()
    assert (found.finished, found.rows, found.under_way) == (0, 1, ())
    route(data, past, sent("a", "b"), batch_id=4, journal=True, clock_ms=CLOCK + 4)
    assert work.finish() == {}
    assert held(data) == [("flights", number, 0) for number in range(5)]
    assert Records(data, "/", "q").orders() == [], "the stream has begun a batch by the newer topology"


def test_what_is_routed_after_it_is_the_affair_of_the_stream(data: DataDir, past: TopologyStore) -> None:
    """An order that is open brings nothing of a batch by a later topology, which does not lead there any more."""
    past.edit(bound("a"), author="t")
    assert Backfiller(data, past, "/").backfill("q").rows == 3
    past.edit(unbound("a"), author="t")
    route(data, past, sent("a"), batch_id=3, journal=True, clock_ms=CLOCK + 3)
    assert len(Records(data, "/", "q").orders()) == 1
    assert Backfiller(data, past, "/").finish() == {}
    assert len(held(data)) == 3


def test_maintenance_brings_what_was_under_way(data: DataDir, past: TopologyStore) -> None:
    older = past.load().version
    with BatchCommitter(data, stream="flights", app_id="flights:c") as driver:
        driver.pin(3, older, CLOCK + 3)
    past.edit(bound("a"), author="t")
    Backfiller(data, past, "/").backfill("q")
    route(data, past, sent("a"), batch_id=3, journal=True, version=older)
    assert maintain(data, dry_run=True).backfilled == {}
    assert maintain(data).backfilled == {"/": {"q": 1}}
    assert maintain(data).backfilled == {}
    assert len(held(data)) == 4


# -- x-backfill -----------------------------------------------------------------------------------------


def declared(seconds: int) -> Any:
    return lambda editor: editor.declare_queue(Queue("/", "new", arguments=Table({"x-backfill": seconds})))


def test_each_new_way_to_a_queue_brings_what_was_routed_before_it(data: DataDir, store: TopologyStore) -> None:
    now = time.time_ns() // 1_000_000
    for number, ago in enumerate((500, 50, 40)):
        route(data, store, sent("a", "b"), batch_id=number, journal=True, clock_ms=now - ago * 1000)
    store.edit(declared(200), author="t")
    maintain(data)
    assert held(data, "new") == [], "nothing leads there"
    store.edit(bound("a", "new"), author="t")
    assert maintain(data, dry_run=True).backfilled == {"/": {"new": 2}}
    assert held(data, "new") == []
    with Upkeep(data, limits_each=0.1):
        wait_until(lambda: held(data, "new") == [("flights", 1, 0), ("flights", 2, 0)])
    take(data, "new", limit=10)
    store.edit(bound("b", "new"), author="t")
    assert maintain(data).backfilled == {"/": {"new": 2}}
    assert held(data, "new") == [("flights", 1, 1), ("flights", 2, 1)]
    store.edit(declare_queues("unrelated"), author="t")
    assert maintain(data, dry_run=True).backfilled == {}
    assert maintain(data).backfilled == {}


def test_a_way_over_exchanges_counts(data: DataDir, store: TopologyStore) -> None:
    def change(editor: TopologyEditor) -> None:
        declared(100)(editor)
        editor.declare_exchange(Exchange("/", "inner", "fanout"))
        editor.bind(Binding(0, "/", "inner", "new", "queue", ""))

    store.edit(change, author="t")
    route(data, store, sent("a"), journal=True)
    assert maintain(data).backfilled == {}
    store.edit(lambda editor: editor.bind(Binding(0, "/", "amq.topic", "inner", "exchange", "a")), author="t")
    assert maintain(data).backfilled == {"/": {"new": 1}}


def test_seconds_that_are_none_are_refused(store: TopologyStore) -> None:
    with pytest.raises(InvalidDeclaration, match="'x-backfill' is -1") as refused:
        store.edit(declared(-1), author="t")
    assert refused.value.hint == "seconds, 0 or more"


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


# -- faults ---------------------------------------------------------------------------------------------


@pytest.fixture
def portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch is a portion of its own."""
    monkeypatch.setattr(backfill_work, "MAX_READ", 1)


@pytest.mark.local_only
@pytest.mark.usefixtures("portions")
@pytest.mark.parametrize("side", ["before", "after"])
def test_a_death_at_any_effect_is_gone_on_from(tmp_path: Path, side: str) -> None:
    number = 0
    while True:
        number += 1
        data = DataDir.open(tmp_path / f"{number}", create=True)
        store = TopologyStore(data)
        store.create()
        prepare(data, store)
        seen = 0

        def hook(point: str, _path: str, wanted: int = number) -> None:
            nonlocal seen
            if faults.is_effect(point) and point.endswith(side):
                seen += 1
                if seen == wanted:
                    raise Crash

        try:
            with faults.installed(hook):
                Backfiller(data, store, "/").backfill("q")
        except Crash:
            pass
        else:
            break
        finally:
            store = TopologyStore(data)
        if number % 2:
            Backfiller(data, store, "/").finish()
            route(data, store, sent("a"), batch_id=3, journal=True, clock_ms=CLOCK + 3)
            Backfiller(data, store, "/").backfill("q")
        else:
            Backfiller(data, store, "/").backfill("q")
            route(data, store, sent("a"), batch_id=3, journal=True, clock_ms=CLOCK + 3)
        assert held(data) == [("flights", batch, 0) for batch in range(4)], (side, number)
    assert number > 8


def prepare(data: DataDir, store: TopologyStore) -> None:
    store.edit(declare_queues("q"), author="t")
    for number in range(3):
        route(data, store, sent("a", "b"), batch_id=number, journal=True, clock_ms=CLOCK + number)
    store.edit(bound("a"), author="t")


@pytest.mark.local_only
@pytest.mark.usefixtures("portions")
@pytest.mark.parametrize("point", ["backfill.ordered", "backfill.planned", "backfill.appended"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_two_backfills_at_once_bring_everything_once(
    data: DataDir, past: TopologyStore, point: str, number: int
) -> None:
    past.edit(bound("a"), author="t")
    outcomes = []

    def other() -> None:
        outcomes.append(Backfiller(data, TopologyStore(data), "/").backfill("q"))

    with faults.installed(reached(point, other, number=number)):
        outcomes.append(Backfiller(data, past, "/").backfill("q"))
    assert held(data) == [("flights", number, 0) for number in range(3)]
    assert sum(one.rows + one.finished for one in outcomes) == 3


@pytest.mark.local_only
def test_many_backfills_and_a_stream_at_once(data: DataDir, past: TopologyStore, portions: None) -> None:
    past.edit(bound("a"), author="t")
    workers = [
        threading.Thread(target=lambda: Backfiller(data, TopologyStore(data), "/").backfill("q")) for _ in range(3)
    ]
    for worker in workers:
        worker.start()
    for number in range(3, 6):
        route(data, past, sent("a"), batch_id=number, journal=True, clock_ms=CLOCK + number)
    for worker in workers:
        worker.join()
    assert held(data) == [("flights", number, 0) for number in range(6)]


@pytest.mark.local_only
@pytest.mark.usefixtures("portions")
def test_a_full_disk_leaves_nothing_half_done(data: DataDir, past: TopologyStore) -> None:
    past.edit(bound("a"), author="t")
    for number in range(1, 60):
        disk = FailingDisk(number)
        try:
            with faults.installed(disk):
                Backfiller(data, past, "/").backfill("q")
        except StorageFailed:
            continue
        if not disk.failed:
            break
    assert held(data) == [("flights", number, 0) for number in range(3)]


# -- keeping house --------------------------------------------------------------------------------------


def test_records_go_with_the_batches_that_they_are_about(data: DataDir, past: TopologyStore) -> None:
    past.edit(bound("a"), author="t")
    Backfiller(data, past, "/").backfill("q")
    route(data, past, sent("a"), batch_id=3, journal=True)
    keep_journal(data, "flights", "/", Kept())
    records = Records(data, "/", "q")
    assert [one.number for one in records.stretches()] == [1]
    maintain(data)  # the batches of long ago go
    maintain(data)
    assert [(one.number, one.after, one.through) for one in records.stretches()] == [(2, 2, 3)]
    assert Backfiller(data, past, "/").backfill("q").rows == 0


def test_a_copy_knows_what_was_brought(data: DataDir, past: TopologyStore, tmp_path: Path) -> None:
    past.edit(bound("a"), author="t")
    Backfiller(data, past, "/").backfill("q")
    take(data, "q", limit=10)
    copy_data(data, DataDir.named(tmp_path / "copy"))
    copied = DataDir.open(tmp_path / "copy")
    store = TopologyStore(copied)
    assert Backfiller(copied, store, "/").backfill("q").rows == 0
    store.edit(bound("b"), author="t")
    assert Backfiller(copied, store, "/").backfill("q").rows == 3


# -- against a reference --------------------------------------------------------------------------------


STEPS = st.one_of(
    st.tuples(st.just("route"), st.lists(st.sampled_from(["a", "b", "a.b"]), min_size=1, max_size=4)),
    st.tuples(st.just("bind"), st.sampled_from(["a", "b", "#", "*.b"])),
    st.tuples(st.just("unbind"), st.sampled_from(["a", "b", "#", "*.b"])),
    st.tuples(st.just("backfill"), st.sampled_from([None, 2, 4])),
    st.tuples(st.just("take"), st.integers(1, 3)),
)


@given(st.lists(STEPS, max_size=14))
@examples(30)
def test_the_queue_is_as_if_it_had_been_there_from_the_start(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Any]]
) -> None:
    """After the last backfill: all that the stream has delivered or a backfill's topology leads there, once each."""
    data = DataDir.open(tmp_path_factory.mktemp("data"), create=True)
    store = TopologyStore(data)
    store.create()
    store.edit(declare_queues("q"), author="t")
    keep_journal(data, "flights", "/", Kept())
    journaled: list[tuple[Identity, Message, int]] = []
    expected: set[Identity] = set()
    taken: list[Identity] = []
    batch = 0
    for step, value in [*steps, ("backfill", None)]:
        topology = store.load()
        if step == "route":
            found = [(("flights", batch, seq), message, batch) for seq, message in enumerate(sent(*value))]
            expected |= naive(topology, found)
            journaled += found
            route(data, store, [message for _, message, _ in found], batch_id=batch, journal=True, clock_ms=batch + 1)
            batch += 1
        elif step == "bind":
            store.edit(bound(value), author="t")
        elif step == "unbind":
            store.edit(unbound(value), author="t")
        elif step == "take":
            rows = take(data, "q", limit=value).rows.to_pylist()
            taken += [tuple(row["routing"][name] for name in ("stream", "batch_id", "seq")) for row in rows]
        else:
            since = None if value is None else datetime.fromtimestamp((batch - value + 1) / 1000, UTC)
            Backfiller(data, store, "/").backfill("q", Selection(since=since))
            expected |= naive(topology, (one for one in journaled if value is None or one[2] >= batch - value))
        assert sorted([*held(data), *taken]) == sorted(expected)


def naive(topology: Topology, found: Any) -> set[Identity]:
    """The messages that reach the queue, one at a time."""
    router = NaiveRouter(topology, "/")
    return {identity for identity, message, _ in found if "q" in router.route(message).queues}


def unbound(key: str) -> Any:
    def change(editor: TopologyEditor) -> None:
        for one in [
            one for one in editor.topology.bindings.values() if one.routing_key == key and one.destination == "q"
        ]:
            editor.unbind(one)

    return change
