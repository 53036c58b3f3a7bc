"""Messages that a search finds in journals alone: what consumers have taken, and what was only counted.

A journal has every message of its stream, whatever became of the copies. So of each of its rows the tables that the
search looks into are asked first, by identity: a message that stands in one of them is found there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.errors import Stopped
from bindery.router.model import Topology
from bindery.store.backfill_records import BACKFILLED
from bindery.store.deferred import LiveQueue
from bindery.store.journal_files import Journal, naming
from bindery.store.statistics import batches_stated

#: The tables, of those that there are, that a search looks into: queues by name, the unroutable rows as None.
Standing = Mapping[str | None, LiveQueue]


@dataclass(slots=True)
class JournalOnly:
    """Chooses the rows of journals whose messages stand in none of some tables.

    Those that reached one of the `queues`, or reached none where None is among these; with `anywhere` all others, too.
    `looked_at` counts the rows of tables that were asked.
    """

    vhost: str
    topology: Topology
    queues: Collection[str | None]
    standing: Standing
    anywhere: bool
    stop: Callable[[], bool] = lambda: False
    looked_at: int = 0
    _names: dict[int, str] = field(init=False)

    def __post_init__(self) -> None:
        of_vhost = ((queue.id, name) for (vhost, name), queue in self.topology.queues.items() if vhost == self.vhost)
        self._names = {number: name for number, name in of_vhost if number}

    def places(self, journal: Journal, rows: pa.Table) -> set[int]:
        """The places of the rows that are chosen; `rows` are of a journal, with `routing` and `reason` at least.

        Raises Stopped when `stop` says so.
        """
        routing = rows["routing"].combine_chunks()
        batches, seqs = (pc.struct_field(routing, name).to_numpy() for name in ("batch_id", "seq"))
        meant = np.flatnonzero(self._meant(rows, routing))
        left = {(int(batches[place]), int(seqs[place])): int(place) for place in meant}
        for table in self._asked(rows, routing):
            if not left:
                break
            self._leave_out(table, journal.stream, left)
        return set(left.values())

    def reached(self, ids: list[int] | None) -> list[str]:
        """The queues of these ids that there are, by name."""
        return sorted(self._names[number] for number in ids or () if number in self._names)

    def _meant(self, rows: pa.Table, routing: pa.StructArray) -> npt.NDArray[np.bool_]:
        found = np.full(rows.num_rows, self.anywhere)
        reached = pc.struct_field(routing, "queues")
        for number, name in self._names.items():
            if not self.anywhere and name in self.queues:
                found |= naming(reached, number)
        if None in self.queues:
            found |= rows["reason"].is_valid().to_numpy()
        return found

    def _asked(self, rows: pa.Table, routing: pa.StructArray) -> Iterator[LiveQueue]:
        """The tables that may have any of the rows: those that they reached, and those that a backfill brought some."""
        ids = set(pc.unique(pc.list_flatten(pc.struct_field(routing, "queues"))).to_pylist())
        reached = {self._names.get(number) for number in ids}
        if rows["reason"].null_count < rows.num_rows and None in self.standing:
            yield self.standing[None]
        for name, table in self.standing.items():
            if name is not None and (name in reached or table.log.transaction_version(BACKFILLED) is not None):
                yield table

    def _leave_out(self, table: LiveQueue, stream: str, left: dict[tuple[int, int], int]) -> None:
        """Take out of `left`, places by batch and number, what a table has."""
        first, last = min(left)[0], max(left)[0]
        number = pc.field("routing", "batch_id")
        where = (pc.field("routing", "stream") == stream) & (number >= first) & (number <= last)
        for name, file in table.files.items():
            low, high = batches_stated(file)
            if not left or high < first or low > last:
                continue
            if self.stop():
                raise Stopped("the search was stopped", where="find")
            self.looked_at += file.rows or 0
            for batch in table.batches(name, columns=["routing"], where=where):
                column = batch.column("routing")
                for identity in zip(*(column.field(name).to_pylist() for name in ("batch_id", "seq")), strict=True):
                    left.pop(identity, None)
