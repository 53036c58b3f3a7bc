"""Replay: history routed through another topology, without writing anything.

History is what queue tables and the unroutable table hold. Each message is routed twice by the engine,
under the topology version and clock of its time and under the proposed topology with that same clock,
and the two results are compared. Consumed rows do not matter as long as one copy of a message is left;
messages of which none is left, and those that were counted only, are not replayed. Queue rows are
without bcc keys, on both sides of the comparison.

A Spark task gets groups of files in which all copies of a message stand together
(`bindery.store.routed_files`), so nothing is shuffled and each message is read about once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import Broadcast
from pyspark.sql import SparkSession

from bindery.jobs.comparison import EXAMPLES, Comparison, Example
from bindery.jobs.session import require_classic
from bindery.jobs.shipping import results, shipped
from bindery.router.engine import REASONS, Deliveries, Router
from bindery.router.message import MESSAGE_SCHEMA, QUEUE_SCHEMA, UNROUTABLE_SCHEMA, from_batch
from bindery.router.model import Topology
from bindery.store.paths import DataDir
from bindery.store.recorded import UNREADABLE
from bindery.store.routed_files import RoutedFile, batches_of, file_groups, group_of, group_text, identities_of
from bindery.store.stream_names import OF_PLANS
from bindery.store.topology import TopologyStore

RESULT_SCHEMA: Final = "result string"
BATCH_ROWS: Final = 65_536
#: Tasks per core: groups differ in size.
_TASKS_PER_CORE: Final = 4

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


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
    seen: npt.NDArray[np.void] = field(default_factory=lambda: np.zeros(0, "V24"))
    streams: dict[str, int] = field(default_factory=dict)
    queues_before: set[str] = field(default_factory=set)
    queues_after: set[str] = field(default_factory=set)


class Replayer:
    """Compares groups of files; one per task, so that past versions compile once."""

    def __init__(self, data: DataDir, vhost: str, proposed: Router, span: Span) -> None:
        self._store = TopologyStore(data)
        self._vhost = vhost
        self._proposed = proposed
        self._span = span
        self._past: dict[int, Router] = {}

    def compare(self, files: list[RoutedFile]) -> Comparison:
        """Route every message of the group both ways."""
        group = _Group()
        for file in files:
            self._compare_file(file, group)
        group.found.files_before = len(group.queues_before)
        group.found.files_after = len(group.queues_after)
        return group.found

    def _compare_file(self, file: RoutedFile, group: _Group) -> None:
        found = identities_of(file)
        places = np.array([group.streams.setdefault(name, len(group.streams)) for name in found.streams], np.int64)
        numbers = found.numbers
        numbers[:, 0] = places[numbers[:, 0]] if len(places) else 0
        keys = np.ascontiguousarray(numbers).view("V24").reshape(-1)
        fresh = found.meant & ~np.isin(keys, group.seen)
        if not fresh.any():
            return
        group.seen = np.concatenate([group.seen, keys[fresh]])
        schema = UNROUTABLE_SCHEMA if file.queue is None else QUEUE_SCHEMA
        start = 0
        for batch in batches_of(file, found.row_groups, schema, BATCH_ROWS):
            mask = fresh[start : start + batch.num_rows] & self._span.holds(batch)
            start += batch.num_rows
            if file.queue is None:
                unread = pc.is_in(batch.column("reason"), value_set=pa.array(sorted(UNREADABLE)))
                mask &= ~np.asarray(unread.to_numpy(zero_copy_only=False), np.bool_)
            if mask.any():
                self._compare_rows(batch.filter(pa.array(mask)), file.queue, group)

    def _compare_rows(self, rows: pa.RecordBatch, queue: str | None, group: _Group) -> None:
        """Rows of one table; those of one version and clock go together."""
        versions = rows.column("routing").field("topology_version").to_numpy()
        clocks = rows.column("routed_at").cast(pa.int64()).to_numpy() // 1000
        for version, clock in np.unique(np.stack([versions, clocks], axis=1), axis=0).tolist():
            chosen = np.flatnonzero((versions == version) & (clocks == clock))
            part = rows if len(chosen) == rows.num_rows else rows.take(pa.array(chosen))
            messages = part.select(MESSAGE_SCHEMA.names)
            before = _Side(self._router(version), messages, clock)
            after = _Side(self._proposed, messages, clock)
            _compare(group, part, before, after, (version, clock), queue)

    def _router(self, version: int) -> Router:
        found = self._past.get(version)
        if found is None:
            found = self._past[version] = Router.compile(self._store.load(version=version), self._vhost)
        return found


class _Side:
    """One routing of a batch: (message, queue name) pairs, as names and as row numbers per name."""

    def __init__(self, router: Router, messages: pa.RecordBatch, clock_ms: int) -> None:
        self.deliveries: Deliveries = router.route(messages, clock_ms=clock_ms)
        self.queues = [router.queues[number] for number in self.deliveries.queue.tolist()]
        self.rows = {
            name: self.deliveries.rows[start:end]
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
    queue: str | None,
) -> None:
    found = group.found
    found.messages += rows.num_rows
    found.unroutable_before.update(before.reasons())
    found.unroutable_after.update(after.reasons())
    group.queues_before.update(before.queues)
    group.queues_after.update(after.queues)
    if queue is not None:
        found.unexplained += rows.num_rows - len(before.rows.get(queue, _NO_ROWS))
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


@dataclass(frozen=True, slots=True)
class ReplayTask:
    """The function of `mapInArrow`: groups of files in, one JSON result each out."""

    data: DataDir
    vhost: str
    span: Span
    proposed: Broadcast[Router]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Compare every group of the partition."""
        replayer = Replayer(self.data, self.vhost, self.proposed.value, self.span)
        for batch in batches:
            for text in batch.column(0).to_pylist():
                result = replayer.compare(group_of(text)).as_result()
                yield pa.RecordBatch.from_pydict({"result": [json.dumps(result)]})


def replay(
    spark: SparkSession,
    data: DataDir,
    present: Topology,
    proposed: Topology,
    *,
    vhost: str,
    span: Span,
    report: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Compare history with what the proposed topology would have done, in Spark.

    `report` is called with the groups done and in all. Nothing is written. Raises NotFound for an unknown vhost
    and OtherCode.
    """
    require_classic(spark)
    present.vhost(vhost)
    queues = sorted(name for where, name in present.queues if where == vhost)
    groups = file_groups(data, vhost, queues, stream=span.stream, since=span.since, until=span.until)
    total = Comparison()
    if not groups:
        return total
    router = spark.sparkContext.broadcast(Router.compile(proposed, vhost))
    tasks = min(len(groups), spark.sparkContext.defaultParallelism * _TASKS_PER_CORE)
    frame = spark.createDataFrame([(group_text(group),) for group in groups], "files string").repartition(tasks)
    try:
        compared = frame.mapInArrow(shipped(ReplayTask(data, vhost, span, router)), RESULT_SCHEMA)
        for number, result in enumerate(results(compared.toLocalIterator(prefetchPartitions=True)), 1):
            total.merge(result)
            if report is not None:
                report(number, len(groups))
    finally:
        router.destroy()
    return total
