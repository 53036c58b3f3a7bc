"""Asking the filters: pairs of a message and a filter group, whole batches at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from router.columns import BatchView
from router.engine.compile import Groups
from router.exchanges.texts import Int32s, Int64s
from router.filters import evaluate
from router.message import from_batch


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
        except Exception:  # a defect in the evaluator: find the messages that it concerns
            return self._select_singly(rows, groups)
        if len(found.troubled_pair):
            self.troubled.append(
                (self.groups.first[groups[found.troubled_pair]] + found.troubled_member).astype(np.int64)
            )
        return found.pair, found.member

    def _select_singly(self, rows: Int64s, groups: Int32s) -> tuple[Int64s, Int32s]:
        messages = from_batch(self.view.batch)
        pairs, members = [], []
        for pair, (row, group) in enumerate(zip(rows.tolist(), groups.tolist(), strict=True)):
            for member, one in enumerate(self.groups.members[group]):
                try:
                    if evaluate(one, messages[row], clock_ms=self.view.clock_ms) is True:
                        pairs.append(pair)
                        members.append(member)
                except Exception as error:  # noqa: BLE001  # whatever a defect raises becomes a row's reason
                    self.broken[row] = f"filter {one.text[:80]!r} failed: {type(error).__name__}: {error}"
        return np.array(pairs, np.int64), np.array(members, np.int32)
