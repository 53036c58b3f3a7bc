"""The tap: RabbitMQ's firehose into an exclusive queue of a bounded length, and nothing left of it afterwards.

The queue is the connection's own: the broker deletes it when the connection ends, however the process ended. What
outlives a process that is killed is the firehose itself, if the tap has turned it on. So the tap first declares an
exchange that says so, and whoever comes next turns the firehose off, or answers for it in its turn: an exchange of a
shadow without a queue of a shadow of that name belongs to one that has died. The firehose of a vhost that somebody else
turned on stays on.

Into the queue the tap publishes marks of its own, by its exchange: what was published before a mark was routed
before the mark was. The events that the firehose tells of the marks of taps are left out.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pika
from pika import exceptions

from bindery.jobs.shadowing.look import OWN, Look, read_look
from bindery.jobs.shadowing.publication import FIREHOSE, PUBLICATIONS, PUBLISHED_TO
from bindery.router.errors import BinderyError

#: What the queue holds at most, the oldest dropped first: messages and bytes; and how many are sent ahead of it.
LENGTH: Final = 20_000
SIZE: Final = 64 * 2**20
_PREFETCH: Final = 500


class ShadowFailed(BinderyError):
    """A broker that cannot be shadowed, or no longer."""

    code = "shadow_failed"
    exit_code = 2


class Management(Protocol):
    """What is asked of the management API of a broker; each may raise a BinderyError."""

    def definitions(self, vhost: str | None = None) -> bytes:
        """The definitions of a vhost."""

    def bindings(self, vhost: str) -> list[Mapping[str, Any]]:
        """Its bindings, all of them."""

    def nodes(self) -> list[str]:
        """The nodes of the cluster that run."""

    def vhost(self, name: str) -> Mapping[str, Any] | None:
        """A vhost; None where there is none of that name."""

    def trace(self, vhost: Mapping[str, Any], *, on: bool) -> None:
        """Turn its firehose on or off."""

    def delete_exchange(self, vhost: str, name: str) -> None:
        """Delete an exchange, if it is there."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of a publication: its properties as on the wire, and its size in bytes."""

    encoded: bytes
    size: int


class Tap:
    """The tap of one vhost over one connection; `remove` it whatever happens after `lay`."""

    def __init__(self, management: Management, vhost: str, *, compat: str | None = None) -> None:
        self.name = f"{OWN}{secrets.token_hex(8)}"
        #: copies and numbers of marks, in the order of the queue
        self.arrived: deque[Copy | int] = deque()
        self.messages = self.bytes = self.marks = 0
        #: whether all of it is there
        self.is_laid = False
        #: whether the firehose was turned on for this tap, or one before it that has died or still runs
        self.answers = False
        #: whether the queue was seen full, or a mark did not come: then the broker has dropped some of it
        self.overflowed = False
        #: what could not be removed, and what to do about it
        self.left = ""
        self._management = management
        self._vhost = vhost
        self._compat = compat
        self._channel: Any = None
        self._marking: Any = None
        self._newest: Look | None = None
        self._tag: int | None = None
        self._come = 0

    def look(self) -> Look:
        """The topology of the broker now, and what shadows there are."""
        definitions, bindings = self._management.definitions(self._vhost), self._management.bindings(self._vhost)
        self._newest = read_look(definitions, bindings, self._newest, compat=self._compat)
        return self._newest

    def lay(self, connection: pika.BlockingConnection) -> None:
        """Declare queue and exchange, and turn the firehose on unless it is; raises AMQPError, BinderyError."""
        traces = self.traces()
        found = self.look()  # after that: one that turns the firehose on has declared its exchange before
        self.answers = not traces or any(found.claims.values())
        channel = self._channel = connection.channel()
        # exclusive: it goes with the connection, and needs no time after which it expires
        bounds = {"x-max-length": LENGTH, "x-max-length-bytes": SIZE, "x-overflow": "drop-head"}
        channel.queue_declare(self.name, exclusive=True, arguments=bounds | {"x-queue-type": "classic"})
        # one that answers for nothing goes with its queue
        channel.exchange_declare(self.name, "fanout", auto_delete=not self.answers)
        channel.queue_bind(self.name, self.name, "")
        channel.queue_bind(self.name, FIREHOSE, PUBLICATIONS)
        channel.basic_qos(prefetch_count=_PREFETCH)
        channel.basic_consume(self.name, self._on_message)
        self._marking = connection.channel()
        self._marking.confirm_delivery()
        for name in found.claims.keys() - found.taps:
            self._management.delete_exchange(self._vhost, name)
        if self.answers and not self.traces():
            self._management.trace(self._described(), on=True)
        self.is_laid = True

    def traces(self) -> bool:
        """Whether the firehose is on, at the node that answers."""
        return self._described().get("tracing") is True

    def mark(self, number: int) -> None:
        """Publish a mark; when this returns the queue has it."""
        self._marking.basic_publish(self.name, "", str(number).encode())
        self.marks += 1
        state = self._channel.queue_declare(self.name, passive=True).method
        self.overflowed = self.overflowed or state.message_count >= LENGTH

    def acknowledge(self) -> None:
        """Acknowledge what has arrived."""
        if self._tag is not None:
            self._channel.basic_ack(self._tag, multiple=True)
            self._tag = None

    def remove(self) -> None:
        """Remove all of it, as far as the broker can be reached; `left` says what is left."""
        with suppress(exceptions.AMQPError):
            if self._channel is not None and self._channel.is_open:
                self._channel.queue_delete(self.name)
        try:
            self._turn_off()
            self._management.delete_exchange(self._vhost, self.name)
        except BinderyError as error:
            if self.answers:
                self.left = (
                    f"the firehose of vhost {self._vhost!r} may still be on ({error}): `rabbitmqctl trace_off -p "
                    f"{self._vhost}` turns it off, and so does the next `bindery shadow` of the vhost"
                )

    def _turn_off(self) -> None:
        """Turn the firehose off if this tap answers for it and no other one runs: the last one does."""
        if self.answers and not self.look().taps - {self.name}:
            vhost = self._management.vhost(self._vhost)
            if vhost is not None and vhost.get("tracing") is True:  # one that was deleted would be made anew
                self._management.trace(vhost, on=False)

    def _described(self) -> Mapping[str, Any]:
        found = self._management.vhost(self._vhost)
        if found is None:
            raise ShadowFailed(f"the broker has no vhost {self._vhost!r}")
        return found

    def _on_message(self, _channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self._tag = method.delivery_tag
        if method.exchange == self.name:
            number = int(body)
            self.overflowed = self.overflowed or number > self._come + 1
            self._come = number
            self.arrived.append(number)
        elif not method.routing_key.startswith(PUBLISHED_TO + OWN):
            size = len(body) + len(properties.encoded)
            self.messages += 1
            self.bytes += size
            self.arrived.append(Copy(properties.encoded, size))
