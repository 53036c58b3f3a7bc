"""Answers with the headers that the broker sends."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote

from fastapi import Response
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bindery.api.errors import VARY

#: Names arguments and policy keys that were stored and do nothing, and keys that nobody reads (docs/arguments.md).
WITHOUT_EFFECT: Final = "x-bindery-without-effect"
#: Names that the header lists before it counts the rest, and characters of each.
_LISTED: Final = 20
_SHOWN: Final = 100
_HEADERS: Final = {"vary": VARY, "cache-control": "no-cache"}


def answer(content: Any, *, headers: Mapping[str, str] | None = None) -> Response:
    """200 with a JSON body."""
    body = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return Response(body, media_type="application/json", headers={**_HEADERS, **(headers or {})})


def put_answer(created: bool, *, without_effect: Iterable[str] = ()) -> Response:
    """201 for something new, 204 for something that was there, with the names of what was stored and does nothing."""
    return Response(status_code=201 if created else 204, headers={"vary": VARY, **_said(without_effect)})


def created_at(location: str) -> Response:
    """201 with the relative address of what was created."""
    return Response(status_code=201, headers={"vary": VARY, "location": location})


def no_content(*, without_effect: Iterable[str] = ()) -> Response:
    """204; see put_answer."""
    return Response(status_code=204, headers={"vary": VARY, **_said(without_effect)})


class Unread:
    """ASGI middleware that names, in the header of what has no effect, the keys of a body that nobody reads.

    Whoever reads a body leaves them in the state of the request, as `unread`.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on, and say what of it was not read."""

        async def saying(message: Message) -> None:
            if message["type"] == "http.response.start" and (names := scope.get("state", {}).get("unread")):
                headers = MutableHeaders(scope=message)
                stated = [headers[WITHOUT_EFFECT]] if WITHOUT_EFFECT in headers else []
                headers[WITHOUT_EFFECT] = ", ".join([*_said(names).values(), *stated])
            await send(message)

        await self.app(scope, receive, saying if scope["type"] == "http" else send)


def _said(names: Iterable[str]) -> dict[str, str]:
    """The header, or none; each name is percent-encoded, so that any name may stand in it."""
    shown = [quote(name[:_SHOWN].encode("utf-8", "replace"), safe="") for name in dict.fromkeys(names)]
    more = [f"and {len(shown) - _LISTED} more"] if len(shown) > _LISTED else []
    return {WITHOUT_EFFECT: ", ".join([*shown[:_LISTED], *more])} if shown else {}
