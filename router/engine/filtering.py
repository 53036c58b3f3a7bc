"""Asking the filters: pairs of a message and a filter group, whole batches at a time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bindery.router.columns import BatchView
from bindery.router.engine.compile import Groups
from bindery.router.filters.bodies import Bodies
from bindery.router.matching.texts import Int32s, Int64s


class Screening:
    """Runs filter groups over the messages of one batch and keeps count of what went wrong.

    pairs     (message, filter group) pairs asked for
    troubled  members (positions in `Groups.link`) whose result was unknown because of run-time trouble
    bodies    the bodies that were parsed, and where those were asked for that could not be
    failed    (row, member, what happened) of filters that could not be evaluated: a defect, never the message's fault
    """

    def __init__(self, groups: Groups, view: BatchView, bodies: Bodies) -> None:
        self.groups = groups
        self.bodies = bodies
        self.pairs = 0
        self.troubled: list[Int64s] = []
        self.failed: list[tuple[int, int, str]] = []
        self._filters = groups.filters.on(view, bodies)

    def accepted(self, rows: npt.NDArray[np.integer], groups: Int32s) -> tuple[Int64s, Int32s]:
        """The links whose filters all accept: (place in `rows`, link), sorted by place."""
        self.pairs += len(rows)
        if not len(rows):
            return np.zeros(0, np.int64), np.zeros(0, np.int32)
        pair, member = self._select(rows.astype(np.int64), groups)
        place = self.groups.first[groups[pair]] + member
        links = self.groups.link[place]
        if not len(pair) or not self.groups.several:
            return pair, links
        # a link with several filters stands in the selection once for each filter that accepts
        starts = np.flatnonzero(np.append(True, (pair[1:] != pair[:-1]) | (links[1:] != links[:-1])))
        runs = np.diff(np.append(starts, len(pair)))
        kept = starts[runs == self.groups.needed[place[starts]]]
        return pair[kept], links[kept]

    def _select(self, rows: Int64s, groups: Int32s) -> tuple[Int64s, Int32s]:
        found = self._filters.select(rows, groups)
        for payload, into in self.groups.filters.into_bodies.items():
            asked = into[groups]
            self.bodies.note(payload, rows[asked], self.groups.place[groups[asked]])
        first = self.groups.first[groups]
        if len(found.troubled_pair):
            self.troubled.append((first[found.troubled_pair] + found.troubled_member).astype(np.int64))
        if len(found.failed_pair):
            members = first[found.failed_pair] + found.failed_member
            self.failed += zip(rows[found.failed_pair].tolist(), members.tolist(), found.failed_error, strict=True)
        return found.pair, found.member
