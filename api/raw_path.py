"""Routing on the path as it was sent.

A vhost "/" is the segment `%2F`; servers decode paths before they route, which would tear that segment
in two. `RawPath` hands the still encoded path to the router, and the path convertor `segment` decodes
each segment after the split. HEAD is answered as GET without its body.
"""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes

from starlette.convertors import Convertor, register_url_convertor
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bindery.api.errors import bad_request

#: Longest path that is looked at, in bytes as sent: two names of 255 bytes, each byte encoded, fit many times.
MAX_PATH: Final = 16_384
#: A percent sign that begins no encoded byte.
_BROKEN: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")


class Segment(Convertor[str]):
    """One path segment, percent-decoded and possibly empty (the default exchange); always UTF-8."""

    regex = "[^/]*"

    def convert(self, value: str) -> str:
        """The decoded segment."""
        try:
            return unquote_to_bytes(value).decode()
        except UnicodeDecodeError:
            # Convertors cannot answer; the middleware has refused such paths before.
            return value

    def to_string(self, value: str) -> str:
        """The segment that stands for a name."""
        return quote(value, safe="")


register_url_convertor("segment", Segment())


class RawPath:
    """ASGI middleware that routes on the raw path and answers HEAD for every GET."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on with its raw path."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        raw = raw.split(b"?", 1)[0]
        if len(raw) > MAX_PATH or _BROKEN.search(raw) or not _decodes(raw):
            await bad_request("the path is not percent-encoded UTF-8 of a sensible length").response()(
                scope, receive, send
            )
            return
        path = raw.decode("ascii", "replace")
        scope = dict(scope, path=path.rstrip("/") or "/")
        if scope["method"] == "HEAD":
            scope["method"] = "GET"
            send = _without_body(send)
        await self.app(scope, receive, send)


def _decodes(raw: bytes) -> bool:
    try:
        unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        return False
    return raw.isascii()


def _without_body(send: Send) -> Send:
    async def headers_only(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = dict[str, Any](message, body=b"")
        await send(message)

    return headers_only
