"""Copies that wait in journals: of which queues, of which batches, and their rows as the queue will have them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.message import JOURNAL_SCHEMA, QUEUE_SCHEMA
from bindery.store import file_rows, tables
from bindery.store.journal_files import NEVER, Journal, as_queue_rows
from bindery.store.log import TableLog
from bindery.store.paths import DataDir
from bindery.store.places import at

Places = npt.NDArray[np.int64]
_Places = TypeVar("_Places", npt.NDArray[np.int64], npt.NDArray[np.int32])

_FLUSH: Final = "bindery.flush:"


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


def any_waiting(data: DataDir, stream: str) -> bool:
    """Whether copies may wait in the journal of a stream. Raises UnsupportedTable for a damaged one."""
    path = data.journal(stream)
    return tables.exists(path) and bool(Journal.open(path).waiting())


def waiting_rows(
    journal: Journal,
    queue: TableLog,
    queue_id: int,
    *,
    columns: Sequence[str] = QUEUE_SCHEMA.names,
) -> Iterator[pa.RecordBatch]:
    """The rows (columns of QUEUE_SCHEMA) that a queue's table will have and has not yet, batch by batch.

    `queue` is its log, which says what it has.
    """
    after, undeclared = flushed_through(queue, journal.stream), tables.undeclared_since(queue)
    for file in journal.waiting(after):
        marks = Marks.read(journal.log.path, file.path)
        places = marks.of(queue_id, after=after, undeclared=undeclared)
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

    def kept(self, places: _Places, *, after: int, undeclared: int, through: int | None = None) -> _Places:
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
