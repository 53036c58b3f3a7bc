"""The functions of CloudEvents SQL (CESQL 1.0 §3.5). Arguments have the types that they take; None is an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from bindery.router.filters import text
from bindery.router.filters.cesql.casting import BOOLEAN, INTEGER, STRING, cast
from bindery.router.values import Value

#: Of an argument: whatever it is.
ANY: Final = "any"
#: Unicode's White_Space; `str.strip` alone takes control characters, too.
_SPACES: Final = "".join(map(chr, range(0x2000, 0x200B)))
_WHITE_SPACE: Final = (
    _SPACES + "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
)


@dataclass(frozen=True, slots=True)
class Function:
    """A function.

    compute  its value; None where it cannot be computed
    takes    the types of its arguments
    gives    the type of its value
    least    how many arguments there are at least (None: all of `takes`)
    more     whether further arguments of the last type may follow
    """

    compute: Callable[..., Value]
    takes: tuple[str, ...]
    gives: str
    least: int | None = None
    more: bool = False

    def fits(self, arguments: int) -> bool:
        """Whether it takes so many arguments."""
        least = len(self.takes) if self.least is None else self.least
        return least <= arguments and (self.more or arguments <= len(self.takes))

    def type_at(self, place: int) -> str:
        """The type of an argument."""
        return self.takes[min(place, len(self.takes) - 1)]

    @property
    def arity(self) -> str:
        """How many arguments it takes, in words."""
        least, most = len(self.takes) if self.least is None else self.least, len(self.takes)
        if self.more:
            return "any number of arguments" if least == 0 else f"at least {least} argument{'s' * (least != 1)}"
        return f"{least} or {most} arguments" if least != most else f"{most} argument{'s' * (most != 1)}"


#: Characters of separators that one call puts in: without a bound, calls in each other multiply a text without end.
_MOST_MARKS: Final = 4_096


def _separated(mark: str, *texts: str) -> str | None:
    """The texts with a mark between them; None where the marks alone would be too long."""
    return mark.join(texts) if len(mark) * (len(texts) - 2) <= _MOST_MARKS else None


def _left(value: str, count: int) -> str | None:
    return value[:count] if count >= 0 else None


def _right(value: str, count: int) -> str | None:
    return value[max(len(value) - count, 0) :] if count >= 0 else None


def _substring(value: str, position: int, length: int | None = None) -> str | None:
    """From a place that counts from 1, or from the end when it is negative; from 0 it is empty."""
    if not -len(value) <= position <= len(value) or (length is not None and length < 0):
        return None
    if position == 0:
        return ""
    tail = value[position - 1 if position > 0 else len(value) + position :]
    return tail if length is None else tail[:length]


def _absolute(value: int) -> int | None:
    return abs(value) if value != -(2**31) else None


def _is_integer(value: Value) -> bool:
    return isinstance(cast(value, INTEGER), int)


def _is_boolean(value: Value) -> bool:
    return isinstance(cast(value, BOOLEAN), bool)


def _same(value: Value) -> Value:
    return value


FUNCTIONS: Final[Mapping[str, Function]] = {
    "INT": Function(_same, (INTEGER,), INTEGER),
    "BOOL": Function(_same, (BOOLEAN,), BOOLEAN),
    "STRING": Function(_same, (STRING,), STRING),
    "IS_INT": Function(_is_integer, (ANY,), BOOLEAN),
    "IS_BOOL": Function(_is_boolean, (ANY,), BOOLEAN),
    "LENGTH": Function(len, (STRING,), INTEGER),
    "CONCAT": Function(lambda *texts: "".join(texts), (STRING,), STRING, least=0, more=True),
    "CONCAT_WS": Function(_separated, (STRING,), STRING, more=True),
    "LOWER": Function(text.lower, (STRING,), STRING),
    "UPPER": Function(text.upper, (STRING,), STRING),
    "TRIM": Function(lambda value: value.strip(_WHITE_SPACE), (STRING,), STRING),
    "LEFT": Function(_left, (STRING, INTEGER), STRING),
    "RIGHT": Function(_right, (STRING, INTEGER), STRING),
    "SUBSTRING": Function(_substring, (STRING, INTEGER, INTEGER), STRING, least=2),
    "ABS": Function(_absolute, (INTEGER,), INTEGER),
}
