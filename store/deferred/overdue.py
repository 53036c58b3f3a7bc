"""Copies that wait for longer than they may: nobody flushes their stream, or whoever does is behind.

The job of a stream materialises its queues while it runs. When it has ended or was killed, the service and any
maintenance do, once copies are overdue by more than a driver that starts again would need.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bindery.router.freshness import FreshnessOf
from bindery.router.model import Topology
from bindery.store import tables
from bindery.store.deferred.flushing import Flushed, materialise, record_materialised
from bindery.store.journal_files import Journal
from bindery.store.topology import TopologyStore

#: Milliseconds that a driver has to come back.
GRACE_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class Lag:
    """How late the copies of a stream's deferred queues are.

    oldest_ms   when the oldest message that may have such copies was routed, since 1970; None where none waits
    allowed_ms  how long copies may wait for the least fresh queue
    """

    stream: str
    vhost: str
    oldest_ms: int | None
    allowed_ms: int

    def late_ms(self, now_ms: int) -> int:
        """Milliseconds by which a copy is late; 0 for none."""
        return 0 if self.oldest_ms is None else max(0, now_ms - self.oldest_ms - self.allowed_ms)


def lag_of(journal: Journal, topology: Topology) -> Lag:
    """How late the copies of a journal are, by its log alone; the least fresh queue decides."""
    allowed = allowed_ms(topology, journal.vhost, journal.freshness)
    return Lag(journal.stream, journal.vhost, journal.waiting_since_ms, allowed)


def allowed_ms(topology: Topology, vhost: str, freshness: int) -> int:
    """Milliseconds that copies may wait for the least fresh queue of a vhost; `freshness` (seconds) is the job's."""
    fresh = FreshnessOf(topology)
    queues = (queue for (of, _), queue in topology.queues.items() if of == vhost)
    return 1000 * max((fresh(queue, freshness) for queue in queues), default=0)


def materialise_overdue(
    topologies: TopologyStore, now_ms: int, *, stop: Callable[[], bool] = lambda: False
) -> list[Flushed]:
    """Materialise every queue of the streams whose copies are late by more than GRACE_MS, at once.

    Raises UnsupportedTable for a journal that cannot be read, and StorageFailed.
    """
    data = topologies.data
    found = []
    for path in data.journals():
        if stop() or not tables.exists(path):
            continue
        journal = Journal.open(path)
        if journal.waiting() and lag_of(journal, topologies.load()).late_ms(now_ms) > GRACE_MS:
            found.append(materialise_now(topologies, journal, stop=stop))
    return found


def materialise_now(
    topologies: TopologyStore, journal: Journal, *, stop: Callable[[], bool] = lambda: False
) -> Flushed:
    """Materialise all that waits in a journal, and have it say so. Raises what `materialise` does."""
    stopped = False

    def between(_: float) -> bool:
        nonlocal stopped
        stopped = stop()
        return not stopped

    done = materialise(topologies.data, topologies, journal, between=between)
    if not done.failed and not stopped:
        record_materialised(journal, done.through)
    return done
