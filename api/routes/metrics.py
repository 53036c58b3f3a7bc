"""The scrape endpoint."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Response
from prometheus_client.exposition import choose_encoder

from bindery.api.deps import require, resource
from bindery.api.errors import VARY
from bindery.api.metrics import Metrics


def router(metrics: Metrics, *, open_to_all: bool) -> APIRouter:
    """The route of the metrics; unless they are open, for users with the tag monitoring."""
    guard = [] if open_to_all else [*resource("metrics").dependencies, Depends(require("monitoring"))]
    routes = APIRouter(tags=["metrics"], dependencies=guard)

    @routes.get("/metrics", summary="Metrics", response_class=Response)
    def scrape(accept: Annotated[str, Header(description="text or OpenMetrics")] = "") -> Response:
        """Metrics in Prometheus' text format, or as OpenMetrics for scrapers that accept it."""
        encode, content_type = choose_encoder(accept)
        return Response(
            encode(metrics.registry),
            headers={"content-type": content_type, "vary": VARY, "cache-control": "no-cache"},
        )

    return routes
