"""Whether the service can work, asked as often as anybody likes."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from typing import Final

_LOGGER: Final = logging.getLogger("bindery.api")
#: Seconds for which an answer is good.
_FRESH: Final = 1.0
#: Seconds after which who asks is told that the answer is late; probes of containers wait for about five.
_PATIENCE: Final = 2.0


class Readiness:
    """Looks at the data directory, in one thread of its own and once a second at most, however many ask.

    A look that hangs, as of a disk that is away, is waited for by nobody for longer than `patience` seconds, and no
    other one is begun beside it. Only for coroutines of one event loop.
    """

    def __init__(
        self,
        look: Callable[[], object],
        *,
        patience: float = _PATIENCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look = look
        self._patience = patience
        self._clock = clock
        self._looking: asyncio.Future[bool] | None = None
        self._known: tuple[float, bool] | None = None
        self._said = True

    async def is_ready(self) -> bool:
        """Whether the data directory answers in time and its topology can be read; False raises nothing."""
        if self._looking is None:
            if self._known is not None and self._clock() - self._known[0] < _FRESH:
                return self._known[1]
            self._looking = asyncio.get_running_loop().create_future()
            # of its own, and no worker of a pool: those may all hang at the same disk, and are waited for at the end
            threading.Thread(target=self._run, args=(self._looking,), name="readiness", daemon=True).start()
        try:
            ready = await asyncio.wait_for(asyncio.shield(self._looking), self._patience)
        except TimeoutError:
            self._say("the data directory does not answer in time")
            return False
        if ready:
            self._said = True
        return ready

    def _run(self, looking: asyncio.Future[bool]) -> None:
        ready = True
        try:
            self._look()
        except Exception as error:  # whatever it is, the service cannot work
            ready = False
            reason = str(error)
        loop = looking.get_loop()

        def done() -> None:
            self._looking, self._known = None, (self._clock(), ready)
            looking.set_result(ready)
            if not ready:
                self._say(reason)

        if not loop.is_closed():
            loop.call_soon_threadsafe(done)

    def _say(self, reason: str) -> None:
        """A line in the log when the service is not ready any more, and not one for each who asks."""
        if self._said:
            self._said = False
            _LOGGER.error("not ready: %s", reason)
