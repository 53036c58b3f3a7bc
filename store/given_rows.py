"""The rows that a queue has been given, told from journals: by their streams, and by backfills."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.message import QUEUE_SCHEMA, ROUTING
from bindery.router.model import Queue
from bindery.store.backfill_work import QueueBackfill
from bindery.store.journal_files import Journal, journals
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore

#: Rows that are given at once.
_ROWS: Final = 100_000


class Given:
    """The rows of one queue."""

    def __init__(self, data: DataDir, store: TopologyStore, queue: Queue) -> None:
        self._data = data
        self._queue = queue
        self._backfills = QueueBackfill(data, store, queue.vhost, queue.name)

    @property
    def newest_stretch(self) -> int:
        """The number of the newest stretch of a backfill that is on record; 0 for none."""
        return max((one.number for one in self._backfills.records.stretches()), default=0)

    def rows(self, through: Mapping[str, int], *, after: int = -1, stretches: int | None = None) -> Iterator[pa.Table]:
        """The rows that the queue has been given: by streams up to their batches `through`, and by backfills.

        Of these up to the stretch of that number, if one is given; none with `after`.
        """
        parts: list[pa.Table] = []
        for rows in self._each(through, after, stretches):
            parts.append(rows)
            if sum(part.num_rows for part in parts) >= _ROWS:
                yield pa.concat_tables(parts)
                parts = []
        if parts:
            yield pa.concat_tables(parts)

    def _each(self, through: Mapping[str, int], after: int, stretches: int | None) -> Iterator[pa.Table]:
        for journal in journals(self._data, self._queue.vhost):
            last = through.get(journal.stream, -1)
            for portion in journal.portions(after=after, through=last):
                for batch in journal.rows(portion.files, after=after, through=last):
                    rows = delivered_rows(batch, self._queue.id)
                    if rows.num_rows:
                        yield rows
            if after < 0:
                yield from self._backfilled(journal, stretches)

    def _backfilled(self, journal: Journal, newest: int | None) -> Iterator[pa.Table]:
        """What backfills have brought out of a journal; where the table does not say, all that are on record."""
        for stretch in self._backfills.records.stretches():
            meant = stretch.queue_id == self._queue.id and stretch.stream == journal.stream
            if meant and (newest is None or stretch.number <= newest):
                for portion in journal.portions(after=stretch.after, through=stretch.through):
                    yield from self._backfills.rows(stretch, journal, portion.files, table=False)


def delivered_rows(batch: pa.RecordBatch, queue_id: int) -> pa.Table:
    """The rows of a journal that name a queue, as the rows of its table."""
    queues = batch.column("routing").field("queues")
    chosen = np.zeros(batch.num_rows, np.bool_)
    chosen[pc.list_parent_indices(queues).to_numpy()[pc.list_flatten(queues).to_numpy() == queue_id]] = True
    rows = batch.filter(pa.array(chosen))
    routing = rows.column("routing")
    members = [routing.field(member.name).cast(member.type) for member in ROUTING]
    new = {
        "routing": pa.StructArray.from_arrays(members, fields=list(ROUTING)),
        "bcc": pa.nulls(rows.num_rows, QUEUE_SCHEMA.field("bcc").type),  # which no queue keeps
    }
    return pa.table([new.get(name, rows.column(name)) for name in QUEUE_SCHEMA.names], schema=QUEUE_SCHEMA)


def by_stream(numbers: Mapping[str, int]) -> dict[str, int]:
    """The newest batch of each stream, by the app ids that it has had."""
    found: dict[str, int] = {}
    for app_id, number in numbers.items():
        stream = app_id.rpartition(":")[0]
        found[stream] = max(number, found.get(stream, -1))
    return found
