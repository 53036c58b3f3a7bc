"""Direct exchanges: a routing key equals the binding key, byte for byte (Broker-J §4.6.2.1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from bindery.router.exchanges.exchange_type import ExchangeType, Miss, Remark
from bindery.router.exchanges.patterns import words
from bindery.router.matching.matcher import KeyMatcher, Matches
from bindery.router.matching.texts import Int64s, Texts, TextTable
from bindery.router.matching.trie import ANY, ONE
from bindery.router.message import Message
from bindery.router.model import Binding


class DirectMatcher(KeyMatcher):
    """One rule per distinct binding key, found by hash."""

    def __init__(self, keys: Sequence[str], base: int) -> None:
        self.base = base
        self.rule_count = len(keys)
        self._table = TextTable.of(keys)

    def match_keys(self, keys: Texts, which: Int64s) -> Matches:
        """At most one rule a key; every unknown key is of the last class, which has none."""
        found = self._table.find(keys, which)
        rules = np.arange(self.base, self.base + self.rule_count, dtype=np.int32)
        offsets = np.append(np.arange(self.rule_count + 1, dtype=np.int64), self.rule_count)
        return Matches(np.where(found < 0, np.int32(self.rule_count), found), offsets, rules, len(which))


class Direct(ExchangeType[str]):
    """A binding asks for its key."""

    reads_key = True

    def asked(self, binding: Binding) -> str:
        """See `ExchangeType`."""
        return binding.routing_key

    def matcher(self, asked: Sequence[str], base: int) -> DirectMatcher:
        """See `ExchangeType`."""
        return DirectMatcher(asked, base)

    def miss(self, binding: Binding, keys: Sequence[str], message: Message) -> Miss | None:
        """A key is one word here: none of it agrees."""
        wanted = binding.routing_key
        if wanted in keys:
            return None
        near = [key for key in keys if key.casefold() == wanted.casefold() or key.strip() == wanted.strip()]
        hint = "; keys compare byte for byte" if near else ""
        return Miss(f"the key is {', '.join(map(repr, keys))}, the binding wants {wanted!r}{hint}", 0, 1)

    def always(self, asked: str) -> bool:
        """No key is every key."""
        return False

    def remarks(self, binding: Binding) -> Iterator[Remark]:
        """See `ExchangeType`."""
        key = binding.routing_key
        wild = [word for word in words(key) if word in (ONE, ANY)]
        if wild:
            yield "BT103", f"key {key!r} matches that very text only; {wild[0]} is a wildcard on a topic"
        yield from super().remarks(binding)
