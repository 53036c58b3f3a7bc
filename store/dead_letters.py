"""Dead letters: rows that the limits of a queue do not allow, published to its dead letter exchange.

What RabbitMQ does (its guide "Dead Letter Exchanges"): the message is published anew, with the key that the queue
states and without `CC`, or with the keys that it has. The header `x-death` (here an application property, as of any
message of AMQP 0-9-1) gets an entry for the queue and the reason, or the one that is there counts one more and comes
first; `x-first-death-*` say where it died first, `x-last-death-*` where last. Its own expiration goes, so that it does
not expire again, and is kept in the entry. Nobody is told when it reaches no queue: it becomes an unroutable row, as
any message does. Keys of `BCC` do not stand in the rows of queues, so it goes by the others alone.

A message that would come into a queue again where it has died before is not put there, unless somebody rejected it
meanwhile: nothing would ever end it. That is a line in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.engine import Deliveries, Router
from bindery.router.message import HEADER, MESSAGE_SCHEMA, VALUE, VALUE_MAP
from bindery.router.model import Topology
from bindery.router.values import Table, Timestamp, Value, nested_value, to_nested_text
from bindery.store.actions import Transaction
from bindery.store.destinations import Arrival, Places, Published, Rows, ToExchange, from_stated
from bindery.store.limit_counts import Reason, counted
from bindery.store.log import TableLog
from bindery.store.plan_files import one_batch

_LOGGER: Final = logging.getLogger(__name__)
_REASON: Final = "bindery.dead_letter.reason"
_QUEUE: Final = "bindery.dead_letter.queue"
_X_DEATH: Final = "x-death"
_FIRST: Final = "x-first-death-"
_LAST: Final = "x-last-death-"
#: What `x-first-death-` and `x-last-death-` say, in the order of the values that are given.
_PARTS: Final = ("exchange", "queue", "reason")
_REJECTED: Final = "rejected"

#: Queues and reasons of the deaths of a message, the last one first.
Deaths = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The dead letter exchange of a queue, for rows that left it for one reason."""

    to: ToExchange
    queue: str
    reason: Reason

    def arrival(self, topology: Topology, vhost: str, clock_ms: int, rows: pa.Table) -> Arrival:
        """Rows on their way to the queues that they reach."""
        messages, deaths = self._dead(one_batch(rows.select(MESSAGE_SCHEMA.names)), clock_ms)
        return _Arrival(Router.compile(topology, vhost), clock_ms, rows, self.to.published(messages), deaths)

    def on_record(self, log: TableLog, rows: int) -> Sequence[Transaction]:
        """That limits have deleted so many rows more."""
        return counted(log, {self.reason: rows})

    def stated(self) -> Mapping[str, str]:
        """What `from_stated` makes it from."""
        return {**self.to.stated(), _REASON: self.reason, _QUEUE: self.queue}

    @staticmethod
    def is_stated(stated: Mapping[str, str]) -> bool:
        """Whether a plan is one of dead letters."""
        return _REASON in stated

    @classmethod
    def from_stated(cls, stated: Mapping[str, str]) -> DeadLetters:
        """What stands in a plan. Raises KeyError for anything else."""
        return cls(cast(ToExchange, from_stated(stated)), stated[_QUEUE], cast(Reason, stated[_REASON]))

    def _dead(self, messages: pa.RecordBatch, clock_ms: int) -> tuple[pa.RecordBatch, list[Deaths]]:
        """Messages (MESSAGE_SCHEMA) as they are published, but for exchange and keys; the deaths of each."""
        properties = messages.column("application_properties")
        header = messages.column("header")
        before = _nested(properties, _X_DEATH)
        first = np.asarray(pc.map_lookup(properties, f"{_FIRST}queue", "first").is_valid(), np.bool_)
        seconds = clock_ms // 1000 * 1000
        names: list[str] = []
        rows: list[int] = []
        values: list[dict[str, Any]] = []
        deaths: list[Deaths] = []
        for row, (exchange, key, cc, ttl) in enumerate(
            zip(
                messages.column("exchange").to_pylist(),
                messages.column("routing_key").to_pylist(),
                messages.column("cc").to_pylist(),
                pc.struct_field(header, "ttl").to_pylist(),
                strict=True,
            )
        ):
            event = _event(self.queue, self.reason, seconds, exchange or "", (key or "", *(cc or ())), ttl)
            known = _earlier(before[row])
            text, found = _with(event, known)
            deaths.append(found)
            told = {_X_DEATH: {"nested": text}}
            for prefix in (_LAST,) if first[row] else (_FIRST, _LAST):
                for part, value in zip(_PARTS, (exchange or "", self.queue, self.reason), strict=True):
                    told[f"{prefix}{part}"] = {"string": value}
            names += told
            values += told.values()
            rows += [row] * len(told)
        new = {
            "application_properties": _with_entries(properties, names, rows, pa.array(values, VALUE), first=first),
            "header": _without_ttl(header),
            # whoever published it is told nothing any more
            "mandatory": pa.array(np.zeros(messages.num_rows, np.bool_)),
        }
        columns = [new.get(name, messages.column(name)) for name in MESSAGE_SCHEMA.names]
        return pa.RecordBatch.from_arrays(columns, schema=MESSAGE_SCHEMA), deaths


class _Arrival(Published):
    """Dead letters on their way; those that go in a circle are not put where they have died before."""

    def __init__(
        self, router: Router, clock_ms: int, rows: pa.Table, messages: pa.RecordBatch, deaths: Sequence[Deaths]
    ) -> None:
        super().__init__(router, clock_ms, rows, messages)
        self._deaths = deaths

    def _routed(self) -> Deliveries:
        found = super()._routed()
        queues = np.repeat(found.queue, np.diff(found.offsets)).tolist()
        cut = np.array(
            [
                _is_cycle(self._router.queues[queue], self._deaths[row])
                for queue, row in zip(queues, found.rows.tolist(), strict=True)
            ],
            np.bool_,
        )
        if not cut.any():
            return found
        _LOGGER.warning("%d dead letters were not put into a queue where they had died before", int(cut.sum()))
        return found.without(cut)

    def lost(self, dropped: AbstractSet[str]) -> Places:
        """The rows that would have arrived, if the queues that are `dropped` were not gone."""
        return np.setdiff1d(self._kept(), self._kept(dropped))


# -- x-death ------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _event(queue: str, reason: str, seconds: int, exchange: str, keys: tuple[str, ...], ttl: int | None) -> Table:
    """A death, as an entry of `x-death`; keys of `BCC` are not told. `seconds` are milliseconds of a whole second."""
    expiration: dict[str, Value] = {} if ttl is None else {"original-expiration": str(ttl)}
    return Table(
        {
            "count": 1,
            "reason": reason,
            "queue": queue,
            "time": Timestamp(seconds),
            "exchange": exchange,
            "routing-keys": keys,
            **expiration,
        }
    )


def _earlier(text: str | None) -> list[Table]:
    """The entries of an `x-death`, the last one first; none where it is something else."""
    value = None if text is None else nested_value(text)
    return [entry for entry in value if isinstance(entry, Table)] if isinstance(value, tuple) else []


def _named(entry: Table) -> tuple[str, str]:
    return str(entry.get("queue")), str(entry.get("reason"))


def _with(event: Table, known: list[Table]) -> tuple[str, Deaths]:
    """`x-death` with one death more, and the deaths that it tells of."""
    same = [entry for entry in known if _named(entry) == _named(event)]
    others = [entry for entry in known if _named(entry) != _named(event)]
    if same:
        count = same[0].get("count")
        times = count + 1 if isinstance(count, int) and not isinstance(count, bool) else 2
        event = Table({**same[0], "count": times})
    entries = (event, *others)
    return to_nested_text(entries), tuple(map(_named, entries))


def _is_cycle(queue: str, deaths: Deaths) -> bool:
    """Whether a message has died in a queue before, and nobody has rejected it since or then."""
    for died, reason in deaths:
        if reason == _REJECTED:
            return False
        if died == queue:
            return True
    return False


# -- columns ------------------------------------------------------------------------------------------


def _nested(properties: pa.MapArray, name: str) -> list[str | None]:
    """The lists and maps under a name, as they are stored."""
    found: list[str | None] = pc.struct_field(pc.map_lookup(properties, name, "first"), "nested").to_pylist()
    return found


def _with_entries(
    column: pa.MapArray, names: Sequence[str], rows: Sequence[int], values: pa.Array, *, first: Rows
) -> pa.MapArray:
    """Maps with entries about deaths for some rows, in the order of rows, instead of those that they have.

    Where `first` says so, those about the first death stay.
    """
    column = column.take(pa.array(np.arange(len(column))))  # neither a slice nor entries of nulls
    owners = np.repeat(np.arange(len(column)), np.diff(np.asarray(column.offsets)))
    keys = column.keys
    old = np.asarray(pc.or_(pc.equal(keys, _X_DEATH), pc.starts_with(keys, _LAST)), np.bool_)
    kept = pa.array(~old & (first[owners] | ~np.asarray(pc.starts_with(keys, _FIRST), np.bool_)))
    every = np.concatenate([owners[np.asarray(kept)], np.array(rows, np.int64)])
    order = pa.array(np.argsort(every, kind="stable"))
    keys = pa.concat_arrays([keys.filter(kept), pa.array(names, pa.string())]).take(order)
    items = pa.concat_arrays([column.items.filter(kept), values]).take(order)
    starts = np.concatenate([[0], np.cumsum(np.bincount(every, minlength=len(column)))]).astype(np.int32)
    return pa.MapArray.from_arrays(pa.array(starts), keys, items).cast(VALUE_MAP)


def _without_ttl(header: pa.StructArray) -> pa.StructArray:
    fields = dict(zip((field.name for field in HEADER), header.flatten(), strict=True))
    fields["ttl"] = pa.nulls(len(header), fields["ttl"].type)
    return pa.StructArray.from_arrays(list(fields.values()), fields=list(HEADER), mask=header.is_null())
