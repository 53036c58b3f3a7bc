"""Equality of typed values by family: what headers exchanges, legacy headers and property filters mean by equal.

Families: integers of every width, floating-point numbers, texts (string, symbol, char), booleans,
timestamps, binaries, lists, maps. Values of unlike families are never equal: "5" ≠ 5 ≠ 5.0 ≠ a timestamp
of 5 ms. Lists and maps are equal member by member under the same rule, a null inside them equal only to
null. (AMQP 0-9-1 headers exchange with typed fields; AMQP filter expressions, "property filters".)
"""

from __future__ import annotations

from collections.abc import Hashable

from bindery.router.values import Table, Timestamp, Value


def family_equal(argument: Value, actual: Value) -> bool:
    """Whether two values are of one family and equal; NaN equals nothing, 0.0 equals -0.0, null only null."""
    if isinstance(argument, tuple):
        return isinstance(actual, tuple) and len(argument) == len(actual) and all(map(family_equal, argument, actual))
    if isinstance(argument, Table):
        return (
            isinstance(actual, Table)
            and argument.keys() == actual.keys()
            and all(family_equal(value, actual[key]) for key, value in argument.items())
        )
    return type(argument) is type(actual) and argument == actual


def family_key(value: Value) -> Hashable:
    """A key that equal values share and unequal values do not (NaN gets one that nothing else has)."""
    match value:
        case float():
            return ("double", value + 0.0) if value == value else ("nan", object())  # noqa: PLR0124  # NaN test
        case Timestamp():
            return ("timestamp", value.ms)
        case tuple():
            return ("list", tuple(family_key(item) for item in value))
        case Table():
            return ("map", frozenset((key, family_key(item)) for key, item in value.items()))
    return (type(value).__name__, value)
