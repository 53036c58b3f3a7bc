"""Filters before they are used: whether one can be read, and what becomes of messages that are there."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final

from fastapi import Response
from pydantic import Field

from bindery.api.answers import answer
from bindery.api.bodies import ChoiceBody, Count, documented
from bindery.api.deps import ManagementUser, Plane, json_body, resource
from bindery.api.errors import bad_request
from bindery.api.items import Document
from bindery.api.scope import readable_queue, visible_vhost
from bindery.router.columns import BatchView
from bindery.router.filters.description import describe
from bindery.router.filters.lint import ObservedSchema, lint
from bindery.router.filters.trace import trace
from bindery.router.message import MESSAGE_SCHEMA, Message, from_batch
from bindery.router.model import DEFAULT_VHOST
from bindery.store import read
from bindery.store.consumer_filters import queue_filter

router = resource("filters", own=True)

#: Messages of a queue whose properties are looked at, and messages that are judged at most.
SAMPLE: Final = 1_000
MAX_JUDGED: Final = 100
_EXAMPLE: Final = {"filter": "price > 100", "dialect": "jms", "queue": "orders"}


class FilterBody(ChoiceBody):
    """A filter, and the queue whose messages it is tried on."""

    vhost: str = DEFAULT_VHOST
    queue: str | None = Field(None, description="judge the first messages of this queue")
    limit: Annotated[Count, Field(ge=0, le=MAX_JUDGED)] = 20


@router.post(
    "/filters",
    summary="Check a filter",
    response_model=Document,
    openapi_extra=documented(FilterBody, _EXAMPLE, required=True),
)
def check(plane: Plane, user: ManagementUser, body: Annotated[FilterBody, json_body(FilterBody)]) -> Response:
    """What a filter says, and of each message whether it accepts it and why: every sub-expression with its value.

    A filter that cannot be read is answered by 400 with its place. With a queue, `seen` has the application properties
    of its first messages, by the families of their values, and `messages` how the filter judges them; the caller needs
    the permission to read it.
    """
    if body.filter is None:
        raise bad_request("a filter is needed")
    topology = plane.topology()
    visible_vhost(topology, user, body.vhost)
    if body.queue is not None:
        readable_queue(topology, user, body.vhost, body.queue)
    checked = queue_filter(
        plane.data,
        body.queue or "",  # of no queue, bodies are what the request says
        body.filter,
        vhost=body.vhost,
        dialect=body.dialect,
        payload=body.payload,
        topology=topology,
    )
    assert checked is not None  # noqa: S101  # there is a filter
    batch = None
    if body.queue is not None:
        rows = read.browse(plane.data, body.queue, vhost=body.vhost, limit=SAMPLE).select(MESSAGE_SCHEMA.names)
        batch = next(iter(rows.combine_chunks().to_batches()), None)
    seen = ObservedSchema(0, {}) if batch is None else ObservedSchema.of(BatchView(batch))
    clock_ms = time.time_ns() // 1_000_000
    judged: list[dict[str, Any]] = []
    for message in () if batch is None else from_batch(batch.slice(0, body.limit)):
        found = trace(checked, message, clock_ms=clock_ms)
        judged.append({"message": _brief(message), "result": found.shown, "trace": found.as_data()})
    findings = [one.as_data() for one in lint(checked, schema=seen if seen.messages else None)]
    properties = [
        {"name": ref.name, "families": dict(families)}
        for ref, families in seen.families.items()
        if ref.section == "application_properties"
    ]
    return answer(describe(checked) | {"findings": findings, "seen": properties, "messages": judged})


def _brief(message: Message) -> dict[str, Any]:
    """What tells a message from others: its keys and its application properties."""
    stated = message.as_json()
    return {key: stated[key] for key in ("exchange", "routing_key", "application_properties") if key in stated}
