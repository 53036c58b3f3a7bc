"""The slow, obvious router: one message at a time, straight from the rules of docs/routing.md.

It exists to check the engine (property tests, conformance) and shares no matching code with it: sets,
loops and the definitions of the exchange types, nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from bindery.router.compat import HEADERS_ANY_OF_NOTHING, HEADERS_EMPTY_TEXT, HEADERS_FORMS, switches_of
from bindery.router.declarations import (
    at,
    binding_filters,
    declared_payload,
    divert_filter,
    queue_filter,
    stored_limits,
    transformation,
)
from bindery.router.filters import Filter, evaluate
from bindery.router.filters.ast import Trouble
from bindery.router.filters.body_paths import steps_of_key
from bindery.router.filters.payload import look_up, reference
from bindery.router.message import Message
from bindery.router.model import (
    DEFAULT_BINDING_ID,
    NOT_HEADER_CRITERIA,
    OWNER_CONNECTION,
    REPLACEMENT_KEY,
    TRANSFORM,
    X_MATCH,
    Binding,
    Divert,
    Exchange,
    Topology,
)
from bindery.router.policies import Policies
from bindery.router.reference_compat import header_equals, topic_words
from bindery.router.reference_hashing import HASHING, hashed_binding
from bindery.router.transforms import Transformation, apply, content_of
from bindery.router.values import Table

Keys = frozenset[str]
#: One evaluation of an exchange for a message: the exchange's name, the set of routing keys, and the content of the
#: message, which transformations change.
State = tuple[str, Keys, str]
#: Forms that a message may take beside the one that was published.
MOST_FORMS = 15


@dataclass(frozen=True, slots=True)
class ReferenceOutcome:
    """What became of one message: its queues, or the reason and disposition of an unroutable one."""

    queues: frozenset[str]
    lineage: tuple[int, ...]
    reason: str | None = None
    disposition: str | None = None
    recorded: bool = True
    #: The copies, as queue and content (`content_of`), and the messages with these contents.
    copies: frozenset[tuple[str, str]] = field(default=frozenset(), compare=False)
    forms: Mapping[str, Message] = field(default_factory=dict, compare=False)
    #: Whether the message would have taken more than MOST_FORMS forms: what else is said is then not all.
    beyond: bool = field(default=False, compare=False)


@dataclass
class _Walk:
    """What one message has met so far."""

    edges: dict[State, set[State]] = field(default_factory=dict)
    queues: dict[State, set[tuple[str, str]]] = field(default_factory=dict)
    forms: dict[str, Message] = field(default_factory=dict)
    beyond: bool = False
    diverted: set[State] = field(default_factory=set)
    fired: set[State] = field(default_factory=set)
    lineage: set[int] = field(default_factory=set)
    alternate_missing: bool = False
    filtered: bool = False

    def reachable(self, state: State) -> set[State]:
        found, pending = {state}, [state]
        while pending:
            for follower in self.edges[pending.pop()] - found:
                found.add(follower)
                pending.append(follower)
        return found

    def copies_through(self, state: State) -> set[tuple[str, str]]:
        return set().union(*(self.queues[follower] for follower in self.reachable(state)))

    def changed(self, change: Transformation | None, content: str, clock_ms: int) -> str | None:
        """The content of a form behind a link; None when there would be too many."""
        if change is None:
            return content
        message = apply(change, self.forms[content], clock_ms=clock_ms).message
        made = content_of(message)
        if made not in self.forms:
            if len(self.forms) > MOST_FORMS:
                self.beyond = True
                return None
            self.forms[made] = message
        return made


class NaiveRouter:
    """Routes single messages through one vhost of a topology; raises NotFound for a missing vhost."""

    def __init__(self, topology: Topology, vhost: str) -> None:
        topology.vhost(vhost)
        exchanges, queues, bindings, diverts = topology.in_vhost(vhost)
        self._exchanges = {exchange.name: exchange for exchange in exchanges}
        self._policies = Policies(topology)
        self._limits = limits = stored_limits(topology)
        self._switches = {item.name: switches_of(self._policies.compat(item)) for item in exchanges}
        self._queues = {queue.name: queue for queue in queues}
        self._bindings: dict[str, list[tuple[Binding, tuple[Filter, ...]]]] = {}
        self._changes: dict[int, Transformation] = {}
        for binding in bindings:
            if self._exists(binding.destination_type, binding.destination):
                owner = self._owner(binding)
                there = at(limits, self._exchanges[binding.source], self._policies)
                filters = binding_filters(binding, owner=owner, limits=there)
                self._bindings.setdefault(binding.source, []).append((binding, filters))
                if TRANSFORM in binding.arguments:
                    self._changes[binding.id] = transformation(binding, there)
        for name in self._queues:
            implicit = Binding(DEFAULT_BINDING_ID, vhost, "", name, "queue", name)
            self._bindings.setdefault("", []).append((implicit, ()))
        self._queue_filters = {queue.name: queue_filter(queue, at(limits, queue, self._policies)) for queue in queues}
        self._diverts: dict[str, list[tuple[Divert, Filter]]] = {}
        for divert in diverts:
            if divert.destination in self._exchanges:
                there = at(limits, self._exchanges[divert.source], self._policies)
                self._diverts.setdefault(divert.source, []).append((divert, divert_filter(divert, there)))
                if divert.transform:
                    self._changes[divert.id] = transformation(divert, there)

    def _exists(self, kind: str, name: str) -> bool:
        return name in (self._queues if kind == "queue" else self._exchanges)

    def _owner(self, binding: Binding) -> str | None:
        if binding.destination_type != "queue":
            return None
        owner = self._queues[binding.destination].arguments.get(OWNER_CONNECTION)
        return owner if isinstance(owner, str) else None

    def route(self, message: Message, *, clock_ms: int = 0) -> ReferenceOutcome:
        """The queues that get a copy, or why there are none."""
        exchange = self._exchanges.get(message.exchange)
        if exchange is None:
            return self._unroutable(message, None, "no_exchange", ())
        if exchange.internal:
            return self._unroutable(message, exchange, "internal_exchange", ())
        content = content_of(message)
        walk = _Walk(forms={content: message})
        start: State = (message.exchange, frozenset((message.routing_key, *message.cc, *message.bcc)), content)
        self._visit(walk, start, clock_ms)
        while self._fire_alternate_bindings(walk, clock_ms):
            pass
        copies = walk.copies_through(start)
        lineage = tuple(sorted(walk.lineage))
        if copies:
            return ReferenceOutcome(
                frozenset(queue for queue, _ in copies),
                lineage,
                copies=frozenset(copies),
                forms=walk.forms,
                beyond=walk.beyond,
            )
        if walk.beyond:
            return replace(self._unroutable(message, exchange, "filter_error", lineage), recorded=True, beyond=True)
        if walk.alternate_missing or any(self._misses_alternate_binding(walk, state) for state in walk.edges):
            return self._unroutable(message, exchange, "alternate_missing", lineage)
        return self._unroutable(message, exchange, "filtered" if walk.filtered else "no_binding", lineage)

    @staticmethod
    def _unroutable(
        message: Message, exchange: Exchange | None, reason: str, lineage: tuple[int, ...]
    ) -> ReferenceOutcome:
        if message.mandatory:
            return ReferenceOutcome(frozenset(), lineage, reason, "returned")
        if message.reject_unroutable or (exchange is not None and exchange.rejects_unroutable):
            return ReferenceOutcome(frozenset(), lineage, reason, "rejected")
        recorded = exchange is None or exchange.records_unroutable
        return ReferenceOutcome(frozenset(), lineage, reason, "discarded", recorded)

    # -- the walk -------------------------------------------------------------------------------------

    def _visit(self, walk: _Walk, start: State, clock_ms: int) -> None:
        """Evaluate a state and whatever follows from it, each state once."""
        pending = [start]
        while pending:
            state = pending.pop()
            if state in walk.edges:
                continue
            walk.edges[state] = set()
            walk.queues[state] = set()
            self._evaluate(walk, state, clock_ms)
            pending.extend(walk.edges[state])

    def _evaluate(self, walk: _Walk, state: State, clock_ms: int) -> None:
        name, keys, content = state
        message = walk.forms[content]
        diverts = [
            divert
            for divert, selector in self._diverts.get(name, ())
            if evaluate(selector, message, clock_ms=clock_ms) is True
        ]
        exclusive = [divert for divert in diverts if divert.exclusive]
        for divert in exclusive or diverts:
            walk.lineage.add(divert.id)
            walk.diverted.add(state)
            new_keys = keys if divert.routing_key is None else frozenset({divert.routing_key})
            changed = walk.changed(self._changes.get(divert.id), content, clock_ms)
            if changed is not None:
                walk.edges[state].add((divert.destination, new_keys, changed))
        if exclusive:
            return
        given = False
        for binding, filters in self._met(name, keys, message):
            if not all(evaluate(one, message, clock_ms=clock_ms) is True for one in filters):
                walk.filtered = True
                continue
            given = True
            walk.lineage.add(binding.id)
            changed = walk.changed(self._changes.get(binding.id), content, clock_ms)
            if changed is None:
                continue
            if binding.destination_type == "queue":
                self._offer(walk, state, binding.destination, changed, clock_ms)
            else:
                new = binding.arguments.get(REPLACEMENT_KEY)
                new_keys = frozenset({new}) if isinstance(new, str) else keys
                walk.edges[state].add((binding.destination, new_keys, changed))
        if not given and not diverts:
            alternate = self._policies.alternate_exchange(self._exchanges[name])
            if alternate is not None:
                if alternate in self._exchanges:
                    walk.edges[state].add((alternate, keys, content))
                else:
                    walk.alternate_missing = True

    def _met(self, name: str, keys: Keys, message: Message) -> Iterator[tuple[Binding, tuple[Filter, ...]]]:
        """The bindings of an exchange that a message matches, and their filters."""
        exchange, found = self._exchanges[name], self._bindings.get(name, [])
        if exchange.type in HASHING:
            chosen = hashed_binding(exchange, [binding for binding, _ in found], keys, message)
            yield from ((binding, filters) for binding, filters in found if binding is chosen)
            return
        for binding, filters in found:
            if matches(binding, exchange.type, keys, self._entries(binding, message), self._switches[name]):
                yield binding, filters

    def _entries(self, binding: Binding, message: Message) -> Table:
        """What a headers binding compares: the headers and, under keys that look into the body, what stands there."""
        payload = declared_payload(self._limits, self._exchanges[binding.source], self._policies)
        entries = dict(message.application_properties)
        for key in [] if payload is None else binding.arguments:
            path = steps_of_key(key)
            if path is not None and payload is not None:
                entries.pop(key, None)
                value = look_up(message, reference(payload, path)).value
                if value is not None and not isinstance(value, Trouble):
                    entries[key] = value
        return Table(entries)

    def _offer(self, walk: _Walk, state: State, queue: str, content: str, clock_ms: int) -> None:
        selector = self._queue_filters[queue]
        if selector is None or evaluate(selector, walk.forms[content], clock_ms=clock_ms) is True:
            walk.queues[state].add((queue, content))
        else:
            walk.filtered = True

    # -- alternate bindings -----------------------------------------------------------------------------

    def _fire_alternate_bindings(self, walk: _Walk, clock_ms: int) -> bool:
        """One round: every innermost state that reached no queue uses its alternate binding; False at the end."""
        candidates = {
            state
            for state in walk.edges
            if state not in walk.diverted
            and state not in walk.fired
            and self._alternate_binding(state) is not None
            and not walk.copies_through(state)
        }
        innermost = [
            state
            for state in candidates
            if all(state in walk.reachable(other) for other in walk.reachable(state) & candidates)
        ]
        for state in innermost:
            walk.fired.add(state)
            target = self._alternate_binding(state)
            if target in self._exchanges:
                walk.edges[state].add((target, *state[1:]))
            elif target is not None:
                self._offer(walk, state, target, state[2], clock_ms)
        for state in innermost:
            for follower in walk.edges[state]:
                self._visit(walk, follower, clock_ms)
        return bool(innermost)

    def _alternate_binding(self, state: State) -> str | None:
        """The target of a state's alternate binding, when it is set and exists."""
        target = self._exchanges[state[0]].alternate_binding
        return target if target in self._exchanges or target in self._queues else None

    def _misses_alternate_binding(self, walk: _Walk, state: State) -> bool:
        set_ = self._exchanges[state[0]].alternate_binding is not None
        return set_ and state not in walk.diverted and self._alternate_binding(state) is None


def matches(
    binding: Binding,
    exchange_type: str,
    keys: Collection[str],
    properties: Table,
    switches: frozenset[str] = frozenset(),
) -> bool:
    """Whether an exchange of that type takes a message with these keys and properties along a binding.

    Of a type without hashing: what those choose depends on all bindings. `switches` are those of the compatibility
    mode there.
    """
    match exchange_type:
        case "direct":
            return binding.routing_key in keys
        case "topic":
            return any(topic_matches(binding.routing_key, key, switches) for key in keys)
        case "headers":
            return headers_match(binding.arguments, properties, switches)
    return True  # fanout


def topic_matches(pattern: str, key: str, switches: frozenset[str] = frozenset()) -> bool:
    """Whether a topic binding key accepts a routing key; the empty text is zero words (Broker-J §4.6.2.2)."""
    words, parts = topic_words(key, switches), topic_words(pattern, switches)
    # positions[i]: the pattern so far accepts the first i words
    positions = [True] + [False] * len(words)
    for part in parts:
        if part == "#":
            positions = [any(positions[: end + 1]) for end in range(len(positions))]
        else:
            positions = [False] + [
                before and part in ("*", word) for before, word in zip(positions, words, strict=False)
            ]
    return positions[-1]


def headers_match(arguments: Table, properties: Table, switches: frozenset[str] = frozenset()) -> bool:
    """Whether the arguments of a headers binding accept the application properties of a message."""
    form = arguments.get(X_MATCH, "all")
    if HEADERS_FORMS in switches:
        form = "any" if form == "any" else "all"
    results = list(_criteria(arguments, properties, switches, with_x=str(form).endswith("-with-x")))
    if not results and HEADERS_ANY_OF_NOTHING in switches:
        return True
    return any(results) if str(form).startswith("any") else all(results)


def _criteria(arguments: Table, properties: Table, switches: frozenset[str], *, with_x: bool) -> Iterator[bool]:
    for name, wanted in arguments.items():
        if name in NOT_HEADER_CRITERIA or (name.startswith("x-") and not with_x):
            continue
        if HEADERS_FORMS in switches and name.startswith("X-"):
            continue
        if wanted is None or (wanted == "" and HEADERS_EMPTY_TEXT in switches):
            yield name in properties
        else:
            yield name in properties and header_equals(wanted, properties[name], switches)
