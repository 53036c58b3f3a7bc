"""A Kafka topic to which records are produced, each at least once.

The producer is idempotent and waits for every replica in sync (librdkafka, "Idempotent Producer"), so what it
has acknowledged is there, once, in the order of each partition. What it has not may be there or not.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from bindery.jobs.forwarding.records import Record
from bindery.router.errors import BinderyError, InvalidInput, NotFound, Refused, Stopped

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, KafkaException, Message, Producer

_LOGGER: Final = logging.getLogger(__name__)
#: Seconds between two looks at whether to stop.
_LOOK: Final = 0.2
#: Seconds for which one answer of the brokers is waited for; at first less, as the client may know why none comes.
_ANSWER: Final = 10.0
_FIRST: Final = 2.0
#: Seconds for which brokers that answer slowly are waited for once a stop was asked for.
_GRACE: Final = 10.0
#: Milliseconds after which a record that no broker has taken counts as failed, unless it is waited for without end.
_PATIENCE_MS: Final = 300_000
#: What may be set otherwise; what may not is in `jobs.control.forward`.
_DEFAULTS: Final[Mapping[str, Any]] = {
    "linger.ms": 50,
    "compression.type": "lz4",
    "partitioner": "murmur2_random",  # the one of Kafka's own clients: the same keys go to the same partitions
    "message.max.bytes": 256 << 20,  # it is the broker that decides
    "queue.buffering.max.kbytes": 64 << 10,
    "log_level": 2,  # what goes wrong is told by the callback
}
_SETTINGS_HINT: Final = (
    "see whether the settings of the client fit the brokers: security.protocol, sasl.*, ssl.ca.location (or ssl.ca.pem)"
)


class NotDelivered(BinderyError):
    """The brokers did not take what was sent to them."""

    code = "not_delivered"


class Topic:
    """Records on their way to one topic; not safe between threads.

    `stopping` tells whether to stop waiting; with `patient` brokers that are away are waited for without end.
    Records that the topic refuses for what they are end the work, or with `skip_refused` are left out: `refused`
    counts them. Raises InvalidInput for a setting that librdkafka does not take or without the package.
    """

    def __init__(
        self,
        servers: str,
        name: str,
        options: Mapping[str, Any] | None = None,
        *,
        stopping: Callable[[], bool] = lambda: False,
        patient: bool = False,
        skip_refused: bool = False,
    ) -> None:
        self.name = name
        self.refused = 0
        self.trouble: str | None = None
        self._servers = servers
        self._found = False
        self._stopping = stopping
        self._patient = patient
        self._skip_refused = skip_refused
        self._failed: list[tuple[Record, KafkaError]] = []
        self._fatal: KafkaError | None = None
        settings = {
            **_DEFAULTS,
            "message.timeout.ms": 0 if patient else _PATIENCE_MS,
            **(options or {}),
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "acks": "all",
            "delivery.report.only.error": True,
            "error_cb": self._note,
            "logger": _LOGGER,
        }
        self._producer, self._error, self._too_large = _producer(settings)

    def check(self) -> None:
        """Wait for the brokers, and raise NotFound when they have no such topic; NotDelivered when they do not answer.

        They are asked for all topics: asked for one, they may make it.
        """
        patience = _ANSWER if self._found else _FIRST
        while True:
            try:
                topics = self._producer.list_topics(timeout=patience).topics
                break
            except self._error as error:
                self._producer.poll(0)
                self._look()
                self.trouble = self.trouble or error.args[0].str()
                if not self._patient and patience == _ANSWER:
                    raise NotDelivered(
                        f"no answer from the brokers: {self.trouble}",
                        where=self._servers,
                        hint=f"see whether they run and can be reached from here; {_SETTINGS_HINT}",
                    ) from None
                patience = _ANSWER
        if self.name not in topics or topics[self.name].error is not None:
            raise NotFound(
                f"the brokers have no topic {self.name!r}, or do not show it",
                where="topic",
                hint="create it first, with as many partitions as its readers need",
            )
        self._found, self.trouble = True, None

    def send(self, records: Iterable[Record]) -> int:
        """Produce records, waiting while too many are under way; the bytes of their values. Raises as `settle`."""
        sent = sum(map(self._send, records))
        if self._failed:
            self.settle()  # before more of them gather
        return sent

    def settle(self) -> None:
        """Wait until everything that was sent is acknowledged.

        Raises NotDelivered when it is not, Refused for records that the topic refuses, Stopped when the brokers
        do not answer and the work is to stop.
        """
        self._flush()
        while self._failed:
            failed, self._failed = self._failed, []
            for record, error in failed:
                self._once_more(record, error)
        self.trouble = None

    def idle(self) -> None:
        """Take notice of what the client has to say while nothing is sent."""
        self.trouble = None
        self._producer.poll(0)
        self._look(stop=False)

    def close(self) -> None:
        """Give up what is under way."""
        self._producer.purge()
        self._producer.flush(_LOOK)

    def _send(self, record: Record) -> int:
        while True:
            try:
                self._producer.produce(
                    self.name,
                    record.value,
                    key=record.key,
                    headers=record.headers,
                    timestamp=record.timestamp,
                    on_delivery=partial(self._delivered, record),
                )
            except BufferError:
                if len(self._producer):
                    self._producer.poll(_LOOK)
                    self._look()
                    continue
                self._failed.append((record, self._too_large))  # alone it takes more room than there is
            except self._error as error:
                self._failed.append((record, error.args[0]))
            return len(record.value or b"")

    def _flush(self) -> None:
        given_up: float | None = None
        while self._producer.flush(_LOOK):
            self._look(stop=False)
            if self._stopping():
                given_up = given_up or time.monotonic() + _GRACE
                if time.monotonic() > given_up:
                    raise _stopped()
        self._look(stop=False)

    def _once_more(self, record: Record, error: KafkaError) -> None:
        """Send a record alone: a batch is refused as a whole, and most of it may be without fault."""
        from confluent_kafka import KafkaError  # noqa: PLC0415  # there, once there is a producer

        refusals = {
            KafkaError.MSG_SIZE_TOO_LARGE,
            KafkaError.INVALID_MSG,
            KafkaError.INVALID_RECORD,
            KafkaError._INVALID_DIFFERENT_RECORD,
            KafkaError.INVALID_TIMESTAMP,
        }
        if error.code() not in refusals:
            self.check()  # a topic that was deleted is told by several codes
            raise NotDelivered(
                f"the brokers did not take {record.identity()}: {error.str()}",
                where=self.name,
                hint="nothing is lost: the next start sends again what was not acknowledged",
            )
        self._send(record)
        self._flush()
        again, self._failed = self._failed, []
        if not again:
            return
        if again[0][1].code() not in refusals:
            self._once_more(record, again[0][1])
        size = len(record.value or b"") + sum(len(name) + len(value or b"") for name, value in record.headers)
        message = f"the topic refuses {record.identity()}, {size:,} bytes: {again[0][1].str()}"
        if not self._skip_refused:
            raise Refused(
                message,
                where=self.name,
                hint="raise max.message.bytes of the topic if it is too large; --skip-refused leaves such rows out",
            )
        self.refused += 1
        _LOGGER.warning("left out: %s", message)

    def _delivered(self, record: Record, error: KafkaError | None, _message: Message) -> None:
        """Note a record that was not delivered; called for no others."""
        if error is not None:
            self._failed.append((record, error))

    def _note(self, error: KafkaError) -> None:
        """Note what the client says about its brokers."""
        from confluent_kafka import KafkaError  # noqa: PLC0415  # as above

        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self.trouble = error.str()
        elif self.trouble is None:  # else it says why
            self.trouble = "no connection to a broker lasts"
        untrusted = error.code() == KafkaError._SSL and not self._found  # later a certificate may be renewed
        if error.fatal() or untrusted or error.code() in (KafkaError._AUTHENTICATION, KafkaError._FATAL):
            self._fatal = error

    def _look(self, *, stop: bool = True) -> None:
        if self._fatal is not None:
            hint = None if self._fatal.fatal() else _SETTINGS_HINT
            raise NotDelivered(f"the client gives up: {self._fatal.str()}", where=self._servers, hint=hint)
        if stop and self._stopping():
            raise _stopped()


def _stopped() -> Stopped:
    return Stopped(
        "stopped before everything that was sent was acknowledged",
        hint="the next start sends it again",
    )


def _producer(settings: Mapping[str, Any]) -> tuple[Producer, type[KafkaException], KafkaError]:
    """The producer, what it raises, and the error of a record that is too large."""
    try:
        from confluent_kafka import KafkaError, KafkaException, Producer  # noqa: PLC0415  # an extra
    except ImportError:
        raise InvalidInput(
            "the package confluent-kafka is missing", where="kafka", hint="pip install 'bindery[kafka]'"
        ) from None
    try:
        return Producer(dict(settings)), KafkaException, KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    except (KafkaException, TypeError, ValueError) as error:
        said = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        raise InvalidInput(f"the client refuses its settings: {said}", where="config") from None
