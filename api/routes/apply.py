"""Changes of the topology as documents: the plan, and one new version or none."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import Response
from fastapi.concurrency import run_in_threadpool
from pydantic import Field

from bindery.api.answers import answer
from bindery.api.auth import Identity
from bindery.api.bodies import Count, Flag, OwnBody, documented
from bindery.api.changes import MAX_CHANGE, ChangeDocument, change_of, check_rights, refusal_of
from bindery.api.control_plane import ControlPlane
from bindery.api.deps import ManagementUser, Plane, json_body, resource
from bindery.api.errors import Refusal
from bindery.api.items import Document
from bindery.api.masking import masked_for
from bindery.api.scope import visible_vhost
from bindery.router.declarations import TopologyEditor
from bindery.router.errors import DefinitionsRefused
from bindery.router.model import DEFAULT_VHOST, Topology
from bindery.router.proposal import Change
from bindery.store.plans import Plan, planned, rows_that_go

router = resource("versions", own=True)

_EXAMPLE: Final = {
    "vhost": "/",
    "change": {"add": {"queues": [{"name": "archive"}]}},
    "expected": 45,
    "reason": "orders are kept",
}


class ApplyBody(OwnBody):
    """A change, and the version of the topology that its plan was made for."""

    vhost: str = DEFAULT_VHOST
    change: ChangeDocument
    dry_run: Flag = Field(False, description="give the plan; change nothing")
    expected: Count | None = Field(
        None, description="refuse (412) when the newest version is another one and the plan would do something else"
    )
    reason: str = Field("", description="why; the version keeps it")


@router.post(
    "/topology/apply",
    summary="Apply a change",
    response_model=Document,
    openapi_extra=documented(ApplyBody, _EXAMPLE, required=True),
)
async def apply(
    plane: Plane,
    user: ManagementUser,
    body: Annotated[ApplyBody, json_body(ApplyBody, limit=lambda _: 2 * MAX_CHANGE)],
) -> Response:
    """Make a change that a document states, in one commit, or with `dry_run` only say what it would do.

    The plan lists the objects before and after, queues that are emptied, messages that go, and whether the caller
    `may` make it: everything in it takes the permissions that its own routes ask for, and what is no exchange, queue,
    binding or divert takes an administrator.
    """
    base, change, plan, said = await run_in_threadpool(_prepared, plane, user, body)
    if body.dry_run or not plan.changes_something:
        return answer(said | {"version": base.version})

    def make(editor: TopologyEditor) -> None:
        version = editor.topology.version
        made = _plan(editor, change, isinstance(body.change, str))
        if body.expected is not None and version != body.expected and made.essence() != plan.essence():
            raise Refusal(412, "precondition_failed", f"the newest version is {version}, and the plan is another one")
        for one in made.changes:
            check_rights(user, one, base)

    await plane.change(make, author=user.name, reason=body.reason or "apply")
    return answer(said | {"version": await run_in_threadpool(_made, plane, user, plan)})


def _prepared(plane: ControlPlane, user: Identity, body: ApplyBody) -> tuple[Topology, Change, Plan, dict[str, Any]]:
    """The topology that the plan is made for, the change, the plan, and what is answered of it.

    Raises Refusal for a change that cannot be made, and for one that the caller may not make.
    """
    base = plane.topology()
    visible_vhost(base, user, body.vhost)
    if body.expected is not None:
        base = plane.topologies.load(version=body.expected)
    change = change_of(body.change, user, body.vhost)
    plan = _plan(TopologyEditor(base), change, isinstance(body.change, str))
    may = True
    try:
        for one in plan.changes:
            check_rights(user, one, base)
    except Refusal:
        if not body.dry_run:
            raise
        may = False
    plan.rows = rows_that_go(plane.data, plan) if may else {}
    said = masked_for(user, plan.as_data()) | {"ignored": change.ignored, "dry_run": body.dry_run, "may": may}
    return base, change, plan, said


def _made(plane: ControlPlane, user: Identity, plan: Plan) -> int:
    """What has to follow a change; gives the newest version."""
    gone = [one.key[1] for one in plan.changes if one.key[0] == "vhost" and one.after is None]
    if gone:
        plane.revoke_gone(gone, author=user.name, action=f"deleted vhosts {gone!r}")
    plane.counts.changed()
    return plane.topology().version


def _plan(editor: TopologyEditor, change: Change, placed: bool) -> Plan:
    try:
        return planned(editor, change)
    except DefinitionsRefused as error:
        raise refusal_of(error, placed=placed) from None
