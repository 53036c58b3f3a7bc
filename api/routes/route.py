"""Dry runs: where messages go and why, under the present topology, an older one, or a proposed change."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import replace
from typing import Annotated, Any, Final

import pyarrow as pa
from fastapi import Response
from pydantic import Field

from bindery.api.answers import answer
from bindery.api.auth import Identity
from bindery.api.bodies import Flag, OwnBody, documented
from bindery.api.changes import ChangeDocument, read_document, refused
from bindery.api.control_plane import ControlPlane
from bindery.api.deps import ManagementUser, Plane, json_body, resource
from bindery.api.errors import bad_request
from bindery.api.items import Explained
from bindery.api.pasted import pasted
from bindery.api.scope import visible_vhost
from bindery.router.errors import DefinitionsRefused, InvalidRecord
from bindery.router.explain import Explainer
from bindery.router.message import Message, from_batch, to_batch
from bindery.router.model import DEFAULT_VHOST, Topology
from bindery.router.suggestions import suggest
from bindery.store.recorded import RecordedMessage, find_row, parse_row

router = resource("explain", own=True)

#: Messages of one request, and queues that it may ask about.
MAX_MESSAGES: Final = 1_000
MAX_QUEUES: Final = 100
#: Bytes of a body that an answer gives back.
_SHOWN_BODY: Final = 64 * 1024
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
    text: str | None = Field(
        None, description="a message as text: JSON in that form, or as `publish` takes it (with `exchange`)"
    )
    row: str | None = Field(None, description='a row on record: "stream:batch:number"')
    queues: list[str] = Field(default_factory=list, description="why each message does not come to these queues")
    reach: str | None = Field(None, description="with one message: what would bring it to this queue")
    version: int | None = Field(None, description="a topology version; the newest by default")
    as_routed: Flag = Field(False, description="with row: the version and clock that it was routed with")
    proposal: Annotated[
        ChangeDocument | None, Field(description="a change to apply first, as POST apply/{vhost} takes it")
    ] = None
    detailed: Flag = Field(
        False, description="with every part of each filter and its value, and with bindings that did not match"
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

    With a `proposal` each result has the queues that are `gained` and `lost` by it. `suggestions` has changes of the
    topology, the smallest first, and other messages, each of which was tried and comes to the queue of `reach`. Of a
    row that never was a message there is no result: `refused` says what is wrong with the record.
    """
    newest = plane.topology()
    visible_vhost(newest, user, body.vhost)
    if sum(source is not None for source in (body.message, body.messages, body.text, body.row)) != 1:
        raise bad_request("one of message, messages, text and row is needed")
    if len(body.queues) > MAX_QUEUES:
        raise bad_request(f"more than {MAX_QUEUES} queues")
    if body.reach is not None and body.messages is not None:
        raise bad_request("reach is for one message")
    batch, one = _batch(plane, user, newest, body)
    if one is not None and one.refused is not None:
        return answer({"topology_version": newest.version, "proposed": False, "results": [], "refused": one.refused})
    version, clock = body.version, time.time_ns() // 1_000_000
    if one is not None and body.as_routed:
        version, clock = one.topology_version, one.clock_ms
    base = topology = plane.topologies.load(version=version)
    if body.proposal is not None:
        topology = _proposed(base, user, body.vhost, body.proposal)
    explainer = _explainer(topology, body.vhost, kept=topology is base)
    explanations = explainer.explain(batch, clock_ms=clock, queues=body.queues, detailed=body.detailed)
    results = [explanation.as_data() for explanation in explanations]
    if topology is not base:
        before = _explainer(base, body.vhost, kept=True).reached(batch, clock_ms=clock)
        for result, queues in zip(results, before, strict=True):
            reached = set(result["queues"])
            result |= {"gained": sorted(reached - queues), "lost": sorted(queues - reached)}
    said: dict[str, Any] = {"topology_version": topology.version, "proposed": topology is not base, "results": results}
    if body.row is not None or body.text is not None:
        said["message"] = _shown(batch)
    if body.reach is not None:
        (message,) = from_batch(batch)
        said["suggestions"] = suggest(topology, body.vhost, message, body.reach, clock_ms=clock).as_data()
    return answer(said)


def _proposed(base: Topology, user: Identity, vhost: str, proposal: dict[str, Any] | str) -> Topology:
    """The topology after a change, which nobody makes."""
    change = read_document(user, vhost, proposal)
    try:
        return change.applied_to(base)
    except DefinitionsRefused as error:
        raise refused(error, placed=isinstance(proposal, str)) from None


def _shown(batch: pa.RecordBatch) -> dict[str, Any]:
    """The one message of a batch in its JSON form; without a long body."""
    (message,) = from_batch(batch)
    return (message if len(message.body or b"") <= _SHOWN_BODY else replace(message, body=None)).as_json()


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
    if body.text is not None:
        return to_batch([pasted(body.text, user)]), None
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
