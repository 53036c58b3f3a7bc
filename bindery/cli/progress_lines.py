"""Lines about the progress of commands that run long, on standard error."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, TypeVar

import typer

from bindery.router.error_text import visible

T = TypeVar("T")


class ProgressLines(Generic[T]):
    """A line per interval, in seconds, in which anything was done; `line` says what, or nothing."""

    def __init__(self, interval: float, line: Callable[[T], str]) -> None:
        self._interval = interval
        self._line = line
        self._said = time.monotonic()
        self._shown = ""

    def report(self, done: T) -> None:
        """Say how far it is, if it is time to."""
        now = time.monotonic()
        if now < self._said + self._interval:
            return
        self._said = now
        line = self._line(done)
        if line not in ("", self._shown):
            self._shown = line
            say(line)


def say(line: str) -> None:
    """A line on standard error."""
    typer.echo(visible(line), err=True)
