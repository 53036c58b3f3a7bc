"""Apache ActiveMQ Classic: `activemq.xml`.

A queue is a queue, reached by its name; a topic is a fanout exchange, to which a message for it is published; so is a
queue that something is done about: a composite queue, and one that is mirrored where somebody reads the mirror. What
composite destinations forward to, and the queues of virtual topics, are bound to these exchanges (documentation of
Classic, "Composite Destinations", "Virtual Destinations", "Mirrored Queues", "Wildcards"; activemq-broker 5.18).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from bindery.router.definitions.document import DIVERTS_KEY
from bindery.router.errors import FilterError
from bindery.router.importers import classic_known as known
from bindery.router.importers.classic_policies import Policies
from bindery.router.importers.classic_selectors import Selector, Unreadable, read_selector
from bindery.router.importers.classic_virtual import (
    QUEUE,
    TOPIC,
    Composite,
    Forward,
    Mirror,
    Name,
    Step,
    Virtual,
    VirtualTopic,
    is_pattern,
)
from bindery.router.importers.objects import OF_BROKER, Example, SourceObject
from bindery.router.importers.xml import Element, read_xml, refused_at
from bindery.router.model import ALTERNATE_EXCHANGE, SELECTOR_ARGUMENT

#: What a broker does where its file names no interceptors (BrokerService.createDefaultDestinationInterceptor).
_DEFAULT_TOPICS: Final = "VirtualTopic.>"
_PREFIX: Final = "Consumer.*."
_MIRROR: Final = "VirtualTopic.Mirror."
#: Interceptors, and selectors for which a message is looked for: no file of people has more.
_MOST_LAYERS: Final = 100
_MOST_EXAMPLES: Final = 100
#: Comparisons of names with wildcards.
_MOST_COMPARED: Final = 3_000_000
_DECLARE: Final = "declare the queues that clients use in <destinations>, or bind them here"


def read(name: str, raw: bytes, *, access: bool = False) -> list[SourceObject]:
    """The objects of an `activemq.xml`; raises DefinitionsRefused for what is no such document."""
    root = read_xml(name, raw)
    if root.name in ("configuration", "core"):
        raise refused_at(name, "this is a broker.xml of Artemis: bindery import --from artemis", root)
    brokers = [root] if root.name == "broker" else [one for one in root.children if one.name == "broker"]
    if not brokers:
        raise refused_at(name, "this is no activemq.xml: it has no broker", root)
    reader = _Reader(name, _plain(brokers[0]))
    reader.read()
    if root.name != "broker":
        for part in root.children:
            if part is not brokers[0]:
                reader.beside(part)
    for item in reader.found:
        item.refuse_variables("of the broker's properties")
    _once(reader.found)
    return reader.found


def _once(found: list[SourceObject]) -> None:
    """Leave out what an earlier object declares as well: several name one queue or topic."""
    declared: set[str] = set()
    for item in found:
        fresh = []
        for section, one in item.declares:
            key = json.dumps([section, one], sort_keys=True)
            if key not in declared:
                declared.add(key)
                fresh.append((section, one))
        item.declares[:] = fresh


def _plain(element: Element) -> Element:
    """An element with Spring's beans as the elements that they stand for, and their properties as attributes."""
    kind, attributes = element.name, dict(element.attributes)
    children: list[Element] = []
    if kind == "bean" and "class" in attributes:
        stands_for = attributes.pop("class").rpartition(".")[2]
        kind = known.BEANS.get(stands_for, stands_for[:1].lower() + stands_for[1:])
    for child in element.children:
        named = child.attributes.get("name")
        if child.name == "property" and element.name == "bean" and named:
            value = child.attributes.get("value") or next((one.text for one in child.all("value")), None)
            if value is not None:
                attributes[named] = value
            else:
                children.append(Element(named, {}, child.line, [_plain(one) for one in child.children]))
        elif child.name in ("list", "set", "array"):
            children += _plain(child).children
        else:
            children.append(_plain(child))
    return Element(kind, attributes, element.line, children, element.pieces)


def _names(kind: str, stated: str, *, qualified: bool = False) -> tuple[Name, ...]:
    """The destinations that a name stands for: several with commas, without what stands behind a question mark.

    `qualified`: also alone it may begin with its kind (ActiveMQDestination.createDestination, setPhysicalName).
    """
    listed = [part.strip() for part in stated.partition("?")[0].split(",") if part.strip()]
    found = []
    for part in listed:
        scheme, separator, rest = part.partition("://")
        known_scheme = separator and scheme in (QUEUE, TOPIC) and (qualified or len(listed) > 1)
        found.append(Name(scheme, rest) if known_scheme else Name(kind, part))
    return tuple(dict.fromkeys(found))


class _Reader:
    """Goes through a broker; `found` gets its objects."""

    def __init__(self, file: str, broker: Element) -> None:
        self.file = file
        self.broker = broker
        self.found: list[SourceObject] = []
        self.virtual = Virtual()
        self.policies = Policies(self.object)
        #: The objects that name destinations, which declare them.
        self.naming: list[tuple[SourceObject, tuple[Name, ...]]] = []
        self.declared: set[Name] = set()
        self._examples = 0
        self._bean_names: set[str] = set()

    def object(self, kind: str, name: str, element: Element) -> SourceObject:
        """Add an object of the source."""
        self.found.append(SourceObject(kind, name, f"line {element.line}"))
        return self.found[-1]

    def read(self) -> None:
        """Its parts: those that name destinations first, because the rest is about them."""
        item = self.object("broker", self.broker.attributes.get("brokerName", "localhost"), self.broker)
        item.differs(
            "destinations",
            "queues and topics that clients create stand in no file, nor do subscriptions",
            hint=_DECLARE,
        )
        for key, value in self.broker.attributes.items():
            if key in known.BROKER:
                asks_nothing, why = known.BROKER[key]
                if value.lower() not in asks_nothing:
                    item.differs(key, why)
            elif key not in known.BROKER_IDLE:
                item.unknown(key)
        for part in self.broker.all("destinations"):
            for one in part.children:
                self._destination(one)
        interceptors = list(self.broker.all("destinationInterceptors"))
        for part in interceptors:
            for one in part.children:
                self._interceptor(one)
        if not interceptors:
            self._default_interceptors(item)
        for part in self.broker.children:
            if part.name not in ("destinations", "destinationInterceptors"):
                self._part(part)
        compared = (self.virtual.general() + len(self.policies)) * sum(len(names) for _, names in self.naming)
        if compared > _MOST_COMPARED:
            said = (
                f"more than {_MOST_COMPARED:,} comparisons of destinations with virtual topics, wildcards and policies"
            )
            raise refused_at(self.file, said, self.broker)
        self.virtual.learn(name for _, names in self.naming for name in names if not is_pattern(name.name))
        self.virtual.learn(self._mirrored())
        self._declare()

    def beside(self, part: Element) -> None:
        """What the file has beside its broker."""
        if part.name == "broker":
            self.object("broker", part.attributes.get("brokerName", ""), part).lost(
                "another broker", hint="import it from a file of its own"
            )
        elif part.name == "import":
            resource = part.attributes.get("resource", "")
            item = self.object("import", resource, part)
            if "jetty" in resource:
                item.idle("", OF_BROKER)
            else:
                item.lost("what a file imports is not read", hint="put what it says of destinations into this file")
        elif part.name == "camelContext":
            for route in part.all("route") or ():
                self.object("Camel route", route.attributes.get("id", ""), route).lost(
                    "routes of Camel do not run here", hint=known.PLUGINS["camelRoutesBrokerPlugin"]
                )
        else:
            self.object(part.name, part.attributes.get("id", part.attributes.get("name", "")), part).idle("", OF_BROKER)

    # -- destinations and interceptors

    def _destination(self, element: Element) -> None:
        stated = element.attributes.get("physicalName", element.attributes.get("name", ""))
        kind = {"tempQueue": QUEUE, "tempTopic": TOPIC}.get(element.name, element.name)
        item = self.object(kind, stated, element)
        if element.name not in (QUEUE, TOPIC):
            if kind == element.name:
                item.unknown("", "nobody knows this part of destinations")
            else:
                item.lost("a temporary destination is its client's", hint="declare a queue")
            return
        names = _names(kind, stated)
        for key in element.attributes.keys() - {"physicalName", "name", "id", "DLQ"}:
            item.unknown(key)
        if not names:
            item.lost("it has no name")
        elif any(is_pattern(name.name) for name in names):
            item.lost("it stands for others, which clients with wildcards read", hint="declare each by its name")
        else:
            self._name(item, names)
            self.declared.update(names)

    def _name(self, item: SourceObject, names: tuple[Name, ...]) -> None:
        self.naming.append((item, names))

    def _interceptor(self, element: Element) -> None:
        if len(self.virtual.layers) >= _MOST_LAYERS:
            raise refused_at(self.file, f"more than {_MOST_LAYERS} interceptors", element)
        if element.name == "virtualDestinationInterceptor":
            layer: list[Composite | VirtualTopic] = []
            for part in element.all("virtualDestinations"):
                for one in part.children:
                    if (read_one := self._virtual(one)) is not None:
                        layer.append(read_one)
            self.virtual.layers.append(layer)
        elif element.name == "mirroredQueue":
            item = self.object("mirrored queues", "", element)
            said = element.attributes
            for key in said.keys() - {"prefix", "postfix", "copyMessage", "id"}:
                item.unknown(key)
            self.virtual.layers.append(Mirror(item, said.get("prefix", _MIRROR), said.get("postfix", "")))
        else:
            self.object("interceptor", element.name, element).lost(
                "interceptors of one's own do not run here", hint="write what it does as bindings and diverts"
            )

    def _default_interceptors(self, broker: SourceObject) -> None:
        said = self.broker.attributes
        if said.get("useVirtualTopics", "true").lower() == "true":
            self.virtual.layers.append([VirtualTopic(broker, _DEFAULT_TOPICS, _PREFIX, "")])
        if said.get("useMirroredQueues", "").lower() == "true":
            self.virtual.layers.append(Mirror(broker, _MIRROR, ""))

    def _virtual(self, element: Element) -> Composite | VirtualTopic | None:
        name = element.attributes.get("name", "")
        kinds = {"compositeQueue": "composite queue", "compositeTopic": "composite topic"}
        item = self.object(kinds.get(element.name, "virtual topic"), name, element)
        if element.name not in (*kinds, "virtualTopic"):
            item.unknown("", f"nobody knows this part of virtualDestinations: {element.name}")
            return None
        if name and name in self._bean_names:
            item.lost("an earlier one has this name: Classic does not start with both", hint="keep one of the two")
            return None
        self._bean_names.add(name)
        if element.name == "virtualTopic":
            return self._virtual_topic(item, element)
        kind = QUEUE if element.name == "compositeQueue" else TOPIC
        for key in (element.attributes.keys() | {child.name for child in element.children}) - known.COMPOSITE:
            item.unknown(key)
        for key in ("copyMessage", "concurrentSend"):
            if key in element.attributes:
                item.idle(key, "how copies are made")
        names = _names(kind, name)
        if not names:
            item.lost("it has no name")
            return None
        forwards = [self._forward(one, name) for part in element.all("forwardTo") for one in part.children]
        composite = Composite(
            item,
            kind,
            tuple(one.name for one in names),
            [one for one in forwards if one is not None],
            forward_only=element.attributes.get("forwardOnly", "true").lower() == "true",
            when_unmatched=element.attributes.get("sendWhenNotMatched", "").lower() == "true",
        )
        if any(is_pattern(one.name) for one in names):
            item.differs(
                "name",
                f"it is about the {kind}s of the file alone; there it is about every {kind} that it matches",
                hint=_DECLARE,
            )
        self._name(item, tuple(one for one in names if not is_pattern(one.name)))
        return composite

    def _forward(self, element: Element, source: str) -> Forward | None:
        selector: Selector | None = None
        names: tuple[Name, ...] = ()
        said = element.attributes
        if element.name in (QUEUE, TOPIC):
            names = _names(element.name, said.get("physicalName", said.get("name", "")))
        elif element.name == "filteredDestination":
            for kind in (QUEUE, TOPIC):
                if kind in said:
                    names = _names(kind, said[kind], qualified=True)
            for one in (inner for part in element.all("destination") for inner in part.children):
                names = _names(one.name, one.attributes.get("physicalName", ""))
        item = self.object("forward", f"{source} -> {', '.join(map(str, names)) or element.name}", element)
        if not names:
            item.lost("nobody says where it leads", hint="<queue physicalName=…/>, or a queue of filteredDestination")
            return None
        if any(is_pattern(name.name) for name in names):
            item.lost(
                "its target stands for others: Classic gives the message to one of them",
                hint="write the destinations that are meant",
            )
            return None
        if element.name == "filteredDestination":
            for key in (said.keys() | {child.name for child in element.children}) - known.FILTERED:
                item.unknown(key)
            if not (text := said.get("selector", "").strip()):
                item.lost("without a selector Classic forwards nothing", hint="give it a selector")
                return None
            try:
                selector = read_selector(text)
            except (FilterError, Unreadable) as error:
                message = error.message if isinstance(error, FilterError) else str(error)
                item.lost(f"the selector is refused: {message}", "selector", hint=error.hint)
                return None
        self._name(item, names)
        return Forward(item, names, selector)

    def _virtual_topic(self, item: SourceObject, element: Element) -> VirtualTopic:
        said = element.attributes
        for key, value in said.items():
            if key in known.VIRTUAL_TOPIC_IDLE:
                item.idle(key, known.VIRTUAL_TOPIC_IDLE[key])
            elif key not in known.VIRTUAL_TOPIC:
                item.unknown(key)
            elif key == "selectorAware" and value.lower() == "true":
                item.differs(
                    key,
                    "its queues get what their consumers' selectors take there, and nothing without a consumer",
                    hint="give the queue the selector as its x-queue-filter",
                )
        names = _names(TOPIC, said.get("name", ">"))
        self._name(item, tuple(one for one in names if not is_pattern(one.name)))
        pattern = names[0].name if names else ">"
        return VirtualTopic(item, pattern, said.get("prefix", _PREFIX), said.get("postfix", ""))

    def _mirrored(self) -> Iterator[Name]:
        """The mirrors of known queues that a virtual topic's queue reads."""
        mirrors = [layer for layer in self.virtual.layers if isinstance(layer, Mirror)]
        topics = [one for layer in self.virtual.layers if isinstance(layer, list) for one in layer]
        for mirror in mirrors:
            for queue in self.virtual.of_kind(QUEUE):
                topic = mirror.topic(queue)
                for one in topics:
                    if isinstance(one, VirtualTopic) and one.covers(topic) and self.virtual.readers(one, topic.name):
                        yield topic

    # -- other parts

    def _part(self, part: Element) -> None:
        if part.name == "destinationPolicy":
            for one in part.children:
                self.policies.read(one)
        elif part.name == "plugins":
            for plugin in part.children:
                self._plugin(plugin)
        elif part.name in known.PARTS:
            for one in part.children or [part]:
                self.object(one.name, one.attributes.get("name", one.attributes.get("id", "")), one).lost(
                    "no part of a topology", hint=known.PARTS[part.name]
                )
        elif part.name in known.IDLE_PARTS:
            self.object("setting", part.name, part).idle("", OF_BROKER)
        else:
            self.object("setting", part.name, part).unknown("", "nobody knows this part of broker")

    def _plugin(self, plugin: Element) -> None:
        item = self.object("plugin", plugin.name, plugin)
        if plugin.name in known.IDLE_PLUGINS:
            item.idle("", known.IDLE_PLUGINS[plugin.name])
        elif plugin.name in known.PLUGINS_DIFFERENT:
            item.differs("", known.PLUGINS_DIFFERENT[plugin.name])
        elif plugin.name in known.PLUGINS:
            item.lost("no part of a topology", hint=known.PLUGINS[plugin.name])
        elif not self.policies.plugin(item, plugin):
            item.lost(known.NO_PLUGIN, hint="a job's expressions change messages before they are routed")

    # -- what is declared

    def _declare(self) -> None:
        extra = self.policies.settle(self.virtual.of_kind(QUEUE))
        for item, names in self.naming:
            for name in names:
                self._declare_name(item, name)
        for item, queue in extra:
            if Name(QUEUE, queue) not in self.virtual.names:
                item.declares.append(("queues", {"name": queue}))
        crowded: dict[int, tuple[SourceObject, list[str]]] = {}
        for name in sorted(self.virtual.names):
            way = self.virtual.way(name)
            if way.told is not None:
                crowded.setdefault(id(way.told), (way.told, []))[1].append(str(name))
            for step in way.steps:
                self._declare_name(step.item, name)
                self._lead(self._exchange_of(name), step)
            for step in way.rest.steps if way.rest is not None else ():
                self._declare_name(step.item, name)
                self._lead(self._own(name), step)
        for item, found in crowded.values():
            item.differs(
                "sendWhenNotMatched",
                f"other composite destinations are about it, too; nothing is its own here: {', '.join(found)}",
            )
        self._tell()

    def _exchange_of(self, name: Name) -> str:
        """The exchange of a topic, or of a queue that something is done about."""
        both = {Name(QUEUE, name.name), Name(TOPIC, name.name)} <= self.virtual.names
        if name.kind == QUEUE and both and not self.virtual.is_plain(name):
            return str(name).replace(" ", "://")
        return name.name

    def _own(self, name: Name) -> str:
        """The exchange that leads to a queue alone, where something leads to its name beside."""
        return f"{QUEUE}://{name.name}/own"

    def _declare_name(self, item: SourceObject, name: Name) -> None:
        """Declare a topic or a queue with its exchange, if it has one, by an object that names it."""
        way = self.virtual.way(name)
        wanted: list[tuple[str, dict[str, Any]]] = []
        if name.kind == QUEUE and (way.own or way.rest is not None or name in self.declared):
            wanted.append(("queues", {"name": name.name, "arguments": self.policies.arguments(name.name)}))
        if name.kind == TOPIC or not self.virtual.is_plain(name):
            exchange = self._exchange_of(name)
            arguments = {}
            if name.kind == QUEUE and way.rest is not None:
                arguments = {ALTERNATE_EXCHANGE: self._own(name)}
                wanted += [
                    ("exchanges", {"name": self._own(name), "type": "fanout"}),
                    ("bindings", _bound(self._own(name), name.name, QUEUE)),
                ]
            wanted.append(("exchanges", {"name": exchange, "type": "fanout", "arguments": arguments}))
            if name.kind == QUEUE and way.own:
                wanted.append(("bindings", _bound(exchange, name.name, QUEUE)))
            if exchange != name.name:
                item.differs("", f"a topic has the name, too: publish for the queue to the exchange {exchange!r}")
        item.declares += [one for one in wanted if one not in item.declares]

    def _lead(self, exchange: str, step: Step) -> None:
        """Bind what a destination forwards to, or divert to it where the selector is one of Artemis here."""
        plain = step.target.kind == QUEUE and self.virtual.is_plain(step.target)
        selector = step.selector
        if selector is not None and selector.filter.dialect == "artemis":
            target = self._exchange_of(step.target)
            if plain:
                target = self._own(step.target)
                step.item.declares += [
                    ("exchanges", {"name": target, "type": "fanout"}),
                    ("bindings", _bound(target, step.target.name, QUEUE)),
                ]
            divert = {"source": exchange, "destination": target, "filter": selector.text, "exclusive": False}
            step.item.declares.append(
                (DIVERTS_KEY, {"name": f"{exchange} to {step.target} {step.item.place}", **divert})
            )
            return
        target = step.target.name if plain else self._exchange_of(step.target)
        bound = _bound(exchange, target, QUEUE if plain else "exchange")
        if selector is not None:
            bound["arguments"] = {SELECTOR_ARGUMENT: selector.text}
        step.item.declares.append(("bindings", bound))

    # -- what is to be said

    def _tell(self) -> None:
        for name in sorted(self.virtual.circles()):
            for step in self.virtual.way(name).steps:
                step.item.differs("", f"{name} leads back to itself: Classic sends without end, here it comes once")
        read, leading = self.virtual.read_queues(), self.virtual.leading()
        for item, names in self.naming:
            for name in names:
                if name in self.declared:
                    continue
                if name.kind == QUEUE and item.kind == "forward" and name.name in read:
                    item.differs(
                        "", f"there {name} exists from the first message on that is forwarded; here from the beginning"
                    )
        for layer in self.virtual.layers:
            for one in layer if isinstance(layer, list) else []:
                if isinstance(one, VirtualTopic) and one.item.kind == "virtual topic":
                    self._tell_of_topics(one)
                elif isinstance(one, Composite):
                    for forward in one.forwards:
                        self._tell_of_selector(one, forward)
        for item, names in self.naming:
            for name in names:
                if item.kind == TOPIC and name.kind == TOPIC and name not in leading:
                    item.differs("", "subscriptions stand in no file: no queue gets its messages", hint=_DECLARE)

    def _tell_of_topics(self, one: VirtualTopic) -> None:
        if not self.virtual.is_read(one):
            one.item.differs(
                "queues",
                f"the file has no queue of the form {one.prefix}{one.pattern}{one.postfix}, so that none gets copies",
                hint=_DECLARE,
            )

    def _tell_of_selector(self, composite: Composite, forward: Forward) -> None:
        selector = forward.selector
        if selector is None:
            return
        for text in selector.fields:
            forward.item.differs(f"selector.{text.partition(' ')[0]}", text)
        sources = [Name(composite.kind, one) for one in composite.patterns if not is_pattern(one)]
        for point in selector.points:
            properties = None
            if sources and self._examples < _MOST_EXAMPLES:
                self._examples += 1
                properties = selector.shown(point)
            example = None
            if properties is not None:
                content: dict[str, Any] = {"exchange": self._exchange_of(sources[0])}
                if properties:
                    content["application_properties"] = properties
                example = Example(content, tuple(sorted(self.virtual.reached(sources[0], content))))
            forward.item.differs(f"selector.{point.name}", point.value, example=example)


def _bound(source: str, destination: str, kind: str) -> dict[str, Any]:
    return {"source": source, "destination": destination, "destination_type": kind, "routing_key": ""}
