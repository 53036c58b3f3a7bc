"""Tables and numbers for people."""

from __future__ import annotations

import sys

from rich.console import Console

#: Columns of output that is no terminal: whoever reads it wraps it, or searches it line by line.
_UNWRAPPED = 4096


def console() -> Console:
    """The console of standard output: lines are folded on a terminal and kept whole elsewhere."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else _UNWRAPPED)


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun: 1 row, 2 rows."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
