"""Diverts: filtered copies, or detours, from one exchange to another."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Response

from bindery.api.answers import answer, no_content, put_answer
from bindery.api.as_of import AsOf
from bindery.api.bodies import DivertBody, documented
from bindery.api.change_rights import check_divert
from bindery.api.deps import ManagementUser, NamePath, Plane, VhostHeader, VhostPath, json_body, resource
from bindery.api.errors import object_not_found
from bindery.api.items import DivertItem, paged
from bindery.api.listing import ListingParameters
from bindery.api.scope import visible_vhost, visible_vhosts
from bindery.api.views import divert_item
from bindery.router.declarations import TopologyEditor
from bindery.router.model import Divert

router = resource("diverts", own=True)

_ONE: Final = "/diverts/{vhost:segment}/{name:segment}"
_EXAMPLE: Final = {"source": "orders", "destination": "audit", "filter": "price > 1000", "exclusive": False}


@router.get("/diverts", summary="List diverts", response_model=paged(DivertItem))
def list_all(user: ManagementUser, topology: AsOf, listing: ListingParameters, x_vhost: VhostHeader = None) -> Response:
    """Every divert of every vhost that the caller sees."""
    vhosts = set(visible_vhosts(topology, user, x_vhost))
    return answer(listing.paged(divert_item(item) for item in topology.diverts.values() if item.vhost in vhosts))


@router.get("/diverts/{vhost:segment}", summary="List diverts of a vhost", response_model=paged(DivertItem))
def list_in_vhost(user: ManagementUser, topology: AsOf, listing: ListingParameters, vhost: VhostPath) -> Response:
    """Every divert of the vhost."""
    visible_vhost(topology, user, vhost)
    return answer(listing.paged(divert_item(item) for item in topology.diverts.values() if item.vhost == vhost))


@router.get(_ONE, summary="Show a divert", response_model=DivertItem)
def show(
    user: ManagementUser, topology: AsOf, listing: ListingParameters, vhost: VhostPath, name: NamePath
) -> Response:
    """One divert."""
    visible_vhost(topology, user, vhost)
    divert = topology.diverts.get((vhost, name))
    if divert is None:
        raise object_not_found()
    return answer(listing.one(divert_item(divert)))


@router.put(_ONE, status_code=201, summary="Declare a divert", openapi_extra=documented(DivertBody, _EXAMPLE))
async def declare(
    plane: Plane,
    user: ManagementUser,
    vhost: VhostPath,
    name: NamePath,
    body: Annotated[DivertBody, json_body(DivertBody)],
) -> Response:
    """Declare a divert; declaring it again with equal properties changes nothing (204)."""
    user.require_sight(vhost)
    ends, key = (body.source, body.destination), body.routing_key
    divert = Divert(0, vhost, name, *ends, body.filter, body.exclusive, key, body.transform)

    def change(editor: TopologyEditor) -> bool:
        editor.topology.vhost(vhost)
        check_divert(user, divert)
        return editor.declare_divert(divert)[1]

    return put_answer(await plane.change(change, author=user.name))


@router.delete(_ONE, status_code=204, summary="Delete a divert")
async def delete(plane: Plane, user: ManagementUser, vhost: VhostPath, name: NamePath) -> Response:
    """Delete a divert."""
    user.require_sight(vhost)

    def change(editor: TopologyEditor) -> None:
        divert = editor.topology.diverts.get((vhost, name))
        if divert is None:
            raise object_not_found()
        user.check("configure", vhost, divert.source)
        editor.delete_divert(vhost, name)

    await plane.change(change, author=user.name)
    return no_content()
