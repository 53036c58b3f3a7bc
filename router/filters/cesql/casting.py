"""Types of CloudEvents SQL and casts between them (CESQL 1.0 §3.1, §3.7)."""

from __future__ import annotations

import re
from typing import Final

from bindery.router.filters.ast import TROUBLE, Trouble
from bindery.router.filters.events import as_text
from bindery.router.values import Value

Result = Value | Trouble
STRING: Final = "string"
INTEGER: Final = "integer"
BOOLEAN: Final = "boolean"
TYPES: Final[dict[type, str]] = {str: STRING, int: INTEGER, bool: BOOLEAN}
_WHOLE: Final = re.compile("([+-]?)0*([0-9]{1,10})")


def cast(value: Result, to: str) -> Result:
    """A value as one of a type; null and trouble stay, and what cannot be cast is trouble."""
    if value is None or value is TROUBLE or type_of(value) == to:
        return value
    if to == STRING:
        return as_text(value) if isinstance(value, bool | int) else TROUBLE
    if to == INTEGER:
        return int(value) if isinstance(value, bool) else _whole(value)
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower(), TROUBLE)
    return value != 0 if isinstance(value, int) else TROUBLE


def _whole(value: Result) -> Result:
    """A string as a decimal integer of 32 bits."""
    found = _WHOLE.fullmatch(value) if isinstance(value, str) else None
    number = int(found[1] + found[2]) if found else None
    return number if number is not None and -(2**31) <= number < 2**31 else TROUBLE


def cast_like(value: Result, like: Result) -> Result:
    """A value as one of another value's type; without that other value there is no result."""
    if like is None or like is TROUBLE:
        return like
    return cast(value, type_of(like) or STRING)


def type_of(value: Result) -> str | None:
    """The type that a value has."""
    return TYPES.get(type(value))
