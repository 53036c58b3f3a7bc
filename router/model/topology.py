"""One consistent, read-only state of all objects, with the look-ups that routing and REST need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from bindery.router.errors import NotFound
from bindery.router.model.objects import (
    DEFAULT_VHOST,
    Binding,
    DestinationType,
    Divert,
    Exchange,
    Object,
    ObjectKey,
    Queue,
    Sequence,
    Setting,
    Vhost,
    is_predeclared,
    object_key,
    predeclared_exchanges,
)


@dataclass
class Topology:
    """One consistent state. Treat it as read-only: a `TopologyEditor` works on a copy.

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
    next_queue_id: int = 1
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
                    topology._to.setdefault(binding_end(item), {})[item.id] = None
                case Divert():
                    topology.diverts[item.vhost, item.name] = item
                case Setting():
                    topology.settings[object_key(item)] = item
                case Sequence():
                    topology.next_id, topology.next_queue_id = item.next_id, item.next_queue_id
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
        yield self.sequence

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
                return self.sequence
        return self.settings.get(key)

    @property
    def sequence(self) -> Sequence:
        """The lineage ids that come next."""
        return Sequence(self.next_id, self.next_queue_id)

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


def binding_end(binding: Binding) -> tuple[str, str, str]:
    """Where a binding leads to, as a key of the index by destination."""
    return (binding.vhost, binding.destination_type, binding.destination)
