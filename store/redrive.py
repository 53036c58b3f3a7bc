"""Redrive: unroutable rows routed again under the present topology, exactly once.

1. Rows are chosen and routed. Those that now reach a queue are written to a plan, with the topology
   version and the clock; the plan is durable before anything else happens.
2. The plan's rows are marked `redriven` in one commit of the unroutable table. The commit is the claim:
   it carries the plan's app id, it holds for exactly the version that was read, and whoever finds one
   of the rows marked by another plan gives up its own.
3. The copies are committed to the queue tables by the batch protocol, under the plan's own app id.
4. The plan is removed.

Whoever comes after a crash finishes what it finds, from the plan alone: a plan whose rows are not marked
yet is marked first. Routing with the plan's version and clock gives the same result every time.
Rows that still reach no queue stay as they are, unmarked.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from router.engine import REASONS, Deliveries, Router
from router.errors import InvalidInput, UnsupportedTable
from router.message import MESSAGE_SCHEMA, REDRIVEN, UNROUTABLE_SCHEMA
from store import data_files, tables
from store.commit import BatchCommitter, BatchCounts
from store.log import AddFile, RemoveFile, Transaction
from store.manifest import read_manifest
from store.paths import DataDir, encode_name
from store.read import RowId, row_ids
from store.recorded import rows_of
from store.topology import TopologyStore
from store.unroutable import UNREADABLE, Selection
from store.writer import BATCH_SCHEMA, SEQ, BatchStamp, QueueWriter

#: Rows of one redrive; what is left is taken by the next round of the same call.
MAX_ROWS: Final = 200_000
#: Streams of redrives begin so.
STREAM_PREFIX: Final = "redrive:"
_PLAN: Final = "plan.parquet"
#: Suffixes of a plan's folder before and after its life.
_DRAFT: Final = ".draft"
_DONE: Final = ".done"
_VERSION: Final = b"bindery.topology_version"
_CLOCK: Final = b"bindery.clock_ms"
_ROUTING: Final = "planned_from"
#: A plan's rows: what QueueWriter takes, and the identity of the unroutable row behind each.
_PLAN_SCHEMA: Final = pa.schema([*BATCH_SCHEMA, (_ROUTING, UNROUTABLE_SCHEMA.field("routing").type)])


@dataclass
class Outcome:
    """What a redrive did: rows routed again, copies made, per queue; `batches` are the ids of its plans.

    `still_unroutable` counts, by reason, the chosen rows that reached no queue this time either.
    """

    redriven: int = 0
    copies: int = 0
    queues: Counter[str] = field(default_factory=Counter)
    still_unroutable: Counter[str] = field(default_factory=Counter)
    batches: list[str] = field(default_factory=list)
    topology_version: int | None = None

    def add(self, other: Outcome) -> None:
        """Add what a further round did."""
        self.redriven += other.redriven
        self.copies += other.copies
        self.queues.update(other.queues)
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
            "still_unroutable": dict(sorted(self.still_unroutable.items())),
            "batches": self.batches,
            "topology_version": self.topology_version,
        }


@dataclass(frozen=True, slots=True)
class _Plan:
    """A durable plan: its folder, and what the rows are routed with."""

    folder: Path
    topology_version: int
    clock_ms: int
    rows: pa.Table

    @property
    def app_id(self) -> str:
        """The stream and app id of the plan's only batch."""
        return f"{STREAM_PREFIX}{self.folder.name}"

    def batch(self) -> pa.RecordBatch:
        """The rows as one batch of BATCH_SCHEMA."""
        return _one_batch(self.rows.select(BATCH_SCHEMA.names))


class Redriver:
    """Redrives the unroutable rows of one vhost. `fault` is called with each step, for tests that stop there."""

    def __init__(
        self, data: DataDir, store: TopologyStore, vhost: str, *, fault: Callable[[str], None] | None = None
    ) -> None:
        store.load().vhost(vhost)
        self._data = data
        self._store = store
        self._vhost = vhost
        self._fault = fault or (lambda _step: None)
        self._plans = Path(data.root, "redrives", encode_name(vhost))

    def redrive(self, selection: Selection, *, dry_run: bool = False) -> Outcome:
        """Route the chosen rows again; what earlier calls left unfinished is finished first.

        With `dry_run` nothing is written and unfinished plans stay. Raises InvalidInput for reasons whose
        rows hold no message.
        """
        unreadable = sorted(selection.reasons & UNREADABLE)
        if unreadable:
            raise InvalidInput(
                f"rows with reason {unreadable[0]} hold no message that could be routed",
                where="reason",
                hint="their raw form is in the column `raw`",
            )
        outcome = Outcome()
        if not dry_run:
            self.finish(outcome)
        while self._round(selection, outcome, dry_run=dry_run):
            pass
        return outcome

    def finish(self, outcome: Outcome | None = None) -> Outcome:
        """Finish the plans that earlier calls left behind."""
        done = Outcome() if outcome is None else outcome
        for folder in sorted(self._plans.glob("*")) if self._plans.is_dir() else ():
            if not folder.suffix:
                self._carry_out(_read_plan(folder), done)
            elif folder.suffix == _DONE or _is_old(folder):
                shutil.rmtree(folder, ignore_errors=True)
        return done

    # -- choosing -------------------------------------------------------------------------------------

    def _round(self, selection: Selection, outcome: Outcome, *, dry_run: bool) -> bool:
        """Plan and carry out one portion of rows; True when there may be more."""
        topology = self._store.load()
        router = Router.compile(topology, self._vhost)
        clock = time.time_ns() // 1_000_000
        found = Outcome(topology_version=topology.version)
        parts: list[pa.Table] = []
        planned = 0
        for rows in self._chosen(selection):
            deliveries = router.route(_one_batch(rows.select(MESSAGE_SCHEMA.names)), clock_ms=clock)
            _count_lost(found, deliveries)
            reached = np.setdiff1d(np.arange(rows.num_rows), deliveries.unroutable.rows)
            if dry_run:
                _count(found, router, deliveries)
            elif len(reached):
                parts.append(rows.take(pa.array(reached)))
                planned += len(reached)
                if planned >= MAX_ROWS:
                    break
        if parts:
            plan = self._write_plan(pa.concat_tables(parts), topology.version, clock)
            self._fault("planned")
            if not self._carry_out(plan, found):
                return True  # another redrive was faster: choose again
        outcome.add(found)
        return planned >= MAX_ROWS

    def _chosen(self, selection: Selection) -> Iterator[pa.Table]:
        """The rows of a selection that hold a message and have not been redriven."""
        unreadable = pa.array(sorted(UNREADABLE))
        for batch in rows_of(self._data, self._vhost, None, where=selection.where):
            rows = pa.Table.from_batches([batch.take(pa.array(selection.places(batch)))])
            closed = pc.or_(pc.is_valid(rows["redriven"]), pc.is_in(rows["reason"], value_set=unreadable))
            rows = rows.filter(pc.invert(closed))
            if rows.num_rows:
                yield rows

    def _write_plan(self, rows: pa.Table, version: int, clock: int) -> _Plan:
        """Written and synced under another name, then renamed to its own."""
        name = f"{clock:014d}-{uuid.uuid4().hex[:12]}"
        draft, folder = self._plans / f"{name}{_DRAFT}", self._plans / name
        draft.mkdir(parents=True)
        planned = rows.select([*MESSAGE_SCHEMA.names, "source"])
        planned = planned.append_column(SEQ, pa.array(np.arange(rows.num_rows)))
        planned = planned.append_column(_ROUTING, rows["routing"]).cast(_PLAN_SCHEMA)
        stated = {_VERSION: str(version).encode(), _CLOCK: str(clock).encode()}
        with (draft / _PLAN).open("wb") as file:
            pq.write_table(planned.replace_schema_metadata(stated), file)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(folder)
        _sync(self._plans)
        return _Plan(folder, version, clock, planned)

    # -- carrying out ---------------------------------------------------------------------------------

    def _carry_out(self, plan: _Plan, outcome: Outcome) -> bool:
        """Mark and deliver a plan, and remove it; False when another redrive has taken rows of it."""
        marked = self._mark(plan)
        if marked:
            self._fault("marked")
            self._deliver(plan, outcome)
            self._fault("delivered")
        _discard(plan.folder)
        shutil.rmtree(self._data.pins(plan.app_id), ignore_errors=True)
        return marked

    def _mark(self, plan: _Plan) -> bool:
        """Claim the plan's rows by marking them; False when one is marked by another redrive, or gone."""
        wanted = set(row_ids(plan.rows.rename_columns([*BATCH_SCHEMA.names, "routing"])))
        value = {"topology_version": plan.topology_version, "batch": plan.app_id}
        return self._set_redriven(wanted, value, Transaction(f"{plan.app_id}:mark", 1), instead_of=None)

    def _set_redriven(
        self, wanted: set[RowId], value: dict[str, Any] | None, once: Transaction, *, instead_of: str | None
    ) -> bool:
        """Set `redriven` of rows in one commit; False unless all of them stand under the batch `instead_of`."""
        path = self._data.unroutable(self._vhost)
        known: dict[str, np.ndarray[Any, np.dtype[np.bool_]] | None] = {}
        log = tables.open_log(path, tables.UNROUTABLE, vhost=self._vhost, files=True)
        tables.grow(log, tables.UNROUTABLE)
        for _ in tables.attempts(path):
            log.refresh()
            if log.transaction_version(once.app_id) is not None:
                return True
            files = tables.files_of(log)
            for name in files:
                if name not in known:
                    known[name] = _holding(Path(path, name), wanted, instead_of)
            touched = {name: mask for name in files if (mask := known[name]) is not None}
            if sum(int(mask.sum()) for mask in touched.values()) != len(wanted):
                return False
            actions: list[AddFile | RemoveFile] = []
            for name, mask in touched.items():
                actions.append(RemoveFile(name, files[name].size))
                actions.append(
                    data_files.write_file(path, _with_redriven(Path(path, name), mask, value), prefix="redrive")
                )
            self._fault("marking")
            info = {"bindery.change": "redrive", "bindery.batch": once.app_id}
            done = log.commit(actions, transactions=[once], info=info)
            if done is not None:
                return True
            data_files.drop_unused(path, [action.path for action in actions if isinstance(action, AddFile)])
        raise AssertionError("attempts() ends by raising")

    def _deliver(self, plan: _Plan, outcome: Outcome) -> None:
        router = Router.compile(self._store.load(version=plan.topology_version), self._vhost)
        batch = plan.batch()
        deliveries = router.route(batch, clock_ms=plan.clock_ms)
        stamp = BatchStamp(plan.app_id, 0, plan.topology_version, plan.clock_ms)
        with BatchCommitter(self._data, stream=plan.app_id, app_id=plan.app_id, fault=self._fault) as committer:
            pin = committer.pin(0, plan.topology_version, plan.clock_ms)
            if not pin.done:
                writer = QueueWriter(
                    self._data,
                    vhost=self._vhost,
                    queues=router.queues,
                    stamp=stamp,
                    attempt=uuid.uuid4().hex[:8],
                )
                writer.add(batch, deliveries)
                committer.commit(0, pin, writer.close(), self._counts(batch, deliveries))
        dropped = self._dropped(plan)
        if dropped:
            self._release(plan, router, deliveries, dropped)
        _count(outcome, router, deliveries, without=dropped)
        outcome.batches.append(plan.app_id)
        outcome.topology_version = plan.topology_version

    def _counts(self, batch: pa.RecordBatch, deliveries: Deliveries) -> BatchCounts:
        exchanges = Counter(pc.fill_null(batch.column("exchange"), "").to_pylist())
        counts = deliveries.counts
        return BatchCounts(
            records=batch.num_rows,
            copies=len(deliveries.rows),
            exchanges={(self._vhost, name): number for name, number in exchanges.items()},
            bindings=dict(zip(counts.ids.tolist(), counts.hits.tolist(), strict=True)),
        )

    def _dropped(self, plan: _Plan) -> set[str]:
        """Queues that were deleted after the plan was made, whose copies were not appended."""
        batches = read_manifest(self._data, app_id=plan.app_id)
        return {one["name"] for batch in batches for one in batch["tables"] if one["dropped"]}

    def _release(self, plan: _Plan, router: Router, deliveries: Deliveries, dropped: set[str]) -> None:
        """Take the mark from rows all of whose queues are gone: they are unroutable still."""
        queue = np.repeat(deliveries.queue, np.diff(deliveries.offsets))
        gone = np.isin(queue, [number for number, name in enumerate(router.queues) if name in dropped])
        lost = np.setdiff1d(np.arange(plan.rows.num_rows), deliveries.rows[~gone])
        if len(lost):
            rows = plan.rows.rename_columns([*BATCH_SCHEMA.names, "routing"]).take(pa.array(lost))
            once = Transaction(f"{plan.app_id}:release", 1)
            self._set_redriven(set(row_ids(rows)), None, once, instead_of=plan.app_id)


# -- rows and files -----------------------------------------------------------------------------------


def _one_batch(rows: pa.Table) -> pa.RecordBatch:
    batches = rows.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=rows.schema)


def _read_plan(folder: Path) -> _Plan:
    try:
        rows = pq.read_table(folder / _PLAN)
        stated = rows.schema.metadata
        return _Plan(folder, int(stated[_VERSION]), int(stated[_CLOCK]), rows.replace_schema_metadata(None))
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise UnsupportedTable(f"damaged redrive plan {folder}: {error}", where=str(folder)) from error


def _discard(folder: Path) -> None:
    """Remove a plan; what is half removed is never taken for one."""
    done = folder.with_suffix(_DONE)
    with contextlib.suppress(FileNotFoundError):  # another process has finished the same plan
        folder.rename(done)
    shutil.rmtree(done, ignore_errors=True)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _is_old(folder: Path) -> bool:
    """Whether a draft is a day old: nobody writes it any more."""
    try:
        return time.time() - folder.stat().st_mtime > 86_400
    except FileNotFoundError:
        return False


def _holding(path: Path, wanted: set[RowId], instead_of: str | None) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
    """Which rows of a file are wanted and stand under that batch; None for a file without any."""
    rows = ds.dataset(str(path), schema=UNROUTABLE_SCHEMA, format="parquet").to_table(columns=["routing", "redriven"])
    mask = np.array([row in wanted for row in row_ids(rows)], np.bool_)
    batches = pc.struct_field(rows["redriven"].combine_chunks(), "batch").to_pylist()
    mask &= np.array([batch == instead_of for batch in batches], np.bool_)
    return mask if mask.any() else None


def _with_redriven(path: Path, mask: np.ndarray[Any, np.dtype[np.bool_]], value: dict[str, Any] | None) -> pa.Table:
    rows = ds.dataset(str(path), schema=UNROUTABLE_SCHEMA, format="parquet").to_table()
    column = pc.if_else(pa.array(mask), pa.scalar(value, REDRIVEN), rows["redriven"].combine_chunks())
    return rows.set_column(rows.schema.get_field_index("redriven"), UNROUTABLE_SCHEMA.field("redriven"), column)


# -- counting -----------------------------------------------------------------------------------------


def _count_lost(outcome: Outcome, deliveries: Deliveries) -> None:
    counts = deliveries.counts.reasons.tolist()
    outcome.still_unroutable.update({name: n for name, n in zip(REASONS, counts, strict=True) if n})


def _count(
    outcome: Outcome, router: Router, deliveries: Deliveries, *, without: AbstractSet[str] = frozenset()
) -> None:
    """Count the rows and copies of deliveries, but for queues that are gone."""
    names = [router.queues[number] for number in deliveries.queue.tolist()]
    copies = np.diff(deliveries.offsets)
    kept = np.array([name not in without for name in names], np.bool_)
    outcome.queues.update({n: int(c) for n, c, keep in zip(names, copies, kept, strict=True) if keep})
    outcome.copies += int(copies[kept].sum())
    outcome.redriven += len(np.unique(deliveries.rows[np.repeat(kept, copies)]))
