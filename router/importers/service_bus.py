"""Azure Service Bus: templates of Azure Resource Manager, and lists of its entities.

A topic is a fanout exchange, a subscription a queue that is called as its path there, `topic/Subscriptions/name`, a
rule a binding with its filter (documentation of Service Bus: "Queues, topics, and subscriptions", "Topic filters and
actions", "Chaining Service Bus entities with autoforwarding", "Message expiration", "Dead-letter queues"; template
reference of Microsoft.ServiceBus).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from bindery.router.importers.arm import DEPLOYMENT, Resource, Template
from bindery.router.importers.arm_expressions import Hole, Text
from bindery.router.importers.objects import NO_CONSUMERS, NO_RETRIES, OF_BROKER, Example, SourceObject, late
from bindery.router.importers.service_bus_rules import Rule, message_of, rule_of
from bindery.router.message import Message
from bindery.router.queue_limits import DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY, EXPIRES, MESSAGE_TTL, argument

_PROVIDER: Final = "microsoft.servicebus/"
_NAMESPACE: Final = "microsoft.servicebus/namespaces"
_TOPIC: Final = f"{_NAMESPACE}/topics"
_QUEUE: Final = f"{_NAMESPACE}/queues"
_SUBSCRIPTION: Final = f"{_TOPIC}/subscriptions"
_RULE: Final = f"{_SUBSCRIPTION}/rules"
#: How deep an entity of each type stands.
_LEVELS: Final = {_NAMESPACE: 1, _TOPIC: 2, _QUEUE: 2, _SUBSCRIPTION: 3, _RULE: 4}
#: Parts of a namespace of which no message goes elsewhere, and what is lost with others.
_PARTS: Final[Mapping[str, tuple[str, str]]] = {
    "migrationconfigurations": ("nothing is moved to another namespace", "import the namespace that it ends in"),
    "disasterrecoveryconfigs": ("there is one data directory", "its storage is what is replicated"),
}
_DURATION: Final = re.compile(
    r"P(?:(\d{1,9})Y)?(?:(\d{1,9})M)?(?:(\d{1,9})W)?(?:(\d{1,9})D)?"
    r"(?:T(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9}(?:\.\d{1,9})?)S)?)?"
)
_TIME_SPAN: Final = re.compile(r"(?:(\d{1,9})\.)?(\d{1,2}):(\d{1,2}):(\d{1,2}(?:\.\d{1,9})?)")
_SECONDS: Final = (31_536_000, 2_592_000, 604_800, 86_400, 3_600, 60, 1)
#: Days from which on a duration stands for no limit: the longest of .NET.
_NEVER: Final = 10_675_199 * 86_400_000
_LATE: Final = late("Service Bus")
_TWICE: Final = "a message that is sent twice is there twice"
_SESSIONS: Final = "nobody locks a session: its id is `group_id` of a row, and a message without one is taken, too"
#: What a service keeps about its entities.
_BOOKKEEPING: Final = frozenset(
    {
        *("accessedAt", "countDetails", "createdAt", "messageCount", "sizeInBytes", "subscriptionCount", "updatedAt"),
        *("entityAvailabilityStatus", "isReadOnly", "provisioningState"),
    }
)
_IDLE: Final[Mapping[str, str]] = {
    "lockDuration": NO_CONSUMERS,
    "maxDeliveryCount": NO_RETRIES,
    "enableBatchedOperations": OF_BROKER,
    "enablePartitioning": OF_BROKER,
    "enableExpress": OF_BROKER,
    "isExpress": OF_BROKER,
    "isAnonymousAccessible": OF_BROKER,
    "filteringMessagesBeforePublishing": OF_BROKER,
    "maxSizeInMegabytes": "a table grows",
    "maxMessageSizeInKilobytes": "jobs bound their records",
    "supportOrdering": "rows have an order",
    "userMetadata": OF_BROKER,
    "duplicateDetectionHistoryTimeWindow": "it goes with requiresDuplicateDetection",
    "clientAffineProperties": "it goes with isClientAffine",
}
_NO_NAME: Final = "write it, or its parameter's defaultValue, into a copy of the file"


def read(name: str, raw: bytes, *, access: bool = False) -> list[SourceObject]:
    """The objects of a template or list; raises DefinitionsRefused for what is neither."""
    reader = _Reader(Template(name, raw))
    reader.read()
    return reader.found


def milliseconds(stated: Any) -> int | None:
    """A duration of ISO 8601 or of .NET in milliseconds; None for what is none."""
    text = stated if isinstance(stated, str) else ""
    found = _DURATION.fullmatch(text) if len(text) > 1 and text[-1] != "T" else None
    if found is not None:
        parts = found.groups()
    elif (span := _TIME_SPAN.fullmatch(text)) is not None:
        parts = (None, None, None, *span.groups())
    else:
        return None
    seconds = sum(Fraction(part or 0) * weight for part, weight in zip(parts, _SECONDS, strict=True))
    return int(seconds * 1000)


@dataclass(slots=True)
class _Entity:
    """A topic, queue or subscription: what it is called here, and what messages for it go to."""

    item: SourceObject
    name: str
    namespace: str
    properties: Mapping[str, Any]
    is_topic: bool = False
    topic: str = ""
    rules: list[Rule] = field(default_factory=list)
    #: How many rules the source states, carried over or not.
    stated: int = 0

    @property
    def forwards(self) -> str:
        """The entity that its messages are handed on to, as it is written."""
        value = self.properties.get("forwardTo")
        return value if isinstance(value, str) else ""


class _Reader:
    def __init__(self, template: Template) -> None:
        self.template = template
        self.found: list[SourceObject] = []
        #: Topics and queues by namespace and name, subscriptions by namespace, topic and name; names have no case.
        self._entities: dict[tuple[str, ...], _Entity] = {}
        self._subscriptions: dict[tuple[str, ...], _Entity] = {}
        self._vhosts: dict[str, str] = {}

    def read(self) -> None:
        """Parents first: what a child belongs to is known then."""
        known = [one for one in self.template.resources if one.kind in _LEVELS]
        spaces = {str(one.names[0]).lower(): str(one.names[0]) for one in known if len(one.names) == _LEVELS[one.kind]}
        self._vhosts = spaces if len(spaces) > 1 else {}
        for vhost in self._vhosts.values():
            self.found.append(SourceObject("vhost", vhost, "resources", None, [("vhosts", {"name": vhost})]))
        readers = {
            _NAMESPACE: self._namespace,
            _TOPIC: self._topic,
            _QUEUE: self._queue,
            _SUBSCRIPTION: self._subscription,
            _RULE: self._rule,
        }
        for kind, reader in readers.items():
            for resource in known:
                if resource.kind == kind:
                    reader(resource)
        for entity in [*self._entities.values(), *self._subscriptions.values()]:
            self._settings(entity)
        for entity in self._entities.values():
            self._declare(entity)
        for entity in self._subscriptions.values():
            self._bind(entity)
        for entity in self._subscriptions.values():
            self._compare(entity)
        self.found += self._others()

    # -- names

    def _object(self, resource: Resource, kind: str) -> tuple[SourceObject, tuple[str, ...]] | None:
        """The object of a resource and the parts of its name; None where it is not carried over, which is said."""
        shown = [str(one).replace("~", "/") for one in resource.names]
        path = [*shown[1:2], *(["Subscriptions", *shown[2:3]] if len(shown) > 2 else []), *shown[3:]]
        item = resource.object(kind, "/".join(path) if len(shown) > 1 else "".join(shown))
        if not resource.exists:
            self.found.append(item)
        if resource.why_not is not None:
            return None
        if resource.wanted is False:
            item.idle("condition", "it does not hold: it is not deployed there either")
            return None
        if len(resource.names) != _LEVELS[resource.kind]:
            item.lost(
                "type and name have not as many parts", "name", hint="as many as the type has behind its provider"
            )
            return None
        names = resource.names[1:] if kind != "namespace" else ()
        unknown = next((one for one in names if isinstance(one, Text | Hole)), None)
        if unknown is not None or (self._vhosts and not isinstance(resource.names[0], str)):
            hole = unknown if unknown is not None else resource.names[0]
            said = hole.hole if isinstance(hole, Text) else hole
            item.lost(f"nobody says what {said} is", "name", hint=_NO_NAME)
            return None
        if self._vhosts:
            item.vhost = self._vhosts[shown[0].lower()]
        return item, tuple(shown)

    def _add(self, table: dict[tuple[str, ...], _Entity], key: tuple[str, ...], entity: _Entity) -> None:
        key = tuple(part.lower() for part in key)
        if key in table:
            entity.item.lost("it stands in the file twice", hint="keep one of the two")
        else:
            table[key] = entity

    # -- objects

    def _namespace(self, resource: Resource) -> None:
        self._object(resource, "namespace")  # what it says beside its name is of the service

    def _topic(self, resource: Resource) -> None:
        found = self._object(resource, "topic")
        if found is not None and not resource.exists:
            item, (space, name) = found
            self._add(self._entities, (space, name), _Entity(item, name, space, resource.properties, is_topic=True))

    def _queue(self, resource: Resource) -> None:
        found = self._object(resource, "queue")
        if found is not None and not resource.exists:
            item, (space, name) = found
            self._add(self._entities, (space, name), _Entity(item, name, space, resource.properties))

    def _subscription(self, resource: Resource) -> None:
        found = self._object(resource, "subscription")
        if found is not None and not resource.exists:
            item, (space, topic, name) = found
            self._topic_of(item, space, topic)
            called = f"{topic}/Subscriptions/{name}"
            entity = _Entity(item, called, space, resource.properties, topic=topic)
            self._add(self._subscriptions, (space, topic, name), entity)

    def _topic_of(self, child: SourceObject, space: str, name: str) -> None:
        """Have the topic of a subscription, though the file has not deployed it."""
        if (space.lower(), name.lower()) not in self._entities:
            item = self._missing(child, "topic", name)
            self._add(self._entities, (space, name), _Entity(item, name, space, {}, is_topic=True))

    def _missing(self, child: SourceObject, kind: str, name: str) -> SourceObject:
        item = SourceObject(kind, name, child.place, child.vhost)
        item.idle("", "the file only refers to it: what it says elsewhere is not known")
        self.found.append(item)
        return item

    def _rule(self, resource: Resource) -> None:
        found = self._object(resource, "rule")
        if found is None or resource.exists:
            if not resource.exists and resource.wanted is not False:
                self._count(resource)
            return
        item, (space, topic, name, _) = found
        key = (space.lower(), topic.lower(), name.lower())
        if key not in self._subscriptions:
            self._topic_of(item, space, topic)
            called = f"{topic}/Subscriptions/{name}"
            self._subscriptions[key] = _Entity(
                self._missing(item, "subscription", called), called, space, {}, topic=topic
            )
        entity = self._subscriptions[key]
        entity.stated += 1
        rule = rule_of(item, {key: value for key, value in resource.properties.items() if value is not None})
        if rule is not None:
            entity.rules.append(rule)

    def _count(self, resource: Resource) -> None:
        """A rule that is left out is one that its subscription has: no `$Default` stands in for it."""
        key = tuple(str(one).replace("~", "/").lower() for one in resource.names[:3])
        if key in self._subscriptions:
            self._subscriptions[key].stated += 1

    # -- what entities state

    def _settings(self, entity: _Entity) -> None:
        item = entity.item
        for key, value in entity.properties.items():
            if value is None or key in _BOOKKEEPING or key in _IDLE:
                if value is not None and key in _IDLE:
                    item.idle(key, _IDLE[key])
                continue
            match key:
                case "requiresSession":
                    if value is not False:
                        item.differs(key, _SESSIONS, hint="readers group by it")
                case "requiresDuplicateDetection":
                    if value is not False:
                        item.differs(key, _TWICE, hint="`dedup` of a job routes it once")
                case "isClientAffine":
                    if value is not False:
                        item.differs(key, "it is a queue as any other: whoever may read it does")
                case "status":
                    if str(value).lower() != "active":
                        item.differs(key, f"nothing is {value}: messages come, and readers read")
                case "deadLetteringOnFilterEvaluationExceptions":
                    if value is not False:
                        item.differs(
                            key,
                            "a message for which a filter ends in an error is no dead letter: it is not let in, and "
                            "the filter's trouble is counted",
                        )
                case "defaultMessageTimeToLive" | "autoDeleteOnIdle":
                    if milliseconds(value) is None:
                        item.unknown(key, f"{value!s} is no duration: nothing comes of it")
                case "forwardTo" | "forwardDeadLetteredMessagesTo":
                    if not isinstance(value, str):
                        item.differs(key, f"nobody says what {value!s} is: messages stay", hint=_NO_NAME)
                case "deadLetteringOnMessageExpiration":
                    pass
                case _:
                    item.unknown(key)

    def _declare(self, entity: _Entity) -> None:
        """The exchange of a topic, and of a queue that hands its messages on; a queue else."""
        item = entity.item
        if entity.is_topic:
            item.declares.append(("exchanges", self._placed(item, name=entity.name, type="fanout")))
            if _finite(entity, "defaultMessageTimeToLive") is not None:
                item.idle("defaultMessageTimeToLive", "the queues of its subscriptions have it")
            if _finite(entity, "autoDeleteOnIdle") is not None:
                item.differs("autoDeleteOnIdle", "an exchange stays until it is deleted")
        elif entity.forwards:
            item.declares.append(("exchanges", self._placed(item, name=entity.name, type="fanout")))
            target, kind = self._target(entity, entity.forwards)
            item.declares.append(("bindings", self._bound(Rule(item, {}), entity.name, target, kind)))
            item.differs(
                "forwardTo",
                f"it keeps nothing: it is an exchange that leads to {target!r}",
                hint="publish to the exchange of its name, not through the default one",
            )
        else:
            self._as_queue(entity, None)

    def _as_queue(self, entity: _Entity, of_topic: int | None) -> None:
        """The queue of a queue or subscription, with its limits; `of_topic` is the time to live of its topic."""
        item, arguments = entity.item, dict[str, Any]()
        ttl = _finite(entity, "defaultMessageTimeToLive")
        lowest = min((one for one in (ttl, of_topic) if one is not None), default=None)
        if lowest is not None:
            arguments[argument(MESSAGE_TTL)] = lowest
            said = "" if lowest == ttl else ", and its topic's is shorter"
            item.differs("defaultMessageTimeToLive", _LATE + said)
        idle = _finite(entity, "autoDeleteOnIdle")
        if idle is not None:
            arguments[argument(EXPIRES)] = idle
            item.differs(
                "autoDeleteOnIdle",
                f"{_LATE}; who reads the table itself does not use the queue",
                hint="leave it out where tables are read, see `x-expires`",
            )
        dead: list[tuple[str, Mapping[str, Any]]] = []
        to = entity.properties.get("forwardDeadLetteredMessagesTo")
        if entity.properties.get("deadLetteringOnMessageExpiration") is True:
            target, kind = f"{entity.name}/$DeadLetterQueue", "queue"
            if isinstance(to, str) and to:
                target, kind = self._target(entity, to)
            else:
                dead.append(("queues", self._placed(item, name=target)))
            arguments[argument(DEAD_LETTER_EXCHANGE)] = target if kind == "exchange" else ""
            if kind == "queue":
                arguments[argument(DEAD_LETTER_ROUTING_KEY)] = target
        elif isinstance(to, str) and to:
            item.idle("forwardDeadLetteredMessagesTo", "only what expires could become a dead letter here")
        item.declares += [*dead, ("queues", self._placed(item, name=entity.name, arguments=arguments))]

    def _target(self, entity: _Entity, written: str) -> tuple[str, str]:
        """What a name of `forwardTo` is here, and whether it is an exchange or a queue; it is declared if need be."""
        name = written.rpartition("://")[2].partition("/")[2] if "://" in written else written
        key = (entity.namespace.lower(), name.lower())
        if key not in self._entities:
            item = self._missing(entity.item, "queue", name)
            item.declares.append(("queues", self._placed(item, name=name)))
            self._entities[key] = _Entity(item, name, entity.namespace, {})
            return name, "queue"
        found = self._entities[key]
        return found.name, "exchange" if found.is_topic or found.forwards else "queue"

    # -- subscriptions

    def _bind(self, entity: _Entity) -> None:
        topic = self._entities[entity.namespace.lower(), entity.topic.lower()]
        item = entity.item
        if self.template.is_list and not entity.stated:
            hint = "`az servicebus topic subscription rule list` says them: put them into the list"
            item.lost("the list has no rules of it", hint=hint)
            return
        ttl = _finite(topic, "defaultMessageTimeToLive")
        if entity.forwards:
            target, kind = self._target(entity, entity.forwards)
            item.idle("forwardTo", f"its messages go to {target!r} at once, and none stays")
            if ttl is not None or _finite(entity, "defaultMessageTimeToLive") is not None:
                item.differs("defaultMessageTimeToLive", f"what {target!r} says counts for what is handed on")
            for key in ("autoDeleteOnIdle", "forwardDeadLetteredMessagesTo"):
                if entity.properties.get(key) is not None and milliseconds(entity.properties[key]) != _NEVER:
                    item.idle(key, "there is no queue of it")
        else:
            target, kind = entity.name, "queue"
            self._as_queue(entity, ttl)
        if not entity.stated:
            item.idle("rules", "it has none: Service Bus makes `$Default` for it, which lets everything in")
            entity.rules.append(Rule(item, {}))
        elif all(not rule.item.name.endswith("/$Default") for rule in entity.rules):
            item.idle(
                "rules", "those of the file alone: Resource Manager takes `$Default` away with the first other one"
            )
        for rule in entity.rules:
            rule.item.declares.append(("bindings", self._bound(rule, topic.name, target, kind)))

    def _compare(self, entity: _Entity) -> None:
        """Copies that come more than once there: of actions that are none here, and by two ways to one entity."""
        for rule in entity.rules:
            if not rule.acts or rule.transform is not None:
                continue
            for other in entity.rules:
                if other is not rule and (data := message_of([rule, other])) is not None:
                    rule.item.differs(
                        "action.copies",
                        "a message that fits other rules, too, comes once more for it there; here it is there once",
                        example=self._example(entity, data),
                    )
                    break
        if not entity.forwards:
            return
        for beside in self._subscriptions.values():
            if beside is entity or self._way(beside) != self._way(entity):
                continue
            pairs = ((mine, theirs) for mine in entity.rules for theirs in beside.rules)
            found = next((data for pair in pairs if (data := message_of(pair)) is not None), None)
            if found is not None:
                entity.item.differs(
                    "forwardTo.copies",
                    f"a message that fits {beside.name!r}, too, comes twice there; here it is there once",
                    example=self._example(entity, found),
                )
                return

    @staticmethod
    def _way(entity: _Entity) -> tuple[str, ...]:
        """From where to where a subscription hands messages on."""
        return (entity.namespace.lower(), entity.topic.lower(), entity.forwards.lower())

    def _example(self, entity: _Entity, data: Mapping[str, Any]) -> Example:
        """A message to the topic, and the queues that it reaches there, by each copy."""
        shown = {"exchange": entity.topic, **data}
        message = Message.from_json(shown)
        return Example(shown, tuple(self._reached(entity.namespace.lower(), entity.topic.lower(), message, 0)))

    def _reached(self, space: str, name: str, message: Message, hops: int) -> Iterator[str]:
        found = self._entities.get((space, name))
        if found is None or hops > 4:  # "Autoforwarding": messages with more than four hops are dead letters
            return
        if not found.is_topic:
            if found.forwards:
                yield from self._reached(space, found.forwards.lower(), message, hops + 1)
            else:
                yield found.name
            return
        for entity in self._subscriptions.values():
            if (entity.namespace.lower(), entity.topic.lower()) != (space, name):
                continue
            fitting = [rule for rule in entity.rules if rule.fits(message)]
            copies = sum(rule.acts for rule in fitting) + any(not rule.acts for rule in fitting)
            for _ in range(copies):
                if entity.forwards:
                    yield from self._reached(space, entity.forwards.lower(), message, hops + 1)
                else:
                    yield entity.name

    # -- declarations

    @staticmethod
    def _placed(item: SourceObject, **declared: Any) -> dict[str, Any]:
        return declared if item.vhost is None else {"vhost": item.vhost, **declared}

    def _bound(self, rule: Rule, source: str, destination: str, kind: str) -> dict[str, Any]:
        arguments: dict[str, Any] = {"x-filters": rule.filters} if rule.filters else {}
        if rule.transform is not None:
            arguments["x-transform"] = rule.transform
        ends = {"source": source, "destination": destination, "destination_type": kind, "routing_key": ""}
        return self._placed(rule.item, **ends, arguments=arguments)

    def _others(self) -> Iterator[SourceObject]:
        """Resources of other types, and what is lost with them."""
        for resource in self.template.resources:
            if resource.kind in _LEVELS or resource.exists:
                continue
            item = resource.object(resource.kind, "/".join(map(str, resource.names)))
            part = _PARTS.get(resource.kind.rpartition("/")[2]) if resource.kind.startswith(_PROVIDER) else None
            if resource.why_not is None and resource.kind == DEPLOYMENT:
                item.lost("its template stands elsewhere", "properties.templateLink", hint="import that file by itself")
            elif resource.why_not is None and part is not None:
                item.lost(part[0], hint=part[1])
            else:
                item.idle("", "no message goes elsewhere for it")
            yield item


def _finite(entity: _Entity, key: str) -> int | None:
    """A duration that limits something, in milliseconds."""
    found = milliseconds(entity.properties.get(key))
    return None if found is None or found >= _NEVER else found
