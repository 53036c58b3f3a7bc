"""Filters of one shape: equal but for their constants, and therefore evaluated together.

`lift` replaces the constants of a tree by parameters. Trees with equal results share a `Shape`; the constants of
its filters stand in columns, one row per filter.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from bindery.router.columns import TAG_OF, column_of
from bindery.router.filters.ast import (
    And,
    Compare,
    Condition,
    Field,
    In,
    IsNull,
    Like,
    Literal,
    Node,
    Or,
    Parameter,
    Truth,
    rebuild,
    walk,
)
from bindery.router.filters.pairs import FREE_OF_PARAMETERS
from bindery.router.filters.vector import Source
from bindery.router.values import Timestamp, Value

_LIFTED: Final = (int, float, str, bytes, Timestamp)


def lift(tree: Node) -> tuple[Node, tuple[Value, ...]]:
    """The tree with parameters for its constants, and the constants by slot."""
    values: list[Value] = []

    def change(node: Node) -> Node:
        if isinstance(node, FREE_OF_PARAMETERS):
            return node
        if isinstance(node, Like):
            # the escape stays: patterns of one escape share a table (`LikeTable`)
            return replace(node, operand=change(node.operand), pattern=change(node.pattern))
        if isinstance(node, Literal):
            if type(node.value) not in _LIFTED or node.value != node.value:  # NaN too stays
                return node
            values.append(node.value)
            return Parameter(len(values) - 1, TAG_OF[type(node.value)])
        return rebuild(node, change)

    return change(tree), tuple(values)


def cheapest_first(tree: Node) -> Node:
    """The tree with the parts of AND and OR in the order of their cost; both are commutative."""
    tree = rebuild(tree, cheapest_first)
    if isinstance(tree, And | Or):
        return type(tree)(tuple(sorted(tree.parts, key=_cost)))
    return tree


#: Node types that are a pass or two of numpy over a field.
_CHEAP = (Truth, IsNull, Compare, In, Field, Literal, And, Or)


def _cost(node: Node) -> int:
    """Conditions over fields and constants before arithmetic, that before work on texts."""
    return sum(1 if isinstance(item, _CHEAP) else 4 if isinstance(item, Condition) else 2 for item in walk(node))


@dataclass(slots=True)
class Shape:
    """A tree with parameters and the constants of all its filters.

    `parameters` has one source per slot, with one row per filter in the order in which `add` met them.
    """

    tree: Node
    rows: list[tuple[Value, ...]] = field(default_factory=list)
    parameters: tuple[Source, ...] = ()

    def add(self, values: tuple[Value, ...]) -> int:
        """Take up a filter; its row in the parameter columns."""
        self.rows.append(values)
        return len(self.rows) - 1

    def close(self) -> None:
        """Make the parameter columns; no filter is added later."""
        slots = len(self.rows[0]) if self.rows else 0
        self.parameters = tuple(Source(column_of([row[slot] for row in self.rows])) for slot in range(slots))
        self.rows = []


class Shapes:
    """The shapes of many filters, equal sub-trees shared, so that each is computed once per evaluation."""

    def __init__(self) -> None:
        self._found: dict[Node, int] = {}
        self._shared: dict[Node, Node] = {}
        self.shapes: list[Shape] = []

    def add(self, tree: Node) -> tuple[int, int]:
        """Number of the tree's shape, and the filter's row in it."""
        lifted, values = lift(tree)
        number = self._found.get(lifted)
        if number is None:
            number = self._found[lifted] = len(self.shapes)
            self.shapes.append(Shape(self._share(cheapest_first(lifted))))
        return number, self.shapes[number].add(values)

    def _share(self, node: Node) -> Node:
        node = rebuild(node, self._share)
        return self._shared.setdefault(node, node)

    def close(self) -> list[Shape]:
        """All shapes, their parameter columns made."""
        for shape in self.shapes:
            shape.close()
        return self.shapes
