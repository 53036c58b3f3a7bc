"""LIKE: whole-text patterns with `%` and `_`, always linear in the text.

A pattern is cut at its `%` into segments; the first and last are anchored, those between are found leftmost,
one after the other (leftmost is always right: it leaves the most text). A segment without `_` is found by
`str.find`. One with `_` is found by bit sets over the positions of the text: for each of its literal
characters the set of positions where it stands, shifted and intersected, 64 positions a word operation. So
no pattern, however many `%_` or `%a_` it has, costs more than len(text) * len(pattern) / 64 word operations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of the pattern between two `%`: its text, and the offsets at which any character may stand."""

    text: str
    free: frozenset[int]

    def at(self, text: str, start: int) -> bool:
        """Whether the segment stands at this place."""
        if not self.free:
            return text.startswith(self.text, start)
        end = start + len(self.text)
        if end > len(text):
            return False
        return all(n in self.free or char == text[start + n] for n, char in enumerate(self.text))


#: A compiled pattern: segments between `%`; one alone means that there is no `%`.
Pattern = tuple[Segment, ...]


#: Longer patterns, which messages may carry too, are compiled each time.
_REMEMBERED_CHARS = 128


def compile_pattern(pattern: str, escape: str | None) -> Pattern | None:
    """The compiled pattern; None when the escape is not one character or stands at the end."""
    return _remembered(pattern, escape) if len(pattern) <= _REMEMBERED_CHARS else _compile(pattern, escape)


@lru_cache(maxsize=1024)
def _remembered(pattern: str, escape: str | None) -> Pattern | None:
    return _compile(pattern, escape)


def _compile(pattern: str, escape: str | None) -> Pattern | None:
    if escape is not None and len(escape) != 1:
        return None
    segments: list[Segment] = []
    chars: list[str] = []
    free: set[int] = set()
    literally = False
    for char in pattern:
        if literally:
            chars.append(char)
            literally = False
        elif char == escape:
            literally = True
        elif char == "%":
            segments.append(Segment("".join(chars), frozenset(free)))
            chars, free = [], set()
        else:
            if char == "_":
                free.add(len(chars))
            chars.append(char)
    if literally:
        return None
    return (*segments, Segment("".join(chars), frozenset(free)))


def matches(text: str, pattern: Pattern) -> bool:
    """Whether the whole text fits."""
    first, *others = pattern
    if not others:
        return len(text) == len(first.text) and first.at(text, 0)
    *middle, last = others
    start, end = len(first.text), len(text) - len(last.text)
    if start > end or not first.at(text, 0) or not last.at(text, end):
        return False
    places: _Places | None = None
    for segment in middle:
        if segment.free:
            places = places or _Places(text)
            found = places.find(segment, start, end)
        else:
            found = text.find(segment.text, start, end)
        if found < 0:
            return False
        start = found + len(segment.text)
    return True


def matcher(pattern: Pattern) -> Callable[[str], bool]:
    """`matches` for one pattern and many texts; the usual forms cost one string operation."""
    first, last = pattern[0], pattern[-1]
    if any(segment.free for segment in pattern) or len(pattern) > 3:
        return lambda text: matches(text, pattern)
    if len(pattern) == 1:
        return first.text.__eq__
    if len(pattern) == 2 and not last.text:
        return lambda text: text.startswith(first.text)
    if len(pattern) == 2 and not first.text:
        return lambda text: text.endswith(last.text)
    if len(pattern) == 3 and not first.text and not last.text:
        return lambda text: pattern[1].text in text
    return lambda text: matches(text, pattern)


def literal_prefix(pattern: Pattern) -> str:
    """The characters that every matching text begins with."""
    first = pattern[0]
    return first.text[: min(first.free)] if first.free else first.text


class _Places:
    """Where characters and segments stand in a text, as bit sets (bit n = position n)."""

    def __init__(self, text: str) -> None:
        self._text = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        self._chars: dict[str, int] = {}
        self._segments: dict[Segment, int] = {}

    def find(self, segment: Segment, start: int, end: int) -> int:
        """The leftmost place from `start` where the segment stands and ends by `end`; -1 when none."""
        if len(segment.free) == len(segment.text):
            return start if start + len(segment.text) <= end else -1
        places = self._segments.get(segment)
        if places is None:
            places = self._segments[segment] = self._all(segment)
        later = places >> start
        if not later:
            return -1
        found = start + (later & -later).bit_length() - 1
        return found if found + len(segment.text) <= end else -1

    def _all(self, segment: Segment) -> int:
        places = (1 << (len(self._text) + 1)) - 1
        for offset, char in enumerate(segment.text):
            if offset not in segment.free:
                places &= self._of(char) >> offset
                if not places:
                    break
        return places

    def _of(self, char: str) -> int:
        found = self._chars.get(char)
        if found is None:
            bits = np.packbits(self._text == ord(char), bitorder="little")
            found = self._chars[char] = int.from_bytes(bits.tobytes(), "little")
        return found
