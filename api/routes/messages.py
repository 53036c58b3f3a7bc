"""Publishing a message, getting messages, and emptying a queue."""

from __future__ import annotations

import asyncio
import logging
from typing import Annotated, Any, Final

from fastapi import Response
from fastapi.concurrency import run_in_threadpool

from bindery.api.amqp import payload_of, publish_record, read_payload, shown_payload, shown_properties
from bindery.api.answers import answer
from bindery.api.auth import DEFAULT_EXCHANGE
from bindery.api.bodies import GetBody, PublishBody, documented
from bindery.api.deps import ManagementUser, NamePath, Plane, VhostPath, json_body, resource
from bindery.api.errors import access_refused, bad_request, not_found, object_not_found
from bindery.api.items import GotMessage, Routed
from bindery.api.routes.bindings import exchange_name
from bindery.router.errors import NotFound
from bindery.router.message import Message, from_batch
from bindery.router.model import Topology
from bindery.store import read
from bindery.store.consumer_filters import queue_filter

router = resource("messages")

_LOGGER: Final = logging.getLogger("bindery.api")
#: Whether the messages of a get stay in the queue.
_ACK_MODES: Final = {
    "ack_requeue_true": True,
    "reject_requeue_true": True,
    "ack_requeue_false": False,
    "reject_requeue_false": False,
}
#: The broker's answers to a purge do not depend on `Accept`.
_PURGE_VARY: Final = "accept-encoding, origin"
_ENCODINGS: Final = ("auto", "base64")
_PUBLISH_EXAMPLE: Final = {
    "routing_key": "orders.eu",
    "properties": {"delivery_mode": 2, "headers": {"price": 120}},
    "payload": "hello",
    "payload_encoding": "string",
}
_GET_EXAMPLE: Final = {"count": 5, "ackmode": "ack_requeue_true", "encoding": "auto", "truncate": 50000}


def _require_vhost(topology: Topology, vhost: str) -> None:
    """Refuse a missing vhost as the broker does where it would open a channel."""
    if vhost not in topology.vhosts:
        raise access_refused()


@router.post(
    "/exchanges/{vhost:segment}/{name:segment}/publish",
    summary="Publish a message",
    response_model=Routed,
    openapi_extra=documented(PublishBody, _PUBLISH_EXAMPLE, required=True),
)
async def publish(
    plane: Plane,
    user: ManagementUser,
    vhost: VhostPath,
    name: NamePath,
    body: Annotated[PublishBody, json_body(PublishBody, limit=lambda plane: 2 * plane.settings.message_limit)],
) -> Response:
    """Publish to an exchange and wait until the copies are durable; `routed` says whether there is any.

    A message that reaches no queue is returned to its publisher; its row is in the unroutable table. With
    `reject_unroutable` it is rejected instead.
    """
    user.require_sight(vhost)
    exchange = exchange_name(name)
    payload = read_payload(body.payload, body.payload_encoding)
    if len(payload) > plane.settings.message_limit:
        raise bad_request(f"the payload exceeds the limit of {plane.settings.message_limit} bytes")
    if not isinstance(body.properties, dict):
        raise bad_request(["not_table", "properties"])
    topology = await run_in_threadpool(plane.topology)
    _require_vhost(topology, vhost)
    present = topology.exchanges.get((vhost, exchange))
    if present is None:
        raise bad_request(f"404 NOT_FOUND - no exchange '{exchange}' in vhost '{vhost}'")
    user.check("write", vhost, exchange or DEFAULT_EXCHANGE)
    if present.internal:
        raise bad_request(f"403 ACCESS_REFUSED - cannot publish to internal exchange '{exchange}' in vhost '{vhost}'")
    message = publish_record(
        exchange=exchange,
        routing_key=body.routing_key,
        payload=payload,
        properties=body.properties,
        user=user.name,
        reject_unroutable=body.reject_unroutable,
    )
    if present.type == "topic":
        for key in (message.routing_key, *(message.cc or ()), *(message.bcc or ())):
            user.check_topic("write", vhost, exchange, key)
    queues = await asyncio.wrap_future(plane.publisher.publish(vhost, message))
    plane.statistics.published(vhost, exchange, queues, mandatory=message.mandatory)
    return answer({"routed": bool(queues)})


@router.post(
    "/queues/{vhost:segment}/{name:segment}/get",
    summary="Get messages",
    response_model=list[GotMessage],
    openapi_extra=documented(GetBody, _GET_EXAMPLE, required=True),
)
def get(
    plane: Plane,
    user: ManagementUser,
    vhost: VhostPath,
    name: NamePath,
    body: Annotated[GetBody, json_body(GetBody)],
) -> Response:
    """The first messages of a queue, in the order in which they were routed.

    With a requeue mode they stay and count as delivered once more; otherwise they are taken out, in one
    commit. A negative count asks for everything, a filter for those that it accepts.
    """
    user.require_sight(vhost)
    if body.ackmode not in _ACK_MODES:
        raise bad_request(["unsupported_ackmode", body.ackmode])
    if body.encoding not in _ENCODINGS:
        raise bad_request("Unsupported encoding. Please use auto or base64.")
    if body.truncate is not None and body.truncate < 0:
        raise bad_request(["not_integer", body.truncate])
    topology = plane.topology()
    _require_vhost(topology, vhost)
    if (vhost, name) not in topology.queues:
        raise not_found(f"NOT_FOUND - no queue '{name}' in vhost '{vhost}'")
    user.check("read", vhost, name)
    most = plane.settings.get_limit
    limit = most if body.count < 0 else min(body.count, most)
    requeue = _ACK_MODES[body.ackmode]
    condition = queue_filter(
        plane.data, name, body.filter, vhost=vhost, dialect=body.dialect, payload=body.payload, topology=topology
    )
    taken = read.take(plane.data, name, vhost=vhost, limit=limit, condition=condition, requeue=requeue)
    plane.counts.changed()
    items = shown_messages(taken, truncate=body.truncate, as_base64=body.encoding == "base64")
    plane.statistics.got(
        vhost,
        name,
        messages=len(items),
        redelivered=sum(item["redelivered"] for item in items),
        acknowledged=not requeue,
    )
    return answer(items)


@router.delete("/queues/{vhost:segment}/{name:segment}/contents", status_code=204, summary="Empty a queue")
def purge(plane: Plane, user: ManagementUser, vhost: VhostPath, name: NamePath) -> Response:
    """Remove every message of a queue in one commit; its history stays."""
    user.require_sight(vhost)
    if (vhost, name) not in plane.topology().queues:
        absent = object_not_found()
        absent.headers["vary"] = _PURGE_VARY
        raise absent
    user.check("read", vhost, name)
    try:
        read.delete_matching(plane.data, name, None, vhost=vhost)
    except NotFound:
        _LOGGER.warning("queue %r of vhost %r has no table: there was nothing to empty", name, vhost)
    plane.counts.changed()
    return Response(status_code=204, headers={"vary": _PURGE_VARY})


def shown_messages(given: read.Taken, *, truncate: int | None, as_base64: bool) -> list[GotMessage]:
    """Messages as `get` shows them."""
    return [
        _item(message, held=given.held - number, truncate=truncate, as_base64=as_base64)
        for number, message in enumerate(from_batch(given.rows), start=1)
    ]


def _item(message: Message, *, held: int, truncate: int | None, as_base64: bool) -> GotMessage:
    """A message as `get` shows it; `held` messages are left behind it."""
    payload = payload_of(message)
    shown, encoding = shown_payload(payload if truncate is None else payload[:truncate], as_base64=as_base64)
    delivered: Any = message.header.get("delivery_count", 0)
    return {
        "payload_bytes": len(payload),
        "redelivered": delivered > 0,
        "exchange": message.exchange,
        "routing_key": message.routing_key,
        "message_count": held,
        "properties": shown_properties(message),
        "payload": shown,
        "payload_encoding": encoding,
    }
