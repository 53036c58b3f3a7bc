"""Filters that combine filters: all, any, none, and the Apache or, and, not (Apache AMQP filters §3, AMQP filter sets).

Groups are two-valued: a member whose condition is unknown does not accept, so its negation accepts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from bindery.router.errors import FilterError
from bindery.router.filters.ast import And, Literal, Node, Not, Or, Truth
from bindery.router.filters.sets.nodes import Accepts
from bindery.router.filters.sets.reading import Reading

#: Conditions that hold for every message, and for none.
ALWAYS: Final = Truth(Literal(True))
NEVER: Final = Truth(Literal(False))


def conjunction(conditions: Iterable[Node]) -> Node:
    """All of some conditions in one flat AND, where evaluation finds each of them as a way in."""
    return _joined(And, conditions, ALWAYS)


def disjunction(conditions: Iterable[Node]) -> Node:
    """Any of some conditions in one flat OR."""
    return _joined(Or, conditions, NEVER)


def _joined(kind: type[And | Or], conditions: Iterable[Node], none: Node) -> Node:
    parts: list[Node] = []
    for condition in conditions:
        parts.extend(condition.parts if isinstance(condition, kind) else () if condition == none else (condition,))
    if not parts:
        return none
    return parts[0] if len(parts) == 1 else kind(tuple(parts))


def all_of(reading: Reading, raw: Any, where: str) -> Node:
    """Accepts when every member does; with no member, always."""
    return conjunction(_members(reading, raw, where))


def any_of(reading: Reading, raw: Any, where: str) -> Node:
    """Accepts when some member does; with no member, never."""
    return disjunction(_members(reading, raw, where))


def none_of(reading: Reading, raw: Any, where: str) -> Node:
    """Accepts when no member does; with no member, always."""
    return Not(Accepts(disjunction(_members(reading, raw, where))))


def not_one(reading: Reading, raw: Any, where: str) -> Node:
    """The negation of exactly one member (its `filter` field is mandatory)."""
    members = _members(reading, raw, where)
    if len(members) != 1:
        raise FilterError(f"a not-filter wraps exactly one filter, found {len(members)}", where=where)
    return Not(Accepts(members[0]))


def _members(reading: Reading, raw: Any, where: str) -> list[Node]:
    if not isinstance(raw, list):
        raise FilterError("expected an array of filters", where=where)
    return [reading.filter(member, f"{where}[{n}]") for n, member in enumerate(raw)]
