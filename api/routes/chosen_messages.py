"""Messages of a queue that a consumer's filter chooses: count, browse, delete, move, copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

from fastapi import Request, Response

from bindery.api.answers import answer
from bindery.api.auth import Identity
from bindery.api.bodies import BrowseBody, ChoiceBody, DeleteBody, LookBody, TransferBody, documented
from bindery.api.control_plane import ControlPlane
from bindery.api.deps import ManagementUser, NamePath, Plane, VhostPath, json_body, resource
from bindery.api.errors import access_refused, bad_request
from bindery.api.items import Copied, Counted, Deleted, GotMessage, Moved
from bindery.api.presence import while_present
from bindery.api.routes.bindings import exchange_name
from bindery.api.routes.messages import shown_messages
from bindery.api.scope import readable_queue
from bindery.router.filters import Filter
from bindery.store import read
from bindery.store.consumer_filters import queue_filter
from bindery.store.destinations import Destination, ToExchange, ToQueue
from bindery.store.moves import Mover
from bindery.store.queue_copies import copy_messages
from bindery.store.transfers import Transfer, Transferred

router = resource("messages", own=True)

_OF: Final = "/queues/{vhost:segment}/{name:segment}"
_CHOICE: Final = {"filter": "price > 100", "dialect": "jms"}
_TRANSFER: Final = {"to": "other", "filter": "price > 100", "limit": 1000}


def _condition(plane: ControlPlane, vhost: str, name: str, body: ChoiceBody) -> Filter | None:
    return queue_filter(
        plane.data,
        name,
        body.filter,
        vhost=vhost,
        dialect=body.dialect,
        payload=body.payload,
        topology=plane.topology(),
    )


@router.post(
    f"{_OF}/count",
    summary="Count messages",
    response_model=Counted,
    openapi_extra=documented(LookBody, _CHOICE),
)
def count(
    plane: Plane,
    user: ManagementUser,
    vhost: VhostPath,
    name: NamePath,
    body: Annotated[LookBody, json_body(LookBody)],
) -> Response:
    """How many messages of the queue a filter accepts, and how many of these wait for its table."""
    readable_queue(plane.topology(), user, vhost, name)
    condition = _condition(plane, vhost, name, body)
    found = read.counted(plane.data, name, vhost=vhost, condition=condition, live=body.live)
    return answer({"messages": found.rows, "waiting": found.waiting})


@router.post(
    f"{_OF}/browse",
    summary="Browse messages",
    response_model=list[GotMessage],
    openapi_extra=documented(BrowseBody, {**_CHOICE, "limit": 5}),
)
def browse(
    plane: Plane,
    user: ManagementUser,
    vhost: VhostPath,
    name: NamePath,
    body: Annotated[BrowseBody, json_body(BrowseBody)],
) -> Response:
    """The first messages that a filter accepts, in the form of `get`; they stay as they are."""
    readable_queue(plane.topology(), user, vhost, name)
    limit = min(body.limit, plane.settings.get_limit)
    condition = _condition(plane, vhost, name, body)
    found = read.look(plane.data, name, vhost=vhost, limit=limit, condition=condition, live=body.live)
    return answer(shown_messages(found, truncate=body.truncate, as_base64=body.encoding == "base64"))


@router.post(
    f"{_OF}/delete",
    summary="Delete messages",
    response_model=Deleted,
    openapi_extra=documented(DeleteBody, _CHOICE, required=True),
)
def delete(
    plane: Plane,
    user: ManagementUser,
    vhost: VhostPath,
    name: NamePath,
    body: Annotated[DeleteBody, json_body(DeleteBody)],
) -> Response:
    """Delete the messages that a filter accepts, or `all`, in one commit."""
    readable_queue(plane.topology(), user, vhost, name)
    condition = _condition(plane, vhost, name, body)
    if body.all == (condition is not None):
        raise bad_request("either a filter or all says what to delete")
    deleted = read.delete_matching(plane.data, name, condition, vhost=vhost)
    plane.counts.changed()
    return answer({"deleted": deleted})


def _transfer(plane: ControlPlane, user: Identity, vhost: str, name: str, body: TransferBody) -> Transfer:
    readable_queue(plane.topology(), user, vhost, name)
    return Transfer(
        vhost, name, _destination(plane, user, vhost, body), _condition(plane, vhost, name, body), body.limit
    )


def _destination(plane: ControlPlane, user: Identity, vhost: str, body: TransferBody) -> Destination:
    """Where messages go; refuse what the caller may not write to."""
    if body.to is not None:
        user.check("write", vhost, body.to)
        return ToQueue(body.to)
    assert body.exchange is not None  # noqa: S101  # the body has one of both
    exchange = exchange_name(body.exchange)
    user.check("write", vhost, exchange)
    present = plane.topology().exchanges.get((vhost, exchange))
    if present is not None and present.type == "topic":
        if body.routing_key is not None:
            user.check_topic("write", vhost, exchange, body.routing_key)
        elif (vhost, user.name, exchange) in user.access.topic_permissions:
            # which keys the messages have is known only once they are chosen
            raise access_refused(f"a topic permission limits the keys for exchange '{exchange}': say routing_key")
    return ToExchange(exchange, body.routing_key)


@router.post(
    f"{_OF}/move",
    summary="Move messages",
    response_model=Moved,
    openapi_extra=documented(TransferBody, _TRANSFER, required=True),
)
async def move(
    request: Request,
    plane: Plane,
    user: ManagementUser,
    vhost: VhostPath,
    name: NamePath,
    body: Annotated[TransferBody, json_body(TransferBody)],
) -> Response:
    """Move the messages that a filter accepts into another queue, or to an exchange, each exactly once.

    Comes back when they are there; what reaches no queue through the exchange stays. The caller needs the permission
    to read the queue and to write to the other one, or to publish to the exchange. When the connection is closed
    before, the move ends with the portion of rows that is under way.
    """

    def work(gone: Callable[[], bool]) -> Transferred:
        chosen = _transfer(plane, user, vhost, name, body)
        try:
            return Mover(plane.data, plane.topologies, vhost).move(chosen, dry_run=body.dry_run, stop=gone)
        finally:
            plane.counts.changed()

    return answer((await while_present(request, work)).as_move())


@router.post(
    f"{_OF}/copy",
    summary="Copy messages",
    response_model=Copied,
    openapi_extra=documented(TransferBody, _TRANSFER, required=True),
)
async def copy(
    request: Request,
    plane: Plane,
    user: ManagementUser,
    vhost: VhostPath,
    name: NamePath,
    body: Annotated[TransferBody, json_body(TransferBody)],
) -> Response:
    """Copy the messages that a filter accepts into another queue, in one commit, or to an exchange.

    The caller needs the permission to read the queue and to write to the other one, or to publish to the exchange.
    When the connection is closed before, a copy to an exchange ends with the portion of rows that is under way.
    """

    def work(gone: Callable[[], bool]) -> Transferred:
        chosen = _transfer(plane, user, vhost, name, body)
        try:
            return copy_messages(plane.data, plane.topologies, chosen, dry_run=body.dry_run, stop=gone)
        finally:
            plane.counts.changed()

    return answer((await while_present(request, work)).as_copy())
