"""Running `route`, `bridge` and `declare` cases."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from bindery.conformance.cases import Case, became
from bindery.conformance.declarations import refusal
from bindery.conformance.guard import defined, evaluated
from bindery.conformance.report import Outcome
from bindery.conformance.topology import declare
from bindery.jobs.consume import Consumer
from bindery.router.declarations import stated_payload
from bindery.router.engine import DISPOSITIONS, Router
from bindery.router.errors import InvalidInput, InvalidRecord
from bindery.router.filters import Filter, evaluate
from bindery.router.links import Link, transform_of
from bindery.router.message import Message, from_batch, to_batch
from bindery.router.model import DEFAULT_VHOST
from bindery.router.reference import NaiveRouter
from bindery.router.transforms.statements import SECTIONS
from bindery.store.consumer_filters import consumer_filter


def run_declare(case: Case) -> Outcome:
    """Declares a topology through the model, and asks the rules of declaration about it."""
    raw, compat = case.content["topology"], case.content.get("compat")
    return Outcome(case, engine=defined(_accepted, raw, compat), reference=defined(_allowed, raw))


def run_route(case: Case, *, clock_ms: int) -> Outcome:
    """Publishes the messages of a case: through the router as one batch, through the naive one by one.

    A message that is no valid record is routed by neither: it reaches no queue.
    """
    content = case.content
    return Outcome(
        case, engine=evaluated(_routed, content, clock_ms), reference=evaluated(_routed_naively, content, clock_ms)
    )


def run_bridge(case: Case, *, clock_ms: int) -> Outcome:
    """Publishes the messages of a case and lets its bridges feed exchanges with what enters their queues."""
    content = case.content

    def engine() -> list[list[str]]:
        router = Router.compile(declare(content["topology"], content.get("compat")), DEFAULT_VHOST)

        def route(message: Message) -> set[str]:
            return {router.queues[n] for n in router.route(to_batch([message]), clock_ms=clock_ms).queue.tolist()}

        def accepts(condition: Filter | None, message: Message) -> bool:
            consumer = Consumer.of(condition)
            return consumer is None or bool(consumer.accepted(to_batch([message]), clock_ms=clock_ms).size)

        return _bridged(content, route, accepts)

    def reference() -> list[list[str]]:
        naive = NaiveRouter(declare(content["topology"], content.get("compat")), DEFAULT_VHOST)
        return _bridged(
            content,
            lambda message: naive.route(message, clock_ms=clock_ms).queues,
            lambda condition, message: condition is None or evaluate(condition, message, clock_ms=clock_ms) is True,
        )

    return Outcome(case, engine=evaluated(engine), reference=evaluated(reference))


def _accepted(topology: Mapping[str, Any], compat: str | None) -> str:
    declare(topology, compat)
    return "ok"


def _allowed(topology: Mapping[str, Any]) -> str:
    return "error" if refusal(topology) else "ok"


def _messages(content: Mapping[str, Any]) -> list[Message | None]:
    return [
        _message({key: part for key, part in item.items() if key not in _EXPECTATIONS}) for item in content["messages"]
    ]


#: Members of a message of a case that are no part of the record.
_EXPECTATIONS: Final = ("expect", "disposition", "copies")


def _message(raw: Mapping[str, Any]) -> Message | None:
    try:
        return Message.from_json(raw)
    except InvalidRecord:
        return None


def _routed(content: Mapping[str, Any], clock_ms: int) -> list[Any]:
    router = Router.compile(declare(content["topology"], content.get("compat")), DEFAULT_VHOST)
    messages = _messages(content)
    places = [n for n, message in enumerate(messages) if message is not None]
    batch = to_batch(message for message in messages if message is not None)
    deliveries = router.route(batch, clock_ms=clock_ms)
    copies = from_batch(batch if deliveries.forms is None else deliveries.forms.behind(batch))
    routed: list[dict[str, list[Any]]] = [{} for _ in messages]
    queues_of = np.repeat(deliveries.queue, np.diff(deliveries.offsets)).tolist()
    for number, row, copy in zip(queues_of, deliveries.rows.tolist(), deliveries.written.tolist(), strict=True):
        routed[places[row]].setdefault(router.queues[number], []).append(_changeable(copies[copy]))
    lost = deliveries.unroutable
    ends = {
        places[row]: DISPOSITIONS[number]
        for row, number in zip(lost.rows.tolist(), lost.disposition.tolist(), strict=True)
    }
    return [
        became(item, sorted(queues), ends.get(place), queues)
        for place, (item, queues) in enumerate(zip(content["messages"], routed, strict=True))
    ]


def _routed_naively(content: Mapping[str, Any], clock_ms: int) -> list[Any]:
    naive = NaiveRouter(declare(content["topology"], content.get("compat")), DEFAULT_VHOST)
    found: list[Any] = []
    for item, message in zip(content["messages"], _messages(content), strict=True):
        if message is None:
            found.append(became(item, [], None))
        else:
            outcome = naive.route(message, clock_ms=clock_ms)
            copies: dict[str, list[Any]] = {}
            for queue, form in outcome.copies:
                copies.setdefault(queue, []).append(_changeable(outcome.forms[form]))
            found.append(became(item, sorted(outcome.queues), outcome.disposition, copies))
    return found


def _changeable(message: Message) -> dict[str, Any]:
    """What transformations may change of a message, in its JSON form."""
    stated = message.as_json()
    return {section: stated[section] for section in SECTIONS if section in stated}


def _bridged(
    content: Mapping[str, Any],
    route: Callable[[Message], Collection[str]],
    accepts: Callable[[Filter | None, Message], bool],
) -> list[list[str]]:
    """The sorted queues that hold each message in the end; a bridge takes up a copy once, and leaves it there."""
    topology = declare(content["topology"], content.get("compat"))
    links: list[Link] = [*topology.bindings.values(), *topology.diverts.values()]
    if any(transform_of(link) is not None for link in links):
        raise InvalidInput("a case of a bridge has no transformations", where="topology")
    bridges = []
    for item in content["bridges"]:
        payload = stated_payload(topology, topology.queue(DEFAULT_VHOST, item["queue"]), None)
        accepting = consumer_filter(item.get("filter"), dialect=item.get("dialect", "artemis"), payload=payload)
        bridges.append((item["queue"], item["exchange"], accepting))
    found = []
    for published in _messages(content):
        held: set[str] = set()
        pending = [] if published is None else [published]
        while pending:
            message = pending.pop()
            entered = set(route(message)) - held
            held |= entered
            pending += [
                replace(message, exchange=exchange)
                for queue, exchange, condition in bridges
                if queue in entered and accepts(condition, message)
            ]
        found.append(sorted(held))
    return found
