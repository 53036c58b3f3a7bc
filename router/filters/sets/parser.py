"""Filter sets: a map of named filters, all of which must accept (AMQP 1.0 part 3, §3.5.8 filter-set).

In JSON: `{"<name>": {"descriptor": <symbol or code>, "value": <the filter's value>}}`. Unknown and malformed
filters are refused, wherever they stand; nothing is ignored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from bindery.router.errors import FilterError, InvalidInput
from bindery.router.filters.filter import Filter
from bindery.router.filters.sets.descriptors import filter_type
from bindery.router.filters.sets.groups import conjunction
from bindery.router.filters.sets.reading import DEFAULT_SET_LIMITS, FilterSetLimits, Reading
from bindery.router.values import refuse_surrogates

#: The dialect name that a filter set's `Filter` carries.
DIALECT: Final = "filter-set"


def parse_filter_set(raw: Any, *, owner: str | None = None, limits: FilterSetLimits = DEFAULT_SET_LIMITS) -> Filter:
    """The filter that a filter set in JSON form states; raises FilterError with `where` inside the document.

    `owner` is the reader's connection, what no-local compares with: a consumer's own, or the
    `x-owner-connection` of a queue; without one no-local accepts every message.
    """
    if not isinstance(raw, Mapping):
        raise FilterError("a filter set is an object of named filters", where="filters")
    try:
        refuse_surrogates(raw, where="filters")
    except InvalidInput as error:
        raise FilterError(error.message, where=error.where) from None
    reading = Reading(limits, owner, filter_type)
    conditions = []
    for name, member in raw.items():
        if not isinstance(name, str):
            raise FilterError("a filter's name is a string", where="filters")
        conditions.append(reading.filter(member, name))
    text = canonical_text({"filters": raw, "owner": owner} if reading.asked_owner else raw)
    return Filter.of(conjunction(conditions), text=text, dialect=DIALECT, compat=limits.text.compat)


def parse_filter_set_text(
    text: str, *, owner: str | None = None, limits: FilterSetLimits = DEFAULT_SET_LIMITS
) -> Filter:
    """The filter that a filter set written as JSON text states; a name given twice is refused."""
    try:
        raw = json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise FilterError(f"not JSON: {error.msg}", text=text, offset=error.pos, length=1) from None
    except RecursionError:
        raise FilterError("nested too deeply", text=text, length=len(text)) from None
    return parse_filter_set(raw, owner=owner, limits=limits)


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in members:
        if name in found:
            raise FilterError(f"the name {name!r} stands twice in one object", where=name)
        found[name] = value
    return found


def canonical_text(raw: Any) -> str:
    """The set as JSON text: keys sorted, no blanks; equal sets have equal texts."""
    return json.dumps(raw, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
