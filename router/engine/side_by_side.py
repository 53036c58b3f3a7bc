"""Two topologies side by side: messages of a canary by the candidate, the others by the present one.

What belongs to the canary is routed both ways and compared, so that the comparison is exact; what is delivered is one
of the two, message by message. The result is that of one router: whoever writes, counts or answers sees no difference,
but that each message has the version that routed it (`Deliveries.versions`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bindery.router.canary import Canary, Choice
from bindery.router.engine.result import REASONS, Compared, Counts, Deliveries, Forms, Unroutable, Work
from bindery.router.engine.router import Router
from bindery.router.errors import InvalidInput
from bindery.router.message import SENT_SCHEMA
from bindery.router.model import Topology

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


class CanaryRouter(Router):
    """The present topology of a vhost, and the candidate that its canary tries; picklable as every router.

    What is asked of it beside `route` is the present's: its version, and the numbers and ids of the queues.
    """

    def __init__(self, present: Router, candidate: Router, canary: Canary) -> None:
        super().__init__(present.plan)
        if present.queues != candidate.queues:
            raise InvalidInput(
                f"topology version {candidate.version} has other queues than version {present.version}",
                where=f"canary of vhost {present.vhost!r}",
                hint="roll the canary back and begin it again",
            )
        self._present = present
        self._candidate = candidate
        self._choice = Choice(canary)
        self.canary = canary

    @classmethod
    def beside(cls, present: Topology, candidate: Topology, canary: Canary) -> CanaryRouter:
        """Both topologies compiled. Raises NotFound, InvalidInput for other queues, and FilterError."""
        return cls(Router.compile(present, canary.vhost), Router.compile(candidate, canary.vhost), canary)

    def route(self, batch: pa.RecordBatch, *, clock_ms: int) -> Deliveries:
        """See `Router.route`."""
        chosen = self._choice(batch, clock_ms=clock_ms)
        rows = np.flatnonzero(chosen).astype(np.int32)
        others = np.flatnonzero(~chosen).astype(np.int32)
        if not len(rows):
            return self._present.route(batch, clock_ms=clock_ms)
        part = _taken(batch, rows)
        before = self._present.route(part, clock_ms=clock_ms)
        after = self._candidate.route(part, clock_ms=clock_ms)
        compared = _compared(self.queues, before, after, rows)
        kept = after if self.canary.deliver else before
        version = self._candidate.version if self.canary.deliver else self.version
        versions = np.full(batch.num_rows, self.version, np.int64)
        versions[rows] = version
        if not len(others):
            return replace(kept, versions=versions, compared=compared)
        remaining = _taken(batch, others)
        rest = self._present.route(remaining, clock_ms=clock_ms)
        merged = merge([(others, remaining, rest), (rows, part, kept)])
        return replace(merged, versions=versions, compared=compared)


def _taken(batch: pa.RecordBatch, rows: Int32s) -> pa.RecordBatch:
    if len(rows) == batch.num_rows:
        return batch
    names = [name for name in batch.schema.names if name in _ROUTED]
    return batch.select(names).take(pa.array(rows))


#: Columns of a batch that routers read.
_ROUTED: Final = frozenset(SENT_SCHEMA.names)


def _compared(queues: tuple[str, ...], before: Deliveries, after: Deliveries, rows: Int32s) -> Compared:
    """What the messages, `rows` of their batch, reach by one topology and by the other."""
    found = Compared(messages=len(rows))
    differing = np.zeros(len(rows), np.bool_)
    for number in np.union1d(before.queue, after.queue).tolist():
        old, new = (np.unique(side.rows_of(number)) for side in (before, after))  # in whatever forms
        for name, own, other in (("gained", new, old), ("lost", old, new)):
            only = np.setdiff1d(own, other, assume_unique=True)
            if len(only):
                differing[only] = True
                getattr(found, name)[queues[number]] += len(only)
                found.examples[name, queues[number]] = int(rows[only[0]])
    found.differing = int(differing.sum())
    for reasons, side in ((found.before, before), (found.after, after)):
        reasons.update({name: n for name, n in zip(REASONS, side.counts.reasons.tolist(), strict=True) if n})
    return found


#: A part of a batch: its rows of the batch, ascending, what it holds, and where that goes.
Part = tuple[Int32s, pa.RecordBatch, Deliveries]


def merge(parts: list[Part]) -> Deliveries:
    """The deliveries of one batch from those of its parts, which have each of its rows once and number queues alike."""
    total = sum(len(at) for at, _, _ in parts)
    queues = np.concatenate([np.repeat(one.queue, np.diff(one.offsets)) for _, _, one in parts])
    rows = np.concatenate([at[one.rows] for at, _, one in parts])
    copy = np.concatenate(list(_copies(parts, total)))
    order = np.lexsort((copy, rows, queues))
    queues, rows, copy = queues[order], rows[order], copy[order]
    touched, first = np.unique(queues, return_index=True)
    place = np.argsort(np.concatenate([at for at, _, _ in parts]))
    forms = _forms(parts)
    reached = _in_order([one.reached.slice(0, len(at)) for at, _, one in parts], place)
    if forms is not None:
        reached = pa.concat_arrays([reached, *(one.reached.slice(len(at)) for at, _, one in parts)])
    return Deliveries(
        queue=touched.astype(np.int32),
        offsets=np.append(first, len(rows)).astype(np.int64),
        rows=rows.astype(np.int32),
        lineage=_in_order([one.lineage for _, _, one in parts], place),
        reached=reached,
        unroutable=_lost([(at, one.unroutable) for at, _, one in parts]),
        incomplete=_lost([(at, one.incomplete) for at, _, one in parts]),
        counts=_counts([one.counts for _, _, one in parts]),
        forms=forms,
        copy=None if forms is None else copy.astype(np.int32),
    )


def _copies(parts: list[Part], total: int) -> Iterator[Int64s]:
    """Of the copies of each part their rows in the whole batch with all forms behind it."""
    for at, _, one in parts:
        places = np.append(at.astype(np.int64), total + np.arange(0 if one.forms is None else len(one.forms)))
        total += len(places) - len(at)
        yield places[one.written]


def _forms(parts: list[Part]) -> Forms | None:
    """The forms of all parts; a section that the forms of one part leave alone is there as in its messages."""
    changing = [(at, batch, one.forms) for at, batch, one in parts if one.forms is not None]
    if not changing:
        return None
    names = dict.fromkeys(name for _, _, forms in changing for name in forms.changed.schema.names)
    columns = {
        name: pa.concat_arrays(
            [
                forms.changed.column(name)
                if name in forms.changed.schema.names
                else batch.column(name).take(pa.array(forms.message))
                for _, batch, forms in changing
            ]
        )
        for name in names
    }
    return Forms(
        np.concatenate([at[forms.message] for at, _, forms in changing]),
        np.concatenate([forms.number for _, _, forms in changing]),
        pa.RecordBatch.from_pydict(columns),
    )


def _in_order(lists: list[pa.ListArray], place: Int64s) -> pa.ListArray:
    return pa.concat_arrays(lists).take(pa.array(place))


def _lost(parts: list[tuple[Int32s, Unroutable]]) -> Unroutable:
    rows = np.concatenate([at[one.rows] for at, one in parts]).astype(np.int32)
    order = np.argsort(rows)
    details = [text for _, one in parts for text in one.detail]
    return Unroutable(
        rows[order],
        np.concatenate([one.reason for _, one in parts])[order],
        np.concatenate([one.disposition for _, one in parts])[order],
        [details[number] for number in order.tolist()],
        np.concatenate([one.recorded for _, one in parts])[order],
    )


def _counts(parts: list[Counts]) -> Counts:
    ids, hits = _summed(parts, lambda one: (one.ids, one.hits))
    trouble_ids, trouble = _summed(parts, lambda one: (one.trouble_ids, one.trouble))
    error_ids, errors = _summed(parts, lambda one: (one.error_ids, one.errors))
    unparsable: Counter[tuple[str, str, str]] = Counter()
    for one in parts:
        unparsable.update(one.unparsable)
    return Counts(
        ids=ids,
        hits=hits,
        reasons=np.sum([one.reasons for one in parts], axis=0).astype(np.int64),
        trouble_ids=trouble_ids,
        trouble=trouble,
        error_ids=error_ids,
        errors=errors,
        unparsable=unparsable,
        work=Work(*(sum(getattr(one.work, member.name) for one in parts) for member in fields(Work))),
    )


def _summed(parts: list[Counts], of: Callable[[Counts], tuple[Int32s, Int64s]]) -> tuple[Int32s, Int64s]:
    numbers, amounts = (np.concatenate(arrays) for arrays in zip(*map(of, parts), strict=True))
    distinct, place = np.unique(numbers, return_inverse=True)
    totals = np.zeros(len(distinct), np.int64)
    np.add.at(totals, place.reshape(-1), amounts)
    return distinct.astype(np.int32), totals
