"""Queues that nobody uses deleted: `x-expires`, or a policy's `expires` (RabbitMQ's guide "TTL", "Queue TTL").

A queue is used by whoever declares it again, and by whoever reads or takes its messages as a consumer would
(`bindery.store.queue_use.note_use`); not by what is routed to it. It goes by a change of the topology like any other,
with its rows: nothing of it is a dead letter. Whether it is still unused is asked within that change, as often as it is
tried.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from bindery.router.declarations import TopologyEditor
from bindery.router.model import NO_QUEUE_ID, Queue
from bindery.router.moments import iso
from bindery.router.queue_limits import LimitsOf
from bindery.store import queue_use
from bindery.store.queue_use import Recorded, Use
from bindery.store.topology import TopologyStore

_LOGGER: Final = logging.getLogger(__name__)
_AUTHOR: Final = "bindery"


@dataclass(frozen=True, slots=True)
class Disuse:
    """How long a queue has not been used; times in milliseconds since 1970, None before it is on record.

    since_ms  the last use on record
    ends_ms   when the queue is deleted, unless somebody uses it
    deleted   it was, or would be
    """

    since_ms: int | None = None
    ends_ms: int | None = None
    deleted: bool = False


def delete_unused(store: TopologyStore, queue: Queue, clock: Callable[[], int], *, dry_run: bool = False) -> Disuse:
    """Delete a queue that was not used for its expiry; what was found.

    A queue of which no use is on record, or that has another id since, counts from now on. Raises StorageFailed, and
    CommitConflict and CommitUnknown as every change of the topology does.
    """
    if queue.id == NO_QUEUE_ID and not dry_run:
        store.give_queue_ids()
    topology = store.load()
    present = topology.queues.get((queue.vhost, queue.name))
    expires_ms = None if present is None else LimitsOf(topology).expires_ms(present)
    if present is None or expires_ms is None:
        return Disuse()
    found = queue_use.recorded(store.data, queue.vhost, queue.name)
    use = _of(found, present)
    wanted = queue_use.grain(expires_ms)
    if use is None or use.grain_ms != wanted:
        # uses within the grain that was may not be on record
        used_ms = clock() if use is None else use.used_ms + max(0, use.grain_ms - wanted)
        begun = Use(present.id, used_ms, wanted)
        if dry_run and use is None:
            return Disuse()
        if not dry_run and not queue_use.record(store.data, queue.vhost, queue.name, begun, found):
            return Disuse()  # somebody uses it now
        use = begun
    ends_ms = use.ends_ms(expires_ms)
    if clock() < ends_ms:
        return Disuse(use.used_ms, ends_ms)
    since_ms = use.used_ms if dry_run else _delete(store, present, use, clock)
    return Disuse(since_ms, None if since_ms is None else ends_ms, deleted=since_ms is not None)


def _delete(store: TopologyStore, queue: Queue, use: Use, clock: Callable[[], int]) -> int | None:
    """Delete the queue unless it was used meanwhile, or is another one; when it was used last."""

    def change(editor: TopologyEditor) -> bool:
        present = editor.topology.queues.get((queue.vhost, queue.name))
        if present is None:
            return False
        expires_ms = LimitsOf(editor.topology).expires_ms(present)
        newest = _of(queue_use.recorded(store.data, queue.vhost, queue.name), present)
        if expires_ms is None or newest != use or clock() < use.ends_ms(expires_ms):
            return False
        editor.delete_queue(queue.vhost, queue.name)
        return True

    since = iso(datetime.fromtimestamp(use.used_ms / 1_000, UTC))
    if not store.edit(change, author=_AUTHOR, reason=f"expired: unused since {since}").result:
        return None
    _LOGGER.info("queue %r of vhost %r has expired: unused since %s", queue.name, queue.vhost, since)
    queue_use.forget(store.data, queue.vhost, queue.name)
    return use.used_ms


def _of(found: Recorded, queue: Queue) -> Use | None:
    """The use on record if it is one of this queue, and not of one of its name that was deleted."""
    return found.use if found.use is not None and found.use.queue == queue.id else None
