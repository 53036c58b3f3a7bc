"""Versions of the topology: who changed what and when, what lies between two of them, and the way back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

from fastapi import Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import Field

from bindery.api.answers import answer
from bindery.api.as_of import Version
from bindery.api.bodies import Body, Count, OwnBody, documented, read_object
from bindery.api.deps import AdministratorUser, ManagementUser, MonitoringUser, Plane, json_body, resource
from bindery.api.errors import Refusal, bad_request, object_not_found
from bindery.api.items import Document, Versions
from bindery.api.masking import masked_for
from bindery.router.definitions import parse_definitions
from bindery.router.errors import DefinitionsRefused
from bindery.router.model import Topology
from bindery.store.comparison import as_page, proposed_changes, protected_vhosts
from bindery.store.history import ObjectChange, VersionInfo, Wanted, changes_between

router = resource("versions", own=True)

MAX_VERSIONS: Final = 1_000
MAX_CHANGES: Final = 10_000
_DOCUMENT: Final = {"exchanges": [{"name": "orders", "vhost": "/", "type": "topic", "durable": True}]}
Offset = Annotated[int, Query(description="changes to pass over", ge=0)]
Limit = Annotated[int, Query(description="changes to give at most; the counts are of all", ge=0, le=MAX_CHANGES)]
VhostQuery = Annotated[str | None, Query(description="only this vhost")]


class RollbackBody(OwnBody):
    """Where to go back to, and from where."""

    to: Count
    expected: Count | None = Field(None, description="refuse (412) unless this is the newest version")


@router.get("/topology/versions", summary="List versions", response_model=Versions)
def versions(
    plane: Plane,
    _: MonitoringUser,
    before: Annotated[int | None, Query(description="only versions below this one", ge=0)] = None,
    limit: Annotated[int, Query(description="versions to give at most", ge=1, le=MAX_VERSIONS)] = 100,
    author: Annotated[str | None, Query(description="only changes by this user")] = None,
    kind: Annotated[str | None, Query(description="only changes of objects of this kind: exchange, queue …")] = None,
    vhost: VhostQuery = None,
    name: Annotated[str | None, Query(description="only changes of objects of this name")] = None,
) -> Response:
    """Who changed what, when and why, newest first; a version names up to 50 of its changes.

    Versions name objects of every vhost, so they are for users who monitor all of them. With a condition at most 1,000
    versions are looked at: `looked_back_to` is the oldest of them, from which `before` goes on. A version that does not
    name all of its changes is given when those that it does not name may be meant.
    """
    wanted = Wanted(author, kind, vhost, name)
    found: list[VersionInfo] = []
    newest = plane.topology().version
    lowest = newest + 1 if before is None else min(before, newest + 1)
    bound = max(0, lowest - (limit if wanted.is_everything else MAX_VERSIONS))
    while lowest > bound and len(found) < limit:
        some = plane.topologies.history(before=lowest, limit=min(limit, lowest - bound))
        for info in some:
            lowest = info.version
            if wanted.holds(info):
                found.append(info)
                if len(found) == limit:
                    break
    return answer({"newest": newest, "looked_back_to": lowest, "versions": [info.as_data() for info in found]})


@router.get("/topology/versions/{version:segment}", summary="Show a version", response_model=Document)
def show(
    plane: Plane,
    user: MonitoringUser,
    version: Annotated[str, Path(description="number of a version", examples=["1"])],
    offset: Offset = 0,
    limit: Limit = 1_000,
) -> Response:
    """One version, and everything that it changed, before and after."""
    if not (version.isascii() and version.isdigit() and len(version) < 16):
        raise object_not_found()
    number = int(version)
    info = plane.topologies.version(number)
    changes = plane.topologies.diff(max(number - 1, 0), number)
    return answer(info.as_data() | masked_for(user, as_page(changes, offset=offset, limit=limit)))


@router.get("/topology/diff", summary="Compare two versions", response_model=Document)
def diff(
    plane: Plane,
    user: ManagementUser,
    base: Annotated[int, Query(alias="from", description="the older version", ge=0)],
    to: Version = None,
    vhost: VhostQuery = None,
    offset: Offset = 0,
    limit: Limit = 1_000,
) -> Response:
    """What leads from one version to another, or to the newest, in the vhosts that the caller sees."""
    older, newer = plane.topologies.load(version=base), plane.topologies.load(version=to)
    if vhost is not None:
        user.require_sight(vhost)
        if vhost not in older.vhosts and vhost not in newer.vhosts:
            raise object_not_found()
    changes = [
        one
        for one in changes_between(older, newer)
        if (one.key[1] == vhost if vhost is not None else user.sees(one.key[1]))
    ]
    page = masked_for(user, as_page(changes, offset=offset, limit=limit))
    return answer({"from": older.version, "to": newer.version, **page})


@router.post(
    "/topology/diff",
    summary="Compare a document with now",
    response_model=Document,
    openapi_extra=documented(Body, _DOCUMENT, required=True),
)
async def diff_document(
    plane: Plane,
    _: AdministratorUser,
    request: Request,
    vhost: Annotated[str | None, Query(description="the vhost of a document that states none")] = None,
    offset: Offset = 0,
    limit: Limit = 1_000,
) -> Response:
    """What importing a definitions document, overwriting what exists, would change; nothing is changed.

    `absent` lists the objects that exist in the document's vhosts and not in the document.
    """
    content = await read_object(request, plane.settings.definitions_limit)
    return await run_in_threadpool(_compared, plane.topology, content, vhost, offset, limit)


def _compared(
    load: Callable[[], Topology], content: dict[str, Any], vhost: str | None, offset: int, limit: int
) -> Response:
    topology = load()
    document = parse_definitions(content, vhost=vhost)
    try:
        found = proposed_changes(topology, document)
    except DefinitionsRefused as error:
        raise bad_request(error.message, report=error.report) from None
    absent = [{"kind": kind, "vhost": where, "name": name} for kind, where, name in found.absent]
    return answer(
        {
            "base": topology.version,
            **as_page(found.changes, offset=offset, limit=limit),
            "absent_total": len(absent),
            "absent": absent[offset : offset + limit],
            "skipped": found.report.skipped,
        }
    )


@router.post(
    "/topology/rollback",
    summary="Roll back",
    response_model=Document,
    openapi_extra=documented(RollbackBody, {"to": 41, "expected": 45}, required=True),
)
async def rollback(
    plane: Plane, user: AdministratorUser, body: Annotated[RollbackBody, json_body(RollbackBody)]
) -> Response:
    """Make the state of an older version the newest one, in one commit and with its lineage ids.

    Queues that come back are empty, queues that go are emptied. A protected vhost is not rolled away (412).
    Permissions in vhosts that go are revoked; they do not come back with a vhost.
    """
    if body.to < 0 or (body.expected is not None and body.expected < 0):
        raise bad_request(["not_version", min(body.to, body.expected or 0)])

    def check(present: Topology, changes: list[ObjectChange]) -> None:
        if body.expected is not None and present.version != body.expected:
            raise Refusal(412, "precondition_failed", f"the newest version is {present.version}")
        for vhost in protected_vhosts(present, changes):
            raise Refusal(412, "precondition_failed", f"vhost '{vhost}' is protected from deletion")

    def back() -> tuple[int, list[ObjectChange]]:
        plane.revoke_absent(author=user.name)
        edit = plane.topologies.rollback(body.to, author=user.name, check=check)
        gone = [one.key[1] for one in edit.result if one.key[0] == "vhost" and one.after is None]
        if gone:
            plane.revoke_gone(gone, author=user.name, action=f"rolled vhosts {gone!r} away")
        return edit.version, edit.result

    version, changes = await run_in_threadpool(back)
    return answer({"version": version, "rolled_back_to": body.to, **as_page(changes, limit=1_000)})
