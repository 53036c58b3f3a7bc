"""Whoever follows the table of a queue sees copies of a deferred one when they come into it, and not before."""

from __future__ import annotations

import logging
from typing import Final

from bindery.store.deferred import materialise_queue
from bindery.store.deferred.lateness import Lateness
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore

_LOGGER: Final = logging.getLogger("bindery.jobs")


def up_to_date(data: DataDir, topologies: TopologyStore, vhost: str, name: str, *, follows: bool) -> None:
    """Give the table of a queue what waits for it, for whoever reads it from now on; and say how late the rest comes.

    Nothing is said to those who read once, and do not follow. Raises what reading journals and committing raise.
    """
    materialise_queue(data, topologies, vhost, name)
    topology = topologies.load()
    queue = topology.queues.get((vhost, name))
    seconds = 0 if queue is None else Lateness.of(data, topology, vhost).seconds(queue)
    if seconds and follows:
        _LOGGER.warning("queue %r is deferred: its messages come up to %d s late", name, seconds)
