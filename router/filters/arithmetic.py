"""Numbers of one value at a time, to the letter of the rules: exact comparison, 64-bit integers, IEEE 754.

`text_as_number` and `text_as_flag` are the conversions of Artemis' `convert_string_expressions:`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Final

from bindery.router.filters.ast import TROUBLE, Trouble
from bindery.router.values import INT64_MAX, INT64_MIN

Number = int | float

_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(?P<point>\.[0-9]*)?|(?P<bare>\.[0-9]+))(?P<exponent>[eE][+-]?[0-9]+)?")


def text_as_number(text: str) -> Number | None:
    """The number that a text is to the last character; None when it is none or does not fit 64 bits."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        return None
    if any(found.group("point", "bare", "exponent")):
        value = float(text)
        return value if math.isfinite(value) else None
    if len(text.lstrip("+-0")) > 19:
        return None
    whole = int(text)
    return whole if INT64_MIN <= whole <= INT64_MAX else None


def text_as_flag(text: str) -> bool | None:
    """TRUE or FALSE in any case, else None."""
    return {"true": True, "false": False}.get(text.lower()) if text.isascii() else None


def _truncating(left: int, right: int) -> int | Trouble:
    if right == 0:
        return TROUBLE
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder(left: int, right: int) -> int | Trouble:
    """The remainder has the sign of the dividend."""
    if right == 0:
        return TROUBLE
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


_INTEGERS: Final[Mapping[str, Callable[[int, int], int | Trouble]]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": _truncating,
    "%": _remainder,
}


def _divide(left: float, right: float) -> float:
    if right != 0.0:
        return left / right
    if left == 0.0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def _fmod(left: float, right: float) -> float:
    if right == 0.0 or math.isinf(left):
        return math.nan
    return math.fmod(left, right)


_DOUBLES: Final[Mapping[str, Callable[[float, float], float]]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": _divide,
    "%": _fmod,
}


def calculate(op: str, left: Number, right: Number, *, floating_division: bool) -> Number | Trouble:
    """`left op right`: integers in 64 bits (beyond: trouble), otherwise IEEE 754 doubles."""
    if isinstance(left, int) and isinstance(right, int):
        if op == "/" and floating_division:
            return TROUBLE if right == 0 else float(left) / float(right)
        whole = _INTEGERS[op](left, right)
        return whole if isinstance(whole, Trouble) or INT64_MIN <= whole <= INT64_MAX else TROUBLE
    return _DOUBLES[op](float(left), float(right))


def negate(value: Number) -> Number | Trouble:
    """The number with the other sign; the least integer has none."""
    return TROUBLE if isinstance(value, int) and value == INT64_MIN else -value
