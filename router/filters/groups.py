"""Many filters at once: which members of a group accept which messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from router.columns import BatchView
from router.filters.filter import Filter, evaluate, is_troubled
from router.message import from_batch

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Selection:
    """Accepted and troubled members, each sorted by (pair, member).

    pair, member                    int64[k], int32[k]  members that accept the message of a pair
    troubled_pair, troubled_member  int64[t], int32[t]  members whose result is unknown because of trouble
    """

    pair: Ints
    member: Codes
    troubled_pair: Ints
    troubled_member: Codes


class FilterGroups:
    """Filters in groups, compiled; picklable."""

    def __init__(self, groups: Sequence[Sequence[Filter]]) -> None:
        self._groups = tuple(tuple(group) for group in groups)

    def select(self, view: BatchView, rows: Ints, groups: Codes) -> Selection:
        """For each pair (message row, group): the members that accept the message."""
        messages = from_batch(view.batch)
        accepted, troubled = [], []
        for pair, (row, group) in enumerate(zip(rows.tolist(), groups.tolist(), strict=True)):
            for member, item in enumerate(self._groups[group]):
                if evaluate(item, messages[row], clock_ms=view.clock_ms):
                    accepted.append((pair, member))
                elif is_troubled(item, messages[row], clock_ms=view.clock_ms):
                    troubled.append((pair, member))
        return Selection(*_columns(accepted), *_columns(troubled))


def _columns(pairs: list[tuple[int, int]]) -> tuple[Ints, Codes]:
    array = np.array(pairs, np.int64).reshape(-1, 2)
    return array[:, 0].copy(), array[:, 1].astype(np.int32)
