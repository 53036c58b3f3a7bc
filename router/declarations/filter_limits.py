"""Caps of filters that an installation sets: the global parameter `filter-limits`, a part of every topology.

So the service, every driver and every worker keep the same caps, and a replay those of its version. What a filter
may be is asked when it is defined: those that exist stay whatever the caps become. What XPATH may cost, and what a
body may be that filters look into, is asked at every evaluation (Artemis filter expressions, "XPath").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from bindery.router.errors import InvalidDeclaration
from bindery.router.filters.limits import NO_LIMITS
from bindery.router.filters.sets import DEFAULT_SET_LIMITS, FilterSetLimits
from bindery.router.model.objects import GLOBAL_PARAMETER, Setting
from bindery.router.model.topology import Topology
from bindery.router.values import Table, Value

FILTER_LIMITS: Final = "filter-limits"
#: Each cap and its highest value. Levels are bounded by what evaluation can descend.
_HIGHEST: Final[Mapping[str, int]] = {
    "characters": 1_000_000,
    "tokens": 100_000,
    "depth": 100,
    "set_filters": 100_000,
    "set_entries": 100_000,
    "set_nesting": 100,
    "xpath_document_bytes": 100_000_000,
    "xpath_levels": 1_000,
    "xpath_nodes": 50_000_000,
    "xpath_steps": 1_000_000_000,
    "body_bytes": 100_000_000,
    "body_levels": 500,
    "body_nodes": 50_000_000,
}


def filter_limits(topology: Topology) -> FilterSetLimits:
    """The caps of filters that are defined now."""
    setting = topology.settings.get((GLOBAL_PARAMETER, "", FILTER_LIMITS))
    if setting is None or not isinstance(setting.value, Table):
        return DEFAULT_SET_LIMITS
    given = {name: cap for name, cap in setting.value.items() if isinstance(cap, int)}
    text = replace(
        DEFAULT_SET_LIMITS.text,
        xpath=replace(DEFAULT_SET_LIMITS.text.xpath, **_of("xpath_", given)),
        bodies=replace(DEFAULT_SET_LIMITS.text.bodies, **_of("body_", given)),
        **{name: given[name] for name in ("characters", "tokens", "depth") if name in given},  # type: ignore[arg-type]  # caps
    )
    return replace(DEFAULT_SET_LIMITS, text=text, **_of("set_", given))


def stored_limits(topology: Topology) -> FilterSetLimits:
    """The caps under which filters of the topology are read again: they were within those of their definition."""
    now = filter_limits(topology).text
    return replace(_STORED, text=replace(_STORED.text, xpath=now.xpath, bodies=now.bodies))


def check_filter_limits(setting: Setting) -> None:
    """Refuse a global parameter of that name that is no map of known caps; raises InvalidDeclaration."""
    if (setting.kind, setting.name) != (GLOBAL_PARAMETER, FILTER_LIMITS):
        return
    where = f"global parameter {FILTER_LIMITS!r}"
    if not isinstance(setting.value, Table):
        raise InvalidDeclaration("the caps of filters are a map of name to number", where=where, hint=_HINT)
    for name, cap in setting.value.items():
        _check_cap(name, cap, where)


def _check_cap(name: str, cap: Value, where: str) -> None:
    highest = _HIGHEST.get(name)
    if highest is None:
        raise InvalidDeclaration(f"unknown cap {name!r}", where=where, hint=_HINT)
    if not isinstance(cap, int) or isinstance(cap, bool) or not 1 <= cap <= highest:
        raise InvalidDeclaration(f"{name} is {cap!r}", where=where, hint=f"a whole number from 1 to {highest}")


def _of(prefix: str, given: Mapping[str, int]) -> dict[str, int]:
    return {name.removeprefix(prefix): cap for name, cap in given.items() if name.startswith(prefix)}


_HINT: Final = "caps: " + ", ".join(_HIGHEST)
#: Nothing but LIKE, whose cap no setting changes and evaluation knows.
_STORED: Final = FilterSetLimits(
    entries=2**31,
    nesting=2**31,
    filters=2**31,
    text=replace(NO_LIMITS, like_pattern=DEFAULT_SET_LIMITS.text.like_pattern),
)
