"""Messages on record, found again by what they hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Final

from fastapi import Request, Response
from pydantic import Field

from bindery.api.answers import answer
from bindery.api.auth import Identity
from bindery.api.bodies import AtLeastOne, Flag, LookBody, documented
from bindery.api.control_plane import ControlPlane
from bindery.api.deps import ManagementUser, Plane, json_body, resource
from bindery.api.errors import bad_request
from bindery.api.items import FoundMessages
from bindery.api.presence import while_present
from bindery.api.scope import readable_queue, visible_vhost
from bindery.router.model import DEFAULT_VHOST
from bindery.store.consumer_filters import queue_filter, with_message_id
from bindery.store.found_messages import FoundMessage, find
from bindery.store.unroutable import Selection

router = resource("explain", own=True)

#: Messages of one answer, queues that one request looks into, bytes of a body that are shown.
MAX_FOUND: Final = 100
MAX_QUEUES: Final = 500
_BODY: Final = 2_000
_EXAMPLE: Final = {"vhost": "/", "filter": "order_id = 1545", "key": "eu.#", "limit": 20}


class FindBody(LookBody):
    """What messages hold, and where to look; what is not given does not narrow the choice."""

    vhost: str = DEFAULT_VHOST
    live: Flag = Field(True, description="also what waits in journals, and what only they have; false: tables alone")
    queue: str | None = Field(None, description="only what is in this queue, or was")
    unroutable: bool = Field(False, description="only what reached no queue")
    exchange: str | None = Field(None, description="published there")
    key: str | None = Field(None, description="a topic pattern for the routing key")
    message_id: str | None = Field(None, description="the message id, as text")
    limit: Annotated[AtLeastOne, Field(le=MAX_FOUND)] = 20
    on: str | None = Field(None, description="`on` of the answer before: what comes after it")


@router.post(
    "/find",
    summary="Find messages",
    response_model=FoundMessages,
    openapi_extra=documented(FindBody, _EXAMPLE, required=True),
)
async def find_messages(
    request: Request, plane: Plane, user: ManagementUser, body: Annotated[FindBody, json_body(FindBody)]
) -> Response:
    """Messages of queues, unroutable rows and journals that a filter accepts, from the newest file to the oldest.

    Of journals those messages that stand in no queue which is looked into, nor among the unroutable rows: consumed
    ones, and such as were only counted. One answer looks at about 200,000 rows; `on` leads on where there are more.
    Only what the caller may read is found: messages of queues, and others by the exchange that they were published to.
    """

    def look(gone: Callable[[], bool]) -> dict[str, Any]:
        return _found(plane, user, body, gone)

    return answer(await while_present(request, look))


def _found(plane: ControlPlane, user: Identity, body: FindBody, gone: Callable[[], bool]) -> dict[str, Any]:
    topology = plane.topology()
    visible_vhost(topology, user, body.vhost)
    if body.queue is not None and body.unroutable:
        raise bad_request("queue and unroutable exclude each other")

    def may_read(name: str) -> bool:
        return user.may("read", body.vhost, name)

    queues: list[str | None] = [None]
    if body.queue is not None:
        readable_queue(topology, user, body.vhost, body.queue)
        queues = [body.queue]
    elif not body.unroutable:
        readable = sorted(name for where, name in topology.queues if where == body.vhost and may_read(name))
        if len(readable) > MAX_QUEUES:
            raise bad_request(f"{len(readable):,} queues are too many to look into: name one as queue, or unroutable")
        queues += readable
    condition = queue_filter(
        plane.data,
        body.queue or "",  # of no queue, bodies are what the request says
        body.filter,
        vhost=body.vhost,
        dialect=body.dialect,
        payload=body.payload,
        topology=topology,
    )
    found = find(
        plane.data,
        body.vhost,
        queues,
        Selection(exchange=body.exchange, key=body.key, condition=with_message_id(condition, body.message_id)),
        limit=body.limit,
        on=body.on,
        may=lambda one: one.queue is not None or may_read(one.message.exchange),
        stop=gone,
        topology=topology,
        live=body.live,
        anywhere=body.queue is None and not body.unroutable,
    )
    shown = [replace(one, reached=tuple(filter(may_read, one.reached))) for one in found.messages]
    return {"messages": [_item(one) for one in shown], "looked_at": found.looked_at, "on": found.on}


def _item(one: FoundMessage) -> dict[str, Any]:
    """A found row as JSON-ready data; of a long body the beginning."""
    message = one.message
    stated = (message if message.body is None else replace(message, body=message.body[:_BODY])).as_json()
    return {
        "row": one.row,
        "queue": one.queue,
        "journal": one.journal,
        "reached": list(one.reached),
        "reason": one.reason,
        "routed_at": one.routed_at,
        "body_bytes": None if message.body is None else len(message.body),
        "message": stated,
    }
