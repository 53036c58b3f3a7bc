"""Filter sets: a map of named filters, all of which must accept (AMQP 1.0 part 3, §3.5.8 filter-set).

In JSON: `{"<name>": {"descriptor": <symbol or code>, "value": <the filter's value>}}`. Unknown and malformed
filters are refused, wherever they stand; nothing is ignored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bindery.router.errors import FilterError, InvalidInput
from bindery.router.filters.ast import Node
from bindery.router.filters.filter import Filter, parse
from bindery.router.filters.limits import DEFAULT_LIMITS, Limits
from bindery.router.filters.sets.descriptors import filter_type
from bindery.router.filters.sets.groups import conjunction
from bindery.router.values import Table, Value, decode, decode_table

#: The dialect name that a filter set's `Filter` carries.
DIALECT: Final = "filter-set"


@dataclass(frozen=True, slots=True)
class FilterSetLimits:
    """Caps of one filter set.

    entries   entries of one reference map or list
    nesting   levels of nested references, and levels of groups
    filters   filters in the whole set, members of groups included
    text      caps of each selector and SQL filter
    """

    entries: int = 64
    nesting: int = 100
    filters: int = 1000
    text: Limits = field(default_factory=lambda: DEFAULT_LIMITS)


DEFAULT_SET_LIMITS: Final = FilterSetLimits()


class Reading:
    """One filter set while it is read: caps, the reader's connection, and how deep and long it is so far."""

    def __init__(self, limits: FilterSetLimits, owner: str | None) -> None:
        self.limits = limits
        self.asked_owner = False
        self._owner = owner
        self._level = 0
        self._filters = 0

    def owner(self) -> str | None:
        """The reader's connection. A set that asks has it in its text too: it is part of what the set means."""
        self.asked_owner = self._owner is not None
        return self._owner

    def filter(self, raw: Any, where: str) -> Node:
        """The condition of one described filter."""
        if not isinstance(raw, Mapping):
            raise FilterError("expected an object with descriptor and value", where=where)
        if raw.keys() != {"descriptor", "value"}:
            odd = sorted(map(str, raw.keys() ^ {"descriptor", "value"}))[0]
            problem = f"unknown key {odd!r}" if odd in raw else f"{odd!r} is missing"
            raise FilterError(problem, where=where, hint='a filter is {"descriptor": …, "value": …}')
        self._filters += 1
        if self._filters > self.limits.filters:
            raise FilterError(f"more than {self.limits.filters} filters in one set", where=where)
        if self._level >= self.limits.nesting:
            raise FilterError(f"groups are nested deeper than {self.limits.nesting} levels", where=where)
        descriptor = self.value(raw["descriptor"], f"{where}.descriptor")
        kind = filter_type(descriptor, f"{where}.descriptor")
        self._level += 1
        condition = kind.read(self, raw["value"], f"{where}.value")
        self._level -= 1
        return condition

    def value(self, raw: Any, where: str) -> Value:
        """A typed value from its JSON form."""
        try:
            return decode(raw, where=where)
        except InvalidInput as error:
            raise FilterError(error.message, where=error.where, hint=error.hint) from None

    def table(self, raw: Any, where: str) -> Table:
        """A map of typed values from a plain JSON object."""
        try:
            return decode_table(raw, where=where, nested=False)
        except InvalidInput as error:
            raise FilterError(error.message, where=error.where, hint=error.hint) from None

    def text(self, text: str, dialect: str, where: str) -> Node:
        """The condition of a filter written as text; its errors keep their position and gain the place."""
        try:
            return parse(text, dialect, limits=self.limits.text).expression
        except FilterError as error:
            error.where = where
            raise


def parse_filter_set(raw: Any, *, owner: str | None = None, limits: FilterSetLimits = DEFAULT_SET_LIMITS) -> Filter:
    """The filter that a filter set in JSON form states; raises FilterError with `where` inside the document.

    `owner` is the reader's connection, what no-local compares with: a consumer's own, or the
    `x-owner-connection` of a queue; without one no-local accepts every message.
    """
    if not isinstance(raw, Mapping):
        raise FilterError("a filter set is an object of named filters", where="filters")
    _refuse_surrogates(raw)
    reading = Reading(limits, owner)
    conditions = []
    for name, member in raw.items():
        if not isinstance(name, str):
            raise FilterError("a filter's name is a string", where="filters")
        conditions.append(reading.filter(member, name))
    text = canonical_text({"filters": raw, "owner": owner} if reading.asked_owner else raw)
    return Filter.of(conjunction(conditions), text=text, dialect=DIALECT)


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


def _refuse_surrogates(raw: Any) -> None:
    pending = [(raw, "filters")]
    while pending:
        item, where = pending.pop()
        if isinstance(item, str):
            if any("\ud800" <= char <= "\udfff" for char in item):
                raise FilterError("text with a lone surrogate is not Unicode text", where=where)
        elif isinstance(item, Mapping):
            pending += [part for key, value in item.items() for part in ((key, where), (value, f"{where}.{key}"))]
        elif isinstance(item, list):
            pending += [(value, f"{where}[{n}]") for n, value in enumerate(item)]
