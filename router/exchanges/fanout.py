"""Fanout exchanges: every binding, whatever the key (Broker-J §4.6.2.3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bindery.router.columns import Ref
from bindery.router.exchanges.exchange_type import ExchangeType
from bindery.router.matching.matcher import Matches, States
from bindery.router.message import Message
from bindery.router.model import Binding


class FanoutMatcher:
    """One rule that every message meets."""

    body_refs: tuple[Ref, ...] = ()

    def __init__(self, base: int) -> None:
        self._rule = np.array([base], np.int32)

    def match(self, states: States) -> Matches:
        """See `Matcher.match`."""
        return Matches(np.zeros(len(states.rows), np.int32), np.array([0, 1], np.int64), self._rule)


class Fanout(ExchangeType[None]):
    """A binding asks for nothing."""

    def asked(self, binding: Binding) -> None:
        """See `ExchangeType`."""

    def matcher(self, asked: Sequence[None], base: int) -> FanoutMatcher:
        """See `ExchangeType`."""
        return FanoutMatcher(base)

    def miss(self, binding: Binding, keys: Sequence[str], message: Message) -> None:
        """No message misses a binding."""

    def always(self, asked: None) -> bool:
        """See `ExchangeType`."""
        return True
