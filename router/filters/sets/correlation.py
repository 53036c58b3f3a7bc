"""Correlation filters of Azure Service Bus: values that a message must have, all of them.

Source: "CorrelationRuleFilter" of the documentation of Service Bus: conditions are combined as AND, and strings are
compared with their case. Names of user's properties are compared in any case, as in its SQL filters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from bindery.router.columns import Ref
from bindery.router.errors import FilterError
from bindery.router.filters.ast import Compare, Field, Literal, Node, Rules
from bindery.router.filters.fields import SERVICE_BUS_NAMES, in_any_case
from bindery.router.filters.sets.groups import conjunction
from bindery.router.filters.sets.reading import Reading
from bindery.router.spelling import did_you_mean, nearest
from bindery.router.values import Table

_PROPERTIES: Final = "properties"
#: Names as templates write them; `subject` is the newer name of `label`.
_FIELDS: Final = {
    name: SERVICE_BUS_NAMES[f"sys.{name[0].upper()}{name[1:]}"]
    for name in (
        *("correlationId", "messageId", "to", "replyTo", "label", "subject"),
        *("sessionId", "replyToSessionId", "contentType"),
    )
}


def correlation(reading: Reading, raw: Any, where: str) -> Node:
    """The condition of a correlation filter; one without any condition is refused, as Service Bus does."""
    if not isinstance(raw, Mapping):
        raise FilterError("expected an object", where=where, hint='such as {"label": "red", "properties": {"a": 1}}')
    conditions = list(_conditions(reading, raw, where))
    if not conditions:
        raise FilterError("the filter asks for nothing", where=where, hint="leave it out to accept every message")
    return conjunction(conditions)


def _conditions(reading: Reading, raw: Mapping[str, Any], where: str) -> Iterator[Node]:
    for name, value in raw.items():
        place = f"{where}.{name}"
        if name == _PROPERTIES:
            table = reading.table(value, place)
            if len(table) > reading.limits.entries:
                raise FilterError(f"{len(table)} entries, at most {reading.limits.entries} are allowed", where=place)
            for key, wanted in table.items():
                if wanted is None or isinstance(wanted, tuple | Table):
                    raise FilterError("a property is compared with one simple value", where=f"{place}.{key}")
                yield _equal(in_any_case(key), wanted)
            continue
        if name not in _FIELDS:
            known = (*_FIELDS, _PROPERTIES)
            hint = did_you_mean(nearest(name, known), "keys: " + ", ".join(known), quoted=False)
            raise FilterError(f"unknown key {name!r}", where=place, hint=hint)
        if not isinstance(value, str):
            raise FilterError("expected a string", where=place)
        yield _equal(_FIELDS[name], value)


def _equal(ref: Ref, value: Any) -> Node:
    return Compare("=", Field(ref), Literal(value), Rules())
