"""Filters that combine filters: all, any, none, and the Apache or, and, not (seed 001 §3, AMQP filter sets).

Groups are two-valued: a member whose condition is unknown does not accept, so its negation accepts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from router.errors import FilterError
from router.filters.ast import And, Node, Not, Or
from router.filters.sets.nodes import Accepts

if TYPE_CHECKING:
    from router.filters.sets.parser import Reading


def all_of(reading: Reading, raw: Any, where: str) -> Node:
    """Accepts when every member does; with no member, always."""
    return And(_members(reading, raw, where))


def any_of(reading: Reading, raw: Any, where: str) -> Node:
    """Accepts when some member does; with no member, never."""
    return Or(_members(reading, raw, where))


def none_of(reading: Reading, raw: Any, where: str) -> Node:
    """Accepts when no member does; with no member, always."""
    return Not(Accepts(Or(_members(reading, raw, where))))


def not_one(reading: Reading, raw: Any, where: str) -> Node:
    """The negation of exactly one member (its `filter` field is mandatory)."""
    members = _members(reading, raw, where)
    if len(members) != 1:
        raise FilterError(f"a not-filter wraps exactly one filter, found {len(members)}", where=where)
    return Not(Accepts(members[0]))


def _members(reading: Reading, raw: Any, where: str) -> tuple[Node, ...]:
    if not isinstance(raw, list):
        raise FilterError("expected an array of filters", where=where)
    return tuple(reading.filter(member, f"{where}[{n}]") for n, member in enumerate(raw))
