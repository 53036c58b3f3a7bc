"""The objects of a topology and the rules for declaring them (AMQP 0-9-1 §3.1; seed 003; seed 004).

`Topology` is one consistent, read-only state over all vhosts. `TopologyEditor` applies declarations,
bindings and deletions to a copy: every operation checks its rule first and raises without having
changed anything, so an edit is whole or not at all. `TopologyEditor.changes` lists what to persist.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, cast

from router.arguments import encode_plain
from router.errors import AccessRefused, FilterError, InequivalentArgument, InUse, InvalidDeclaration, NotFound
from router.filters import parse as parse_selector
from router.filters.sets import parse_filter_set
from router.values import Table, Value, encode, encode_table

#: Name and routing key limits are those of an AMQP 0-9-1 short string (§4.2.5.3).
MAX_NAME_BYTES: Final = 255
RESERVED_PREFIX: Final = "amq."
DEFAULT_VHOST: Final = "/"
#: Lineage id of the implicit bindings of the default exchange; real ids start at 1.
DEFAULT_BINDING_ID: Final = 0
MAX_ID: Final = 2**31 - 1

EXCHANGE_TYPES: Final = ("direct", "topic", "fanout", "headers")
#: Exchanges that every vhost has from the start (seed 003 §4.6.1; AMQP 0-9-1 §3.1.3).
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
SELECTOR_ARGUMENT: Final = "x-filter-jms-selector"
FILTERS_ARGUMENT: Final = "x-filters"
REPLACEMENT_KEY: Final = "x-replacement-routing-key"
X_MATCH: Final = "x-match"
QUEUE_FILTER: Final = "x-queue-filter"
OWNER_CONNECTION: Final = "x-owner-connection"

X_MATCH_FORMS: Final = ("all", "any", "all-with-x", "any-with-x")
#: Binding arguments that are never header criteria (semantics: headers exchange).
NOT_HEADER_CRITERIA: Final = frozenset({X_MATCH, SELECTOR_ARGUMENT, FILTERS_ARGUMENT, REPLACEMENT_KEY})

DestinationType = Literal["queue", "exchange"]
_EMPTY: Final = Table()


@dataclass(frozen=True, slots=True)
class Vhost:
    """A namespace of exchanges and queues."""

    name: str
    description: str = ""
    tags: tuple[str, ...] = ()
    default_queue_type: str | None = None
    tracing: bool = False


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
        """The name in `alternate-binding`: an exchange, or else a queue."""
        content = self.arguments.get(ALTERNATE_BINDING)
        return cast(str, content["destination"]) if isinstance(content, Table) else None

    @property
    def rejects_unroutable(self) -> bool:
        """Whether unroutable messages are rejected rather than discarded (seed 003 §4.6.4)."""
        return self.arguments.get(UNROUTABLE_BEHAVIOUR) == "REJECT"

    @property
    def records_unroutable(self) -> bool:
        """Whether discarded messages get a row in the unroutable table, not only a count."""
        return self.rejects_unroutable or self.arguments.get(RECORD_UNROUTABLE) is not False


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue: one Delta table."""

    vhost: str
    name: str
    durable: bool = True
    auto_delete: bool = False
    arguments: Table = _EMPTY


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
        """What makes two bindings the same (semantics 2): arguments by key and typed value."""
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
    """A divert (seed 004): a filtered copy, or with `exclusive` a detour, to another exchange.

    `filter` is text in the artemis dialect, blank for every message; `routing_key` replaces all keys.
    """

    id: int
    vhost: str
    name: str
    source: str
    destination: str
    filter: str = ""
    exclusive: bool = False
    routing_key: str | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    """A stored object that routing does not interpret, but for policies: `kind`, `vhost`, `name`, JSON value."""

    kind: str
    vhost: str
    name: str
    value: Value


@dataclass(frozen=True, slots=True)
class Sequence:
    """The next lineage id to hand out; persisted so that no id is ever reused."""

    next_id: int


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


@dataclass
class Topology:
    """One consistent state. Treat it as read-only: `edit()` gives the way to change it.

    `version` is the version of the topology table that holds this state (-1: never stored).
    """

    version: int = -1
    vhosts: dict[str, Vhost] = field(default_factory=dict)
    exchanges: dict[tuple[str, str], Exchange] = field(default_factory=dict)
    queues: dict[tuple[str, str], Queue] = field(default_factory=dict)
    bindings: dict[int, Binding] = field(default_factory=dict)
    diverts: dict[tuple[str, str], Divert] = field(default_factory=dict)
    settings: dict[ObjectKey, Setting] = field(default_factory=dict)
    next_id: int = 1
    _ids: dict[tuple[str, ...], int] = field(default_factory=dict, repr=False, compare=False)
    _from: dict[tuple[str, str], dict[int, None]] = field(default_factory=dict, repr=False, compare=False)
    _to: dict[tuple[str, str, str], dict[int, None]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, objects: Iterable[Object], *, version: int = -1) -> Topology:
        """A topology from its persisted objects, in any order; predeclared exchanges are added.

        The objects are trusted to have been validated when they were declared.
        """
        topology = cls(version=version)
        for item in objects:
            match item:
                case Vhost():
                    topology.vhosts[item.name] = item
                    for key, exchange in predeclared_exchanges(item.name).items():
                        topology.exchanges.setdefault(key, exchange)
                case Exchange():
                    topology.exchanges[item.vhost, item.name] = item
                case Queue():
                    topology.queues[item.vhost, item.name] = item
                case Binding():
                    topology.bindings[item.id] = item
                    topology._ids[item.identity] = item.id
                    topology._from.setdefault((item.vhost, item.source), {})[item.id] = None
                    topology._to.setdefault(_end(item), {})[item.id] = None
                case Divert():
                    topology.diverts[item.vhost, item.name] = item
                case Setting():
                    topology.settings[object_key(item)] = item
                case Sequence():
                    topology.next_id = item.next_id
        return topology

    @classmethod
    def empty(cls) -> Topology:
        """The state of a new installation: the vhost "/" and its predeclared exchanges."""
        return cls.of([Vhost(DEFAULT_VHOST)])

    def objects(self) -> Iterator[Object]:
        """Every object to persist; predeclared exchanges are implied and left out."""
        yield from self.vhosts.values()
        yield from (item for item in self.exchanges.values() if not is_predeclared(item.name))
        yield from self.queues.values()
        yield from self.bindings.values()
        yield from self.diverts.values()
        yield from self.settings.values()
        yield Sequence(self.next_id)

    def get(self, key: ObjectKey) -> Object | None:
        """The object that is persisted under that key, or None; a sequence is always there."""
        kind, vhost, name = key
        match kind:
            case "vhost":
                return self.vhosts.get(vhost)
            case "exchange":
                return self.exchanges.get((vhost, name))
            case "queue":
                return self.queues.get((vhost, name))
            case "binding":
                return self.bindings.get(int(name))
            case "divert":
                return self.diverts.get((vhost, name))
            case "sequence":
                return Sequence(self.next_id)
        return self.settings.get(key)

    def edit(self) -> TopologyEditor:
        """An editor over this state; this state itself never changes."""
        return TopologyEditor(self)

    def vhost(self, name: str) -> Vhost:
        """The vhost of that name; raises NotFound."""
        try:
            return self.vhosts[name]
        except KeyError:
            raise NotFound(f"no vhost {name!r}", where="vhost") from None

    def exchange(self, vhost: str, name: str) -> Exchange:
        """The exchange of that name; raises NotFound."""
        try:
            return self.exchanges[vhost, name]
        except KeyError:
            raise NotFound(f"no exchange {name!r} in vhost {vhost!r}", where="exchange") from None

    def queue(self, vhost: str, name: str) -> Queue:
        """The queue of that name; raises NotFound."""
        try:
            return self.queues[vhost, name]
        except KeyError:
            raise NotFound(f"no queue {name!r} in vhost {vhost!r}", where="queue") from None

    def divert(self, vhost: str, name: str) -> Divert:
        """The divert of that name; raises NotFound."""
        try:
            return self.diverts[vhost, name]
        except KeyError:
            raise NotFound(f"no divert {name!r} in vhost {vhost!r}", where="divert") from None

    def bindings_from(self, vhost: str, source: str) -> list[Binding]:
        """Bindings whose source is that exchange, in order of id."""
        return [self.bindings[n] for n in sorted(self._from.get((vhost, source), ()))]

    def bindings_to(self, vhost: str, kind: DestinationType, destination: str) -> list[Binding]:
        """Bindings whose destination is that queue or exchange, in order of id."""
        return [self.bindings[n] for n in sorted(self._to.get((vhost, kind, destination), ()))]

    def diverts_of(self, vhost: str, exchange: str) -> list[Divert]:
        """Diverts from or to that exchange, in order of id."""
        found = [d for d in self.diverts.values() if d.vhost == vhost and exchange in (d.source, d.destination)]
        return sorted(found, key=lambda divert: divert.id)

    def find_binding(self, binding: Binding) -> Binding | None:
        """The stored binding with the same identity, whatever its id."""
        number = self._ids.get(binding.identity)
        return None if number is None else self.bindings[number]

    def in_vhost(self, vhost: str) -> tuple[list[Exchange], list[Queue], list[Binding], list[Divert]]:
        """Exchanges, queues, bindings and diverts of one vhost, each in a stable order."""
        return (
            sorted((e for e in self.exchanges.values() if e.vhost == vhost), key=lambda e: e.name),
            sorted((q for q in self.queues.values() if q.vhost == vhost), key=lambda q: q.name),
            sorted((b for b in self.bindings.values() if b.vhost == vhost), key=lambda b: b.id),
            sorted((d for d in self.diverts.values() if d.vhost == vhost), key=lambda d: d.id),
        )


class TopologyEditor:
    """Applies operations to a copy of a topology; `topology` is the state so far.

    Each operation is atomic: it raises an error of router.errors before anything has changed, or
    it is done whole, cascades included.
    """

    def __init__(self, base: Topology) -> None:
        self.topology = replace(base)
        self.changes: dict[ObjectKey, Object | None] = {}
        #: Keys dropped on the way, also of objects that were declared again later.
        self.dropped: set[ObjectKey] = set()
        self._owned: set[str] = set()
        self._owned_ends: set[tuple[str, ...]] = set()

    # -- vhosts and settings ------------------------------------------------------------------------

    def declare_vhost(self, vhost: Vhost) -> bool:
        """Create or update a vhost; True when it is new."""
        _check_name(vhost.name, "vhost")
        created = vhost.name not in self.topology.vhosts
        self._put("vhosts", vhost.name, vhost)
        if created:
            for key, exchange in predeclared_exchanges(vhost.name).items():
                self._own("exchanges")[key] = exchange
        return created

    def delete_vhost(self, name: str) -> None:
        """Delete a vhost with everything in it."""
        self.topology.vhost(name)
        exchanges, queues, bindings, diverts = self.topology.in_vhost(name)
        for divert in diverts:
            self._drop("diverts", (name, divert.name), divert)
        for binding in bindings:
            self._remove_binding(binding)
        for queue in queues:
            self._drop("queues", (name, queue.name), queue)
        for exchange in exchanges:
            # auto-delete may have taken it with its last binding
            self._own("exchanges").pop((name, exchange.name), None)
            if not is_predeclared(exchange.name):
                self.changes[object_key(exchange)] = None
        for key, setting in list(self.topology.settings.items()):
            if setting.vhost == name:
                self._drop("settings", key, setting)
        self._drop("vhosts", name, self.topology.vhosts[name])

    def put_setting(self, setting: Setting) -> bool:
        """Create or replace a setting; True when it is new."""
        if setting.vhost:
            self.topology.vhost(setting.vhost)
        created = object_key(setting) not in self.topology.settings
        self._put("settings", object_key(setting), setting)
        return created

    def delete_setting(self, kind: str, vhost: str, name: str) -> None:
        """Delete a setting; raises NotFound."""
        try:
            setting = self.topology.settings[kind, vhost, name]
        except KeyError:
            raise NotFound(f"no {kind} {name!r} in vhost {vhost!r}", where=kind) from None
        self._drop("settings", (kind, vhost, name), setting)

    # -- exchanges and queues -----------------------------------------------------------------------

    def declare_exchange(
        self, exchange: Exchange, *, overwrite: bool = False, max_name_bytes: int = MAX_NAME_BYTES
    ) -> bool:
        """Declare an exchange; True when it is new, False when it was there with equal properties.

        With `overwrite` other properties replace those that are there (import with overwrite only).
        Brokers accept longer names over HTTP than in AMQP frames: `max_name_bytes`.
        """
        self.topology.vhost(exchange.vhost)
        if exchange.name == "" or not is_predeclared(exchange.name):
            _check_declarable(exchange.name, "exchange", max_bytes=max_name_bytes)
        if exchange.type not in EXCHANGE_TYPES:
            raise InvalidDeclaration(
                f"unknown exchange type {exchange.type!r}",
                where=f"exchange {exchange.name!r}: type",
                hint="types: " + ", ".join(EXCHANGE_TYPES),
            )
        _check_exchange_arguments(exchange)
        present = self.topology.exchanges.get((exchange.vhost, exchange.name))
        if present is not None and (not overwrite or is_predeclared(exchange.name)):
            _check_equivalent("exchange", present, exchange, ("type", "durable", "auto_delete", "internal"))
            return False
        self._put("exchanges", (exchange.vhost, exchange.name), exchange)
        return present is None

    def declare_queue(self, queue: Queue, *, overwrite: bool = False) -> bool:
        """Declare a queue; True when it is new. See declare_exchange for `overwrite`."""
        self.topology.vhost(queue.vhost)
        _check_declarable(queue.name, "queue")
        _check_queue_arguments(queue)
        present = self.topology.queues.get((queue.vhost, queue.name))
        if present is not None and not overwrite:
            _check_equivalent("queue", present, queue, ("durable", "auto_delete"))
            return False
        self._put("queues", (queue.vhost, queue.name), queue)
        return present is None

    def delete_exchange(self, vhost: str, name: str, *, if_unused: bool = False) -> None:
        """Delete an exchange with every binding and divert from and to it."""
        _check_deletable(name, "exchange")
        exchange = self.topology.exchange(vhost, name)
        if if_unused and self.topology._from.get((vhost, name)):
            raise InUse(f"exchange {name!r} in vhost {vhost!r} in use", where="exchange")
        self._remove_exchange(exchange)

    def delete_queue(self, vhost: str, name: str) -> None:
        """Delete a queue with every binding to it; auto-delete exchanges may follow."""
        _check_deletable(name, "queue")
        queue = self.topology.queue(vhost, name)
        self._drop("queues", (vhost, name), queue)
        for binding in self.topology.bindings_to(vhost, "queue", name):
            self._remove_binding(binding)

    # -- bindings and diverts -----------------------------------------------------------------------

    def bind(self, binding: Binding, *, max_key_bytes: int = MAX_NAME_BYTES) -> tuple[Binding, bool]:
        """Bind; gives the stored binding and whether it is new. The id of the argument is ignored.

        Binding twice is idempotent. Brokers accept longer keys over HTTP than in AMQP frames: `max_key_bytes`.
        """
        self.topology.vhost(binding.vhost)
        if binding.source == "":
            raise AccessRefused(
                "the default exchange cannot be bound",
                where="source",
                hint="each queue is already bound to it under its own name",
            )
        source = self.topology.exchange(binding.vhost, binding.source)
        if binding.destination_type == "queue":
            self.topology.queue(binding.vhost, binding.destination)
        elif binding.destination_type == "exchange":
            if binding.destination == "":
                raise AccessRefused("the default exchange cannot be bound to", where="destination")
            self.topology.exchange(binding.vhost, binding.destination)
        else:
            raise InvalidDeclaration(
                f"destination_type is {binding.destination_type!r}", where="destination_type", hint="queue or exchange"
            )
        _check_name(binding.routing_key, "routing_key", empty=True, max_bytes=max_key_bytes)
        _check_binding_arguments(binding, source.type)
        present = self.topology.find_binding(binding)
        if present is not None:
            return present, False
        stored = replace(binding, id=self._new_id())
        self._put("bindings", stored.id, stored)
        self._own("_ids")[stored.identity] = stored.id
        self._own_end("_from", (stored.vhost, stored.source))[stored.id] = None
        self._own_end("_to", _end(stored))[stored.id] = None
        return stored, True

    def unbind(self, binding: Binding) -> bool:
        """Remove the binding of that identity; False when there is none. Auto-delete may follow."""
        if binding.source == "":
            raise AccessRefused("the default exchange cannot be unbound", where="source")
        present = self.topology.find_binding(binding)
        if present is None:
            return False
        self._remove_binding(present)
        return True

    def declare_divert(self, divert: Divert, *, overwrite: bool = False) -> tuple[Divert, bool]:
        """Declare a divert; gives the stored divert and whether it is new. The argument's id is ignored."""
        self.topology.vhost(divert.vhost)
        _check_name(divert.name, "divert")
        for end in ("source", "destination"):
            name = getattr(divert, end)
            if name == "":
                raise AccessRefused(f"the default exchange cannot be the {end} of a divert", where=end)
            self.topology.exchange(divert.vhost, name)
        if divert.routing_key is not None:
            _check_name(divert.routing_key, "routing_key", empty=True)
        _checked(parse_selector, divert.filter, "artemis", where=f"divert {divert.name!r}: filter")
        present = self.topology.diverts.get((divert.vhost, divert.name))
        if present is not None and replace(divert, id=present.id) == present:
            return present, False
        if present is not None and not overwrite:
            _check_equivalent(
                "divert", present, divert, ("source", "destination", "filter", "exclusive", "routing_key")
            )
        stored = replace(divert, id=self._new_id() if present is None else present.id)
        self._put("diverts", (divert.vhost, divert.name), stored)
        return stored, present is None

    def delete_divert(self, vhost: str, name: str) -> None:
        """Delete a divert; raises NotFound."""
        self._drop("diverts", (vhost, name), self.topology.divert(vhost, name))

    # -- states that were validated before -----------------------------------------------------------

    def replay(self, changes: Mapping[ObjectKey, Object | None]) -> None:
        """Take over changes that an editor has validated before, unchecked: they lead to a whole state.

        None deletes. Of a sequence only an advance is taken over: no lineage id is ever reused.
        """
        for key, item in changes.items():
            present = self.topology.get(key)
            if isinstance(present, Binding):
                self._own("_ids").pop(present.identity)
                self._own_end("_from", (present.vhost, present.source)).pop(present.id)
                self._own_end("_to", _end(present)).pop(present.id)
            match item:
                case None:
                    if present is not None:
                        self._drop(*_place(present), present)
                    if isinstance(present, Vhost):
                        for predeclared in predeclared_exchanges(present.name):
                            self._own("exchanges").pop(predeclared, None)
                case Sequence():
                    if item.next_id > self.topology.next_id:
                        self.topology.next_id = item.next_id
                        self.changes[key] = item
                case _:
                    self._put(*_place(item), item)
            if isinstance(item, Binding):
                self._own("_ids")[item.identity] = item.id
                self._own_end("_from", (item.vhost, item.source))[item.id] = None
                self._own_end("_to", _end(item))[item.id] = None
            elif isinstance(item, Vhost):
                for predeclared, exchange in predeclared_exchanges(item.name).items():
                    self._own("exchanges").setdefault(predeclared, exchange)

    # -- cascades and copy on write -----------------------------------------------------------------

    def _remove_exchange(self, exchange: Exchange) -> None:
        vhost, name = exchange.vhost, exchange.name
        self._drop("exchanges", (vhost, name), exchange)
        for divert in self.topology.diverts_of(vhost, name):
            self._drop("diverts", (vhost, divert.name), divert)
        for binding in self.topology.bindings_from(vhost, name):
            self._remove_binding(binding)
        for binding in self.topology.bindings_to(vhost, "exchange", name):
            self._remove_binding(binding)

    def _remove_binding(self, binding: Binding) -> None:
        if binding.id not in self.topology.bindings:
            return  # a cascade came by here already
        self._drop("bindings", binding.id, binding)
        self._own("_ids").pop(binding.identity)
        self._own_end("_to", _end(binding)).pop(binding.id)
        remaining = self._own_end("_from", (binding.vhost, binding.source))
        remaining.pop(binding.id)
        source = self.topology.exchanges.get((binding.vhost, binding.source))
        if source is not None and source.auto_delete and not remaining:
            self._remove_exchange(source)

    def _new_id(self) -> int:
        number = self.topology.next_id
        if number > MAX_ID:
            raise InvalidDeclaration("all lineage ids of this installation have been given out", where="binding")
        self.topology.next_id = number + 1
        sequence = Sequence(number + 1)
        self.changes[object_key(sequence)] = sequence
        return number

    def _own(self, attribute: str) -> dict[Any, Any]:
        if attribute not in self._owned:
            setattr(self.topology, attribute, dict(getattr(self.topology, attribute)))
            self._owned.add(attribute)
        return cast(dict[Any, Any], getattr(self.topology, attribute))

    def _own_end(self, attribute: str, end: tuple[str, ...]) -> dict[int, None]:
        ends = self._own(attribute)
        if (attribute, *end) not in self._owned_ends:
            ends[end] = dict(ends.get(end, ()))
            self._owned_ends.add((attribute, *end))
        return cast(dict[int, None], ends[end])

    def _put(self, attribute: str, key: Any, item: Object) -> None:
        self._own(attribute)[key] = item
        self.changes[object_key(item)] = item

    def _drop(self, attribute: str, key: Any, item: Object) -> None:
        self._own(attribute).pop(key)
        self.changes[object_key(item)] = None
        self.dropped.add(object_key(item))


def is_predeclared(name: str) -> bool:
    """Whether every vhost has an exchange of this name from the start."""
    return name in PREDECLARED


def _place(item: Object) -> tuple[str, Any]:
    """The attribute of a topology that holds an object, and its key there."""
    match item:
        case Vhost():
            return "vhosts", item.name
        case Exchange():
            return "exchanges", (item.vhost, item.name)
        case Queue():
            return "queues", (item.vhost, item.name)
        case Binding():
            return "bindings", item.id
        case Divert():
            return "diverts", (item.vhost, item.name)
        case Setting():
            return "settings", object_key(item)
    raise TypeError(f"{type(item).__name__} has no place of its own")


def _end(binding: Binding) -> tuple[str, str, str]:
    return (binding.vhost, binding.destination_type, binding.destination)


def _check_name(name: str, what: str, *, empty: bool = False, max_bytes: int = MAX_NAME_BYTES) -> None:
    if not name and not empty:
        raise InvalidDeclaration(f"the {what} name is empty", where=what)
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise InvalidDeclaration(f"{what} holds a lone surrogate", where=what) from None
    if size > max_bytes:
        raise InvalidDeclaration(f"{what} of {size} bytes", where=what, hint=f"at most {max_bytes} bytes of UTF-8")


def _check_declarable(name: str, what: str, *, max_bytes: int = MAX_NAME_BYTES) -> None:
    if what == "exchange" and name == "":
        raise AccessRefused("the default exchange cannot be declared", where=what)
    if name.startswith(RESERVED_PREFIX):
        raise AccessRefused(
            f"{what} name {name!r} is reserved", where=what, hint=f"names do not start with {RESERVED_PREFIX!r}"
        )
    _check_name(name, what, max_bytes=max_bytes)


def _check_deletable(name: str, what: str) -> None:
    if (what == "exchange" and name == "") or name.startswith(RESERVED_PREFIX):
        raise AccessRefused(f"{what} {name!r} cannot be deleted", where=what)


def _check_equivalent(what: str, present: Any, declared: Any, properties: tuple[str, ...]) -> None:
    where = f"{what} {present.name!r}"
    for name in properties:
        old, new = getattr(present, name), getattr(declared, name)
        if old != new:
            raise InequivalentArgument(
                f"inequivalent arg '{name}' for {where} in vhost {present.vhost!r}: "
                f"received {_shown(new)} but current is {_shown(old)}",
                where=f"{where}: {name}",
            )
    if hasattr(present, "arguments") and present.arguments != declared.arguments:
        for name in sorted({*present.arguments, *declared.arguments}):
            old, new = (Table({name: a[name]}) if name in a else None for a in (present.arguments, declared.arguments))
            if old != new:
                raise InequivalentArgument(
                    f"inequivalent arg '{name}' for {where} in vhost {present.vhost!r}: "
                    f"received {_argument(new)} but current is {_argument(old)}",
                    where=f"{where}: arguments.{name}",
                )


def _shown(value: Any) -> str:
    return f"'{str(value).lower() if isinstance(value, bool) else value}'"


def _argument(single: Table | None) -> str:
    if single is None:
        return "none"
    value = next(iter(encode_table(single).values()))
    return _shown(value if isinstance(value, bool | str) else json.dumps(value))


def _check_argument(table: Table, name: str, where: str, accepts: Callable[[Value], bool], expected: str) -> None:
    if name in table and not accepts(table[name]):
        raise InvalidDeclaration(
            f"argument {name!r} is {encode(table[name])!r}", where=f"{where}: arguments.{name}", hint=expected
        )


def _is_name(value: Value) -> bool:
    return isinstance(value, str) and len(value.encode("utf-8", "surrogatepass")) <= MAX_NAME_BYTES


def _is_alternate_binding(value: Value) -> bool:
    return isinstance(value, Table) and set(value) == {"destination"} and _is_name(value["destination"])


def _check_exchange_arguments(exchange: Exchange) -> None:
    where, table = f"exchange {exchange.name!r}", exchange.arguments
    _check_argument(table, ALTERNATE_EXCHANGE, where, _is_name, "the name of an exchange")
    _check_argument(table, ALTERNATE_BINDING, where, _is_alternate_binding, '{"destination": "<queue or exchange>"}')
    _check_argument(table, UNROUTABLE_BEHAVIOUR, where, lambda v: v in ("DISCARD", "REJECT"), "DISCARD or REJECT")
    _check_argument(table, RECORD_UNROUTABLE, where, lambda v: isinstance(v, bool), "true or false")


def _check_queue_arguments(queue: Queue) -> None:
    where, table = f"queue {queue.name!r}", queue.arguments
    _check_argument(table, OWNER_CONNECTION, where, lambda v: isinstance(v, str), "a connection id")
    if QUEUE_FILTER in table:
        queue_filter(queue)


def _check_binding_arguments(binding: Binding, exchange_type: str) -> None:
    where, table = f"binding of {binding.source!r} to {binding.destination!r}", binding.arguments
    _check_argument(table, REPLACEMENT_KEY, where, _is_name, f"a routing key of at most {MAX_NAME_BYTES} bytes")
    if exchange_type == "headers":
        _check_argument(table, X_MATCH, where, lambda v: v in X_MATCH_FORMS, "one of " + ", ".join(X_MATCH_FORMS))
    binding_filters(binding, owner=None)


def binding_filters(binding: Binding, *, owner: str | None) -> tuple[Any, ...]:
    """The filters that are ANDed with a binding's match: selector, filter set, both or none.

    `owner` is the `x-owner-connection` of the destination queue, for no-local. Raises FilterError.
    """
    where = f"binding of {binding.source!r} to {binding.destination!r}"
    found = []
    if SELECTOR_ARGUMENT in binding.arguments:
        text = binding.arguments[SELECTOR_ARGUMENT]
        if not isinstance(text, str):
            raise InvalidDeclaration(f"argument {SELECTOR_ARGUMENT!r} is no string", where=where)
        found.append(_checked(parse_selector, text, "jms", where=f"{where}: {SELECTOR_ARGUMENT}"))
    if FILTERS_ARGUMENT in binding.arguments:
        content = binding.arguments[FILTERS_ARGUMENT]
        if not isinstance(content, Table):
            raise InvalidDeclaration(f"argument {FILTERS_ARGUMENT!r} is no filter set", where=where)
        found.append(
            _checked(parse_filter_set, encode_plain(content), where=f"{where}: {FILTERS_ARGUMENT}", owner=owner)
        )
    return tuple(found)


def queue_filter(queue: Queue) -> Any | None:
    """The filter of a queue (`x-queue-filter`: artemis text, or a filter set), or None. Raises FilterError."""
    content = queue.arguments.get(QUEUE_FILTER)
    where = f"queue {queue.name!r}: {QUEUE_FILTER}"
    if content is None:
        return None
    if isinstance(content, str):
        return _checked(parse_selector, content, "artemis", where=where)
    if isinstance(content, Table):
        owner = cast("str | None", queue.arguments.get(OWNER_CONNECTION))
        return _checked(parse_filter_set, encode_plain(content), where=where, owner=owner)
    raise InvalidDeclaration(f"argument {QUEUE_FILTER!r} is neither text nor a filter set", where=where)


def _checked(parser: Callable[..., Any], *arguments: Any, where: str, **options: Any) -> Any:
    try:
        return parser(*arguments, **options)
    except FilterError as error:
        error.where = where if error.where is None else f"{where}.{error.where}"
        raise
