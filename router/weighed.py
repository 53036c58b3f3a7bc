"""A cache that is bounded by what it holds, not only by how many things: a few long texts must not fill the memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Weighed(Generic[Item]):
    """Calls of a function, remembered: those used last, up to a number of entries and a total weight.

    make     the function; an error that it raises is not remembered
    weigh    what the result of a call weighs, in whatever unit `weight` is
    A result heavier than an eighth of the whole is never kept. Safe between threads.
    """

    def __init__(self, make: Callable[..., Item], weigh: Callable[[Item], int], *, weight: int, entries: int) -> None:
        self._make = make
        self._weigh = weigh
        self._most = weight
        self._entries = entries
        self._held: OrderedDict[tuple[Hashable, ...], tuple[Item, int]] = OrderedDict()
        self._lock = Lock()
        self.weight = 0

    def __len__(self) -> int:
        return len(self._held)

    def __call__(self, *key: Hashable) -> Item:
        """The result for these arguments, remembered or made."""
        with self._lock:
            found = self._held.get(key)
            if found is not None:
                self._held.move_to_end(key)
                return found[0]
        made = self._make(*key)
        weight = self._weigh(made)
        if weight <= self._most // 8:
            with self._lock:
                if key not in self._held:
                    self._held[key] = made, weight
                    self.weight += weight
                while self.weight > self._most or len(self._held) > self._entries:
                    _, (_, dropped) = self._held.popitem(last=False)
                    self.weight -= dropped
        return made
