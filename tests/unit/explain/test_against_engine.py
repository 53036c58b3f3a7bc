"""Explain agrees with the engine on random topologies, and what it blames is to blame."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bindery.router.declarations import TopologyEditor
from bindery.router.engine import Router
from bindery.router.explain import Cause, Explainer, Explanation
from bindery.router.message import Message, to_batch
from bindery.router.model import DEFAULT_VHOST, Binding, Divert, Queue, Topology, is_predeclared
from bindery.router.values import Table
from tests.unit.engine.test_against_reference import outcomes
from tests.unit.engine.topologies import maze_messages, mazes, messages, topologies

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def explain(topology: Topology, *batch: Message, queues: bool = True) -> list[Explanation]:
    asked = [name for _, name in topology.queues] if queues else []
    return Explainer(topology, DEFAULT_VHOST).explain(to_batch(batch), clock_ms=0, queues=asked)


@given(topologies() | mazes(), st.lists(messages | maze_messages, max_size=6))
@settings(suppress_health_check=QUIET, deadline=None, max_examples=60)
def test_an_explanation_ends_where_the_engine_ends(topology: Topology, batch: list[Message]) -> None:
    routed = outcomes(Router.compile(topology, DEFAULT_VHOST), batch)
    for explained, outcome in zip(explain(topology, *batch), routed, strict=True):
        assert frozenset(explained.queues) == outcome.queues
        assert explained.lineage == outcome.lineage
        assert (explained.reason, explained.disposition) == (outcome.reason, outcome.disposition)
        delivered = {
            step.link.destination for visit in explained.visits for step in visit.steps if step.verdict == "delivered"
        }
        assert delivered == outcome.queues
        taken = {
            step.link.id
            for visit in explained.visits
            for step in visit.steps
            if step.verdict in ("delivered", "queue-filter", "forwarded") and step.link.id is not None
        }
        assert taken == set(outcome.lineage)
        for answer in explained.why_not:
            assert answer.reached == (answer.queue in outcome.queues)
            assert answer.reached or answer.causes


@given(topologies() | mazes(), messages | maze_messages)
@settings(suppress_health_check=QUIET, deadline=None, max_examples=60)
def test_visits_follow_from_one_another(topology: Topology, message: Message) -> None:
    (explained,) = explain(topology, message, queues=False)
    assert len({(visit.exchange, visit.keys) for visit in explained.visits}) == len(explained.visits)
    for visit in explained.visits:
        assert visit.arrivals
        for step in visit.steps:
            # a filter is shown as not true exactly where it stopped the message
            stopped = step.verdict in ("filter", "queue-filter")
            assert stopped == any(verdict.result is not True for verdict in step.filters)
            assert all(verdict.culprits for verdict in step.filters if verdict.result is not True)


@given(topologies() | mazes(), messages | maze_messages, st.data())
@settings(suppress_health_check=QUIET, deadline=None, max_examples=120)
def test_a_cause_that_is_removed_is_named_no_more(topology: Topology, message: Message, data: st.DataObject) -> None:
    (explained,) = explain(topology, message)
    causes = [(answer.queue, cause) for answer in explained.why_not for cause in answer.causes]
    if not causes:
        return
    queue, cause = data.draw(st.sampled_from(causes))
    editor = TopologyEditor(topology)
    repaired_message = REPAIRS[cause.kind](editor, message, cause, explained, queue)
    if repaired_message is None:
        return  # the broker's own rules forbid this repair
    (after,) = explain(editor.topology, repaired_message)
    answer = next(found for found in after.why_not if found.queue == queue)
    assert answer.reached or all(key(after, found) != key(explained, cause) for found in answer.causes), answer


def key(explained: Explanation, cause: Cause) -> object:
    """What makes two causes the same: kind, the link that was not taken, and at which exchange with which keys."""
    visit = None if cause.visit is None else explained.visits[cause.visit - 1]
    where = None if visit is None else (visit.exchange, visit.keys)
    link = (cause.path[0].source, cause.path[0].destination, cause.path[0].id) if cause.path else None
    return cause.kind, link, where, cause.divert and cause.divert.name


def _rebind(editor: TopologyEditor, cause: Cause, **changes: object) -> None:
    assert cause.path[0].id is not None
    binding = editor.topology.bindings[cause.path[0].id]
    editor.unbind(binding)
    editor.bind(replace(binding, **changes))  # type: ignore[arg-type]


def without_filter(
    editor: TopologyEditor, message: Message, cause: Cause, explained: Explanation, queue: str
) -> Message | None:
    link = cause.path[0]
    if link.kind == "divert":
        divert = editor.topology.divert(DEFAULT_VHOST, link.name)
        editor.declare_divert(replace(divert, filter=""), overwrite=True)
        return message
    assert link.id is not None
    arguments = editor.topology.bindings[link.id].arguments
    _rebind(editor, cause, arguments=Table({k: v for k, v in arguments.items() if "x-filter" not in k}))
    return message


def without_queue_filter(
    editor: TopologyEditor, message: Message, cause: Cause, explained: Explanation, queue: str
) -> Message | None:
    editor.declare_queue(Queue(DEFAULT_VHOST, queue), overwrite=True)
    return message


def without_divert(
    editor: TopologyEditor, message: Message, cause: Cause, explained: Explanation, queue: str
) -> Message | None:
    assert cause.divert is not None
    editor.delete_divert(DEFAULT_VHOST, cause.divert.name)
    return message


def with_matching_key(
    editor: TopologyEditor, message: Message, cause: Cause, explained: Explanation, queue: str
) -> Message | None:
    assert cause.visit is not None
    if cause.path[0].source == "":
        return replace(message, cc=(*message.cc, queue))
    _rebind(editor, cause, routing_key=explained.visits[cause.visit - 1].keys[0])
    return message


def without_criteria(
    editor: TopologyEditor, message: Message, cause: Cause, explained: Explanation, queue: str
) -> Message | None:
    assert cause.path[0].id is not None
    arguments = editor.topology.bindings[cause.path[0].id].arguments
    criteria = {name for name in arguments if not name.startswith("x-") or name in ("x-h", "x-match")}
    kept = {name: value for name, value in arguments.items() if name not in criteria}
    _rebind(editor, cause, arguments=Table(kept))
    return message


def alone(editor: TopologyEditor, message: Message, cause: Cause, explained: Explanation, queue: str) -> Message | None:
    """A hash has nothing else to choose."""
    for binding in editor.topology.bindings_from(DEFAULT_VHOST, cause.path[0].source):
        if binding.id != cause.path[0].id:
            editor.unbind(binding)
    return message


def without_other_ways(
    editor: TopologyEditor, message: Message, cause: Cause, explained: Explanation, queue: str
) -> Message | None:
    source = cause.path[0].source
    if source == "":
        return None
    for binding in editor.topology.bindings_from(DEFAULT_VHOST, source):
        editor.unbind(binding)
    for divert in editor.topology.diverts_of(DEFAULT_VHOST, source):
        if divert.source == source:
            editor.delete_divert(DEFAULT_VHOST, divert.name)
    if cause.path[0].kind == "alternate-binding":
        exchange = editor.topology.exchange(DEFAULT_VHOST, source)
        kept = {name: value for name, value in exchange.arguments.items() if name != "alternate-exchange"}
        editor.declare_exchange(replace(exchange, arguments=Table(kept)), overwrite=True)
    return message


def published_there(
    editor: TopologyEditor, message: Message, cause: Cause, explained: Explanation, queue: str
) -> Message | None:
    source = cause.path[0].source
    if editor.topology.exchange(DEFAULT_VHOST, source).internal:
        return None
    return replace(message, exchange=source)


def with_a_way(
    editor: TopologyEditor, message: Message, cause: Cause, explained: Explanation, queue: str
) -> Message | None:
    editor.bind(Binding(0, DEFAULT_VHOST, "amq.fanout", queue))
    editor.declare_divert(Divert(0, DEFAULT_VHOST, "way", message.exchange, "amq.fanout", exclusive=True))
    return message


def accepted(
    editor: TopologyEditor, message: Message, cause: Cause, explained: Explanation, queue: str
) -> Message | None:
    exchange = editor.topology.exchanges.get((DEFAULT_VHOST, message.exchange))
    if exchange is None:
        return replace(message, exchange="amq.fanout")
    assert not is_predeclared(exchange.name)
    editor.declare_exchange(replace(exchange, internal=False), overwrite=True)
    return message


REPAIRS = {
    "filter": without_filter,
    "queue-filter": without_queue_filter,
    "exclusive-divert": without_divert,
    "key": with_matching_key,
    "headers": without_criteria,
    "hash": alone,
    "alternate-not-used": without_other_ways,
    "exchange-not-reached": published_there,
    "nothing-leads-here": with_a_way,
    "no-exchange": accepted,
    "internal-exchange": accepted,
}
