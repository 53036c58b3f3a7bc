"""One vhost of a topology, indexed the way the rules read it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from bindery.router.model import NOT_HEADER_CRITERIA, X_MATCH, Binding, Divert, Exchange, Queue, Topology
from bindery.router.values import Value

_Leaving = TypeVar("_Leaving", Binding, Divert)


@dataclass(frozen=True)
class Scope:
    """Objects of one vhost; every index is built at its first use."""

    topology: Topology
    vhost: str
    exchanges: dict[str, Exchange]
    queues: dict[str, Queue]
    bindings: list[Binding]
    diverts: list[Divert]

    @classmethod
    def of(cls, topology: Topology, vhost: str) -> Scope:
        """The scope of one vhost; raises NotFound."""
        topology.vhost(vhost)
        exchanges, queues, bindings, diverts = topology.in_vhost(vhost)
        return cls(topology, vhost, {e.name: e for e in exchanges}, {q.name: q for q in queues}, bindings, diverts)

    @cached_property
    def bindings_from(self) -> dict[str, list[Binding]]:
        """Bindings by source exchange, in order of id."""
        return _grouped(self.bindings)

    @cached_property
    def diverts_from(self) -> dict[str, list[Divert]]:
        """Diverts by source exchange, in order of id."""
        return _grouped(self.diverts)

    @cached_property
    def bindings_to_queue(self) -> dict[str, list[Binding]]:
        """Bindings by destination queue, in order of id."""
        found: dict[str, list[Binding]] = defaultdict(list)
        for binding in self.bindings:
            if binding.destination_type == "queue":
                found[binding.destination].append(binding)
        return found

    def type_of(self, binding: Binding) -> str:
        """The type of the exchange that a binding leaves."""
        return self.exchanges[binding.source].type


def _grouped(items: Iterable[_Leaving]) -> dict[str, list[_Leaving]]:
    found: dict[str, list[_Leaving]] = defaultdict(list)
    for item in items:
        found[item.source].append(item)
    return found


@dataclass(frozen=True, slots=True)
class Criteria:
    """What a headers binding compares (semantics of x-match: all | any, and whether x- names count)."""

    every: bool
    compared: dict[str, Value]
    skipped: tuple[str, ...]

    @classmethod
    def of(cls, binding: Binding) -> Criteria:
        """The criteria of a binding of a headers exchange."""
        form = str(binding.arguments.get(X_MATCH, "all"))
        named = {name: value for name, value in binding.arguments.items() if name not in NOT_HEADER_CRITERIA}
        if form.endswith("-with-x"):
            return cls(form.startswith("all"), named, ())
        skipped = tuple(sorted(name for name in named if name.startswith("x-")))
        return cls(form == "all", {n: v for n, v in named.items() if n not in skipped}, skipped)

    @property
    def matches_all(self) -> bool:
        """Whether every message matches."""
        return self.every and not self.compared

    @property
    def matches_none(self) -> bool:
        """Whether no message matches."""
        return not self.every and not self.compared
