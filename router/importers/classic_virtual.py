"""Virtual destinations of ActiveMQ Classic: which queues a message for a destination reaches.

Wildcards are those of `DestinationMap`: words delimited by full stops, `*` one word, `>` at the end any number of
them, none too, and `>` before the end any number but none, whatever stands behind it. Interceptors wrap a destination
in their order, so that the last one comes first (`CompositeDestinationInterceptor`); within one
`virtualDestinationInterceptor` every composite and virtual destination that matches does its part
(`VirtualDestinationInterceptor.createCompositeDestination`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bindery.router.importers.classic_selectors import Selector
from bindery.router.importers.objects import SourceObject

QUEUE: Final = "queue"
TOPIC: Final = "topic"


@dataclass(frozen=True, slots=True, order=True)
class Name:
    """A destination: its kind and name; a queue and a topic may have the same name."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def is_pattern(name: str) -> bool:
    """Whether a name has words that stand for others."""
    return not {"*", ">"}.isdisjoint(name.split("."))


def matches(pattern: str, name: str) -> bool:
    """Whether a name is among those that a pattern stands for."""
    parts, words = pattern.split("."), name.split(".")
    for at, part in enumerate(parts):
        if part == ">":
            return at < len(words) or at == len(parts) - 1
        if at >= len(words) or part not in ("*", words[at]):
            return False
    return len(parts) == len(words)


@dataclass(slots=True)
class Forward:
    """Where a composite destination leads; a message goes there if the selector accepts it."""

    item: SourceObject
    targets: tuple[Name, ...]
    selector: Selector | None = None


@dataclass(slots=True)
class Composite:
    """A composite queue or topic; with `forward_only` the destination itself gets nothing.

    `when_unmatched`: the destination itself gets what goes nowhere else, and nothing but that.
    """

    item: SourceObject
    kind: str
    patterns: tuple[str, ...]
    forwards: list[Forward]
    forward_only: bool = True
    when_unmatched: bool = False

    def covers(self, name: Name) -> bool:
        """Whether it is about a destination."""
        return name.kind == self.kind and any(matches(pattern, name.name) for pattern in self.patterns)


@dataclass(slots=True)
class VirtualTopic:
    """Topics whose messages are copied into the queues prefix + topic + postfix."""

    item: SourceObject
    pattern: str
    prefix: str
    postfix: str

    def covers(self, name: Name) -> bool:
        """Whether it is about a destination."""
        return name.kind == TOPIC and matches(self.pattern, name.name)

    def reads(self, queue: str, topic: str) -> bool:
        """Whether a queue gets the messages of a topic (`VirtualTopicInterceptor.send`, `shouldDispatch`)."""
        before, star, _ = self.prefix.partition(".*")
        begins = not star or self.prefix.startswith("*") or queue.startswith(before)
        return begins and matches(self.prefix + topic + self.postfix, queue)

    def topic_of(self, queue: str) -> str | None:
        """The topic that a queue is for, by its name (`VirtualTopic.interceptMappedDestination`)."""
        form = re.escape(self.prefix).replace(r"\*", r"[^.]*") + "(.+)" + re.escape(self.postfix)
        found = re.fullmatch(form, queue)
        if found is None or not matches(self.pattern, found[1]) or not self.reads(queue, found[1]):
            return None
        return found[1]


@dataclass(slots=True)
class Mirror:
    """Copies what comes to a queue to the topic prefix + queue + postfix."""

    item: SourceObject
    prefix: str
    postfix: str

    def topic(self, queue: str) -> Name:
        """The topic of a queue."""
        return Name(TOPIC, f"{self.prefix}{queue}{self.postfix}")


@dataclass(slots=True)
class Step:
    """Where a destination leads on: a target, by which object of the file, and for which messages."""

    target: Name
    item: SourceObject
    selector: Selector | None = None


@dataclass(slots=True)
class Way:
    """What becomes of a message for a destination: the steps that are taken, and whether it comes to itself (`own`).

    `rest` is done where no step is taken; `told` cannot do that here. `plain`: no interceptor is about it.
    """

    steps: list[Step] = field(default_factory=list)
    own: bool = False
    rest: Way | None = None
    told: SourceObject | None = None
    plain: bool = False


Layer = list[Composite | VirtualTopic] | Mirror


@dataclass(slots=True)
class Virtual:
    """The interceptors of a broker, and the queues and topics that are known."""

    layers: list[Layer] = field(default_factory=list)
    names: set[Name] = field(default_factory=set)
    _ways: dict[Name, Way] = field(default_factory=dict)
    #: Of each virtual topic the queues by the topic that they are for.
    _readers: dict[int, dict[str, list[str]]] = field(default_factory=dict)
    #: Of each layer the composite destinations by the name that they are about, and all that have wildcards.
    _about: dict[int, tuple[dict[Name, list[Composite]], list[Composite | VirtualTopic]]] = field(default_factory=dict)

    def of_kind(self, kind: str) -> list[str]:
        """The known names of a kind."""
        return sorted(one.name for one in self.names if one.kind == kind)

    def general(self) -> int:
        """How many virtual destinations are compared with every name."""
        return sum(
            isinstance(one, VirtualTopic) or any(map(is_pattern, one.patterns))
            for layer in self.layers
            for one in (layer if isinstance(layer, list) else ())
        )

    def learn(self, names: Iterable[Name]) -> None:
        """Know destinations, and the topics whose virtual topics lead to known queues."""
        self.names.update(names)
        self._ways.clear()
        self._readers.clear()
        queues = self.of_kind(QUEUE)
        for layer in self.layers:
            if not isinstance(layer, list):
                continue
            exact, general = self._about[id(layer)] = ({}, [])
            for one in layer:
                if isinstance(one, Composite) and not any(map(is_pattern, one.patterns)):
                    for pattern in one.patterns:
                        exact.setdefault(Name(one.kind, pattern), []).append(one)
                else:
                    general.append(one)
                if isinstance(one, VirtualTopic):
                    readers = self._readers[id(one)] = {}
                    for queue in queues:
                        topic = one.topic_of(queue)
                        if topic is not None:
                            self.names.add(Name(TOPIC, topic))
                            readers.setdefault(topic, []).append(queue)

    def way(self, name: Name) -> Way:
        """What becomes of a message for a destination, the last interceptor first."""
        if name not in self._ways:
            way = Way(own=True, plain=True)
            for layer in self.layers:
                way = self._wrapped(name, layer, way)
            self._ways[name] = way
        return self._ways[name]

    def is_plain(self, name: Name) -> bool:
        """Whether nothing is done about a destination: its messages are for itself."""
        return self.way(name).plain

    def _wrapped(self, name: Name, layer: Layer, inner: Way) -> Way:
        """What an interceptor makes of what is done inside of it."""
        if isinstance(layer, Mirror):
            topic = layer.topic(name.name)
            if name.kind != QUEUE or topic not in self.names:
                return inner
            return Way([Step(topic, layer.item), *inner.steps], inner.own, inner.rest, inner.told)
        exact, general = self._about[id(layer)]
        found = [*exact.get(name, ()), *(one for one in general if one.covers(name))]
        if not found:
            return inner
        way, goes_on = Way(), False
        for one in found:
            if isinstance(one, VirtualTopic):
                way.steps += [Step(Name(QUEUE, queue), one.item) for queue in self.readers(one, name.name)]
                goes_on = True
                continue
            way.steps += [
                Step(target, forward.item, forward.selector) for forward in one.forwards for target in forward.targets
            ]
            if one.when_unmatched and len(found) == 1:
                way.rest = inner
            elif one.when_unmatched:
                way.told = one.item
            else:
                goes_on = goes_on or not one.forward_only
        if goes_on:
            way.steps += inner.steps
            way.own, way.rest, way.told = inner.own, inner.rest, way.told or inner.told
        return way

    def readers(self, virtual: VirtualTopic, topic: str) -> list[str]:
        """The known queues that get the messages of a topic."""
        if ">" in virtual.prefix + virtual.postfix:  # then queues do not say which topic they are for
            return [queue for queue in self.of_kind(QUEUE) if virtual.reads(queue, topic)]
        return self._readers.get(id(virtual), {}).get(topic, [])

    def reached(self, name: Name, message: Mapping[str, Any]) -> set[str]:
        """The queues that a message for a destination reaches in Classic."""
        queues: set[str] = set()
        pending, seen = [(name, self.way(name))], {name}
        while pending:
            here, way = pending.pop()
            if way.own and here.kind == QUEUE:
                queues.add(here.name)
            taken = [step.target for step in way.steps if step.selector is None or step.selector.accepts(message)]
            if not taken and way.rest is not None:
                pending.append((here, way.rest))
            for target in taken:
                if target not in seen:
                    seen.add(target)
                    pending.append((target, self.way(target)))
        return queues

    def read_queues(self) -> set[str]:
        """The queues that are read from virtual topics."""
        return {queue for topics in self._readers.values() for queues in topics.values() for queue in queues}

    def is_read(self, virtual: VirtualTopic) -> bool:
        """Whether some known queue is one of a virtual topic."""
        return bool(self._readers.get(id(virtual))) or any(
            self.readers(virtual, topic) for topic in self.of_kind(TOPIC) if virtual.covers(Name(TOPIC, topic))
        )

    def leading(self) -> set[Name]:
        """The destinations from which some message may reach a queue."""
        before: dict[Name, list[Name]] = {}
        found: set[Name] = set()
        for name in self.names:
            way = self.way(name)
            if name.kind == QUEUE and (way.own or way.rest is not None):
                found.add(name)
            for step in (*way.steps, *(way.rest.steps if way.rest is not None else ())):
                before.setdefault(step.target, []).append(name)
        pending = list(found)
        while pending:
            for name in before.get(pending.pop(), ()):
                if name not in found:
                    found.add(name)
                    pending.append(name)
        return found

    def circles(self) -> set[Name]:
        """The destinations on ways that lead back to where they began."""
        onward = {name: {step.target for step in self.way(name).steps} for name in self.names}
        backward: dict[Name, set[Name]] = {name: set() for name in onward}
        for name, targets in onward.items():
            targets.intersection_update(onward)
            for target in targets:
                backward[target].add(name)
        for one, other in ((onward, backward), (backward, onward)):  # ends and beginnings go, and what is left of them
            ended = [name for name, left in one.items() if not left]
            while ended:
                name = ended.pop()
                del one[name]
                for before in other.pop(name, ()):
                    if before in one:
                        one[before].discard(name)
                        if not one[before]:
                            ended.append(before)
        return set(onward)
