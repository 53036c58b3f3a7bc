"""Whether the service lives and can work, for whoever starts and watches it: asked without credentials."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from bindery.api.items import Alive, Unready
from bindery.api.readiness import Readiness

router = APIRouter(prefix="/healthz", tags=["health"])
_UNREADY: Final[dict[int | str, dict[str, Any]]] = {
    503: {"description": "It cannot work: the log says why", "model": Unready}
}


@router.get("/live", summary="Liveness", response_model=Alive, operation_id="health_live")
async def live() -> Response:
    """Whether the process answers at all; looks at nothing."""
    return _said("ok")


@router.get(
    "",
    summary="Health",
    response_model=Alive,
    operation_id="health",
    responses=_UNREADY,
)
@router.get(
    "/ready",
    summary="Readiness",
    response_model=Alive,
    operation_id="health_ready",
    responses=_UNREADY,
)
async def ready(request: Request) -> Response:
    """Whether the data directory answers and its topology can be read; looked at once a second at most."""
    readiness: Readiness = request.app.state.readiness
    return _said("ok") if await readiness.is_ready() else _said("unavailable", 503)


def _said(status: str, code: int = 200) -> Response:
    return JSONResponse({"status": status}, status_code=code, headers={"cache-control": "no-store"})
