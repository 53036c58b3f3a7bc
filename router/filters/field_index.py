"""What the indexes that lead to filters have in common: groups, and lists of entries (filters of a group)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from bindery.router.columns import Ref
from bindery.router.filters.payload import PAYLOAD
from bindery.router.filters.vector import Source

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Held = TypeVar("Held", Ints, Codes)


class Runs:
    """Lists of entries by number, one after the other: list n is `entries[starts[n] : starts[n + 1]]`."""

    def __init__(self, numbers: Ints, entries: Codes, count: int) -> None:
        order = np.lexsort((entries, numbers))
        self.entries = entries[order]
        self.starts = np.searchsorted(numbers[order], np.arange(count + 1)).astype(np.int64)

    def sizes(self, numbers: npt.NDArray[np.integer]) -> Ints:
        """How many entries each list has."""
        return np.asarray(self.starts[numbers + 1] - self.starts[numbers])


def ranges(starts: Ints, sizes: Ints) -> Ints:
    """All numbers of the ranges `starts[n] .. starts[n] + sizes[n]`, one range after the other."""
    total = int(sizes.sum())
    before = np.cumsum(sizes) - sizes
    return np.asarray(np.arange(total) + np.repeat(starts - before, sizes))


#: Lists that pairs of a group and a batch row lead to: pairs, ascending and each once, and the number of each list;
#: several times where a pair leads to several lists. No entry stands in two lists of a pair by one key.
LookUp = Callable[[Codes, Ints], Iterable[tuple[Ints, Ints]]]


class FieldIndex(ABC):
    """For one field: from a group and what a message holds there to the entries that wait for it.

    ref          the field
    runs         the lists of entries that a `LookUp` gives numbers of
    in_trouble   of a field in the body: all entries of each group, for a body that cannot be parsed: whatever
                 it may hold, these filters are unknown for it, and that is counted
    meets_absent whether some entry waits for messages without the field
    """

    runs: Runs
    meets_absent = False

    def __init__(self, ref: Ref, groups: Codes, entries: Codes) -> None:
        self.ref = ref
        self._groups = np.unique(groups)
        self.in_trouble: Runs | None = None
        if ref.section == PAYLOAD:
            width = int(entries.max(initial=0)) + 1
            waiting, distinct = np.divmod(np.unique(self._place_of_group(groups) * width + entries), width)
            self.in_trouble = Runs(waiting, distinct.astype(np.int32), len(self._groups))

    @property
    def waiting_groups(self) -> int:
        """How many groups have entries here."""
        return len(self._groups)

    def _place_of_group(self, groups: Codes) -> Ints:
        return np.searchsorted(self._groups, groups).astype(np.int64)

    @abstractmethod
    def on(self, source: Source) -> LookUp:
        """The index over one batch, whose messages hold `source` in the field."""

    def troubled(self, groups: Codes, asked: Ints) -> tuple[Ints, Ints]:
        """Which of the pairs whose bodies cannot be read have entries in `in_trouble`, and the number of their list."""
        return self._local(groups, asked, asked)[:2]

    def _local(self, groups: Codes, asked: Ints, held: Held) -> tuple[Ints, Ints, Held]:
        """Those of the asked pairs whose group waits for something here: the pair, the group's place, what it holds."""
        if len(self._groups) == 1:
            local = np.zeros(len(asked), np.int64)
            hit = groups[asked] == self._groups[0]
            if hit.all():
                return asked, local, held
        else:
            local = np.minimum(np.searchsorted(self._groups, groups[asked]), len(self._groups) - 1)
            hit = self._groups[local] == groups[asked]
        return asked[hit], local[hit], held[hit]
