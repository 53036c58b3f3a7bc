"""Flushes beside a stream: on a thread of their own, each queue as fresh as it is to be, spread over time.

Queues of about the same freshness make a class. The tail of the journal is read for a class when half of its freshness
has passed since the last time, and the commits to its tables are spread over two fifths more: a copy waits for nine
tenths of the freshness at most, and a queue gets about two files in that time. All are flushed before that when so much
waits that the files of the queues are large enough, or as much as one flush takes.

What this thread knows is a matter of pace alone: it may be gone at any moment, or run twice. Which copies still wait
the tables say (`bindery.store.deferred.flushing`).
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from bindery.router.error_text import counted
from bindery.router.errors import StorageFailed
from bindery.router.freshness import FreshnessOf
from bindery.router.model import Topology
from bindery.store import tables
from bindery.store.deferred.flushing import Flushed, materialise, record_materialised
from bindery.store.deferred.overdue import materialise_now
from bindery.store.deferred.tail import BOUNDS, Bounds
from bindery.store.journal_files import Journal, materialised_through
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore

_LOGGER: Final = logging.getLogger(__name__)
#: Parts of a class's freshness after which its copies are read, and over which its commits are spread.
_READ_AFTER: Final = 0.5
_SPREAD: Final = 0.4
#: Seconds between two looks at what is due, at most.
_LOOK_SECONDS: Final = 5.0
#: Seconds between two looks for a journal that is not there yet.
_FIRST_LOOK_SECONDS: Final = 1.0
#: The class of queues whose tables could not be written, and the seconds after which they are tried again.
_ASIDE: Final = -1
_ASIDE_SECONDS: Final = 60
#: Queues that an error names.
_NAMED: Final = 3


@dataclass
class _Class:
    """Queues of about the same freshness (seconds); `through` is the batch up to which they have their copies."""

    seconds: int
    ids: set[int]
    through: int
    due: float
    busy: bool = False


class Flushing:
    """Materialises the deferred queues of one stream; use as a context, or `close` it.

    `freshness` is the job's, for queues of which nothing is said; `flushed` is called with what each flush did.
    """

    def __init__(
        self,
        data: DataDir,
        stream: str,
        vhost: str,
        *,
        freshness: int = 0,
        bounds: Bounds = BOUNDS,
        flushed: Callable[[Flushed], object] = lambda _: None,
    ) -> None:
        self._data = data
        self._stream = stream
        self._vhost = vhost
        self._freshness = freshness
        self._bounds = bounds
        self._flushed = flushed
        self._topologies = TopologyStore(data)
        self._seen: Topology | None = None
        self._classes: dict[int, _Class] = {}
        self._waiting_bytes = self._copied_bytes = 0
        self._queues = 1
        self._hurry = False
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="flush", daemon=True)
        self._thread.start()
        # native code on a thread must not outlive the interpreter
        atexit.register(self.close)

    def __enter__(self) -> Flushing:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def committed(self, waiting_bytes: int, copies: float) -> None:
        """A batch has been committed: so many bytes of its journal's files hold copies that wait.

        A message has `copies` in the mean.
        """
        with self._changed:
            self._waiting_bytes += waiting_bytes
            self._copied_bytes += int(waiting_bytes * copies)
            if self._is_full():
                self._changed.notify_all()

    def finish(self) -> None:
        """Materialise all that waits, before a stream ends.

        Raises what `materialise` does, and StorageFailed when the table of a queue cannot be written: its copies go on
        waiting.
        """
        self.close()
        path = self._data.journal(self._stream)
        if tables.exists(path):
            journal = Journal.open(path)
            if journal.waiting():
                found = materialise_now(self._topologies, journal)
                self._flushed(found)
                if found.failed:
                    raise StorageFailed(
                        f"{counted(len(found.failed), 'queue')} could not get what waits in the journal of stream "
                        f"{self._stream!r}: {'; '.join(sorted(found.failed.values())[:_NAMED])}",
                        where=path,
                        hint="every message is routed and kept there: see to the tables, then `bindery materialise`",
                    )

    def close(self) -> None:
        """Stop after the queues that are worked on; what waits goes on waiting."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join()
        atexit.unregister(self.close)

    # -- the thread ---------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping:
            try:
                self._look()
                self._hurry = False
            except Exception:
                _LOGGER.exception("deferred queues of stream %s could not be materialised", self._stream)
                self._wait(_LOOK_SECONDS)
            self._wait(self._pause())

    def _pause(self) -> float:
        soonest = min((one.due for one in self._classes.values()), default=0.0) - time.monotonic()
        return max(0.05, min(_LOOK_SECONDS, soonest)) if self._classes else _FIRST_LOOK_SECONDS

    def _wait(self, seconds: float) -> None:
        """Wait so long, or until there is a reason not to."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self._is_full(), max(0.0, seconds))

    def _is_full(self) -> bool:
        return self._copied_bytes >= self._bounds.enough * self._queues or self._waiting_bytes >= self._bounds.stretch

    def _look(self) -> None:
        """Flush the classes that are due, or all when enough bytes wait."""
        path = self._data.journal(self._stream)
        if not tables.exists(path):
            return
        self._sort(path)
        with self._changed:
            if self._is_full():
                self._waiting_bytes, self._copied_bytes, self._hurry = 0, 0, True
        for one in sorted(self._classes.values(), key=lambda one: one.due):
            if self._stopping:
                return
            if not one.busy and (self._hurry or time.monotonic() >= one.due):
                one.busy = True
                try:
                    self._flush(path, one)
                except Exception:
                    one.due = time.monotonic() + min(_LOOK_SECONDS, one.seconds * _READ_AFTER)
                    raise
                finally:
                    one.busy = False

    def _rest(self, until: float) -> None:
        """Wait within a flush; others that are due meanwhile take place."""
        while not (self._stopping or self._hurry) and (left := until - time.monotonic()) > 0:
            self._wait(min(left, self._pause()))
            self._look()

    def _sort(self, path: str) -> None:
        """Put the queues into classes, whenever the topology has changed: what each has is then asked anew."""
        newest = self._topologies.load()
        if newest is self._seen:
            return
        fresh = FreshnessOf(newest)
        by_class: dict[int, set[int]] = {}
        seconds: dict[int, int] = {}
        others: set[int] = set()
        for queue in newest.queues.values():
            if queue.vhost != self._vhost:
                continue
            allowed = fresh(queue, self._freshness)
            if allowed:
                number = allowed.bit_length()
                by_class.setdefault(number, set()).add(queue.id)
                seconds[number] = min(allowed, seconds.get(number, allowed))
            else:
                others.add(queue.id)  # that were deferred, perhaps
        self._queues = max(1, sum(len(ids) for ids in by_class.values()))
        if not by_class:
            by_class, seconds = {0: others}, {0: _ASIDE_SECONDS}
        else:
            by_class[min(by_class)] |= others
        journal = Journal.open(path)
        through = materialised_through(journal.log)
        now = time.monotonic()
        since = journal.waiting_since_ms
        waited = 0.0 if since is None else time.time() - since / 1000
        due = {number: one.due for number, one in self._classes.items()}
        self._classes = {
            number: _Class(
                seconds[number], ids, through, due.get(number, now + max(0.0, seconds[number] * _READ_AFTER - waited))
            )
            for number, ids in by_class.items()
        }
        self._seen = newest

    def _flush(self, path: str, one: _Class) -> None:
        begun, before, ids = time.monotonic(), one.through, frozenset(one.ids)
        journal = Journal.open(path)
        if self._topologies.load() is not self._seen:
            return  # it may hold copies for a queue that is in no class yet
        one.due = begun + one.seconds * _READ_AFTER
        if not journal.waiting(one.through):
            return

        def between(part: float) -> bool:
            if part < 1:
                self._rest(begun + one.seconds * _SPREAD * part)
            return not self._stopping

        found = materialise(
            self._data,
            self._topologies,
            journal,
            only=ids,
            after=one.through,
            bounds=self._bounds,
            between=between,
        )
        # others may have joined it while it rested
        one.through = found.through if one.ids <= ids else min(before, one.through)
        if found.failed:
            self._set_aside(one, found.failed, before)
        elif one is self._classes.get(_ASIDE):
            self._seen = None  # at the next look its queues go back to where they belong; until then they count here
        through = min((each.through for each in self._classes.values()), default=before)
        if through > materialised_through(journal.log):
            record_materialised(journal, through)
        self._flushed(found)

    def _set_aside(self, one: _Class, failed: Mapping[int, str], through: int) -> None:
        """Make queues whose tables cannot be written a class of their own, so that no other waits for them."""
        for reason in failed.values():
            _LOGGER.warning("stream %s: a queue waits for its copies: %s", self._stream, reason)
        aside = self._classes.setdefault(_ASIDE, _Class(_ASIDE_SECONDS, set(), through, 0.0))
        aside.due = time.monotonic() + _ASIDE_SECONDS
        aside.through = min(aside.through, through)
        aside.ids |= failed.keys()
        if one is not aside:
            one.ids -= failed.keys()
