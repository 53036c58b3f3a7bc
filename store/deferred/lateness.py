"""How far the tables of a vhost's queues may be behind what was routed, for whoever reads tables alone."""

from __future__ import annotations

from dataclasses import dataclass

from bindery.router.freshness import FreshnessOf
from bindery.router.model import Queue, Topology
from bindery.store.journal_files import journals
from bindery.store.paths import DataDir


@dataclass(frozen=True, slots=True)
class Lateness:
    """Tells of queues of a vhost how late copies may come into their tables.

    What the jobs of streams say (`freshness`) is in their journals; `most` is the largest of them, in seconds.
    """

    fresh: FreshnessOf
    most: int

    @classmethod
    def of(cls, data: DataDir, topology: Topology, vhost: str) -> Lateness:
        """By the newest topology. Raises UnsupportedTable for a journal that cannot be read."""
        return cls(FreshnessOf(topology), max((one.freshness for one in journals(data, vhost)), default=0))

    def seconds(self, queue: Queue) -> int:
        """Seconds that copies may wait for a queue in journals; 0 for one that has them with every batch."""
        return self.fresh(queue, self.most)
