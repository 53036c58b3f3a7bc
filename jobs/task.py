"""What one Spark task does: fold records into messages, route them, write the copies.

A task gives one row of JSON: the files that it wrote (committed by the driver) and what it counted.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
from pyspark import Broadcast, TaskContext

from bindery.jobs.fold import SOURCE_COLUMN, Refused
from bindery.jobs.plain_files import NotPlain, PlainFiles
from bindery.jobs.repeats import Repeats
from bindery.jobs.sources.offsets import OffsetNumbers
from bindery.jobs.sources.refused import RefusedPart
from bindery.router.engine import Router
from bindery.router.freshness import Flags
from bindery.router.message import SENT_SCHEMA, SOURCE
from bindery.store.paths import DataDir
from bindery.store.places import requests
from bindery.store.problems import Problem
from bindery.store.routed_counts import RoutedCounts
from bindery.store.writer import BATCH_SCHEMA, NUMBERS_PER_TASK, BatchStamp, QueueWriter

RESULT_SCHEMA: Final = "result string"
#: What a task gives whose files its reader could not read, instead of all else: why.
NOT_PLAIN: Final = "not_plain"
#: Records are routed in groups of about so many bytes or rows: Spark's batches are smaller than is efficient.
GROUP_BYTES: Final = 32 * 1024 * 1024
GROUP_ROWS: Final = 65_536
#: The range of numbers that no task has: far above all (jobs/splits.py), and below 2^53.
_DRIVER: Final = 2**53 // NUMBERS_PER_TASK - 1


class Numbering:
    """Numbers the records of a task: as `numbers` says, or else from the range of its partition."""

    def __init__(self, partition: int, numbers: OffsetNumbers | None) -> None:
        self._next = partition * NUMBERS_PER_TASK
        self._numbers = numbers

    def __call__(self, batch: pa.RecordBatch) -> pa.Array:
        """The numbers of the records that come next."""
        if self._numbers is not None:
            return self._numbers(batch.column(SOURCE_COLUMN))
        first, self._next = self._next, self._next + batch.num_rows
        return pa.array(np.arange(first, self._next))


class Folding(Protocol):
    """How records become messages; see `bindery.jobs.fold.Fold`."""

    def __call__(
        self, batch: pa.RecordBatch, seq: pa.Array, *, clock_ms: int = 0
    ) -> tuple[pa.RecordBatch, Refused | None]:
        """The messages of a batch, and the refused records."""


@dataclass(frozen=True, slots=True)
class Held:
    """A compiled topology that is here already, where others come by broadcast."""

    value: Router


@dataclass(frozen=True, slots=True)
class RouteTask:
    """The function of `mapInArrow`; `router` is broadcast once per topology version.

    `numbers` gives messages their numbers where the source does; else each task has a range of its own. With `journal`
    they go to the journal of the stream, too, unless the batch is pinned to a topology from before queues had ids;
    copies for queues that are `deferred` (bool, by queue number) stay there until they are materialised.
    `repeats` are not routed. With a `reader` the records are those that it finds for what Spark sends.

    Memory of a task: what QueueWriter states for `buffer_bytes`, plus a few times one group of records
    (GROUP_BYTES, or one Arrow batch from Spark when that is larger) for folding and routing.
    """

    data: DataDir
    vhost: str
    stamp: BatchStamp
    fold: Folding
    router: Broadcast[Router] | Held
    buffer_bytes: int
    numbers: OffsetNumbers | None = None
    journal: bool = False
    deferred: Flags | None = None
    repeats: Broadcast[Repeats] | None = None
    reader: PlainFiles | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Route every batch of the partition; gives one row."""
        context = TaskContext.get()
        partition, attempt = (0, 0) if context is None else (context.partitionId(), context.taskAttemptId())
        try:
            result = self.route(batches, partition=partition, attempt=attempt)
        except NotPlain as reason:
            result = {NOT_PLAIN: str(reason)}
        yield pa.RecordBatch.from_pydict({"result": [json.dumps(result)]})

    def route(self, batches: Iterator[pa.RecordBatch], *, partition: int = 0, attempt: int = 0) -> dict[str, Any]:
        """Route the batches of one partition; files written and counts, as plain data."""
        router = self.router.value
        records = batches if self.reader is None else self.reader(batches)
        journal = router.queue_ids if self.journal and router.queue_ids.all() else None
        writer = QueueWriter(
            self.data,
            vhost=self.vhost,
            queues=router.queues,
            stamp=self.stamp,
            attempt=f"{partition}.{attempt}",
            buffer_bytes=self.buffer_bytes,
            journal=journal,
            deferred=None if journal is None else self.deferred,
        )
        counts = RoutedCounts()
        asked = Counter(requests())
        spent = dict.fromkeys(("read", "fold", "route", "write"), 0.0)
        numbering = Numbering(partition, self.numbers)
        clock = time.perf_counter()
        for batch in self._guarded(grouped(records), writer):
            spent["read"] += (now := time.perf_counter()) - clock
            messages, refused = self.fold(batch, numbering(batch), clock_ms=self.stamp.clock_ms)
            counts.bytes += batch.nbytes
            if refused is not None:
                writer.add_refused(refused.batch, reason=refused.reason, detail=refused.detail, raw=refused.raw)
                counts.refuse(refused.reason, refused.problems)
            if self.repeats is not None:
                messages = self._without_repeats(messages, self.repeats.value, writer, counts)
            spent["fold"] += (folded := time.perf_counter()) - now
            deliveries = router.route(messages, clock_ms=self.stamp.clock_ms)
            spent["route"] += (routed := time.perf_counter()) - folded
            writer.add(messages, deliveries)
            counts.add(messages, deliveries)
            clock = time.perf_counter()
            spent["write"] += clock - routed
        files = writer.close()
        spent["write"] += time.perf_counter() - clock
        counts.requests += Counter(requests()) - asked
        return {
            "files": [asdict(file) for file in files],
            "counts": counts.as_data(),
            "seconds": spent,
        }

    @staticmethod
    def _guarded(batches: Iterator[pa.RecordBatch], writer: QueueWriter) -> Iterator[pa.RecordBatch]:
        """The batches; where they turn out not to be plain nothing stays of what was written."""
        try:
            yield from batches
        except NotPlain:
            writer.discard()
            raise

    def _without_repeats(
        self, messages: pa.RecordBatch, repeats: Repeats, writer: QueueWriter, counts: RoutedCounts
    ) -> pa.RecordBatch:
        """The messages that are to be routed; the others are counted and, if asked for, written."""
        kept, left_out = repeats.leave_out(messages)
        if left_out is not None:
            counts.refuse(left_out.reason)
            if repeats.keep:
                writer.add_refused(
                    left_out.batch,
                    reason=left_out.reason,
                    detail=left_out.detail,
                    raw=left_out.raw,
                    disposition=left_out.disposition,
                )
        return kept

    def refuse(self, parts: Sequence[RefusedPart]) -> dict[str, Any]:
        """Write what was left out of the batch as unroutable; called once, by the driver. Gives what `route` gives."""
        rows = len(parts)
        places = pa.array([{"file": part.file, "offset": part.offset} for part in parts], SOURCE)
        seq = pa.array(np.arange(rows) + _DRIVER * NUMBERS_PER_TASK)
        records = [pa.nulls(rows, member.type) for member in SENT_SCHEMA]
        reason = pa.array([part.reason for part in parts])
        writer = QueueWriter(self.data, vhost=self.vhost, queues=(), stamp=self.stamp, attempt="driver")
        writer.add_refused(
            pa.RecordBatch.from_arrays([*records, places, seq], schema=BATCH_SCHEMA),
            reason=reason,
            detail=pa.array([part.detail for part in parts]),
            raw=pa.nulls(rows, pa.binary()),
        )
        counts = RoutedCounts()
        invalid = [Problem("file", part.detail) for part in parts if part.reason == "invalid_record"]
        counts.refuse(reason, invalid)
        return {"files": [asdict(file) for file in writer.close()], "counts": counts.as_data(), "seconds": {}}


def grouped(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The records of a task in groups of GROUP_BYTES or GROUP_ROWS."""
    group: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        group.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= GROUP_ROWS or size >= GROUP_BYTES:
            yield pa.concat_batches(group)
            group, rows, size = [], 0, 0
    if rows:
        yield pa.concat_batches(group)
