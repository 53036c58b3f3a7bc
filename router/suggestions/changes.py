"""Changes of a topology that may bring a message to a queue: one step each, from what explain says stops it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from bindery.router.equality import Equality
from bindery.router.exchanges.headers import Criteria, Headers
from bindery.router.explain import Cause, Explanation, Visit
from bindery.router.filters import Filter, evaluate
from bindery.router.links import Links
from bindery.router.message import Message
from bindery.router.model import (
    ALTERNATE_BINDING,
    FILTERS_ARGUMENT,
    NOT_HEADER_CRITERIA,
    QUEUE_FILTER,
    X_MATCH,
    Binding,
    DestinationType,
    Divert,
    Exchange,
    Queue,
    Topology,
    is_predeclared,
)
from bindery.router.suggestions.edits import Edits
from bindery.router.suggestions.filters import wider
from bindery.router.suggestions.keys import widened
from bindery.router.values import Table, Value, shown

#: Exchanges that a message visited which are bound to the queue.
_BOUND_AT: Final = 3
#: Headers that a new binding of a headers exchange names.
_CRITERIA: Final = 5
#: How much else a step lets in, roughly: what is narrower comes first among changes of as many objects.
_EXACT, _FURTHER, _WORDS, _LED_ON, _OPENED, _ALTERNATE, _NEW_EXCHANGE = 0, 1, 2, 3, 4, 5, 6


@dataclass(frozen=True, slots=True)
class Step:
    """One step: the change with it, what it does in words, and how much else it lets in."""

    edits: Edits
    says: str
    breadth: int


class Changes:
    """Steps from a topology with some edits already made, for one message and one queue."""

    def __init__(self, topology: Topology, vhost: str, edits: Edits, message: Message, queue: str, clock_ms: int):
        self._links = Links(topology, vhost)
        self._topology = topology
        self._vhost = vhost
        self._edits = edits
        self._message = message
        self._queue = topology.queue(vhost, queue)
        self._clock_ms = clock_ms

    def steps(self, explanation: Explanation) -> Iterator[Step]:
        """Steps that may help; whether one does, routing says."""
        (answer,) = explanation.why_not
        for cause in answer.causes:
            yield from self._of_cause(cause, explanation)
        if any(cause.kind == "queue-filter" for cause in answer.causes):
            return  # the message comes as far as the queue
        for place, visit in enumerate(explanation.visits[:_BOUND_AT]):
            binding = self._binding(visit, "queue", self._queue.name)
            if binding is not None:
                yield self._added(binding, _EXACT if place == 0 else _FURTHER)
        for visit in explanation.visits if not explanation.queues else ():
            yield from self._alternate(visit)

    def _of_cause(self, cause: Cause, explanation: Explanation) -> Iterator[Step]:
        match cause.kind:
            case "no-exchange":
                exchange = Exchange(self._vhost, self._message.exchange, "direct")
                says = f"there is a direct exchange {exchange.name!r}"
                yield Step(self._edits.adding(exchange), says, _NEW_EXCHANGE)
            case "internal-exchange":
                exchange = self._links.exchanges[self._message.exchange]
                says = f"exchange {exchange.name!r} is no longer internal"
                yield Step(self._edits.altering(replace(exchange, internal=False)), says, _OPENED)
            case "queue-filter":
                yield from self._queue_filter()
            case "filter":
                link = self._link(cause)
                yield from self._divert_filter(link) if isinstance(link, Divert) else self._binding_filters(link)
            case "key" | "headers":
                yield from self._matched(cause, explanation)
            case "exclusive-divert" if cause.divert is not None:
                divert = self._topology.divert(self._vhost, cause.divert.name)
                says = f"divert {divert.name!r} is no longer exclusive"
                yield Step(self._edits.altering(replace(divert, exclusive=False)), says, _OPENED)
            case "exchange-not-reached" if explanation.visits:
                binding = self._binding(explanation.visits[0], "exchange", cause.path[0].source)
                if binding is not None:
                    yield self._added(binding, _LED_ON)

    def _link(self, cause: Cause) -> Binding | Divert | None:
        """The link of the topology that a cause is about."""
        named = cause.path[0]
        if named.kind == "divert":
            return self._topology.divert(self._vhost, named.name)
        return self._topology.bindings.get(named.id or 0)

    # -- bindings that are new --------------------------------------------------------------------------

    def _binding(self, visit: Visit, kind: DestinationType, destination: str) -> Binding | None:
        """A binding from a visited exchange that the message meets; None where there can be none."""
        if visit.exchange == "":
            return None
        exchange_type = self._links.type_at(visit.exchange)
        if exchange_type.reads_hash:
            return None  # a further binding would take its share of all messages
        key, arguments = "", Table()
        if exchange_type.reads_key:
            key = self._message.routing_key if self._message.routing_key in visit.keys else visit.keys[0]
        if exchange_type.reads_headers:
            arguments = Table({X_MATCH: "all", **self._criteria()})
        return Binding(0, self._vhost, visit.exchange, destination, kind, key, arguments)

    def _criteria(self) -> dict[str, Value]:
        """Headers that tell the message from others."""
        stated = {
            name: value
            for name, value in self._message.application_properties.items()
            if isinstance(value, str | bool | int | float) and name not in NOT_HEADER_CRITERIA
            if not name.startswith("x-")
        }
        return dict(list(stated.items())[:_CRITERIA])

    def _added(self, binding: Binding, breadth: int) -> Step:
        what = f" by the key {binding.routing_key!r}" if self._links.type_of(binding).reads_key else ""
        if binding.arguments:
            what = f" for messages with {_asked(binding.arguments)}"
        kind = binding.destination_type
        says = f"exchange {binding.source!r} is bound to {kind} {binding.destination!r}{what}"
        return Step(self._edits.adding(binding), says, breadth)

    def _alternate(self, visit: Visit) -> Iterator[Step]:
        """An alternate binding at an exchange from which the message went nowhere (Broker-J §4.6.4)."""
        exchange = self._links.exchanges[visit.exchange]
        taken = any(step.verdict in ("delivered", "forwarded") for step in visit.steps)
        has_one = any(source == exchange.name for source, _ in self._links.alternates)
        if taken or has_one or is_predeclared(exchange.name):
            return
        target = Table({"destination": self._queue.name})
        changed = replace(exchange, arguments=Table({**exchange.arguments, ALTERNATE_BINDING: target}))
        says = f"what no binding of {exchange.name!r} takes goes to queue {self._queue.name!r} ({ALTERNATE_BINDING})"
        yield Step(self._edits.altering(changed), says, _ALTERNATE)

    # -- bindings that become wider ---------------------------------------------------------------------

    def _matched(self, cause: Cause, explanation: Explanation) -> Iterator[Step]:
        link = self._link(cause)
        if not isinstance(link, Binding) or link.id == 0 or cause.visit is None:
            return
        exchange_type = self._links.type_of(link)
        if isinstance(exchange_type, Headers):
            arguments = self._fewer_criteria(link, exchange_type.asked(link), exchange_type.equality)
            if arguments is not None:
                says = f"{self._named(link)} asks for {_asked(arguments)} instead of {_asked(link.arguments)}"
                yield self._replaced(link, replace(link, arguments=Table(arguments)), says, _LED_ON)
        elif self._links.exchanges[link.source].type == "topic":
            keys = explanation.visits[cause.visit - 1].keys
            key = min(
                (widened(link.routing_key, key) for key in keys), key=lambda one: (one.count("#"), one.count("*"))
            )
            says = f"{self._named(link)} has the key {key!r} instead of {link.routing_key!r}"
            yield self._replaced(link, replace(link, routing_key=key), says, _WORDS)

    def _fewer_criteria(self, binding: Binding, asked: Criteria, equality: Equality) -> dict[str, Value] | None:
        """The arguments of a headers binding that the message meets too; None where that takes another binding."""
        held = self._message.application_properties
        failing = {
            name
            for name, value in asked.compared.items()
            if isinstance(name, str) and not (name in held and (value is None or equality.equal(value, held[name])))
        }
        if asked.form == "all":
            return {name: value for name, value in binding.arguments.items() if name not in failing}
        # any header will do: one that the message has, whatever its value
        found = next((name for name in failing if name in held), None)
        return None if found is None else {**binding.arguments, found: None}

    def _replaced(self, old: Binding, new: Binding, says: str, breadth: int) -> Step:
        return Step(self._edits.replacing(old, new), says, breadth)

    # -- filters ----------------------------------------------------------------------------------------

    def _binding_filters(self, binding: Binding | None) -> Iterator[Step]:
        """The first filter of a binding that does not accept the message, made wider."""
        if binding is None:
            return
        for name, found in self._links.filters(binding).items():
            if self._accepts(found):
                continue
            if name == FILTERS_ARGUMENT:
                yield from self._fewer_members(binding)
                return

            def reads(text: str, name: str = name) -> Filter:
                return self._links.filters(replace(binding, arguments=Table({**binding.arguments, name: text})))[name]

            for change in wider(found, self._message, clock_ms=self._clock_ms, reads=reads):
                arguments = {**binding.arguments, name: change.text}
                if change.text is None:
                    del arguments[name]
                new = replace(binding, arguments=Table(arguments))
                yield self._replaced(binding, new, f"in {self._named(binding)} {change.says}", change.breadth)
            return

    def _fewer_members(self, binding: Binding) -> Iterator[Step]:
        """The filter set of a binding without the members that do not accept the message."""
        members = binding.arguments[FILTERS_ARGUMENT]
        assert isinstance(members, Table)  # noqa: S101  # it was read as a filter set
        kept = {}
        for name, member in members.items():
            alone = replace(binding, arguments=Table({FILTERS_ARGUMENT: Table({name: member})}))
            if self._accepts(self._links.filters(alone)[FILTERS_ARGUMENT]):
                kept[name] = member
        gone = [name for name in members if name not in kept]
        arguments = {name: value for name, value in binding.arguments.items() if name != FILTERS_ARGUMENT}
        if kept:
            arguments[FILTERS_ARGUMENT] = Table(kept)
        verb = "goes" if len(gone) == 1 else "go"
        says = f"in {self._named(binding)} {', '.join(map(repr, gone))} of its filter set {verb}"
        yield self._replaced(binding, replace(binding, arguments=Table(arguments)), says, 4 * len(gone))

    def _divert_filter(self, divert: Divert) -> Iterator[Step]:
        found = self._links.filters(divert)["filter"]

        def reads(text: str) -> Filter:
            return self._links.filters(replace(divert, filter=text))["filter"]

        for change in wider(found, self._message, clock_ms=self._clock_ms, reads=reads):
            new = replace(divert, filter=change.text or "")
            says = f"in the filter of divert {divert.name!r} {change.says}"
            yield Step(self._edits.altering(new), says, change.breadth)

    def _queue_filter(self) -> Iterator[Step]:
        found = self._links.queue_filter(self._queue)
        if found is None or self._accepts(found):
            return

        def with_filter(content: Value) -> Queue:
            arguments = {name: value for name, value in self._queue.arguments.items() if name != QUEUE_FILTER}
            return replace(
                self._queue, arguments=Table(arguments if content is None else {**arguments, QUEUE_FILTER: content})
            )

        def reads(text: str) -> Filter:
            read = self._links.queue_filter(with_filter(text))
            assert read is not None  # noqa: S101  # it has one
            return read

        is_text = isinstance(self._queue.arguments[QUEUE_FILTER], str)
        for change in wider(found, self._message, clock_ms=self._clock_ms, reads=reads):
            if not is_text and change.text is not None:
                continue  # a filter set is no text: it goes as a whole
            says = f"in the filter of queue {self._queue.name!r} {change.says}"
            yield Step(self._edits.altering(with_filter(change.text)), says, change.breadth)

    def _named(self, binding: Binding) -> str:
        """A binding in words; one that came with this very change has no number yet."""
        is_new = any(isinstance(one, Binding) and one.identity == binding.identity for one in self._edits.added)
        number = "" if is_new else f" {binding.id}"
        ends = f"{binding.source!r} to {binding.destination_type} {binding.destination!r}"
        return f"binding{number} [{binding.routing_key}] of {ends}"

    def _accepts(self, filter: Filter) -> bool:
        return evaluate(filter, self._message, clock_ms=self._clock_ms) is True


def _asked(arguments: Table | dict[str, Value]) -> str:
    """The criteria among the arguments of a headers binding, in words."""
    stated = [
        name if value is None else f"{name} {shown(value)}"
        for name, value in arguments.items()
        if name not in NOT_HEADER_CRITERIA
    ]
    return ", ".join(stated) or "any headers"
