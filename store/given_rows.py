"""The rows that a queue has been given, told from journals: by their streams, and by backfills."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import pyarrow as pa

from bindery.router.message import QUEUE_SCHEMA
from bindery.router.model import Queue
from bindery.store.backfill_work import QueueBackfill
from bindery.store.journal_files import Journal, as_queue_rows, journals, naming
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

    def rows(
        self,
        through: Mapping[str, int],
        *,
        after: int = -1,
        stretches: int | None = None,
        undeclared: int = -1,
        flushed: Callable[[str], int] | None = None,
    ) -> Iterator[pa.Table]:
        """The rows that the queue has been given: by streams up to their batches `through`, and by backfills.

        Of these up to the stretch of that number, if one is given; none with `after`. Not those that were routed at
        topology version `undeclared` or before, which were for another queue of that id. Of a stream that is
        `flushed` up to a batch (by default all of them) the deferred copies of later ones are left out, which wait.
        """
        parts: list[pa.Table] = []
        for rows in self._each(through, after, stretches, undeclared, flushed):
            parts.append(rows)
            if sum(part.num_rows for part in parts) >= _ROWS:
                yield pa.concat_tables(parts)
                parts = []
        if parts:
            yield pa.concat_tables(parts)

    def _each(
        self,
        through: Mapping[str, int],
        after: int,
        stretches: int | None,
        undeclared: int,
        flushed: Callable[[str], int] | None,
    ) -> Iterator[pa.Table]:
        for journal in journals(self._data, self._queue.vhost):
            last = through.get(journal.stream, -1)
            waiting = last if flushed is None else flushed(journal.stream)
            for portion in journal.portions(after=after, through=last):
                for batch in journal.rows(portion.files, after=after, through=last):
                    rows = delivered_rows(batch, self._queue.id, undeclared=undeclared, waiting_above=waiting)
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


def delivered_rows(batch: pa.RecordBatch, queue_id: int, *, undeclared: int, waiting_above: int) -> pa.Table:
    """The rows of a journal that name a queue, as the rows of its table, without deferred ones of batches above one."""
    routing = batch.column("routing")
    versions, numbers = (routing.field(name).to_numpy() for name in ("topology_version", "batch_id"))
    waits = naming(routing.field("deferred"), queue_id) & (numbers > waiting_above)
    chosen = naming(routing.field("queues"), queue_id) & (versions > undeclared) & ~waits
    rows = pa.Table.from_batches([batch.filter(pa.array(chosen))])
    return pa.Table.from_batches([as_queue_rows(rows)], schema=QUEUE_SCHEMA)


def by_stream(numbers: Mapping[str, int]) -> dict[str, int]:
    """The newest batch of each stream, by the app ids that it has had."""
    found: dict[str, int] = {}
    for app_id, number in numbers.items():
        stream = app_id.rpartition(":")[0]
        found[stream] = max(number, found.get(stream, -1))
    return found
