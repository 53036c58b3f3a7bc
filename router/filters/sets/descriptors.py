"""Which filters exist: their descriptors, by symbol and by 64-bit code, and how their values are read.

Symbols compare exactly. Numeric codes are those of the Apache AMQP filters (domain 0x0000468C); those of
AMQP Filter Expressions have no assigned code and are named by symbol alone, as are those that no specification names:
`cloudevents:sql-filter`, the `aws:` and the `com.microsoft:` filters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bindery.router.errors import FilterError
from bindery.router.filters.ast import Node
from bindery.router.filters.sets import groups, leaves, property_filters
from bindery.router.filters.sets.correlation import correlation
from bindery.router.filters.sets.reading import FilterType, Reading
from bindery.router.spelling import did_you_mean, nearest

#: The upper half of every numeric descriptor of the Apache filters.
APACHE_DOMAIN: Final = 0x0000468C << 32


def _apache(
    number: int, read: Callable[[Reading, Any, str], Node], *symbols: str, dialect: str | None = None
) -> list[FilterType]:
    return [FilterType(f"apache.org:{symbol}", read, APACHE_DOMAIN | number, dialect) for symbol in symbols]


def _text(dialect: str) -> Callable[[Reading, Any, str], Node]:
    """A filter written as text in a language."""

    def read(reading: Reading, raw: Any, where: str) -> Node:
        return reading.text(leaves.text(raw, where), dialect, where)

    return read


FILTER_TYPES: Final = (
    *_apache(0, leaves.direct_binding, "legacy-amqp-direct-binding:string"),
    *_apache(1, leaves.topic_binding, "legacy-amqp-topic-binding:string"),
    *_apache(2, leaves.headers_binding, "legacy-amqp-headers-binding:map"),
    *_apache(3, leaves.no_local, "no-local-filter:list", "jms-no-local-filter:list"),
    *_apache(
        4,
        _text("apache-selector"),
        "selector-filter:string",
        "jms-selector-filter:string",
        dialect="apache-selector",
    ),
    *_apache(5, groups.any_of, "or-filter:list"),
    *_apache(6, groups.all_of, "and-filter:list"),
    *_apache(7, groups.not_one, "not-filter:list"),
    FilterType("amqp:all-filter", groups.all_of),
    FilterType("amqp:any-filter", groups.any_of),
    FilterType("amqp:not-filter", groups.none_of),
    FilterType("amqp:sql-filter", _text("amqp-sql"), dialect="amqp-sql"),
    FilterType("cloudevents:sql-filter", _text("cesql"), dialect="cesql"),
    FilterType("aws:eventbridge-filter", _text("eventbridge"), dialect="eventbridge"),
    FilterType("aws:sns-filter", _text("sns"), dialect="sns"),
    FilterType("com.microsoft:sql-filter", _text("service-bus"), dialect="service-bus"),
    FilterType("com.microsoft:correlation-filter", correlation),
    FilterType("amqp:header-filter", property_filters.fields("header")),
    FilterType("amqp:properties-filter", property_filters.fields("properties")),
    FilterType("amqp:application-properties-filter", property_filters.entries("application_properties", simple=True)),
    FilterType("amqp:message-annotations-filter", property_filters.entries("message_annotations")),
    FilterType("amqp:delivery-annotations-filter", property_filters.entries("delivery_annotations")),
    FilterType("amqp:footer-filter", property_filters.entries("footer")),
    FilterType("amqp:amqp-value-filter", property_filters.value),
    FilterType("amqp:amqp-sequence-filter", property_filters.sequence),
)
_BY_SYMBOL: Final = {kind.symbol: kind for kind in FILTER_TYPES}
# two names share code 3 and code 4 and are read alike, so either stands for the code
_BY_CODE: Final = {kind.code: kind for kind in FILTER_TYPES if kind.code is not None}


def filter_type(descriptor: object, where: str) -> FilterType:
    """The filter type that a descriptor (symbol or code) names; raises FilterError with a hint."""
    if isinstance(descriptor, str):
        found = _BY_SYMBOL.get(descriptor)
        if found is None:
            raise FilterError(f"unknown filter descriptor {descriptor!r}", where=where, hint=_nearest(descriptor))
        return found
    if isinstance(descriptor, int) and not isinstance(descriptor, bool):
        found = _BY_CODE.get(descriptor)
        if found is None:
            raise FilterError(
                f"unknown filter descriptor code {descriptor:#x}",
                where=where,
                hint=f"codes are {APACHE_DOMAIN:#x} to {APACHE_DOMAIN | 7:#x}; amqp: filters are named by symbol",
            )
        return found
    raise FilterError("a descriptor is a symbol or an integer code", where=where)


def _nearest(symbol: str) -> str:
    folded = {known.lower(): known for known in _BY_SYMBOL}
    close = nearest(symbol.lower(), folded)
    return did_you_mean(None if close is None else folded[close], "known descriptors: " + ", ".join(_BY_SYMBOL))
