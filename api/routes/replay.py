"""What another topology would have done with the newest messages on record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

from fastapi import Request, Response
from pydantic import Field

from bindery.api.answers import answer
from bindery.api.auth import Identity
from bindery.api.bodies import Count, OwnBody, documented
from bindery.api.changes import read_document, refused
from bindery.api.control_plane import ControlPlane
from bindery.api.deps import ManagementUser, Plane, VhostPath, json_body, resource
from bindery.api.errors import bad_request
from bindery.api.items import Replayed
from bindery.api.presence import while_present
from bindery.api.scope import visible_vhost
from bindery.jobs.comparison import Reporter
from bindery.jobs.replay_newest import Looked, Wanted, replay_newest
from bindery.router.errors import DefinitionsRefused
from bindery.router.model import Topology
from bindery.router.moments import iso

router = resource("replay", own=True)

#: Messages of one comparison, where nothing is said and at most.
MESSAGES: Final = 10_000
MAX_MESSAGES: Final = 100_000
#: Past topologies that examples are explained with: of more versions the newest.
_EXPLAINED_VERSIONS: Final = 8
_EXAMPLE: Final = {
    "change": {"delete": {"queues": ["late"]}},
    "messages": 1_000,
}


class ReplayBody(OwnBody):
    """Another topology, an older version or the present one with a change, and the messages to try it on."""

    version: Annotated[Count, Field(ge=0)] | None = Field(None, description="a topology version")
    change: dict[str, Any] | str | None = Field(
        None, description="a document of definitions or a change: an object, or the text of one in JSON or YAML"
    )
    prune: bool = Field(False, description="with change: what the document does not name goes")
    compared_with: Literal["then", "now"] = Field(
        "then", description="what became of the messages, or what the newest topology would do with them"
    )
    messages: Annotated[Count, Field(ge=1, le=MAX_MESSAGES)] = Field(MESSAGES, description="how many, the newest first")
    stream: str | None = Field(None, description="only messages of this stream")
    first_batch: Annotated[Count, Field(ge=0)] | None = Field(None, description="with stream: from this batch on")
    last_batch: Annotated[Count, Field(ge=0)] | None = Field(None, description="with stream: up to this batch")


@router.post(
    "/replay/{vhost:segment}",
    summary="Replay the newest messages",
    response_model=Replayed,
    openapi_extra=documented(ReplayBody, _EXAMPLE, required=True),
)
async def replay(
    request: Request,
    plane: Plane,
    user: ManagementUser,
    vhost: VhostPath,
    body: Annotated[ReplayBody, json_body(ReplayBody, limit=lambda plane: plane.settings.definitions_limit)],
) -> Response:
    """Compare what became of the newest messages with what another topology would have done; nothing is written.

    Only queues that the caller may read are looked into, and of the unroutable messages those of exchanges that they
    may read: `unread_queues` counts the others. `cut` says why there are more messages than were compared. For all of
    history there is `bindery replay`. When the connection is closed before, the comparison ends.
    """
    user.require_sight(vhost)
    if (body.version is None) == (body.change is None):
        raise bad_request("one of version and change is needed")
    if body.stream is None and (body.first_batch is not None or body.last_batch is not None):
        raise bad_request("batches are those of a stream: say stream")
    wanted = Wanted(body.messages, body.stream, body.first_batch, body.last_batch, present=body.compared_with == "now")

    def work(gone: Callable[[], bool]) -> dict[str, Any]:
        visible_vhost(plane.topology(), user, vhost)
        proposed = _proposed(plane, user, vhost, body)
        looked = replay_newest(
            plane.data,
            plane.topologies,
            proposed,
            vhost,
            wanted,
            may_read=lambda name: user.may("read", vhost, name),
            gone=gone,
        )
        return _report(plane, vhost, proposed, looked) | {"base": plane.topology().version}

    return answer(await while_present(request, work))


def _proposed(plane: ControlPlane, user: Identity, vhost: str, body: ReplayBody) -> Topology:
    """The topology that is tried; raises Refusal for a document that cannot be applied."""
    if body.version is not None:
        return plane.topologies.load(version=body.version)
    assert body.change is not None  # noqa: S101  # one of the two was given
    change = read_document(user, vhost, body.change, prune=body.prune)
    try:
        return change.applied_to(plane.topology())
    except DefinitionsRefused as error:
        raise refused(error, placed=isinstance(body.change, str)) from None


def _report(plane: ControlPlane, vhost: str, proposed: Topology, looked: Looked) -> dict[str, Any]:
    comparison = looked.comparison
    versions = {one.topology_version for found in comparison.examples.values() for one in found}
    explained = sorted(versions, reverse=True)[:_EXPLAINED_VERSIONS]
    past = {version: plane.topologies.load(version=version) for version in explained}
    return Reporter(vhost, past, proposed).report(comparison) | {
        "batches": looked.batches,
        "streams": looked.streams,
        "first_routed_at": None if looked.first is None else iso(looked.first, "milliseconds"),
        "last_routed_at": None if looked.last is None else iso(looked.last, "milliseconds"),
        "unread_queues": looked.unread,
        "cut": looked.cut,
    }
