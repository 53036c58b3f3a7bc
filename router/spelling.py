"""Names that look like others: what was meant, probably."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

#: How alike names of properties have to be, as difflib counts; of names that short only the case may differ.
_ALIKE: Final = 0.85
_SHORT: Final = 3


def did_you_mean(
    meant: str | None, otherwise: str = "", *, before: str = "", then: str = "", quoted: bool = True
) -> str:
    """The question whether a name was meant, as every error asks it; `otherwise` where there is none to ask about.

    `before` stands in front of the question alone, `then` behind it and behind nothing. Names that are words of a
    language, and not text, are not `quoted`.
    """
    if meant is None:
        return otherwise or then
    return f"{before}did you mean {repr(meant) if quoted else meant}?" + (f" {then}" if then else "")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most alike, if any is alike."""
    found = difflib.get_close_matches(name, known, n=1)
    return found[0] if found else None


def alike(name: str, known: Iterable[str]) -> str | None:
    """The known name that is so much alike that a property is hardly another one."""
    found = difflib.get_close_matches(name, known, 1, _ALIKE) if len(name) > _SHORT else []
    return found[0] if found else None


def edits(one: str, other: str) -> int:
    """Characters to insert, leave out, replace or exchange with their neighbour to make one name the other."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one):
        last, row, older = row, [i + 1], before
        for j, b in enumerate(other):
            row.append(min(last[j] + (a != b), last[j + 1] + 1, row[j] + 1))
            if i and j and a == other[j - 1] and one[i - 1] == b:
                row[-1] = min(row[-1], older[j - 1] + 1)
        before = last
    return row[-1]


def misspelt(name: str, known: Iterable[str], *, at_most: int = 2) -> str | None:
    """The known name that is that few edits away, and at most a fifth of its length, one at least."""
    for candidate in known:
        bound = max(1, min(at_most, len(candidate) // 5))
        if abs(len(name) - len(candidate)) <= bound and edits(name, candidate) <= bound:
            return candidate
    return None
