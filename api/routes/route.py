"""Dry runs: where messages go and why, under the present topology, an older one, or a proposed change."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import Annotated, Any, Final

import pyarrow as pa
from fastapi import Response
from pydantic import Field

from bindery.api.answers import answer
from bindery.api.auth import Identity
from bindery.api.bodies import Flag, OwnBody, documented
from bindery.api.control_plane import ControlPlane
from bindery.api.deps import ManagementUser, Plane, json_body, resource
from bindery.api.errors import bad_request
from bindery.api.items import Explained
from bindery.api.scope import vhosts_named, visible_vhost
from bindery.router.errors import InvalidRecord
from bindery.router.explain import Explainer
from bindery.router.message import Message, from_batch, to_batch
from bindery.router.model import DEFAULT_VHOST, Topology
from bindery.router.proposal import propose
from bindery.store.recorded import RecordedMessage, find_row, parse_row

router = resource("explain", own=True)

#: Messages of one request, and queues that it may ask about.
MAX_MESSAGES: Final = 1_000
MAX_QUEUES: Final = 100
_EXAMPLE: Final = {
    "vhost": "/",
    "message": {"exchange": "flights", "routing_key": "flight.UA", "application_properties": {"dep_delay": 30}},
    "queues": ["late"],
}


class RouteBody(OwnBody):
    """One message or a batch, or a row on record, and the topology to route it under."""

    vhost: str = DEFAULT_VHOST
    message: dict[str, Any] | None = Field(None, description="a message in its JSON form")
    messages: list[dict[str, Any]] | None = Field(None, description="a batch of messages")
    row: str | None = Field(None, description='a row on record: "stream:batch:number"')
    queues: list[str] = Field(default_factory=list, description="why each message does not come to these queues")
    version: int | None = Field(None, description="a topology version; the newest by default")
    as_routed: Flag = Field(False, description="with row: the version and clock that it was routed with")
    proposal: dict[str, Any] | None = Field(
        None, description="a change to apply first: definitions, or delete, definitions and replace"
    )


@router.post(
    "/route",
    summary="Explain messages",
    response_model=Explained,
    openapi_extra=documented(RouteBody, _EXAMPLE, required=True),
)
def explain(
    plane: Plane,
    user: ManagementUser,
    body: Annotated[RouteBody, json_body(RouteBody, limit=lambda plane: plane.settings.message_limit)],
) -> Response:
    """Route messages without writing anything; each result says what the message met, and why it missed a queue.

    Of a row that never was a message there is no result: `refused` says what is wrong with the record.
    """
    newest = plane.topology()
    visible_vhost(newest, user, body.vhost)
    if sum(source is not None for source in (body.message, body.messages, body.row)) != 1:
        raise bad_request("one of message, messages and row is needed")
    if len(body.queues) > MAX_QUEUES:
        raise bad_request(f"more than {MAX_QUEUES} queues")
    batch, one = _batch(plane, user, newest, body)
    if one is not None and one.refused is not None:
        return answer({"topology_version": newest.version, "proposed": False, "results": [], "refused": one.refused})
    version, clock = body.version, time.time_ns() // 1_000_000
    if one is not None and body.as_routed:
        version, clock = one.topology_version, one.clock_ms
    topology = plane.topologies.load(version=version)
    if body.proposal is not None:
        for vhost in vhosts_named(body.proposal):
            user.require_sight(vhost)
        topology = propose(topology, body.vhost, body.proposal)
    explainer = _explainer(topology, body.vhost, kept=body.proposal is None)
    explanations = explainer.explain(batch, clock_ms=clock, queues=body.queues)
    return answer(
        {
            "topology_version": topology.version,
            "proposed": body.proposal is not None,
            "results": [explanation.as_data() for explanation in explanations],
        }
    )


#: Compiled topologies that are kept: (process-wide identity of the topology, vhost) -> explainer.
_KEPT: Final[OrderedDict[tuple[int, str], tuple[Topology, Explainer]]] = OrderedDict()
_KEPT_AT_MOST: Final = 4
_lock = threading.Lock()


def _explainer(topology: Topology, vhost: str, *, kept: bool) -> Explainer:
    """Compiled once per topology; those of proposals are not kept."""
    if not kept:
        return Explainer(topology, vhost)
    key = (id(topology), vhost)
    with _lock:
        found = _KEPT.get(key)
        if found is not None:
            _KEPT.move_to_end(key)
            return found[1]
    made = Explainer(topology, vhost)
    with _lock:
        # the topology is kept with it, so that nothing else can have its identity meanwhile
        _KEPT[key] = (topology, made)
        while len(_KEPT) > _KEPT_AT_MOST:
            _KEPT.popitem(last=False)
    return made


def _batch(
    plane: ControlPlane, user: Identity, topology: Topology, body: RouteBody
) -> tuple[pa.RecordBatch, RecordedMessage | None]:
    if body.row is not None:
        found = find_row(plane.data, topology, body.vhost, parse_row(body.row))
        (message,) = from_batch(found.batch)
        # whoever may not read the queue, or the exchange that the message was published to, may not see it here
        user.check("read", body.vhost, message.exchange if found.queue is None else found.queue)
        return found.batch, found
    stated = body.messages if body.message is None else [body.message]
    assert stated is not None  # noqa: S101  # one of the three was given
    if len(stated) > MAX_MESSAGES:
        raise bad_request(f"more than {MAX_MESSAGES} messages")
    messages = []
    for number, raw in enumerate(stated):
        try:
            messages.append(Message.from_json(raw))
        except InvalidRecord as error:
            raise bad_request(f"messages[{number}]: {error.where}: {error.message}") from None
    return to_batch(messages), None
