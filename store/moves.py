"""Moves: messages of one queue into another one of the vhost, each exactly once.

1. Rows are chosen and written to a plan, whole, with their target, the topology version and the clock; the plan is
   durable before anything else happens (`bindery.store.move_plans`).
2. The plan's rows leave the source in one commit that takes all of them or none, and records the plan's number. The
   commit is the claim: a row that a consumer, a deletion or another move has taken meanwhile fails the plan, which is
   then given up, by a number on record below which no plan of the queue can claim anything any more.
3. The rows are committed to the target by the batch protocol. The moves out of a queue are one stream, a plan's number
   is the number of its batch. A plan claims its rows only after the last one that did is delivered and gone, since
   tables remember the newest number of a stream only.
4. When the target was deleted before they arrived, the rows go back where they were, unless the source is gone, too.
5. The plan is removed.

Whoever comes after a crash, or beside a move that is under way, finishes what it finds, from the plan alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pyarrow as pa

from bindery.router.errors import CommitConflict, Fenced, Stopped
from bindery.router.message import QUEUE_SCHEMA
from bindery.router.model import Topology
from bindery.store import data_files, faults, tables
from bindery.store.actions import Transaction
from bindery.store.batches import BatchDriver, Routed
from bindery.store.commit import BatchCommitter, WrittenFile
from bindery.store.log import TableLog
from bindery.store.manifest import open_manifest, read_manifest
from bindery.store.move_plans import Plan, Plans
from bindery.store.paths import DataDir
from bindery.store.read import rewritten
from bindery.store.rewriting import UNCHANGED, Rewriting, Unchanged
from bindery.store.routed_counts import RoutedCounts
from bindery.store.row_bag import RowBag, RowSearch
from bindery.store.stream_names import claim_of
from bindery.store.topology import TopologyStore
from bindery.store.transfers import Transfer, Transferred, arrived, choose, queue_log

#: Rows of one plan; what is left is taken by the next round of the same call.
MAX_ROWS: Final = 200_000
#: Rounds without any row moved after which a move gives up.
IDLE_ROUNDS: Final = 10


def _never() -> bool:
    return False


class Mover:
    """Moves messages between the queues of one vhost."""

    def __init__(self, data: DataDir, store: TopologyStore, vhost: str) -> None:
        self._data = data
        self._store = store
        self._vhost = vhost
        self._plans = Plans(data, vhost)

    def move(self, transfer: Transfer, *, dry_run: bool = False, stop: Callable[[], bool] = _never) -> Transferred:
        """Move the chosen messages; what earlier calls left unfinished is finished first.

        With `dry_run` nothing is written and unfinished plans stay. `stop` is asked between portions of rows. Raises
        NotFound and InvalidInput for a transfer that cannot be, Stopped when told to, and CommitConflict when others
        take away every row that is chosen.
        """
        transfer.check(self._store.load())
        done = Transferred()
        if not dry_run:
            done.finished = self.finish(stop=stop)
        # as many as are there now: there is an end also beside writers that are faster
        held = tables.rows_in(queue_log(self._data, self._vhost, transfer.source))
        most = held if transfer.limit is None else min(held, transfer.limit)
        idle = 0
        while done.messages < most:
            _go_on(stop)
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
        """Finish the moves that earlier calls left behind; how many messages that moved.

        Raises Stopped when told to.
        """
        moved = 0
        for plan in self._plans.pending():
            _go_on(stop)
            if self._carry_out(plan):
                moved += plan.rows.num_rows
        return moved

    def _round(self, transfer: Transfer, done: Transferred, *, dry_run: bool) -> bool:
        """Plan and carry out one portion of rows; True when there may be more."""
        topology = self._store.load()
        transfer.check(topology)
        log = queue_log(self._data, self._vhost, transfer.source)
        assert transfer.limit is not None  # noqa: S101  # the caller counts
        portion = transfer.limit if dry_run else min(transfer.limit, MAX_ROWS)
        choice = choose(log, transfer, topology, portion)
        done.refused = choice.refused
        if dry_run or not choice.rows:
            done.messages += choice.rows
            return False
        plan = self._planned(transfer, choice.chosen.rows(), topology, log)
        faults.reach("move.planned", str(plan.place))
        if self._carry_out(plan):
            done.messages += plan.rows.num_rows
            done.batches = (*done.batches, plan.batch)
            return choice.rows == portion
        return True

    def _planned(self, transfer: Transfer, rows: pa.Table, topology: Topology, log: TableLog) -> Plan:
        stream = self._plans.stream(transfer.source)
        known = (_recorded(log, stream), open_manifest(self._data).transaction_version(stream) or 0)
        clock_ms = time.time_ns() // 1_000_000
        return self._plans.write(
            rows, transfer.source, transfer.target, version=topology.version, clock_ms=clock_ms, after=max(known)
        )

    # -- carrying out ---------------------------------------------------------------------------------

    def _carry_out(self, plan: Plan) -> bool:
        """Claim and deliver a plan, and remove it; False when its rows are not in the target."""
        arrives = self._claim(plan)
        if arrives:
            faults.reach("move.claimed", str(plan.place))
            arrives = self._deliver(plan)
            faults.reach("move.delivered", str(plan.place))
        self._plans.discard(plan)
        return arrives

    def _claim(self, plan: Plan) -> bool:
        """Take the plan's rows out of the source, unless they have been.

        False when one of them is gone, or a later plan came first.
        """
        if not tables.exists(self._data.queue(self._vhost, plan.source)):
            return False
        log = queue_log(self._data, self._vhost, plan.source)
        # all that a row is but its header, which counts deliveries
        search = RowSearch(log, RowBag(plan.rows.drop_columns("header")), QUEUE_SCHEMA)

        def without(file: str) -> pa.Table | Unchanged:
            return rewritten(log.path, file, search.places[file]) if file in search.places else UNCHANGED

        attempts = tables.attempts(log.path)
        info = {"bindery.change": "move", "bindery.batch": plan.batch, "bindery.topologyVersion": plan.topology_version}
        while True:
            with Rewriting(log, without, prefix="move") as rewriting:
                for _ in attempts:
                    newest = log.transaction_version(claim_of(plan.stream)) or 0
                    if newest == plan.number or _recorded(log, plan.stream) >= plan.number:
                        return newest == plan.number or self._has_ended(plan)
                    self._deliver_earlier(plan, newest)
                    faults.reach("move.claiming", str(plan.place))
                    if search.missing:
                        if log.commit((), transactions=[Transaction(_refused(plan.stream), plan.number)]) is not None:
                            return False
                    elif (
                        rewriting.commit(transactions=[Transaction(claim_of(plan.stream), plan.number)], info=info)
                        is not None
                    ):
                        return True
                    log.refresh()
                    if not search.update():
                        break

    def _has_ended(self, plan: Plan) -> bool:
        """Whether a plan that others have overtaken was carried out by one of them."""
        return bool(read_manifest(self._data, app_id=plan.stream, batch_id=plan.number))

    def _deliver_earlier(self, plan: Plan, number: int) -> None:
        """Deliver the plan that was the last to claim rows of the source, if it is still there."""
        earlier = self._plans.read(plan.source, number)
        if earlier is not None:
            self._deliver(earlier)
            self._plans.discard(earlier)

    def _deliver(self, plan: Plan) -> bool:
        """Commit the rows to the target; False when that was deleted meanwhile, and the rows are back."""
        for _ in tables.attempts(self._data.manifest):
            try:
                self._commit(plan)
                break
            except Fenced:
                continue  # another move delivers the same plan: what it has done is skipped
        path = self._data.queue(self._vhost, plan.target)
        if tables.exists(path) and (TableLog(path).transaction_version(plan.stream) or 0) >= plan.number:
            return True
        self._give_back(plan)
        return False

    def _commit(self, plan: Plan) -> None:
        """Drive the plan's batch."""
        with BatchCommitter(self._data, stream=plan.stream, app_id=plan.stream, workers=1, claim=False) as committer:
            driver = BatchDriver(committer, self._store, self._vhost, router=lambda topology: topology)
            begun = driver.begin(plan.number, self._store.load(version=plan.topology_version), plan.clock_ms)
            if begun.router is None:
                return
            path = self._data.queue(self._vhost, plan.target)
            added = data_files.write_file(path, arrived(plan.rows, begun.stamp))
            rows = plan.rows.num_rows
            file = WrittenFile("queue", self._vhost, plan.target, added.path, added.size, rows, added.stats)
            counts = RoutedCounts()
            counts.copies = rows
            driver.commit(begun, Routed([file], counts))

    def _give_back(self, plan: Plan) -> None:
        """Put the rows back into the source as they were, once.

        Not when that was deleted since: they belong to what it held.
        """
        log = queue_log(self._data, self._vhost, plan.source)
        once = Transaction(f"bindery.back:{plan.stream}", plan.number)
        info = {"bindery.change": "move back", "bindery.topologyVersion": plan.topology_version}
        with data_files.Draft(log) as draft:
            draft.write(plan.rows)
            for _ in tables.attempts(log.path):
                if (log.transaction_version(once.app_id) or 0) >= plan.number:
                    return
                if tables.undeclared_since(log) >= plan.topology_version:
                    return
                if draft.commit(transactions=[once], info=info) is not None:
                    return
                log.refresh()


def _refused(stream: str) -> str:
    """The identifier of the newest plan that was given up: none up to it can claim anything any more."""
    return f"bindery.refused:{stream}"


def _recorded(log: TableLog, stream: str) -> int:
    """The newest plan that has claimed rows of a source, or was given up."""
    return max(log.transaction_version(name) or 0 for name in (claim_of(stream), _refused(stream)))


def _go_on(stop: Callable[[], bool]) -> None:
    if stop():
        raise Stopped("the move was stopped; what it has begun is finished by the next one", where="move")
