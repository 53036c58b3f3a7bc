"""Messages on record routed twice: as they were, and as another topology would have routed them.

Each message is routed by the engine under the topology version and clock of its time, and under the proposed topology
with that same clock, and the two results are compared. A message is taken from the journal of its stream where that has
it, as it was published, and else from a table that still has a copy; rows of queues are without bcc keys, on both sides
of the comparison. A group of files holds all copies of its messages (`bindery.store.routed_files`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bindery.jobs.comparison import EXAMPLES, Comparison, Example
from bindery.router.engine import REASONS, Deliveries, Router
from bindery.router.message import JOURNAL_SCHEMA, MESSAGE_SCHEMA, QUEUE_SCHEMA, UNROUTABLE_SCHEMA, from_batch
from bindery.router.model import Topology
from bindery.store.changed_copies import as_published
from bindery.store.recorded import CLOSED
from bindery.store.routed_files import Identities, RoutedFile, batches_of, identities_of
from bindery.store.stream_names import OF_PLANS
from bindery.store.topology import TopologyStore

BATCH_ROWS: Final = 65_536

Mask = npt.NDArray[np.bool_]
#: Identities of messages: the place of the stream in the group, the batch, and the number in it, as 24 bytes.
Keys = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class Span:
    """Which messages are replayed: of one stream (None: of all), routed at `since` or later, before `until`."""

    stream: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def holds(self, rows: pa.RecordBatch) -> Mask:
        """Which rows lie in the span; rows that repeat messages of other streams are left out."""
        stream = rows.column("routing").field("stream").cast(pa.string())
        if self.stream is None:
            kept = pc.invert(reduce(pc.or_, (pc.starts_with(stream, prefix) for prefix in OF_PLANS)))
        else:
            kept = pc.equal(stream, self.stream)
        routed = rows.column("routed_at")
        if self.since is not None:
            kept = pc.and_(kept, pc.greater_equal(routed, pa.scalar(self.since, routed.type)))
        if self.until is not None:
            kept = pc.and_(kept, pc.less(routed, pa.scalar(self.until, routed.type)))
        return np.asarray(kept.to_numpy(zero_copy_only=False), np.bool_)


@dataclass
class _Group:
    """One group of files while it is compared."""

    found: Comparison = field(default_factory=Comparison)
    seen: Keys = field(default_factory=lambda: np.zeros(0, "V24"))
    streams: dict[str, int] = field(default_factory=dict)
    queues_before: set[str] = field(default_factory=set)
    queues_after: set[str] = field(default_factory=set)


class Replayer:
    """Compares groups of files; one per task, so that past versions compile once.

    With `present` a message is compared with what that topology does with it, not with what became of it. `may_see`
    says of an exchange whether messages that were published to it are compared that no queue has: unroutable ones, and
    those of journals; `before_routing` is called before each portion, and what it raises ends the comparison.
    """

    def __init__(
        self,
        store: TopologyStore,
        vhost: str,
        proposed: Router,
        span: Span,
        *,
        present: Topology | None = None,
        may_see: Callable[[str], bool] | None = None,
        before_routing: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._vhost = vhost
        self._proposed = proposed
        self._span = span
        self._may_see = may_see
        self._before_routing = before_routing
        self._present = present
        self._past: dict[int, Router] = {}

    def compare(
        self, files: list[RoutedFile], found: Comparison | None = None, *, most: int | None = None
    ) -> Comparison:
        """Route every message of the group both ways, or its newest ones: `most` over all of `found`."""
        group = _Group(Comparison() if found is None else found)
        chosen = None if most is None else self._newest(files, group, most - group.found.messages)
        for file in files:
            self._compare_file(file, group, chosen)
        group.found.files_before += len(group.queues_before)
        group.found.files_after += len(group.queues_after)
        return group.found

    def _compare_file(self, file: RoutedFile, group: _Group, chosen: Keys | None) -> None:
        found = identities_of(file)
        keys = _keys(found, group)
        # copies that transformations have changed are no messages as they were published
        fresh = found.meant & as_published(found.numbers[:, 2]) & ~np.isin(keys, group.seen)
        if chosen is not None:
            fresh &= np.isin(keys, chosen)
        if not fresh.any():
            return
        start = 0
        for batch in batches_of(file, found.row_groups, _schema_of(file), BATCH_ROWS):
            place = slice(start, start + batch.num_rows)
            start = place.stop
            mask = fresh[place] & self._visible(file, batch)
            # whoever may not see it in the journal may have a copy in a queue
            group.seen = np.concatenate([group.seen, keys[place][mask]])
            mask &= self._span.holds(batch)
            if file.queue is None:
                closed = pc.is_in(batch.column("reason"), value_set=pa.array(sorted(CLOSED)))
                mask &= ~np.asarray(closed.to_numpy(zero_copy_only=False), np.bool_)
            if mask.any():
                group.found.journaled += int(mask.sum()) if file.journal else 0
                self._compare_rows(batch.filter(pa.array(mask)), file.queue, group)

    def _visible(self, file: RoutedFile, rows: pa.RecordBatch) -> Mask:
        """Which rows may be compared, of a file of a queue that may be read all of them."""
        if self._may_see is None or file.queue is not None:
            return np.ones(rows.num_rows, np.bool_)
        published = rows.column("exchange").cast(pa.string())
        seen = [name for name in published.unique().to_pylist() if self._may_see(name)]
        inside = pc.is_in(published, value_set=pa.array(seen, pa.string()))
        return np.asarray(inside.to_numpy(zero_copy_only=False), np.bool_)

    def _newest(self, files: list[RoutedFile], group: _Group, most: int) -> Keys:
        """The last messages of a group that may be seen, by batch and number, in whatever tables they stand."""
        parts = []
        for file in files:
            found = identities_of(file)
            meant = found.meant & as_published(found.numbers[:, 2])
            if file.queue is None and self._may_see is not None:
                published = pa.schema([MESSAGE_SCHEMA.field("exchange")])
                rows = batches_of(file, found.row_groups, published, BATCH_ROWS)
                meant &= np.concatenate([np.zeros(0, np.bool_), *(self._visible(file, one) for one in rows)])
            parts.append(_keys(found, group)[meant])
        keys: Keys = np.unique(np.concatenate(parts)) if parts else np.zeros(0, "V24")
        numbers = keys.view(np.int64).reshape(-1, 3)
        in_order = np.lexsort((numbers[:, 2], numbers[:, 1]))
        return keys[in_order[max(0, len(keys) - most) :]]

    def _compare_rows(self, rows: pa.RecordBatch, queue: str | None, group: _Group) -> None:
        """Rows of one table; those of one version and clock go together."""
        versions = rows.column("routing").field("topology_version").to_numpy()
        clocks = rows.column("routed_at").cast(pa.int64()).to_numpy() // 1000
        if self._present is not None:
            versions = np.full(rows.num_rows, self._present.version)
        for version, clock in np.unique(np.stack([versions, clocks], axis=1), axis=0).tolist():
            chosen = np.flatnonzero((versions == version) & (clocks == clock))
            part = rows if len(chosen) == rows.num_rows else rows.take(pa.array(chosen))
            messages = part.select(MESSAGE_SCHEMA.names)
            self._before_routing()
            before = _Side(self._router(version), messages, clock)
            after = _Side(self._proposed, messages, clock)
            _compare(group, part, before, after, (version, clock))
            if queue is not None and self._present is None:
                group.found.unexplained += part.num_rows - len(before.rows.get(queue, _NO_ROWS))

    def _router(self, version: int) -> Router:
        found = self._past.get(version)
        if found is None:
            topology = self._store.load(version=version) if self._present is None else self._present
            found = self._past[version] = Router.compile(topology, self._vhost)
        return found


def _keys(found: Identities, group: _Group) -> Keys:
    """The identities of a file's rows, the same for the same message in every file of the group."""
    places = np.array([group.streams.setdefault(name, len(group.streams)) for name in found.streams], np.int64)
    numbers = found.numbers
    numbers[:, 0] = places[numbers[:, 0]] if len(places) else 0
    return np.ascontiguousarray(numbers).view("V24").reshape(-1)


def _schema_of(file: RoutedFile) -> pa.Schema:
    if file.journal:
        return JOURNAL_SCHEMA
    return UNROUTABLE_SCHEMA if file.queue is None else QUEUE_SCHEMA


class _Side:
    """One routing of a batch: (message, queue name) pairs, as names and as row numbers per name."""

    def __init__(self, router: Router, messages: pa.RecordBatch, clock_ms: int) -> None:
        self.deliveries: Deliveries = router.route(messages, clock_ms=clock_ms)
        self.queues = [router.queues[number] for number in self.deliveries.queue.tolist()]
        self.rows = {
            name: np.unique(self.deliveries.rows[start:end])
            for name, start, end in zip(
                self.queues, self.deliveries.offsets[:-1].tolist(), self.deliveries.offsets[1:].tolist(), strict=True
            )
        }

    def reasons(self) -> dict[str, int]:
        """Unroutable messages by reason."""
        return {name: n for name, n in zip(REASONS, self.deliveries.counts.reasons.tolist(), strict=True) if n}


_NO_ROWS: Final = np.zeros(0, np.int32)


def _compare(
    group: _Group,
    rows: pa.RecordBatch,
    before: _Side,
    after: _Side,
    routed: tuple[int, int],
) -> None:
    found = group.found
    found.messages += rows.num_rows
    found.unroutable_before.update(before.reasons())
    found.unroutable_after.update(after.reasons())
    group.queues_before.update(before.queues)
    group.queues_after.update(after.queues)
    for name in before.rows.keys() | after.rows.keys():
        old, new = before.rows.get(name, _NO_ROWS), after.rows.get(name, _NO_ROWS)
        same = np.intersect1d(old, new, assume_unique=True)
        found.before[name] += len(old)
        found.after[name] += len(new)
        found.unchanged[name] += len(same)
        for direction, own in (("gained", new), ("lost", old)):
            differing = np.setdiff1d(own, same, assume_unique=True)
            if len(differing):
                getattr(found, direction)[name] += len(differing)
                found.note(name, direction, _examples(rows, differing[:EXAMPLES], routed))


def _examples(rows: pa.RecordBatch, chosen: npt.NDArray[np.integer[Any]], routed: tuple[int, int]) -> list[Example]:
    picked = rows.take(pa.array(chosen))
    routing = picked.column("routing").to_pylist()
    return [
        Example(f"{one['stream']}:{one['batch_id']}:{one['seq']}", *routed, message.as_json())
        for one, message in zip(routing, from_batch(picked), strict=True)
    ]
