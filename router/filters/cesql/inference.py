"""The type of an expression, and casts put where a place takes another one (CESQL 1.0 §3.7)."""

from __future__ import annotations

from bindery.router.filters.ast import Arithmetic, Field, Literal, Node, Sign, Trouble
from bindery.router.filters.cesql.casting import BOOLEAN, INTEGER, TYPES, cast, type_of
from bindery.router.filters.cesql.functions import FUNCTIONS
from bindery.router.filters.cesql.nodes import Cast, Invocation
from bindery.router.filters.fields import field_type


def static_type(node: Node) -> str | None:
    """The type that an expression has whatever the event; None for an extension of it."""
    if node.is_condition:
        return BOOLEAN
    match node:
        case Literal():
            return type_of(node.value)
        case Cast():
            return node.to
        case Invocation():
            return FUNCTIONS[node.function].gives
        case Arithmetic() | Sign():
            return INTEGER
        case Field():
            return TYPES.get(field_type(node.ref) or object)
    raise TypeError(f"no expression of CloudEvents SQL: {node!r}")


def cast_to(node: Node, to: str) -> Node:
    """An expression that is cast to a type, constants right away where that succeeds."""
    if static_type(node) == to:
        return node
    if isinstance(node, Literal):
        value = cast(node.value, to)
        if not isinstance(value, Trouble):
            return Literal(value)
    return Cast(to, node)
