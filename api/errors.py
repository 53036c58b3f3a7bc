"""Every refused request leaves through here, in the broker's shape: `{"error": E, "reason": R}`.

`Refusal` is what resources raise; errors of router.errors are translated by one table; whatever else
goes wrong is answered without a word about its cause, which goes to the log.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from bindery.api.sessions import CONSOLE_HEADER
from bindery.router.errors import (
    AccessRefused,
    BinderyError,
    CommitConflict,
    CommitUnknown,
    Fenced,
    FilterError,
    InvalidInput,
    NotFound,
    Refused,
    StorageFailed,
    UnsupportedTable,
)

log = logging.getLogger("bindery.api")

Reason = str | list[Any]


class ErrorBody(BaseModel):
    """The body of every refused request."""

    error: str = Field(examples=["bad_request"])
    reason: Any = Field(description="a text, or a list for tagged reasons", examples=["not_json"])


#: `Vary` of an answer that a resource gave, and of one that was given before a resource was reached.
VARY: Final = "accept, accept-encoding, origin"
VARY_EARLY: Final = "origin"
REALM: Final = 'Basic realm="RabbitMQ Management"'
#: The order in which the broker lists methods.
_METHODS: Final = ("HEAD", "GET", "POST", "PUT", "DELETE", "OPTIONS")


class Refusal(Exception):
    """A request that is answered with an error: status, the two fields of its body, more members."""

    def __init__(
        self,
        status: int,
        error: str,
        reason: Reason,
        *,
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(error)
        self.status = status
        self.error = error
        self.reason = reason
        self.headers = dict(headers or {})
        self.more = dict(more or {})

    def response(self) -> Response:
        """The refusal as an answer."""
        return JSONResponse(
            {"error": self.error, "reason": self.reason, **self.more},
            status_code=self.status,
            headers={"vary": VARY, **self.headers},
        )


def bad_request(reason: Reason, **more: Any) -> Refusal:
    """400: the request cannot be honoured as it stands."""
    return Refusal(400, "bad_request", reason, more=more)


def access_refused(reason: str = "Access refused.") -> Refusal:
    """401 with the broker's spelling for an operation that this user may not do."""
    return Refusal(401, "not_authorised", reason)


def login_failed(reason: str = "Login failed") -> Refusal:
    """401 for wrong credentials."""
    return Refusal(401, "not_authorized", reason, headers={"www-authenticate": REALM, "vary": VARY_EARLY})


def object_not_found() -> Refusal:
    """404 for a resource that does not exist, or that this user may not see."""
    return Refusal(404, "Object Not Found", "Not Found")


def not_found(reason: str) -> Refusal:
    """404 for something that a request refers to."""
    return Refusal(404, "not_found", reason)


def payload_too_large(limit: int) -> Refusal:
    """400 for a body beyond its limit (the broker answers 400, not 413)."""
    return bad_request(f"the request body exceeds the limit of {limit} bytes")


class Unauthenticated(Exception):
    """No credentials were sent, or the session has ended: 401 with an empty body."""


def refusal_of(error: BinderyError) -> Refusal:
    """What a deliberate error of router or store means to a client."""
    match error:
        case AccessRefused():
            return access_refused()
        case NotFound():
            return not_found("vhost_not_found" if error.where == "vhost" else error.message)
        case FilterError():
            return bad_request(_with_hint(error), filter=error.as_data())
        case InvalidInput():
            return bad_request(_with_hint(error))
        case CommitConflict() | Fenced():
            return Refusal(503, "service_unavailable", error.message, headers={"retry-after": "1"})
        case StorageFailed():
            log.error("%s (%s)", error.message, error.where)
            return Refusal(507, "insufficient_storage", _with_hint(error))
        case CommitUnknown():
            log.error("%s (%s)", error.message, error.where)
            return Refusal(503, "commit_unknown", _with_hint(error))
        case UnsupportedTable() | Refused():
            log.error("%s (%s)", error.message, error.where)
            return Refusal(500, "internal_server_error", error.message)
    log.error("%s (%s)", error.message, error.where)
    return Refusal(500, "internal_server_error", "the request could not be done; the log has the cause")


def _with_hint(error: BinderyError) -> str:
    return error.message if error.hint is None else f"{error.message} ({error.hint})"


def allowed_methods(app: FastAPI, path: str) -> list[str]:
    """The methods of every route that has this (still encoded) path, in the broker's order."""
    found: set[str] = set()
    scope = {"type": "http", "path": path, "method": "", "headers": [], "root_path": ""}
    for route in app.router.routes:
        match, _ = route.matches(scope)
        if match is not Match.NONE:
            found |= getattr(route, "methods", None) or set()
    if "GET" in found:
        found.add("HEAD")
    return [name for name in _METHODS if name in found | {"OPTIONS"}]


def _unchallenged(request: Request, refused: Response) -> Response:
    """An answer to the console without what makes a browser ask for a password in a window of its own."""
    if CONSOLE_HEADER in request.headers and "www-authenticate" in refused.headers:
        del refused.headers["www-authenticate"]
    return refused


def install(app: FastAPI) -> None:
    """Register the one way out for every kind of error."""

    @app.exception_handler(Refusal)
    async def _(request: Request, refusal: Refusal) -> Response:
        return _unchallenged(request, refusal.response())

    @app.exception_handler(Unauthenticated)
    async def _(request: Request, _error: Unauthenticated) -> Response:
        return _unchallenged(
            request, Response(status_code=401, headers={"www-authenticate": REALM, "vary": VARY_EARLY})
        )

    @app.exception_handler(RequestValidationError)
    async def _(_request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        return bad_request(f"{'.'.join(str(part) for part in first['loc'][1:])}: {first['msg']}").response()

    @app.exception_handler(BinderyError)
    async def _(_request: Request, error: BinderyError) -> Response:
        return refusal_of(error).response()

    @app.exception_handler(RecursionError)
    async def _(_request: Request, _error: RecursionError) -> Response:
        return bad_request("nested too deeply").response()

    @app.exception_handler(HTTPException)
    async def _(request: Request, error: HTTPException) -> Response:
        if error.status_code == 405:
            allow = ", ".join(allowed_methods(app, request.scope["path"]))
            # A method that no resource has is a question only when it is OPTIONS.
            status = 200 if request.method == "OPTIONS" else 405
            return Response(status_code=status, headers={"allow": allow, "vary": VARY_EARLY})
        if error.status_code == 404:
            early = object_not_found()
            early.headers["vary"] = VARY_EARLY
            return early.response()
        return Refusal(error.status_code, "bad_request", str(error.detail)).response()

    @app.exception_handler(ClientDisconnect)
    async def _(_request: Request, _error: ClientDisconnect) -> Response:
        # nobody is there to read it; without this a caller could fill the log with tracebacks
        return bad_request("the request ended before its body").response()

    @app.exception_handler(Exception)
    async def _(_request: Request, _error: Exception) -> Response:
        # the server logs the error itself, after this answer
        return Refusal(500, "internal_server_error", "the request could not be done; the log has the cause").response()
