"""What a topology says that its author hardly meant, as findings with codes."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import Query, Response
from pydantic import Field

from bindery.api.answers import answer
from bindery.api.auth import Identity
from bindery.api.bodies import OwnBody, documented
from bindery.api.control_plane import ControlPlane
from bindery.api.deps import ManagementUser, Plane, VhostHeader, VhostPath, json_body, resource
from bindery.api.errors import bad_request
from bindery.api.items import Document, LintMarks
from bindery.api.routes.bindings import exchange_name
from bindery.api.scope import visible_vhost, visible_vhosts
from bindery.router.analysis import Report, analyse
from bindery.router.lint import RULES
from bindery.router.model import Topology
from bindery.store.samples import recent_messages

router = resource("lint", own=True)

Kind = Literal["exchange", "queue"]
#: Objects of one request for marks.
MAX_OBJECTS: Final = 1_000
_EXAMPLE: Final = {"objects": [{"kind": "queue", "vhost": "/", "name": "late"}]}


class LintObject(OwnBody):
    """An exchange or a queue."""

    kind: Kind
    vhost: str
    name: str


class MarksBody(OwnBody):
    """Whose findings are counted."""

    objects: list[LintObject] = Field(max_length=MAX_OBJECTS)


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
    plane: Plane,
    user: ManagementUser,
    vhost: VhostPath,
    version: Version = None,
    overlap: Overlap = False,
    kind: Annotated[Kind | None, Query(description="with name: only what concerns this exchange or queue")] = None,
    name: Annotated[str | None, Query(description="of the exchange or queue")] = None,
) -> Response:
    """Findings over one vhost, the gravest first, and what the rules behind them say.

    Those of an exchange or queue are its own and those of the bindings and diverts that leave it or lead to it. The
    findings of the newest version are kept until the vhost changes.
    """
    if (kind is None) != (name is None):
        raise bad_request("kind and name go together")
    seen = _seen(plane, user, vhost)
    if kind is not None and name is not None:
        if version is not None or overlap:
            raise bad_request("kind and name are of the newest version, without overlap")
        topology = plane.topology()
        report = plane.lint.of_vhost(topology, seen).about(kind, exchange_name(name) if kind == "exchange" else name)
        return _answered(report, topology)
    if version is not None or overlap:
        return _report(plane, user, [seen], version, overlap)
    topology = plane.topology()
    return _answered(plane.lint.of_vhost(topology, seen).report, topology)


@router.post(
    "/lint",
    summary="Count findings of objects",
    response_model=list[LintMarks],
    openapi_extra=documented(MarksBody, _EXAMPLE, required=True),
)
def marks(plane: Plane, user: ManagementUser, body: Annotated[MarksBody, json_body(MarksBody)]) -> Response:
    """How many findings of each severity some exchanges and queues have; objects without any are left out."""
    topology = plane.topology()
    for vhost in dict.fromkeys(one.vhost for one in body.objects):
        visible_vhost(topology, user, vhost)
    found = []
    for one in body.objects:
        severities = plane.lint.of_vhost(topology, one.vhost).about(one.kind, one.name).severities()
        if any(severities.values()):
            found.append({"kind": one.kind, "vhost": one.vhost, "name": one.name, "severities": severities})
    return answer(found)


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
    return _answered(report, topology)


def _answered(report: Report, topology: Topology) -> Response:
    shown = report.shortened()
    rules = {code: RULES[code].page() for code in sorted({found.code for found in shown.findings})}
    return answer(shown.as_data() | {"rules": rules, "topology_version": topology.version})
