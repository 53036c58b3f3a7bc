"""Redrive: unroutable rows routed again under the present topology, exactly once.

1. Rows are chosen and routed. Those that now reach a queue are written to a plan, with the topology
   version and the clock; the plan is durable before anything else happens (`bindery.store.redrive_plans`).
2. The plan's rows are marked `redriven` in one commit of the unroutable table. The commit is the claim:
   it takes all rows of the plan or none, and whoever finds one of the rows marked by another plan gives
   up its own (`bindery.store.redrive_marks`).
3. The copies are committed to the queue tables by the batch protocol. All redrives of a vhost are one
   stream, a plan's number is the number of its batch, and plans are delivered in the order of numbers:
   tables remember the newest batch of a stream only. A copy that a backfill has brought its queue is left out
   (`bindery.store.backfilled`).
4. The plan is removed.

Messages that only a journal has are put back into the table before that (`bindery.store.unroutable_again`).

Whoever comes after a crash, or beside a redrive that is under way, finishes what it finds, from the plan
alone. Routing with the plan's version and clock gives the same result every time. Rows that still
reach no queue stay as they are, unmarked.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from bindery.router.engine import REASONS, Deliveries, Router
from bindery.router.engine.result import DUPLICATE
from bindery.router.errors import CommitConflict, Fenced, InvalidInput, Stopped
from bindery.router.message import MESSAGE_SCHEMA
from bindery.router.model import Topology
from bindery.store import faults, tables
from bindery.store.backfilled import Backfilled, LeftOut, Overtaken
from bindery.store.batches import BatchDriver, RouterOf, write_copies
from bindery.store.commit import BatchCommitter
from bindery.store.delivered import Mask
from bindery.store.manifest import read_manifest
from bindery.store.paths import DataDir
from bindery.store.plan_files import one_batch
from bindery.store.recorded import UNREADABLE, rows_of
from bindery.store.redrive_marks import Marks
from bindery.store.redrive_plans import Plan, Plans
from bindery.store.stream_names import claim_of
from bindery.store.topology import TopologyStore
from bindery.store.unroutable import Selection, may_be_routed_again
from bindery.store.unroutable_again import MissingRows

__all__ = ["MAX_ROWS", "Outcome", "Redriver"]

#: Rows of one redrive; what is left is taken by the next round of the same call.
MAX_ROWS: Final = 200_000
#: Rounds without any row redriven after which a redrive gives up.
IDLE_ROUNDS: Final = 10


@dataclass
class Outcome:
    """What a redrive did: rows routed again, copies made, per queue; `batches` are the ids of its plans.

    `backfilled` counts, by queue, the copies that were left out since a backfill had brought them, `still_unroutable`,
    by reason, the chosen rows that reached no queue this time either.
    """

    redriven: int = 0
    copies: int = 0
    queues: Counter[str] = field(default_factory=Counter)
    backfilled: Counter[str] = field(default_factory=Counter)
    still_unroutable: Counter[str] = field(default_factory=Counter)
    batches: list[str] = field(default_factory=list)
    topology_version: int | None = None

    def add(self, other: Outcome) -> None:
        """Add what a further round did."""
        self.redriven += other.redriven
        self.copies += other.copies
        self.queues.update(other.queues)
        self.backfilled.update(other.backfilled)
        self.still_unroutable = other.still_unroutable  # a later round looks at them again
        self.batches += other.batches
        self.topology_version = other.topology_version

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {
            "chosen": self.redriven + self.still_unroutable.total(),
            "redriven": self.redriven,
            "copies": self.copies,
            "queues": dict(sorted(self.queues.items())),
            "backfilled": dict(sorted(self.backfilled.items())),
            "still_unroutable": dict(sorted(self.still_unroutable.items())),
            "batches": self.batches,
            "topology_version": self.topology_version,
        }


def _now() -> int:
    return time.time_ns() // 1_000_000


def _never() -> bool:
    return False


class Redriver:
    """Redrives the unroutable rows of one vhost."""

    def __init__(self, data: DataDir, store: TopologyStore, vhost: str) -> None:
        store.load().vhost(vhost)
        self._data = data
        self._store = store
        self._vhost = vhost
        self._plans = Plans(data, vhost)
        self._router = RouterOf(vhost)
        self._backfilled = Backfilled(data, store, vhost)

    def redrive(
        self,
        selection: Selection,
        *,
        journals: bool = False,
        dry_run: bool = False,
        stop: Callable[[], bool] = _never,
    ) -> Outcome:
        """Route the chosen rows again; what earlier calls left unfinished is finished first.

        With `journals` also messages that reached no queue and that only the journal of their stream has: those that
        reach one now get a row of the unroutable table first (`bindery.store.unroutable_again`). With `dry_run` nothing
        is written and unfinished plans stay. `stop` is asked between portions of rows. Raises InvalidInput for reasons
        whose rows hold no message, Stopped when told to, and CommitConflict when others take away every row that is
        chosen.
        """
        unreadable = sorted(selection.reasons & UNREADABLE)
        if unreadable:
            raise InvalidInput(
                f"rows with reason {unreadable[0]} hold no message that could be routed",
                where="reason",
                hint="their raw form is in the column `raw`",
            )
        if DUPLICATE in selection.reasons:
            raise InvalidInput(
                f"rows with reason {DUPLICATE} repeat a message that was routed",
                where="reason",
                hint="`detail` names that message, for `bindery explain --row`",
            )
        outcome = Outcome() if dry_run else self.finish(stop=stop)
        beside = self._put_back(selection, dry_run=dry_run, stop=stop) if journals else Outcome()
        # Every round takes rows that were there at the start, or new ones in their stead: there is an end
        # also beside writers that are faster.
        most = outcome.redriven + self._rows()
        idle = 0
        while True:
            before = outcome.redriven
            if not self._round(selection, outcome, dry_run=dry_run, stop=stop) or outcome.redriven >= most:
                outcome.still_unroutable += beside.still_unroutable
                outcome.redriven += beside.redriven
                outcome.copies += beside.copies
                outcome.queues.update(beside.queues)
                outcome.backfilled.update(beside.backfilled)
                return outcome
            idle = 0 if outcome.redriven > before else idle + 1
            if idle == IDLE_ROUNDS:
                raise CommitConflict(
                    f"{idle} rounds of a redrive in vhost {self._vhost!r} redrove nothing: others take the rows away",
                    where=self._data.unroutable(self._vhost),
                    hint="try again once other redrives and changes of the topology are through",
                )

    def finish(self, *, stop: Callable[[], bool] = _never) -> Outcome:
        """Finish the plans that earlier calls left behind. Raises Stopped when told to."""
        done = Outcome()
        for number in self._plans.pending():
            _go_on(stop)
            plan = self._plans.read(number)
            if plan is not None:
                self._carry_out(plan, done)
        return done

    def _put_back(self, selection: Selection, *, dry_run: bool, stop: Callable[[], bool]) -> Outcome:
        """Give the messages that only journals have, and that reach a queue now, rows of the unroutable table.

        Counts those that reach none, and with `dry_run`, which writes nothing, what would become of the others.
        """
        found = Outcome()
        topology = self._store.load()
        router = self._router(topology)
        missing = MissingRows(self._data, self._vhost)
        for rows in missing.chosen(selection):
            _go_on(stop)
            deliveries = router.route(one_batch(rows.select(MESSAGE_SCHEMA.names)), clock_ms=_now())
            _count_lost(found, deliveries)
            if dry_run:
                _count(found, router, deliveries, self._backfilled.left_out(rows, topology, router, deliveries).copies)
                continue
            reached = np.setdiff1d(np.arange(rows.num_rows), deliveries.unroutable.rows)
            if missing.put_back(rows.take(pa.array(reached))):
                faults.reach("redrive.put_back", self._data.unroutable(self._vhost))
        return found

    # -- choosing -------------------------------------------------------------------------------------

    def _round(self, selection: Selection, outcome: Outcome, *, dry_run: bool, stop: Callable[[], bool]) -> bool:
        """Plan and carry out one portion of rows; True when there may be more."""
        topology = self._store.load()
        router = self._router(topology)
        clock = _now()
        found = Outcome(topology_version=topology.version)
        parts: list[pa.Table] = []
        planned = 0
        _go_on(stop)
        for rows in self._chosen(selection):
            deliveries = router.route(one_batch(rows.select(MESSAGE_SCHEMA.names)), clock_ms=clock)
            _count_lost(found, deliveries)
            reached = np.setdiff1d(np.arange(rows.num_rows), deliveries.unroutable.rows)
            if dry_run:
                _count(found, router, deliveries, self._backfilled.left_out(rows, topology, router, deliveries).copies)
            elif len(reached):
                parts.append(rows.take(pa.array(reached)))
                planned += len(reached)
                if planned >= MAX_ROWS:
                    break
            _go_on(stop)
        if parts:
            plan = self._plans.write(pa.concat_tables(parts), topology.version, clock, after=self._newest_number())
            faults.reach("redrive.planned", str(plan.place))
            if not self._carry_out(plan, found):
                return True  # another redrive was faster: choose again
        outcome.add(found)
        return planned >= MAX_ROWS

    def _chosen(self, selection: Selection) -> Iterator[pa.Table]:
        """The rows of a selection that may be routed again."""
        for batch in rows_of(self._data, self._vhost, None, where=selection.where):
            rows = pa.Table.from_batches([batch.take(pa.array(selection.places(batch)))])
            rows = rows.filter(may_be_routed_again(rows))
            if rows.num_rows:
                yield rows

    def _rows(self) -> int:
        """Rows of the unroutable table."""
        path = self._data.unroutable(self._vhost)
        if not tables.exists(path):
            return 0
        return tables.rows_in(tables.open_log(path, tables.UNROUTABLE, vhost=self._vhost, files=True))

    def _newest_number(self) -> int:
        """The number of the newest plan that has been marked, whatever the clock said then."""
        log = tables.open_log(self._data.unroutable(self._vhost), tables.UNROUTABLE, vhost=self._vhost)
        return log.transaction_version(claim_of(self._plans.stream)) or 0

    # -- carrying out ---------------------------------------------------------------------------------

    def _carry_out(self, plan: Plan, outcome: Outcome) -> bool:
        """Mark and deliver a plan, and remove it; False when another redrive has taken rows of it."""
        marks = Marks(self._data, self._vhost, plan)
        marked = marks.set()
        if marked:
            faults.reach("redrive.marked", str(plan.place))
            self._deliver_earlier(plan)
            self._deliver(plan, marks, outcome)
            faults.reach("redrive.delivered", str(plan.place))
        self._plans.discard(plan)
        return marked

    def _deliver_earlier(self, plan: Plan) -> None:
        """Deliver the plans that were marked before this one and are still there.

        They have lower numbers, and whatever has a lower number and is not marked by now never will be. A
        plan that is gone has been delivered. Who began them counts what they did.
        """
        for number in self._plans.pending():
            earlier = self._plans.read(number) if number < plan.number else None
            if earlier is not None:
                marks = Marks(self._data, self._vhost, earlier)
                if marks.stand():
                    self._deliver(earlier, marks, Outcome())

    def _deliver(self, plan: Plan, marks: Marks, outcome: Outcome) -> None:
        topology = self._store.load(version=plan.topology_version)
        router = self._router(topology)
        batch = plan.messages()
        deliveries = router.route(batch, clock_ms=plan.clock_ms)
        dropped, left_out = self._delivered(plan, topology, batch, deliveries)
        if dropped:
            queue = np.repeat(deliveries.queue, np.diff(deliveries.offsets))
            gone = np.isin(queue, [number for number, name in enumerate(router.queues) if name in dropped])
            lost = np.setdiff1d(np.arange(plan.rows.num_rows), deliveries.rows[~gone])
            if len(lost):
                marks.take_back(lost)  # every queue of theirs is gone: they are unroutable still
        _count(outcome, router, deliveries, left_out, without=dropped)
        outcome.batches.append(plan.batch)
        outcome.topology_version = plan.topology_version

    def _delivered(
        self, plan: Plan, topology: Topology, batch: pa.RecordBatch, deliveries: Deliveries
    ) -> tuple[set[str], Mask]:
        """Commit the copies, but for those that queues have had (the second result, by their places).

        The first one is the queues that were deleted after the plan was made, whose copies were not appended.
        """
        rows, router = plan.unroutable_rows(), self._router(topology)
        for _ in tables.attempts(self._data.manifest):
            left_out = self._backfilled.left_out(rows, topology, router, deliveries, number=plan.number)
            try:
                return self._commit(plan, topology, batch, deliveries, left_out), left_out.copies
            except Fenced:
                continue  # another redrive delivers the same plan: what it has done is skipped
            except Overtaken as overtaken:
                self._backfilled.look_at(overtaken.queue)
        raise AssertionError("attempts() ends by raising")

    def _commit(
        self, plan: Plan, topology: Topology, batch: pa.RecordBatch, deliveries: Deliveries, left_out: LeftOut
    ) -> set[str]:
        """Drive the plan's batch; its pin repeats what the plan says, so whoever drives it routes the same."""
        with BatchCommitter(self._data, stream=plan.stream, app_id=plan.stream, claim=False) as committer:
            driver = BatchDriver(committer, self._store, self._vhost, router=self._router)
            begun = driver.begin(plan.number, topology, plan.clock_ms)
            if begun.router is None:
                recorded = read_manifest(self._data, app_id=plan.stream, batch_id=plan.number)
                return {one["name"] for ended in recorded for one in ended["tables"] if one["dropped"]}
            copies = deliveries.without(left_out.copies)
            routed = write_copies(self._data, begun, batch, copies, attempt=uuid.uuid4().hex[:8])
            routed.counts.unroutable.clear()  # these messages were counted as unroutable when they became so
            return {one.name for one in driver.commit(begun, routed, check=left_out.check) if one.dropped}


def _go_on(stop: Callable[[], bool]) -> None:
    if stop():
        raise Stopped("the redrive was stopped; what it has begun is finished by the next one", where="redrive")


# -- counting -----------------------------------------------------------------------------------------


def _count_lost(outcome: Outcome, deliveries: Deliveries) -> None:
    counts = deliveries.counts.reasons.tolist()
    outcome.still_unroutable.update({name: n for name, n in zip(REASONS, counts, strict=True) if n})


def _count(
    outcome: Outcome,
    router: Router,
    deliveries: Deliveries,
    left_out: Mask,
    *,
    without: AbstractSet[str] = frozenset(),
) -> None:
    """Count the rows and copies of deliveries, but for queues that are gone; some copies are left out."""
    names = [router.queues[number] for number in deliveries.queue.tolist()]
    for place, name in enumerate(names):
        if name not in without:
            had = int(left_out[deliveries.offsets[place] : deliveries.offsets[place + 1]].sum())
            made = int(deliveries.offsets[place + 1] - deliveries.offsets[place]) - had
            outcome.queues.update({name: made} if made else {})
            outcome.backfilled.update({name: had} if had else {})
            outcome.copies += made
    kept = np.array([name not in without for name in names], np.bool_)
    outcome.redriven += len(np.unique(deliveries.rows[np.repeat(kept, np.diff(deliveries.offsets))]))
