"""The topology of a vhost as a graph to be drawn: exchanges and queues, and what leads from one to another.

Links between the same two objects are one edge. A graph has a bounded number of objects: the whole vhost where it is
small, else what lies around one of its objects.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from bindery.router.errors import NotFound
from bindery.router.links import FILTER_ARGUMENTS, Alternate, Link, Links
from bindery.router.model import PREDECLARED, Binding, DestinationType, Divert, Topology

EdgeKind = Literal["binding", "divert", "alternate-exchange", "alternate-binding"]
#: An exchange or a queue.
Node = tuple[DestinationType, str]
#: Keys that an edge names.
_KEYS: Final = 5


@dataclass(slots=True)
class Edge:
    """The links of one kind from an exchange to an object: some of their keys or names, and how many have a filter."""

    kind: EdgeKind
    source: str
    destination: Node
    links: int = 0
    filtered: int = 0
    keys: list[str] = field(default_factory=list)

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {
            "kind": self.kind,
            "source": self.source,
            "destination_type": self.destination[0],
            "destination": self.destination[1],
            "links": self.links,
            "filtered": self.filtered,
            "keys": self.keys,
        }


@dataclass(frozen=True, slots=True)
class Graph:
    """Objects in the order of their names, and the edges among them.

    total   objects of the vhost that a whole graph would have
    beyond  objects next to those of the graph that it leaves out
    """

    exchanges: list[tuple[str, str]]
    queues: list[str]
    edges: list[Edge]
    total: int
    beyond: int

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {
            "exchanges": [{"name": name, "type": type} for name, type in self.exchanges],
            "queues": [{"name": name} for name in self.queues],
            "edges": [edge.as_data() for edge in self.edges],
            "total": self.total,
            "beyond": self.beyond,
        }


def whole_graph(topology: Topology, vhost: str, *, limit: int) -> Graph:
    """Every object of a vhost; none of them where there are more than `limit`.

    Without the default exchange, which leads to every queue, and predeclared exchanges that nothing leaves or reaches.
    Raises NotFound for a vhost that does not exist.
    """
    links = Links(topology, vhost)
    least = len(links.exchanges) - len(PREDECLARED) + len(links.queues)
    if least > limit:
        return Graph([], [], [], least, 0)
    nodes: set[Node] = {("queue", name) for name in links.queues}
    nodes |= {("exchange", name) for name in links.exchanges if name and not _is_idle(links, name)}
    if len(nodes) > limit:
        return Graph([], [], [], len(nodes), 0)
    return _drawn(links, nodes, len(nodes))


def graph_around(topology: Topology, vhost: str, node: Node, *, hops: int, limit: int) -> Graph:
    """What is at most `hops` links away from an object, the nearest `limit` objects.

    Raises NotFound for an object or a vhost that does not exist.
    """
    links = Links(topology, vhost)
    if node[1] not in (links.exchanges if node[0] == "exchange" else links.queues):
        raise NotFound(f"no {node[0]} {node[1]!r} in vhost {vhost!r}", where=node[0])
    found: dict[Node, int] = {node: 0}
    beyond: set[Node] = set()
    pending = deque([node])
    while pending:
        here = pending.popleft()
        for other in _next_to(links, here):
            if other in found:
                continue
            if len(found) < limit and found[here] < hops:
                found[other] = found[here] + 1
                pending.append(other)
            else:
                beyond.add(other)
    return _drawn(links, set(found), len(links.exchanges) + len(links.queues), len(beyond))


def _is_idle(links: Links, exchange: str) -> bool:
    return exchange in PREDECLARED and not (links.leaving(exchange) or links.entering("exchange", exchange))


def _next_to(links: Links, node: Node) -> Iterable[Node]:
    kind, name = node
    if kind == "exchange" and name:
        for link in links.leaving(name):
            if link.destination_type is not None:
                yield link.destination_type, link.destination
    for link in links.entering(kind, name):
        if link.source:
            yield "exchange", link.source


def _drawn(links: Links, nodes: set[Node], total: int, beyond: int = 0) -> Graph:
    edges: dict[tuple[EdgeKind, str, Node], Edge] = {}
    exchanges = sorted(name for kind, name in nodes if kind == "exchange")
    for name in exchanges:
        for link in links.leaving(name) if name else ():
            if link.destination_type is None or (end := (link.destination_type, link.destination)) not in nodes:
                continue
            kind = _kind(link)
            edge = edges.setdefault((kind, name, end), Edge(kind, name, end))
            edge.links += 1
            edge.filtered += _is_filtered(link)
            label = link.routing_key if isinstance(link, Binding) else link.name if isinstance(link, Divert) else ""
            if len(edge.keys) < _KEYS and label not in edge.keys:
                edge.keys.append(label)
    return Graph(
        [(name, links.exchanges[name].type) for name in exchanges],
        sorted(name for kind, name in nodes if kind == "queue"),
        list(edges.values()),
        total,
        beyond,
    )


def _kind(link: Link) -> EdgeKind:
    match link:
        case Binding():
            return "binding"
        case Divert():
            return "divert"
        case Alternate():
            return link.kind


def _is_filtered(link: Link) -> bool:
    match link:
        case Binding():
            return any(name in link.arguments for name in FILTER_ARGUMENTS)
        case Divert():
            return bool(link.filter.strip())
        case Alternate():
            return False
