"""Apache Qpid Broker-J: the configuration of a broker (`config.json`) or of a virtual host (JSON virtual host node).

Exchanges, queues and bindings are those of §4.6 of its book, which is the model here, too. What of their attributes
decides where messages go is carried over; attributes of delivery, of stores and of the broker itself are reported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from bindery.router.documents import Source, read_source, refusal
from bindery.router.errors import InvalidInput
from bindery.router.importers.objects import NO_CONSUMERS, NO_RETRIES, OF_BROKER, Example, SourceObject, late
from bindery.router.model import (
    PREDECLARED,
    REPLACEMENT_KEY,
    RESERVED_PREFIX,
    SELECTOR_ARGUMENT,
    UNROUTABLE_BEHAVIOUR,
    X_MATCH,
)
from bindery.router.qpid import ATTRIBUTES
from bindery.router.queue_limits import (
    DEAD_LETTER_EXCHANGE,
    DEAD_LETTER_ROUTING_KEY,
    LAST_VALUE_KEY,
    MAX_LENGTH,
    MAX_LENGTH_BYTES,
    MESSAGE_TTL,
    argument,
)

#: Comments of JSON, which the broker allows, beside the texts in which they are none.
_COMMENTS: Final = re.compile(r'("(?:[^"\\]|\\.)*+(?:"|\\?\Z))|/\*.*?\*/|//[^\n]*', re.DOTALL)
#: The property of last values where a queue names none (Broker-J, "Queue Types").
_LVQ_KEY: Final = "qpid.LVQ_key"
_LATE: Final = late("Broker-J")
_BOOKKEEPING: Final = frozenset(
    {
        *("id", "name", "type", "modelVersion", "description", "context", "desiredState", "state", "durable"),
        *("createdBy", "createdTime", "lastUpdatedBy", "lastUpdatedTime", "lastOpenedTime", "lifetimePolicy"),
    }
)
_VHOST_IDLE: Final = frozenset(
    {
        *("storePath", "storeUnderfullSize", "storeOverfullSize", "tableNamePrefix", "housekeepingCheckPeriod"),
        *("storeTransactionIdleTimeoutClose", "storeTransactionIdleTimeoutWarn", "storeTransactionOpenTimeoutClose"),
        *("storeTransactionOpenTimeoutWarn", "housekeepingThreadCount", "connectionThreadPoolSize"),
        *("numberOfSelectors", "statisticsReportingPeriod", "enabledConnectionValidators", "username", "password"),
        *("disabledConnectionValidators", "connectionUrl", "connectionPoolType"),
        *("localTransactionSynchronizationPolicy", "remoteTransactionSynchronizationPolicy"),
    }
)
#: Sections of a virtual host, a node or a broker that hold no topology -> what to do for them.
_SECTIONS: Final[Mapping[str, str]] = {
    "virtualhostaliases": "vhosts have one name",
    "virtualhostloggers": "the service writes its own log",
    "virtualhostaccesscontrolproviders": "permissions of users say who may what (`bindery serve`)",
    "accesscontrolproviders": "permissions of users say who may what (`bindery serve`)",
    "authenticationproviders": "users are those of the service (`bindery serve`)",
    "groupproviders": "users have tags and permissions",
    "brokerloggers": "the service writes its own log",
    "ports": "clients come by HTTP, Kafka, files and tables",
    "plugins": "the service has its own API and console",
    "keystores": "TLS is the service's",
    "truststores": "TLS is the service's",
    "remotereplicationnodes": "replication is the storage's business",
    "connectionlimitproviders": "nothing connects but HTTP clients",
    "users": "users are those of the service (`bindery serve`)",
    "preferencesproviders": "the console keeps no preferences of users",
}
#: Attributes of queues that ask for nothing that is missing here, whatever they say.
_QUEUE_IDLE: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "alertRepeatGap",
            "alertThresholdMessageAge",
            "alertThresholdMessageSize",
            "alertThresholdQueueDepthBytes",
            "alertThresholdQueueDepthMessages",
        ),
        "alerts are made from metrics",
    ),
    **dict.fromkeys(
        ("messageDurability", "queueFlowControlSizeBytes", "queueFlowResumeSizeBytes"),
        "every message is stored; tables are not bounded by memory",
    ),
    **dict.fromkeys(
        ("ensureNondestructiveConsumers", "maximumLiveConsumers", "consumers"), "readers of tables take nothing away"
    ),
    "owner": "nobody owns a queue",
}
#: Attributes of queues that a consumer would notice -> (values that ask for nothing, what is different).
_QUEUE_DIFFERENT: Final[Mapping[str, tuple[tuple[Any, ...], str]]] = {
    "exclusive": (("NONE",), NO_CONSUMERS),
    "noLocal": ((False, "false"), NO_CONSUMERS),
    "maximumDeliveryAttempts": ((0, "0"), NO_RETRIES),
    "minimumMessageTtl": ((0, "0"), "a message that states a shorter time to live is not kept longer"),
    "holdOnPublishEnabled": ((False, "false"), "messages are not held back; x-qpid-not-valid-before is a property"),
    "messageGroupKey": ((), "messages are not grouped for consumers"),
    "messageGroupKeyOverride": ((), "messages are not grouped for consumers"),
    "messageGroupType": (("NONE",), "messages are not grouped for consumers"),
    "messageGroupSharedGroups": ((False, "false"), "messages are not grouped for consumers"),
    "messageGroupDefaultGroup": (("qpid.no-group",), "messages are not grouped for consumers"),
    "maximumDistinctGroups": ((255, "255"), "messages are not grouped for consumers"),
    "priorities": ((), "messages are kept in the order in which they were routed"),
    "sortKey": ((), "messages are kept in the order in which they were routed; readers sort by the property"),
}
#: Whose the variables in texts are (`${name}`).
_VARIABLES: Final = "of the broker's context"
_BOUNDS: Final = {"maximumQueueDepthMessages": MAX_LENGTH, "maximumQueueDepthBytes": MAX_LENGTH_BYTES}


def read(name: str, raw: bytes, *, access: bool = False) -> list[SourceObject]:
    """The objects of a configuration: of every virtual host in it, and what else it holds.

    Comments are skipped. Raises DefinitionsRefused for what is no JSON object, or no configuration of Broker-J.
    """
    source = read_source(name, _without_comments(raw))
    document = source.value
    found: list[SourceObject] = []
    if "virtualhostnodes" in document or "authenticationproviders" in document or "ports" in document:
        _Walk(source, found).broker(document)
    elif "exchanges" in document or "queues" in document or "modelVersion" in document or "virtualhosts" in document:
        _Walk(source, found).node_or_host(document, "")
    else:
        said = "this is no configuration of Broker-J: it has neither virtualhostnodes nor exchanges nor queues"
        raise refusal([source.problem(InvalidInput(said), "")])
    return found


def _without_comments(raw: bytes) -> bytes:
    """The text with blanks for comments, so that what follows stays where it is."""

    def blank(match: re.Match[str]) -> str:
        return match[1] if match[1] is not None else re.sub(r"[^\n]", " ", match[0])

    try:
        return _COMMENTS.sub(blank, raw.decode("utf-8-sig")).encode()
    except UnicodeDecodeError:
        return raw  # is refused where it is read


class _Walk:
    """Goes through the parts of a document; `found` gets their objects."""

    def __init__(self, source: Source, found: list[SourceObject]) -> None:
        self.source = source
        self.found = found

    def broker(self, document: Mapping[str, Any]) -> None:
        """A whole broker: its virtual host nodes, and what it has beside them."""
        broker = self.object("broker", str(document.get("name")), "name")
        for key, value in document.items():
            if key == "virtualhostnodes":
                for path, node in self.objects(value, key):
                    self.node_or_host(node, path)
            elif key in _SECTIONS:
                self.section(key, value, "")
            elif key != "name" and (key in _BOOKKEEPING or not isinstance(value, list)):
                broker.idle(key, OF_BROKER)
            elif key != "name":
                self.object("section", key, key).lost("the reader does not know this part of a broker")

    def node_or_host(self, raw: Mapping[str, Any], path: str) -> None:
        """A virtual host, or a node: one that names its virtual hosts, or how a new one begins."""
        initial = raw.get("virtualHostInitialConfiguration")
        if "virtualhosts" not in raw and initial is None:
            if path and not raw.keys() & {"exchanges", "queues"}:
                self._node_elsewhere(raw, path)
            else:
                _Host(self, raw, path, str(raw.get("name"))).read()
            return
        node = self.object("virtual host node", str(raw.get("name")), path)
        for key, value in raw.items():
            if key == "virtualhosts":
                for inner, host in self.objects(value, _join(path, key)):
                    _Host(self, host, inner, str(host.get("name", raw.get("name")))).read()
            elif key == "virtualHostInitialConfiguration" and isinstance(value, str) and value.startswith("${"):
                said = "how its virtual host begins is a variable of the broker's context"
                node.lost(said, key, hint="import the file of the node, too: <work>/<node>/config/*.json")
            elif key == "virtualHostInitialConfiguration":
                begun = self._initial(value, _join(path, key))
                if "virtualhosts" not in raw:
                    _Host(self, begun, _join(path, key), str(begun.get("name", raw.get("name")))).read()
            elif key in _SECTIONS:
                self.section(key, value, path)
            elif key != "name":
                node.idle(key, OF_BROKER)

    def _node_elsewhere(self, raw: Mapping[str, Any], path: str) -> None:
        self.object("virtual host node", str(raw.get("name")), path).lost(
            "its virtual host is not in this file", hint="import the file of the node, too: <work>/<node>/config/*.json"
        )

    def _initial(self, value: Any, path: str) -> Mapping[str, Any]:
        """A virtual host that stands as text in its node."""
        content = value
        if isinstance(value, str):
            try:
                content = json.loads(value or "{}")
            except (ValueError, RecursionError):
                content = None
        if not isinstance(content, Mapping):
            raise refusal([self.source.problem(InvalidInput("expected an object, or the text of one"), path)])
        return content

    def section(self, key: str, value: Any, path: str) -> None:
        """Objects that are no part of a topology."""
        for inner, item in self.objects(value, _join(path, key)):
            kind = key.removesuffix("s")
            self.object(kind, str(item.get("name")), inner).lost("no part of a topology", hint=_SECTIONS[key])

    def objects(self, value: Any, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The objects of a list with their paths; raises DefinitionsRefused for what is none."""
        if value is None:
            return
        if not isinstance(value, list):
            raise refusal([self.source.problem(InvalidInput("expected an array"), path)])
        for number, item in enumerate(value):
            if not isinstance(item, Mapping):
                raise refusal([self.source.problem(InvalidInput("expected an object"), f"{path}[{number}]")])
            yield f"{path}[{number}]", item

    def object(self, kind: str, name: str, place: str, vhost: str | None = None) -> SourceObject:
        """Add an object of the source."""
        self.found.append(SourceObject(kind, name, place, vhost))
        return self.found[-1]


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


class _Host:
    """One virtual host."""

    def __init__(self, walk: _Walk, raw: Mapping[str, Any], path: str, name: str) -> None:
        self.walk = walk
        self.raw = raw
        self.path = path
        self.name = name
        self.queues = [(at, item) for at, item in walk.objects(raw.get("queues"), _join(path, "queues"))]
        self.exchanges = [(at, item) for at, item in walk.objects(raw.get("exchanges"), _join(path, "exchanges"))]
        #: Names by identifier: older configurations refer to either.
        self.names = {
            str(item["id"]): str(item.get("name")) for _, item in (*self.queues, *self.exchanges) if "id" in item
        }
        self.queue_names = {str(item.get("name")) for _, item in self.queues}
        self.exchange_names = {str(item.get("name")) for _, item in self.exchanges} | set(PREDECLARED)

    def read(self) -> None:
        """Its objects, in the order in which they are declared."""
        host = self.walk.object("virtual host", self.name, self.path or "name")
        host.declares.append(("vhosts", {"name": self.name}))
        host.refuse_variables(_VARIABLES)
        for key, value in self.raw.items():
            if key in _SECTIONS:
                self.walk.section(key, value, self.path)
            elif key == "name":
                continue
            elif key in _BOOKKEEPING or key in _VHOST_IDLE:
                host.idle(key, OF_BROKER)
            elif key == "nodeAutoCreationPolicies":
                if value not in (None, [], "[]", ""):
                    host.differs(key, "nothing is created by publishing to it", hint="declare it")
            elif key == "globalAddressDomains":
                if value not in (None, [], "[]", ""):
                    host.differs(key, "addresses have no domains: they name exchange and key")
            elif key not in ("exchanges", "queues", "bindings"):
                host.unknown(key)
        for path, item in self.exchanges:
            self._exchange(path, item)
        for path, item in self.queues:
            self._queue(path, item)
        for path, item in self.exchanges:
            self._bindings(path, item, str(item.get("name")))

    # -- exchanges

    def _exchange(self, path: str, raw: Mapping[str, Any]) -> None:
        name = str(raw.get("name"))
        item = self.walk.object("exchange", name, path, self.name)
        arguments: dict[str, Any] = {}
        for key, value in raw.items():
            if key in ("durableBindings", "bindings", "name", "type"):
                continue
            if key in _BOOKKEEPING:
                _life(item, key, value)
            elif key in ("alternateBinding", "alternateExchange"):
                target = self._target(value)
                if target is not None and (target in self.queue_names or target in self.exchange_names):
                    arguments["alternateBinding"] = {"destination": target}
                elif target is not None:
                    item.differs(key, f"its virtual host has no {target!r}", hint="declare it in the file")
            elif key == "unroutableMessageBehaviour":
                if value not in (None, "DISCARD"):
                    arguments[ATTRIBUTES[key]] = value
            elif key == "creatingLinkInfo":
                item.idle(key, OF_BROKER)
            else:
                item.unknown(key)
        if name in PREDECLARED or name.startswith(RESERVED_PREFIX):
            for key in arguments.keys() & {"alternateBinding", ATTRIBUTES["unroutableMessageBehaviour"]}:
                target = arguments[key]["destination"] if key == "alternateBinding" else None
                alone = target in self.queue_names and not raw.get("durableBindings") and not raw.get("bindings")
                item.differs(
                    key if target else "unroutableMessageBehaviour",
                    "predeclared exchanges have no arguments here",
                    hint="publish to an exchange of your own that has them",
                    example=Example({"exchange": name, "routing_key": "any"}, (str(target),)) if alone else None,
                )
            if name not in PREDECLARED:
                item.lost("names that begin with amq. are reserved")
            return
        declared = {"vhost": self.name, "name": name, "type": raw.get("type"), "arguments": arguments}
        if arguments.get(UNROUTABLE_BEHAVIOUR) == "REJECT":
            item.idle("unroutableMessageBehaviour", "what is rejected is kept in the unroutable table, as rejected")
        item.declares.append(("exchanges", declared))
        item.refuse_variables(_VARIABLES)

    def _target(self, value: Any) -> str | None:
        """The name that an alternate leads to: an object with a destination or, formerly, a name or identifier."""
        stated = value.get("destination") if isinstance(value, Mapping) else value
        return self.names.get(str(stated), str(stated)) if stated else None

    # -- bindings

    def _bindings(self, path: str, raw: Mapping[str, Any], exchange: str) -> None:
        kind = PREDECLARED.get(exchange, raw.get("type"))
        last: dict[tuple[str, str], SourceObject] = {}
        for section in ("durableBindings", "bindings"):
            for at, one in self.walk.objects(raw.get(section), _join(path, section)):
                old = section == "bindings"
                stated = one.get("queue") if old else one.get("destination")
                key = str((one.get("name") if old else one.get("bindingKey")) or "")
                destination = self.names.get(str(stated), str(stated))
                item = self.walk.object("binding", f"{exchange} -> {destination}, key {key!r}", at, self.name)
                # a binding is its key and destination; the later one has its arguments (AbstractExchange.bind)
                if (key, destination) in last:
                    last[key, destination].lost("a later binding of the same key and destination replaces it")
                last[key, destination] = item
                self._binding(item, one, kind, exchange, destination, key)

    def _binding(
        self, item: SourceObject, raw: Mapping[str, Any], kind: Any, exchange: str, destination: str, key: str
    ) -> None:
        known = {"destination", "bindingKey", "arguments", "queue", "exchange", *_BOOKKEEPING}
        for name in raw.keys() - known:
            item.unknown(name)
        to_queue = destination in self.queue_names or destination not in self.exchange_names
        stated = raw.get("arguments") or {}
        if not isinstance(stated, Mapping):
            item.lost("arguments are an object", "arguments")
            return
        arguments = _headers(item, stated) if kind == "headers" else _plain(item, stated)
        declared = {
            "vhost": self.name,
            "source": exchange,
            "destination": destination,
            "destination_type": "queue" if to_queue else "exchange",
            "routing_key": key,
            "arguments": arguments,
        }
        item.declares.append(("bindings", declared))

    # -- queues

    def _queue(self, path: str, raw: Mapping[str, Any]) -> None:
        name = str(raw.get("name"))
        item = self.walk.object("queue", name, path, self.name)
        arguments: dict[str, Any] = {}
        kind = raw.get("type", "standard")
        if kind == "lvq" or "lvqKey" in raw:
            arguments[LAST_VALUE_KEY] = str(raw.get("lvqKey") or _LVQ_KEY)
            item.differs("type", f"the last value of each key stays: {_LATE}")
        elif kind in ("priority", "sorted"):
            item.differs("type", "messages are kept in the order in which they were routed; readers sort them")
        elif kind != "standard":
            item.unknown("type", f"no type of queues is called {kind!r}")
        for key, value in raw.items():
            if key in ("name", "type", "lvqKey", "bindings", "overflowPolicy", "expiryPolicy"):
                continue
            if key in _BOOKKEEPING:
                _life(item, key, value)
            elif key in _QUEUE_IDLE:
                item.idle(key, _QUEUE_IDLE[key])
            elif key in _QUEUE_DIFFERENT:
                asks_nothing, said = _QUEUE_DIFFERENT[key]
                if value is not None and value not in asks_nothing:
                    item.differs(key, said)
            elif key == "maximumMessageTtl":
                if (limit := _number(item, key, value)) > 0:
                    arguments[argument(MESSAGE_TTL)] = limit
                    item.differs(key, _LATE)
            elif key in _BOUNDS:
                self._bound(item, raw, key, value, arguments)
            elif key in ("alternateBinding", "alternateExchange"):
                self._alternate(item, raw, key, value, arguments)
            elif key == "defaultFilters":
                if value not in (None, {}, "", "{}"):
                    item.differs(
                        key,
                        "the filter of consumers that state none, not of the queue: readers here see every message",
                        hint=f"state it when reading: bindery messages get {name} --filter …",
                    )
            else:
                item.unknown(key)
        _overflow(item, raw)
        declared = {"vhost": self.name, "name": name, "arguments": arguments}
        item.declares.append(("queues", declared))
        item.refuse_variables(_VARIABLES)
        for at, _ in self.walk.objects(raw.get("bindings"), _join(path, "bindings")):
            self.walk.object("binding", name, at, self.name).lost(
                "a binding that stands in its queue", hint="let a Broker-J of 7.0 or later write the configuration"
            )

    @staticmethod
    def _bound(item: SourceObject, raw: Mapping[str, Any], key: str, value: Any, arguments: dict[str, Any]) -> None:
        limit = _number(item, key, value)
        if limit < 0 or raw.get("overflowPolicy", "NONE") != "RING":
            return
        arguments[argument(_BOUNDS[key])] = limit
        of_bodies = "; here bytes of bodies count, there those of headers too" if key.endswith("Bytes") else ""
        item.differs(key, f"the oldest go: {_LATE}{of_bodies}")

    def _alternate(
        self, item: SourceObject, raw: Mapping[str, Any], key: str, value: Any, arguments: dict[str, Any]
    ) -> None:
        target = self._target(value)
        if target is None:
            return
        said = "it gets what was delivered too often, and the messages of a deleted queue: neither comes here"
        if raw.get("expiryPolicy") == "ROUTE_TO_ALTERNATE":
            if target in self.exchange_names:
                arguments[argument(DEAD_LETTER_EXCHANGE)] = target
            else:
                arguments |= {argument(DEAD_LETTER_EXCHANGE): "", argument(DEAD_LETTER_ROUTING_KEY): target}
            said = f"it gets what expires, {_LATE}; without maximumMessageTtl nothing expires here"
        item.differs(key, said)


def _life(item: SourceObject, key: str, value: Any) -> None:
    """Attributes that every object has: how long it lives, and what the broker writes down of it."""
    if key == "durable" and value in (False, "false"):
        item.differs(key, "stays when the service is started again, as everything here does")
    elif key == "lifetimePolicy" and value not in (None, "PERMANENT"):
        item.differs(key, "it is not deleted of itself: nothing connects or consumes here")
    elif key == "context" and value:
        item.differs(key, "variables of the broker's context mean nothing here")
    elif key not in ("name", "type", "durable", "lifetimePolicy", "context"):
        item.idle(key, OF_BROKER)


def _overflow(item: SourceObject, raw: Mapping[str, Any]) -> None:
    policy = raw.get("overflowPolicy", "NONE")
    if policy in ("PRODUCER_FLOW_CONTROL", "REJECT"):
        item.differs("overflowPolicy", "a job cannot refuse or hold its records, so that nothing bounds the length")
    elif policy == "FLOW_TO_DISK":
        item.idle("overflowPolicy", "every message is stored")
    elif policy not in ("NONE", "RING"):
        item.unknown("overflowPolicy", f"no policy is called {policy!r}")


def _number(item: SourceObject, key: str, value: Any) -> int:
    """A number, which the broker also takes as text; -1 where it is none, which is said."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        if value is not None:
            item.unknown(key, "this is no number: nothing comes of it")
        return -1


def _plain(item: SourceObject, stated: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a binding of a direct, topic or fanout exchange: filters and replacement keys act."""
    arguments: dict[str, Any] = {}
    for name, value in stated.items():
        if name == SELECTOR_ARGUMENT and value in (None, ""):
            item.idle(f"arguments.{name}", "an empty selector takes every message")
        elif name in (SELECTOR_ARGUMENT, REPLACEMENT_KEY):
            arguments[name] = value
        else:
            _beside(item, name)
    return arguments


def _beside(item: SourceObject, name: str) -> None:
    """An argument that the exchange does not compare."""
    if name.startswith("x-qpid-") or name.startswith("x-filter-"):
        item.differs(f"arguments.{name}", "a filter of consumers, which nothing here keeps", hint="see x-filters")
    elif name.lower() != X_MATCH:
        item.unknown(f"arguments.{name}", "the exchange does not read it, there or here")
    else:
        item.idle(f"arguments.{name}", "only headers exchanges compare")


def _headers(item: SourceObject, stated: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a binding of a headers exchange, with the same meaning here (HeadersBinding).

    There a value that is null or the empty text asks for presence alone, `any` over no criteria takes every message,
    names that begin with X- are no criteria either, and the form of x-match is compared in any case.
    """
    arguments: dict[str, Any] = {}
    form = "all"
    criteria = 0
    for name, value in stated.items():
        if name.lower() == X_MATCH:
            form = "any" if isinstance(value, str) and value.lower() == "any" else "all"
        elif name in (SELECTOR_ARGUMENT, REPLACEMENT_KEY):
            if value not in (None, ""):
                arguments[name] = value
        elif name.lower().startswith("x-"):
            _beside(item, name)
        else:
            criteria += 1
            arguments[name] = None if value == "" else value
            if isinstance(value, int | float) and not isinstance(value, bool):
                item.differs(
                    f"arguments.{name}",
                    "numbers of every width are equal here; Broker-J compares the types of Java too",
                )
    arguments[X_MATCH] = form if criteria else "all"
    return arguments
