"""Log in, stay, log out: how the page gets its session (api/sessions.py)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request, Response

from bindery import __version__
from bindery.api import sessions
from bindery.api.answers import answer, no_content
from bindery.api.auth import ROLES, Identity, identify, log_in, refuse_foreign_origin
from bindery.api.bodies import OwnBody
from bindery.api.control_plane import ControlPlane
from bindery.api.deps import Plane, json_body
from bindery.api.errors import Unauthenticated, bad_request
from bindery.api.routes.overview import cluster_name

router = APIRouter(prefix="/console", include_in_schema=False)


class LoginBody(OwnBody):
    """Who logs in."""

    name: str
    password: str


def _answer(plane: ControlPlane, user: Identity) -> Response:
    """The caller, the roles that their tags give, and the service that they talk to."""
    return answer(
        {
            "name": user.name,
            "tags": list(user.user.tags),
            "roles": [role for role in ROLES if user.has(role)],
            "cluster_name": cluster_name(plane),
            "version": __version__,
        }
    )


@router.get("/session")
def show(request: Request, plane: Plane) -> Response:
    """Who is logged in; 204 when nobody is, which is how the page begins."""
    try:
        user = identify(request, plane.access.load(), plane.failed_logins, plane.sessions)
    except Unauthenticated:
        return no_content()
    user.require("management")
    return _answer(plane, user)


@router.post("/session")
def begin(request: Request, plane: Plane, body: Annotated[LoginBody, json_body(LoginBody)]) -> Response:
    """Begin a session: the answer sets a cookie, which counts with the header `x-bindery-console` alone."""
    refuse_foreign_origin(request)
    if sessions.CONSOLE_HEADER not in request.headers:
        raise bad_request(f"sessions are for the console: the header {sessions.CONSOLE_HEADER} is missing")
    access = plane.access.load()
    user = Identity(log_in(body.name, body.password, request, access, plane.failed_logins), access)
    user.require("management")
    begun = _answer(plane, user)
    sessions.keep(request, begun, plane.sessions.begin(user.user))
    return begun


@router.delete("/session")
def end(request: Request, plane: Plane) -> Response:
    """End the session that the request's cookie stands for; nothing happens without one."""
    refuse_foreign_origin(request)
    token = sessions.token_of(request)
    ended = no_content()
    if token is not None:
        plane.sessions.end(token)
        sessions.drop(request, ended)
    return ended
