"""Asking the filters: pairs of a message and a filter group, whole batches at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bindery.router.columns import BatchView
from bindery.router.engine.compile import Groups
from bindery.router.filters.bodies import Bodies, Unread
from bindery.router.filters.field_index import ranges
from bindery.router.filters.limits import Payload
from bindery.router.matching.texts import Int32s, Int64s


@dataclass(frozen=True, slots=True)
class Findings:
    """What filters of a batch have met: see `Screening`, and `Bodies.unparsable`; rows are those of the messages.

    changing  links whose statements were left out because of run-time trouble, once for each time
    beyond    message -> why it was not followed further
    """

    pairs: int
    candidates: int
    troubled: list[tuple[Int64s, Int64s]]
    failed: list[tuple[int, int, str]]
    unparsable: Mapping[tuple[int, int], Unread]
    changing: Sequence[int] = ()
    beyond: Mapping[int, str] = field(default_factory=dict)


class Screening:
    """Runs filter groups over the messages of one batch and keeps count of what went wrong.

    pairs     (message, filter group) pairs asked for
    troubled  (rows, members) whose result was unknown because of run-time trouble; a member is a place in `Groups.link`
    bodies    the bodies that were parsed, and where those were asked for that could not be
    failed    (row, member, what happened) of filters that could not be evaluated: a defect, never the message's fault
    """

    def __init__(self, groups: Groups, view: BatchView, bodies: Bodies) -> None:
        self.groups = groups
        self.bodies = bodies
        self.pairs = 0
        self.troubled: list[tuple[Int64s, Int64s]] = []
        self.failed: list[tuple[int, int, str]] = []
        self._filters = groups.filters.on(view, bodies)

    def findings(self) -> Findings:
        """What was met."""
        return Findings(self.pairs, self.candidates, self.troubled, self.failed, self.bodies.unparsable)

    @property
    def candidates(self) -> int:
        """(message, filter) pairs that were looked at."""
        return self._filters.looked_at

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

    def entered(self, rows: npt.NDArray[np.integer], gates: Int32s) -> tuple[Int64s, Int32s]:
        """The queues whose filters accept: (place in `rows`, which queue of the gate); equal pairs are asked once."""
        codes = rows.astype(np.int64) * len(self.groups.links) + gates
        if (codes[1:] > codes[:-1]).all():  # one exchange with one rule a message: the usual case
            self.pairs += len(rows)
            return self._select(rows.astype(np.int64), gates)
        distinct, place = np.unique(codes, return_inverse=True)
        self.pairs += len(distinct)
        distinct_rows, distinct_gates = np.divmod(distinct, len(self.groups.links))
        pair, queue = self._select(distinct_rows, distinct_gates.astype(np.int32))
        starts = np.searchsorted(pair, np.arange(len(distinct) + 1))
        sizes = np.diff(starts)[place]
        return np.repeat(np.arange(len(rows)), sizes), queue[ranges(starts[place], sizes)]

    def _select(self, rows: Int64s, groups: Int32s) -> tuple[Int64s, Int32s]:
        found = self._filters.select(rows, groups)
        for payload, into in self.groups.filters.into_bodies.items():
            self._note(payload, into, rows, groups)
        first = self.groups.first[groups]
        if len(found.troubled_pair):
            members = (first[found.troubled_pair] + found.troubled_member).astype(np.int64)
            self.troubled.append((rows[found.troubled_pair], members))
        if len(found.failed_pair):
            members = first[found.failed_pair] + found.failed_member
            self.failed += zip(rows[found.failed_pair].tolist(), members.tolist(), found.failed_error, strict=True)
        return found.pair, found.member

    def _note(self, payload: Payload, into: npt.NDArray[np.bool_], rows: Int64s, groups: Int32s) -> None:
        """Note the bodies that could not be read where filters asked for them: of queues, for each of these."""
        known = self.groups
        asked = np.flatnonzero(into[groups])
        asked = asked[self.bodies.unread(payload, rows[asked])]
        group = groups[asked]
        of_queues = known.place[group] < 0
        first = known.first[group]
        sizes = np.where(of_queues, known.first[group + 1] - first, 1)
        places = known.link[ranges(first.astype(np.int64), sizes.astype(np.int64))]
        of_queues, row = np.repeat(of_queues, sizes), np.repeat(rows[asked], sizes)
        places = np.where(of_queues, places, np.repeat(known.place[group], sizes))
        looks = ~of_queues
        looks[of_queues] = into[known.of_queue[-1 - places[of_queues]]]
        self.bodies.note(payload, row[looks], places[looks])
