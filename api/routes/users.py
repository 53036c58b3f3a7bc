"""Users, and what is granted to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, get_args

from fastapi import Query, Response
from pydantic import Field

from bindery.api.answers import answer, no_content, put_answer
from bindery.api.auth import Identity
from bindery.api.bodies import OwnBody, UserBody, UsersBody, documented
from bindery.api.deps import AdministratorUser, ManagementUser, NamePath, Plane, VhostPath, json_body, resource
from bindery.api.errors import bad_request, object_not_found
from bindery.api.items import (
    Document,
    PermissionItem,
    Rights,
    RightsByName,
    TopicPermissionItem,
    UserItem,
    WhoAmI,
    paged,
)
from bindery.api.listing import ListingParameters
from bindery.api.routes.permissions import permission_item, topic_permission_item
from bindery.api.scope import visible_vhost
from bindery.store.access import AccessEditor, Operation, User, with_password
from bindery.store.access_definitions import algorithm_of

router = resource("users")

_ONE: Final = "/users/{name:segment}"
#: Changes that one answer gives at most.
MAX_AUDIT: Final = 1_000
_EXAMPLE: Final = {"password": "a long passphrase", "tags": "management"}


class NamesBody(OwnBody):
    """Names of exchanges and queues."""

    names: Annotated[list[str], Field(max_length=1_000)]


def user_item(user: User) -> UserItem:
    """A user as administrators and definitions files see them."""
    return {
        "name": user.name,
        "password_hash": user.password_hash,
        "hashing_algorithm": user.hashing_algorithm,
        "tags": list(user.tags),
        "limits": dict(user.limits),
    }


@router.get("/whoami", summary="Who am I", response_model=WhoAmI)
def whoami(user: ManagementUser) -> Response:
    """The caller's name and tags."""
    return answer({"name": user.name, "tags": list(user.user.tags)})


@router.get("/rights/{vhost:segment}/{name:segment}", summary="Show the caller's rights", response_model=Rights)
def rights(plane: Plane, user: ManagementUser, vhost: VhostPath, name: NamePath) -> Response:
    """What the caller may do with an exchange or a queue of that name, whether there is one or not."""
    visible_vhost(plane.topology(), user, vhost)
    return answer({operation: user.may(operation, vhost, name) for operation in get_args(Operation)})


@router.post(
    "/rights/{vhost:segment}",
    summary="Show the caller's rights to several names",
    response_model=RightsByName,
    openapi_extra=documented(NamesBody, {"names": ["orders", "europe"]}),
)
def rights_to_many(
    plane: Plane, user: ManagementUser, vhost: VhostPath, body: Annotated[NamesBody, json_body(NamesBody)]
) -> Response:
    """What the caller may do with exchanges and queues of those names, a thousand at most; changes nothing."""
    visible_vhost(plane.topology(), user, vhost)
    operations = get_args(Operation)
    return answer(
        {"names": {name: {one: user.may(one, vhost, name) for one in operations} for name in dict.fromkeys(body.names)}}
    )


@router.get("/audit", summary="Show the audit", response_model=Document)
def audit(
    plane: Plane,
    _: AdministratorUser,
    limit: Annotated[int, Query(description="changes to give at most", ge=1, le=MAX_AUDIT)] = 50,
    by: Annotated[str | None, Query(description="those of this user")] = None,
    text: Annotated[str | None, Query(description="those whose words hold this, such as the name of a user")] = None,
    since: Annotated[int, Query(description="not before, in ms since 1970", ge=0)] = 0,
    until: Annotated[int | None, Query(description="before, in ms since 1970", ge=0)] = None,
) -> Response:
    """Who changed users and permissions, newest first; `at_ms` is in ms since 1970. Administrators only.

    What narrows it looks at the newest 1,000 changes. Changes of the topology are its versions.
    """
    narrowed = by is not None or text is not None or since or until is not None
    changes = [
        one
        for one in plane.access.audit(limit=MAX_AUDIT if narrowed else limit)
        if by in (None, one["user"])
        and (text is None or text.lower() in one["action"].lower())
        and since <= one["at_ms"]
        and (until is None or one["at_ms"] < until)
    ]
    return answer({"changes": changes[:limit]})


@router.get("/users", summary="List users", response_model=paged(UserItem))
def list_all(plane: Plane, _: AdministratorUser, listing: ListingParameters) -> Response:
    """Every user, with hashes of passwords; administrators only."""
    return answer(listing.paged(map(user_item, plane.access.load().users.values()), order=("name",)))


@router.get("/users/without-permissions", summary="List users without permissions", response_model=paged(UserItem))
def list_without_permissions(plane: Plane, _: AdministratorUser, listing: ListingParameters) -> Response:
    """Users who have no permission in any vhost."""
    access = plane.access.load()
    granted = {name for _, name in access.permissions}
    found = [user_item(user) for user in access.users.values() if user.name not in granted]
    return answer(listing.paged(found, order=("name",)))


@router.post(
    "/users/bulk-delete",
    status_code=204,
    summary="Delete users",
    openapi_extra=documented(UsersBody, {"users": ["ann", "bob"]}),
)
async def delete_many(
    plane: Plane, user: AdministratorUser, body: Annotated[UsersBody, json_body(UsersBody)]
) -> Response:
    """Delete users with their permissions: all of them, or none when a name is no user's."""
    _refuse_self(user, *body.users)

    def change(editor: AccessEditor) -> None:
        for name in dict.fromkeys(body.users):
            if name not in editor.users:
                raise bad_request(["no_such_user", name])
            editor.delete_user(name)

    await plane.change_access(change, author=user.name, action=f"deleted users {sorted(body.users)!r}")
    return no_content()


@router.get(_ONE, summary="Show a user", response_model=UserItem)
def show(plane: Plane, _: AdministratorUser, listing: ListingParameters, name: NamePath) -> Response:
    """One user, with the hash of the password; administrators only."""
    user = plane.access.load().users.get(name)
    if user is None:
        raise object_not_found()
    return answer(listing.one(user_item(user)))


@router.put(_ONE, status_code=201, summary="Create or change a user", openapi_extra=documented(UserBody, _EXAMPLE))
async def put(
    plane: Plane, user: AdministratorUser, name: NamePath, body: Annotated[UserBody, json_body(UserBody)]
) -> Response:
    """Create a user or replace password and tags; without password and hash the user cannot log in."""
    if body.tags is None:
        raise bad_request("tags_not_present")

    def change(editor: AccessEditor) -> bool:
        limits = editor.users[name].limits if name in editor.users else {}
        return editor.put_user(_from_body(name, body, limits))

    action = f"put user {name!r} with tags {list(body.tags)!r}"
    return put_answer(await plane.change_access(change, author=user.name, action=action))


@router.delete(_ONE, status_code=204, summary="Delete a user")
async def delete(plane: Plane, user: AdministratorUser, name: NamePath) -> Response:
    """Delete a user with every permission of theirs."""
    _refuse_self(user, name)

    def change(editor: AccessEditor) -> None:
        if name not in editor.users:
            raise object_not_found()
        editor.delete_user(name)

    await plane.change_access(change, author=user.name, action=f"deleted user {name!r}")
    return no_content()


@router.get(_ONE + "/permissions", summary="List permissions of a user", response_model=list[PermissionItem])
def list_permissions(plane: Plane, _: AdministratorUser, listing: ListingParameters, name: NamePath) -> Response:
    """What the user may do, per vhost."""
    access = plane.access.load()
    if name not in access.users:
        raise object_not_found()
    found = [permission_item(item) for item in access.permissions.values() if item.user == name]
    return answer(listing.whole(found, order=("vhost", "user")))


@router.get(
    _ONE + "/topic-permissions", summary="List topic permissions of a user", response_model=list[TopicPermissionItem]
)
def list_topic_permissions(plane: Plane, _: AdministratorUser, listing: ListingParameters, name: NamePath) -> Response:
    """Which routing keys the user may use, per vhost and topic exchange."""
    access = plane.access.load()
    if name not in access.users:
        raise object_not_found()
    found = [topic_permission_item(item) for item in access.topic_permissions.values() if item.user == name]
    return answer(listing.whole(found, order=("vhost", "user", "exchange")))


def _from_body(name: str, body: UserBody, limits: Mapping[str, int]) -> User:
    password_hash = "" if body.password else body.password_hash or ""
    algorithm = body.hashing_algorithm or algorithm_of(password_hash)
    user = User(name, password_hash, algorithm, body.tags or (), dict(limits))
    return with_password(user, body.password) if body.password else user


def _refuse_self(user: Identity, *names: str) -> None:
    if user.name in names:
        # the last way in would be gone with the user who is using it
        raise bad_request("a user cannot delete themselves")
