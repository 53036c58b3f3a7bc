"""Dependency aliases: what a resource asks for in its signature."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Header, Path, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from fastapi.security import HTTPBasic

from bindery.api import raw_path  # noqa: F401  # paths of resources are made of its segments
from bindery.api.auth import Identity, Role, identify
from bindery.api.bodies import Body, read_object, unread, validate
from bindery.api.control_plane import ControlPlane
from bindery.api.errors import ErrorBody, bad_request
from bindery.router.spelling import did_you_mean, nearest

BodyType = TypeVar("BodyType", bound=Body)


async def get_plane(request: Request) -> ControlPlane:
    """The control plane of the application."""
    plane: ControlPlane = request.app.state.plane
    return plane


Plane = Annotated[ControlPlane, Depends(get_plane)]


class _Basic(HTTPBasic):
    """Declares HTTP basic in the OpenAPI document; `identify` reads and checks the credentials."""

    async def __call__(self, request: Request) -> None:  # type: ignore[override]  # nothing is read here
        """Leave the request alone."""


async def _known_deletion(request: Request) -> None:
    """Refuse a deletion with a query parameter that it does not have: `?filter=…` must not empty a whole queue."""
    if request.method == "DELETE" and (unknown := _unknown_query(request)):
        raise bad_request(f"this deletion has {unknown}: nothing was deleted")


async def _known_query(request: Request) -> None:
    """Refuse a query parameter that the operation does not have: a misspelt condition would choose everything."""
    if unknown := _unknown_query(request):
        raise bad_request(f"this operation has {unknown}")


def _query_names(dependant: Dependant) -> Iterator[str]:
    """The query parameters of an operation, and of what it asks for in its signature."""
    yield from (parameter.alias for parameter in dependant.query_params)
    for asked in dependant.dependencies:
        yield from _query_names(asked)


def _unknown_query(request: Request) -> str | None:
    if not request.query_params:
        return None
    known = sorted(_query_names(request.scope["route"].dependant))
    unknown = sorted(request.query_params.keys() - set(known))
    if not unknown:
        return None
    meant = nearest(unknown[0], known)
    offered = did_you_mean(meant, f"; it has {', '.join(known)}" if known else "", before="; ")
    return f"no query parameter {unknown[0]!r}{offered}"


def _operation_id(route: APIRoute) -> str:
    return f"{route.tags[0]}_{route.name}"


def resource(tag: str, *, own: bool = False) -> APIRouter:
    """A router for the paths of one resource.

    The broker's clients send query parameters of their own, so only deletions refuse those that they do not
    have; the operations of an `own` resource, which no broker has, all do.
    """
    return APIRouter(
        prefix="/api",
        tags=[tag],
        generate_unique_id_function=_operation_id,
        dependencies=[Depends(_Basic(realm="RabbitMQ Management")), Depends(_known_query if own else _known_deletion)],
        responses={
            400: {"description": "The request cannot be honoured as it stands", "model": ErrorBody},
            401: {"description": "No valid credentials, or not allowed", "model": ErrorBody},
            404: {"description": "No such object, or none that the caller may see", "model": ErrorBody},
        },
    )


def require(role: Role) -> Callable[[Request, ControlPlane], Identity]:
    """A dependency that gives the caller when they hold a role."""

    def dependency(request: Request, plane: Plane) -> Identity:
        identity = identify(request, plane.access.load(), plane.failed_logins, plane.sessions)
        identity.require(role)
        return identity

    return dependency


#: The caller, who holds at least that role.
ManagementUser = Annotated[Identity, Depends(require("management"))]
PolicymakerUser = Annotated[Identity, Depends(require("policymaker"))]
MonitoringUser = Annotated[Identity, Depends(require("monitoring"))]
AdministratorUser = Annotated[Identity, Depends(require("administrator"))]

VhostPath = Annotated[str, Path(description='vhost; "/" is %2F', examples=["/"])]
NamePath = Annotated[str, Path(description="name, percent-encoded")]
#: Narrows a list over all vhosts to one of them.
VhostHeader = Annotated[str | None, Header(alias="x-vhost", description="narrow the list to this vhost")]


def json_body(model: type[BodyType], *, limit: Callable[[ControlPlane], int] | None = None) -> Any:
    """A dependency that reads a JSON body as that model, whatever its content type."""

    async def dependency(request: Request, plane: Plane) -> BodyType:
        bound = plane.settings.body_limit if limit is None else limit(plane)
        content = await read_object(request, bound)
        request.state.unread = unread(model, content)
        return validate(model, content)

    return Depends(dependency)
