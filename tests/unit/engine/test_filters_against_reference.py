"""Filters of every origin, several on one way, in batches that hold damage: the engine against the naive router."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from bindery.router.declarations import TopologyEditor, binding_filters
from bindery.router.engine import Router
from bindery.router.filters.access import entries
from bindery.router.filters.sets import DEFAULT_SET_LIMITS
from bindery.router.message import Message, from_batch, to_batch
from bindery.router.model import DEFAULT_VHOST, Binding, Queue, Topology
from bindery.router.reference import NaiveRouter
from bindery.router.values import Table
from tests.examples import GENERATED, examples, missing_after
from tests.unit.engine.filtered import Damage, as_arrow, batches, damages, topologies
from tests.unit.engine.test_against_reference import outcomes_of
from tests.unit.filters.kinds import RAW_NESTED


@given(topologies(), batches, damages, st.booleans())
@examples(100)
def test_filters_decide_as_the_rules_say(
    topology: Topology, messages: list[Message], damage: list[Damage], sliced: bool
) -> None:
    batch = as_arrow(messages, damage, sliced=sliced)
    naive = NaiveRouter(topology, DEFAULT_VHOST)
    known = {}
    expected = []
    for message in from_batch(batch):
        text = repr(message)
        if text not in known:
            known[text] = naive.route(message)
        expected.append(known[text])
    assert outcomes_of(Router.compile(topology, DEFAULT_VHOST), batch) == expected


@given(topologies(), batches, damages, st.integers(0, 12))
@examples(25)
def test_what_becomes_of_a_message_does_not_depend_on_its_neighbours(
    topology: Topology, messages: list[Message], damage: list[Damage], cut: int
) -> None:
    batch = as_arrow(messages, damage, sliced=False)
    router = Router.compile(topology, DEFAULT_VHOST)
    together = outcomes_of(router, batch)
    assert outcomes_of(router, batch.slice(0, cut)) + outcomes_of(router, batch.slice(cut)) == together


def test_the_generators_bring_every_combination_of_filters_and_damage() -> None:
    met: Counter[object] = Counter()

    @settings(GENERATED, max_examples=250)
    @given(topologies(), batches, damages)
    def count(topology: Topology, messages: list[Message], damage: list[Damage]) -> None:
        _, queues, bindings, diverts = topology.in_vhost(DEFAULT_VHOST)
        filtered = {queue.name for queue in queues if "x-queue-filter" in queue.arguments}
        diverted = {divert.source for divert in diverts if divert.filter}
        for binding in bindings:
            origins = [name for name in ("x-filter-jms-selector", "x-filters") if name in binding.arguments]
            met[tuple(origins), binding.destination in filtered, binding.source in diverted] += 1
            met["an OR of two kinds of keys beside a selector"] += len(origins) == 2 and _mixed(binding)
        arguments = [(binding.source, binding.routing_key, binding.arguments) for binding in bindings]
        met["shared filters"] += any(one == two and len(one[2]) for one, two in combinations(arguments, 2))
        met["one shape"] += any(_alike(one, two) for one, two in combinations(bindings, 2))
        met["a filter set on a queue"] += any(_holds_set(queue) for queue in queues)
        met[f"{min(len(messages), 3)} messages"] += 1
        met["many messages"] += len(messages) > 50
        met.update(kind for *_, kind, _ in damage)
        met["damage beside good messages"] += bool(damage) and len(messages) > 5

    ways = [
        (tuple(origins), filtered, diverted)
        for size in range(3)
        for origins in combinations(("x-filter-jms-selector", "x-filters"), size)
        for filtered in (False, True)
        for diverted in (False, True)
    ]
    wanted = {*ways, *RAW_NESTED, *(f"{size} messages" for size in (1, 2, 3)), "many messages", "one shape"}
    wanted |= {"an OR of two kinds of keys beside a selector", "shared filters", "a filter set on a queue"}
    wanted |= {"damage beside good messages"}
    assert not missing_after(count, lambda: {name for name in wanted if not met[name]})


def _mixed(binding: Binding) -> bool:
    """Whether the binding's filter set may be led to by two keys on one field."""
    _, filters = binding_filters(binding, owner=None, limits=DEFAULT_SET_LIMITS)
    return any(len({key.ref for key in way.keys}) < len(way.keys) for way in entries(filters.expression))


def _alike(one: Binding, two: Binding) -> bool:
    texts = [str(binding.arguments.get("x-filter-jms-selector")) for binding in (one, two)]
    return one.source == two.source and texts[0] != texts[1] and all(text.startswith("a = ") for text in texts)


def _holds_set(queue: Queue) -> bool:
    return isinstance(queue.arguments.get("x-queue-filter"), Table)


# -- what such runs have found -------------------------------------------------------------------------------


def test_a_filter_set_with_two_keys_for_one_value_counts_once_beside_a_selector() -> None:
    raw = Table({"a": 5})
    members = (
        Table({"descriptor": "amqp:sql-filter", "value": "a = 5"}),
        Table({"descriptor": "amqp:application-properties-filter", "value": raw}),
    )
    either = Table({"f": Table({"descriptor": "amqp:any-filter", "value": members})})
    editor = TopologyEditor(Topology.empty())
    editor.declare_queue(Queue(DEFAULT_VHOST, "q"))
    arguments = Table({"x-filter-jms-selector": "b = 1", "x-filters": either})
    editor.bind(Binding(0, DEFAULT_VHOST, "amq.fanout", "q", arguments=arguments))
    batch = [Message(exchange="amq.fanout", application_properties=Table({"a": 5, "b": number})) for number in (1, 2)]
    naive = NaiveRouter(editor.topology, DEFAULT_VHOST)
    router = Router.compile(editor.topology, DEFAULT_VHOST)
    assert outcomes_of(router, to_batch(batch)) == [naive.route(message) for message in batch]
