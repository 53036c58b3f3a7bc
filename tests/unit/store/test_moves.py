"""Moves and copies from queue to queue: each message once, whatever dies, fails or comes in between."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bindery.router.declarations import TopologyEditor
from bindery.router.errors import CommitConflict, InvalidInput, NotFound, Stopped, StorageFailed, UnsupportedTable
from bindery.router.filters import parse
from bindery.router.message import MESSAGE_SCHEMA, Message, from_batch
from bindery.router.model import Queue, Vhost
from bindery.router.values import Table
from bindery.store import data_files, faults, moves, queue_copies, read
from bindery.store.destinations import ToQueue
from bindery.store.manifest import read_manifest
from bindery.store.moves import Mover
from bindery.store.paths import DataDir
from bindery.store.places import at as place
from bindery.store.queue_copies import copy_messages
from bindery.store.topology import TopologyStore
from bindery.store.transfers import Transfer, queue_log
from tests.unit.store.conftest import Crash, at, crash, declare_queues
from tests.unit.store.routed import route


def message(number: int, **more: Any) -> Message:
    return Message("", "a", application_properties=Table({"n": number}), body=b"%d" % number, **more)


def fill(data: DataDir, store: TopologyStore, *groups: range, first: int = 0) -> None:
    """A batch of messages for queue a per group."""
    for number, group in enumerate(groups):
        route(data, store, [message(n) for n in group], batch_id=first + number, clock_ms=1_000_000 + first + number)


@pytest.fixture
def queues(data: DataDir, store: TopologyStore) -> TopologyStore:
    """Ten messages in queue a, in two files, and empty queues b and c."""
    store.edit(declare_queues("a", "b", "c"), author="t")
    fill(data, store, range(5), range(5, 10))
    return store


def numbers(data: DataDir, queue: str) -> list[Any]:
    """What a queue holds, in row order."""
    return [found.application_properties["n"] for found in from_batch(read.read_queue(data, queue))]


def transfer(source: str = "a", target: str = "b", text: str | None = None, limit: int | None = None) -> Transfer:
    return Transfer("/", source, ToQueue(target), None if text is None else parse(text, "jms"), limit)


def plans(data: DataDir) -> list[str]:
    return [name for name in place(data.root, "moves").within() if name.endswith(".parquet")]


def test_moved_messages_keep_their_content_and_order_and_are_new_rows_of_the_target(
    data: DataDir, queues: TopologyStore
) -> None:
    before = read.read_queue(data, "a").select([*MESSAGE_SCHEMA.names, "source"])
    read.take(data, "a", limit=3, requeue=True)
    done = Mover(data, queues, "/").move(transfer())
    assert (done.messages, done.refused, done.finished) == (10, 0, 0)
    assert numbers(data, "a") == []
    rows = read.read_queue(data, "b")
    assert rows.select(before.column_names).drop_columns("header").equals(before.drop_columns("header"))
    assert {row["header"]["delivery_count"] or 0 for row in rows.to_pylist() if row["header"]} == {0}
    (batch,) = done.batches
    assert {f"{row.stream}:{row.batch_id}" for row in read.row_ids(rows)} == {batch}
    assert [row.seq for row in read.row_ids(rows)] == list(range(10))
    assert {tuple(row["routing"]["bindings"]) for row in rows.to_pylist()} == {()}
    assert plans(data) == []


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        (None, None, range(10)),
        (None, 3, range(3)),
        ("n > 6", None, (7, 8, 9)),
        ("n > 3", 2, (4, 5)),
        ("n > 90", None, ()),
        ("missing = 1", None, ()),
    ],
)
@pytest.mark.long
@pytest.mark.parametrize("portion", [1, 4, 200_000])
def test_what_a_filter_accepts_goes_the_first_in_row_order(
    data: DataDir,
    queues: TopologyStore,
    monkeypatch: pytest.MonkeyPatch,
    text: str | None,
    limit: int | None,
    expected: Any,
    portion: int,
) -> None:
    monkeypatch.setattr(moves, "MAX_ROWS", portion)
    monkeypatch.setattr(queue_copies, "_PORTION", portion)
    chosen = transfer(text=text, limit=limit)
    assert Mover(data, queues, "/").move(chosen, dry_run=True).messages == len(expected)
    assert copy_messages(data, queues, chosen, dry_run=True).messages == len(expected)
    assert (numbers(data, "a"), numbers(data, "b"), plans(data)) == (list(range(10)), [], [])
    assert copy_messages(data, queues, transfer(target="c", text=text, limit=limit)).messages == len(expected)
    assert Mover(data, queues, "/").move(chosen).messages == len(expected)
    assert numbers(data, "b") == numbers(data, "c") == list(expected)
    assert numbers(data, "a") == [n for n in range(10) if n not in expected]


def test_what_the_targets_filter_refuses_stays(data: DataDir, queues: TopologyStore) -> None:
    def narrow(editor: TopologyEditor) -> None:
        editor.declare_queue(Queue("/", "even", arguments=Table({"x-queue-filter": "n = 0 OR n = 2 OR n = 4"})))

    queues.edit(narrow, author="t")
    chosen = transfer(target="even", text="n < 3")
    copied = copy_messages(data, queues, chosen)
    assert (copied.messages, copied.refused, numbers(data, "even")) == (2, 1, [0, 2])
    moved = Mover(data, queues, "/").move(chosen)
    assert (moved.messages, moved.refused, numbers(data, "even")) == (2, 1, [0, 2, 0, 2])
    assert numbers(data, "a") == [1, *range(3, 10)]


@pytest.mark.parametrize(
    ("chosen", "error"),
    [
        (transfer("a", "a"), InvalidInput),
        (transfer("a", "nowhere"), NotFound),
        (transfer("nowhere", "a"), NotFound),
    ],
)
def test_a_transfer_that_cannot_be_is_refused(
    data: DataDir, queues: TopologyStore, chosen: Transfer, error: type[Exception]
) -> None:
    with pytest.raises(error):
        Mover(data, queues, "/").move(chosen)
    with pytest.raises(error):
        copy_messages(data, queues, chosen)


def test_a_move_back_and_forth_doubles_nothing(data: DataDir, queues: TopologyStore) -> None:
    for _ in range(3):
        assert Mover(data, queues, "/").move(transfer("a", "b")).messages == 10
        assert Mover(data, queues, "/").move(transfer("b", "a")).messages == 10
    assert (numbers(data, "a"), numbers(data, "b")) == (list(range(10)), [])


def test_queues_whose_names_look_alike_have_moves_of_their_own(data: DataDir, store: TopologyStore) -> None:
    """The manifest knows the moves of all vhosts: one identifier for two queues would skip what is newer elsewhere."""

    def declare(editor: TopologyEditor) -> None:
        for vhost, name in (("v", "x:q"), ("v", "to"), ("v:x", "q"), ("v:x", "to")):
            editor.declare_vhost(Vhost(vhost))
            editor.declare_queue(Queue(vhost, name))

    store.edit(declare, author="t")
    for number, (vhost, name) in enumerate((("v", "x:q"), ("v:x", "q"))):
        route(data, store, [Message("", name)], vhost=vhost, stream=f"s{number}")
    with faults.installed(at("move.claimed", crash)), pytest.raises(Crash):
        Mover(data, store, "v").move(Transfer("v", "x:q", ToQueue("to")))
    assert Mover(data, store, "v:x").move(Transfer("v:x", "q", ToQueue("to"))).messages == 1
    assert Mover(data, store, "v").finish() == 1
    assert [read.read_queue(data, "to", vhost=vhost).num_rows for vhost in ("v", "v:x")] == [1, 1]


#: Named steps of a move.
STEPS = ("move.planned", "move.claiming", "move.claimed", "move.delivered")


@pytest.mark.parametrize("step", STEPS)
def test_a_move_that_dies_is_finished_by_the_next_one_in_the_vhost(
    data: DataDir, queues: TopologyStore, step: str
) -> None:
    with faults.installed(at(step, crash)), pytest.raises(Crash):
        Mover(data, queues, "/").move(transfer(text="n < 4"))
    fill(data, queues, range(20, 22), first=5)  # meanwhile the stream goes on
    done = Mover(data, queues, "/").move(transfer("c", "b"))
    assert (done.messages, done.finished) == (0, 4)
    assert numbers(data, "b") == list(range(4))
    assert numbers(data, "a") == [*range(4, 10), 20, 21]
    assert plans(data) == []
    assert Mover(data, queues, "/").move(transfer(text="n < 4")).messages == 0


@pytest.mark.parametrize("step", STEPS)
def test_a_move_that_another_one_helps_with_doubles_nothing(data: DataDir, queues: TopologyStore, step: str) -> None:
    with faults.installed(at(step, lambda: Mover(data, queues, "/").finish())):
        done = Mover(data, queues, "/").move(transfer(limit=4))
    assert done.messages == 4
    assert (numbers(data, "a"), numbers(data, "b")) == (list(range(4, 10)), list(range(4)))


@pytest.mark.parametrize("step", STEPS)
def test_a_move_that_others_help_with_and_overtake_moves_no_more_than_it_was_told(
    data: DataDir, queues: TopologyStore, step: str
) -> None:
    with faults.installed(at(step, lambda: Mover(data, queues, "/").move(transfer(target="c", text="n = 8")))):
        done = Mover(data, queues, "/").move(transfer(limit=4))
    assert done.messages == 4
    assert (numbers(data, "b"), numbers(data, "c")) == (list(range(4)), [8])
    assert numbers(data, "a") == [4, 5, 6, 7, 9]


def test_a_plan_is_delivered_before_a_later_one_claims_rows(data: DataDir, queues: TopologyStore) -> None:
    """Tables remember the newest number of a stream only: what came later would be skipped."""
    rival = Mover(data, queues, "/")
    rival.finish = lambda **_: 0  # type: ignore[method-assign]
    with faults.installed(at("move.claimed", lambda: rival.move(transfer(text="n = 8")))):
        done = Mover(data, queues, "/").move(transfer(limit=4))
    assert done.messages == 4
    assert (numbers(data, "b"), numbers(data, "a")) == ([0, 1, 2, 3, 8], [4, 5, 6, 7, 9])
    assert plans(data) == []


@pytest.mark.parametrize("step", ["move.planned", "move.claiming"])
def test_rows_that_a_consumer_takes_first_are_not_moved(data: DataDir, queues: TopologyStore, step: str) -> None:
    with faults.installed(at(step, lambda: read.take(data, "a", limit=2))):
        done = Mover(data, queues, "/").move(transfer(text="n < 5"))
    assert (done.messages, numbers(data, "b")) == (3, [2, 3, 4])
    assert numbers(data, "a") == list(range(5, 10))
    assert plans(data) == []


def test_a_plan_that_was_given_up_can_claim_nothing_any_more(data: DataDir, queues: TopologyStore) -> None:
    """A helper gives a plan up while its rows are away; they come back, and its owner tries to claim them."""
    rival = Mover(data, queues, "/")

    def away_and_back() -> None:
        rows = read.take(data, "a").rows
        rival.finish()
        assert plans(data) == []
        log = queue_log(data, "/", "a")
        with data_files.Draft(log) as draft:
            draft.write(rows)
            assert draft.commit() is not None

    def look() -> None:
        assert plans(data), "rows were claimed whose plan is gone"

    hooks = (at("move.planned", away_and_back), at("move.claimed", look))

    def both(point: str, path: str) -> None:
        for hook in hooks:
            hook(point, path)

    with faults.installed(both):
        done = Mover(data, queues, "/").move(transfer())
    assert (done.messages, numbers(data, "a"), numbers(data, "b")) == (10, [], list(range(10)))


def test_others_that_take_everything_away_end_a_move(data: DataDir, queues: TopologyStore) -> None:
    number = iter(range(100, 200))

    def take() -> None:
        read.take(data, "a")
        fill(data, queues, range(next(number), 300), first=next(number))

    with faults.installed(at("move.planned", take, times=1_000)), pytest.raises(CommitConflict, match="moved nothing"):
        Mover(data, queues, "/").move(transfer())
    assert (numbers(data, "b"), plans(data)) == ([], [])


def delete(name: str) -> Callable[[TopologyEditor], Any]:
    return lambda editor: editor.delete_queue("/", name)


@pytest.mark.parametrize("again", [False, True])
def test_rows_go_back_when_their_target_was_deleted(data: DataDir, queues: TopologyStore, again: bool) -> None:
    before = read.read_queue(data, "a")

    def change() -> None:
        queues.edit(delete("b"), author="t")
        if again:
            queues.edit(declare_queues("b"), author="t")

    with faults.installed(at("move.claimed", change)):
        if again:
            assert Mover(data, queues, "/").move(transfer()).messages == 10
            assert (numbers(data, "a"), numbers(data, "b")) == ([], list(range(10)))
        else:
            with pytest.raises(NotFound):
                Mover(data, queues, "/").move(transfer())
            assert read.read_queue(data, "a").equals(before)
    assert plans(data) == []


def test_rows_that_were_underway_go_with_both_their_queues(data: DataDir, queues: TopologyStore) -> None:
    def change() -> None:
        for name in ("a", "b"):
            queues.edit(delete(name), author="t")
        queues.edit(declare_queues("a", "b"), author="t")

    with faults.installed(at("move.claimed", change)):
        assert Mover(data, queues, "/").move(transfer()).messages == 0
    assert (numbers(data, "a"), numbers(data, "b"), plans(data)) == ([], [], [])


def test_a_target_that_is_deleted_during_a_copy_gets_nothing(data: DataDir, queues: TopologyStore) -> None:
    with (
        faults.installed(at("write.before", lambda: queues.edit(delete("b"), author="t"), where="/b/")),
        pytest.raises(NotFound, match="deleted meanwhile"),
    ):
        copy_messages(data, queues, transfer())
    queues.edit(declare_queues("b"), author="t")
    assert numbers(data, "b") == []


def test_a_move_that_is_stopped_is_finished_by_the_next_one(data: DataDir, queues: TopologyStore) -> None:
    with faults.installed(at("move.claimed", crash)), pytest.raises(Crash):
        Mover(data, queues, "/").move(transfer(limit=2))
    with pytest.raises(Stopped):
        Mover(data, queues, "/").move(transfer(), stop=lambda: True)
    assert numbers(data, "b") == []
    assert Mover(data, queues, "/").move(transfer()).finished == 2
    assert numbers(data, "b") == list(range(10))


def test_a_damaged_plan_is_named(data: DataDir, queues: TopologyStore) -> None:
    with faults.installed(at("move.claimed", crash)), pytest.raises(Crash):
        Mover(data, queues, "/").move(transfer())
    (name,) = plans(data)
    found = place(data.root, "moves", name)
    found.replace(b"PAR1", mode=0o644, durable=False)
    with pytest.raises(UnsupportedTable, match=f"damaged move plan .*{name}"):
        Mover(data, queues, "/").move(transfer())


def test_moves_are_batches_of_the_manifest(data: DataDir, queues: TopologyStore) -> None:
    done = Mover(data, queues, "/").move(transfer())
    (batch,) = done.batches
    stream, _, number = batch.rpartition(":")
    (row,) = read_manifest(data, app_id=stream, batch_id=int(number))
    assert [(one["name"], one["rows"], one["dropped"]) for one in row["tables"]] == [("b", 10, 0)]


# -- every effect ---------------------------------------------------------------------------------------


class Fault:
    """Meets the n-th point before or after an effect: the process dies there, or the disk fails."""

    def __init__(self, number: int, error: Callable[[], BaseException], *, for_ever: bool = False) -> None:
        self.reached = 0
        self.where = ""
        self._number = number
        self._error = error
        self._for_ever = for_ever

    def __call__(self, point: str, path: str) -> None:
        if not faults.is_effect(point) or point.startswith("checkpoint"):
            return
        self.reached += 1
        if self.reached == self._number or (self._for_ever and self.reached > self._number):
            self.where = f"{point} {path}"
            raise self._error()


def full() -> OSError:
    return OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.long
@pytest.mark.parametrize(("kind", "deleted"), [("full for ever", False), ("died", False), ("died", True)])
def test_whatever_effect_of_a_move_fails_nothing_is_lost_or_doubled(root: str, kind: str, deleted: bool) -> None:
    def world(name: str) -> tuple[DataDir, TopologyStore]:
        data = DataDir.open(f"{root}/{name}", create=True)
        store = TopologyStore(data)
        store.create()
        store.edit(declare_queues("a", "b", "c"), author="t")
        fill(data, store, range(2), range(2, 4))
        return data, store

    def move(data: DataDir, store: TopologyStore) -> None:
        change = at("move.claimed", lambda: store.edit(delete("b"), author="t"))
        fault = fault_of[0]

        def hook(point: str, path: str) -> None:
            if deleted and point == "move.claimed":
                with faults.installed(lambda *_: None):
                    change(point, path)
            fault(point, path)

        with faults.installed(hook):
            Mover(data, store, "/").move(transfer(text="n BETWEEN 1 AND 2"))

    fault_of = [Fault(0, full)]
    data, store = world("counted")
    try:
        move(data, store)
    except NotFound:
        assert deleted
    points = fault_of[0].reached
    assert points > 15
    failures = 0
    for number in range(1, points + 1):
        data, store = world(str(number))
        fault_of[0] = Fault(number, Crash if kind == "died" else full, for_ever=kind == "full for ever")
        try:
            move(data, store)
        except (StorageFailed, Crash, NotFound):
            failures += 1
        where = fault_of[0].where
        there = Counter(numbers(data, "a"))
        if ("/", "b") in store.load().queues:
            there += Counter(numbers(data, "b"))
        assert there <= Counter(range(4)), where
        Mover(data, store, "/").move(transfer("c", "a"))
        rest = Counter(numbers(data, "a"))
        if ("/", "b") in store.load().queues:
            assert numbers(data, "b") in ([], [1, 2]), where
            rest += Counter(numbers(data, "b"))
        assert rest == Counter(range(4)), where
        assert plans(data) == [], where
    assert failures > points // 2


@pytest.mark.long
@pytest.mark.parametrize("kind", ["full", "full for ever", "died"])
def test_whatever_effect_of_a_copy_fails_all_of_it_is_there_or_nothing(root: str, kind: str) -> None:
    def world(name: str) -> tuple[DataDir, TopologyStore]:
        data = DataDir.open(f"{root}/{name}", create=True)
        store = TopologyStore(data)
        store.create()
        store.edit(declare_queues("a", "b"), author="t")
        fill(data, store, range(3))
        return data, store

    counted = Fault(0, full)
    with faults.installed(counted):
        copy_messages(*world("counted"), transfer())
    outcomes: Counter[bool] = Counter()
    for number in range(1, counted.reached + 1):
        data, store = world(str(number))
        fault = Fault(number, Crash if kind == "died" else full, for_ever=kind == "full for ever")
        failed = False
        try:
            with faults.installed(fault):
                copy_messages(data, store, transfer())
        except (StorageFailed, Crash):
            failed = True
        found = numbers(data, "b")
        assert found in ([], [0, 1, 2]), fault.where
        assert kind == "died" or failed == (found == []), fault.where
        assert numbers(data, "a") == [0, 1, 2]
        outcomes[failed] += 1
    assert outcomes[True] > 2


# -- a model --------------------------------------------------------------------------------------------

QUEUES = ("a", "b", "c")


@st.composite
def transfers(draw: st.DrawFn) -> tuple[str, str, int, int, int | None]:
    """source, target, remainder of n by 3 that is wanted (3: everything), step at which it dies (4: none), limit."""
    source, target = draw(st.permutations(QUEUES))[:2]
    return source, target, draw(st.integers(0, 3)), draw(st.integers(0, 4)), draw(st.none() | st.integers(1, 4))


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(st.tuples(st.sampled_from(["move", "copy", "get"]), transfers()), max_size=6))
def test_queues_hold_what_a_simple_model_says(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, tuple[str, str, int, int, int | None]]]
) -> None:
    """A move that dies is over once the next one has begun; everything else happens at once."""
    data = DataDir.open(tmp_path_factory.mktemp("model"), create=True)
    store = TopologyStore(data)
    store.create()
    store.edit(declare_queues(*QUEUES), author="t")
    fill(data, store, range(3), range(3, 8))
    model: dict[str, list[int]] = {"a": list(range(8)), "b": [], "c": []}
    for kind, (source, target, remainder, step, limit) in steps:
        text = " OR ".join(f"n = {n}" for n in range(remainder, 8, 3))
        condition = None if remainder == 3 else parse(text, "jms")
        wanted = [n for n in model[source] if remainder in (3, n % 3)][:limit]
        chosen = Transfer("/", source, ToQueue(target), condition, limit)
        if kind == "move":
            if step < len(STEPS) and wanted:
                with faults.installed(at(STEPS[step], crash)), pytest.raises(Crash):
                    Mover(data, store, "/").move(chosen)
                assert Mover(data, store, "/").finish() == len(wanted)
            else:
                assert Mover(data, store, "/").move(chosen).messages == len(wanted)
        elif kind == "copy":
            assert copy_messages(data, store, chosen).messages == len(wanted)
        else:
            read.take(data, source, limit=limit, condition=condition)
        if kind != "copy":
            left = Counter(wanted)
            kept = []
            for n in model[source]:
                left[n] -= 1
                if left[n] < 0:
                    kept.append(n)
            model[source] = kept
        if kind != "get":
            model[target] = model[target] + wanted
        assert {name: numbers(data, name) for name in QUEUES} == model
    assert plans(data) == []
