"""Batches of deliveries as rows: those that a record can hold for the inbox, the others for the unroutable table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa

from bindery.jobs.draining.mapping import Refused, identity
from bindery.jobs.draining.options import Counts, DrainOptions
from bindery.router.message import MESSAGE_SCHEMA, UNROUTABLE_SCHEMA, Message, from_batch, to_batch
from bindery.store.draining import DrainLog, Rows
from bindery.store.paths import DataDir

#: Identities of committed messages that are remembered to recognise repeats.
REMEMBERED: Final = 50_000


@dataclass(frozen=True, slots=True)
class Arrival:
    """A delivery as it is appended: its record, whether the broker has delivered it before, its offset in a stream."""

    record: Message | Refused
    redelivered: bool = False
    offset: int | None = None


class Appender:
    """Appends what one drain is given; `source` names the queue and where it is, for the drain's identity."""

    def __init__(self, data: DataDir, options: DrainOptions, source: str, *, is_stream: bool) -> None:
        """Claim the drain. Raises what DrainLog does."""
        self.counts = Counts()
        self._options = options
        self._log = DrainLog(data, options.vhost, f"drain:{options.name}:{source}")
        self._refused = 0
        self._connection = 0
        #: identity -> the connection over which the message was delivered that has been committed
        self._known: dict[bytes, int] = {}
        self._recognises = not (is_stream or options.keep_repeats)
        if self._recognises and (rows := self._log.last_rows()) is not None:
            self._remember(from_batch(_with_all_columns(rows)))

    def connected(self) -> None:
        """Another connection: what came over earlier ones may come again."""
        self._connection += 1

    @property
    def position(self) -> int | None:
        """The offset that a stream has been drained up to; None before its first message."""
        return self._log.position

    def begin_at(self, offset: int) -> None:
        """Record that a stream is drained from this offset on, before anything of it is appended."""
        self._log.append(Rows(_no_rows(), ()), upto=offset - 1)

    def append(self, arrivals: Sequence[Arrival]) -> None:
        """Append a batch: one commit of the inbox, and before it one of the unroutable table if it needs one.

        Messages that were appended before are left out, as far as they can be recognised.
        """
        fresh = [one for one in arrivals if not self._is_repeat(one)]
        upto = arrivals[-1].offset
        refused = [one for one in fresh if isinstance(one.record, Refused)]
        if refused:
            # decided before the commit, which may be tried several times; rows that are there already keep theirs
            version = self._log.topology_version()
            rows = pa.Table.from_pylist([self._refused_row(one, version) for one in refused], schema=UNROUTABLE_SCHEMA)
            self._log.append_refused(Rows(rows, _offsets(refused)), upto, topology_version=version)
        kept = [one for one in fresh if isinstance(one.record, Message)]
        messages = [one.record for one in kept if isinstance(one.record, Message)]
        if messages or upto is not None:
            table = pa.Table.from_batches([to_batch(messages)]).select(MESSAGE_SCHEMA.names) if messages else _no_rows()
            self._log.append(Rows(table, _offsets(kept)), upto)
        if self._recognises:
            self._remember(messages)
        self.counts.messages += len(messages)
        self.counts.refused += len(refused)
        self.counts.repeats += len(arrivals) - len(fresh)
        self.counts.commits += 1

    def _is_repeat(self, arrival: Arrival) -> bool:
        """Whether a message is one that was committed and whose acknowledgement the broker has not kept.

        One that is not marked as redelivered can be that only after its connection was lost.
        """
        if not self._recognises or isinstance(arrival.record, Refused):
            return False
        known = identity(arrival.record)
        committed = None if known is None else self._known.get(known)
        return committed is not None and (arrival.redelivered or committed < self._connection)

    def _remember(self, messages: Iterable[Message]) -> None:
        for message in messages:
            known = identity(message)
            if known is not None:
                self._known[known] = self._connection
        while len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]

    def _refused_row(self, arrival: Arrival, topology_version: int | None) -> dict[str, Any]:
        refused = arrival.record
        assert isinstance(refused, Refused)  # noqa: S101  # the caller has chosen these
        delivery = refused.delivery
        self._refused += 1
        names = [name if isinstance(name, str) else None for name in (delivery.exchange, delivery.routing_key)]
        return {
            "exchange": names[0],
            "routing_key": names[1],
            "body": delivery.body,
            "reason": "invalid_record",
            "disposition": "discarded",
            "detail": refused.detail,
            "raw": delivery.raw,
            "routing": {
                "stream": self._log.app_id,
                "topology_version": topology_version,
                "batch_id": self._log.claim,
                "seq": self._refused,
            },
            "routed_at": datetime.now(UTC),
            "source": {"topic": self._options.queue, "offset": arrival.offset},
        }


def _offsets(arrivals: Sequence[Arrival]) -> list[int] | None:
    """The offsets of messages of a stream; None for those of a queue."""
    offsets = [one.offset for one in arrivals if one.offset is not None]
    return offsets if len(offsets) == len(arrivals) else None


def _no_rows() -> pa.Table:
    return MESSAGE_SCHEMA.empty_table()


def _with_all_columns(rows: pa.Table) -> pa.Table:
    return pa.concat_tables([_no_rows(), rows], promote_options="default").select(MESSAGE_SCHEMA.names)
