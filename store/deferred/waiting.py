"""Copies that wait in journals: of which queues, of which batches, and their rows as the queue will have them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.message import JOURNAL_SCHEMA, QUEUE_SCHEMA, ROUTING
from bindery.store import file_rows, tables
from bindery.store.actions import AddFile
from bindery.store.log import TableLog
from bindery.store.paths import DataDir
from bindery.store.places import at

Places = npt.NDArray[np.int64]

#: Transaction identifier of a journal: every copy of that batch, and of those before, is in the tables of its queues.
MATERIALISED: Final = "bindery.materialised"
#: Property of a journal: how many seconds copies may wait where nothing else is said.
FRESHNESS_PROPERTY: Final = "bindery.journal.freshness"
#: Transaction identifier of a journal: rows of that batch, and of those before, have been removed.
TRIMMED: Final = "bindery.trimmed"
_FLUSH: Final = "bindery.flush:"
#: Before the first batch of all.
NEVER: Final = -1


def flush_id(stream: str) -> str:
    """The transaction identifier under which a queue's table records the batches of a stream that were flushed."""
    return f"{_FLUSH}{stream}"


def flushed_through(log: TableLog, stream: str) -> int:
    """The batch of a stream of which, as of those before, the table has every deferred copy; NEVER for none."""
    found = log.transaction_version(flush_id(stream))
    return NEVER if found is None else found


def flushes(log: TableLog) -> dict[str, int]:
    """The batch of each stream up to which a queue's table has every deferred copy."""
    return {name.removeprefix(_FLUSH): batch for name, batch in log.transactions.items() if name.startswith(_FLUSH)}


def materialised_through(journal: TableLog) -> int:
    """The batch of a journal of which, as of those before, every queue's table has its deferred copies."""
    found = journal.transaction_version(MATERIALISED)
    return NEVER if found is None else found


def trimmed_through(journal: TableLog) -> int:
    """The newest batch of which a journal has not kept every row; NEVER for none."""
    found = journal.transaction_version(TRIMMED)
    return NEVER if found is None else found


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
        stated = self.log.state.configuration.get(FRESHNESS_PROPERTY, "")
        return int(stated) if stated.isdecimal() else 0

    @property
    def waiting_since_ms(self) -> int | None:
        """When the first message was routed, since 1970, that may have copies which wait; None where none does."""
        return min((one.routed_ms for one in self.waiting()), default=None)

    def waiting(self, after: int = NEVER) -> list[JournalFile]:
        """The files that may hold copies which wait, of batches above `after`; the oldest batches first."""
        after = max(after, materialised_through(self.log))
        found = (JournalFile.of(file) for file in tables.files_of(self.log).values())
        return sorted((one for one in found if one.waits and one.last > after), key=lambda one: (one.first, one.path))


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


def any_waiting(data: DataDir, stream: str) -> bool:
    """Whether copies may wait in the journal of a stream. Raises UnsupportedTable for a damaged one."""
    path = data.journal(stream)
    return tables.exists(path) and bool(Journal.open(path).waiting())


def journals_of(data: DataDir, vhost: str) -> list[Journal]:
    """The journals of a vhost's streams. Raises UnsupportedTable for one that is damaged."""
    opened = (Journal.open(path) for path in data.journals() if tables.exists(path))
    return [one for one in opened if one.vhost == vhost]


def waiting_rows(
    journal: Journal,
    queue: TableLog,
    queue_id: int,
    *,
    through: int | None = None,
    columns: Sequence[str] = QUEUE_SCHEMA.names,
) -> Iterator[pa.RecordBatch]:
    """The rows (columns of QUEUE_SCHEMA) that a queue's table will have and has not yet, batch by batch.

    `queue` is its log, which says what it has; with `through` batches above that are left out.
    """
    after, undeclared = flushed_through(queue, journal.stream), tables.undeclared_since(queue)
    for file in journal.waiting(after):
        if through is not None and file.first > through:
            continue
        marks = Marks.read(journal.log.path, file.path)
        places = marks.of(queue_id, after=after, undeclared=undeclared, through=through)
        if len(places):
            yield queue_rows(journal.log.path, file.path, places, columns)


@dataclass(frozen=True, slots=True)
class Marks:
    """Of which queues the rows of a journal's file have copies that wait, and what decides whether these still do."""

    batch: Places
    topology: Places
    ids: Places
    places: Places

    @classmethod
    def read(cls, path: str, name: str) -> Marks:
        """Those of a file. Raises UnsupportedTable naming one that is missing or damaged."""
        place = at(path, name)
        with file_rows.reading(place), place.parquet() as file:
            rows = file.read(
                columns=["routing.batch_id", "routing.topology_version", "routing.deferred"], use_threads=False
            )
        return cls.of_rows(rows["routing"].combine_chunks())

    @classmethod
    def of_rows(cls, routing: pa.StructArray) -> Marks:
        """Those of rows."""
        deferred = pc.struct_field(routing, "deferred")
        batch, topology = (pc.struct_field(routing, name).to_numpy() for name in ("batch_id", "topology_version"))
        ids = pc.list_flatten(deferred).to_numpy().astype(np.int64)
        return cls(batch, topology, ids, pc.list_parent_indices(deferred).to_numpy().astype(np.int64))

    @property
    def nbytes(self) -> int:
        """Bytes that they take."""
        return self.batch.nbytes + self.topology.nbytes + self.ids.nbytes + self.places.nbytes

    def of(self, queue_id: int, *, after: int, undeclared: int, through: int | None = None) -> Places:
        """The places of the rows with a copy for a queue whose table has those up to `after`."""
        return self.kept(self.places[self.ids == queue_id], after=after, undeclared=undeclared, through=through)

    def kept(self, places: Places, *, after: int, undeclared: int, through: int | None = None) -> Places:
        """Those of the places whose copies still wait."""
        batches = self.batch[places]
        chosen = (batches > after) & (self.topology[places] > undeclared)
        if through is not None:
            chosen &= batches <= through
        return places[chosen]


def queue_rows(path: str, name: str, places: Places, columns: Sequence[str] = QUEUE_SCHEMA.names) -> pa.RecordBatch:
    """Rows of a journal's file as a queue has them."""
    rows = file_rows.read(path, name, JOURNAL_SCHEMA, columns=columns)
    return as_queue_rows(rows.take(pa.array(places)))


def as_queue_rows(rows: pa.Table) -> pa.RecordBatch:
    """Rows of a journal without what only journals say: other queues, and who else was to get the message."""
    arrays = {name: rows[name].combine_chunks() for name in rows.column_names if name in QUEUE_SCHEMA.names}
    if "routing" in arrays:
        arrays["routing"] = without_queues(arrays["routing"])
    if "bcc" in arrays:
        arrays["bcc"] = pa.nulls(rows.num_rows, arrays["bcc"].type)
    return pa.RecordBatch.from_pydict(arrays)


def without_queues(routing: pa.StructArray) -> pa.StructArray:
    """`routing` as the rows of queues have it."""
    return pa.StructArray.from_arrays(
        [pc.struct_field(routing, member.name) for member in ROUTING], fields=list(ROUTING)
    )
