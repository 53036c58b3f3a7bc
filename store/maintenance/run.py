"""One pass of maintenance: limits of queues; of tables compaction, checkpoint, log cleanup, vacuum.

Each table's steps stand for themselves: a pass that is interrupted, or that fails at one table, has done
what it has done, and the next one goes on. Several maintainers may run at once: whoever holds a table's lock
works on it, the others leave it to that one; were the lock ignored (a file system without `flock`), every
commit would still be compare-and-swap.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from bindery.router.errors import BinderyError, NotFound, Stopped, UnsupportedTable
from bindery.router.model import Queue
from bindery.router.queue_limits import LimitsOf, QueueLimits
from bindery.store import checkpoints, kept_totals, tables
from bindery.store.actions import AddFile
from bindery.store.backfill import declared_backfills, finish_backfills
from bindery.store.deduplication import past_window
from bindery.store.deferred import Flushed, materialise_overdue
from bindery.store.limiting import LimitsReport, finish_dead_letters, keep_limits, take_in
from bindery.store.log import TableLog
from bindery.store.maintenance.cleanup import clean_log, superfluous, wants_checkpoint
from bindery.store.maintenance.compaction import compact
from bindery.store.maintenance.holds import Holds, find_holds
from bindery.store.maintenance.horizon import Horizon, horizon, state_properties
from bindery.store.maintenance.journals import past_keeping, trimmed_mark
from bindery.store.maintenance.leftovers import leftovers, sweep
from bindery.store.maintenance.listing import LogFiles
from bindery.store.maintenance.policy import Policy
from bindery.store.maintenance.summaries import summarise
from bindery.store.maintenance.table_places import TablePlace, place_of, table_places
from bindery.store.maintenance.tiers import merges
from bindery.store.maintenance.trimming import trim
from bindery.store.maintenance.vacuum import unneeded, vacuum
from bindery.store.manifest import MANIFEST
from bindery.store.paths import DataDir
from bindery.store.places import LocalPlace, at
from bindery.store.topology import TopologyStore

_LOGGER: Final = logging.getLogger(__name__)
_LOCK: Final = ".maintenance"
#: Kinds of tables whose old rows go, as a whole file each.
_TRIMMED: Final = (tables.JOURNAL, tables.DEDUP)


@dataclass(slots=True)
class TableReport:
    """What was done to a table, or would be: files merged into others, rows summed up, files of old rows that
    a journal, or what repeats are known by, no longer has, files deleted.

    `listed` counts the entries of the log before that: what a look at the table has to go through.
    `left` tells that another maintainer works on the table; `error` why it could not be maintained.
    """

    name: str
    kind: str
    merged: int = 0
    into: int = 0
    summed: int = 0
    trimmed: int = 0
    entries: int = 0
    checkpoints: int = 0
    deleted: int = 0
    freed_bytes: int = 0
    listed: int = 0
    held_by: tuple[str, ...] = ()
    left: bool = False
    error: str | None = None

    @property
    def is_touched(self) -> bool:
        """Whether there was anything to do."""
        return bool(
            self.merged
            or self.summed
            or self.trimmed
            or self.entries
            or self.checkpoints
            or self.deleted
            or self.error
            or self.held_by
        )


@dataclass(slots=True)
class Report:
    """What a pass did, or would do; `idle` are streams that have not moved for so long that they hold nothing.

    `limits` are the queues that limits bound, in the order of their names; `finished` are dead letters of passes that
    were interrupted, `materialised` late copies of deferred queues, and `backfilled` the rows that backfills have
    brought, by vhost and queue.
    """

    tables: list[TableReport] = field(default_factory=list)
    idle: tuple[str, ...] = ()
    leftovers: int = 0
    limits: list[LimitsReport] = field(default_factory=list)
    finished: int = 0
    materialised: int = 0
    backfilled: dict[str, dict[str, int]] = field(default_factory=dict)
    dry_run: bool = False

    @property
    def failed(self) -> list[TableReport | LimitsReport]:
        """The tables that could not be maintained, and the queues whose limits could not be kept."""
        parts: list[TableReport | LimitsReport] = [*self.limits, *self.tables]
        return [one for one in parts if one.error is not None]

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data."""
        return asdict(self)


class Limited(NamedTuple):
    """A queue that limits bound, and where its table is."""

    queue: Queue
    limits: QueueLimits
    place: TablePlace


def now() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def maintain(
    data: DataDir,
    policy: Policy | None = None,
    *,
    dry_run: bool = False,
    only: Callable[[TablePlace], bool] | None = None,
    report: Callable[[str, int, int], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
    clock: Callable[[], int] = now,
) -> Report:
    """One pass over the tables of a data directory (those that `only` accepts) and what else was left behind.

    Limits of queues are kept first. `report` is called after each queue that has any, and after each table, with a
    name, its number and how many there are; `stop` tells between them whether to end; `clock` gives the time in
    milliseconds. What goes wrong at a queue or table is in its report.
    """
    rules = policy or Policy()
    wanted = [place for place in table_places(data) if only is None or only(place)]
    holds = find_holds(data, rules.hold_limit, clock())
    done = Report(idle=_idle(holds), dry_run=dry_run)
    topologies = TopologyStore(data)
    limited: list[Limited] = []
    if tables.exists(data.topology):
        try:
            limited += limited_queues(topologies, only)
            done.finished = 0 if dry_run else finish_dead_letters(topologies)
            if only is None and not dry_run:
                done.materialised = sum(one.copies for one in materialise_overdue(topologies, clock(), stop=stop))
            if only is None:
                done.backfilled = declared_backfills(topologies) if dry_run else finish_backfills(topologies, stop=stop)
        except Stopped:
            return done
        except UnsupportedTable as error:  # who cannot be told has no limits; tables are maintained all the same
            done.limits.append(LimitsReport("", "", error=str(error)))
    all_limits = maintain_limits(topologies, limited, dry_run=dry_run, clock=clock, stop=stop)
    for number, (_, kept_limits) in enumerate(all_limits, 1):
        done.limits.append(kept_limits)
        if report is not None:
            report(kept_limits.name, number, len(limited) + len(wanted))
    for number, place in enumerate(wanted, 1 + len(limited)):
        if stop():
            return done
        one = maintain_table(place, None, rules, holds, dry_run=dry_run, clock=clock)
        done.tables.append(one)
        if report is not None:
            report(one.name, number, len(limited) + len(wanted))
    if only is None:
        found = leftovers(data, rules, clock())
        done.leftovers = len(found) if dry_run else sweep(found)
    return done


def limited_queues(store: TopologyStore, only: Callable[[TablePlace], bool] | None = None) -> Iterator[Limited]:
    """The queues of the newest topology that limits bound (those whose table `only` accepts)."""
    for queue, limits in LimitsOf(store.load()).limited():
        place = place_of(store.data, tables.QUEUE, store.data.queue(queue.vhost, queue.name))
        if only is None or only(place):
            yield Limited(queue, limits, place)


def maintain_limits(
    store: TopologyStore,
    limited: Sequence[Limited],
    *,
    dry_run: bool = False,
    clock: Callable[[], int] = now,
    stop: Callable[[], bool] = lambda: False,
    took: Callable[[Flushed], None] = lambda _: None,
) -> Iterator[tuple[Limited, LimitsReport]]:
    """Keep the limits of queues, one after the other, but for those at whose tables somebody else is.

    Where limits may act on what waits for deferred queues their tables get it first; `took` is told of that. `stop`
    tells between queues whether to end. What goes wrong at a queue is in its report.
    """
    late = {} if dry_run else take_in(store, ((one.queue, one.limits) for one in limited), clock, stop=stop, took=took)
    for one in limited:
        if stop():
            return
        if dry_run:
            yield one, keep_limits(store, one.queue, one.limits, clock, dry_run=True)
            continue
        with _claimed(one.place) as mine:
            if mine:
                report = keep_limits(store, one.queue, one.limits, clock, stop=stop, late=late)
            else:
                report = LimitsReport(one.queue.vhost, one.queue.name, left=True)
        yield one, report


def maintain_table(
    place: TablePlace,
    log: TableLog | None,
    policy: Policy,
    holds: Holds,
    *,
    dry_run: bool = False,
    clock: Callable[[], int] = now,
) -> TableReport:
    """Maintain one table, whose log may be known already (with its files); errors are in the report."""
    found = TableReport(place.name, place.kind.name)
    try:
        log = log or place.open()
        if dry_run:
            _look(place, log, policy, holds, found, clock())
            return found
        with _claimed(place) as mine:
            found.left = not mine
            if mine:
                _work(place, log, policy, holds, found, clock())
    except (BinderyError, OSError) as error:
        found.error = _said(error)
        _LOGGER.warning("%s could not be maintained: %s", place.path, found.error)
    return found


def compact_table(place: TablePlace, log: TableLog, policy: Policy) -> TableReport:
    """Compaction alone: what is cheap enough to be done all the time."""
    found = TableReport(place.name, place.kind.name)
    try:
        with _claimed(place) as mine:
            found.left = not mine
            if mine:
                _compact(place, log, policy, found)
    except (BinderyError, OSError) as error:
        found.error = _said(error)
        _LOGGER.warning("%s could not be compacted: %s", place.path, found.error)
    return found


def _said(error: BinderyError | OSError) -> str:
    """What went wrong; the table is named where it is told."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _compact(place: TablePlace, log: TableLog, policy: Policy, found: TableReport) -> None:
    if place.is_forever:
        return  # its commits merge in passing, and each of its versions means something
    done = compact(place, log, policy)
    found.merged, found.into = done.removed, done.added


def _work(place: TablePlace, log: TableLog, policy: Policy, holds: Holds, found: TableReport, now_ms: int) -> None:
    log.refresh()
    state_properties(place, log, policy)
    if place.kind is MANIFEST:
        found.summed = summarise(place, log, policy, now_ms)
    if place.kind in _TRIMMED:
        mark = partial(trimmed_mark, log) if place.kind is tables.JOURNAL else lambda _: ()
        found.trimmed = trim(log, lambda: _past(place, log, now_ms), mark)
    _compact(place, log, policy, found)
    if checkpoints.is_due(place.path, log.version):
        checkpoints.write_checkpoint(place.path)
    files = LogFiles.of(place.path)
    found.listed = len(files.entries)
    kept = horizon(place, log, files, policy, holds.active, now_ms)
    found.held_by = () if kept is None else kept.held
    # before the log: what the entries that go know about removed files is still known
    waste = unneeded(log, files, kept, policy.orphan_age, now_ms)
    found.deleted, found.freed_bytes = vacuum(log, waste), waste.bytes
    cleaned = clean_log(files, kept)
    found.entries, found.checkpoints = cleaned.entries, cleaned.checkpoints
    if wants_checkpoint(files, kept):
        checkpoints.write_checkpoint(place.path)
    if place.kind is MANIFEST:
        kept_totals.keep(place.path)


def _past(place: TablePlace, log: TableLog, now_ms: int) -> list[AddFile]:
    """The files of a table that is trimmed which it need not have any more."""
    return past_keeping(log, now_ms) if place.kind is tables.JOURNAL else past_window(log)


def _look(place: TablePlace, log: TableLog, policy: Policy, holds: Holds, found: TableReport, now_ms: int) -> None:
    """What `_work` would do now."""
    if place.kind in _TRIMMED:
        found.trimmed = len(_past(place, log, now_ms))
    files = LogFiles.of(place.path)
    kept: Horizon | None = horizon(place, log, files, policy, holds.active, now_ms)
    if not place.is_forever:
        planned = merges(tables.files_of(log).values(), policy, place.most_rows, apart_ms=place.apart_ms)
        found.merged, found.into = sum(map(len, planned)), len(planned)
    waste = unneeded(log, files, kept, policy.orphan_age, now_ms)
    found.deleted, found.freed_bytes = waste.number, waste.bytes
    gone = superfluous(files, kept)
    found.entries, found.checkpoints = len(gone.entries), len(gone.checkpoints)
    found.held_by = () if kept is None else kept.held


def _idle(holds: Holds) -> tuple[str, ...]:
    streams = tuple(sorted({hold.stream for hold in holds.expired}))
    for stream in streams:
        _LOGGER.warning(
            "checkpoint %s has not moved for longer than the limit: what it has not read yet may be removed", stream
        )
    return streams


@contextmanager
def _claimed(place: TablePlace) -> Iterator[bool]:
    """Whether this process may work on a table: nobody else does. The kernel frees what a dead process held."""
    lock = at(place.path, _LOCK)
    if not isinstance(lock, LocalPlace):
        yield True  # an object store has no locks: commits alone protect
        return
    handle = os.open(lock.path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError:
            pass  # a file system without locks: commits alone protect
        yield True
    finally:
        os.close(handle)


def in_vhost(data: DataDir, vhost: str, queue: str | None) -> Callable[[TablePlace], bool]:
    """Accepts the tables of a vhost, journals of its streams too, or of a queue. Raises NotFound for none."""
    if queue is not None:
        path = data.queue(vhost, queue)
        if not tables.exists(path):
            raise NotFound(f"no queue {queue!r} in vhost {vhost!r}", where=path)
        return lambda place: place.path == path
    folder = at(data.queue(vhost, "any")).parent
    own = {data.unroutable(vhost), data.inbox(vhost)}

    def is_of_vhost(place: TablePlace) -> bool:
        if place.kind is tables.JOURNAL:
            try:
                return place.open().state.configuration.get("bindery.vhost") == vhost
            except UnsupportedTable:
                return True  # whose it is cannot be told: its report says what is wrong with it
        return place.path in own or at(place.path).parent == folder

    return is_of_vhost
