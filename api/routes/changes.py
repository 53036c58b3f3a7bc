"""Documents that change the topology: what they would do, and doing it, all of it in one version or nothing."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from bindery.api.answers import answer
from bindery.api.auth import Identity
from bindery.api.bodies import read_bytes
from bindery.api.change_rights import check_plan
from bindery.api.changes import read_document, refused
from bindery.api.control_plane import ControlPlane
from bindery.api.deps import ManagementUser, Plane, VhostPath, resource
from bindery.api.errors import Refusal
from bindery.api.items import Applied, Planned
from bindery.api.masking import masked_for
from bindery.api.scope import visible_vhost
from bindery.router.declarations import TopologyEditor
from bindery.router.errors import DefinitionsRefused
from bindery.router.proposal import Change
from bindery.store.plans import Plan, planned, rows_lost

router = resource("changes", own=True)

MAX_CHANGES: Final = 10_000
_EXAMPLE: Final = {
    "delete": {"bindings": [{"source": "orders", "destination": "eu", "routing_key": "eu.#"}]},
    "definitions": {"bindings": [{"source": "orders", "destination": "eu", "routing_key": "eu.*"}]},
}
_DOCUMENT: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"type": "object"}, "example": _EXAMPLE},
            "application/yaml": {"schema": {"type": "string"}, "example": "queues: [{name: eu}]"},
        },
    }
}
Prune = Annotated[bool, Query(description="delete what the document does not name, in the vhosts that it names")]
Limit = Annotated[int, Query(description="changes to list at most; the counts are of all", ge=0, le=MAX_CHANGES)]


@router.post("/plan/{vhost:segment}", summary="Plan a change", response_model=Planned, openapi_extra=_DOCUMENT)
async def plan(
    plane: Plane,
    user: ManagementUser,
    request: Request,
    vhost: VhostPath,
    prune: Prune = False,
    limit: Limit = 1_000,
) -> Response:
    """What a document of definitions or a change, JSON or YAML, would do; nothing is changed.

    Objects that state no vhost are of this one. The caller needs what each change by itself needs. A refused document
    has a `report` with every error, its line and column.
    """
    raw = await read_bytes(request, plane.settings.definitions_limit)

    def work() -> Response:
        visible_vhost(plane.topology(), user, vhost)
        change = read_document(user, vhost, raw, prune=prune)
        made = _planned(plane, user, change)
        made.rows = rows_lost(plane.data, made)
        page = masked_for(user, made.as_data(limit=limit))
        return answer({"base": made.before.version, **page, "ignored": change.ignored})

    return await run_in_threadpool(work)


@router.post("/apply/{vhost:segment}", summary="Apply a change", response_model=Applied, openapi_extra=_DOCUMENT)
async def apply(
    plane: Plane,
    user: ManagementUser,
    request: Request,
    vhost: VhostPath,
    prune: Prune = False,
    expected: Annotated[
        int | None, Query(description="refuse (412) unless this is the newest version of the topology", ge=0)
    ] = None,
    reason: Annotated[str, Query(description="why; the version keeps it", max_length=1_000)] = "",
) -> Response:
    """Make the topology what a document says, in one version, or change nothing; as `plan` says it.

    Without `expected` it is refused (412) when somebody else's change comes in between and alters what it does.
    """
    raw = await read_bytes(request, plane.settings.definitions_limit)
    visible_vhost(await run_in_threadpool(plane.topology), user, vhost)
    change = await run_in_threadpool(read_document, user, vhost, raw, prune=prune)
    intended = await run_in_threadpool(_planned, plane, user, change)
    if expected is not None and intended.before.version != expected:
        raise _overtaken(f"the newest version is {intended.before.version}, not {expected}")

    def make(editor: TopologyEditor) -> Plan:
        made = planned(editor, change)
        if made.essence() != intended.essence():
            raise _overtaken("somebody else changed the topology meanwhile, and with it the plan")
        return made

    if not intended.changes_something:
        return answer({"version": intended.before.version, "changed": False})
    if any(one.key[0] == "vhost" for one in intended.changes):
        await run_in_threadpool(plane.revoke_absent, author=user.name)
    edit = await plane.change_version(make, author=user.name, reason=reason)
    if intended.vhosts_gone:
        await run_in_threadpool(
            plane.revoke_gone,
            intended.vhosts_gone,
            author=user.name,
            action=f"deleted vhosts {intended.vhosts_gone!r}",
        )
    if any(one.key[0] == "queue" for one in intended.changes) or intended.emptied:
        await run_in_threadpool(plane.counts.changed)
    return answer({"version": edit.version, "changed": True})


def _overtaken(what: str) -> Refusal:
    return Refusal(412, "precondition_failed", f"{what}; nothing was changed: look at the plan again")


def _planned(plane: ControlPlane, user: Identity, change: Change) -> Plan:
    try:
        made = planned(TopologyEditor(plane.topology()), change)
    except DefinitionsRefused as error:
        raise refused(error) from None
    check_plan(user, made)
    return made
