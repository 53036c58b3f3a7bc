"""How many messages queues hold: from the statistics of their Delta logs, which are followed.

Copies that wait for deferred queues in journals are counted with the rows of their tables: the journals are looked at
first, then the logs of the queues (`bindery.store.deferred.live`).

A queue's count is remembered with the time its log folder last changed. A folder that changed a moment
ago is looked at again: two commits within one tick of the file system's clock look alike. A look at a
queue that has changed reads what was committed since the last one, however long its history is; of
queues that were not looked at for long only the count is remembered, and their log is read again.

Many queues at once, and totals, are looked at again only when something has been committed that changes
them: a topology, a batch, whatever this process takes out. What another process takes out, or what
maintenance rewrites, is then seen `MAX_AGE` seconds later at most, as in the broker's statistics.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from bindery.router.errors import StorageFailed, UnsupportedTable
from bindery.router.model import Queue, Topology
from bindery.store import effects, tables
from bindery.store.deferred.following import Journals, Look
from bindery.store.deferred.live import Progress, waiting_counts
from bindery.store.limit_counts import Reason, deleted
from bindery.store.log import TableLog, entry_name
from bindery.store.paths import DataDir
from bindery.store.places import at
from bindery.store.topology import TopologyStore

#: Age, in nanoseconds, from which on a folder's time stamp is trusted.
_SETTLED_NS: Final = 100_000_000
_FIRST, _SECOND = entry_name(0), entry_name(1)
_WORKERS: Final = 4
#: Tables from which on they are opened by several threads.
_MANY: Final = 16
#: Seconds that lists and totals may lag behind what another process takes out; RabbitMQ collects statistics as often.
MAX_AGE: Final = 5.0
#: Queues whose counts are remembered, and files in the logs that are followed, at most.
MAX_QUEUES: Final = 100_000
MAX_FILES: Final = 50_000


@dataclass(frozen=True, slots=True)
class Held:
    """What a queue holds: messages, bytes of its table's files, and when that last changed (seconds since 1970).

    `limited` are the rows that its limits have deleted, by reason; `waiting` those messages that its table has not yet.
    """

    messages: int = 0
    size: int = 0
    changed: float = 0.0
    limited: Mapping[Reason, int] = field(default_factory=dict)
    waiting: int = 0

    def __add__(self, other: Held) -> Held:
        return Held(
            self.messages + other.messages,
            self.size + other.size,
            max(self.changed, other.changed),
            waiting=self.waiting + other.waiting,
        )


@dataclass(frozen=True, slots=True)
class _InTable:
    """What a queue's table holds, and how far it has come with what waits for it."""

    held: Held = field(default_factory=Held)
    progress: Progress = field(default_factory=Progress)


#: A time in which queues are taken not to change: when a topology and a batch were committed last, what this
#: process has taken out, the clock, and the versions of journals.
_Era = tuple[int, int, int, float, tuple[tuple[str, str, int], ...]]


@dataclass(slots=True)
class _Queue:
    """What is known of one queue; `lock` is held by whoever looks at it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    stamp: int | None = None
    found: _InTable = field(default_factory=_InTable)
    log: TableLog | None = None
    files: int = 0
    #: When it was looked at together with many.
    era: _Era | None = None


class Counts:
    """Message counts of the queues of one data directory; safe between threads."""

    def __init__(
        self,
        data: DataDir,
        topology: Callable[[], Topology] | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`topology` gives the newest one; it is read where nothing does."""
        self._data = data
        self._topology = topology or TopologyStore(data).load
        self._journals = Journals(data)
        self._is_remote = at(data.root).is_remote
        self._clock = clock
        self._changes = 0
        self._totals: tuple[int, _Era | None, Mapping[str, Held]] | None = None
        self._gate = threading.Lock()
        self._many = threading.Lock()
        #: By the time of the last look, the oldest first: all that are known, and those whose log is followed.
        self._queues: OrderedDict[tuple[str, str], _Queue] = OrderedDict()
        self._followed: OrderedDict[tuple[str, str], _Queue] = OrderedDict()
        self._files = 0

    @property
    def files(self) -> int:
        """Files in the logs that are followed: `MAX_FILES` at most."""
        return self._files

    def of(self, vhost: str, name: str) -> Held:
        """What one queue holds now; raises UnsupportedTable for a damaged table, StorageFailed for a failing disk."""
        return self._each([(vhost, name)])[0]

    def of_many(self, queues: Iterable[tuple[str, str]]) -> list[Held]:
        """What each of the queues holds, in order; of many, what they held `MAX_AGE` seconds ago or later."""
        wanted = list(queues)
        if len(wanted) < _MANY:
            return self._each(wanted)
        with self._many:  # whoever comes meanwhile finds what was looked at
            return self._of_many(wanted)

    def _each(self, wanted: list[tuple[str, str]]) -> list[Held]:
        look, ids = self._look_at_journals()
        return _whole(look, ids, wanted, [self._in_table(*key) for key in wanted])

    def _in_table(self, vhost: str, name: str) -> _InTable:
        key = (vhost, name)
        with self._gate:
            queue = self._queues.setdefault(key, _Queue())
            self._queues.move_to_end(key)
        with queue.lock:
            found = self._look(queue, vhost, name)
        self._bound(key, queue)
        return found

    def _look_at_journals(self) -> tuple[Look, Mapping[tuple[str, str], Queue]]:
        """What waits in journals, and, where there is something, the queues that there are."""
        look = self._journals.look()
        return look, self._topology().queues if look.journals else {}

    def _of_many(self, wanted: list[tuple[str, str]]) -> list[Held]:
        journals, ids = self._look_at_journals()
        era = self._era(journals)
        known = {} if era is None else {key: queue.found for key in wanted if (queue := self._known(key, era))}
        missing = [key for key in wanted if key not in known]

        def look(keys: list[tuple[str, str]]) -> None:
            for key in keys:
                known[key] = self._in_table(*key)
                queue = self._queues.get(key)
                if queue is not None:
                    queue.era = era

        if len(missing) < _MANY:
            look(missing)
        else:
            share = -(-len(missing) // _WORKERS)
            # a task a thread: handing over one queue at a time costs far more than looking at it
            with ThreadPoolExecutor(_WORKERS, "counts") as pool:
                list(pool.map(look, (missing[start : start + share] for start in range(0, len(missing), share))))
        return _whole(journals, ids, wanted, [known[key] for key in wanted])

    def held_in(self, topology: Topology) -> Mapping[str, Held]:
        """What the queues of each vhost hold together, as `of_many` tells it; no entry without queues."""
        era = self._era(self._journals.look())
        known = self._totals
        if known is None or era is None or known[:2] != (topology.version, era):
            found: dict[str, Held] = {}
            for (vhost, _), held in zip(topology.queues, self.of_many(topology.queues), strict=True):
                found[vhost] = found.get(vhost, Held()) + held
            known = self._totals = (topology.version, era, found)
        return known[2]

    def messages_in(self, topology: Topology) -> Counter[str]:
        """How many messages the queues of each vhost hold; no entry without queues."""
        return Counter({vhost: held.messages for vhost, held in self.held_in(topology).items()})

    def changed(self) -> None:
        """This process has taken something out of a queue: whoever asks next looks again."""
        with self._gate:
            self._changes += 1

    def _era(self, journals: Look) -> _Era | None:
        """The present one; None right after a commit, when there may be another one within the same tick.

        The journals have been looked at before.
        """
        if self._is_remote:
            return 0, 0, self._changes, self._clock() // MAX_AGE, journals.versions
        now = time.time_ns()
        topology, manifest = (self._changed_at(table) for table in (self._data.topology, self._data.manifest))
        if now - max(topology, manifest) <= _SETTLED_NS:
            return None
        return topology, manifest, self._changes, self._clock() // MAX_AGE, journals.versions

    def _changed_at(self, table: str) -> int:
        """When a table's log folder last changed; 0 for a table that is not there."""
        folder = f"{table}/_delta_log"
        try:
            return os.stat(folder).st_mtime_ns  # noqa: PTH116  # a Path takes as long as the look, of 10,000 queues
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise StorageFailed(f"cannot look at {folder}: {error.strerror}", where=table) from error

    def _known(self, key: tuple[str, str], era: _Era) -> _Queue | None:
        queue = self._queues.get(key)
        return queue if queue is not None and queue.era == era else None

    def _look(self, queue: _Queue, vhost: str, name: str) -> _InTable:
        path = self._data.queue(vhost, name)
        if self._is_remote:
            return self._look_remote(queue, vhost, name)
        changed = self._changed_at(path)
        if not changed:
            # deleted with its folder while a list was made
            queue.stamp, queue.log, queue.found = None, None, _InTable()
            return queue.found
        if queue.stamp == changed:
            return queue.found
        created = _created(Path(path, "_delta_log")) if queue.log is None else None
        if created is not None:
            queue.found = _InTable(Held(changed=changed / 1e9), created)
        else:
            log = queue.log = self._follow(queue.log, vhost, name)
            size = sum(file.size for file in tables.files_of(log).values())
            held = Held(tables.rows_in(log), size, changed / 1e9, deleted(log))
            queue.found = _InTable(held, Progress.of(log))
        queue.stamp = changed if time.time_ns() - changed > _SETTLED_NS else None
        return queue.found

    def _look_remote(self, queue: _Queue, vhost: str, name: str) -> _InTable:
        """What an object store has no folder's time for is told by the log: two requests without news."""
        table = at(self._data.queue(vhost, name))
        try:
            log = queue.log = self._follow(queue.log, vhost, name)
        except UnsupportedTable:
            with effects.looking(table):
                if table.is_folder():
                    raise
            queue.log, queue.found = None, _InTable()  # deleted with its folder while a list was made
            return queue.found
        files = tables.files_of(log).values()
        newest = max((file.modified_ms for file in files), default=0)
        held = Held(tables.rows_in(log), sum(file.size for file in files), newest / 1000, deleted(log))
        queue.found = _InTable(held, Progress.of(log))
        return queue.found

    def _follow(self, log: TableLog | None, vhost: str, name: str) -> TableLog:
        """The log at its newest version; one that can be followed no further is read anew."""
        if log is not None:
            state = log.state
            try:
                log.refresh()
                if log.state is not state:
                    tables.check_table(log.state, log.path, tables.QUEUE, vhost=vhost, name=name)
            except UnsupportedTable:
                pass
            else:
                return log
        return tables.open_log(self._data.queue(vhost, name), tables.QUEUE, vhost=vhost, name=name, files=True)

    def _bound(self, key: tuple[str, str], queue: _Queue) -> None:
        """Count what the queue's log holds now, and let go of what was not looked at for long."""
        with self._gate:
            if self._queues.get(key) is not queue:
                return  # let go of meanwhile
            log = queue.log
            files = 0 if log is None else len(tables.files_of(log))
            self._files += files - queue.files
            queue.files = files
            if log is None:
                self._followed.pop(key, None)
            else:
                self._followed[key] = queue
                self._followed.move_to_end(key)
            while self._files > MAX_FILES:
                _, oldest = self._followed.popitem(last=False)
                self._files -= oldest.files
                oldest.files, oldest.log = 0, None
            while len(self._queues) > MAX_QUEUES:
                gone, oldest = self._queues.popitem(last=False)
                self._followed.pop(gone, None)
                self._files -= oldest.files


def _whole(
    look: Look, queues: Mapping[tuple[str, str], Queue], keys: Sequence[tuple[str, str]], found: Sequence[_InTable]
) -> list[Held]:
    """What queues hold: what their tables do, which have been looked at after the journals, and what waits for them."""
    if not look.journals:
        return [one.held for one in found]
    ids = [queues[key].id if key in queues else -1 for key in keys]
    waiting = waiting_counts(
        look.journals,
        {number: one.progress for number, one in zip(ids, found, strict=True) if number >= 0},
    )
    return [
        replace(one.held, messages=one.held.messages + waiting[number], waiting=waiting[number])
        if number in waiting
        else one.held
        for number, one in zip(ids, found, strict=True)
    ]


def _created(folder: Path) -> Progress | None:
    """What the log of a table says to which nothing was committed but its creation, without rows; None of others.

    A table that was rebuilt begins with rows, or with how far streams had come.
    """
    if (folder / _SECOND).exists() or (folder / "_last_checkpoint").exists():
        return None
    undeclared = -1
    try:
        with (folder / _FIRST).open("rb") as entry:
            for action in entry:
                if action.startswith(b'{"add"'):
                    return None
                if action.startswith(b'{"txn"'):
                    stated = json.loads(action)["txn"]
                    if stated["appId"] != tables.undeclared(0).app_id:
                        return None
                    undeclared = stated["version"]
    except (OSError, ValueError, KeyError):
        return None  # whoever reads the log says what is wrong
    return Progress(undeclared=undeclared)
