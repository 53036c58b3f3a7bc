"""Asking the filters: pairs of a message and a filter group, whole batches at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from router.columns import BatchView
from router.engine.compile import Groups
from router.exchanges.texts import Int32s, Int64s


@dataclass
class Screening:
    """Runs filter groups over the messages of one batch and keeps count of what went wrong.

    broken    rows for which some filter failed to evaluate: a defect, never the message's fault
    troubled  members (positions in `Groups.link`) whose result was unknown because of run-time trouble
    """

    groups: Groups
    view: BatchView
    pairs: int = 0
    broken: dict[int, str] = field(default_factory=dict)
    troubled: list[Int64s] = field(default_factory=list)

    def accepted(self, rows: npt.NDArray[np.integer], groups: Int32s) -> tuple[Int64s, Int32s]:
        """The links whose filters all accept: (place in `rows`, link), sorted by place."""
        self.pairs += len(rows)
        if not len(rows):
            return np.zeros(0, np.int64), np.zeros(0, np.int32)
        pair, member = self._select(rows.astype(np.int64), groups)
        place = self.groups.first[groups[pair]] + member
        links = self.groups.link[place]
        if not len(pair) or self.groups.needed.max() == 1:
            return pair, links
        # a link with several filters stands in the selection once for each filter that accepts
        starts = np.flatnonzero(np.append(True, (pair[1:] != pair[:-1]) | (links[1:] != links[:-1])))
        runs = np.diff(np.append(starts, len(pair)))
        kept = starts[runs == self.groups.needed[place[starts]]]
        return pair[kept], links[kept]

    def _select(self, rows: Int64s, groups: Int32s) -> tuple[Int64s, Int32s]:
        try:
            found = self.groups.filters.select(self.view, rows, groups)
        except Exception as error:  # whatever a defect raises becomes the reason of its messages
            return self._select_halves(rows, groups, error)
        if len(found.troubled_pair):
            self.troubled.append(
                (self.groups.first[groups[found.troubled_pair]] + found.troubled_member).astype(np.int64)
            )
        return found.pair, found.member

    def _select_halves(self, rows: Int64s, groups: Int32s, error: Exception) -> tuple[Int64s, Int32s]:
        """Narrow a defect down to the messages that it concerns; all others are filtered as ever."""
        if len(rows) == 1:
            first, last = self.groups.first[groups[0]], self.groups.first[groups[0] + 1]
            self.troubled.append(np.arange(first, last, dtype=np.int64))
            self.broken[int(rows[0])] = f"a filter failed to evaluate: {type(error).__name__}: {error}"
            return np.zeros(0, np.int64), np.zeros(0, np.int32)
        middle = len(rows) // 2
        pair, member = self._select(rows[:middle], groups[:middle])
        more_pair, more_member = self._select(rows[middle:], groups[middle:])
        return np.concatenate([pair, more_pair + middle]), np.concatenate([member, more_member])
