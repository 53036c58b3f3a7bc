"""What moves and copies from queue to queue have in common: which messages go, and how they arrive.

As in Artemis (`moveMessages`) and Qpid Broker-J (`moveMessages`, `copyMessages`), a selector chooses, and the message
arrives as it was sent. It is a new row of the other queue, behind those that are there, and its deliveries are
counted anew. As in Artemis, the filter of the other queue decides what may arrive; what it refuses stays where it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.declarations import at, queue_filter
from bindery.router.declarations.filter_limits import stored_limits
from bindery.router.errors import InvalidInput
from bindery.router.filters import Filter
from bindery.router.message import MESSAGE_SCHEMA, QUEUE_SCHEMA, ROUTING, TIMESTAMP
from bindery.router.model import Topology
from bindery.router.policies import Policies
from bindery.store import tables
from bindery.store.log import TableLog
from bindery.store.paths import DataDir, encode_name
from bindery.store.read import accepted_rows, with_deliveries
from bindery.store.row_order import Chosen, first_rows
from bindery.store.writer import BatchStamp


@dataclass(frozen=True, slots=True)
class Transfer:
    """What is to go where: from one queue of a vhost to another one, what a condition accepts, so many at most."""

    vhost: str
    source: str
    target: str
    condition: Filter | None = None
    limit: int | None = None

    def check(self, topology: Topology) -> None:
        """Raise NotFound for a vhost or queue that is not there, InvalidInput for one queue in both places."""
        topology.vhost(self.vhost)
        for name in (self.source, self.target):
            topology.queue(self.vhost, name)
        if self.source == self.target:
            raise InvalidInput(
                f"queue {self.source!r} is both source and target", where="to", hint="name another queue"
            )


@dataclass(slots=True)
class Transferred:
    """How a transfer went.

    messages  those that went
    refused   of the messages that the condition accepts, those met that the filter of the target does not
    batches   what the new rows are known by: "<stream>:<number>"
    finished  messages of earlier moves in the vhost that had been interrupted, and have been completed first
    """

    messages: int = 0
    refused: int = 0
    batches: tuple[str, ...] = ()
    finished: int = 0

    def as_move(self) -> dict[str, Any]:
        """JSON-ready data of a move."""
        return {
            "moved": self.messages,
            "refused": self.refused,
            "finished": self.finished,
            "batches": list(self.batches),
        }

    def as_copy(self) -> dict[str, Any]:
        """JSON-ready data of a copy."""
        return {"copied": self.messages, "refused": self.refused, "batches": list(self.batches)}


@dataclass(frozen=True, slots=True)
class Choice:
    """Rows chosen for a transfer, and how many more the filter of the target has refused on the way to them."""

    chosen: Chosen
    refused: int

    @property
    def rows(self) -> int:
        """How many are chosen."""
        return len(self.chosen.order)


def choose(log: TableLog, transfer: Transfer, topology: Topology, limit: int | None) -> Choice:
    """The first `limit` rows, in row order, that a transfer may take from the files of its source's log."""
    target = topology.queue(transfer.vhost, transfer.target)
    arriving = queue_filter(target, at(stored_limits(topology), target, Policies(topology)))
    refused = 0

    def accepted(batch: pa.RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        nonlocal refused
        wanted = accepted_rows(batch, transfer.condition)
        taken = wanted & accepted_rows(batch, arriving)
        refused += int(wanted.sum() - taken.sum())
        return taken

    columns = () if transfer.condition is None and arriving is None else MESSAGE_SCHEMA.names
    chosen = first_rows(log.path, tables.files_of(log), limit, accepted, columns)
    return Choice(chosen, refused)


def queue_log(data: DataDir, vhost: str, queue: str) -> TableLog:
    """The log of a queue's table, with its files."""
    return tables.open_log(data.queue(vhost, queue), tables.QUEUE, vhost=vhost, name=queue, files=True)


def stream_of(prefix: str, vhost: str, source: str) -> str:
    """The stream that rows out of a queue arrive under."""
    return f"{prefix}{encode_name(vhost)}/{encode_name(source)}"


def arrived(rows: pa.Table, stamp: BatchStamp, *, first: int = 0) -> pa.Table:
    """Rows of one queue as those of another: numbered from `first`, without a binding, and never delivered yet."""
    count = rows.num_rows
    members = [
        pa.array(np.full(count, stamp.topology_version)),
        pa.array([stamp.stream] * count, pa.string()),
        pa.array(np.full(count, stamp.batch_id)),
        pa.array(np.arange(first, first + count)),
        pa.ListArray.from_arrays(pa.array(np.zeros(count + 1, np.int32)), pa.array([], pa.int32())),
    ]
    routing = pa.StructArray.from_arrays(members, fields=list(ROUTING))
    routed_at = pa.array(np.full(count, stamp.clock_ms * 1000)).view(TIMESTAMP)
    new = {"routing": routing, "routed_at": routed_at, "header": _undelivered(rows["header"].combine_chunks())}
    return pa.table([new.get(name, rows[name]) for name in QUEUE_SCHEMA.names], schema=QUEUE_SCHEMA)


def _undelivered(header: pa.StructArray) -> pa.StructArray:
    """Headers that count no delivery where they counted some."""
    return with_deliveries(header, lambda count: pc.if_else(pc.greater(count, 0), 0, count), absent=header.is_null())
