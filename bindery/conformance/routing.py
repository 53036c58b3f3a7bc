"""Running `route` and `declare` cases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bindery.conformance.cases import Case
from bindery.conformance.declarations import refusal
from bindery.conformance.guard import guarded
from bindery.conformance.report import Outcome
from bindery.conformance.topology import declare
from router.engine import Router
from router.errors import InvalidRecord
from router.message import Message, to_batch
from router.model import DEFAULT_VHOST, Topology
from router.reference import NaiveRouter


def run_declare(case: Case) -> Outcome:
    """Declares a topology through the model, and asks the declaration rules about it."""
    raw = case.content["topology"]
    return Outcome(
        case,
        engine=guarded(lambda: declare(raw) and "ok"),
        reference=guarded(lambda: "error" if refusal(raw) else "ok"),
    )


def run_route(case: Case, *, clock_ms: int) -> Outcome:
    """Publishes the messages of a case: through the router as one batch, through the naive one by one.

    A message that is no valid record is routed by neither: it reaches no queue.
    """
    raw = case.content
    return Outcome(
        case,
        engine=guarded(lambda: _routed(declare(raw["topology"]), _messages(raw), clock_ms)),
        reference=guarded(lambda: _routed_naively(declare(raw["topology"]), _messages(raw), clock_ms)),
    )


def _messages(raw: Mapping[str, Any]) -> list[Message | None]:
    return [_message({key: part for key, part in item.items() if key != "expect"}) for item in raw["messages"]]


def _message(raw: Mapping[str, Any]) -> Message | None:
    try:
        return Message.from_json(raw)
    except InvalidRecord:
        return None


def _routed(topology: Topology, messages: list[Message | None], clock_ms: int) -> list[list[str]]:
    router = Router.compile(topology, DEFAULT_VHOST)
    places = [n for n, message in enumerate(messages) if message is not None]
    deliveries = router.route(to_batch(message for message in messages if message is not None), clock_ms=clock_ms)
    routed: list[list[str]] = [[] for _ in messages]
    for number in deliveries.queue.tolist():
        for row in deliveries.rows_of(number).tolist():
            routed[places[row]].append(router.queues[number])
    return [sorted(queues) for queues in routed]


def _routed_naively(topology: Topology, messages: list[Message | None], clock_ms: int) -> list[list[str]]:
    naive = NaiveRouter(topology, DEFAULT_VHOST)
    return [
        [] if message is None else sorted(naive.route(message, clock_ms=clock_ms).queues) for message in messages
    ]
