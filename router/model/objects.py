"""The objects of a topology, as values (AMQP 0-9-1 §3.1; Broker-J §4.6, Artemis)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, cast

from bindery.router.values import Table, Value

#: Name and routing key limits are those of an AMQP 0-9-1 short string (§4.2.5.3).
MAX_NAME_BYTES: Final = 255
RESERVED_PREFIX: Final = "amq."
DEFAULT_VHOST: Final = "/"
#: Lineage id of the implicit bindings of the default exchange; real ids start at 1.
DEFAULT_BINDING_ID: Final = 0
MAX_ID: Final = 2**31 - 1
#: The id of a queue that has none (yet).
NO_QUEUE_ID: Final = 0

EXCHANGE_TYPES: Final = ("direct", "topic", "fanout", "headers", "x-consistent-hash", "x-modulus-hash")
#: Exchanges that every vhost has from the start (Broker-J §4.6.1; AMQP 0-9-1 §3.1.3).
PREDECLARED: Final[Mapping[str, str]] = {
    "": "direct",
    "amq.direct": "direct",
    "amq.topic": "topic",
    "amq.fanout": "fanout",
    "amq.match": "headers",
    "amq.headers": "headers",
}

ALTERNATE_EXCHANGE: Final = "alternate-exchange"
ALTERNATE_BINDING: Final = "alternate-binding"
UNROUTABLE_BEHAVIOUR: Final = "unroutable-message-behaviour"
RECORD_UNROUTABLE: Final = "x-record-unroutable"
HASH_HEADER: Final = "hash-header"
HASH_PROPERTY: Final = "hash-property"
SELECTOR_ARGUMENT: Final = "x-filter-jms-selector"
FILTERS_ARGUMENT: Final = "x-filters"
REPLACEMENT_KEY: Final = "x-replacement-routing-key"
TRANSFORM: Final = "x-transform"
X_MATCH: Final = "x-match"
PAYLOAD_ARGUMENT: Final = "x-payload"
PAYLOAD_SCHEMA: Final = "x-payload-schema"
PAYLOAD_TYPE: Final = "x-payload-type"
QUEUE_FILTER: Final = "x-queue-filter"
OWNER_CONNECTION: Final = "x-owner-connection"
COMPAT_ARGUMENT: Final = "x-compat"

X_MATCH_FORMS: Final = ("all", "any", "all-with-x", "any-with-x")
#: Binding arguments that are never header criteria (docs/routing.md).
NOT_HEADER_CRITERIA: Final = frozenset(
    {X_MATCH, SELECTOR_ARGUMENT, FILTERS_ARGUMENT, REPLACEMENT_KEY, TRANSFORM, COMPAT_ARGUMENT}
)

DestinationType = Literal["queue", "exchange"]
_EMPTY: Final = Table()


@dataclass(frozen=True, slots=True)
class Vhost:
    """A namespace of exchanges and queues; `compat` is its compatibility mode (docs/compat.md), None for none."""

    name: str
    description: str = ""
    tags: tuple[str, ...] = ()
    default_queue_type: str | None = None
    tracing: bool = False
    compat: str | None = None


@dataclass(frozen=True, slots=True)
class Exchange:
    """An exchange; `type` is one of EXCHANGE_TYPES."""

    vhost: str
    name: str
    type: str
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: Table = _EMPTY

    @property
    def alternate_binding(self) -> str | None:
        """The name in `alternate-binding`: an exchange, or else a queue. The empty name is no alternate."""
        content = self.arguments.get(ALTERNATE_BINDING)
        return (cast(str, content["destination"]) or None) if isinstance(content, Table) else None

    @property
    def rejects_unroutable(self) -> bool:
        """Whether unroutable messages are rejected rather than discarded (Broker-J §4.6.4)."""
        return self.arguments.get(UNROUTABLE_BEHAVIOUR) == "REJECT"

    @property
    def records_unroutable(self) -> bool:
        """Whether discarded messages get a row in the unroutable table, not only a count."""
        return self.rejects_unroutable or self.arguments.get(RECORD_UNROUTABLE) is not False


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue: one Delta table.

    `id` is its lineage id, given when it is declared: a queue that is deleted and declared again gets another.
    NO_QUEUE_ID for one that an older version declared, until it is given one.
    """

    vhost: str
    name: str
    durable: bool = True
    auto_delete: bool = False
    arguments: Table = _EMPTY
    id: int = NO_QUEUE_ID


@dataclass(frozen=True, slots=True)
class Binding:
    """A binding; its identity is everything but the id."""

    id: int
    vhost: str
    source: str
    destination: str
    destination_type: DestinationType = "queue"
    routing_key: str = ""
    arguments: Table = _EMPTY

    @property
    def identity(self) -> tuple[str, str, str, str, str, str]:
        """What makes two bindings the same (docs/routing.md): arguments by key and typed value."""
        return (
            self.vhost,
            self.source,
            self.destination_type,
            self.destination,
            self.routing_key,
            self.arguments.identity,
        )


@dataclass(frozen=True, slots=True)
class Divert:
    """A divert (Artemis): a filtered copy, or with `exclusive` a detour, to another exchange.

    `filter` is text in the artemis dialect, blank for every message; `routing_key` replaces all keys; `transform`
    is what changes the copy on its way (docs/transform.md), blank for nothing.
    """

    id: int
    vhost: str
    name: str
    source: str
    destination: str
    filter: str = ""
    exclusive: bool = False
    routing_key: str | None = None
    transform: str = ""

    @property
    def destination_type(self) -> DestinationType:
        """A divert leads to an exchange."""
        return "exchange"


#: How the kind of a setting begins that is a parameter; the component follows.
PARAMETER_PREFIX: Final = "parameter:"
#: The kind of settings that are global parameters.
GLOBAL_PARAMETER: Final = "global-parameter"
#: The kind, and the name, of the setting that is the canary of a vhost (`bindery.router.canary`).
CANARY_KIND: Final = "canary"


@dataclass(frozen=True, slots=True)
class Setting:
    """A stored object that routing does not interpret, but for policies: `kind`, `vhost`, `name`, JSON value."""

    kind: str
    vhost: str
    name: str
    value: Value


@dataclass(frozen=True, slots=True)
class Sequence:
    """The next lineage ids to hand out, of links and of queues; persisted so that none is ever reused."""

    next_id: int
    next_queue_id: int = 1


Object = Vhost | Exchange | Queue | Binding | Divert | Setting | Sequence
#: kind, vhost, name (bindings: the id as text).
ObjectKey = tuple[str, str, str]


def object_key(item: Object) -> ObjectKey:
    """The key under which an object is persisted."""
    match item:
        case Vhost():
            return ("vhost", item.name, "")
        case Exchange():
            return ("exchange", item.vhost, item.name)
        case Queue():
            return ("queue", item.vhost, item.name)
        case Binding():
            return ("binding", item.vhost, str(item.id))
        case Divert():
            return ("divert", item.vhost, item.name)
        case Setting():
            return (item.kind, item.vhost, item.name)
        case Sequence():
            return ("sequence", "", "")


def predeclared_exchanges(vhost: str) -> dict[tuple[str, str], Exchange]:
    """The exchanges that a vhost has without any declaration."""
    return {(vhost, name): Exchange(vhost, name, kind) for name, kind in PREDECLARED.items()}


def implicit_binding(vhost: str, queue: str) -> Binding:
    """The default exchange's binding of a queue, which nobody declares (Broker-J §4.6.1)."""
    return Binding(DEFAULT_BINDING_ID, vhost, "", queue, "queue", queue)


def is_predeclared(name: str) -> bool:
    """Whether every vhost has an exchange of this name from the start."""
    return name in PREDECLARED
