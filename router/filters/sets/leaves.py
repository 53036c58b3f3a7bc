"""Apache AMQP filters that test the message: legacy bindings and no-local."""

from __future__ import annotations

from typing import Any, Final

from bindery.router.columns import Ref
from bindery.router.errors import FilterError
from bindery.router.filters.ast import Field, Literal, Node, Not
from bindery.router.filters.sets.groups import ALWAYS, conjunction, disjunction
from bindery.router.filters.sets.nodes import Equals, Present, TopicMatches
from bindery.router.filters.sets.reading import Reading
from bindery.router.values import Table, Value

_SUBJECT: Final = Field(Ref("properties", "subject"))
_CONNECTION: Final = Field(Ref("connection"))
_X_MATCH: Final = {"all": conjunction, "any": disjunction}


def text(raw: Any, where: str) -> str:
    """The string that a filter takes."""
    if not isinstance(raw, str):
        raise FilterError("expected a string", where=where)
    return raw


def direct_binding(reading: Reading, raw: Any, where: str) -> Node:
    """The subject equals the value; without a subject it never matches."""
    return Equals(_SUBJECT, Literal(text(raw, where)))


def topic_binding(reading: Reading, raw: Any, where: str) -> Node:
    """The value is a topic pattern for the subject; without a subject only "#" matches."""
    return TopicMatches(_SUBJECT, Literal(text(raw, where)))


def headers_binding(reading: Reading, raw: Any, where: str) -> Node:
    """Entries that application-properties must have: all of them or any, as the mandatory x-match says."""
    table = reading.table(raw, where)
    mode = table.get("x-match")
    if not isinstance(mode, str) or mode not in _X_MATCH:
        raise FilterError('x-match must be given, "all" or "any"', where=f"{where}.x-match")
    for name, value in table.items():
        if isinstance(value, tuple | Table):
            raise FilterError("lists, maps and arrays cannot be compared here", where=f"{where}.{name}")
    return _X_MATCH[mode](_header(name, value) for name, value in table.items() if not name.startswith("x-"))


def _header(name: str, value: Value) -> Node:
    field = Field(Ref("application_properties", name))
    return Present(field) if value is None else Equals(field, Literal(value))


def no_local(reading: Reading, raw: Any, where: str) -> Node:
    """The message came over another connection than the reader's; unknown connections are another's."""
    if not isinstance(raw, list) or raw:
        raise FilterError("the no-local filter takes an empty list", where=where)
    owner = reading.owner()
    return ALWAYS if owner is None else Not(Equals(_CONNECTION, Literal(owner)))
