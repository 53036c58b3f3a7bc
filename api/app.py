"""The application: routes, raw-path routing, errors, and its OpenAPI document."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from fastapi import FastAPI, Response
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse

from bindery import __version__
from bindery.api import console, errors
from bindery.api.answers import Unread
from bindery.api.control_plane import ControlPlane
from bindery.api.docs_page import HEADERS, render
from bindery.api.document import describe
from bindery.api.metrics import Latencies, Metrics
from bindery.api.raw_path import RawPath
from bindery.api.readiness import Readiness
from bindery.api.routes import (
    backfill,
    bindings,
    canary,
    capabilities,
    changes,
    chosen_messages,
    definitions,
    diverts,
    exchanges,
    filters,
    find,
    graph,
    health,
    inbox,
    jobs,
    lint,
    messages,
    metrics,
    overview,
    parameters,
    permissions,
    policies,
    queues,
    rebuild,
    replay,
    route,
    rows,
    unroutable,
    users,
    versions,
    vhosts,
)
from bindery.api.settings import Settings

_DESCRIPTION: Final = """The control plane of Bindery, compatible with the HTTP API of RabbitMQ's management plugin.

Path segments are percent-encoded; the vhost `/` is `%2F`. Bodies are JSON whatever their content type;
booleans and counts may be strings. Errors are `{"error": …, "reason": …}`.
"""
#: Resources in the order in which their paths are looked at: fixed segments come before parameters.
_RESOURCES: Final = (
    health,
    overview,
    users,
    permissions,
    vhosts,
    exchanges,
    queues,
    bindings,
    rows,
    messages,
    backfill,
    rebuild,
    chosen_messages,
    definitions,
    versions,
    changes,
    canary,
    diverts,
    inbox,
    capabilities,
    route,
    replay,
    find,
    filters,
    graph,
    lint,
    unroutable,
    jobs,
    policies,
    parameters,
)


def create_app(settings: Settings) -> FastAPI:
    """The application over one data directory; the data directory is created when missing."""
    plane = ControlPlane(settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        plane.upkeep  # noqa: B018  # from now on, whoever publishes
        yield
        plane.close()

    app = FastAPI(
        title="Bindery",
        version=__version__,
        description=_DESCRIPTION,
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json" if settings.docs else None,
        lifespan=lifespan,
    )
    app.state.plane = plane
    app.state.readiness = Readiness(plane.check)
    for resource in _RESOURCES:
        app.router.routes.extend(resource.router.routes)
    if settings.metrics != "off":
        exposed = Metrics(
            plane.topology,
            plane.totals.totals,
            plane.counts,
            plane.jobs.all,
            plane.journals.of_all,
            limit=settings.metrics_series,
            depths=settings.metrics_depths,
        )
        app.router.routes.extend(
            metrics.router(exposed, open_to_all=settings.metrics == "open", token=settings.metrics_token()).routes
        )
        app.add_middleware(Latencies, histogram=exposed.requests)
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]  # the way that the framework offers
    _entrance(app, settings)
    errors.install(app)
    app.add_middleware(Unread)
    app.add_middleware(RawPath)
    return app


def _entrance(app: FastAPI, settings: Settings) -> None:
    """The page of the operations, and what a browser is told that asks for nothing in particular."""
    links = {"api": "api/overview", "health": "healthz"}
    if settings.metrics != "off":
        links["metrics"] = "metrics"

    if settings.console:
        app.router.routes.extend(console.routes())
    else:

        @app.get("/", include_in_schema=False)
        def start() -> Response:
            # relative, so that it leads on behind a proxy that adds a prefix
            if settings.docs:
                return RedirectResponse("docs", 302)
            return JSONResponse({"product": app.title, "links": links})

    if settings.docs:

        @app.get("/docs", include_in_schema=False)
        def page() -> Response:
            return HTMLResponse(render(app.openapi()), headers=HEADERS)
