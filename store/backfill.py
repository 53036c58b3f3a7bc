"""Backfill: a queue gets the messages of journals that it would have got, each exactly once, and no other queue any.

1. An order is put on record: the queue, the topology, which messages (`bindery.store.backfill_records`).
2. Each journal of the vhost is gone through in the order of its batches. A message is routed by the order's topology
   with the clock of its batch. What reaches the queue is brought, unless it was delivered before
   (`bindery.store.delivered`).
3. The rows of a stretch of batches are appended in one commit that says so, by the number of the stretch. Its record
   is there before: numbers are without a gap, and whoever finds a stretch that is on record and not in the table,
   after a crash or beside another backfill, carries it out from the record and the journal.
4. A batch that is still under way by an older topology is waited for, or left to the next maintenance: the order is on
   record until the seam to every stream is closed (`bindery.store.seams`).

A row keeps its identity and the time at which it was routed, so it stands where it would have stood. Its topology
version and bindings are those that brought it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from bindery.router.errors import BinderyError, NotFound, Stopped
from bindery.store import faults
from bindery.store.backfill_records import FOLDER, Order, Scope, backfilled_queues
from bindery.store.backfill_refusal import refuse_backfill
from bindery.store.backfill_report import Outcome
from bindery.store.backfill_work import QueueBackfill, condition_of, now_ms
from bindery.store.declared_backfills import due_queues, may_be_brought, order_declared
from bindery.store.journal_files import journals
from bindery.store.paths import DataDir
from bindery.store.places import at
from bindery.store.topology import TopologyStore

_LOGGER: Final = logging.getLogger(__name__)
#: Seconds from one look at a batch that is under way to the next.
_PAUSE: Final = 0.2


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Selection:
    """Which messages a queue is to get: see `Scope`; times have a zone."""

    stream: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    filter: str | Mapping[str, Any] | None = None
    dialect: str = "jms"
    payload: str | None = None

    def scope(self, queue_id: int, topology_version: int) -> Scope:
        """The same, of a queue and a topology."""
        return Scope(
            queue_id,
            topology_version,
            self.stream,
            _microseconds(self.since),
            _microseconds(self.until),
            self.filter,
            self.dialect,
            self.payload,
        )


class Backfiller:
    """Backfills the queues of one vhost."""

    def __init__(self, data: DataDir, store: TopologyStore, vhost: str) -> None:
        self._data = data
        self._store = store
        self._vhost = vhost

    def backfill(
        self,
        queue: str,
        selection: Selection | None = None,
        *,
        dry_run: bool = False,
        wait: float = 0.0,
        stop: Callable[[], bool] = _never,
    ) -> Outcome:
        """Bring a queue what it would have got; what earlier calls left unfinished is finished first.

        Batches under way are waited for, up to `wait` seconds. With `dry_run` nothing is written. `stop` is asked
        between portions. Raises NotFound for a vhost, queue or stream's journal that is not there, InvalidInput and
        FilterError for a selection that cannot be, Refused for a queue that gets changed copies, and Stopped when told
        to: maintenance or the next call goes on.
        """
        selection = selection or Selection()
        topology = self._store.load()
        topology.vhost(self._vhost)
        if not topology.queue(self._vhost, queue).id and not dry_run:
            topology = self._store.give_queue_ids()
        scope = selection.scope(topology.queue(self._vhost, queue).id, topology.version)
        work = QueueBackfill(self._data, self._store, self._vhost, queue)
        condition_of(self._data, self._vhost, queue, scope, topology)
        refuse_backfill(self._store, topology, self._vhost, queue)
        if not journals(self._data, self._vhost, selection.stream):
            raise NotFound(
                f"vhost {self._vhost!r} has no journal"
                + ("" if selection.stream is None else f" of stream {selection.stream!r}"),
                where="journal",
                hint="messages of the past are kept by jobs with `journal: on` (docs/jobs.md)",
            )
        outcome = Outcome(queue, topology.version)
        if dry_run:
            work.carry(Order.of(scope), outcome, dry_run=True, stop=stop)
            return outcome
        outcome.finished = work.finish(stop=stop)
        order = work.records.begin(scope, now_ms())
        faults.reach("backfill.ordered", queue)
        deadline = time.monotonic() + wait
        while not work.carry(order, outcome, stop=stop) and outcome.under_way and time.monotonic() < deadline:
            time.sleep(_PAUSE)
        return outcome

    def finish(self, *, stop: Callable[[], bool] = _never) -> dict[str, int]:
        """Go on with the orders of the vhost that are not closed; the rows brought, by queue. Raises Stopped.

        What else goes wrong at a queue is logged, and tried again the next time.
        """
        found = {}
        for queue in backfilled_queues(self._data, self._store.load(), self._vhost):
            work = QueueBackfill(self._data, self._store, self._vhost, queue)
            try:
                found[queue] = work.finish(stop=stop)
                work.forget()
            except Stopped:
                raise
            except BinderyError as error:
                _LOGGER.warning("the backfill of queue %r in vhost %r waits: %s", queue, self._vhost, error)
        return {queue: rows for queue, rows in found.items() if rows}


def finish_backfills(store: TopologyStore, *, stop: Callable[[], bool] = _never) -> dict[str, dict[str, int]]:
    """Order what queues are declared to get, and go on with all backfills that are not done.

    Gives the rows brought, by vhost and queue. Raises Stopped.
    """
    order_declared(store)
    found = {}
    if not at(store.data.root, FOLDER).folders():
        return {}
    for vhost in sorted(store.load().vhosts):
        brought_there = Backfiller(store.data, store, vhost).finish(stop=stop)
        if brought_there:
            found[vhost] = brought_there
    return found


def declared_backfills(store: TopologyStore) -> dict[str, dict[str, int]]:
    """The rows that queues are declared to get and have not got yet, by vhost and queue. Nothing is written."""
    found: dict[str, dict[str, int]] = {}
    for due in due_queues(store):
        if due.ways and may_be_brought(store, due):
            since = datetime.fromtimestamp(due.since_us / 1_000_000, UTC)
            work = Backfiller(store.data, store, due.queue.vhost)
            rows = work.backfill(due.queue.name, Selection(since=since), dry_run=True).rows
            found.setdefault(due.queue.vhost, {})[due.queue.name] = rows
    return found


def _microseconds(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp() * 1_000_000)
