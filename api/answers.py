"""Answers with the headers that the broker sends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from fastapi import Response

from api.errors import VARY

_HEADERS: Final = {"vary": VARY, "cache-control": "no-cache"}


def answer(content: Any, *, headers: Mapping[str, str] | None = None) -> Response:
    """200 with a JSON body."""
    body = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return Response(body, media_type="application/json", headers={**_HEADERS, **(headers or {})})


def put_answer(created: bool) -> Response:
    """201 for something new, 204 for something that was there."""
    return Response(status_code=201 if created else 204, headers={"vary": VARY})


def created_at(location: str) -> Response:
    """201 with the relative address of what was created."""
    return Response(status_code=201, headers={"vary": VARY, "location": location})


def no_content() -> Response:
    """204."""
    return Response(status_code=204, headers={"vary": VARY})
