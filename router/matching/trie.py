"""Topic patterns: words with `*` and `#` (Broker-J §4.6.2.2; AMQP 0-9-1 §3.1.3.3).

Patterns form one trie over words in flat arrays. A `#` is a node that every word leads back to, so a
key is matched by advancing the set of reached nodes word by word: polynomial, whatever the number of `#`.
Words that stand in no pattern are all alike, so keys are first collapsed to their distinct sequences of
known words: `order.<uuid>.created` is walked once, not once per uuid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from bindery.router.matching.matcher import KeyMatcher, Matches, spread
from bindery.router.matching.texts import KERNELS, Int32s, Int64s, NumberTable, Texts, TextTable
from bindery.router.native import kernels

ONE: Final = "*"
ANY: Final = "#"


def pattern_words(pattern: str) -> tuple[str, ...]:
    """The words of a pattern in normal form: in a run of wildcards every `*` precedes at most one `#`.

    Only whole words are wildcards; the empty pattern has no words.
    """
    words: list[str] = []
    unbounded = False
    for word in pattern.split(".") if pattern else ():
        if word == ANY:
            unbounded = True
        elif word == ONE:
            words.append(word)
        else:
            if unbounded:
                words.append(ANY)
                unbounded = False
            words.append(word)
    return (*words, ANY) if unbounded else tuple(words)


class TopicTrie(KeyMatcher):
    """Patterns compiled to a trie; rule `base + i` is the i-th pattern, all distinct in normal form."""

    def __init__(self, patterns: Sequence[tuple[str, ...]], base: int = 0) -> None:
        self.base = base
        self.rule_count = len(patterns)
        trie = _Growing()
        for number, words in enumerate(patterns):
            trie.add(words, base + number)
        self._words = TextTable.of(list(trie.symbols))
        self._symbol_count = max(1, len(trie.symbols))
        self._edges = NumberTable.of(
            [node * self._symbol_count + symbol for node, symbol in trie.edges], list(trie.edges.values())
        )
        self._star: Int32s = np.array(trie.star, np.int32)
        self._many: Int32s = np.array(trie.many, np.int32)
        self._loops = np.array(trie.loops, np.bool_)
        self._rule: Int32s = np.array(trie.rule, np.int32)

    def match_keys(self, keys: Texts, which: Int64s) -> Matches:
        """Walks the trie once per distinct sequence of known words."""
        native = kernels(KERNELS)
        words = self._words
        starts, symbols = native.split_symbols(
            keys.data, keys.offsets, which, words.texts.data, words.texts.offsets, words.slots
        )
        classes, samples = native.collapse(starts, symbols)
        offsets, rules, visits = native.walk_trie(
            starts,
            symbols,
            samples,
            self._edges.keys,
            self._edges.values,
            self._star,
            self._many,
            self._loops,
            self._rule,
            self._symbol_count,
        )
        return Matches(classes, offsets, rules, visits)


class SpellingTrie(TopicTrie):
    """A trie that reads each key in another spelling first, in which its patterns were given, too."""

    def __init__(self, patterns: Sequence[tuple[str, ...]], base: int, spelled: Callable[[str], str]) -> None:
        super().__init__(patterns, base)
        self._spelled = spelled

    def match_keys(self, keys: Texts, which: Int64s) -> Matches:
        """See `TopicTrie`."""
        asked = [self._spelled(keys.text(number)) for number in which.tolist()]
        return super().match_keys(Texts.encode(asked), np.arange(len(asked), dtype=np.int64))


class TopicMatcher:
    """Matches texts against topic patterns, for use outside exchanges; `patterns` may repeat."""

    def __init__(self, patterns: Sequence[str]) -> None:
        numbers: dict[tuple[str, ...], int] = {}
        rule_of = np.array([numbers.setdefault(pattern_words(text), len(numbers)) for text in patterns], np.int32)
        self._trie = TopicTrie(list(numbers))
        self._patterns = np.argsort(rule_of, kind="stable").astype(np.int32)
        self._first = np.searchsorted(rule_of[self._patterns], np.arange(len(numbers) + 1))

    def match(self, keys: Sequence[str]) -> tuple[Int64s, Int32s]:
        """For each key the patterns that accept it: key i has `patterns[offsets[i]:offsets[i + 1]]`.

        Patterns are named by their position in the sequence that was compiled.
        """
        found = self._trie.match_keys(Texts.encode(keys), np.arange(len(keys), dtype=np.int64))
        rules, counts = spread(found.classes, found.offsets, found.rules)
        patterns, widths = spread(rules, self._first, self._patterns)
        ends = np.append(0, np.cumsum(widths))[np.append(0, np.cumsum(counts))]
        return ends.astype(np.int64), patterns


class _Growing:
    """The trie while it is built: node 0 is the root."""

    def __init__(self) -> None:
        self.symbols: dict[str, int] = {}
        self.edges: dict[tuple[int, int], int] = {}
        self.star = [-1]
        self.many = [-1]
        self.loops = [False]
        self.rule = [-1]

    def add(self, words: tuple[str, ...], rule: int) -> None:
        node = 0
        for word in words:
            if word == ONE:
                node = self._child(self.star, node)
            elif word == ANY:
                node = self._child(self.many, node)
                self.loops[node] = True
            else:
                edge = (node, self.symbols.setdefault(word, len(self.symbols)))
                if edge not in self.edges:
                    self.edges[edge] = self._node()
                node = self.edges[edge]
        self.rule[node] = rule

    def _child(self, ways: list[int], node: int) -> int:
        if ways[node] < 0:
            child = self._node()
            ways[node] = child
        return ways[node]

    def _node(self) -> int:
        self.star.append(-1)
        self.many.append(-1)
        self.loops.append(False)
        self.rule.append(-1)
        return len(self.rule) - 1
