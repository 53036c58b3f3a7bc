"""Families of values in the text languages: values of unlike families never compare true (docs/filters.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bindery.router.values import Opaque, Table, Timestamp, Value

NUMBER: Final = "number"
#: The family of each type of values; a null has none.
FAMILIES: Final[Mapping[type, str]] = {
    bool: "boolean",
    int: NUMBER,
    float: NUMBER,
    Timestamp: NUMBER,
    str: "string",
    bytes: "binary",
    tuple: "nested",
    Table: "nested",
    Opaque: "nested",
}


def number_of(value: object) -> int | float | None:
    """What a value of the number family counts, timestamps in ms; None for any other."""
    if isinstance(value, Timestamp):
        return value.ms
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def family(value: Value) -> str | None:
    """The family of a value; None for null."""
    return FAMILIES.get(type(value))
