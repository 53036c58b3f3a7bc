"""The backfills of one queue, stretch by stretch (`bindery.store.backfill` says what they are)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.errors import NotFound, Stopped
from bindery.router.filters import Filter
from bindery.router.message import MESSAGE_SCHEMA, QUEUE_SCHEMA, ROUTING
from bindery.router.model import Topology
from bindery.store import faults, tables
from bindery.store.actions import AddFile, Transaction
from bindery.store.backfill_records import BACKFILLED, Order, Records, Scope, Stretch
from bindery.store.backfill_report import Found, FromStream, Outcome
from bindery.store.changed_copies import as_published
from bindery.store.consumer_filters import queue_filter
from bindery.store.data_files import Draft
from bindery.store.delivered import Delivered, Reach
from bindery.store.journal_files import NEVER, Journal, journals, trimmed_through
from bindery.store.log import TableLog
from bindery.store.paths import DataDir
from bindery.store.recorded import rows_of
from bindery.store.seams import UnderWay, seam
from bindery.store.statistics import stated_span
from bindery.store.stream_names import REDRIVES
from bindery.store.topology import TopologyStore
from bindery.store.transfers import queue_log
from bindery.store.unroutable import may_be_routed_again

#: Rows of a journal that are read before what was found in them is committed, at least.
MAX_READ: Final = 2_000_000
#: Rows of one file.
_FILE_ROWS: Final = 100_000


class QueueBackfill:
    """The backfills of one queue."""

    def __init__(self, data: DataDir, store: TopologyStore, vhost: str, queue: str) -> None:
        self._data = data
        self._store = store
        self._vhost = vhost
        self._queue = queue
        self.records: Final = Records(data, vhost, queue)
        self._reach = Reach(store, vhost, queue)

    def finish(self, *, stop: Callable[[], bool]) -> int:
        """Go on with every order that is not closed; the rows brought."""
        rows = 0
        for order in self.records.orders():
            outcome = Outcome(self._queue, order.topology_version)
            try:
                self.carry(order, outcome, stop=stop)
            except NotFound:
                continue  # the queue was deleted meanwhile: the order is closed
            rows += outcome.rows
        return rows

    def forget(self) -> None:
        """Remove the stretches that nobody can meet any more, or that are of a queue of earlier.

        Their batches no journal has any more, and the unroutable table has nothing of them that may be redriven.
        """
        stretches = self.records.stretches()
        if not stretches:
            return
        done = newest_stretch(queue_log(self._data, self._vhost, self._queue))
        first = {one.stream: one.first_batch for one in journals(self._data, self._vhost)}
        present = self._store.load().queue(self._vhost, self._queue).id
        open_ = {order.number for order in self.records.orders()}
        for one in stretches:
            oldest = first.get(one.stream or "")
            gone = one.queue_id != present or (
                (oldest is None or oldest > one.through) and not _may_be_redriven(self._data, self._vhost, one)
            )
            if gone and one.number <= done and one.order not in open_:
                self.records.forget(one)

    def settle(self) -> int:
        """Carry out what is on record and not in the queue's table; the newest stretch that it has then."""
        return self._settled() - 1

    def carry(self, order: Order, outcome: Outcome, *, stop: Callable[[], bool], dry_run: bool = False) -> bool:
        """Carry out an order as far as it can be; True when it is closed."""
        if not dry_run:
            self._check_present(order)
        closed = True
        under_way: list[UnderWay] = []
        for journal in journals(self._data, self._vhost, order.stream):
            now = now_ms()
            here = seam(self._data, journal, order.topology_version, since_ms=order.clock_ms or now, now_ms=now)
            journal.log.refresh()  # what had ended at that look is read
            outcome.streams.setdefault(journal.stream, FromStream()).journal_from = journal.oldest_us
            self._sweep(order, journal, outcome, dry_run=dry_run, stop=stop)
            under_way += here.under_way
            closed &= here.closed
        outcome.under_way = tuple(under_way)
        if closed and not dry_run:
            self.records.close(order)
            faults.reach("backfill.closed", self._queue)
        return closed

    def _check_present(self, order: Order) -> None:
        """Close an order of a queue that is no more, and raise NotFound."""
        present = self._store.load().queues.get((self._vhost, self._queue))
        if present is None or present.id != order.queue_id:
            self.records.close(order)
            raise NotFound(
                f"queue {self._queue!r} was deleted meanwhile",
                where=f"queue {self._queue!r}",
                hint="the queue of that name that is there now, if any, is another one: backfill it anew",
            )

    def _sweep(
        self, order: Order, journal: Journal, outcome: Outcome, *, dry_run: bool, stop: Callable[[], bool]
    ) -> None:
        """Bring what an order asks for out of a journal, beyond what has been brought for it."""
        if dry_run:
            log = queue_log(self._data, self._vhost, self._queue)
            number = newest_stretch(log) + 1
            for portion in journal.portions(rows=MAX_READ):
                _go_on(stop)
                stretch = self._stretch(order, journal, log, number=number, after=-1, through=portion.last)
                outcome.brought(journal.stream, self._found(stretch, journal, portion.files, outcome))
            return
        while True:
            _go_on(stop)
            number = self._settled()
            stretches = [one for one in self.records.stretches() if one.number < number]
            mine = (one.through for one in stretches if one.order == order.number and one.stream == journal.stream)
            after = max(mine, default=-1)
            following = next(journal.portions(after=after, rows=MAX_READ), None)
            if following is None:
                return
            log = queue_log(self._data, self._vhost, self._queue)
            planned = self._stretch(order, journal, log, number=number, after=after, through=following.last)
            self._carry_out(planned, journal, outcome)
            self._check_present(order)

    def _stretch(
        self, order: Order, journal: Journal, log: TableLog, *, number: int, after: int, through: int
    ) -> Stretch:
        """A stretch of an order as things are now; `log` is that of the queue's table."""
        return Stretch.of(
            order,
            number=number,
            stream=journal.stream,
            after=after,
            through=through,
            redriven=newest_redrive(log, self._vhost),
            trimmed=trimmed_through(journal.log),
        )

    def _settled(self) -> int:
        """Carry out the stretches that are on record and not in the table; the number of the next one."""
        while True:
            number = newest_stretch(queue_log(self._data, self._vhost, self._queue)) + 1
            waiting = self.records.stretch(number)
            if waiting is None:
                return number
            found = journals(self._data, self._vhost, waiting.stream)
            self._carry_out(waiting, found[0] if found else None, None)

    def _carry_out(self, stretch: Stretch, journal: Journal | None, outcome: Outcome | None) -> None:
        """Append the rows of a stretch, unless they have been; with an `outcome` it is put on record first."""
        met = outcome
        while not self._appended(stretch, journal, outcome, met):
            met = None  # a redrive has brought the queue something: the same rows are looked at once more

    def _appended(
        self, stretch: Stretch, journal: Journal | None, outcome: Outcome | None, met: Outcome | None
    ) -> bool:
        """What `_carry_out` does; False when a redrive was committed to the table since the rows were chosen.

        `met` is told which rows of the journal were looked at.
        """
        log = queue_log(self._data, self._vhost, self._queue)
        tables.grow(log, tables.QUEUE)
        present_redrive = newest_redrive(log, self._vhost)
        with Draft(log) as draft:
            found = Found()
            present = self._store.load().queues.get((self._vhost, self._queue))
            if journal is not None and present is not None and present.id == stretch.queue_id:
                files = [
                    file
                    for portion in journal.portions(after=stretch.after, through=stretch.through)
                    for file in portion.files
                ]
                found = self._found(replace(stretch, redriven=present_redrive), journal, files, met, draft)
            if outcome is not None and self.records.plan(stretch) != stretch:
                return True  # another backfill was faster: what it has planned comes first
            faults.reach("backfill.planned", str(stretch.number))
            for _ in tables.attempts(log.path):
                log.refresh()
                if newest_stretch(log) >= stretch.number:
                    break  # another backfill has carried out what was planned here
                if newest_redrive(log, self._vhost) != present_redrive:
                    return False
                gone = tables.undeclared_since(log) >= stretch.topology_version
                info = {"bindery.change": "backfill", "bindery.topologyVersion": stretch.topology_version}
                transaction = Transaction(BACKFILLED, stretch.number)
                if gone:
                    # the rows are of a queue that is no more: the number is passed over
                    if log.commit((), transactions=[transaction], info={"bindery.change": "backfill"}) is not None:
                        return True
                elif draft.commit(transactions=[transaction], info={"isBlindAppend": True, **info}) is not None:
                    break
            faults.reach("backfill.appended", str(stretch.number))
            if outcome is not None:
                outcome.brought(journal.stream if journal is not None else "", found)
        return True

    def _found(
        self,
        stretch: Stretch,
        journal: Journal,
        files: Iterable[AddFile],
        outcome: Outcome | None,
        draft: Draft | None = None,
    ) -> Found:
        """The rows of a stretch, written to a draft where there is one."""
        found = Found()
        parts: list[pa.Table] = []
        for rows in self.rows(stretch, journal, files, outcome):
            found.add(rows)
            if draft is not None:
                parts.append(rows)
                if sum(part.num_rows for part in parts) >= _FILE_ROWS:
                    draft.write(pa.concat_tables(parts))
                    parts.clear()
        if draft is not None and parts:
            draft.write(pa.concat_tables(parts))
        return found

    def rows(
        self,
        stretch: Stretch,
        journal: Journal,
        files: Iterable[AddFile],
        outcome: Outcome | None = None,
        *,
        table: bool = True,
    ) -> Iterator[pa.Table]:
        """The rows that the queue is to get of a stretch, out of some files of the journal.

        Without `table` also those that the queue's table has.
        """
        topology = self._store.load(version=stretch.topology_version)
        condition = condition_of(self._data, self._vhost, self._queue, stretch, topology)
        earlier = [
            one for one in self.records.stretches() if one.number < stretch.number and one.queue_id == stretch.queue_id
        ]
        delivered = Delivered(
            self._data, self._store, self._vhost, self._queue, stretch, earlier, self._reach, table=table
        )
        inside = (file for file in files if _meets(journal.log.path, file, stretch))
        for batch in journal.rows(inside, after=stretch.after, through=stretch.through):
            if outcome is not None:
                outcome.met(journal.stream, batch.num_rows)
            wanted = delivered.asked(batch, stretch, condition) & ~delivered.by_stream(batch)
            wanted &= as_published(batch.column("routing").field("seq").to_numpy())
            asked = batch.filter(pa.array(wanted))
            if asked.num_rows:
                reached, lineage = self._reach.route(asked, stretch.topology_version)
                reached &= ~delivered.before(asked, reached)
                if reached.any():
                    yield brought(asked, lineage, reached, stretch.topology_version)


def brought(batch: pa.RecordBatch, lineage: pa.ListArray, chosen: Any, topology_version: int) -> pa.Table:
    """The chosen rows of a journal as rows of a queue, which bindings of a topology have brought."""
    rows = batch.filter(pa.array(chosen))
    routing = rows.column("routing")
    members = [
        pa.array(np.full(rows.num_rows, topology_version)),
        *(routing.field(name) for name in ("stream", "batch_id", "seq")),
        lineage.filter(pa.array(chosen)),
    ]
    new = {
        "routing": pa.StructArray.from_arrays(
            [member.cast(kind.type) for member, kind in zip(members, ROUTING, strict=True)], fields=list(ROUTING)
        ),
        "bcc": pa.nulls(rows.num_rows, MESSAGE_SCHEMA.field("bcc").type),  # which no queue keeps
    }
    return pa.table([new.get(name, rows.column(name)) for name in QUEUE_SCHEMA.names], schema=QUEUE_SCHEMA)


def condition_of(data: DataDir, vhost: str, queue: str, scope: Scope, topology: Topology) -> Filter | None:
    """The filter of a scope. Raises FilterError, and InvalidInput for a payload that is none."""
    return queue_filter(
        data, queue, scope.filter, vhost=vhost, dialect=scope.dialect, payload=scope.payload, topology=topology
    )


def _meets(path: str, file: AddFile, scope: Scope) -> bool:
    """Whether rows of a file may have been routed within the times of a scope."""
    if scope.since is None and scope.until is None:
        return True
    span = stated_span(path, file)
    return (scope.since is None or span.last >= scope.since) and (scope.until is None or span.first < scope.until)


def newest_stretch(log: TableLog) -> int:
    """The newest stretch whose rows a queue's table has; 0 for none."""
    return log.transaction_version(BACKFILLED) or 0


def newest_redrive(log: TableLog, vhost: str) -> int:
    """The newest batch of redrives whose copies a queue's table has; NEVER for none."""
    found = log.transaction_version(f"{REDRIVES}{vhost}")
    return NEVER if found is None else found


def _may_be_redriven(data: DataDir, vhost: str, stretch: Stretch) -> bool:
    """Whether the unroutable table has messages of a stretch that a redrive may bring."""
    number = pc.field("routing", "batch_id")
    where = (pc.field("routing", "stream") == stretch.stream) & (number > stretch.after) & (number <= stretch.through)
    columns = ["routing", "reason", "disposition", "redriven"]
    found = rows_of(data, vhost, None, where=where, columns=columns)
    return any(pc.any(may_be_routed_again(pa.Table.from_batches([rows]))).as_py() for rows in found)


def _go_on(stop: Callable[[], bool]) -> None:
    if stop():
        raise Stopped("the backfill was stopped; maintenance or the next one goes on with it", where="backfill")


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
