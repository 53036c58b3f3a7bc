"""Moves and copies to an exchange: each message routed anew, once, whatever dies or comes in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bindery.router.declarations import TopologyEditor
from bindery.router.errors import InvalidDeclaration, InvalidInput, NotFound, UnsupportedTable
from bindery.router.filters import parse
from bindery.router.message import MESSAGE_SCHEMA, Message, from_batch
from bindery.router.model import Binding, Exchange, Queue
from bindery.router.reference import NaiveRouter
from bindery.router.values import Table
from bindery.store import carrying, faults, moves, queue_copies, read, recorded
from bindery.store.destinations import ToExchange, ToQueue
from bindery.store.maintenance.leftovers import leftovers
from bindery.store.maintenance.policy import Policy
from bindery.store.manifest import read_manifest
from bindery.store.moves import Mover
from bindery.store.paths import DataDir
from bindery.store.places import at as below
from bindery.store.queue_copies import copy_messages
from bindery.store.topology import TopologyStore
from bindery.store.transfers import Transfer, Transferred
from tests.unit.store.conftest import Crash, FailingDisk, at, crash, declare_queues
from tests.unit.store.routed import route

Act = Callable[[DataDir, TopologyStore, Transfer], Transferred]


def move(data: DataDir, store: TopologyStore, chosen: Transfer) -> Transferred:
    return Mover(data, store, "/").move(chosen)


VERBS = {"move": move, "copy": copy_messages}


def bound(*bindings: tuple[str, str]) -> Callable[[TopologyEditor], None]:
    """The direct exchange x with bindings (key, queue)."""

    def change(editor: TopologyEditor) -> None:
        editor.declare_exchange(Exchange("/", "x", "direct"))
        for key, queue in bindings:
            editor.bind(Binding(0, "/", "x", queue, routing_key=key))

    return change


def message(number: int, **more: Any) -> Message:
    return Message("", "a", application_properties=Table({"n": number}), body=b"%d" % number, **more)


@pytest.fixture
def store(data: DataDir) -> TopologyStore:
    """Six messages in queue a, in two files; x sends key `a` to b and c, and key `retry` to d."""
    store = TopologyStore(data)
    store.create()
    store.edit(declare_queues("a", "b", "c", "d"), author="t")
    store.edit(bound(("a", "b"), ("a", "c"), ("retry", "d")), author="t")
    for batch in range(2):
        sent = [message(n, header={"delivery_count": 2}) for n in range(3 * batch, 3 * batch + 3)]
        route(data, store, sent, batch_id=batch, clock_ms=1_000_000 + batch)
    return store


def numbers(data: DataDir, queue: str) -> list[Any]:
    return [found.application_properties["n"] for found in from_batch(read.read_queue(data, queue))]


def held(data: DataDir, queues: str = "abcd") -> dict[str, list[Any]]:
    return {name: found for name in queues if (found := numbers(data, name))}


def to(name: str = "x", key: str | None = None, *, text: str | None = None, limit: int | None = None) -> Transfer:
    return Transfer("/", "a", ToExchange(name, key), None if text is None else parse(text, "jms"), limit)


def plans(data: DataDir) -> list[str]:
    return [
        name for kind in ("moves", "copies") for name in below(data.root, kind).within() if name.endswith(".parquet")
    ]


@pytest.mark.parametrize("verb", VERBS)
def test_messages_are_published_to_the_exchange_under_their_own_keys(
    data: DataDir, store: TopologyStore, verb: str
) -> None:
    before = read.read_queue(data, "a")
    done = VERBS[verb](data, store, to(text="n < 4"))
    assert (done.messages, done.queues, done.unroutable, len(done.batches)) == (4, {"b": 4, "c": 4}, {}, 1)
    assert held(data) == {"a": [4, 5] if verb == "move" else [*range(6)], "b": [*range(4)], "c": [*range(4)]}
    rows = read.read_queue(data, "b")
    changed = ("exchange", "header")
    same = [name for name in (*MESSAGE_SCHEMA.names, "source") if name not in changed]
    assert rows.select(same).equals(before.select(same).slice(0, 4))
    assert set(rows["exchange"].to_pylist()) == {"x"}
    assert {row["delivery_count"] for row in rows["header"].to_pylist()} == {0}
    assert {f"{row.stream}:{row.batch_id}" for row in read.row_ids(rows)} == set(done.batches)
    lineage = {id for row in rows["routing"].to_pylist() for id in row["bindings"]}
    assert lineage == {binding.id for binding in store.load().bindings.values() if binding.routing_key == "a"}
    assert plans(data) == []


@pytest.mark.parametrize("verb", VERBS)
def test_a_routing_key_replaces_all_keys(data: DataDir, store: TopologyStore, verb: str) -> None:
    route(data, store, [message(9, cc=("retry",))], batch_id=2, clock_ms=1_000_002)
    last = to(text="n = 9")
    assert VERBS[verb](data, store, replace(last, to=ToExchange("x", "retry"))).queues == {"d": 1}
    (row,) = read.read_queue(data, "d").to_pylist()
    assert (row["routing_key"], row["cc"]) == ("retry", None)
    if verb == "copy":
        assert VERBS[verb](data, store, last).queues == {"b": 1, "c": 1, "d": 1}  # its own, `cc` among them


def test_what_reaches_no_queue_stays_and_is_counted_before(data: DataDir, store: TopologyStore) -> None:
    def narrow(editor: TopologyEditor) -> None:
        for name, filtered in (("e", "n < 2"), ("f", "n = 0")):
            editor.declare_queue(Queue("/", name, arguments=Table({"x-queue-filter": filtered})))
            editor.bind(Binding(0, "/", "x", name, routing_key="narrow"))

    store.edit(narrow, author="t")
    chosen = to("x", "narrow", text="n < 5")
    for look in (Mover(data, store, "/").move(chosen, dry_run=True), copy_messages(data, store, chosen, dry_run=True)):
        assert (look.messages, look.queues, look.unroutable) == (2, {"e": 2, "f": 1}, {"filtered": 3})
    assert held(data) == {"a": [*range(6)]}
    done = move(data, store, chosen)
    assert (done.messages, done.queues, done.unroutable) == (2, {"e": 2, "f": 1}, {"filtered": 3})
    assert held(data, "aef") == {"a": [2, 3, 4, 5], "e": [0, 1], "f": [0]}
    assert move(data, store, to("x", "nothing")).unroutable == {"no_binding": 4}
    assert sum(batch.num_rows for batch in recorded.rows_of(data, "/", None)) == 0  # they are found where they were


def test_the_default_exchange_sends_to_the_queue_of_the_key(data: DataDir, store: TopologyStore) -> None:
    assert move(data, store, to("", "d")).queues == {"d": 6}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("chosen", "error"),
    [
        (to("nowhere"), NotFound),
        (to("inside"), InvalidInput),
        (to("x", "k" * 256), InvalidDeclaration),
        (replace(to(), source="nowhere"), NotFound),
    ],
)
def test_what_cannot_be_is_refused(
    data: DataDir, store: TopologyStore, chosen: Transfer, error: type[Exception], verb: str
) -> None:
    store.edit(lambda editor: editor.declare_exchange(Exchange("/", "inside", "fanout", internal=True)), author="t")
    with pytest.raises(error):
        VERBS[verb](data, store, chosen)
    assert (held(data), plans(data)) == ({"a": [*range(6)]}, [])


@pytest.mark.parametrize("portion", [1, 2, 200_000])
@pytest.mark.parametrize("verb", VERBS)
def test_what_comes_back_to_its_queue_is_not_taken_again(
    data: DataDir, store: TopologyStore, monkeypatch: pytest.MonkeyPatch, portion: int, verb: str
) -> None:
    monkeypatch.setattr(moves, "MAX_ROWS", portion)
    monkeypatch.setattr(queue_copies, "_PORTION", portion)

    def circle(editor: TopologyEditor) -> None:
        for name in ("a", "b"):
            wanted = Table({"x-filter-jms-selector": "n <> 1"})
            editor.bind(Binding(0, "/", "x", name, routing_key="round", arguments=wanted))

    store.edit(circle, author="t")
    assert VERBS[verb](data, store, to("x", "round")).queues == {"a": 5, "b": 5}
    again = [0, 2, 3, 4, 5]
    assert held(data) == {"a": [*([1] if verb == "move" else range(6)), *again], "b": again}


# -- deaths and rivals ----------------------------------------------------------------------------------

STEPS = [
    *(("move", step) for step in ("planned", "claiming", "claimed", "delivered")),
    *(("copy", step) for step in ("planned", "claiming", "claimed", "delivered")),
]


def left(verb: str, *, gone: int) -> list[int]:
    return [*range(gone if verb == "move" else 0, 6)]


@pytest.mark.parametrize(("verb", "step"), STEPS)
def test_one_that_dies_is_finished_by_the_next_one(data: DataDir, store: TopologyStore, verb: str, step: str) -> None:
    with faults.installed(at(f"{verb}.{step}", crash)), pytest.raises(Crash):
        VERBS[verb](data, store, to(limit=4))
    # the plan says where they go: what the exchange does by now changes nothing
    store.edit(bound(("a", "d")), author="t")
    done = move(data, store, Transfer("/", "d", ToQueue("a")))
    assert (done.messages, done.finished) == (0, 4)
    assert held(data) == {"a": left(verb, gone=4), "b": [*range(4)], "c": [*range(4)]}
    assert plans(data) == []
    assert copy_messages(data, store, to(limit=1)).queues == {"b": 1, "c": 1, "d": 1}


@pytest.mark.parametrize(("verb", "step"), STEPS)
def test_one_that_others_help_with_and_overtake_doubles_nothing(
    data: DataDir, store: TopologyStore, verb: str, step: str
) -> None:
    with faults.installed(at(f"{verb}.{step}", lambda: VERBS[verb](data, store, to(key="retry", text="n = 5")))):
        done = VERBS[verb](data, store, to(limit=4))
    assert (done.messages, done.queues) == (4, {"b": 4, "c": 4})
    rest = [4] if verb == "move" else [*range(6)]
    assert held(data) == {"a": rest, "b": [*range(4)], "c": [*range(4)], "d": [5]}
    assert plans(data) == []


@pytest.mark.parametrize("step", ["planned", "claimed"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_later_plan_delivers_the_one_that_was_claimed_before_it(
    data: DataDir, store: TopologyStore, monkeypatch: pytest.MonkeyPatch, verb: str, step: str
) -> None:
    """Tables remember the newest number of a stream only. A plan that was not claimed by then is made anew."""
    monkeypatch.setattr(carrying, "finish", lambda *_, **__: 0)
    with faults.installed(at(f"{verb}.{step}", lambda: VERBS[verb](data, store, to(key="retry", text="n = 5")))):
        assert VERBS[verb](data, store, to(limit=4)).messages == 4
    rest = [4] if verb == "move" else [*range(6)]
    assert held(data) == {"a": rest, "b": [*range(4)], "c": [*range(4)], "d": [5]}
    assert plans(data) == []


@pytest.mark.parametrize("verb", VERBS)
def test_only_rows_that_every_queue_is_gone_of_go_back(data: DataDir, store: TopologyStore, verb: str) -> None:
    def half(editor: TopologyEditor) -> None:
        editor.declare_queue(Queue("/", "few", arguments=Table({"x-queue-filter": "n < 2"})))
        for name in ("few", "d"):
            editor.bind(Binding(0, "/", "x", name, routing_key="half"))

    store.edit(half, author="t")
    before = read.read_queue(data, "a")
    with faults.installed(at(f"{verb}.claimed", lambda: store.edit(lambda e: e.delete_queue("/", "d"), author="t"))):
        done = VERBS[verb](data, store, to(key="half"))
    assert (done.messages, done.queues, numbers(data, "few")) == (2, {"few": 2}, [0, 1])
    assert read.read_queue(data, "a").equals(before.slice(2 if verb == "move" else 0))
    if verb == "move":
        assert done.unroutable == {"filtered": 4}  # a second look


def test_a_transfer_is_a_batch_of_the_manifest(data: DataDir, store: TopologyStore) -> None:
    for verb, act in VERBS.items():
        (batch,) = act(data, store, to(limit=2)).batches
        stream, _, number = batch.rpartition(":")
        assert stream == f"{verb}:~2F/a"
        (row,) = read_manifest(data, app_id=stream, batch_id=int(number))
        assert [(one["name"], one["rows"]) for one in row["tables"]] == [("b", 2), ("c", 2)]
        assert (row["records"], row["copies"]) == (2, 4)


def test_a_damaged_plan_of_a_copy_is_named(data: DataDir, store: TopologyStore) -> None:
    with faults.installed(at("copy.claimed", crash)), pytest.raises(Crash):
        copy_messages(data, store, to())
    (name,) = plans(data)
    below(data.root, "copies", name).replace(b"PAR1", mode=0o644, durable=False)
    with pytest.raises(UnsupportedTable, match=f"damaged copy plan .*{name}"):
        move(data, store, to())


def test_drafts_of_copies_are_swept(data: DataDir, store: TopologyStore) -> None:
    draft = below(data.root, "copies", "~2F", "a", ".1.tmp")
    draft.parent.make_folder()
    draft.replace(b"", mode=0o644, durable=False)
    assert draft in leftovers(data, Policy(), 1 << 50)


@pytest.mark.local_only
@pytest.mark.parametrize("dead", [True, False])
@pytest.mark.parametrize("verb", VERBS)
def test_whatever_effect_fails_nothing_is_lost_or_doubled(root: str, verb: str, dead: bool) -> None:
    number = 0
    while True:
        number += 1
        data = DataDir.open(f"{root}/{number}", create=True)
        store = TopologyStore(data)
        store.create()
        store.edit(declare_queues("a", "b", "c"), author="t")
        store.edit(bound(("a", "b"), ("a", "c")), author="t")
        route(data, store, [message(n) for n in range(2)], clock_ms=1_000_000)
        fault = FailingDisk(number, for_long=True)

        def hook(point: str, path: str, fault: FailingDisk = fault) -> None:
            try:
                fault(point, path)
            except OSError:
                if dead:
                    raise Crash from None
                raise

        ended = False
        with faults.installed(hook):
            try:
                VERBS[verb](data, store, to(limit=1))
                ended = True
            except Exception:  # whatever it is: what is there counts
                assert fault.failed
        for name in "abc":
            assert Counter(numbers(data, name)) <= Counter(range(2))
        Mover(data, store, "/").finish()
        arrived = numbers(data, "b")
        assert arrived == numbers(data, "c")
        assert arrived in (([0],) if ended else ([], [0])), number
        assert numbers(data, "a") == ([1] if verb == "move" and arrived else [0, 1]), number
        assert plans(data) == []
        if not fault.failed:
            break
    assert number > 15


# -- a model --------------------------------------------------------------------------------------------

QUEUES = ("a", "b", "c")
KEYS = ("k", "l", "a")


def shown(found: Message) -> tuple[Any, str]:
    return found.application_properties["n"], found.routing_key


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    bindings=st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(QUEUES)), max_size=5),
    steps=st.lists(
        st.tuples(
            st.sampled_from(["move", "copy"]),
            st.sampled_from(QUEUES),
            st.none() | st.sampled_from(KEYS),
            st.none() | st.integers(1, 4),
            st.integers(0, 8),
        ),
        max_size=5,
    ),
)
def test_queues_hold_what_the_slow_router_says(
    tmp_path_factory: pytest.TempPathFactory,
    bindings: list[tuple[str, str]],
    steps: list[tuple[str, str, str | None, int | None, int]],
) -> None:
    data = DataDir.open(tmp_path_factory.mktemp("model"), create=True)
    store = TopologyStore(data)
    store.create()
    store.edit(declare_queues(*QUEUES), author="t")
    store.edit(bound(*bindings), author="t")
    route(data, store, [message(n) for n in range(5)], clock_ms=1_000_000)
    naive = NaiveRouter(store.load(), "/")
    model: dict[str, list[tuple[int, str]]] = {"a": [(n, "a") for n in range(5)], "b": [], "c": []}
    for verb, source, key, limit, death in steps:
        before = model[source]
        goes = [
            sorted(naive.route(replace(message(n), exchange="x", routing_key=key or own)).queues) for n, own in before
        ]
        wanted = [place for place, queues in enumerate(goes) if queues][:limit]
        chosen = Transfer("/", source, ToExchange("x", key), None, limit)
        expected = Counter(queue for place in wanted for queue in goes[place])
        points = [step for kind, step in STEPS if kind == verb]
        if death < len(points) and wanted:
            with faults.installed(at(f"{verb}.{points[death]}", crash)), pytest.raises(Crash):
                VERBS[verb](data, store, chosen)
            assert Mover(data, store, "/").finish() == len(wanted)
        else:
            done = VERBS[verb](data, store, chosen)
            assert (done.messages, done.queues) == (len(wanted), expected)
        if verb == "move":
            model[source] = [one for place, one in enumerate(before) if place not in wanted]
        for place in wanted:
            n, own = before[place]
            for queue in goes[place]:
                model[queue] = [*model[queue], (n, key or own)]
        found = {name: list(map(shown, from_batch(read.read_queue(data, name)))) for name in QUEUES}
        assert found == model
    assert plans(data) == []
