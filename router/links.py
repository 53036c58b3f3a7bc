"""What leads where in a vhost: its bindings, diverts and alternates, read from a topology in one place.

The engine compiles these links; explain, the analysis and the check of bridges walk along them. What leads to
something that does not exist is no link (docs/routing.md).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, TypeVar

from bindery.router.declarations import at, binding_filters, divert_filter, queue_filter, stored_limits, transformation
from bindery.router.exchanges import EXCHANGE_TYPES, ExchangeType
from bindery.router.filters import Filter
from bindery.router.filters.sets import FilterSetLimits
from bindery.router.model import (
    ALTERNATE_BINDING,
    ALTERNATE_EXCHANGE,
    FILTERS_ARGUMENT,
    OWNER_CONNECTION,
    REPLACEMENT_KEY,
    SELECTOR_ARGUMENT,
    TRANSFORM,
    Binding,
    DestinationType,
    Divert,
    Exchange,
    Queue,
    Topology,
    implicit_binding,
)
from bindery.router.policies import Policies
from bindery.router.transforms import Transformation
from bindery.router.values import Value

#: The arguments of a binding that are filters, in the order in which they are judged.
FILTER_ARGUMENTS: Final = (SELECTOR_ARGUMENT, FILTERS_ARGUMENT)

AlternateKind = Literal["alternate-exchange", "alternate-binding"]


@dataclass(frozen=True, slots=True)
class Alternate:
    """Where an exchange sends what it does not route; `destination_type` is None when nothing has that name."""

    kind: AlternateKind
    vhost: str
    source: str
    destination: str
    destination_type: DestinationType | None


#: One way from an exchange to a queue or exchange.
Link = Binding | Divert | Alternate
_Named = TypeVar("_Named", Exchange, Queue)


class Links:
    """Exchanges and queues of a vhost by name, in that order, and the links between them, in order of id.

    Raises NotFound for a vhost that does not exist.
    """

    def __init__(self, topology: Topology, vhost: str) -> None:
        topology.vhost(vhost)
        self.topology = topology
        self.vhost = vhost
        self.exchanges = _by_name(topology.exchanges.values(), vhost)
        self.queues = _by_name(topology.queues.values(), vhost)
        #: Under which the filters of the vhost are read, before any exchange or queue says what bodies are.
        self.limits = stored_limits(topology)
        self.policies = Policies(topology)
        self._limits_at: dict[str, FilterSetLimits] = {}
        self._type_at: dict[str, ExchangeType[Any]] = {}

    # -- links of each kind -----------------------------------------------------------------------------

    @cached_property
    def bindings(self) -> list[Binding]:
        """The declared bindings."""
        found = (one for one in self.topology.bindings.values() if one.vhost == self.vhost and self._exists(one))
        return sorted(found, key=lambda binding: binding.id)

    @cached_property
    def diverts(self) -> list[Divert]:
        """The diverts."""
        found = (one for one in self.topology.diverts.values() if one.vhost == self.vhost and self._exists(one))
        return sorted(found, key=lambda divert: divert.id)

    @cached_property
    def alternates(self) -> dict[tuple[str, AlternateKind], Alternate]:
        """The alternates by exchange and kind: its own or its policy's, and also those that lead to nothing."""
        policies = self.policies
        found: dict[tuple[str, AlternateKind], Alternate] = {}
        for name, exchange in self.exchanges.items():
            target = policies.alternate_exchange(exchange)
            if target is not None:
                end: DestinationType | None = "exchange" if target in self.exchanges else None
                found[name, ALTERNATE_EXCHANGE] = Alternate(ALTERNATE_EXCHANGE, self.vhost, name, target, end)
            target = exchange.alternate_binding
            if target is not None:  # of an exchange and a queue of one name, the exchange
                end = "exchange" if target in self.exchanges else "queue" if target in self.queues else None
                found[name, ALTERNATE_BINDING] = Alternate(ALTERNATE_BINDING, self.vhost, name, target, end)
        return found

    def _exists(self, link: Binding | Divert) -> bool:
        ends = self.queues if link.destination_type == "queue" else self.exchanges
        return link.source in self.exchanges and link.destination in ends

    # -- links at an exchange or queue ------------------------------------------------------------------

    def bindings_from(self, exchange: str) -> list[Binding]:
        """The bindings that leave an exchange; those of the default exchange are implicit."""
        if exchange == "":
            return [implicit_binding(self.vhost, queue) for queue in self.queues]
        return [one for one in self.topology.bindings_from(self.vhost, exchange) if self._exists(one)]

    def diverts_from(self, exchange: str) -> list[Divert]:
        """The diverts that leave an exchange."""
        return [one for one in self._leaving.get(exchange, ()) if isinstance(one, Divert)]

    def leaving(self, exchange: str) -> list[Link]:
        """The links that leave an exchange: bindings, diverts, alternates."""
        return [*self.bindings_from(exchange), *self._leaving.get(exchange, ())]

    def entering(self, kind: DestinationType, name: str) -> list[Link]:
        """The links that lead to a queue or exchange; the default exchange's binding of a queue stands last."""
        bindings = [one for one in self.topology.bindings_to(self.vhost, kind, name) if self._exists(one)]
        implicit = [implicit_binding(self.vhost, name)] if kind == "queue" and name in self.queues else []
        return [*bindings, *self._entering.get((kind, name), ()), *implicit]

    @cached_property
    def _leaving(self) -> dict[str, list[Divert | Alternate]]:
        found: dict[str, list[Divert | Alternate]] = defaultdict(list)
        for link in self._others():
            found[link.source].append(link)
        return found

    @cached_property
    def _entering(self) -> dict[tuple[DestinationType | None, str], list[Divert | Alternate]]:
        found: dict[tuple[DestinationType | None, str], list[Divert | Alternate]] = defaultdict(list)
        for link in self._others():
            found[link.destination_type, link.destination].append(link)
        return found

    def _others(self) -> Iterator[Divert | Alternate]:
        yield from self.diverts
        yield from (one for one in self.alternates.values() if one.destination_type is not None)

    # -- what a link does -------------------------------------------------------------------------------

    def type_of(self, binding: Binding) -> ExchangeType[Any]:
        """The type of the exchange that a binding leaves."""
        return self.type_at(binding.source)

    def type_at(self, exchange: str) -> ExchangeType[Any]:
        """The type of an exchange, as it is there."""
        found = self._type_at.get(exchange)
        if found is None:
            declared, there = self.exchanges[exchange], self.limits_at(exchange).text
            found = self._type_at[exchange] = EXCHANGE_TYPES[declared.type].at(
                declared, lambda: self.bindings_from(exchange), there.payload, there.compat
            )
        return found

    def filters(self, link: Link) -> dict[str, Filter]:
        """The filters on a link, by the argument or property that states them; all must accept a message."""
        if isinstance(link, Divert):
            return {"filter": divert_filter(link, self.limits_at(link.source))} if link.filter.strip() else {}
        if isinstance(link, Alternate):
            return {}
        stated = [name for name in FILTER_ARGUMENTS if name in link.arguments]
        if not stated:
            return {}
        owner = None
        if link.destination_type == "queue":
            owner = self.queues[link.destination].arguments.get(OWNER_CONNECTION)
        filters = binding_filters(
            link, owner=owner if isinstance(owner, str) else None, limits=self.limits_at(link.source)
        )
        return dict(zip(stated, filters, strict=True))

    def transformation(self, link: Link) -> Transformation | None:
        """What a link changes in the copy that goes over it; None for one that changes nothing."""
        if isinstance(link, Alternate) or transform_of(link) is None:
            return None
        return transformation(link, self.limits_at(link.source))

    def limits_at(self, exchange: str) -> FilterSetLimits:
        """Under which the filters that leave an exchange are read, with what bodies are there."""
        found = self._limits_at.get(exchange)
        if found is None:
            found = self._limits_at[exchange] = at(self.limits, self.exchanges[exchange], self.policies)
        return found

    def queue_filter(self, queue: Queue) -> Filter | None:
        """The filter of a queue; None when it has none."""
        found: Filter | None = queue_filter(queue, at(self.limits, queue, self.policies))
        return found


def replacement_key(link: Link) -> str | None:
    """The routing key that a link to an exchange gives a message in place of its keys."""
    if isinstance(link, Divert):
        return link.routing_key
    if isinstance(link, Alternate) or link.destination_type == "queue":
        return None
    key = link.arguments.get(REPLACEMENT_KEY)
    return key if isinstance(key, str) else None


def transform_of(link: Link) -> Value:
    """The statements by which a link changes what goes over it; None where it has none."""
    if isinstance(link, Divert):
        return link.transform or None
    return None if isinstance(link, Alternate) else link.arguments.get(TRANSFORM)


def _by_name(items: Iterable[_Named], vhost: str) -> dict[str, _Named]:
    return {item.name: item for item in sorted((i for i in items if i.vhost == vhost), key=lambda i: i.name)}
