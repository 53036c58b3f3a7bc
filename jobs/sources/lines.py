"""Lines that are too long to be read, found without reading the file.

Spark reads a line whole before anybody can look at its length; one of 100 MB ends a small JVM. Between two
line ends that are at most `limit` bytes apart there is no longer line: so it is enough to look for a line
end just before `limit` bytes after the last one, which reads a thousandth of an ordinary file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

#: Line ends where the job names none, as Hadoop's reader takes them.
LINE_ENDS: Final = (b"\n", b"\r")
#: Bytes that are looked at for a line end first.
_TAIL: Final = 64 * 1024
_BLOCK: Final = 1024 * 1024


class Content(Protocol):
    """The bytes of a file, after decompression."""

    def read(self, offset: int, size: int) -> bytes:
        """Bytes from that offset; fewer than asked for at the end only."""


@dataclass(frozen=True, slots=True)
class LongLine:
    """A line of more than the limit: its first byte in the file, and its bytes without the line end."""

    offset: int
    size: int
    end: int


def long_lines(content: Content, limit: int, line_ends: Sequence[bytes] = LINE_ENDS) -> list[LongLine]:
    """The lines of more than `limit` bytes, in order; `end` is the first byte after the line end."""
    found = []
    start = 0
    while (after := _after_last_end(content, start, limit, line_ends)) is not None:
        if after == start:
            found.append(_line(content, start, limit, line_ends))
            after = found[-1].end
        start = after
    return found


def _after_last_end(content: Content, start: int, limit: int, ends: Sequence[bytes]) -> int | None:
    """Where the line begins that follows the last line end within reach of `start`.

    `start` itself without one; None when the content ends within reach, too.
    """
    reach = start + limit + max(map(len, ends))
    if reach - start > _TAIL:
        tail = content.read(reach - _TAIL, _TAIL)
        if len(tail) < _TAIL:
            return None
        after = _last(tail, ends)
        if after:
            return reach - _TAIL + after
    last, carry, position = start, b"", start
    while position < reach:
        size = min(_BLOCK, reach - position)
        block = content.read(position, size)
        after = _last(carry + block, ends)
        if after:
            last = position - len(carry) + after
        position += len(block)
        carry = _carried(block, ends)
        if len(block) < size:
            return None
    return last


def _line(content: Content, start: int, limit: int, ends: Sequence[bytes]) -> LongLine:
    """The line that begins at `start` and is known to have more than `limit` bytes."""
    position, carry = start + limit, b""
    while True:
        block = content.read(position, _BLOCK)
        joined = carry + block
        hits = [(joined.index(end), len(end)) for end in ends if end in joined]
        if hits:
            at, size = min(hits)
            stop = position - len(carry) + at
            if joined[at : at + 1] == b"\r" and b"\n" in ends and content.read(stop + 1, 1) == b"\n":
                size = 2
            return LongLine(start, stop - start, stop + size)
        position += len(block)
        carry = _carried(block, ends)
        if len(block) < _BLOCK:
            return LongLine(start, position - start, position)


def _last(block: bytes, ends: Sequence[bytes]) -> int:
    """The first byte after the last line end of a block; 0 without one."""
    return max((at + len(end) for end in ends if (at := block.rfind(end)) >= 0), default=0)


def _carried(block: bytes, ends: Sequence[bytes]) -> bytes:
    """What a line end that stands across two blocks may begin with."""
    keep = max(map(len, ends)) - 1
    return block[-keep:] if keep else b""
