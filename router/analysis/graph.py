"""The exchanges of a vhost as a graph: what can lead a message from one to the next.

An edge is a binding, a divert or an alternate. Edges that can never be taken (a filter that is never
true, "any of nothing", a source whose exclusive divert takes everything) are known and left out.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from bindery.router.analysis.finding import Subject, subject_of
from bindery.router.analysis.patterns import Pattern
from bindery.router.analysis.scope import Criteria, Scope
from bindery.router.analysis.verdicts import Verdicts
from bindery.router.model import Binding, Divert
from bindery.router.policies import Policies

EdgeKind = Literal["binding", "divert", "alternate"]


@dataclass(frozen=True, slots=True)
class Edge:
    """One way on from an exchange; `to_queue` tells the kind of the target."""

    kind: EdgeKind
    source: str
    target: str
    to_queue: bool
    subject: Subject


@dataclass(frozen=True, slots=True)
class Alternate:
    """An alternate as an exchange names it; `exists` is None when the name is of neither kind."""

    argument: str
    source: str
    target: str
    found: Literal["exchange", "queue"] | None


class Graph:
    """Live edges of one vhost, what is reached along them, and where they run in circles."""

    def __init__(self, scope: Scope, verdicts: Verdicts) -> None:
        self.scope = scope
        self.verdicts = verdicts

    @cached_property
    def alternates(self) -> list[Alternate]:
        """Every alternate that an exchange or its policy names, whether it exists or not."""
        policies = Policies(self.scope.topology)
        found: list[Alternate] = []
        for exchange in self.scope.exchanges.values():
            target = policies.alternate_exchange(exchange)
            if target is not None:
                kind: Literal["exchange"] | None = "exchange" if target in self.scope.exchanges else None
                found.append(Alternate("alternate-exchange", exchange.name, target, kind))
            target = exchange.alternate_binding
            if target is not None:
                found.append(Alternate("alternate-binding", exchange.name, target, self._either(target)))
        return found

    def _either(self, name: str) -> Literal["exchange", "queue"] | None:
        if name in self.scope.exchanges:
            return "exchange"
        return "queue" if name in self.scope.queues else None

    @cached_property
    def takers(self) -> dict[str, Divert]:
        """By source, an exclusive divert that takes every message."""
        return {
            divert.source: divert
            for divert in reversed(self.scope.diverts)
            if divert.exclusive and self.verdicts.divert(divert) is True
        }

    def is_live(self, item: Binding | Divert) -> bool:
        """Whether some message at the source can take the binding or divert."""
        if isinstance(item, Divert):
            return self.verdicts.divert(item) is not False and (item.exclusive or item.source not in self.takers)
        if item.source in self.takers or self.verdicts.binding(item) is False:
            return False
        return self.scope.type_of(item) != "headers" or not Criteria.of(item).matches_none

    def always_matches(self, binding: Binding) -> bool:
        """Whether every message at the source takes the binding."""
        return self.verdicts.binding(binding) is True and _MATCHES_ALL[self.scope.type_of(binding)](binding)

    @cached_property
    def served(self) -> dict[str, Binding | Divert]:
        """By source, a binding or exclusive divert that every message takes: no alternate-exchange there."""
        found: dict[str, Binding | Divert] = dict(self.takers)
        for binding in self.scope.bindings:
            if binding.source not in found and self.always_matches(binding):
                found[binding.source] = binding
        return found

    @cached_property
    def edges(self) -> dict[str, list[Edge]]:
        """Live edges by source exchange."""
        found: dict[str, list[Edge]] = defaultdict(list)
        for binding in self.scope.bindings:
            if self.is_live(binding):
                to_queue = binding.destination_type == "queue"
                edge = Edge("binding", binding.source, binding.destination, to_queue, subject_of(binding))
                found[edge.source].append(edge)
        for divert in self.scope.diverts:
            if self.is_live(divert):
                found[divert.source].append(
                    Edge("divert", divert.source, divert.destination, False, subject_of(divert))
                )
        for alternate in self.alternates:
            unused = alternate.argument == "alternate-exchange" and alternate.source in self.served
            if alternate.found is not None and not unused:
                subject = Subject("exchange", self.scope.vhost, alternate.source)
                found[alternate.source].append(
                    Edge("alternate", alternate.source, alternate.target, alternate.found == "queue", subject)
                )
        return found

    @cached_property
    def reached(self) -> set[str]:
        """Exchanges that some message can come to: published there, or led there."""
        published = (name for name, exchange in self.scope.exchanges.items() if not exchange.internal)
        return self._closure(published, self._successors)

    @cached_property
    def reached_queues(self) -> set[str]:
        """Queues that a live edge from a reached exchange leads to."""
        return {edge.target for name in self.reached for edge in self.edges.get(name, ()) if edge.to_queue}

    @cached_property
    def delivering(self) -> set[str]:
        """Exchanges from which some queue can be reached."""
        into: dict[str, list[str]] = defaultdict(list)
        seeds: set[str] = set()
        for source, edges in self.edges.items():
            for edge in edges:
                if edge.to_queue:
                    seeds.add(source)
                else:
                    into[edge.target].append(source)
        return self._closure(seeds, into)

    @cached_property
    def _successors(self) -> dict[str, list[str]]:
        return {source: [e.target for e in edges if not e.to_queue] for source, edges in self.edges.items()}

    @staticmethod
    def _closure(start: Iterable[str], successors: Mapping[str, list[str]]) -> set[str]:
        seen = set(start)
        pending = list(seen)
        while pending:
            for target in successors.get(pending.pop(), ()):
                if target not in seen:
                    seen.add(target)
                    pending.append(target)
        return seen

    def circles(self) -> Iterator[list[Edge]]:
        """One circle per strongly connected part and gravest kind of edge in it, as its edges in order."""
        part = _components(self._successors)
        inner: dict[int, list[Edge]] = defaultdict(list)
        for edges in self.edges.values():
            for edge in edges:
                if not edge.to_queue and part[edge.source] == part[edge.target]:
                    inner[part[edge.source]].append(edge)
        for edges_of_part in inner.values():
            successors: dict[str, list[Edge]] = defaultdict(list)
            for edge in edges_of_part:
                successors[edge.source].append(edge)
            first_of_kind = {edge.kind: edge for edge in reversed(edges_of_part)}
            for edge in first_of_kind.values():
                yield [edge, *_path(successors, edge.target, edge.source)]


def _path(successors: Mapping[str, list[Edge]], start: str, goal: str) -> list[Edge]:
    """The shortest way from one exchange to another of the same part."""
    came: dict[str, Edge | None] = {start: None}
    pending = deque([start])
    while goal not in came:
        for edge in successors[pending.popleft()]:
            if edge.target not in came:
                came[edge.target] = edge
                pending.append(edge.target)
    steps: list[Edge] = []
    last = came[goal]
    while last is not None:
        steps.append(last)
        last = came[last.source]
    return steps[::-1]


def _components(successors: Mapping[str, list[str]]) -> dict[str, int]:
    """The number of the strongly connected part of each exchange (Tarjan, without recursion)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    part: dict[str, int] = {}
    open_ones: list[str] = []
    for root in successors:
        if root in order:
            continue
        order[root] = low[root] = len(order)
        open_ones.append(root)
        work = [(root, iter(successors[root]))]
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in order:
                    order[target] = low[target] = len(order)
                    open_ones.append(target)
                    work.append((target, iter(successors.get(target, ()))))
                    break
                if target not in part:
                    low[node] = min(low[node], order[target])
            else:
                work.pop()
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[node])
                if low[node] == order[node]:
                    while True:
                        member = open_ones.pop()
                        part[member] = order[node]
                        if member == node:
                            break
    return part


_MATCHES_ALL: Final[dict[str, Callable[[Binding], bool]]] = {
    "direct": lambda binding: False,
    "topic": lambda binding: Pattern.of(binding.routing_key).universal,
    "fanout": lambda binding: True,
    "headers": lambda binding: Criteria.of(binding).matches_all,
}
