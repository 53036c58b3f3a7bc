"""What a filter is made of, as data for `filter check`: the fields that it reads and the types of its parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bindery.router.columns import Ref
from bindery.router.filters.ast import Arithmetic, Call, Field, Literal, Node, Sign, Truth, XPath, children, walk
from bindery.router.filters.cesql.functions import FUNCTIONS
from bindery.router.filters.cesql.nodes import Cast, CastLike, Invocation
from bindery.router.filters.fields import DERIVED, derived, field_type
from bindery.router.filters.filter import Filter
from bindery.router.filters.payload import PAYLOAD
from bindery.router.filters.printer import Printer, normal_form
from bindery.router.filters.spread import of_elements
from bindery.router.values import TYPE_NAMES


def type_of(node: Node) -> str:
    """The type a sub-expression has by its form: boolean, number, string …; `any` for a property."""
    if node.is_condition:
        return "boolean"
    if isinstance(node, Literal):
        return TYPE_NAMES[type(node.value)]
    if isinstance(node, Arithmetic):
        return "number or string" if node.rules.joins_text and set(node.ops) == {"+"} else "number"
    if isinstance(node, Sign):
        return "number"
    if isinstance(node, Cast):
        return node.to
    if isinstance(node, Invocation):
        return FUNCTIONS[node.function].gives
    if isinstance(node, Call):
        return "timestamp" if node.function in ("UTC", "DATE") else "string"
    kind = field_type(node.ref) if isinstance(node, Field) else None
    return TYPE_NAMES[kind] if kind else "any"


def references(expression: Node) -> list[Ref]:
    """The message fields that a filter reads, in order of first mention; derived ones by their sources."""
    found: dict[Ref, None] = {}
    for node in walk(expression):
        if isinstance(node, Field):
            sources = derived(node.ref.name).sources if node.ref.section == DERIVED else (of_elements(node.ref),)
            found.update(dict.fromkeys(sources))
        elif isinstance(node, XPath):
            found.update(dict.fromkeys(derived("document").sources))
    return list(found)


def describe(filter: Filter) -> dict[str, Any]:
    """What `filter check` reports: normal form, fields read, every sub-expression with its type."""
    printer = Printer(filter.dialect)
    return {
        "dialect": filter.dialect,
        "filter": filter.text,
        "normal_form": normal_form(filter.expression, filter.dialect),
        "properties": [
            printer.field(ref) if ref.section == PAYLOAD else str(ref) for ref in references(filter.expression)
        ],
        "expressions": [
            {"text": printer.text(node), "type": type_of(node), "depth": level}
            for node, level in _with_levels(filter.expression)
        ],
    }


def _with_levels(expression: Node) -> Iterator[tuple[Node, int]]:
    pending = [(expression, 0)]
    while pending:
        node, level = pending.pop()
        while isinstance(node, Truth | Cast | CastLike):  # they have no text of their own
            node = node.operand
        yield node, level
        pending += [(child, level + 1) for child in reversed(list(children(node)))]
