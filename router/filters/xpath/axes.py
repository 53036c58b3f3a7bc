"""Axes and node tests (XPath 1.0 §2.2, §2.3), for one context node or for a whole set at once.

The set forms visit every node at most once: `//a//b` costs one sweep of the document however the
contexts nest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from bindery.router.filters.xpath.document import (
    ATTRIBUTE,
    COMMENT,
    ELEMENT,
    INSTRUCTION,
    NAMESPACE,
    TEXT,
    Document,
)

#: Nodes of one set: sorted in document order, without repeats.
Nodes = list[int]


@dataclass(frozen=True, slots=True)
class NodeTest:
    """`*`, a name (in no namespace), or a node type with an instruction's optional target."""

    kind: str
    name: str | None = None

    def keep(self, document: Document, nodes: Iterable[int], principal: int) -> Nodes:
        """The nodes that pass; `principal` is the node kind that names stand for on this axis."""
        kinds = document.kind
        if self.kind == "node":
            return list(nodes)
        if self.kind == "*":
            return [node for node in nodes if kinds[node] == principal]
        names = document.name
        if self.kind == "name":
            name, uris = self.name, document.uri
            return [node for node in nodes if names[node] == name and kinds[node] == principal and not uris[node]]
        wanted = _TYPE_KINDS[self.kind]
        found = [node for node in nodes if kinds[node] == wanted]
        return found if self.name is None else [node for node in found if names[node] == self.name]


_TYPE_KINDS: Final = {"text": TEXT, "comment": COMMENT, "processing-instruction": INSTRUCTION}


def _self(_: Document, nodes: Nodes) -> Nodes:
    return nodes


def _child(document: Document, nodes: Nodes) -> Nodes:
    found = [child for node in nodes for child in document.children(node)]
    if len(nodes) > 1:
        found.sort()
    return found


def _attribute(document: Document, nodes: Nodes) -> Nodes:
    return [child for node in nodes if document.kind[node] == ELEMENT for child in document.attributes(node)]


def _parent(document: Document, nodes: Nodes) -> Nodes:
    return sorted({document.parent[node] for node in nodes if document.parent[node] >= 0})


def _ancestor(document: Document, nodes: Nodes) -> Nodes:
    parents = document.parent
    seen: set[int] = set()
    for node in nodes:
        above = parents[node]
        while above >= 0 and above not in seen:
            seen.add(above)
            above = parents[above]
    return sorted(seen)


def _ancestor_or_self(document: Document, nodes: Nodes) -> Nodes:
    return sorted({*nodes, *_ancestor(document, nodes)})


def _below(document: Document, nodes: Nodes, *, own: bool) -> Nodes:
    kinds, ends = document.kind, document.end
    found: Nodes = []
    covered = 0
    late = False
    for node in nodes:
        if node < covered:
            # inside an earlier context's subtree: all but attributes were found there
            if own and kinds[node] == ATTRIBUTE:
                found.append(node)
                late = True
            continue
        if own:
            found.append(node)
        covered = ends[node]
        found += [child for child in range(node + 1, covered) if kinds[child] != ATTRIBUTE]
    if late:
        found.sort()
    return found


def _descendant(document: Document, nodes: Nodes) -> Nodes:
    return _below(document, nodes, own=False)


def _descendant_or_self(document: Document, nodes: Nodes) -> Nodes:
    return _below(document, nodes, own=True)


def _following(document: Document, nodes: Nodes) -> Nodes:
    # following(x) is all that starts at or after end(x), so the smallest end decides for the set
    kinds, parents = document.kind, document.parent
    ends = [parents[node] + 1 if kinds[node] == NAMESPACE else document.end[node] for node in nodes]
    return [node for node in range(min(ends, default=document.size), document.size) if kinds[node] != ATTRIBUTE]


def _preceding(document: Document, nodes: Nodes) -> Nodes:
    # preceding(x) is all that ends at or before x, so the last context decides for the set
    kinds, parents, ends = document.kind, document.parent, document.end
    last = max((parents[node] if kinds[node] == NAMESPACE else node for node in nodes), default=0)
    return [node for node in range(1, last) if ends[node] <= last and kinds[node] != ATTRIBUTE]


def _following_sibling(document: Document, nodes: Nodes) -> Nodes:
    first: dict[int, int] = {}
    for node in nodes:
        if document.kind[node] not in (ATTRIBUTE, NAMESPACE):
            first.setdefault(document.parent[node], node)
    return sorted(
        child for parent, node in first.items() if parent >= 0 for child in document.children(parent) if child > node
    )


def _preceding_sibling(document: Document, nodes: Nodes) -> Nodes:
    last = {document.parent[node]: node for node in nodes if document.kind[node] not in (ATTRIBUTE, NAMESPACE)}
    return sorted(
        child for parent, node in last.items() if parent >= 0 for child in document.children(parent) if child < node
    )


def _namespace(document: Document, nodes: Nodes) -> Nodes:
    found: Nodes = []
    for node in nodes:
        if document.kind[node] != ELEMENT:
            continue
        if node not in document.namespace_nodes:
            first = len(document.kind)
            for prefix, uri in sorted(document.namespaces(node).items()):
                document.kind.append(NAMESPACE)
                document.parent.append(node)
                document.end.append(len(document.kind))
                document.first_child.append(len(document.kind))
                document.name.append(prefix)
                document.uri.append("")
                document.prefix.append("")
                document.text.append(uri)
            document.namespace_nodes[node] = list(range(first, len(document.kind)))
        found += document.namespace_nodes[node]
    return found


def _results(_: Document, __: Nodes) -> int:
    return 0


def _subtrees(document: Document, nodes: Nodes) -> int:
    total = covered = 0
    for node in nodes:
        if node >= covered:
            covered = document.end[node]
            total += covered - node
    return total


def _everything(document: Document, _: Nodes) -> int:
    return document.size


def _declarations(document: Document, nodes: Nodes) -> int:
    # weighted, because namespace nodes are made and kept
    return sum(10 + 10 * len(scope) for node in nodes for scope in document.scopes(node))


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis: its nodes for a set, whether it runs backwards, what a bare name means on it.

    `scanned` is what finding the nodes costs beyond their own number.
    """

    nodes: Callable[[Document, Nodes], Nodes]
    reverse: bool = False
    principal: int = ELEMENT
    scanned: Callable[[Document, Nodes], int] = _results


AXES: Final = {
    "ancestor": Axis(_ancestor, reverse=True),
    "ancestor-or-self": Axis(_ancestor_or_self, reverse=True),
    "attribute": Axis(_attribute, principal=ATTRIBUTE),
    "child": Axis(_child),
    "descendant": Axis(_descendant, scanned=_subtrees),
    "descendant-or-self": Axis(_descendant_or_self, scanned=_subtrees),
    "following": Axis(_following, scanned=_everything),
    "following-sibling": Axis(_following_sibling),
    "namespace": Axis(_namespace, principal=NAMESPACE, scanned=_declarations),
    "parent": Axis(_parent),
    "preceding": Axis(_preceding, reverse=True, scanned=_everything),
    "preceding-sibling": Axis(_preceding_sibling, reverse=True),
    "self": Axis(_self),
}
