"""Long work for a client that may leave before it is done."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from bindery.router.errors import Stopped

Result = TypeVar("Result")


async def while_present(request: Request, work: Callable[[Callable[[], bool]], Result]) -> Result:
    """Do work in a thread, and tell it when its client has gone: it is handed a function that says so.

    The body of the request has been read. Raises ClientDisconnect for work that ended by Stopped.
    """
    gone = threading.Event()
    watching = asyncio.create_task(_watch(request, gone))
    try:
        return await run_in_threadpool(work, gone.is_set)
    except Stopped as stopped:
        raise ClientDisconnect from stopped
    finally:
        gone.set()
        watching.cancel()


async def _watch(request: Request, gone: threading.Event) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    gone.set()
