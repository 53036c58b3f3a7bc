"""Topic keys that meet: a pattern made wide enough for a key, and a key that a pattern matches.

Both keep as much as they can of what is there: the fewest words are changed (AMQP 0-9-1 §3.1.3.3: `*` is one word,
`#` is any number of them).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bindery.router.exchanges.patterns import Pattern, words
from bindery.router.matching.trie import ANY, ONE

#: What stands for a word of which a pattern says only that there is one.
_SOME_WORD: Final = "any"
#: What it costs to put `*` or `#` where a word was; a word of a key that is changed costs one.
_STAR, _HASH = 2, 3

#: Pairs of words that are compared at most; of longer texts everything is let in, or no word is kept.
_MOST_PAIRS: Final = 2_500

#: What it costs, and the words.
_Found = tuple[int, tuple[str, ...]]
_Step = Callable[[int, int, list[list[_Found]]], list[_Found]]


def widened(pattern: str, key: str) -> str:
    """A pattern that matches the key and all that the given one matches, as little wider as words can say."""
    wanted, said = Pattern.of(pattern), words(key)
    if len(wanted) * len(said) > _MOST_PAIRS:
        return ANY

    def step(i: int, j: int, rows: list[list[_Found]]) -> list[_Found]:
        found = []
        word = wanted[i] if i < len(wanted) else None
        if word == ANY:
            found.append(_with(ANY, 0, rows[i + 1][j]))
            if j < len(said):
                found.append((rows[i][j + 1][0], rows[i][j + 1][1]))  # it takes one more word
        elif word is not None:
            if j < len(said):
                agrees = word in (ONE, said[j])
                found.append(_with(word if agrees else ONE, 0 if agrees else _STAR, rows[i + 1][j + 1]))
            found.append(_with(ANY, _HASH, rows[i + 1][j]))
        # a `#` more takes what the key has and the pattern has not
        found += [_with(ANY, _HASH, rows[i][further]) for further in range(j + 1, len(said) + 1)]
        return found

    return ".".join(Pattern.of(".".join(_least(len(wanted), len(said), step))))


def fitted(pattern: str, key: str) -> str:
    """A key that the pattern matches, with as many words of the given one as possible."""
    wanted, said = Pattern.of(pattern), words(key)
    if len(wanted) * len(said) > _MOST_PAIRS:
        said = ()

    def step(i: int, j: int, rows: list[list[_Found]]) -> list[_Found]:
        found = []
        word = wanted[i] if i < len(wanted) else None
        if word == ANY:
            found.append(rows[i + 1][j])
            if j < len(said):
                found.append(_with(said[j], 0, rows[i][j + 1]))
        elif word is not None:
            if j < len(said):
                kept = said[j] if word in (ONE, said[j]) else word
                found.append(_with(kept, int(kept != said[j]), rows[i + 1][j + 1]))
            found.append(_with(_SOME_WORD if word == ONE else word, 1, rows[i + 1][j]))
        if j < len(said):
            found.append((rows[i][j + 1][0] + 1, rows[i][j + 1][1]))  # a word that goes
        return found

    return ".".join(_least(len(wanted), len(said), step))


def _with(word: str, cost: int, rest: _Found) -> _Found:
    return rest[0] + cost, (word, *rest[1])


def _least(wanted: int, said: int, step: _Step) -> tuple[str, ...]:
    """The cheapest words from both beginnings on; `step` says what may follow at a pair of places."""
    nothing: _Found = (0, ())
    rows: list[list[_Found]] = [[nothing] * (said + 1) for _ in range(wanted + 1)]
    for i in range(wanted, -1, -1):
        for j in range(said, -1, -1):
            if (i, j) != (wanted, said):
                rows[i][j] = min(step(i, j, rows), key=lambda one: one[0])
    return rows[0][0][1]
