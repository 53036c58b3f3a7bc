"""A RabbitMQ over AMQP 0-9-1: connections, consumers, and what its refusals mean. Needs pika."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pika
from pika import exceptions, spec

from bindery.jobs.draining.address import Address
from bindery.jobs.draining.mapping import STREAM_OFFSET
from bindery.jobs.draining.wire import find_integer
from bindery.router.errors import BinderyError, InvalidInput, NotFound, Refused

#: How a node says that it is there and what was asked for is not yet.
_NOT_YET: Final = ("is down or inaccessible", "is down", "no_leader", "timeout")
_TIMEOUT: Final = 10.0


class _RawProperties(spec.BasicProperties):  # type: ignore[misc]
    """The properties of a message as bytes: pika itself cuts floats and fails at late times."""

    encoded = b"\0\0"

    def decode(self, encoded: bytes, offset: int = 0) -> _RawProperties:
        self.encoded = bytes(encoded[offset:])
        return self


@contextmanager
def raw_properties() -> Iterator[None]:
    """In this context pika leaves the properties of messages as they are on the wire."""
    usual = spec.props[spec.BasicProperties.INDEX]
    spec.props[spec.BasicProperties.INDEX] = _RawProperties
    try:
        yield
    finally:
        spec.props[spec.BasicProperties.INDEX] = usual


@dataclass(frozen=True, slots=True)
class Broker:
    """How to reach a broker; `heartbeat` in seconds, `ca_file` whom to trust instead of the system's authorities.

    A connection that the broker keeps from publishing, being short of memory or disk, is lost after `patience` seconds.
    """

    address: Address
    ca_file: Path | None = None
    heartbeat: int = 60
    name: str = "bindery drain"
    patience: float | None = None

    @contextmanager
    def connection(self) -> Iterator[pika.BlockingConnection]:
        """A connection; raises an AMQPError, which `refusal` explains."""
        parameters = self._parameters()
        try:
            connection = pika.BlockingConnection(parameters)
        except OSError as error:
            raise exceptions.AMQPConnectionError(error) from error
        try:
            yield connection
        finally:
            with suppress(exceptions.AMQPError):
                connection.close()

    def _parameters(self) -> pika.ConnectionParameters:
        address = self.address
        return pika.ConnectionParameters(
            host=address.host,
            port=address.port,
            virtual_host=address.vhost,
            credentials=pika.PlainCredentials(address.user, address.password, erase_on_connect=True),
            ssl_options=pika.SSLOptions(self._tls(), address.host) if address.tls else None,
            heartbeat=self.heartbeat,
            blocked_connection_timeout=self.patience,
            socket_timeout=_TIMEOUT,
            stack_timeout=2 * _TIMEOUT,
            client_properties={"connection_name": self.name},
        )

    def _tls(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=None if self.ca_file is None else str(self.ca_file))
        except (OSError, ssl.SSLError) as error:
            raise InvalidInput(f"cannot read {self.ca_file}: {error.strerror or error}", where="--ca-file") from None

    def refusal(self, error: BaseException, queue: str) -> BinderyError | None:
        """What a refusal of the broker means; None for what passes, such as a connection that was lost."""
        vhost, user = self.address.vhost, self.address.user
        code = getattr(error, "reply_code", None)
        said = str(getattr(error, "reply_text", error))
        if any(word in said for word in _NOT_YET):
            return None
        if isinstance(error, exceptions.ProbableAuthenticationError | exceptions.AuthenticationError):
            return InvalidInput(
                f"{self.address} refuses user {user!r}", where="--url", hint="check the name and --password"
            )
        if isinstance(error, exceptions.ProbableAccessDeniedError):
            return InvalidInput(f"{self.address} refuses vhost {vhost!r} to user {user!r}: {said}", where="--url")
        if code == 404:
            return NotFound(f"there is no queue {queue!r} in vhost {vhost!r} of {self.address}", where="--queue")
        if code == 405 or (code == 403 and "exclusive" in said):
            return Refused(f"another consumer has queue {queue!r} for itself alone", where="--queue", hint=said)
        if code in (403, 406, 540):
            return InvalidInput(f"{self.address} refuses: {said}", where="--queue")
        return None


def reason_of(error: BaseException) -> str:
    """One line about a connection that could not be made, or was lost."""
    text = getattr(error, "reply_text", None)
    while text is None and error.args and isinstance(error.args[-1], BaseException | tuple | list):
        last = error.args[-1]
        error = (
            last
            if isinstance(last, BaseException)
            else next((one for one in reversed(last) if isinstance(one, BaseException)), Exception(str(last)))
        )
    found = str(text or getattr(error, "exception", None) or error or type(error).__name__)
    return found.partition("\n")[0]


def is_stream(broker: Broker, queue: str) -> bool:
    """Whether a queue is a stream: they alone take offsets. Nothing is taken from a queue."""
    with broker.connection() as connection:
        try:
            _consume(connection, queue, "next")
        except exceptions.ChannelClosedByBroker as error:
            if error.reply_code == 406 and "x-stream-offset" in error.reply_text:
                return False
            raise
    return True


def last_offset(broker: Broker, queue: str, wait: float) -> int | None:
    """An offset near the end of a stream: of the first message of its last chunk; None for an empty one.

    `wait` are the seconds after which it counts as empty.
    """
    with broker.connection() as connection:
        found = _consume(connection, queue, "last")
        connection.process_data_events(wait)
    return find_integer(found[0], STREAM_OFFSET) if found else None


def _consume(connection: pika.BlockingConnection, queue: str, start: str) -> list[bytes]:
    """A consumer of a stream; its list gets the properties of what is delivered.

    For a connection of its own: pika rejects what it has not handed over when a consumer ends, and streams, which know
    no rejections, end the connection then.
    """
    found: list[bytes] = []
    channel = connection.channel()
    channel.basic_qos(prefetch_count=1)
    channel.basic_consume(
        queue,
        lambda _channel, _method, properties, _body: found.append(properties.encoded),
        arguments={"x-stream-offset": start},
    )
    return found
