"""Moves: messages of one queue to another place of the vhost, each exactly once (`bindery.store.carrying`)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from bindery.router.errors import CommitConflict
from bindery.store import carrying
from bindery.store.carrying import Carrier, go_on
from bindery.store.deferred import LiveQueue, materialise_queue
from bindery.store.paths import DataDir
from bindery.store.queue_use import note_use
from bindery.store.read import of_queue
from bindery.store.topology import TopologyStore
from bindery.store.transfers import Transfer, Transferred, choose

#: Rows of one plan; what is left is taken by the next round of the same call.
MAX_ROWS: Final = 200_000
#: Rounds without any row moved after which a move gives up.
IDLE_ROUNDS: Final = 10


def _never() -> bool:
    return False


class Mover:
    """Moves messages out of the queues of one vhost."""

    def __init__(self, data: DataDir, store: TopologyStore, vhost: str) -> None:
        self._data = data
        self._store = store
        self._vhost = vhost
        self._carrier = Carrier(data, store, vhost)

    def move(self, transfer: Transfer, *, dry_run: bool = False, stop: Callable[[], bool] = _never) -> Transferred:
        """Move the chosen messages; what earlier calls left unfinished is finished first.

        With `dry_run` nothing is written and unfinished plans stay. `stop` is asked between portions of rows. Raises
        NotFound and InvalidInput for a transfer that cannot be, Stopped when told to, and CommitConflict when others
        take away every row that is chosen.
        """
        transfer.check(self._store.load())
        done = Transferred()
        if not dry_run:
            note_use(self._data, self._vhost, transfer.source)
            done.finished = self.finish(stop=stop)
            materialise_queue(self._data, self._store, self._vhost, transfer.source)
        # as many as are there now: there is an end also beside writers that are faster
        held = self._source(transfer, dry_run=dry_run).rows
        most = held if transfer.limit is None else min(held, transfer.limit)
        idle = 0
        while done.messages < most:
            go_on(stop)
            before = done.messages
            if not self._round(replace(transfer, limit=most - before), done, dry_run=dry_run):
                break
            idle = 0 if done.messages > before else idle + 1
            if idle == IDLE_ROUNDS:
                raise CommitConflict(
                    f"{idle} rounds of a move out of {transfer.source!r} moved nothing: others take the rows away",
                    where=self._data.queue(self._vhost, transfer.source),
                    hint="try again once other consumers are through",
                )
        return done

    def finish(self, *, stop: Callable[[], bool] = _never) -> int:
        """Finish the transfers that earlier calls left behind; how many messages arrived.

        Raises Stopped when told to.
        """
        return carrying.finish(self._data, self._store, self._vhost, stop=stop)

    def _source(self, transfer: Transfer, *, dry_run: bool) -> LiveQueue:
        """The queue that is moved from: what waits for it has come into its table, but where nothing is written."""
        return of_queue(self._data, self._vhost, transfer.source, live=dry_run)

    def _round(self, transfer: Transfer, done: Transferred, *, dry_run: bool) -> bool:
        """Plan and carry out one portion of rows; True when there may be more."""
        topology = self._store.load()
        transfer.check(topology)
        clock_ms = time.time_ns() // 1_000_000
        source = self._source(transfer, dry_run=dry_run)
        assert transfer.limit is not None  # noqa: S101  # the caller counts
        portion = transfer.limit if dry_run else min(transfer.limit, MAX_ROWS)
        entry = transfer.to.entry(topology, self._vhost, clock_ms)
        # what an exchange has brought back into the source has been moved
        chosen = choose(source, transfer, entry, portion, batches=frozenset(done.batches))
        done.met(entry)
        count = len(chosen.order)
        if dry_run or not count:
            done.messages += count
            done.queues.update(transfer.to.reached(topology, self._vhost, clock_ms, chosen))
            return False
        rows = chosen.rows()
        plan = self._carrier.plan(transfer.source, transfer.to, rows, version=topology.version, clock_ms=clock_ms)
        carried = self._carrier.carry_out(plan)
        if carried.claimed:
            done.messages += carried.rows
            done.queues.update(carried.queues)
            done.batches = (*done.batches, plan.batch)
        return carried.rows < count or count == portion
