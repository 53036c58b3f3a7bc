"""Maintenance beside a committer: on a thread of its own, as often as commits make it worth while.

A table is compacted when a fan-in of commits has gathered, and cleaned up after a number of commits that
grows with what there is to list. So both cost about the same per commit, however large the tables are, and
nothing where nothing is committed. What goes wrong is logged and harms no commit.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from bindery.router.errors import Stopped
from bindery.store import tables
from bindery.store.backfill import finish_backfills
from bindery.store.commit import TableCommit
from bindery.store.deferred import Flushed, materialise_overdue
from bindery.store.limiting import finish_dead_letters
from bindery.store.log import TableLog
from bindery.store.maintenance.holds import Holds, find_holds
from bindery.store.maintenance.policy import Policy
from bindery.store.maintenance.run import (
    compact_table,
    limited_queues,
    maintain,
    maintain_limits,
    maintain_table,
    now,
)
from bindery.store.maintenance.table_places import TablePlace, place_of
from bindery.store.maintenance.tiers import gathered
from bindery.store.manifest import MANIFEST
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore

#: Kinds of tables that batches are committed to.
_ROUTED: Final = {kind.name: kind for kind in (tables.QUEUE, tables.UNROUTABLE, tables.JOURNAL, tables.DEDUP)}
_LOGGER: Final = logging.getLogger(__name__)
#: Commits after which a table is cleaned up, at least; one for every so many files that it lists, if more.
_CLEAN_COMMITS: Final = 64
_FILES_PER_COMMIT: Final = 16
#: Seconds after which any commit is reason enough, and the fewest that a short retention makes of them.
_CLEAN_SECONDS: Final = 3_600.0
_CLEAN_SECONDS_LEAST: Final = 60.0
#: Seconds from one look at the limits of queues to the next.
_LIMITS_SECONDS: Final = 60.0
#: Seconds for which what holds versions back is taken to be what it was.
_HOLDS_SECONDS: Final = 30.0
#: Seconds that `drain` waits for work that is due or has begun.
_DRAIN_SECONDS: Final = 60.0


@dataclass(slots=True)
class _Table:
    """One table, and the commits to it since it was cleaned up last.

    It is compacted when `fresh` files have gathered, as far as that is known: `patience` of them, which is not
    the same for all tables, so that not all of them are compacted after the same batch.
    """

    place: TablePlace
    patience: int
    since: float
    fresh: int = 0
    uncleaned: int = 0
    listed: int = 0
    log: TableLog | None = None

    def wants_cleaning(self, moment: float, seconds: float) -> bool:
        if self.uncleaned >= max(_CLEAN_COMMITS, self.listed // _FILES_PER_COMMIT):
            return True
        return self.uncleaned > 0 and moment - self.since >= seconds


class Upkeep:
    """Maintains the tables that batches are committed to; `committed` tells of each batch.

    Every `limits_each` (seconds) the limits of queues are kept, and backfills that are not done are gone on with. With
    `everything_each` (seconds) every table of the data directory is looked at that often too, and what was left behind
    outside of tables. Any commit to a table is reason to clean it up after an hour, or after as long as the
    policy keeps what is old, if that is less. Use as a context, or `close` it.
    """

    def __init__(
        self,
        data: DataDir,
        policy: Policy | None = None,
        *,
        everything_each: float | None = None,
        limits_each: float = _LIMITS_SECONDS,
    ) -> None:
        self._data = data
        self._policy = policy or Policy()
        self._each = everything_each
        self._limits_each = limits_each
        # what is past a shorter retention than an hour does not lie there for an hour more
        kept = self._policy.retention
        shorter = _CLEAN_SECONDS if kept is None else max(_CLEAN_SECONDS_LEAST, kept.total_seconds())
        self._clean_each = min(_CLEAN_SECONDS, shorter)
        self._topologies = TopologyStore(data)
        self._tables: dict[str, _Table] = {}
        self._holds: tuple[float, Holds] | None = None
        self._changed = threading.Condition()
        self._stopping = False
        self._busy = False
        self._thread = threading.Thread(target=self._run, name="maintenance", daemon=True)
        self._thread.start()
        # native code on a thread must not outlive the interpreter
        atexit.register(self.close)

    def __enter__(self) -> Upkeep:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def drain(self) -> None:
        """Wait until what is due has been done, for `_DRAIN_SECONDS` at most: what is left is done another time."""
        with self._changed:
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._busy and not self._due(time.monotonic()), _DRAIN_SECONDS)

    def close(self) -> None:
        """Stop after the table that is worked on."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join()
        atexit.unregister(self.close)

    def committed(self, commits: Iterable[TableCommit]) -> None:
        """A batch has been committed to these tables and to the manifest; returns at once."""
        with self._changed:
            self._count(MANIFEST, self._data.manifest)
            for one in commits:
                self._count(_ROUTED[one.kind], self._data.routed(one.kind, one.vhost, one.name))
            if self._due(time.monotonic()):
                self._changed.notify_all()

    def flushed(self, done: Flushed) -> None:
        """Deferred queues have got files; returns at once."""
        with self._changed:
            for name in done.queues:
                self._count(tables.QUEUE, self._data.queue(done.vhost, name))
            if self._due(time.monotonic()):
                self._changed.notify_all()

    def _count(self, kind: tables.Kind, path: str) -> None:
        table = self._tables.get(path)
        if table is None:
            fan_in = self._policy.fan_in
            patience = fan_in + zlib.crc32(path.encode()) % (fan_in // 2 + 1)
            table = _Table(place_of(self._data, kind, path), patience, time.monotonic())
            self._tables[path] = table
        table.fresh += 1
        table.uncleaned += 1

    def _due(self, moment: float) -> list[_Table]:
        return [
            one
            for one in self._tables.values()
            if one.fresh >= one.patience or one.wants_cleaning(moment, self._clean_each)
        ]

    # -- the thread ---------------------------------------------------------------------------------

    def _run(self) -> None:
        whole = time.monotonic() + (self._each or 0)
        limits = time.monotonic() + self._limits_each
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                due = self._due(time.monotonic())
                if not due and not self._stopping:
                    self._changed.wait(self._pause(whole, limits))
                    due = self._due(time.monotonic())
                if self._stopping:
                    return
                self._busy = bool(due)
            for table in due:
                if self._stopping:
                    return
                self._guarded(table)
            if time.monotonic() >= limits:
                self._keep_limits()
                self._backfill()
                limits = time.monotonic() + self._limits_each
            if self._each is not None and time.monotonic() >= whole:
                self._whole()
                whole = time.monotonic() + self._each

    def _pause(self, whole: float, limits: float) -> float:
        moment = time.monotonic()
        pause = self._clean_each if self._each is None else whole - moment
        return max(0.0, min(pause, limits - moment))

    def _guarded(self, table: _Table) -> None:
        cleaning = table.wants_cleaning(time.monotonic(), self._clean_each)
        with self._changed:
            table.fresh = 0
            if cleaning:
                table.uncleaned, table.since = 0, time.monotonic()
        try:
            table.log = table.log or table.place.open()
            if cleaning:
                report = maintain_table(table.place, table.log, self._policy, self._present_holds())
                table.listed = report.listed
            else:
                report = compact_table(table.place, table.log, self._policy)
            if report.error is not None:
                table.log = None
            else:
                place, files = table.place, tables.files_of(table.log).values()
                left = gathered(files, self._policy, place.most_rows, apart_ms=place.apart_ms)
                with self._changed:
                    table.fresh += min(left, self._policy.fan_in - 1)
        except Exception:
            table.log = None
            _LOGGER.exception("%s could not be maintained", table.place.path)

    def _present_holds(self) -> Holds:
        moment = time.monotonic()
        if self._holds is None or moment - self._holds[0] > _HOLDS_SECONDS:
            self._holds = (moment, find_holds(self._data, self._policy.hold_limit, now()))
        return self._holds[1]

    def _keep_limits(self) -> None:
        try:
            if not tables.exists(self._data.topology):
                return
            for done in materialise_overdue(self._topologies, now(), stop=lambda: self._stopping):
                self.flushed(done)
            finish_dead_letters(self._topologies)
            bounded = list(limited_queues(self._topologies))
            every = maintain_limits(self._topologies, bounded, stop=lambda: self._stopping, took=self.flushed)
            for limited, found in every:
                if found.is_touched and not found.deleted:
                    with self._changed:
                        self._count(tables.QUEUE, limited.place.path)
                if found.error is not None:
                    _LOGGER.warning("the limits of %s could not be kept: %s", found.name, found.error)
        except Exception:
            _LOGGER.exception("the limits of queues could not be kept")

    def _backfill(self) -> None:
        try:
            if tables.exists(self._data.topology):
                finish_backfills(self._topologies, stop=lambda: self._stopping)
        except Stopped:
            pass  # whoever comes next goes on
        except Exception:
            _LOGGER.exception("backfills could not be gone on with")

    def _whole(self) -> None:
        try:
            maintain(self._data, self._policy, stop=lambda: self._stopping)
        except Exception:
            _LOGGER.exception("%s could not be maintained", self._data.root)
