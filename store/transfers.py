"""What moves and copies out of a queue have in common: which messages go where (`bindery.store.destinations`).

As in Artemis (`moveMessages`) and Qpid Broker-J (`moveMessages`, `copyMessages`), a selector chooses. What does not
arrive at the destination, because a queue's filter refuses it or no queue is reached through an exchange, stays where
it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.filters import Filter
from bindery.router.message import MESSAGE_SCHEMA
from bindery.router.model import Topology
from bindery.store import tables
from bindery.store.deferred import LiveQueue
from bindery.store.destinations import Destination, Entry, Rows
from bindery.store.log import TableLog
from bindery.store.paths import DataDir, encode_name
from bindery.store.read import accepted_rows
from bindery.store.row_order import Chosen, first_rows


@dataclass(frozen=True, slots=True)
class Transfer:
    """What is to go where: out of a queue of a vhost, what a condition accepts, so many at most."""

    vhost: str
    source: str
    to: Destination
    condition: Filter | None = None
    limit: int | None = None

    def check(self, topology: Topology) -> None:
        """Raise NotFound for a vhost, queue or exchange that is not there, InvalidInput for one that cannot be."""
        topology.vhost(self.vhost)
        topology.queue(self.vhost, self.source)
        self.to.check(topology, self.vhost, self.source)


@dataclass(slots=True)
class Transferred:
    """How a transfer went.

    messages    those that went
    queues      the copies that arrived, by queue
    refused     of the messages that the condition accepts, those met that the filter of the other queue does not
    unroutable  of the messages that the condition accepts, those met that reach no queue through the exchange, by
                reason: they are where they were
    batches     what the new rows are known by: "<stream>:<number>"
    finished    messages of earlier transfers in the vhost that had been interrupted, and have been completed first
    """

    messages: int = 0
    queues: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    unroutable: Counter[str] = field(default_factory=Counter)
    batches: tuple[str, ...] = ()
    finished: int = 0

    def met(self, entry: Entry) -> None:
        """Take over what did not arrive; a later round meets the same messages again."""
        self.refused = entry.refused
        self.unroutable = entry.unroutable

    def as_move(self) -> dict[str, Any]:
        """JSON-ready data of a move."""
        return {"moved": self.messages, **self._as_data()}

    def as_copy(self) -> dict[str, Any]:
        """JSON-ready data of a copy."""
        return {"copied": self.messages, **self._as_data()}

    def _as_data(self) -> dict[str, Any]:
        return {
            "queues": dict(sorted(self.queues.items())),
            "refused": self.refused,
            "unroutable": dict(sorted(self.unroutable.items())),
            "finished": self.finished,
            "batches": list(self.batches),
        }


def choose(
    source: LiveQueue, transfer: Transfer, entry: Entry, limit: int | None, *, batches: AbstractSet[str] = frozenset()
) -> Chosen:
    """The first `limit` rows, in row order, that a transfer may take from the files of its source.

    Those that are known by one of `batches` are none of them.
    """

    def accepted(found: pa.RecordBatch) -> Rows:
        wanted = accepted_rows(found, transfer.condition) & ~_known_by(found, batches)
        wanted[wanted] = entry(found.filter(pa.array(wanted)))
        return wanted

    columns = MESSAGE_SCHEMA.names if entry.looks or transfer.condition is not None else ()
    return first_rows(source.log.path, source.files, limit, accepted, columns, elsewhere=source.tail)


def _known_by(found: pa.RecordBatch, batches: AbstractSet[str]) -> Rows:
    """Which rows came with one of the batches."""
    if not batches:
        return np.zeros(found.num_rows, np.bool_)
    routing = found.column("routing")
    names = [pc.struct_field(routing, name).cast(pa.string()) for name in ("stream", "batch_id")]
    known = pc.is_in(pc.binary_join_element_wise(*names, ":"), pa.array(sorted(batches)))
    return np.asarray(known.to_numpy(zero_copy_only=False), np.bool_)


def queue_log(data: DataDir, vhost: str, queue: str) -> TableLog:
    """The log of a queue's table, with its files."""
    return tables.open_log(data.queue(vhost, queue), tables.QUEUE, vhost=vhost, name=queue, files=True)


def stream_of(prefix: str, vhost: str, source: str) -> str:
    """The stream that rows out of a queue arrive under."""
    return f"{prefix}{encode_name(vhost)}/{encode_name(source)}"
