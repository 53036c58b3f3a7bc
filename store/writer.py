"""Routed messages as Parquet files in the folders of queue tables: the hot path of every job.

One flush writes one file per queue that has copies, and one for the journal where there is one. All work that is
the same for every copy of a message is done once per flush, on the messages: they are encoded as Parquet has them
(`bindery.store.pages`), and columns that hold nothing are left out of the files (a Delta reader gives null for them).
What remains per queue is to put encoded values together. Queues that get the same rows, such as those of a fanout,
share one file: it has a name in the folder of each table.

Memory of a `QueueWriter` is bounded by HELD times `buffer_bytes` plus the size of one batch: `add` buffers at most
`buffer_bytes` of messages plus one batch before it flushes. A flush joins them and lets the batches go, encodes the
joined ones and lets these go, and holds the file of one queue at a time beside what is encoded: twice the buffer. The
rest is for what lies beside the bytes of messages (where values begin, which rows go where), for messages that reached
no queue, and for the journal. On an object store up to 32 MiB of encoded files are on their way beside that.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.engine.result import DISPOSITIONS, REASONS, Deliveries
from bindery.router.freshness import Flags
from bindery.router.message import JOURNAL_ROUTING, MESSAGE_SCHEMA, ROUTING, SENT_SCHEMA, SOURCE, TIMESTAMP
from bindery.store import effects, encoding
from bindery.store.changed_copies import with_forms
from bindery.store.commit import WrittenFile
from bindery.store.data_files import drop_unused
from bindery.store.paths import DataDir
from bindery.store.places import at

#: Bytes of messages that a task gathers before it writes files.
DEFAULT_BUFFER_BYTES: Final = 128 * 1024 * 1024
#: How many times that a task takes at most for writing, and one batch.
HELD: Final = 4
#: Name of the column that numbers a message within its batch.
SEQ: Final = "seq"
#: Each task numbers its messages from its partition's multiple of this.
NUMBERS_PER_TASK: Final = 1 << 40
#: Columns that a batch may carry beside those of SENT_SCHEMA.
BATCH_SCHEMA: Final = pa.schema([*SENT_SCHEMA, ("source", SOURCE), (SEQ, pa.int64())])

Rows = npt.NDArray[np.int32]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BatchStamp:
    """What every row of one micro-batch carries: stream, batch, topology version and batch clock (ms)."""

    stream: str
    batch_id: int
    topology_version: int
    clock_ms: int


def drop_written(data: DataDir, files: Iterable[WrittenFile]) -> None:
    """Remove files of a batch of which certainly nothing has been committed."""
    for file in files:
        drop_unused(data.routed(file.kind, file.vhost, file.name), [file.path])


def disposition_of_refused(batch: pa.RecordBatch) -> pa.Array:
    """What becomes of records (BATCH_SCHEMA) that were never routed.

    A mandatory record is returned, one whose sender asks for it rejected, every other one discarded (docs/routing.md).
    """
    asked = pc.if_else(batch.column("reject_unroutable").fill_null(False), _REJECTED, _DISCARDED)
    return pc.if_else(batch.column("mandatory").fill_null(False), _RETURNED, asked)


def stream_mark(stream: str) -> str:
    """What stands for a stream in the names of its files."""
    return hashlib.sha256(stream.encode()).hexdigest()[:12]


class QueueWriter:
    """Writes the copies of routed messages to the tables of their queues, uncommitted.

    `queues` are the names behind the queue numbers of the deliveries; `attempt` tells the files of
    one attempt of one task from those of every other. Use as: `add` each batch with its deliveries,
    then `close`, which gives the files for `BatchCommitter.commit`.

    With `journal`, the ids of the queues (int32, by queue number), every message that was routed goes to the journal of
    the stream, too, and behind it each other form in which a queue got it (`bindery.store.changed_copies`). Copies for
    queues that are `deferred` (bool, by queue number) are noted there alone.
    """

    def __init__(
        self,
        data: DataDir,
        *,
        vhost: str,
        queues: Sequence[str],
        stamp: BatchStamp,
        attempt: str = "0",
        buffer_bytes: int = DEFAULT_BUFFER_BYTES,
        journal: Rows | None = None,
        deferred: Flags | None = None,
    ) -> None:
        self._data = data
        self._vhost = vhost
        self._queues = queues
        self._stamp = stamp
        assert deferred is None or journal is not None  # noqa: S101  # a copy that waits nowhere would be lost
        self._journal = None if journal is None else pa.array(journal)
        self._deferred = deferred if deferred is not None and deferred.any() else None
        self._buffer_bytes = buffer_bytes
        self._prefix = f"part-{stream_mark(stamp.stream)}-{stamp.batch_id}-{attempt}"
        self._files: list[WrittenFile] = []
        self._writing = effects.ParquetFiles()
        self._clear()

    def add(self, batch: pa.RecordBatch, deliveries: Deliveries) -> None:
        """Take over a batch of BATCH_SCHEMA with what the engine said about it."""
        base = self._buffered_rows
        bounds, written = deliveries.offsets.tolist(), deliveries.written
        whole, lineage = with_forms(batch, deliveries, number=SEQ)
        waiting = () if self._deferred is None else self._deferred
        for n, queue in enumerate(deliveries.queue.tolist()):
            if len(waiting) and waiting[queue]:
                continue
            rows = written[bounds[n] : bounds[n + 1]]
            self._rows.setdefault(queue, []).append(rows + base if base else rows)
        self._lineage.append(lineage)
        versions = self._versions_of(batch.num_rows, deliveries.versions)
        forms = deliveries.forms
        self._versions.append(versions if forms is None else np.concatenate([versions, versions[forms.message]]))
        if self._journal is not None:
            self._noted.append(_noted(whole.num_rows, deliveries, self._journal, self._deferred))
        self._batches.append(whole)
        self._buffered_rows += whole.num_rows
        self._buffered_bytes += whole.nbytes
        for lost in (deliveries.unroutable, deliveries.incomplete):
            if not lost.recorded.any():
                continue
            kept = np.flatnonzero(lost.recorded)
            rows = pa.array(lost.rows[kept])
            self._lost.append(
                _Lost(
                    batch=batch.take(rows),
                    reason=_REASONS.take(pa.array(lost.reason[kept])),
                    disposition=_DISPOSITIONS.take(pa.array(lost.disposition[kept])),
                    detail=pa.array([lost.detail[n] for n in kept.tolist()], pa.string()),
                    raw=pa.nulls(len(rows), pa.binary()),
                    lineage=deliveries.lineage.take(rows),
                    versions=versions[lost.rows[kept]],
                )
            )
        if self._buffered_bytes >= self._buffer_bytes:
            self.flush()

    def add_refused(
        self,
        batch: pa.RecordBatch,
        *,
        reason: pa.Array,
        detail: pa.Array,
        raw: pa.Array,
        disposition: pa.Array | None = None,
    ) -> None:
        """Take over records (BATCH_SCHEMA) that were never routed, each with its reason, detail and raw form.

        Without a `disposition` that is what their sender asks for.
        """
        rows = batch.num_rows
        if not rows:
            return
        lineage = pa.ListArray.from_arrays(pa.array(np.zeros(rows + 1, np.int32)), pa.array([], pa.int32()))
        became = disposition_of_refused(batch) if disposition is None else disposition
        self._lost.append(_Lost(batch, reason, became, detail, raw, lineage, self._versions_of(rows)))
        self._buffered_bytes += batch.nbytes + raw.nbytes
        if self._buffered_bytes >= self._buffer_bytes:
            self.flush()

    def flush(self) -> None:
        """Write what is buffered: one file per queue that has copies, one of unroutable records, one of the journal."""
        if self._rows or self._noted:
            joined, lineage = _joined(self._batches), _concatenated(self._lineage)
            versions = np.concatenate(self._versions)
            self._batches.clear()  # what is joined is not needed as it came
            self._lineage.clear()
            self._versions.clear()
            columns = {name: joined[name] for name in MESSAGE_SCHEMA.names if name != "bcc"}
            if self._noted and len(lineage):
                self._write_journal(columns, joined, lineage, versions)
            if self._rows:
                seq = joined[SEQ].to_numpy()
                copies = encoding.copies(self._stamped(columns, joined, lineage, versions))
                del joined, lineage, columns  # nor as it was before it was encoded
                for rows, queues in self._alike():
                    self._write(copies.file(rows), seq[rows], versions[rows], "queue", *queues)
        if self._lost:
            self._write_lost()
        self._clear()

    def _alike(self) -> Iterator[tuple[npt.NDArray[np.uint32], list[str]]]:
        """The rows of queues, each with all that get the same: copies of a message differ by their tables alone."""
        found: dict[tuple[int, int], list[tuple[npt.NDArray[np.uint32], list[str]]]] = {}
        for queue, parts in sorted(self._rows.items()):
            rows = (parts[0] if len(parts) == 1 else np.concatenate(parts)).view(np.uint32)
            seen = found.setdefault((len(rows), int(rows.sum(dtype=np.int64))), [])
            same = next((queues for others, queues in seen if np.array_equal(rows, others)), None)
            if same is None:
                seen.append((rows, same := []))
            same.append(self._queues[queue])
        return itertools.chain.from_iterable(found.values())

    def _write_lost(self) -> None:
        joined = _joined([lost.batch for lost in self._lost])
        columns = {name: joined[name] for name in MESSAGE_SCHEMA.names} | {
            name: _concatenated([getattr(lost, name) for lost in self._lost])
            for name in ("reason", "disposition", "detail", "raw")
        }
        lineage = _concatenated([lost.lineage for lost in self._lost])
        versions = np.concatenate([lost.versions for lost in self._lost])
        copies = encoding.copies(self._stamped(columns, joined, lineage, versions))
        # an unroutable table is created by the first commit that has rows for it
        effects.make_folder(at(self._data.unroutable(self._vhost)))
        everything = np.arange(len(lineage), dtype=np.uint32)
        self._write(copies.file(everything), joined[SEQ].to_numpy(), versions, "unroutable", "")

    def _write_journal(
        self, columns: Mapping[str, pa.Array], joined: Mapping[str, pa.Array], lineage: pa.Array, versions: Numbers
    ) -> None:
        noted = pa.concat_tables(self._noted).combine_chunks()
        beside = {name: noted[name].chunk(0) for name in noted.column_names} | {"bcc": joined["bcc"]}
        seq = joined[SEQ].to_numpy()
        rows = self._stamped(columns, joined, lineage, versions, beside)
        if not (seq[1:] > seq[:-1]).all():
            rows = rows.take(pa.array(np.argsort(seq, kind="stable")))
        # a stream's journal is created by its first commit, or by whoever drives the stream
        effects.make_folder(at(self._data.journal(self._stamp.stream)))
        deferred = beside["deferred"].null_count
        self._write(encoding.journal_file(rows), seq, versions, "journal", self._stamp.stream, deferred=deferred)

    def _stamped(
        self,
        columns: Mapping[str, pa.Array],
        joined: Mapping[str, pa.Array],
        lineage: pa.Array,
        versions: Numbers,
        beside: Mapping[str, pa.Array] = MappingProxyType({}),
    ) -> pa.Table:
        """Rows with what the batch says of each; columns that hold nothing are left out.

        `beside` is what only a journal says.
        """
        count = len(lineage)
        stamp = self._stamp
        members = [
            pa.array(versions),
            pa.repeat(stamp.stream, count),
            pa.array(np.full(count, stamp.batch_id)),
            joined[SEQ],
            lineage,
            *(beside[name] for name in _OF_QUEUES if beside),
        ]
        fields = list(JOURNAL_ROUTING if beside else ROUTING)
        kept = {
            **columns,
            "routing": pa.StructArray.from_arrays(members, fields=fields),
            "routed_at": pa.array(np.full(count, stamp.clock_ms * 1000)).view(TIMESTAMP),
            "source": joined["source"],
            **{name: array for name, array in beside.items() if name not in _OF_QUEUES},
        }
        return pa.table({name: array for name, array in kept.items() if array.null_count < count})

    def close(self) -> list[WrittenFile]:
        """Flush, and give every file written, durable: what is committed must outlive the machine."""
        self.flush()
        self._writing.finish()
        return self._files

    def discard(self) -> None:
        """Remove what was written, of which nothing has been committed."""
        self._writing.discard()
        drop_written(self._data, self._files)

    def _clear(self) -> None:
        self._batches: list[pa.RecordBatch] = []
        self._lineage: list[pa.Array] = []
        self._versions: list[Numbers] = []
        self._rows: dict[int, list[Rows]] = {}
        self._lost: list[_Lost] = []
        self._noted: list[pa.Table] = []
        self._buffered_rows = 0
        self._buffered_bytes = 0

    def _write(
        self,
        parts: effects.Parts,
        seq: Numbers,
        versions: Numbers,
        kind: Literal["queue", "unroutable", "journal"],
        *names: str,
        deferred: int | None = None,
    ) -> None:
        """Write a file of the rows of these numbers and versions into the tables of these names, which share it.

        Of a journal it says how many rows say nothing of deferred queues.
        """
        stats = self._statistics(seq, versions, deferred)
        size = sum(map(len, parts))
        files = [
            WrittenFile(
                kind=kind,
                vhost=self._vhost,
                name=name,
                path=f"{self._prefix}-{number}-{secrets.token_hex(4)}.parquet",
                size=size,
                rows=len(seq),
                stats=stats,
            )
            for number, name in enumerate(names, len(self._files))
        ]
        # known before they are there: whoever gives up removes them, also when the answer to the last effect was lost
        self._files += files
        first, *others = (at(self._data.routed(file.kind, file.vhost, file.name), file.path) for file in files)
        self._writing.put(first, parts, *others)

    def _versions_of(self, rows: int, versions: Numbers | None = None) -> Numbers:
        """The topology version of each row: that of the batch where nothing else is said."""
        return np.full(rows, self._stamp.topology_version, np.int64) if versions is None else versions

    def _statistics(self, seq: Numbers, versions: Numbers, deferred: int | None) -> str:
        stamp = self._stamp
        at = datetime.fromtimestamp(stamp.clock_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        members = {"topology_version": versions, "seq": seq}
        low, high = ({name: int(of(one)) for name, one in members.items()} for of in (np.min, np.max))
        same = {"batch_id": stamp.batch_id}
        nulls: dict[str, int] = dict.fromkeys((*members, *same), 0)
        if deferred is not None:
            nulls["deferred"] = deferred
        return json.dumps(
            {
                "numRecords": len(seq),
                "minValues": {"routed_at": at, "routing": same | low},
                "maxValues": {"routed_at": at, "routing": same | high},
                "nullCount": {"routed_at": 0, "routing": nulls},
            },
            separators=(",", ":"),
        )


#: What a journal says of queues, as members of `routing`.
_OF_QUEUES: Final = ("queues", "deferred")


_REASONS: Final = pa.array(REASONS)
_DISPOSITIONS: Final = pa.array(DISPOSITIONS)
_RETURNED: Final = pa.scalar("returned")
_REJECTED: Final = pa.scalar("rejected")
_DISCARDED: Final = pa.scalar("discarded")


@dataclass(frozen=True, slots=True)
class _Lost:
    """Records for the unroutable table, one value of each column per row of `batch`."""

    batch: pa.RecordBatch
    reason: pa.Array
    disposition: pa.Array
    detail: pa.Array
    raw: pa.Array
    lineage: pa.ListArray
    versions: Numbers


def _noted(rows: int, deliveries: Deliveries, ids: pa.Array, deferred: Flags | None) -> pa.Table:
    """What a journal says of each message of a batch beside the message: the queues reached, or why none was."""
    reached = deliveries.reached
    queues = pa.ListArray.from_arrays(reached.offsets, ids.take(reached.values))
    waiting = pa.nulls(rows, queues.type) if deferred is None else _waiting(reached, ids, deferred)
    lost = [one for one in (deliveries.unroutable, deliveries.incomplete) if len(one)]
    places = np.full(rows, -1, np.int64)
    at_once = np.concatenate([np.zeros(0, np.int32), *(one.rows for one in lost)])
    places[at_once] = np.arange(len(at_once))
    place = pa.array(places, mask=places < 0)
    columns = {
        "reason": _REASONS.take(pa.array(np.concatenate([np.zeros(0, np.int8), *(one.reason for one in lost)]))),
        "disposition": _DISPOSITIONS.take(
            pa.array(np.concatenate([np.zeros(0, np.int8), *(one.disposition for one in lost)]))
        ),
        "detail": pa.array([text for one in lost for text in one.detail], pa.string()),
    }
    return pa.table(
        {"queues": queues, "deferred": waiting, **{name: column.take(place) for name, column in columns.items()}}
    )


def _waiting(reached: pa.ListArray, ids: pa.Array, deferred: Flags) -> pa.ListArray:
    """Of the queues that each message reached, the ids of those that are deferred; null for none."""
    chosen = deferred[reached.values.to_numpy()]
    before = np.zeros(len(chosen) + 1, np.int32)
    np.cumsum(chosen, out=before[1:])
    offsets = before[reached.offsets.to_numpy()]
    absent = pa.array(offsets[1:] == offsets[:-1])
    kept = ids.take(pa.array(reached.values.to_numpy()[chosen]))
    return pa.ListArray.from_arrays(pa.array(offsets), kept, mask=absent)


def _joined(batches: Sequence[pa.RecordBatch]) -> Mapping[str, pa.Array]:
    return {name: _concatenated([batch.column(name) for batch in batches]) for name in BATCH_SCHEMA.names}


def _concatenated(arrays: Sequence[pa.Array]) -> pa.Array:
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
