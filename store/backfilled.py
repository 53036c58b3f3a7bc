"""What backfills have brought queues of messages that were unroutable: a redrive leaves these copies out.

The log of a queue's table settles who brings a message. It records the newest stretch of a backfill and the newest
batch of a redrive, each with its rows, and each is appended only while the table records of the other what it did when
the rows were chosen. So whoever comes second sees the first, and leaves out what that brought: a backfill by the mark
on the unroutable row (`bindery.store.delivered`), a redrive by the records of the stretches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.engine import Deliveries, Router
from bindery.router.message import MESSAGE_SCHEMA
from bindery.router.model import Queue, Topology
from bindery.store.backfill_records import Records, Stretch, backfilled_queues
from bindery.store.backfill_work import QueueBackfill, condition_of, newest_stretch
from bindery.store.delivered import Delivered, Mask, Reach
from bindery.store.journal_files import by_batch, journals, trimmed_through
from bindery.store.log import TableLog
from bindery.store.paths import DataDir
from bindery.store.plan_files import one_batch
from bindery.store.topology import TopologyStore
from bindery.store.transfers import queue_log

#: Columns of the rows of the unroutable table that tell what a stretch has asked for.
ASKED: Final = (*MESSAGE_SCHEMA.names, "routing", "routed_at")


class Overtaken(Exception):
    """A backfill has brought a queue something since the copies of a redrive were chosen; `queue` is its name."""

    def __init__(self, queue: str) -> None:
        super().__init__(queue)
        self.queue = queue


@dataclass
class LeftOut:
    """The copies of a redrive that its queues have had.

    copies  bool, by their places in the deliveries
    seen    queue -> the newest stretch that its table had, of queues that were looked at
    """

    copies: Mask
    seen: dict[str, int] = field(default_factory=dict)

    def check(self, queue: str, log: TableLog) -> None:
        """Raise Overtaken when the table of a queue has another stretch than was seen."""
        if newest_stretch(log) != self.seen.get(queue, 0):
            raise Overtaken(queue)


class Backfilled:
    """What backfills have brought the queues of a vhost."""

    def __init__(self, data: DataDir, store: TopologyStore, vhost: str) -> None:
        self._data = data
        self._store = store
        self._vhost = vhost
        #: Queues of which no record is left, and which were backfilled all the same.
        self._others: set[str] = set()

    def left_out(
        self, rows: pa.Table, topology: Topology, router: Router, deliveries: Deliveries, *, number: int | None = None
    ) -> LeftOut:
        """The copies that a redrive of rows (ASKED, of the unroutable table) leaves out; `number` is that of its batch.

        Stretches that are on record and not carried out are carried out first, unless there is no number: then
        nothing is written. Raises what `QueueBackfill.settle` does.
        """
        found = LeftOut(np.zeros(len(deliveries.rows), np.bool_))
        wanted = self._others.union(backfilled_queues(self._data, topology, self._vhost))
        for place, queue in enumerate(deliveries.queue.tolist()):
            name = router.queues[queue]
            if name not in wanted:
                continue
            work = QueueBackfill(self._data, self._store, self._vhost, name)
            if number is not None:
                work.settle()
            found.seen[name] = newest_stretch(queue_log(self._data, self._vhost, name))
            begin, end = deliveries.offsets[place], deliveries.offsets[place + 1]
            chosen = rows.take(pa.array(deliveries.rows[begin:end]))
            queue_of = topology.queue(self._vhost, name)
            found.copies[begin:end] = self._brought(chosen, queue_of, found.seen[name], number)
        return found

    def look_at(self, queue: str) -> None:
        """Look at a queue from now on, records or not."""
        self._others.add(queue)

    def _brought(self, rows: pa.Table, queue: Queue, newest: int, number: int | None) -> Mask:
        """Which of the rows stretches up to the newest have brought a queue, before the batch of that number."""
        found = np.zeros(rows.num_rows, np.bool_)
        reach = Reach(self._store, self._vhost, queue.name)
        for stretch in Records(self._data, self._vhost, queue.name).stretches():
            later = number is not None and stretch.redriven is not None and stretch.redriven >= number
            if stretch.queue_id == queue.id and stretch.number <= newest and not later:
                found |= self._by(stretch, rows, queue, reach)
        return found

    def _by(self, stretch: Stretch, rows: pa.Table, queue: Queue, reach: Reach) -> Mask:
        """Which of the rows a stretch has brought."""
        found = np.zeros(rows.num_rows, np.bool_)
        routing = rows["routing"].combine_chunks()
        stream = pc.equal(routing.field("stream"), stretch.stream).to_numpy(zero_copy_only=False)
        number: npt.NDArray[np.int64] = routing.field("batch_id").to_numpy()
        places = np.flatnonzero(stream & (number > stretch.after) & (number <= stretch.through))
        if not len(places):
            return found
        topology = self._store.load(version=stretch.topology_version)
        condition = condition_of(self._data, self._vhost, queue.name, stretch, topology)
        present: Mapping[int, npt.NDArray[np.int64]] | None = None
        trimmed = self._trimmed(stretch)
        marked = one_batch(rows.select(ASKED).take(pa.array(places))).append_column("place", pa.array(places))
        for batch in by_batch(marked):
            messages = batch.select(ASKED)
            brought = Delivered.asked(messages, stretch, condition)
            if brought.any():
                brought &= reach.route(messages, stretch.topology_version)[0]
            batch_id = batch.column("routing").field("batch_id")[0].as_py()
            if brought.any() and (trimmed is None or batch_id <= trimmed):
                # the journal may not have had it any more: only the queue's table tells
                if present is None:
                    earlier: tuple[Stretch, ...] = ()
                    of_queue = (self._data, self._store, self._vhost, queue.name)
                    present = Delivered(*of_queue, stretch, earlier, reach).present
                seqs = batch.column("routing").field("seq").to_numpy()
                brought &= np.isin(seqs, present.get(batch_id, ()))
            found[batch.column("place").to_numpy()[brought]] = True
        return found

    def _trimmed(self, stretch: Stretch) -> int | None:
        """The newest batch of which the journal may have lacked messages; None where it may have lacked any."""
        if stretch.trimmed is not None:
            return stretch.trimmed
        found = journals(self._data, self._vhost, stretch.stream)
        return trimmed_through(found[0].log) if found else None
