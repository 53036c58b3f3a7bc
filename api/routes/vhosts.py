"""Vhosts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Final

from fastapi import Response
from fastapi.concurrency import run_in_threadpool

from bindery.api.answers import answer, no_content, put_answer
from bindery.api.as_of import AsOf
from bindery.api.bodies import VhostBody, documented
from bindery.api.control_plane import ControlPlane
from bindery.api.deps import AdministratorUser, ManagementUser, NamePath, Plane, json_body, resource
from bindery.api.errors import Refusal, object_not_found
from bindery.api.items import VhostItem, paged
from bindery.api.listing import Costly, Item, ListingParameters
from bindery.api.scope import visible_vhost
from bindery.api.statistics import with_rates
from bindery.api.views import vhost_item
from bindery.router.declarations import TopologyEditor
from bindery.router.definitions import protection_key
from bindery.router.known_arguments import without_effect
from bindery.router.model import Setting, Topology, Vhost
from bindery.store.access import AccessEditor, Permission

router = resource("vhosts")

_ONE: Final = "/vhosts/{name:segment}"
_EXAMPLE: Final = {"description": "orders of the European shops", "tags": "production,eu"}
_COUNTED: Final = frozenset(with_rates(dict.fromkeys(("messages", "messages_ready", "messages_unacknowledged"), 0)))


def message_totals(total: int) -> Mapping[str, Any]:
    """Counts over some queues."""
    return with_rates({"messages": total, "messages_ready": total, "messages_unacknowledged": 0})


def _item(plane: ControlPlane, topology: Topology, vhost: Vhost) -> Item:
    item = vhost_item(vhost, node=plane.node)
    counted = plane.statistics.of_vhost(vhost.name)
    if counted:
        item["message_stats"] = counted
    return item


def _costly(plane: ControlPlane, topology: Topology) -> Costly:
    def look_up(items: list[Item]) -> None:
        held = plane.counts.messages_in(topology)
        for item in items:
            if item["name"] in held:  # nothing is said where there is no queue
                item.update(message_totals(held[item["name"]]))

    return Costly(_COUNTED, look_up)


@router.get("/vhosts", summary="List vhosts", response_model=paged(VhostItem))
def list_all(plane: Plane, user: ManagementUser, topology: AsOf, listing: ListingParameters) -> Response:
    """Every vhost that the caller sees."""
    found = [_item(plane, topology, vhost) for vhost in topology.vhosts.values() if user.sees(vhost.name)]
    return answer(listing.paged(found, order=("name",), costly=[_costly(plane, topology)]))


@router.get(_ONE, summary="Show a vhost", response_model=VhostItem)
def show(plane: Plane, user: ManagementUser, topology: AsOf, listing: ListingParameters, name: NamePath) -> Response:
    """One vhost."""
    visible_vhost(topology, user, name)
    return answer(listing.one(_item(plane, topology, topology.vhosts[name]), costly=[_costly(plane, topology)]))


@router.put(_ONE, status_code=201, summary="Create a vhost", openapi_extra=documented(VhostBody, _EXAMPLE))
async def put(
    plane: Plane, user: AdministratorUser, name: NamePath, body: Annotated[VhostBody, json_body(VhostBody)]
) -> Response:
    """Create a vhost, or change its description and tags; its creator gets every permission in it.

    So does who asks again for a vhost in which nobody has any permission.
    """

    declared = Vhost(name, body.description, body.tags, body.default_queue_type, body.tracing, body.compat)

    def change(editor: TopologyEditor) -> bool:
        present = editor.topology.vhosts.get(name)
        if present is None:
            return editor.declare_vhost(declared)
        given = {key: getattr(body, key) for key in body.model_fields_set}
        return editor.declare_vhost(replace(present, **given))

    await run_in_threadpool(plane.revoke_absent, author=user.name)
    created = await plane.change(change, author=user.name)
    await run_in_threadpool(_grant, plane, user.name, name, created=created)
    return put_answer(created, without_effect=without_effect(declared))


def _grant(plane: ControlPlane, user: str, vhost: str, *, created: bool) -> None:
    """Give every permission in a new vhost to its creator, and nothing to whoever had any in an earlier one.

    In a vhost that was there already somebody has a permission, unless its creator's could not be stored.
    """
    if not created and vhost in plane.access.load().vhosts:
        return

    def change(editor: AccessEditor) -> None:
        if created:
            editor.forget_vhost(vhost)
        if vhost not in editor.result().vhosts:
            editor.put_permission(Permission(user, vhost, ".*", ".*", ".*"))

    plane.access.edit(change, author=user, action=f"created vhost {vhost!r}")


@router.delete(_ONE, status_code=204, summary="Delete a vhost")
async def delete(plane: Plane, user: AdministratorUser, name: NamePath) -> Response:
    """Delete a vhost with everything in it; its tables are emptied, their history stays."""

    def change(editor: TopologyEditor) -> None:
        if name not in editor.topology.vhosts:
            raise object_not_found()
        if protection_key(name) in editor.topology.settings:
            raise Refusal(412, "precondition_failed", f"vhost '{name}' is protected from deletion")
        editor.delete_vhost(name)

    await plane.change(change, author=user.name)
    await run_in_threadpool(plane.revoke_gone, [name], author=user.name, action=f"deleted vhost {name!r}")
    return no_content()


@router.post(_ONE + "/deletion/protection", status_code=204, summary="Protect a vhost from deletion")
async def protect(plane: Plane, user: AdministratorUser, name: NamePath) -> Response:
    """From now on the vhost cannot be deleted (412)."""

    def change(editor: TopologyEditor) -> None:
        if name not in editor.topology.vhosts:
            raise object_not_found()
        editor.put_setting(Setting(*protection_key(name), True))

    await plane.change(change, author=user.name)
    return no_content()


@router.delete(_ONE + "/deletion/protection", status_code=204, summary="Lift the protection of a vhost")
async def unprotect(plane: Plane, user: AdministratorUser, name: NamePath) -> Response:
    """The vhost can be deleted again."""

    def change(editor: TopologyEditor) -> None:
        if name not in editor.topology.vhosts:
            raise object_not_found()
        if protection_key(name) in editor.topology.settings:
            editor.delete_setting(*protection_key(name))

    await plane.change(change, author=user.name)
    return no_content()
