"""A message that was unroutable and that a backfill and a redrive both lead to a queue is brought by one of them."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from bindery.router.declarations import TopologyEditor
from bindery.router.message import Message
from bindery.router.model import Binding, Exchange
from bindery.router.values import Table
from bindery.store import faults, tables
from bindery.store.backfill import Backfiller, Selection
from bindery.store.backfill_records import Records
from bindery.store.maintenance.journals import Kept, keep_journal, past_keeping, trimmed_mark
from bindery.store.maintenance.trimming import trim
from bindery.store.manifest import read_manifest
from bindery.store.paths import DataDir
from bindery.store.places import at as place
from bindery.store.read import read_queue, take
from bindery.store.rebuild import Rebuilder
from bindery.store.redrive import Outcome, Redriver
from bindery.store.topology import TopologyStore
from bindery.store.unroutable import Selection as Lost
from tests.examples import FACTOR
from tests.unit.store.conftest import Crash, crash, declare_queues
from tests.unit.store.conftest import at as reached
from tests.unit.store.routed import route

CLOCK = 1_700_000_000_000


def keys(data: DataDir, queue: str = "q") -> list[str]:
    """The messages of a queue, by their routing keys."""
    return sorted(read_queue(data, queue)["routing_key"].to_pylist())


def bound(*queues: str) -> Callable[[TopologyEditor], None]:
    def change(editor: TopologyEditor) -> None:
        for queue in queues:
            for exchange in ("late", "quiet"):
                editor.bind(Binding(0, "/", exchange, queue))

    return change


def begin(store: TopologyStore) -> None:
    """Two exchanges that lead nowhere; what reaches no queue by "quiet" has a row in the journal alone."""

    def change(editor: TopologyEditor) -> None:
        editor.declare_exchange(Exchange("/", "late", "fanout"))
        quiet = Table({"x-record-unroutable": False})
        editor.declare_exchange(Exchange("/", "quiet", "fanout", arguments=quiet))

    store.create()
    store.edit(change, author="t")
    store.edit(declare_queues("q", "other"), author="t")


@pytest.fixture
def lost(data: DataDir, store: TopologyStore) -> TopologyStore:
    """Three messages that reached no queue, before the queues were bound; one is known to the journal alone."""
    begin(store)
    messages = [
        Message(exchange, key, application_properties=Table({"n": number}))
        for number, (exchange, key) in enumerate((("late", "a"), ("late", "b"), ("quiet", "c")))
    ]
    route(data, store, messages, journal=True, clock_ms=CLOCK)
    store.edit(bound("q", "other"), author="t")
    return store


def redrive(data: DataDir, store: TopologyStore, *, dry_run: bool = False) -> Outcome:
    return Redriver(data, store, "/").redrive(Lost(), journals=True, dry_run=dry_run)


def test_a_redrive_leaves_out_what_a_backfill_has_brought(data: DataDir, lost: TopologyStore) -> None:
    """Whether it was consumed or not; the queues that were not backfilled get it."""
    assert Backfiller(data, lost, "/").backfill("q", Selection(filter="JMSPriority = 4")).rows == 3
    assert take(data, "q", limit=1).rows.num_rows == 1
    for dry_run in (True, False):
        found = redrive(data, lost, dry_run=dry_run).as_data()
        assert (found["redriven"], found["copies"], found["queues"]) == (3, 3, {"other": 3})
        assert found["backfilled"] == {"q": 3}
    assert (len(keys(data)), keys(data, "other")) == (2, ["a", "b", "c"])
    assert redrive(data, lost).redriven == 0


def test_what_a_backfill_did_not_ask_for_is_redriven(data: DataDir, lost: TopologyStore) -> None:
    assert Backfiller(data, lost, "/").backfill("q", Selection(filter="n > 1")).rows == 1
    assert redrive(data, lost).backfilled == {"q": 1}
    assert keys(data) == ["a", "b", "c"]


@pytest.mark.parametrize("point", ["redrive.planned", "redrive.marked", "batch.pinned", "batch.appending"])
def test_a_backfill_amid_a_redrive_brings_nothing_twice(data: DataDir, lost: TopologyStore, point: str) -> None:
    """What the redrive has chosen by then is chosen anew, or is what the backfill leaves out."""
    with faults.installed(reached(point, lambda: Backfiller(data, lost, "/").backfill("q"))):
        redrive(data, lost)
    assert (keys(data), keys(data, "other")) == (["a", "b", "c"], ["a", "b", "c"])


@pytest.mark.parametrize("point", ["backfill.ordered", "write.after", "backfill.planned", "backfill.appended"])
def test_a_redrive_amid_a_backfill_brings_nothing_twice(data: DataDir, lost: TopologyStore, point: str) -> None:
    with faults.installed(reached(point, lambda: redrive(data, lost))):
        Backfiller(data, lost, "/").backfill("q")
    assert (keys(data), keys(data, "other")) == (["a", "b", "c"], ["a", "b", "c"])


def test_a_stretch_that_was_planned_is_carried_out_before_a_redrive(data: DataDir, lost: TopologyStore) -> None:
    with faults.installed(reached("backfill.planned", crash)), pytest.raises(Crash):
        Backfiller(data, lost, "/").backfill("q")
    assert keys(data) == []
    assert redrive(data, lost).backfilled == {"q": 3}
    assert keys(data) == ["a", "b", "c"]


def test_what_a_redrive_had_delivered_when_it_died_is_no_backfills(data: DataDir, lost: TopologyStore) -> None:
    """The queue's table has the copies, and its batch has not ended: whoever ends it counts them."""
    with faults.installed(reached("batch.in_tables", crash)), pytest.raises(Crash):
        redrive(data, lost)
    assert Backfiller(data, lost, "/").backfill("q").rows == 0
    found = redrive(data, lost)
    assert (found.queues, found.backfilled) == ({"q": 3, "other": 3}, {})
    (ended,) = (row for row in read_manifest(data) if row["stream"] == "redrive:/")
    assert {one["name"]: one["rows"] for one in ended["tables"]} == {"q": 3, "other": 3}


def let_go(data: DataDir) -> None:
    """Remove every row of the journal, as maintenance does once they are old."""
    keep_journal(data, "flights", "/", Kept(age=timedelta(days=1)))
    log = tables.open_log(data.journal("flights"), tables.JOURNAL, files=True)
    assert trim(log, lambda: past_keeping(log, CLOCK + 10 * 86_400_000), lambda gone: trimmed_mark(log, gone))


def test_what_the_journal_had_let_go_of_is_redriven(data: DataDir, lost: TopologyStore) -> None:
    """A backfill says that it went through all batches, and the journal had nothing of the first."""
    let_go(data)
    route(data, lost, [Message("late", "d")], batch_id=1, journal=True, clock_ms=CLOCK + 1)
    lost.edit(declare_queues("new"), author="t")
    lost.edit(bound("new"), author="t")
    assert Backfiller(data, lost, "/").backfill("new").rows == 1
    assert redrive(data, lost).backfilled == {}
    assert keys(data, "new") == ["a", "b", "d"]


def test_what_a_backfill_brought_is_known_when_the_journal_has_let_go_of_it(data: DataDir, lost: TopologyStore) -> None:
    """As long as the unroutable table has messages that may be redriven."""
    Backfiller(data, lost, "/").backfill("q")
    assert take(data, "q", limit=3).rows.num_rows == 3
    let_go(data)
    route(data, lost, [Message("late", "d")], batch_id=1, journal=True, clock_ms=CLOCK + 1)
    records = Records(data, "/", "q")
    Backfiller(data, lost, "/").finish()
    assert not records.orders()
    assert [one.through for one in records.stretches()] == [0, 1]
    assert redrive(data, lost).backfilled == {"q": 2}
    assert keys(data) == ["d"]
    Backfiller(data, lost, "/").finish()
    assert [one.through for one in records.stretches()] == [1]


def test_a_lost_table_gets_what_a_redrive_had_left_to_a_backfill(data: DataDir, lost: TopologyStore) -> None:
    Backfiller(data, lost, "/").backfill("q")
    assert redrive(data, lost).backfilled == {"q": 3}
    place(data.queue("/", "q")).remove_folder()
    Rebuilder(data, lost, "/").rebuild("q")
    assert keys(data) == ["a", "b", "c"]


class Beside(RuleBasedStateMachine):
    """Backfills and redrives that die, or meet the other one, at any point: a message comes to a queue once.

    Both are done in the end, so every message is in each queue or was taken from it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.data = DataDir.open(self.folder.name, create=True)
        self.store = TopologyStore(self.data)
        begin(self.store)
        self.batch = 0
        self.sent: list[str] = []
        self.taken: Counter[tuple[str, str]] = Counter()
        self.route(1, 1)

    def teardown(self) -> None:
        self.store.edit(bound("q", "other"), author="t")
        redrive(self.data, self.store)
        for queue in ("q", "other"):
            Backfiller(self.data, self.store, "/").backfill(queue)
            assert self.had(queue) == Counter(self.sent), queue
        self.folder.cleanup()

    def had(self, queue: str) -> Counter[str]:
        taken = {key: times for (name, key), times in self.taken.items() if name == queue}
        return Counter(keys(self.data, queue)) + Counter(taken)

    def amid(self, work: Callable[[], object], number: int, other: Callable[[], object] | None) -> None:
        """Do something that dies at a point, or meets something else there."""
        points = 0

        def hook(_point: str, _path: str) -> None:
            nonlocal points
            points += 1
            if points == number:
                if other is None:
                    raise Crash
                with faults.installed(lambda _point, _path: None):
                    other()

        try:
            with faults.installed(hook):
                work()
        except Crash:
            self.store = TopologyStore(self.data)

    @rule(late=st.integers(0, 2), quiet=st.integers(0, 2))
    def route(self, late: int, quiet: int) -> None:
        exchanges = ["late"] * late + ["quiet"] * quiet
        messages = [Message(name, f"{self.batch}.{n}") for n, name in enumerate(exchanges)]
        route(self.data, self.store, messages, batch_id=self.batch, journal=True, clock_ms=CLOCK + self.batch)
        self.sent += [one.routing_key for one in messages]
        self.batch += 1

    @rule(queue=st.sampled_from(["q", "other"]))
    def bind(self, queue: str) -> None:
        self.store.edit(bound(queue), author="t")

    @rule(queue=st.sampled_from(["q", "other"]), number=st.integers(1, 40), meets=st.booleans())
    def backfill(self, queue: str, number: int, meets: bool) -> None:
        def other() -> None:
            redrive(self.data, TopologyStore(self.data))

        self.amid(lambda: Backfiller(self.data, self.store, "/").backfill(queue), number, other if meets else None)

    @rule(queue=st.sampled_from(["q", "other"]), number=st.integers(1, 60), meets=st.booleans())
    def redrive(self, queue: str, number: int, meets: bool) -> None:
        def other() -> None:
            Backfiller(self.data, TopologyStore(self.data), "/").backfill(queue)

        self.amid(lambda: redrive(self.data, self.store), number, other if meets else None)

    @rule(queue=st.sampled_from(["q", "other"]))
    def take(self, queue: str) -> None:
        rows = take(self.data, queue, limit=1).rows
        self.taken.update((queue, key) for key in rows["routing_key"].to_pylist())

    @invariant()
    def no_message_comes_twice(self) -> None:
        for queue in ("q", "other"):
            assert max(self.had(queue).values(), default=1) == 1, queue


def test_backfills_and_redrives_that_meet_or_die_bring_each_message_once() -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Beside,
        settings=settings(
            max_examples=max(1, round(25 * FACTOR)),
            stateful_step_count=10,
            deadline=None,
            phases=[Phase.explicit, Phase.generate],  # to shrink takes many times as long as to read it
            suppress_health_check=list(HealthCheck),
        ),
    )
