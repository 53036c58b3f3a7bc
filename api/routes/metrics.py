"""The scrape endpoint."""

from __future__ import annotations

import secrets
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Header, Request, Response
from prometheus_client.exposition import choose_encoder

from bindery.api.deps import Plane, require, resource
from bindery.api.errors import VARY, login_failed
from bindery.api.metrics import Metrics

_TEXT: Final[dict[str, Any]] = {"text/plain": {"schema": {"type": "string", "description": "one metric a line"}}}


def router(metrics: Metrics, *, open_to_all: bool, token: str | None) -> APIRouter:
    """The route of the metrics; unless they are open, for users with the tag monitoring and bearers of the token."""
    is_monitor = require("monitoring")

    def guarded(request: Request, plane: Plane) -> None:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if token is None or scheme.lower() != "bearer":
            is_monitor(request, plane)
        elif not secrets.compare_digest(given.strip().encode(), token.encode()):
            raise login_failed()

    guard = [] if open_to_all else [*resource("metrics").dependencies, Depends(guarded)]
    routes = APIRouter(tags=["metrics"], dependencies=guard)

    @routes.get("/metrics", summary="Metrics", response_class=Response, responses={200: {"content": _TEXT}})
    def scrape(accept: Annotated[str, Header(description="text or OpenMetrics")] = "") -> Response:
        """Metrics in Prometheus' text format, or as OpenMetrics for scrapers that accept it."""
        encode, content_type = choose_encoder(accept)
        return Response(
            encode(metrics.registry),
            headers={"content-type": content_type, "vary": VARY, "cache-control": "no-cache"},
        )

    return routes
