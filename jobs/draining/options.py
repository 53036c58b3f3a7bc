"""What to drain and how: plain data."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bindery.router.errors import InvalidInput
from bindery.router.moments import read_iso

#: Where a consumer of a stream begins: first, last, next, an offset, a time.
Start = str | int | datetime

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")


@dataclass(frozen=True, slots=True)
class DrainOptions:
    """What to drain, and in which portions.

    queue        the queue or stream
    name         of the drain: one process of a name at a time; of a stream, the name knows how far it has come
    vhost        whose inbox gets the messages
    start        where a stream begins that this name has not drained yet; None for a queue
    exchange     published to this one instead of the message's own
    prefetch     messages that the broker sends ahead of their acknowledgement
    messages, size, seconds   of a commit at most: messages, bytes, and the wait for more of them
    until_empty  end when there is nothing left
    accept_gap   go on where messages of a stream were removed before they were drained
    keep_repeats append what is recognised as appended before, too
    """

    queue: str
    name: str
    vhost: str = "/"
    start: Start | None = None
    exchange: str | None = None
    prefetch: int = 20_000
    messages: int = 10_000
    size: int = 32 * 2**20
    seconds: float = 5.0
    until_empty: bool = False
    accept_gap: bool = False
    keep_repeats: bool = False

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InvalidInput(
                f"{self.name!r} is no name of a drain",
                where="--name",
                hint="letters, digits and . _ -, at most 100; one that differs from those of other drains",
            )

    @property
    def full(self) -> int:
        """Messages that make a commit without waiting for more: no more can come than are sent ahead."""
        return min(self.messages, self.prefetch)


@dataclass(slots=True)
class Counts:
    """What a drain has done: messages appended, refused, and recognised as repeats; commits."""

    messages: int = 0
    refused: int = 0
    repeats: int = 0
    commits: int = 0


def read_start(text: str) -> Start:
    """first, last, next, an offset, or an ISO 8601 time (without a zone: UTC). Raises InvalidInput."""
    if text in ("first", "last", "next"):
        return text
    if text.isascii() and text.isdecimal() and int(text[:20]) < 2**63:
        return int(text)
    try:
        return read_iso(text)
    except ValueError:
        raise InvalidInput(
            f"{text!r} is no place in a stream",
            where="--from",
            hint="first, last, next, an offset, or 2026-01-31T12:00Z",
        ) from None
