"""Which topic pattern accepts everything that another accepts, decided exactly.

A pattern is words split on "."; `*` is one word, `#` any number of words (the empty key has no words;
Broker-J §4.6.2.2). The question whether `wide` covers `narrow` needs no search over keys: a wildcard
of `narrow` is hardest to accept when it stands for words that occur in no pattern, because only
wildcards of `wide` take those. So `narrow` becomes the words of one automaton whose `#` are loops over
one foreign word, and it is run against the position set of `wide` (a bit mask). Position sets that
contain one seen before at the same place cannot fail if that one does not, so they are dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from bindery.router.matching.trie import ANY, ONE, pattern_words

#: Position sets that one decision may visit; beyond it the answer is "not known to cover".
MAX_STATES: Final = 5_000


def words(text: str) -> tuple[str, ...]:
    """The words of a key or pattern; the empty text has none."""
    return tuple(text.split(".")) if text else ()


class Pattern(tuple[str, ...]):
    """A topic pattern: its words in normal form."""

    @classmethod
    def of(cls, text: str) -> Pattern:
        """The pattern that a binding key spells."""
        return cls(pattern_words(text))

    @cached_property
    def literals(self) -> frozenset[str]:
        """The words that a key must hold."""
        return frozenset(self) - {ONE, ANY}

    @cached_property
    def bounded(self) -> bool:
        """Whether the number of words is fixed."""
        return ANY not in self

    @cached_property
    def fewest(self) -> int:
        """The words of the shortest key that the pattern accepts."""
        return len(self) - self.count(ANY)

    @cached_property
    def exact(self) -> bool:
        """Whether the pattern accepts one key only."""
        return self.bounded and ONE not in self

    @cached_property
    def _masks(self) -> tuple[int, int, dict[str, int]]:
        ones = anys = 0
        named: dict[str, int] = {}
        for place, token in enumerate(self):
            if token == ANY:
                anys |= 1 << place
            elif token == ONE:
                ones |= 1 << place
            else:
                named[token] = named.get(token, 0) | 1 << place
        return ones, anys, named

    @cached_property
    def start(self) -> int:
        """The places before any word, as a bit mask; place n stands before word n of the pattern."""
        return self._closed(1)

    def step(self, places: int, word: str | None) -> int:
        """The places behind one more word of a key; None is a word that no pattern names."""
        ones, anys, named = self._masks
        # in a key `*` and `#` are ordinary words, which only a wildcard takes
        over = ones if word in (None, ONE, ANY) else ones | named.get(word, 0)
        return self._closed((places & over) << 1 | places & anys)

    def ends(self, places: int) -> bool:
        """Whether a key that came to these places is accepted as it is."""
        return bool(places >> len(self) & 1)

    def _closed(self, places: int) -> int:
        # normal form: two `#` are never neighbours, so one step over a `#` is enough
        return places | (places & self._masks[1]) << 1

    def covers(self, narrow: Pattern) -> bool:
        """Whether every key that `narrow` accepts is accepted here; False also beyond MAX_STATES."""
        if self.fewest > narrow.fewest or not self.literals <= narrow.literals or self.bounded > narrow.bounded:
            return False
        seen: dict[int, list[int]] = {}
        pending = [(0, self.start)]
        visited = 0
        while pending:
            place, sets = pending.pop()
            known = seen.setdefault(place, [])
            if any(smaller & sets == smaller for smaller in known):
                continue
            known.append(sets)
            visited += 1
            if visited > MAX_STATES or sets == 0:
                return False
            if place == len(narrow):
                if not self.ends(sets):
                    return False
                continue
            token = narrow[place]
            if token == ANY:
                pending += [(place, self.step(sets, None)), (place + 1, sets)]
            else:
                pending.append((place + 1, self.step(sets, None if token == ONE else token)))
        return True


@dataclass(slots=True)
class _Node:
    children: dict[str, _Node]
    pattern: Pattern | None = None


class PatternIndex:
    """Patterns that may cover others, found without comparing each with each.

    A trie is walked with one key of the narrow pattern, its shortest: whatever covers the pattern
    accepts that key. Each node is visited once per word of the key.
    """

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self._root = _Node({})
        for pattern in patterns:
            node = self._root
            for token in pattern:
                node = node.children.setdefault(token, _Node({}))
            node.pattern = pattern

    def candidates(self, narrow: Pattern) -> Iterator[Pattern]:
        """Other patterns that accept the shortest key of `narrow`: every one that covers it is among them."""
        key = [None if token == ONE else token for token in narrow if token != ANY]
        pending = [(self._root, 0)]
        seen: set[tuple[int, int]] = set()
        while pending:
            node, place = pending.pop()
            if (id(node), place) in seen:
                continue
            seen.add((id(node), place))
            if place == len(key) and node.pattern is not None and node.pattern != narrow:
                yield node.pattern
            for token, child in self._followed(node, key[place] if place < len(key) else None):
                if token == ANY:
                    pending += [(child, after) for after in range(place, len(key) + 1)]
                elif place < len(key):
                    pending.append((child, place + 1))

    @staticmethod
    def _followed(node: _Node, word: str | None) -> Iterator[tuple[str, _Node]]:
        for token in (ANY, ONE) if word is None else (ANY, ONE, word):
            child = node.children.get(token)
            if child is not None:
                yield token, child
