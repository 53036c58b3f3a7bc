"""Where messages out of a queue go: into another queue, or to an exchange that routes them anew.

**A queue** takes the message as it was sent, as in Artemis (`moveMessages`) and Qpid Broker-J (`moveMessages`,
`copyMessages`); as in Artemis, its filter decides what may arrive.

**An exchange** gets the message published once more, as a shovel of RabbitMQ with `dest-exchange` and
`dest-exchange-key` does: `exchange` is the other one and `routing_key` the key that is asked for, which replaces all
keys as that of a divert does, or the message's own with its `cc`. Nothing else of the record changes. One copy goes
to each queue that it reaches under the present topology; a message that reaches none stays where it is, so that it is
lost nowhere and found by whoever looks for it.

Either way it is a new row behind those that are there, and its deliveries are counted anew.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.declarations import at, queue_filter, stored_limits
from bindery.router.declarations.rules import check_name
from bindery.router.engine import REASONS, Deliveries, Router
from bindery.router.errors import InvalidInput
from bindery.router.message import MESSAGE_SCHEMA, QUEUE_SCHEMA, ROUTING, TIMESTAMP
from bindery.router.model import Topology
from bindery.router.policies import Policies
from bindery.store import data_files
from bindery.store.actions import Transaction
from bindery.store.batches import Begun, Routed, write_copies
from bindery.store.commit import WrittenFile
from bindery.store.log import TableLog
from bindery.store.paths import DataDir
from bindery.store.plan_files import one_batch
from bindery.store.read import accepted_rows, with_deliveries
from bindery.store.routed_counts import RoutedCounts
from bindery.store.row_order import Chosen
from bindery.store.writer import BATCH_SCHEMA, SEQ, BatchStamp

Rows = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]

#: Rows that are routed together where nothing is written.
_PORTION: Final = 50_000
_QUEUE: Final = "bindery.target"
_EXCHANGE: Final = "bindery.exchange"
_ROUTING_KEY: Final = "bindery.routing_key"


class Entry(Protocol):
    """Tells which messages arrive at a destination as one topology has it.

    looks       whether it looks at messages at all
    refused     of those asked about, how many the filter of the queue does not accept
    unroutable  of those asked about, how many reach no queue through the exchange, by reason
    """

    looks: bool
    refused: int
    unroutable: Counter[str]

    def __call__(self, messages: pa.RecordBatch) -> Rows:
        """Which messages arrive; they have the columns of MESSAGE_SCHEMA, unless it does not look."""
        ...


class Arrival(Protocol):
    """Rows of a queue on their way to a destination, as one topology and clock have it."""

    def write(self, data: DataDir, batch: Begun[Topology]) -> Routed:
        """Write the copies into the folders of their queues."""
        ...

    def lost(self, dropped: AbstractSet[str]) -> Places:
        """The rows that arrive nowhere when the queues that are `dropped` are gone."""
        ...

    def queues(self, dropped: AbstractSet[str] = frozenset()) -> Counter[str]:
        """Copies by queue, without the queues that are `dropped`."""
        ...


class Goal(Protocol):
    """Where the rows of a plan go."""

    def arrival(self, topology: Topology, vhost: str, clock_ms: int, rows: pa.Table) -> Arrival:
        """Rows (QUEUE_SCHEMA) on their way."""
        ...

    def on_record(self, log: TableLog, rows: int) -> Sequence[Transaction]:
        """What is put on record in the log of the source when so many rows leave it."""
        ...

    def stated(self) -> Mapping[str, str]:
        """What a plan says of it."""
        ...


class Destination(Goal, Protocol):
    """Where messages of one vhost go: the queue or exchange of that name."""

    @property
    def name(self) -> str:
        """The name of the queue or exchange."""
        ...

    def check(self, topology: Topology, vhost: str, source: str) -> None:
        """Raise NotFound for one that is not there, InvalidInput for one that rows of the source cannot go to."""
        ...

    def entry(self, topology: Topology, vhost: str, clock_ms: int) -> Entry:
        """Tells which messages arrive."""
        ...

    def reached(self, topology: Topology, vhost: str, clock_ms: int, chosen: Chosen) -> Counter[str]:
        """Copies by queue, of rows that would arrive."""
        ...


def from_stated(stated: Mapping[str, str]) -> Destination:
    """The destination that stands in a plan. Raises KeyError for none."""
    if _EXCHANGE in stated:
        return ToExchange(stated[_EXCHANGE], stated.get(_ROUTING_KEY))
    return ToQueue(stated[_QUEUE])


# -- a queue ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToQueue:
    """Another queue of the vhost."""

    name: str

    def check(self, topology: Topology, vhost: str, source: str) -> None:
        """Raise NotFound for a queue that is not there, InvalidInput for the source."""
        topology.queue(vhost, self.name)
        if self.name == source:
            raise InvalidInput(f"queue {source!r} is both source and target", where="to", hint="name another queue")

    def entry(self, topology: Topology, vhost: str, clock_ms: int) -> Entry:  # as filters of consumers
        """Tells which messages the filter of the queue accepts."""
        return _QueueEntry(topology, vhost, self.name)

    def arrival(self, topology: Topology, vhost: str, clock_ms: int, rows: pa.Table) -> Arrival:
        """Rows on their way; the filter has been asked before."""
        return _QueueArrival(vhost, self.name, rows)

    def reached(self, topology: Topology, vhost: str, clock_ms: int, chosen: Chosen) -> Counter[str]:
        """A copy of each row."""
        return +Counter({self.name: len(chosen.order)})

    def on_record(self, log: TableLog, rows: int) -> Sequence[Transaction]:
        """Nothing."""
        return ()

    def stated(self) -> Mapping[str, str]:
        """What `from_stated` makes it from."""
        return {_QUEUE: self.name}


class _QueueEntry:
    def __init__(self, topology: Topology, vhost: str, name: str) -> None:
        self.refused = 0
        self.unroutable: Counter[str] = Counter()
        target = topology.queue(vhost, name)
        self._filter = queue_filter(target, at(stored_limits(topology), target, Policies(topology)))
        self.looks = self._filter is not None

    def __call__(self, messages: pa.RecordBatch) -> Rows:
        accepted = accepted_rows(messages, self._filter)
        self.refused += int((~accepted).sum())
        return accepted


class _QueueArrival:
    def __init__(self, vhost: str, name: str, rows: pa.Table) -> None:
        self._vhost = vhost
        self._name = name
        self._rows = rows

    def write(self, data: DataDir, batch: Begun[Topology]) -> Routed:
        added = data_files.write_file(data.queue(self._vhost, self._name), arrived(self._rows, batch.stamp))
        rows = self._rows.num_rows
        counts = RoutedCounts()
        counts.copies = rows
        return Routed(
            [WrittenFile("queue", self._vhost, self._name, added.path, added.size, rows, added.stats)], counts
        )

    def lost(self, dropped: AbstractSet[str]) -> Places:
        return np.arange(self._rows.num_rows if self._name in dropped else 0)

    def queues(self, dropped: AbstractSet[str] = frozenset()) -> Counter[str]:
        return Counter() if self._name in dropped else Counter({self._name: self._rows.num_rows})


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


# -- an exchange --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToExchange:
    """An exchange of the vhost; with a routing key that replaces those of the messages, or with theirs (None)."""

    name: str
    routing_key: str | None = None

    def check(self, topology: Topology, vhost: str, source: str) -> None:  # the source may be reached
        """Raise NotFound for an exchange that is not there; InvalidInput for an internal one, or a key too long."""
        if topology.exchange(vhost, self.name).internal:
            raise InvalidInput(
                f"exchange {self.name!r} is internal: nobody publishes to it",
                where="exchange",
                hint="name the exchange whose bindings lead to it",
            )
        if self.routing_key is not None:
            check_name(self.routing_key, "routing_key", empty=True)

    def entry(self, topology: Topology, vhost: str, clock_ms: int) -> Entry:
        """Tells which messages reach a queue."""
        return _ExchangeEntry(self, Router.compile(topology, vhost), clock_ms)

    def arrival(self, topology: Topology, vhost: str, clock_ms: int, rows: pa.Table) -> Arrival:
        """Rows on their way to the queues that they reach."""
        router = Router.compile(topology, vhost)
        return Published(router, clock_ms, rows, self.published(one_batch(rows.select(MESSAGE_SCHEMA.names))))

    def reached(self, topology: Topology, vhost: str, clock_ms: int, chosen: Chosen) -> Counter[str]:
        """Copies by queue, of rows that would arrive."""
        router, found = Router.compile(topology, vhost), Counter[str]()
        for rows in chosen.portions(_PORTION):
            messages = self.published(one_batch(rows.select(MESSAGE_SCHEMA.names)))
            found.update(Published(router, clock_ms, rows, messages).queues())
        return found

    def on_record(self, log: TableLog, rows: int) -> Sequence[Transaction]:
        """Nothing."""
        return ()

    def stated(self) -> Mapping[str, str]:
        """What `from_stated` makes it from."""
        return {_EXCHANGE: self.name} | ({} if self.routing_key is None else {_ROUTING_KEY: self.routing_key})

    def published(self, messages: pa.RecordBatch) -> pa.RecordBatch:
        """Messages (MESSAGE_SCHEMA) as they are published to the exchange."""
        count = messages.num_rows
        new: dict[str, Any] = {
            "exchange": pa.array([self.name] * count, pa.string()),
            "header": _undelivered(messages.column("header")),
        }
        if self.routing_key is not None:
            new["routing_key"] = pa.array([self.routing_key] * count, pa.string())
            new |= {name: pa.nulls(count, MESSAGE_SCHEMA.field(name).type) for name in ("cc", "bcc")}
        columns = [new.get(name, messages.column(name)) for name in MESSAGE_SCHEMA.names]
        return pa.RecordBatch.from_arrays(columns, schema=MESSAGE_SCHEMA)


class _ExchangeEntry:
    def __init__(self, exchange: ToExchange, router: Router, clock_ms: int) -> None:
        self.looks = True
        self.refused = 0
        self.unroutable: Counter[str] = Counter()
        self._exchange = exchange
        self._router = router
        self._clock_ms = clock_ms

    def __call__(self, messages: pa.RecordBatch) -> Rows:
        reached = np.ones(messages.num_rows, np.bool_)
        deliveries = self._router.route(self._exchange.published(messages), clock_ms=self._clock_ms)
        reached[deliveries.unroutable.rows] = False
        found = zip(REASONS, deliveries.counts.reasons.tolist(), strict=True)
        self.unroutable.update({reason: number for reason, number in found if number})
        return reached


class Published:
    """Rows on their way to the queues that they reach as `messages`, published anew."""

    def __init__(self, router: Router, clock_ms: int, rows: pa.Table, messages: pa.RecordBatch) -> None:
        self._router = router
        self._clock_ms = clock_ms
        self._rows = rows
        self._messages = messages

    @cached_property
    def _deliveries(self) -> Deliveries:
        return self._routed()

    def _routed(self) -> Deliveries:
        return self._router.route(self._messages, clock_ms=self._clock_ms)

    def write(self, data: DataDir, batch: Begun[Topology]) -> Routed:
        """Write the copies into the folders of their queues."""
        messages = _numbered(self._messages, one_batch(self._rows.select(["source"])).column(0))
        begun = Begun(batch.stream, batch.number, batch.pin, batch.topology, self._router)
        return write_copies(data, begun, messages, self._deliveries, attempt=uuid.uuid4().hex[:8])

    def lost(self, dropped: AbstractSet[str]) -> Places:
        """The rows that arrive nowhere when the queues that are `dropped` are gone."""
        return np.setdiff1d(np.arange(self._rows.num_rows), self._kept(dropped))

    def _kept(self, dropped: AbstractSet[str] = frozenset()) -> Places:
        """The rows that arrive somewhere when the queues that are `dropped` are gone."""
        found = self._deliveries
        kept = [found.rows_of(queue) for queue in found.queue.tolist() if self._router.queues[queue] not in dropped]
        return np.unique(np.concatenate([found.rows[:0], *kept])).astype(np.int64)

    def queues(self, dropped: AbstractSet[str] = frozenset()) -> Counter[str]:
        """Copies by queue, without the queues that are `dropped`."""
        found = self._deliveries
        copies = zip(found.queue.tolist(), np.diff(found.offsets).tolist(), strict=True)
        return Counter({name: n for queue, n in copies if (name := self._router.queues[queue]) not in dropped})


def _numbered(messages: pa.RecordBatch, source: pa.Array) -> pa.RecordBatch:
    """Messages as a batch of BATCH_SCHEMA; what their sender asked for otherwise is not on record."""
    count = messages.num_rows
    new = {"source": source, SEQ: pa.array(np.arange(count))}
    columns = [
        new[field.name]
        if field.name in new
        else messages.column(field.name)
        if field.name in MESSAGE_SCHEMA.names
        else pa.nulls(count, field.type)
        for field in BATCH_SCHEMA
    ]
    return pa.RecordBatch.from_arrays(columns, schema=BATCH_SCHEMA)


def _undelivered(header: pa.StructArray) -> pa.StructArray:
    """Headers that count no delivery where they counted some."""
    return with_deliveries(header, lambda count: pc.if_else(pc.greater(count, 0), 0, count), absent=header.is_null())
