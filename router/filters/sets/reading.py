"""What reads the parts of one filter set: its caps, its kinds of filters, and values in their JSON forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bindery.router.compat import switches_of
from bindery.router.errors import FilterError, InvalidInput
from bindery.router.filters.ast import Node
from bindery.router.filters.filter import parse
from bindery.router.filters.limits import DEFAULT_LIMITS, Limits
from bindery.router.values import Table, Value, decode, decode_table


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


@dataclass(frozen=True, slots=True)
class FilterType:
    """A kind of filter: `read` turns its JSON value, found at a place, into a condition.

    `dialect` is the language of a value that is itself a filter written as text.
    """

    symbol: str
    read: Callable[[Reading, Any, str], Node]
    code: int | None = None
    dialect: str | None = None


class Reading:
    """One filter set while it is read: caps, the reader's connection, and how deep and long it is so far.

    `filter_type` gives the kind of filter that a descriptor names.
    """

    def __init__(
        self, limits: FilterSetLimits, owner: str | None, filter_type: Callable[[object, str], FilterType]
    ) -> None:
        self.limits = limits
        #: Those of the compatibility mode at the place of the set.
        self.switches = switches_of(limits.text.compat)
        self._filter_type = filter_type
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
        kind = self._filter_type(descriptor, f"{where}.descriptor")
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
