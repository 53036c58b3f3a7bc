"""Direct exchanges: a routing key equals the binding key, byte for byte (Broker-J §4.6.2.1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bindery.router.matching.matcher import KeyMatcher, Matches
from bindery.router.matching.texts import Int64s, Texts, TextTable
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


def compile_direct(bindings: Sequence[Binding], base: int) -> tuple[DirectMatcher, list[int]]:
    """See `bindery.router.exchanges.exchange_type.Compile`."""
    numbers: dict[str, int] = {}
    rules = [base + numbers.setdefault(binding.routing_key, len(numbers)) for binding in bindings]
    return DirectMatcher(list(numbers), base), rules
