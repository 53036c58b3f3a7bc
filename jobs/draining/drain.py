"""The drain: deliveries gathered, committed to the inbox, then acknowledged.

A queue is drained at least once: what was committed and not acknowledged when a process or connection ended is
delivered again. After each acknowledgement the broker is asked something on the same channel, and its answer says that
it has seen it: no more than one commit is in that state, unless the broker itself fails. A stream is drained exactly
once: each commit records the offset that it has come to, and the next consumer begins with that message, which shows
that it is the same stream, and is skipped.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import pika
from pika import exceptions

from bindery.jobs.draining.appending import Appender, Arrival
from bindery.jobs.draining.broker import Broker, is_stream, last_offset, raw_properties, reason_of
from bindery.jobs.draining.mapping import STREAM_OFFSET, Delivery, record_of
from bindery.jobs.draining.options import Counts, DrainOptions, Start
from bindery.jobs.draining.wire import find_integer
from bindery.router.errors import BinderyError, InvalidInput, Refused
from bindery.store.paths import DataDir

#: Seconds that one look for deliveries takes at most; the quiet ones after which a stream counts as read; and those
#: after which the message that it was left at is missed.
_LOOK: Final = 0.2
_QUIET: Final = 2.0
_MISSED: Final = 30.0
#: Seconds between two tries to connect: the first pause, and the longest.
_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 30.0


class Drain:
    """Drains one queue or stream; `run` in one thread, `stop` from anywhere, a signal handler included.

    `report` is called after each look for deliveries, `note` with a line about the connection.
    """

    def __init__(
        self,
        data: DataDir,
        broker: Broker,
        options: DrainOptions,
        *,
        report: Callable[[Counts], None] = lambda _counts: None,
        note: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self.data = data
        self.broker = broker
        self.options = options
        self.report = report
        self._note = note
        self._stopping = threading.Event()
        self._pause = _PAUSE
        self.appender: Appender | None = None
        self.is_stream = False

    def stop(self) -> None:
        """Commit and acknowledge what has been delivered, and end."""
        self._stopping.set()

    @property
    def is_stopping(self) -> bool:
        """Whether it was told to end."""
        return self._stopping.is_set()

    def run(self) -> Counts:
        """Drain until stopped, or until there is nothing left where that is asked for; what was done.

        A connection that is lost is made again after a pause, which grows; the first one must succeed. Raises
        InvalidInput and Refused for what the broker refuses, Fenced for a newer drain of the same name, and what
        commits raise.
        """
        with raw_properties():
            while not self.is_stopping:
                try:
                    appender = self._prepared()
                    with self.broker.connection() as connection:
                        appender.connected()
                        _Consumer(self, appender, connection).run()
                        break
                except exceptions.AMQPError as error:
                    self._after(error)
        return Counts() if self.appender is None else self.appender.counts

    def moved_on(self) -> None:
        """The connection is of use: the next pause is a short one again."""
        self._pause = _PAUSE

    def _prepared(self) -> Appender:
        """What appends; made once the broker has said what it is that is drained."""
        if self.appender is None:
            options = self.options
            self.is_stream = is_stream(self.broker, options.queue)
            if options.start is not None and not self.is_stream:
                raise InvalidInput(f"queue {options.queue!r} is no stream: it begins at its head", where="--from")
            source = f"{self.broker.address.vhost}/{options.queue}"
            self.appender = Appender(self.data, options, source, is_stream=self.is_stream)
        return self.appender

    def _after(self, error: exceptions.AMQPError) -> None:
        """Wait before another try; raises what the broker's refusal means."""
        refusal = self.broker.refusal(error, self.options.queue)
        if refusal is not None:
            raise refusal from None
        reason = reason_of(error)
        if self.appender is None:
            raise BinderyError(f"cannot reach {self.broker.address}: {reason}", where="--url") from None
        pause = self._pause * random.uniform(0.5, 1.0)  # noqa: S311  # not all drains at the same moment
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        self._note(f"lost {self.broker.address}: {reason}; next try in {pause:.1f} s")
        self._stopping.wait(pause)


@dataclass(frozen=True, slots=True)
class _Pending:
    """A delivery that is not committed: its tag and its size in bytes."""

    tag: int
    size: int
    arrival: Arrival


class _Consumer:
    """The consumption over one connection: nothing of it outlives the connection but what is committed."""

    def __init__(self, drain: Drain, appender: Appender, connection: pika.BlockingConnection) -> None:
        self._drain = drain
        self._appender = appender
        self._options = drain.options
        self._connection = connection
        self._channel: Any = connection.channel()
        self._pending: deque[_Pending] = deque()
        self._bytes = 0
        self._delivered = 0
        self._oldest = 0.0
        self._is_cancelled = False
        #: the offset that a stream was drained up to
        self._resumed: int | None = None
        self._is_placed = not drain.is_stream

    def run(self) -> None:
        """Consume until the drain is stopped, or there is nothing left where it is to end then."""
        options = self._options
        arguments: dict[str, Any] = {}
        end: int | None = None
        if self._drain.is_stream:
            self._resumed = self._appender.position
            start = options.start if self._resumed is None else max(self._resumed, 0)
            arguments["x-stream-offset"] = start = "first" if start is None else start
            if options.until_empty:
                end = self._end(start)
        self._channel.basic_qos(prefetch_count=options.prefetch)
        self._channel.add_on_cancel_callback(self._on_cancel)
        self._channel.basic_consume(options.queue, self._on_message, arguments=arguments)
        begun, quiet = time.monotonic(), 0.0
        while True:
            before = self._delivered
            self._connection.process_data_events(self._patience())
            if self._pending and not self._is_placed:
                self._check_place(self._pending[0].arrival.offset)
            elif self._resumed is not None and not self._is_placed and time.monotonic() > begun + _MISSED:
                raise self._another(self._resumed)
            while self._is_full() or (self._pending and (self._drain.is_stopping or self._is_cancelled)):
                self._commit()
            self._drain.report(self._appender.counts)
            if self._is_cancelled:
                raise exceptions.ConsumerCancelled
            if self._drain.is_stopping:
                return
            if options.until_empty:
                quiet = quiet + _LOOK if self._delivered == before else 0.0
                if quiet and self._is_empty(quiet, end):
                    return

    def _end(self, start: Start) -> int | None:
        """An offset that a stream has from there on and near its end; None where it may have no messages."""
        if start == "next" or isinstance(start, datetime):
            return None
        end = last_offset(self._drain.broker, self._options.queue, _QUIET)
        return None if end is None or (isinstance(start, int) and start > end) else end

    def _patience(self) -> float:
        """Seconds until the next look at what there is."""
        if self._pending:
            return max(min(self._oldest + self._options.seconds - time.monotonic(), _LOOK), 0)
        return _LOOK

    def _on_message(self, _channel: Any, method: Any, properties: Any, body: bytes) -> None:
        encoded: bytes = properties.encoded
        delivery = Delivery(method.exchange, method.routing_key, method.redelivered, encoded, body)
        offset = find_integer(encoded, STREAM_OFFSET) if self._drain.is_stream else None
        arrival = Arrival(record_of(delivery, self._options.exchange), method.redelivered, offset)
        if not self._pending:
            self._oldest = time.monotonic()
        size = len(body) + len(encoded)
        self._pending.append(_Pending(method.delivery_tag, size, arrival))
        self._bytes += size
        self._delivered += 1

    def _on_cancel(self, _frame: Any) -> None:
        self._is_cancelled = True

    def _check_place(self, first: int | None) -> None:
        """Compare the first offset of a stream with where it was left; raises Refused when it is another place."""
        if first is None:
            raise BinderyError("a message of a stream came without its offset", where="--queue")
        self._is_placed = True
        resumed = self._resumed
        if resumed is None:
            self._appender.begin_at(first)
            return
        if first < resumed:
            raise self._another(resumed)
        if first > resumed + 1 and not self._options.accept_gap:
            raise Refused(
                f"stream {self._options.queue!r} was drained up to offset {resumed} and begins at {first} now: "
                "what was between was removed before it was drained",
                where="--queue",
                hint="--accept-gap goes on without it; let the stream keep more (x-max-age, x-max-length-bytes)",
            )
        if first == resumed:
            self._bytes -= self._pending.popleft().size

    def _another(self, resumed: int) -> Refused:
        return Refused(
            f"stream {self._options.queue!r} was drained up to offset {resumed} and ends before it: "
            "it is another stream of that name",
            where="--queue",
            hint="drain it under another --name",
        )

    def _is_full(self) -> bool:
        options = self._options
        return bool(self._pending) and (
            len(self._pending) >= options.full
            or self._bytes >= options.size
            or time.monotonic() >= self._oldest + options.seconds
        )

    def _commit(self) -> None:
        """Commit the oldest deliveries, as many as a commit takes, and acknowledge them."""
        batch: list[_Pending] = []
        size = 0
        while self._pending and len(batch) < self._options.messages and size < self._options.size:
            batch.append(self._pending.popleft())
            size += batch[-1].size
        self._bytes -= size
        self._appender.append([one.arrival for one in batch])
        self._drain.moved_on()
        if not self._is_cancelled:
            self._channel.basic_ack(batch[-1].tag, multiple=True)
            if not self._drain.is_stream:
                self._ready()  # the broker answers that knowing of the acknowledgement

    def _ready(self) -> int:
        """Messages that the broker has still to deliver."""
        count: int = self._channel.queue_declare(self._options.queue, passive=True).method.message_count
        return count

    def _is_empty(self, quiet: float, end: int | None) -> bool:
        """Whether nothing is left after so many seconds without a delivery; what is pending is committed first."""
        if self._pending:
            self._commit()
            return False
        if not self._drain.is_stream:
            return quiet > _LOOK and self._ready() == 0 and not self._pending
        if self._resumed is not None and not self._is_placed:
            return False
        position = self._appender.position
        return quiet >= _QUIET and (end is None or (position is not None and position >= end))
