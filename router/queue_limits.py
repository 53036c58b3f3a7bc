"""Limits of a queue, as brokers have them: by its arguments and by the policies that apply to it.

The rules are RabbitMQ's (its guides "TTL", "Queue Length Limit", "Dead Letter Exchanges" and "Policies"). Where an
argument, the policy and the operator policy state a number, the lowest holds; of anything else the argument comes
before policies, and the operator policy before the policy. `x-overflow` decides whether the bounds of length do
anything: `drop-head`, which holds where nothing is stated, drops the oldest; what is published cannot be refused here.

`expires` ends the queue itself, not its rows: one that nobody has used for so long is deleted.

`x-last-value-key` makes a last value queue, as Artemis (`last-value-key`) and Qpid Broker-J (`lvqKey`) have them.

Values that a broker would refuse are refused when a queue is declared; where an older topology holds one, it is no
limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from bindery.router.errors import InvalidDeclaration
from bindery.router.model import Queue, Topology
from bindery.router.policies import OPERATOR_POLICY, POLICY, Policies, policies_of
from bindery.router.values import Table, Value, encode

EXPIRES: Final = "expires"
MESSAGE_TTL: Final = "message-ttl"
MAX_LENGTH: Final = "max-length"
MAX_LENGTH_BYTES: Final = "max-length-bytes"
OVERFLOW: Final = "overflow"
DROP_HEAD: Final = "drop-head"
#: The bounds that `overflow` decides about.
BOUNDS: Final = (MAX_LENGTH, MAX_LENGTH_BYTES)
DEAD_LETTER_EXCHANGE: Final = "dead-letter-exchange"
DEAD_LETTER_ROUTING_KEY: Final = "dead-letter-routing-key"
#: The argument that makes a queue keep the last message of each value of an application property; no policy has it.
LAST_VALUE_KEY: Final = "x-last-value-key"
#: The argument of a queue that says how many seconds back a new way to it reaches; no policy has it.
BACKFILL: Final = "x-backfill"
_OVERFLOWS: Final = (DROP_HEAD, "reject-publish", "reject-publish-dlx")


def argument(key: str) -> str:
    """The argument of a queue that says what a policy's key says."""
    return f"x-{key}"


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """What bounds a queue and its rows; None is no bound. True where rows are bounded.

    ttl_ms          rows go when they have been in the queue for so many milliseconds, or for their own `header.ttl` if
                    that is shorter
    max_rows        the oldest rows beyond so many go
    max_bytes       the oldest rows go whose bodies, with those of all later rows, have more bytes
    last_value_key  of rows with the same value of this application property the last one stays
    exchange        what expires or is too many is published to this exchange, "" being the default one
    routing_key     … with this key instead of those that it came with
    expires_ms      the queue is deleted when nobody has used it for so many milliseconds
    """

    ttl_ms: int | None = None
    max_rows: int | None = None
    max_bytes: int | None = None
    last_value_key: str | None = None
    exchange: str | None = None
    routing_key: str | None = None
    expires_ms: int | None = None

    def __bool__(self) -> bool:
        """Whether rows are bounded."""
        return any(bound is not None for bound in (self.ttl_ms, self.max_rows, self.max_bytes, self.last_value_key))


def drops_head(stated: Table, *, prefix: str = "") -> bool:
    """Whether arguments (with their prefix `x-`) or the keys of a policy leave the bounds of length in effect."""
    return stated.get(f"{prefix}{OVERFLOW}", DROP_HEAD) == DROP_HEAD


class LimitsOf:
    """The limits of the queues of one topology."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._policies = Policies(topology)
        self._operators = Policies(topology, kind=OPERATOR_POLICY)

    def __call__(self, queue: Queue) -> QueueLimits:
        """What bounds a queue."""
        policy, operator = (
            Table() if found is None else found.definition
            for found in (
                policies.applying("queues", queue.vhost, queue.name) for policies in (self._policies, self._operators)
            )
        )

        def lowest(key: str, at_least: int = 0) -> int | None:
            values = (queue.arguments.get(argument(key)), policy.get(key), operator.get(key))
            counts = (value for value in values if isinstance(value, int) and _is_count(value))
            return min((count for count in counts if count >= at_least), default=None)

        def text(key: str) -> str | None:
            values = (queue.arguments.get(argument(key)), operator.get(key), policy.get(key))
            return next((value for value in values if isinstance(value, str)), None)

        key = queue.arguments.get(LAST_VALUE_KEY)
        bounded = (text(OVERFLOW) or DROP_HEAD) == DROP_HEAD
        return QueueLimits(
            ttl_ms=lowest(MESSAGE_TTL),
            max_rows=lowest(MAX_LENGTH) if bounded else None,
            max_bytes=lowest(MAX_LENGTH_BYTES) if bounded else None,
            last_value_key=key if isinstance(key, str) and key else None,
            exchange=text(DEAD_LETTER_EXCHANGE),
            routing_key=text(DEAD_LETTER_ROUTING_KEY),
            expires_ms=lowest(EXPIRES, 1),
        )

    def expires_ms(self, queue: Queue) -> int | None:
        """For how long the queue may be unused; costs nothing where neither it nor a policy states anything."""
        if argument(EXPIRES) not in queue.arguments and not self._any_expires:
            return None
        return self(queue).expires_ms

    @cached_property
    def _any_expires(self) -> bool:
        """Whether a policy of any kind states how long queues may be unused."""
        kinds = (policies_of(self._topology, kind=kind) for kind in (POLICY, OPERATOR_POLICY))
        return any(EXPIRES in policy.definition for policies in kinds for policy in policies)

    def limited(self) -> Iterator[tuple[Queue, QueueLimits]]:
        """The queues that something bounds, them or their rows, by vhost and name."""
        for _, queue in sorted(self._topology.queues.items()):
            limits = self(queue)
            if limits or limits.expires_ms is not None:
                yield queue, limits


def check_limits(queue: Queue) -> None:
    """Refuse arguments that no limit can be read from; raises InvalidDeclaration."""
    for name, (accepts, expected) in _RULES.items():
        if name in queue.arguments and not accepts(queue.arguments[name]):
            raise InvalidDeclaration(
                f"argument {name!r} is {encode(queue.arguments[name])!r}",
                where=f"queue {queue.name!r}: arguments.{name}",
                hint=expected,
            )


def _is_count(value: Value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_positive(value: Value) -> bool:
    return _is_count(value) and value != 0


def _is_text(value: Value) -> bool:
    return isinstance(value, str)


_RULES: Final[dict[str, tuple[Callable[[Value], bool], str]]] = {
    argument(EXPIRES): (_is_positive, "milliseconds, 1 or more"),
    argument(MESSAGE_TTL): (_is_count, "milliseconds, 0 or more"),
    argument(MAX_LENGTH): (_is_count, "a number of messages, 0 or more"),
    argument(MAX_LENGTH_BYTES): (_is_count, "a number of bytes, 0 or more"),
    argument(DEAD_LETTER_EXCHANGE): (_is_text, "the name of an exchange"),
    argument(DEAD_LETTER_ROUTING_KEY): (_is_text, "a routing key"),
    LAST_VALUE_KEY: (lambda value: isinstance(value, str) and value != "", "the name of an application property"),
    BACKFILL: (_is_count, "seconds, 0 or more"),
    argument(OVERFLOW): (lambda value: value in _OVERFLOWS, "one of " + ", ".join(_OVERFLOWS)),
}
