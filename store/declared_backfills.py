"""Queues that are declared with `x-backfill`: each way that comes to lead there brings messages of the past.

A queue is declared first and bound after that, by one binding or by several, at once or over time. So what counts is
not the declaration: whenever a binding or divert is new on the ways that lead to the queue, what was routed in the
seconds before that is ordered, under the topology that has it. What the queue has had of it does not come again
(`bindery.store.delivered`), so a look too many brings nothing.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from bindery.router.errors import Refused
from bindery.router.links import Alternate, Links
from bindery.router.model import Queue
from bindery.router.queue_limits import BACKFILL
from bindery.store import effects, tables
from bindery.store.backfill_records import Records, Scope
from bindery.store.backfill_refusal import refuse_backfill, ways_to
from bindery.store.journal_files import journals
from bindery.store.places import Place
from bindery.store.topology import TopologyStore

_LOGGER: Final = logging.getLogger(__name__)
_SEEN: Final = "declared.json"


@dataclass(frozen=True, slots=True)
class Due:
    """A queue to which something new leads: the messages routed at `since_us` (microseconds) or later are for it."""

    queue: Queue
    since_us: int
    topology_version: int
    ways: frozenset[int]


def order_declared(store: TopologyStore) -> None:
    """Put an order on record for each queue that is due. Raises StorageFailed."""
    for due in due_queues(store):
        queue = due.queue
        if not queue.id:
            store.give_queue_ids()
            return  # with the ids there is a version more, which the next look is about
        records = Records(store.data, queue.vhost, queue.name)
        ways = sorted(leading_to(Links(store.load(version=due.topology_version), queue.vhost), queue.name))
        if due.ways and may_be_brought(store, due):
            scope = Scope(queue.id, due.topology_version, since=due.since_us)
            records.begin(scope, time.time_ns() // 1_000_000)
        seen = {"queue_id": queue.id, "topology_version": due.topology_version, "ways": ways}
        effects.replace(records.folder / _SEEN, json.dumps(seen).encode())


def due_queues(store: TopologyStore) -> Iterator[Due]:
    """The queues with the argument whose ways were not looked at since the topology has changed; new ways of each."""
    topology = store.load()
    asking = [(queue, seconds) for queue in topology.queues.values() if (seconds := seconds_of(queue)) is not None]
    kept = {vhost for vhost in {queue.vhost for queue, _ in asking} if journals(store.data, vhost)}
    links = {vhost: Links(topology, vhost) for vhost in kept}
    for queue, seconds in sorted(asking, key=lambda one: (one[0].vhost, one[0].name)):
        if queue.vhost not in kept:
            continue
        version, known = _seen(store, queue)
        if version < topology.version:
            new = leading_to(links[queue.vhost], queue.name) - known
            since = store.version(version + 1).timestamp - timedelta(seconds=seconds)
            yield Due(queue, int(since.timestamp() * 1_000_000), topology.version, new)


def seconds_of(queue: Queue) -> int | None:
    """How far back the ways to a queue reach; None for one that does not ask for it."""
    seconds = queue.arguments.get(BACKFILL)
    return seconds if isinstance(seconds, int) and not isinstance(seconds, bool) and seconds > 0 else None


def leading_to(links: Links, queue: str) -> frozenset[int]:
    """The ids of the bindings and diverts on the ways that lead to a queue."""
    return frozenset(link.id for link in ways_to(links, queue) if not isinstance(link, Alternate))


def may_be_brought(store: TopologyStore, due: Due) -> bool:
    """Whether a queue that is due can be backfilled; one that cannot is told of, once."""
    try:
        topology = store.load(version=due.topology_version)
        refuse_backfill(store, topology, due.queue.vhost, due.queue.name)
    except Refused as error:
        _LOGGER.warning("%s", error.message)
        return False
    return True


def _seen(store: TopologyStore, queue: Queue) -> tuple[int, frozenset[int]]:
    """The topology version of the last look at the ways to a queue, and what they were then.

    Of one that was not looked at: the last version without it, and nothing.
    """
    place: Place = Records(store.data, queue.vhost, queue.name).folder / _SEEN
    content = effects.read(place)
    if content is not None:
        try:
            seen = json.loads(content)
            if seen["queue_id"] == queue.id:
                return int(seen["topology_version"]), frozenset(seen["ways"])
        except (ValueError, KeyError, TypeError):
            pass  # a look too many brings nothing
    log = tables.open_log(store.data.queue(queue.vhost, queue.name), tables.QUEUE)
    return min(tables.undeclared_since(log), store.load().version - 1), frozenset()
