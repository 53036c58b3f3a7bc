"""The console: a page at `/` that asks the REST API, with a session, for everything that it shows.

It is made of files (`static/`) that run as they are: modules of JavaScript without a build, one stylesheet, no library
and no font from elsewhere. What a user may not do, the API refuses; the page only leaves its button out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from bindery.api.console import session

_STATIC: Final = Path(__file__).parent / "static"
#: What a browser may do: run this service's own files and ask this service; nobody else, and nothing written inline.
_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    # asked for anew each time, and answered by 304: a page and its modules are always of one version
    "cache-control": "no-cache",
}


class _Files(StaticFiles):
    """The files of the console, with the headers that each of them needs."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        """A file, or 304 for a browser that has it."""
        found = super().file_response(*args, **kwargs)
        found.headers.update(_HEADERS)
        return found


def routes() -> list[BaseRoute]:
    """The page at `/`, its session, and its files below `/console`."""
    files = _Files(directory=_STATIC)

    async def page(request: Request) -> Response:
        return await files.get_response("index.html", request.scope)

    return [Route("/", page, include_in_schema=False), *session.router.routes, Mount("/console", files)]
