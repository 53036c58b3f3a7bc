"""Journals of streams: what their logs say, and their rows in the order of batches."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.message import QUEUE_SCHEMA, ROUTING
from bindery.store import file_rows, tables
from bindery.store.actions import AddFile
from bindery.store.log import TableLog
from bindery.store.paths import DataDir
from bindery.store.statistics import stated, stated_span

#: Transaction identifier of a journal: every copy of that batch, and of those before, is in the tables of its queues.
MATERIALISED: Final = "bindery.materialised"
#: Property of a journal: how many seconds copies may wait where nothing else is said.
FRESHNESS_PROPERTY: Final = "bindery.journal.freshness"
#: Transaction identifier of a journal: rows of that batch, and of those before, have been removed.
TRIMMED: Final = "bindery.trimmed"
#: Before the first batch of all.
NEVER: Final = -1


def freshness_of(properties: Mapping[str, str]) -> int:
    """Seconds that copies may wait where no queue or policy says, as the properties of a journal state them."""
    stated = properties.get(FRESHNESS_PROPERTY, "")
    return int(stated) if stated.isdecimal() else 0


def materialised_through(journal: TableLog) -> int:
    """The batch of a journal of which, as of those before, every queue's table has its deferred copies."""
    found = journal.transaction_version(MATERIALISED)
    return NEVER if found is None else found


def trimmed_through(journal: TableLog) -> int:
    """The newest batch of which a journal has not kept every row; NEVER for none."""
    found = journal.transaction_version(TRIMMED)
    return NEVER if found is None else found


class Portion(NamedTuple):
    """Files with every row, beyond those of the portion before, of the batches up to `last`."""

    last: int
    files: tuple[AddFile, ...]


@dataclass(frozen=True, slots=True)
class Journal:
    """A journal with its files, as it was at one moment."""

    log: TableLog
    stream: str
    vhost: str

    @classmethod
    def open(cls, path: str) -> Journal:
        """The journal at a path. Raises UnsupportedTable."""
        return cls.of(tables.open_log(path, tables.JOURNAL, files=True))

    @classmethod
    def of(cls, log: TableLog) -> Journal:
        """The journal with this log."""
        properties = log.state.configuration
        return cls(log, properties["bindery.name"], properties["bindery.vhost"])

    @property
    def freshness(self) -> int:
        """Seconds that copies may wait for queues of which neither an argument nor a policy says anything."""
        return freshness_of(self.log.state.configuration)

    @property
    def waiting_since_ms(self) -> int | None:
        """When the first message was routed, since 1970, that may have copies which wait; None where none does."""
        return min((one.routed_ms for one in self.waiting()), default=None)

    def waiting(self, after: int = NEVER) -> list[JournalFile]:
        """The files that may hold copies which wait, of batches above `after`; the oldest batches first."""
        after = max(after, materialised_through(self.log))
        found = (JournalFile.of(file) for file in tables.files_of(self.log).values())
        return sorted((one for one in found if one.waits and one.last > after), key=lambda one: (one.first, one.path))

    def portions(self, *, after: int = -1, through: int | None = None, rows: int = 0) -> Iterator[Portion]:
        """Its batches beyond `after` (up to `through`) in parts of about so many rows, each batch in one of them."""
        files = [
            (first, last, file)
            for file in tables.files_of(self.log).values()
            for first, last in [self._batches(file)]
            if last > after and (through is None or first <= through)
        ]
        part: list[AddFile] = []
        highest, held = -1, 0
        for first, last, file in sorted(files, key=lambda one: one[:2]):
            if part and first > highest and held >= rows:
                yield Portion(highest, tuple(part))
                part, held = [], 0
            part.append(file)
            highest, held = max(highest, last), held + (file.rows or 0)
        if part:
            yield Portion(highest, tuple(part))

    def rows(self, files: Iterable[AddFile], *, after: int, through: int) -> Iterator[pa.RecordBatch]:
        """The rows of the batches after one up to another, some of one batch at a time."""
        batch = pc.field("routing", "batch_id")
        where = (batch > after) & (batch <= through)
        for file in files:
            for found in file_rows.batches(self.log.path, file.path, tables.JOURNAL.schema, where=where):
                yield from by_batch(found)

    @property
    def oldest_us(self) -> int | None:
        """When its first row was routed, in microseconds since 1970; None for an empty one."""
        spans = [stated_span(self.log.path, file) for file in tables.files_of(self.log).values()]
        return min((span.first for span in spans), default=None)

    @property
    def first_batch(self) -> int | None:
        """The first batch that it has rows of; None for an empty one."""
        return min((self._batches(file)[0] for file in tables.files_of(self.log).values()), default=None)

    @property
    def topology_version(self) -> int:
        """The newest topology version that a row of it was routed by; -1 where that is not stated."""
        bounds = (stated(file, "topology_version") for file in tables.files_of(self.log).values())
        return max((newest for bound in bounds if bound is not None for newest in bound), default=-1)

    def _batches(self, file: AddFile) -> tuple[int, int]:
        """The least and the greatest batch of a file; one that does not state them is looked into."""
        bounds = stated(file, "batch_id")
        if bounds is not None:
            return bounds
        routing = file_rows.read(self.log.path, file.path, tables.JOURNAL.schema, columns=["routing"])["routing"]
        found = pc.min_max(pc.struct_field(routing, "batch_id")).as_py()
        return (-1, -1) if found["min"] is None else (found["min"], found["max"])


@dataclass(frozen=True, slots=True)
class JournalFile:
    """What the log says of a journal's file: its batches, and whether it may hold deferred copies.

    `routed_ms` is when its first message was routed, since 1970.
    """

    path: str
    size: int
    rows: int
    first: int
    last: int
    routed_ms: int
    waits: bool

    @classmethod
    def of(cls, file: AddFile) -> JournalFile:
        """Read from its statistics; what they do not state may be anything."""
        try:
            stats: dict[str, Any] = json.loads(file.stats or "{}")
            rows = stats["numRecords"]
            first, last = (stats[name]["routing"]["batch_id"] for name in ("minValues", "maxValues"))
            routed = datetime.fromisoformat(stats["minValues"]["routed_at"]).timestamp()
            waits = stats["nullCount"]["routing"].get("deferred") != rows
        except (ValueError, KeyError, TypeError, AttributeError):
            return cls(file.path, file.size, file.rows or 0, 0, (1 << 63) - 1, file.modified_ms, waits=True)
        return cls(file.path, file.size, rows, first, last, int(routed * 1000), waits=waits)


def journals(data: DataDir, vhost: str, stream: str | None = None) -> list[Journal]:
    """The journals of a vhost, or that of one of its streams, in the order of the streams' names.

    Raises UnsupportedTable for one that cannot be read.
    """
    paths = data.journals() if stream is None else [data.journal(stream)]
    found = (Journal.open(path) for path in paths if tables.exists(path))
    return sorted((one for one in found if one.vhost == vhost), key=lambda one: one.stream)


def by_batch(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Rows batch by batch: all of one batch were routed by one topology and one clock."""
    if not rows.num_rows:
        return
    numbers = rows.column("routing").field("batch_id")
    for number in pc.unique(numbers).to_pylist():
        chosen = rows.filter(pc.equal(numbers, number))
        yield rows if chosen.num_rows == rows.num_rows else chosen


def as_queue_rows(rows: pa.Table) -> pa.RecordBatch:
    """Rows of a journal without what only journals say: other queues, and who else was to get the message."""
    arrays = {name: rows[name].combine_chunks() for name in rows.column_names if name in QUEUE_SCHEMA.names}
    if "routing" in arrays:
        arrays["routing"] = without_queues(arrays["routing"])
    if "bcc" in arrays:
        arrays["bcc"] = pa.nulls(rows.num_rows, arrays["bcc"].type)
    return pa.RecordBatch.from_pydict(arrays)


def without_queues(routing: pa.StructArray) -> pa.StructArray:
    """`routing` as the rows of queues, and unroutable ones, have it."""
    return pa.StructArray.from_arrays(
        [pc.struct_field(routing, member.name) for member in ROUTING], fields=list(ROUTING)
    )


def naming(lists: pa.ListArray, queue_ids: int | npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which of the lists of ids (`routing.queues`, `routing.deferred`) have that of a queue, or one of those."""
    found = np.zeros(len(lists), np.bool_)
    named = np.isin(pc.list_flatten(lists).to_numpy(), queue_ids)
    found[pc.list_parent_indices(lists).to_numpy()[named]] = True
    return found
