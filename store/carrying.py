"""Plans of moves, copies and dead letters, carried out: each row arrives exactly once in every queue that it goes to.

1. The plan is durable before anything else happens (`bindery.store.transfer_plans`): rows, whole, with where they go,
   the topology version and the clock.
2. One commit of the source claims the plan, by its number on record. That of a move takes the plan's rows out of the
   source, all of them or none: a row that a consumer, a deletion or another move has taken meanwhile fails the plan,
   which is then given up, by a number on record below which no plan of the queue can claim anything any more. That of a
   copy changes no row. Dead letters are moved by the limits of their queue (`bindery.store.limiting`).
3. The rows are committed to the queues that they go to by the batch protocol. The moves out of a queue are one stream,
   and so are the copies; a plan's number is the number of its batch. A plan is claimed only after the last one that was
   is delivered and gone, since tables remember the newest number of a stream only.
4. Rows of a move of which every queue was deleted before they arrived go back where they were, unless the source is
   gone, too.
5. The plan is removed.

Whoever comes after a crash, or beside a transfer that is under way, finishes what it finds, from the plan alone:
routing with the plan's version and clock gives the same every time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import pyarrow as pa

from bindery.router.errors import Fenced, Stopped
from bindery.router.message import QUEUE_SCHEMA
from bindery.store import data_files, faults, tables
from bindery.store.actions import Transaction
from bindery.store.batches import BatchDriver
from bindery.store.commit import BatchCommitter
from bindery.store.destinations import Arrival, Goal
from bindery.store.log import TableLog
from bindery.store.manifest import open_manifest, read_manifest
from bindery.store.paths import DataDir
from bindery.store.read import rewritten
from bindery.store.rewriting import UNCHANGED, Rewriting, Unchanged
from bindery.store.row_bag import RowBag, RowSearch
from bindery.store.stream_names import claim_of
from bindery.store.topology import TopologyStore
from bindery.store.transfer_plans import KINDS, MOVES, Kind, Plan, Plans
from bindery.store.transfers import queue_log


class Carried(NamedTuple):
    """What carrying out a plan did: its rows that arrived, and their copies by queue; it was `claimed`, or given up."""

    claimed: bool
    rows: int = 0
    queues: Mapping[str, int] = MappingProxyType({})


class Carrier:
    """Carries out the plans of one kind in one vhost."""

    def __init__(self, data: DataDir, store: TopologyStore, vhost: str, *, kind: Kind = MOVES) -> None:
        self._data = data
        self._store = store
        self._vhost = vhost
        self._plans = Plans(data, vhost, kind=kind)
        self._kind = kind

    def plan(self, source: str, to: Goal, rows: pa.Table, *, version: int, clock_ms: int) -> Plan:
        """Put on record that rows of the source go somewhere. Raises StorageFailed."""
        stream = self._plans.stream(source)
        log = queue_log(self._data, self._vhost, source)
        known = (_recorded(log, stream), open_manifest(self._data).transaction_version(stream) or 0)
        plan = self._plans.write(rows, source, to, version=version, clock_ms=clock_ms, after=max(known))
        faults.reach(f"{self._kind.name}.planned", str(plan.place))
        return plan

    def finish(self, *, stop: Callable[[], bool]) -> int:
        """Finish the plans that earlier calls left behind; how many messages arrived. Raises Stopped when told to."""
        finished = 0
        for plan in self._plans.pending():
            go_on(stop)
            finished += self.carry_out(plan).rows
        return finished

    def carry_out(self, plan: Plan) -> Carried:
        """Claim and deliver a plan, and remove it."""
        carried = Carried(claimed=False)
        if self._claim_move(plan) if self._kind.takes else self._claim_copy(plan):
            faults.reach(f"{self._kind.name}.claimed", str(plan.place))
            carried = self._deliver(plan)
            faults.reach(f"{self._kind.name}.delivered", str(plan.place))
        self._plans.discard(plan)
        return carried

    # -- claiming -------------------------------------------------------------------------------------

    def _claim_move(self, plan: Plan) -> bool:
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
        change = self._kind.name
        info = {"bindery.change": change, "bindery.batch": plan.batch, "bindery.topologyVersion": plan.topology_version}
        claim = Transaction(claim_of(plan.stream), plan.number)
        while True:
            with Rewriting(log, without, prefix=change) as rewriting:
                for _ in attempts:
                    settled = self._settled(plan, log)
                    if settled is not None:
                        return settled
                    faults.reach(f"{change}.claiming", str(plan.place))
                    if search.missing:
                        if log.commit((), transactions=[Transaction(_refused(plan.stream), plan.number)]) is not None:
                            return False
                    else:
                        recorded = plan.to.on_record(log, plan.rows.num_rows)
                        if rewriting.commit(transactions=[claim, *recorded], info=info) is not None:
                            return True
                    log.refresh()
                    if not search.update():
                        break

    def _claim_copy(self, plan: Plan) -> bool:
        """Put the plan's number on record; False when a later plan came first, or the source is gone."""
        if not tables.exists(self._data.queue(self._vhost, plan.source)):
            return False
        log = queue_log(self._data, self._vhost, plan.source)
        for _ in tables.attempts(log.path):
            settled = self._settled(plan, log)
            if settled is not None:
                return settled
            faults.reach("copy.claiming", str(plan.place))
            if log.commit((), transactions=[Transaction(claim_of(plan.stream), plan.number)]) is not None:
                return True
            log.refresh()
        raise AssertionError("attempts() ends by raising")

    def _settled(self, plan: Plan, log: TableLog) -> bool | None:
        """Whether a plan is claimed; None when it may be, and the one that was claimed before it is delivered."""
        newest = log.transaction_version(claim_of(plan.stream)) or 0
        if newest == plan.number:
            return True
        if _recorded(log, plan.stream) >= plan.number:
            # others have overtaken it: whether one of them has carried it out
            return bool(read_manifest(self._data, app_id=plan.stream, batch_id=plan.number))
        earlier = self._plans.read(plan.source, newest)
        if earlier is not None:
            self._deliver(earlier)
            self._plans.discard(earlier)
        return None

    # -- delivering -----------------------------------------------------------------------------------

    def _deliver(self, plan: Plan) -> Carried:
        """Commit the rows to the queues that they go to."""
        topology = self._store.load(version=plan.topology_version)
        arrival = plan.to.arrival(topology, self._vhost, plan.clock_ms, plan.rows)
        dropped = self._delivered(plan, arrival)
        lost = arrival.lost(dropped)
        if len(lost) and self._kind.takes:
            self._give_back(plan, plan.rows.take(pa.array(lost)))
        return Carried(claimed=True, rows=plan.rows.num_rows - len(lost), queues=arrival.queues(dropped))

    def _delivered(self, plan: Plan, arrival: Arrival) -> set[str]:
        """Commit the copies; the queues that were deleted after the plan was made, to which none was appended."""
        for _ in tables.attempts(self._data.manifest):
            try:
                return self._commit(plan, arrival)
            except Fenced:
                continue  # somebody else delivers the same plan: what they have done is skipped
        raise AssertionError("attempts() ends by raising")

    def _commit(self, plan: Plan, arrival: Arrival) -> set[str]:
        """Drive the plan's batch; its pin repeats what the plan says."""
        with BatchCommitter(self._data, stream=plan.stream, app_id=plan.stream, claim=False) as committer:
            driver = BatchDriver(committer, self._store, self._vhost, router=lambda topology: topology)
            begun = driver.begin(plan.number, self._store.load(version=plan.topology_version), plan.clock_ms)
            if begun.router is None:
                recorded = read_manifest(self._data, app_id=plan.stream, batch_id=plan.number)
                return {one["name"] for ended in recorded for one in ended["tables"] if one["dropped"]}
            return {one.name for one in driver.commit(begun, arrival.write(self._data, begun)) if one.dropped}

    def _give_back(self, plan: Plan, rows: pa.Table) -> None:
        """Put rows back into the source as they were, once.

        Not when that was deleted since: they belong to what it held.
        """
        log = queue_log(self._data, self._vhost, plan.source)
        once = Transaction(f"bindery.back:{plan.stream}", plan.number)
        info = {"bindery.change": "move back", "bindery.topologyVersion": plan.topology_version}
        with data_files.Draft(log) as draft:
            draft.write(rows)
            for _ in tables.attempts(log.path):
                if (log.transaction_version(once.app_id) or 0) >= plan.number:
                    return
                if tables.undeclared_since(log) >= plan.topology_version:
                    return
                if draft.commit(transactions=[once], info=info) is not None:
                    return
                log.refresh()


def finish(data: DataDir, store: TopologyStore, vhost: str, *, stop: Callable[[], bool]) -> int:
    """Finish the transfers that earlier calls left behind in a vhost; how many messages arrived.

    Raises Stopped when told to.
    """
    return sum(Carrier(data, store, vhost, kind=kind).finish(stop=stop) for kind in KINDS)


def go_on(stop: Callable[[], bool]) -> None:
    """Raise Stopped when `stop` says so."""
    if stop():
        raise Stopped("the transfer was stopped; what it has begun is finished by the next one", where="transfer")


def _refused(stream: str) -> str:
    """The identifier of the newest plan that was given up: none up to it can claim anything any more."""
    return f"bindery.refused:{stream}"


def _recorded(log: TableLog, stream: str) -> int:
    """The newest plan that has claimed rows of a source, or was given up."""
    return max(log.transaction_version(name) or 0 for name in (claim_of(stream), _refused(stream)))
