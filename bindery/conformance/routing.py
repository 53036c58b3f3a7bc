"""Running `route` and `declare` cases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bindery.conformance.cases import Case
from bindery.conformance.declarations import refusal
from bindery.conformance.guard import defined, evaluated
from bindery.conformance.report import Outcome
from bindery.conformance.topology import declare
from router.engine import Router
from router.errors import InvalidRecord
from router.message import Message, to_batch
from router.model import DEFAULT_VHOST
from router.reference import NaiveRouter


def run_declare(case: Case) -> Outcome:
    """Declares a topology through the model, and asks the rules of declaration about it."""
    raw = case.content["topology"]
    return Outcome(case, engine=defined(_accepted, raw), reference=defined(_allowed, raw))


def run_route(case: Case, *, clock_ms: int) -> Outcome:
    """Publishes the messages of a case: through the router as one batch, through the naive one by one.

    A message that is no valid record is routed by neither: it reaches no queue.
    """
    content = case.content
    return Outcome(
        case, engine=evaluated(_routed, content, clock_ms), reference=evaluated(_routed_naively, content, clock_ms)
    )


def _accepted(topology: Mapping[str, Any]) -> str:
    declare(topology)
    return "ok"


def _allowed(topology: Mapping[str, Any]) -> str:
    return "error" if refusal(topology) else "ok"


def _messages(content: Mapping[str, Any]) -> list[Message | None]:
    return [_message({key: part for key, part in item.items() if key != "expect"}) for item in content["messages"]]


def _message(raw: Mapping[str, Any]) -> Message | None:
    try:
        return Message.from_json(raw)
    except InvalidRecord:
        return None


def _routed(content: Mapping[str, Any], clock_ms: int) -> list[list[str]]:
    router = Router.compile(declare(content["topology"]), DEFAULT_VHOST)
    messages = _messages(content)
    places = [n for n, message in enumerate(messages) if message is not None]
    deliveries = router.route(to_batch(message for message in messages if message is not None), clock_ms=clock_ms)
    routed: list[list[str]] = [[] for _ in messages]
    for number in deliveries.queue.tolist():
        for row in deliveries.rows_of(number).tolist():
            routed[places[row]].append(router.queues[number])
    return [sorted(queues) for queues in routed]


def _routed_naively(content: Mapping[str, Any], clock_ms: int) -> list[list[str]]:
    naive = NaiveRouter(declare(content["topology"]), DEFAULT_VHOST)
    return [
        [] if message is None else sorted(naive.route(message, clock_ms=clock_ms).queues)
        for message in _messages(content)
    ]
