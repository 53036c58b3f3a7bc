"""Queues that no backfill may bring anything: those that get, or have got, copies that transformations have changed.

A backfill brings messages as they were published, and what a queue has had is told by them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow.compute as pc

from bindery.router.errors import Refused
from bindery.router.links import Link, Links, transform_of
from bindery.router.model import Queue, Topology
from bindery.store import file_rows, tables
from bindery.store.journal_files import journals, naming
from bindery.store.statistics import stated
from bindery.store.topology import TopologyStore


def refuse_backfill(store: TopologyStore, topology: Topology, vhost: str, queue: str) -> None:
    """Raise Refused where the queue gets, or has got, copies that transformations have changed.

    A backfill brings messages as they were published, and could not tell which of them the queue has had otherwise.
    """
    if any(transform_of(link) is not None for link in ways_to(Links(topology, vhost), queue)):
        why = "a transformation stands on a way to it"
    elif _has_changed(store, topology.queue(vhost, queue)):
        why = "it has had copies that transformations had changed"
    else:
        return
    raise Refused(
        f"queue {queue!r} is not backfilled: {why}",
        where="queue",
        hint="backfill a queue that no changing binding or divert leads to",
    )


def ways_to(links: Links, queue: str) -> Iterator[Link]:
    """The links on the ways that lead to a queue, each once."""
    exchanges: set[str] = set()
    entering = links.entering("queue", queue)
    while entering:
        link = entering.pop()
        yield link
        if link.source not in exchanges:
            exchanges.add(link.source)
            entering += links.entering("exchange", link.source)


def _has_changed(store: TopologyStore, queue: Queue) -> bool:
    """Whether a journal of the vhost says that a queue has got changed copies."""
    changed = pc.field("routing", "seq") < 0
    for journal in journals(store.data, queue.vhost):
        for file in tables.files_of(journal.log).values():
            bounds = stated(file, "seq")
            if bounds is not None and bounds[0] >= 0:
                continue
            rows = file_rows.batches(
                journal.log.path, file.path, tables.JOURNAL.schema, columns=["routing"], where=changed
            )
            if any(naming(one.column("routing").field("queues"), queue.id).any() for one in rows if one.num_rows):
                return True
    return False
