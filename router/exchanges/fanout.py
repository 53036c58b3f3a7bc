"""Fanout exchanges: every binding, whatever the key (Broker-J §4.6.2.3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bindery.router.matching.matcher import Matches, States
from bindery.router.model import Binding


class FanoutMatcher:
    """One rule that every message meets."""

    def __init__(self, base: int) -> None:
        self._rule = np.array([base], np.int32)

    def match(self, states: States) -> Matches:
        """See `Matcher.match`."""
        return Matches(np.zeros(len(states.rows), np.int32), np.array([0, 1], np.int64), self._rule)


def compile_fanout(bindings: Sequence[Binding], base: int) -> tuple[FanoutMatcher, list[int]]:
    """See `bindery.router.exchanges.exchange_type.Compile`."""
    return FanoutMatcher(base), [base] * len(bindings)
