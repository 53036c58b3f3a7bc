"""Caps on what a filter may cost, checked when it is defined."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Caps of one filter.

    characters      code points of the text
    tokens          tokens of the text
    depth           levels of parentheses, and levels of the tree
    like_pattern    code points of a LIKE pattern; a longer constant is refused, a longer computed one is
                    trouble. Matching costs at most len(text) * like_pattern / 64 word operations
    """

    characters: int = 4096
    tokens: int = 1000
    depth: int = 100
    like_pattern: int = 4096


DEFAULT_LIMITS = Limits()
#: For a filter that exists already: it was within the caps of its definition, whatever they were.
NO_LIMITS = Limits(characters=2**31, tokens=2**31, depth=2**31, like_pattern=2**31)
