"""Defects of ours in the evaluation of filters: narrowed down to the messages that they concern, and logged.

Nothing in a message makes a filter raise; what raises all the same is a defect. It must not take the other
messages of the batch along, and must not pass in silence: copies may be missing because of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from bindery.router.errors import Refused

log = logging.getLogger("bindery.filters")

Ints = npt.NDArray[np.int64]

#: What no filter is to blame for: the batch fails as a whole, and can be tried again.
ENVIRONMENT: Final = (MemoryError, OSError, ImportError, Refused)
#: Evaluations of parts of one batch; when they are used up, a part that fails is given up as a whole.
ATTEMPTS: Final = 20_000
_ERROR_CHARS: Final = 300


class Isolation:
    """The defects met in one batch: how much may still be tried, and what was found by filter.

    `errors` holds one line for each filter (by the caller's number) that failed.
    """

    def __init__(self) -> None:
        self.errors: dict[int, str] = {}
        self._left = ATTEMPTS

    def narrow(self, items: Ints, attempt: Callable[[Ints], None]) -> Iterator[tuple[Ints, Exception]]:
        """Call `attempt` for smaller and smaller parts of items that failed together.

        Gives the parts, of one item each while attempts are left, that fail on their own, and how.
        """
        middle = len(items) // 2
        pending = [items[middle:], items[:middle]] if middle else [items]
        while pending:
            part = pending.pop()
            self._left -= 1
            try:
                attempt(part)
            except ENVIRONMENT:
                raise
            except Exception as error:
                if len(part) == 1 or self._left <= 0:
                    yield part, error
                else:
                    middle = len(part) // 2
                    pending += [part[middle:], part[:middle]]

    def report(self, number: int, text: str, error: Exception) -> None:
        """Note that a filter failed; logged once per filter and batch."""
        if number not in self.errors:
            self.errors[number] = f"{type(error).__name__}: {error}"[:_ERROR_CHARS]
            log.error("defect: filter %r failed to evaluate; copies may be missing", text, exc_info=error)
