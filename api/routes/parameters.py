"""Runtime parameters, global parameters and limits: stored and reported; `max-queues` bounds declarations of queues."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Annotated, Any, Final

from fastapi import Path, Response

from bindery.api.answers import answer, no_content, put_answer
from bindery.api.as_of import AsOf
from bindery.api.bodies import ValueBody, documented
from bindery.api.control_plane import ControlPlane
from bindery.api.deps import (
    AdministratorUser,
    ManagementUser,
    NamePath,
    Plane,
    PolicymakerUser,
    VhostHeader,
    VhostPath,
    json_body,
    resource,
)
from bindery.api.errors import bad_request, object_not_found
from bindery.api.items import GlobalParameterItem, ParameterItem, UserLimitsItem, VhostLimitsItem
from bindery.api.listing import Item, ListingParameters
from bindery.api.masking import masked_for
from bindery.api.scope import visible_vhost, visible_vhosts
from bindery.router.declarations import TopologyEditor
from bindery.router.known_arguments import without_effect
from bindery.router.limits import LIMITS_KIND, LIMITS_NAME, MAX_QUEUES, limits_of
from bindery.router.model import Setting, Topology
from bindery.router.model.objects import GLOBAL_PARAMETER, PARAMETER_PREFIX
from bindery.router.values import Table, decode, encode
from bindery.store.access import AccessEditor

router = resource("parameters")

#: Limits of a vhost are one parameter, as definitions files have them.
_LIMITS: Final = ("max-connections", MAX_QUEUES)
_USER_LIMITS: Final = ("max-connections", "max-channels")
_ONE: Final = "/parameters/{component:segment}/{vhost:segment}/{name:segment}"
_CLUSTER_ID: Final = "internal_cluster_id"
_GLOBAL_ONE: Final = "/global-parameters/{name:segment}"
_EXAMPLE: Final = {"value": {"uri": "amqp://upstream"}}
ComponentPath = Annotated[
    str, Path(description="the plugin that the parameter is for", examples=["federation-upstream"])
]


def parameter_item(setting: Setting) -> ParameterItem:
    """A parameter."""
    return {
        "component": setting.kind.removeprefix(PARAMETER_PREFIX),
        "vhost": setting.vhost,
        "name": setting.name,
        "value": encode(setting.value),
    }


def _global_parameter_item(setting: Setting) -> GlobalParameterItem:
    return {"name": setting.name, "value": encode(setting.value)}


def _global_parameters(plane: ControlPlane, topology: Topology) -> dict[str, Setting]:
    """Every global parameter by its name: those that were set, and the id of the installation, as in the broker."""
    known = Setting(GLOBAL_PARAMETER, "", _CLUSTER_ID, plane.cluster_id)
    return {item.name: item for item in (known, *_settings(topology, GLOBAL_PARAMETER))}


def _settings(topology: Topology, kind: str) -> list[Setting]:
    return [item for item in topology.settings.values() if item.kind == kind]


def _parameters(topology: Topology, vhosts: Collection[str], component: str | None = None) -> list[ParameterItem]:
    """The parameters of some vhosts, of one component or all of them."""
    return [
        parameter_item(item)
        for item in topology.settings.values()
        if item.vhost in vhosts
        and (item.kind.startswith(PARAMETER_PREFIX) if component is None else item.kind == PARAMETER_PREFIX + component)
    ]


@router.get("/parameters", summary="List parameters", response_model=list[ParameterItem])
def list_all(user: ManagementUser, topology: AsOf, listing: ListingParameters, x_vhost: VhostHeader = None) -> Response:
    """Every parameter of every vhost that the caller sees."""
    found = _parameters(topology, visible_vhosts(topology, user, x_vhost))
    return answer(listing.whole(masked_for(user, found), order=("vhost", "component", "name")))


@router.get(
    "/parameters/{component:segment}", summary="List parameters of a component", response_model=list[ParameterItem]
)
def list_of_component(
    user: ManagementUser, topology: AsOf, listing: ListingParameters, component: ComponentPath
) -> Response:
    """The parameters of one component in every vhost that the caller sees."""
    return answer(listing.whole(masked_for(user, _parameters(topology, visible_vhosts(topology, user), component))))


@router.get(
    "/parameters/{component:segment}/{vhost:segment}",
    summary="List parameters of a component in a vhost",
    response_model=list[ParameterItem],
)
def list_in_vhost(
    user: ManagementUser, topology: AsOf, listing: ListingParameters, component: ComponentPath, vhost: VhostPath
) -> Response:
    """The parameters of one component in a vhost."""
    return answer(
        listing.whole(masked_for(user, _parameters(topology, [visible_vhost(topology, user, vhost)], component)))
    )


@router.get(_ONE, summary="Show a parameter", response_model=ParameterItem)
def show(
    user: ManagementUser,
    topology: AsOf,
    listing: ListingParameters,
    component: ComponentPath,
    vhost: VhostPath,
    name: NamePath,
) -> Response:
    """One parameter."""
    visible_vhost(topology, user, vhost)
    setting = topology.settings.get((PARAMETER_PREFIX + component, vhost, name))
    if setting is None:
        raise object_not_found()
    return answer(listing.one(masked_for(user, parameter_item(setting))))


@router.put(_ONE, status_code=201, summary="Set a parameter", openapi_extra=documented(ValueBody, _EXAMPLE))
async def put(
    plane: Plane,
    user: PolicymakerUser,
    component: ComponentPath,
    vhost: VhostPath,
    name: NamePath,
    body: Annotated[ValueBody, json_body(ValueBody)],
) -> Response:
    """Store a parameter; any JSON value. The header of the answer says when nothing reads it."""
    user.require_sight(vhost)
    setting = Setting(PARAMETER_PREFIX + component, vhost, name, decode(body.value, nested=True))

    def change(editor: TopologyEditor) -> bool:
        editor.topology.vhost(vhost)
        return editor.put_setting(setting)

    return put_answer(await plane.change(change, author=user.name), without_effect=without_effect(setting))


@router.delete(_ONE, status_code=204, summary="Delete a parameter")
async def delete(
    plane: Plane, user: PolicymakerUser, component: ComponentPath, vhost: VhostPath, name: NamePath
) -> Response:
    """Delete a parameter."""
    user.require_sight(vhost)
    key = (PARAMETER_PREFIX + component, vhost, name)

    def change(editor: TopologyEditor) -> None:
        if key not in editor.topology.settings:
            raise object_not_found()
        editor.delete_setting(*key)

    await plane.change(change, author=user.name)
    return no_content()


@router.get("/global-parameters", summary="List global parameters", response_model=list[GlobalParameterItem])
def list_global(plane: Plane, user: ManagementUser, topology: AsOf, listing: ListingParameters) -> Response:
    """Every global parameter, that of the installation's own id included."""
    found = list(map(_global_parameter_item, _global_parameters(plane, topology).values()))
    return answer(listing.whole(masked_for(user, found), order=("name",)))


@router.get(_GLOBAL_ONE, summary="Show a global parameter", response_model=GlobalParameterItem)
def show_global(
    plane: Plane, user: ManagementUser, topology: AsOf, listing: ListingParameters, name: NamePath
) -> Response:
    """One global parameter."""
    setting = _global_parameters(plane, topology).get(name)
    if setting is None:
        raise object_not_found()
    return answer(listing.one(masked_for(user, _global_parameter_item(setting))))


@router.put(
    _GLOBAL_ONE, status_code=201, summary="Set a global parameter", openapi_extra=documented(ValueBody, {"value": 1})
)
async def put_global(
    plane: Plane, user: AdministratorUser, name: NamePath, body: Annotated[ValueBody, json_body(ValueBody)]
) -> Response:
    """Store a global parameter; any JSON value."""
    setting = Setting(GLOBAL_PARAMETER, "", name, decode(body.value, nested=True))
    return put_answer(await plane.change(lambda editor: editor.put_setting(setting), author=user.name))


@router.delete(_GLOBAL_ONE, status_code=204, summary="Delete a global parameter")
async def delete_global(plane: Plane, user: AdministratorUser, name: NamePath) -> Response:
    """Delete a global parameter."""

    def change(editor: TopologyEditor) -> None:
        if (GLOBAL_PARAMETER, "", name) not in editor.topology.settings:
            raise object_not_found()
        editor.delete_setting(GLOBAL_PARAMETER, "", name)

    await plane.change(change, author=user.name)
    return no_content()


def _limit_items(settings: list[Setting]) -> list[Item]:
    return [
        {"vhost": item.vhost, "value": encode(item.value)}
        for item in settings
        if isinstance(item.value, Table) and item.value
    ]


@router.get("/vhost-limits", summary="List limits of vhosts", response_model=list[VhostLimitsItem])
def list_limits(user: ManagementUser, topology: AsOf, listing: ListingParameters) -> Response:
    """Limits of every vhost that the caller sees; stored and reported."""
    found = _limit_items(_settings(topology, LIMITS_KIND))
    return answer(listing.whole([item for item in found if user.sees(item["vhost"])], order=("vhost",)))


@router.get("/vhost-limits/{vhost:segment}", summary="Show limits of a vhost", response_model=list[VhostLimitsItem])
def show_limits(user: ManagementUser, topology: AsOf, listing: ListingParameters, vhost: VhostPath) -> Response:
    """Limits of one vhost; an empty list without any."""
    visible_vhost(topology, user, vhost)
    found = [item for item in _settings(topology, LIMITS_KIND) if item.vhost == vhost]
    return answer(listing.whole(_limit_items(found)))


@router.put(
    "/vhost-limits/{vhost:segment}/{name:segment}",
    status_code=204,
    summary="Set a limit of a vhost",
    openapi_extra=documented(ValueBody, {"value": 100}),
)
async def put_limit(
    plane: Plane,
    user: AdministratorUser,
    vhost: VhostPath,
    name: NamePath,
    body: Annotated[ValueBody, json_body(ValueBody)],
) -> Response:
    """Store a limit: declarations keep to `max-queues`, and nothing connects that `max-connections` could bound."""
    stated = Table({name: _limit(name, body.value, _LIMITS)})

    def change(editor: TopologyEditor) -> None:
        editor.topology.vhost(vhost)
        editor.put_setting(_limits_setting(vhost, {**_limits(editor, vhost), **stated}))

    await plane.change(change, author=user.name)
    return no_content(without_effect=without_effect(_limits_setting(vhost, stated)))


@router.delete("/vhost-limits/{vhost:segment}/{name:segment}", status_code=204, summary="Delete a limit of a vhost")
async def delete_limit(plane: Plane, user: AdministratorUser, vhost: VhostPath, name: NamePath) -> Response:
    """Delete a limit; deleting one that is not set changes nothing."""

    def change(editor: TopologyEditor) -> None:
        editor.topology.vhost(vhost)
        kept = {key: value for key, value in _limits(editor, vhost).items() if key != name}
        editor.put_setting(_limits_setting(vhost, kept))

    await plane.change(change, author=user.name)
    return no_content()


@router.get("/user-limits", summary="List limits of users", response_model=list[UserLimitsItem])
def list_user_limits(plane: Plane, _: AdministratorUser, listing: ListingParameters) -> Response:
    """Limits of every user; stored and reported, nothing connects that they could bound."""
    users = plane.access.load().users.values()
    found = [{"user": user.name, "value": dict(user.limits)} for user in users if user.limits]
    return answer(listing.whole(found, order=("user",)))


@router.get("/user-limits/{name:segment}", summary="Show limits of a user", response_model=list[UserLimitsItem])
def show_user_limits(plane: Plane, _: AdministratorUser, listing: ListingParameters, name: NamePath) -> Response:
    """Limits of one user; an empty list without any."""
    user = plane.access.load().users.get(name)
    if user is None:
        raise object_not_found()
    return answer(listing.whole([{"user": name, "value": dict(user.limits)}] if user.limits else []))


@router.put(
    "/user-limits/{name:segment}/{limit:segment}",
    status_code=204,
    summary="Set a limit of a user",
    openapi_extra=documented(ValueBody, {"value": 100}),
)
async def put_user_limit(
    plane: Plane,
    admin: AdministratorUser,
    name: NamePath,
    limit: Annotated[str, Path(description=" or ".join(_USER_LIMITS))],
    body: Annotated[ValueBody, json_body(ValueBody)],
) -> Response:
    """Store a limit of a user; nothing here connects or counts against it."""
    value = _limit(limit, body.value, _USER_LIMITS)

    def change(editor: AccessEditor) -> None:
        if name not in editor.users:
            raise bad_request(["no_such_user", name])
        user = editor.users[name]
        editor.put_user(replace(user, limits={**user.limits, limit: value}))

    await plane.change_access(change, author=admin.name, action=f"set limit {limit} of user {name!r}")
    return no_content(without_effect=without_effect(_limits_setting("", {limit: value})))


@router.delete("/user-limits/{name:segment}/{limit:segment}", status_code=204, summary="Delete a limit of a user")
async def delete_user_limit(
    plane: Plane,
    admin: AdministratorUser,
    name: NamePath,
    limit: Annotated[str, Path(description=" or ".join(_USER_LIMITS))],
) -> Response:
    """Delete a limit of a user."""

    def change(editor: AccessEditor) -> None:
        if name not in editor.users:
            raise object_not_found()
        user = editor.users[name]
        kept = {key: value for key, value in user.limits.items() if key != limit}
        editor.put_user(replace(user, limits=kept))

    await plane.change_access(change, author=admin.name, action=f"deleted limit {limit} of user {name!r}")
    return no_content()


def _limit(name: str, value: Any, known: tuple[str, ...]) -> int:
    if name not in known:
        raise bad_request(f"Unrecognised limit '{name}'; one of {', '.join(known)}")
    if isinstance(value, bool) or not isinstance(value, int):
        raise bad_request(["not_integer", value])
    return value


def _limits(editor: TopologyEditor, vhost: str) -> Mapping[str, Any]:
    return limits_of(editor.topology.settings.get((LIMITS_KIND, vhost, LIMITS_NAME)))


def _limits_setting(vhost: str, limits: Mapping[str, Any]) -> Setting:
    return Setting(LIMITS_KIND, vhost, LIMITS_NAME, Table(limits))
