"""What each argument does, each key of a policy, each parameter, limit and property of a vhost: the one description.

Arguments and policy keys that brokers know are accepted whatever they ask for, so that clients and definitions
work unchanged and a repeated declaration compares equal. What nothing here acts on is said: in the report of an
import, in the answer to a declaration, and by topology lint. docs/arguments.md is this table, row by row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from bindery.router.freshness import FRESHNESS, FRESHNESS_ARGUMENT
from bindery.router.limits import LIMITS_KIND, MAX_QUEUES, limits_of
from bindery.router.model import (
    ALTERNATE_BINDING,
    ALTERNATE_EXCHANGE,
    COMPAT_ARGUMENT,
    FILTERS_ARGUMENT,
    HASH_HEADER,
    HASH_PROPERTY,
    OWNER_CONNECTION,
    PAYLOAD_ARGUMENT,
    PAYLOAD_SCHEMA,
    PAYLOAD_TYPE,
    QUEUE_FILTER,
    RECORD_UNROUTABLE,
    REPLACEMENT_KEY,
    SELECTOR_ARGUMENT,
    TRANSFORM,
    UNROUTABLE_BEHAVIOUR,
    X_MATCH,
    Exchange,
    Object,
    Queue,
    Setting,
    Vhost,
)
from bindery.router.model.objects import PARAMETER_PREFIX
from bindery.router.policies import (
    APPLY_TO,
    JOURNAL_KEY,
    MAX_AGE_KEY,
    MAX_BYTES_KEY,
    OPERATOR_POLICY,
    PAYLOAD_KEY,
    POLICY,
    Policy,
    policy_of,
)
from bindery.router.queue_limits import (
    BACKFILL,
    BOUNDS,
    DEAD_LETTER_EXCHANGE,
    DEAD_LETTER_ROUTING_KEY,
    DROP_HEAD,
    EXPIRES,
    LAST_VALUE_KEY,
    MAX_LENGTH,
    MAX_LENGTH_BYTES,
    MESSAGE_TTL,
    OVERFLOW,
    argument,
    drops_head,
)
from bindery.router.values import Table, Value

Kind = Literal["exchange", "queue", "binding", "policy", "parameter", "limit", "vhost"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument or policy key: what it does, or why nothing comes of it.

    `idle` are values that ask for nothing but what is done anyway: they are not reported as without effect.
    """

    kind: Kind
    name: str
    meaning: str
    effective: bool = False
    idle: tuple[Value, ...] = ()
    #: Of a policy's key: what it has to cover; None where anything does.
    covers: Literal["exchanges", "queues", "streams"] | None = None

    def as_row(self) -> str:
        """The row of the documentation's table."""
        idle = ", ".join(f"`{str(value).lower()}`" for value in self.idle)
        effect = "yes" if self.effective else f"none ({idle}: nothing is missing)" if idle else "none"
        return f"| `{self.name}` | {effect} | {self.meaning} |"


_NOT_IN_MEMORY: Final = "a queue is a table, no part of it is kept in memory"
_EACH_ONCE: Final = "each message arrives once, whatever is asked for"
_OVERFLOW: Final = "the oldest go; a job cannot refuse its records, so with any other value nothing bounds the length"
_TABLE: Final = "every queue is a Delta table; replication is the storage's business"
_NO_RETRIES: Final = "nothing is delivered again of itself; readers read the table"
_UNHASHED: Final = "only an x-consistent-hash exchange reads it"
_NO_CONSUMERS: Final = "there are no consumers that hold messages; readers read the table"

_SCHEMA: Final = "the schema of bodies that are avro or protobuf"
_TYPE: Final = "the message type of bodies that are protobuf"
_ACTING: Final = (
    Argument("exchange", ALTERNATE_EXCHANGE, "gets what no binding or divert of the exchange took", True),
    Argument("exchange", ALTERNATE_BINDING, "a queue or exchange that gets what reached no queue", True),
    Argument("exchange", UNROUTABLE_BEHAVIOUR, "REJECT: unroutable messages are rejected, not discarded", True),
    Argument("exchange", RECORD_UNROUTABLE, "false: discarded messages are only counted", True),
    Argument(
        "exchange",
        PAYLOAD_ARGUMENT,
        "what bodies are: filters of its bindings and diverts look into them, and so do keys of headers bindings",
        True,
    ),
    Argument("exchange", PAYLOAD_SCHEMA, _SCHEMA, True),
    Argument("exchange", PAYLOAD_TYPE, _TYPE, True),
    Argument("exchange", COMPAT_ARGUMENT, "the compatibility mode of its bindings and diverts", True),
    Argument("exchange", HASH_HEADER, "on an x-consistent-hash exchange: the header that is hashed", True),
    Argument(
        "exchange",
        HASH_PROPERTY,
        "on an x-consistent-hash exchange: the property that is hashed, message_id, correlation_id or timestamp",
        True,
    ),
    Argument("queue", PAYLOAD_ARGUMENT, "what bodies are: the filter of the queue looks into them", True),
    Argument("queue", PAYLOAD_SCHEMA, _SCHEMA, True),
    Argument("queue", PAYLOAD_TYPE, _TYPE, True),
    Argument("queue", COMPAT_ARGUMENT, "the compatibility mode of the filter of the queue", True),
    Argument("queue", QUEUE_FILTER, "only messages that meet the filter enter the queue", True),
    Argument(
        "queue",
        LAST_VALUE_KEY,
        "of messages with the same value of this application property maintenance keeps the last one",
        True,
    ),
    Argument("queue", FRESHNESS_ARGUMENT, "seconds that copies may wait in a journal before the table has them", True),
    Argument(
        "queue",
        BACKFILL,
        "a new binding brings messages of so many seconds before it, out of journals: maintenance backfills the queue",
        True,
    ),
    Argument("queue", OWNER_CONNECTION, "the connection that no-local filters take for the reader's", True),
    Argument("binding", SELECTOR_ARGUMENT, "a selector that a message must meet, on every type of exchange", True),
    Argument("binding", FILTERS_ARGUMENT, "a filter set that a message must meet, on every type of exchange", True),
    Argument("binding", COMPAT_ARGUMENT, "the compatibility mode of its filters", True),
    Argument("binding", REPLACEMENT_KEY, "replaces all keys on the way to an exchange; nothing to a queue", True),
    Argument("binding", TRANSFORM, "statements that change the copy of a message that goes over the binding", True),
    Argument("binding", X_MATCH, "on a headers exchange: how other arguments are compared; nothing elsewhere", True),
    Argument(
        "policy",
        ALTERNATE_EXCHANGE,
        "the alternate of exchanges without an argument of that name",
        True,
        covers="exchanges",
    ),
    Argument(
        "policy",
        FRESHNESS,
        "seconds that copies for queues may wait in a journal before their tables have them",
        True,
        covers="queues",
    ),
    Argument("policy", PAYLOAD_KEY, "what bodies are for exchanges and queues without the argument `x-payload`", True),
    Argument(
        "policy",
        JOURNAL_KEY,
        "with `apply-to: streams`: streams of jobs whose names match keep a journal, of the `max-age` and "
        "`max-length-bytes` beside it",
        True,
        covers="streams",
    ),
)
#: Limits of a queue, kept by maintenance: by an argument, named with `x-` in front, or by a policy.
_LIMITS: Final[Mapping[str, str]] = {
    MESSAGE_TTL: "maintenance deletes messages that have been in the queue for so many milliseconds",
    MAX_LENGTH: "maintenance deletes the oldest messages beyond so many",
    MAX_LENGTH_BYTES: "maintenance deletes the oldest messages beyond so many bytes of bodies",
    DEAD_LETTER_EXCHANGE: "what expires or is too many is published to this exchange, with an entry in `x-death`",
    DEAD_LETTER_ROUTING_KEY: "… with this key, in place of those that the message has",
    EXPIRES: "maintenance deletes the queue when nobody has used it for so many milliseconds",
}
#: What a queue is given by an argument, named with `x-` in front, or by a policy.
_OF_QUEUES: Final[Mapping[str, str]] = {
    "max-in-memory-length": _NOT_IN_MEMORY,
    "max-in-memory-bytes": _NOT_IN_MEMORY,
    OVERFLOW: _OVERFLOW,
    "max-age": "a queue is no stream; `x-message-ttl` is what lets messages expire",
    "dead-letter-strategy": _EACH_ONCE,
    "delivery-limit": "a message is handed out as often as it is asked for",
    "delayed-retry-type": _NO_RETRIES,
    "delayed-retry-min": _NO_RETRIES,
    "delayed-retry-max": _NO_RETRIES,
    "consumer-timeout": _NO_CONSUMERS,
    "consumer-disconnected-timeout": _NO_CONSUMERS,
    "queue-mode": _TABLE,
    "queue-version": _TABLE,
    "queue-leader-locator": _TABLE,
    "queue-master-locator": _TABLE,
    "stream-max-segment-size-bytes": _TABLE,
    "stream-filter-size-bytes": _TABLE,
    "initial-cluster-size": _TABLE,
    "member-placement-tag": _TABLE,
    "quorum-initial-group-size": _TABLE,
    "quorum-target-group-size": _TABLE,
}
_UNLINKED: Final = "brokers are not linked"
_NO_CONNECTIONS: Final = "nothing connects but HTTP clients"
_OTHERS: Final = (
    Argument("parameter", "vhost-limits", "the limits of a vhost", True),
    Argument("parameter", "vhost-protection", "keeps a vhost from being deleted", True),
    Argument("parameter", "shovel", "no messages are moved between brokers; a job reads and writes other tables"),
    Argument("parameter", "federation-upstream", _UNLINKED),
    Argument("parameter", "federation-upstream-set", _UNLINKED),
    Argument("parameter", "operator_policy", "operator policies bound queues only"),
    Argument("limit", MAX_QUEUES, "a vhost with so many queues gets no more of them", True),
    Argument("limit", "max-connections", _NO_CONNECTIONS, idle=(-1,)),
    Argument("limit", "max-channels", _NO_CONNECTIONS, idle=(-1,)),
    Argument("vhost", "compat", "the compatibility mode of its exchanges and queues", True),
    Argument("vhost", "default_queue_type", _TABLE, idle=("classic", "undefined")),
    Argument("vhost", "tracing", "nothing is traced; explain tells the way of a message", idle=(False,)),
)
_SUPER_STREAM: Final = "the queues of a super stream are queues like others"
_OF_PLUGINS: Final = (
    Argument("exchange", "x-super-stream", _SUPER_STREAM),
    Argument("exchange", "x-internal-purpose", "exchanges and queues of plugins are like others"),
    Argument("queue", "x-internal-purpose", "exchanges and queues of plugins are like others"),
    Argument("binding", "x-stream-partition-order", _SUPER_STREAM),
)
_OF_QUEUE_ARGUMENTS: Final = (
    Argument("queue", "x-max-priority", "messages are kept in the order in which they were routed"),
    Argument("queue", "x-queue-type", _TABLE, idle=("classic",)),
    Argument("queue", "x-single-active-consumer", _NO_CONSUMERS, idle=(False,)),
)
_OF_POLICIES: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "ha-mode",
            "ha-params",
            "ha-sync-mode",
            "ha-sync-batch-size",
            "ha-promote-on-shutdown",
            "ha-promote-on-failure",
        ),
        _TABLE,
    ),
    "target-group-size": _TABLE,
    "federation-upstream": _UNLINKED,
    "federation-upstream-set": _UNLINKED,
    "federation-upstream-pattern": _UNLINKED,
    "shards-per-node": "there are no sharded exchanges",
    "routing-key": "there are no sharded exchanges",
}
#: Values of arguments and policy keys alike that ask for nothing.
_IDLE: Final[Mapping[str, tuple[Value, ...]]] = {
    "queue-mode": ("default", "lazy"),
    OVERFLOW: (DROP_HEAD,),
    "dead-letter-strategy": ("at-most-once", "at-least-once"),
}


def _table() -> Iterator[Argument]:
    yield from _ACTING
    yield from _OF_PLUGINS
    yield from _OF_QUEUE_ARGUMENTS
    for name, meaning in _LIMITS.items():
        yield Argument("queue", argument(name), meaning, True)
        yield Argument("policy", name, meaning, True, covers="queues")
    for name, meaning in _OF_QUEUES.items():
        yield Argument("queue", f"x-{name}", meaning, idle=_IDLE.get(name, ()))
        yield Argument("policy", name, meaning, idle=_IDLE.get(name, ()))
    for name, meaning in _OF_POLICIES.items():
        yield Argument("policy", name, meaning)
    yield from _OTHERS


#: Every argument and policy key that is known, by kind and name; others are kept and have no effect either.
KNOWN: Final[Mapping[tuple[Kind, str], Argument]] = {(item.kind, item.name): item for item in _table()}


def without_effect(item: Object) -> dict[str, str]:
    """What an exchange, queue, policy, parameter or vhost states and nothing acts on: name -> why.

    A policy's `alternate-exchange` acts only where the policy covers exchanges, its limits where it covers queues, its
    `payload` where it covers anything, its `journal` with the bounds of that where it covers streams; of an operator
    policy the limits of queues alone act. Of a parameter the
    component is named, of limits of vhosts each one. Other objects give nothing here: what a binding's arguments do
    depends on its exchange (topology lint, BT105 to BT115).
    """
    match item:
        case Exchange():
            unhashed = () if item.type == "x-consistent-hash" else (HASH_HEADER, HASH_PROPERTY)
            return _idle("exchange", item.arguments) | {name: _UNHASHED for name in unhashed if name in item.arguments}
        case Queue():
            return _idle("queue", item.arguments) | _unbounded(item.arguments, prefix="x-")
        case Setting(kind=kind) if kind in (POLICY, OPERATOR_POLICY):
            return _idle_of(policy_of(item), operator=kind == OPERATOR_POLICY)
        case Setting(kind=kind) if kind == LIMITS_KIND:
            return _idle("limit", limits_of(item))
        case Setting(kind=kind, value=value) if kind.startswith(PARAMETER_PREFIX):
            return _idle("parameter", Table({kind.removeprefix(PARAMETER_PREFIX): value}))
        case Vhost(default_queue_type=default, tracing=tracing):
            return _idle("vhost", Table({"default_queue_type": default or "classic", "tracing": tracing}))
    return {}


def concerns_storage(kind: Kind, name: str) -> bool:
    """Whether an argument only says how a broker stores or replicates messages: no message goes elsewhere for it."""
    known = KNOWN.get((kind, name))
    return known is not None and known.meaning in (_TABLE, _NOT_IN_MEMORY)


#: What arguments and keys that nobody knows are told.
_UNKNOWN: Final[Mapping[Kind, str]] = {
    "exchange": "no argument of an exchange has this name",
    "queue": "no argument of a queue has this name",
    "policy": "no key of a policy has this name",
    "parameter": "no component reads this parameter",
    "limit": "no limit has this name",
}


def _idle_of(policy: Policy, *, operator: bool) -> dict[str, str]:
    """What is idle in a policy, in the order of its keys."""
    covered = APPLY_TO[policy.apply_to]
    found = _idle("policy", policy.definition) | _unbounded(policy.definition)
    of_journal = {JOURNAL_KEY} | (set() if policy.journal is None else {MAX_AGE_KEY, MAX_BYTES_KEY})
    for name in policy.definition:
        if name in of_journal and not operator:
            found.pop(name, None)
            continue
        known = KNOWN.get(("policy", name))
        if known is None or not known.effective:
            continue
        if operator and known.covers != "queues":
            found[name] = "operator policies bound queues only"
        elif known.covers is not None and known.covers not in covered:
            found[name] = f"the policy covers no {known.covers[:-1]}"
        elif not covered:
            found[name] = "the policy covers nothing"
    return {name: found[name] for name in policy.definition if name in found}


def _unbounded(stated: Table, *, prefix: str = "") -> dict[str, str]:
    """The bounds of length that what is stated beside them keeps from acting."""
    if drops_head(stated, prefix=prefix):
        return {}
    return {name: _OVERFLOW for name in (f"{prefix}{key}" for key in BOUNDS) if name in stated}


def _idle(kind: Kind, stated: Table) -> dict[str, str]:
    found = {}
    for name, value in stated.items():
        known = KNOWN.get((kind, name))
        if known is None:
            found[name] = _UNKNOWN[kind]
        elif not known.effective and value not in known.idle:
            found[name] = known.meaning
    return found
