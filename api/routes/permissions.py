"""Permissions: what users may configure, write and read in a vhost, and topic permissions."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Path, Response

from bindery.api.answers import answer, no_content, put_answer
from bindery.api.bodies import PermissionBody, TopicPermissionBody, documented
from bindery.api.control_plane import ControlPlane
from bindery.api.deps import AdministratorUser, NamePath, Plane, VhostPath, json_body, resource
from bindery.api.errors import bad_request, object_not_found
from bindery.api.items import PermissionItem, TopicPermissionItem
from bindery.api.listing import ListingParameters
from bindery.store.access import Access, AccessEditor, Permission, TopicPermission

router = resource("permissions")

_ONE: Final = "/permissions/{vhost:segment}/{user:segment}"
_TOPIC_ONE: Final = "/topic-permissions/{vhost:segment}/{user:segment}"
_TOPIC_EXCHANGE: Final = _TOPIC_ONE + "/{exchange:segment}"
_EXAMPLE: Final = {"configure": "^orders", "write": ".*", "read": ".*"}
_TOPIC_EXAMPLE: Final = {"exchange": "amq.topic", "write": "^orders\\.", "read": ".*"}
UserPath = Annotated[str, Path(description="name of a user")]


def permission_item(permission: Permission) -> PermissionItem:
    """A permission."""
    return {
        "user": permission.user,
        "vhost": permission.vhost,
        "configure": permission.configure,
        "write": permission.write,
        "read": permission.read,
    }


def topic_permission_item(permission: TopicPermission) -> TopicPermissionItem:
    """A topic permission."""
    return {
        "user": permission.user,
        "vhost": permission.vhost,
        "exchange": permission.exchange,
        "write": permission.write,
        "read": permission.read,
    }


def _require(plane: ControlPlane, vhost: str, user: str) -> None:
    """Refuse a vhost or user that does not exist, in the broker's words."""
    if vhost not in plane.topology().vhosts or user not in plane.access.load().users:
        raise bad_request("vhost_or_user_not_found")


def _held(access: Access | AccessEditor, vhost: str, user: str) -> list[TopicPermission]:
    """The topic permissions of a user in a vhost."""
    return [item for key, item in access.topic_permissions.items() if key[:2] == (vhost, user)]


@router.get("/permissions", summary="List permissions", response_model=list[PermissionItem])
def list_all(plane: Plane, _: AdministratorUser, listing: ListingParameters) -> Response:
    """Every permission of every user."""
    found = map(permission_item, plane.access.load().permissions.values())
    return answer(listing.whole(found, order=("vhost", "user")))


@router.get(_ONE, summary="Show a permission", response_model=PermissionItem)
def show(plane: Plane, _: AdministratorUser, listing: ListingParameters, vhost: VhostPath, user: UserPath) -> Response:
    """What a user may do in a vhost."""
    permission = plane.access.load().permission(vhost, user)
    if permission is None:
        raise object_not_found()
    return answer(listing.one(permission_item(permission)))


@router.put(_ONE, status_code=201, summary="Grant a permission", openapi_extra=documented(PermissionBody, _EXAMPLE))
def put(
    plane: Plane,
    admin: AdministratorUser,
    vhost: VhostPath,
    user: UserPath,
    body: Annotated[PermissionBody, json_body(PermissionBody)],
) -> Response:
    """Set what a user may configure, write and read in a vhost."""
    _require(plane, vhost, user)
    permission = Permission(user, vhost, body.configure, body.write, body.read)
    action = f"granted user {user!r} a permission in vhost {vhost!r}"
    return put_answer(
        plane.access.edit(lambda editor: editor.put_permission(permission), author=admin.name, action=action)
    )


@router.delete(_ONE, status_code=204, summary="Revoke a permission")
def delete(plane: Plane, admin: AdministratorUser, vhost: VhostPath, user: UserPath) -> Response:
    """Take away what a user may do in a vhost."""

    def change(editor: AccessEditor) -> None:
        if (vhost, user) not in editor.permissions:
            raise object_not_found()
        editor.delete_permission(vhost, user)

    plane.access.edit(change, author=admin.name, action=f"revoked user {user!r} in vhost {vhost!r}")
    return no_content()


@router.get(
    "/vhosts/{name:segment}/permissions", summary="List permissions in a vhost", response_model=list[PermissionItem]
)
def list_in_vhost(plane: Plane, _: AdministratorUser, listing: ListingParameters, name: NamePath) -> Response:
    """What users may do in a vhost."""
    if name not in plane.topology().vhosts:
        raise object_not_found()
    found = [permission_item(item) for item in plane.access.load().permissions.values() if item.vhost == name]
    return answer(listing.whole(found, order=("vhost", "user")))


@router.get("/topic-permissions", summary="List topic permissions", response_model=list[TopicPermissionItem])
def list_topic(plane: Plane, _: AdministratorUser, listing: ListingParameters) -> Response:
    """Every topic permission of every user."""
    found = map(topic_permission_item, plane.access.load().topic_permissions.values())
    return answer(listing.whole(found, order=("vhost", "user", "exchange")))


@router.get(
    "/vhosts/{name:segment}/topic-permissions",
    summary="List topic permissions in a vhost",
    response_model=list[TopicPermissionItem],
)
def list_topic_in_vhost(plane: Plane, _: AdministratorUser, listing: ListingParameters, name: NamePath) -> Response:
    """Which routing keys users may use in a vhost."""
    if name not in plane.topology().vhosts:
        raise object_not_found()
    kept = plane.access.load().topic_permissions.values()
    found = [topic_permission_item(item) for item in kept if item.vhost == name]
    return answer(listing.whole(found, order=("vhost", "user", "exchange")))


@router.get(_TOPIC_EXCHANGE, summary="Show topic permissions of a user in a vhost", include_in_schema=False)
@router.get(_TOPIC_ONE, summary="Show topic permissions of a user in a vhost", response_model=list[TopicPermissionItem])
def show_topic(
    plane: Plane, _: AdministratorUser, listing: ListingParameters, vhost: VhostPath, user: UserPath
) -> Response:
    """Which routing keys a user may use in a vhost, per topic exchange."""
    found = [topic_permission_item(item) for item in _held(plane.access.load(), vhost, user)]
    if not found:
        raise object_not_found()
    return answer(listing.whole(found, order=("exchange",)))


@router.put(
    _TOPIC_ONE,
    status_code=201,
    summary="Grant a topic permission",
    openapi_extra=documented(TopicPermissionBody, _TOPIC_EXAMPLE),
)
def put_topic(
    plane: Plane,
    admin: AdministratorUser,
    vhost: VhostPath,
    user: UserPath,
    body: Annotated[TopicPermissionBody, json_body(TopicPermissionBody)],
) -> Response:
    """Set which routing keys a user may use with a topic exchange.

    201 for the user's first topic permission in the vhost, 204 for one more: the address names them all.
    """
    _require(plane, vhost, user)
    permission = TopicPermission(user, vhost, body.exchange, body.write, body.read)

    def change(editor: AccessEditor) -> bool:
        is_first = not _held(editor, vhost, user)
        editor.put_topic_permission(permission)
        return is_first

    action = f"granted user {user!r} a topic permission in vhost {vhost!r}"
    return put_answer(plane.access.edit(change, author=admin.name, action=action))


@router.delete(_TOPIC_ONE, status_code=204, summary="Revoke topic permissions")
def delete_topic(plane: Plane, admin: AdministratorUser, vhost: VhostPath, user: UserPath) -> Response:
    """Take away every topic permission of a user in a vhost."""

    def change(editor: AccessEditor) -> None:
        if not _held(editor, vhost, user):
            raise object_not_found()
        editor.delete_topic_permissions(vhost, user)

    plane.access.edit(change, author=admin.name, action=f"revoked topic permissions of {user!r} in {vhost!r}")
    return no_content()


@router.delete(_TOPIC_EXCHANGE, status_code=204, summary="Revoke a topic permission")
def delete_topic_exchange(
    plane: Plane,
    admin: AdministratorUser,
    vhost: VhostPath,
    user: UserPath,
    exchange: Annotated[str, Path(description="the exchange that the permission names", examples=["amq.topic"])],
) -> Response:
    """Take away a user's topic permission for one exchange.

    Only a user without any topic permission in the vhost is not found, as in the broker.
    """

    def change(editor: AccessEditor) -> None:
        if not _held(editor, vhost, user):
            raise object_not_found()
        editor.topic_permissions.pop((vhost, user, exchange), None)

    action = f"revoked the topic permission of {user!r} for exchange {exchange!r} in {vhost!r}"
    plane.access.edit(change, author=admin.name, action=action)
    return no_content()
