"""What a topology says that its author hardly meant, as findings with codes."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response

from bindery.api.answers import answer
from bindery.api.auth import Identity
from bindery.api.control_plane import ControlPlane
from bindery.api.deps import ManagementUser, Plane, VhostHeader, VhostPath, resource
from bindery.api.items import Document
from bindery.api.scope import visible_vhost, visible_vhosts
from bindery.router.analysis import analyse
from bindery.store.samples import recent_messages

router = resource("lint", own=True)

Version = Annotated[int | None, Query(description="a topology version; the newest by default", ge=0)]
Overlap = Annotated[bool, Query(description="compare queues by the recent messages that they hold; needs to read all")]


@router.get("/lint", summary="Analyse the topology", response_model=Document)
def lint_all(
    plane: Plane, user: ManagementUser, version: Version = None, overlap: Overlap = False, x_vhost: VhostHeader = None
) -> Response:
    """Findings over every vhost that the caller sees, the gravest first."""
    return _report(plane, user, visible_vhosts(plane.topology(), user, x_vhost), version, overlap)


@router.get("/lint/{vhost:segment}", summary="Analyse a vhost", response_model=Document)
def lint_vhost(
    plane: Plane, user: ManagementUser, vhost: VhostPath, version: Version = None, overlap: Overlap = False
) -> Response:
    """Findings over one vhost, the gravest first."""
    return _report(plane, user, [_seen(plane, user, vhost)], version, overlap)


def _seen(plane: ControlPlane, user: Identity, vhost: str) -> str:
    return visible_vhost(plane.topology(), user, vhost)


def _report(plane: ControlPlane, user: Identity, vhosts: list[str], version: int | None, overlap: bool) -> Response:
    topology = plane.topologies.load(version=version)
    judged = [name for name in vhosts if name in topology.vhosts]
    for vhost, queue in plane.topology().queues if overlap else ():
        if vhost in judged:
            user.check("read", vhost, queue)
    samples = {name: recent_messages(plane.data, name) for name in judged} if overlap else None
    report = analyse(topology, vhosts=judged, samples=samples)
    return answer(report.as_data() | {"topology_version": topology.version})
