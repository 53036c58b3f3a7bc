"""Equality of typed values by family: what headers exchanges, legacy headers and property filters mean by equal.

Families: integers of every width, floating-point numbers, texts (string, symbol, char), booleans,
timestamps, binaries, lists, maps. Values of unlike families are never equal: "5" ≠ 5 ≠ 5.0 ≠ a timestamp
of 5 ms. Lists and maps are equal member by member under the same rule, a null inside them equal only to
null. (AMQP 0-9-1 headers exchange with typed fields; AMQP filter expressions, "property filters".)
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

from bindery.router.compat import HEADERS_MILLISECONDS, HEADERS_NESTED, HEADERS_NUMBERS, HEADERS_TEXTS
from bindery.router.values import INT64_MAX, INT64_MIN, TIMESTAMP_MAX, TIMESTAMP_MIN, Table, Timestamp, Value


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


#: The switches that change when a header is equal to an argument.
_SWITCHES: Final = frozenset({HEADERS_NUMBERS, HEADERS_MILLISECONDS, HEADERS_TEXTS, HEADERS_NESTED})


@dataclass(frozen=True, slots=True)
class Equality:
    """When a header is equal to the argument of a headers binding, under the switches of a compatibility mode.

    Without any it is equality by family. An argument and a header are equal when their keys are.
    """

    switches: frozenset[str] = frozenset()

    def equal(self, argument: Value, actual: Value) -> bool:
        """Whether a header is what an argument asks for."""
        if not self.switches:
            return family_equal(argument, actual)
        return self.key(argument) == self.key_of_header(actual)

    def key(self, argument: Value) -> Hashable:
        """A key that two arguments share exactly when they ask for the same; NaN asks for nothing."""
        if not self.switches:
            return family_key(argument)
        match argument:
            case Timestamp(ms=ms) if self.switches & {HEADERS_NUMBERS, HEADERS_MILLISECONDS}:
                # AMQP 0-9-1 has whole seconds (4.2.5.5, "Timestamps")
                return self._number(ms // 1000) if ms % 1000 == 0 else ("timestamp", ms)
        return self._key(argument)

    def key_of_header(self, value: Value) -> Hashable:
        """The key of a header's value."""
        if isinstance(value, Timestamp) and HEADERS_MILLISECONDS in self.switches:
            return self._number(value.ms)
        return self.key(value)

    def nested_key(self, value: Value) -> Hashable:
        """The key of a list or map."""
        if HEADERS_NESTED not in self.switches:
            return family_key(value)
        return _in_order(value) if value else "empty"

    def _key(self, value: Value) -> Hashable:
        match value:
            case bool():
                pass
            case int():
                return self._number(value)
            case float() if HEADERS_NUMBERS in self.switches and value == value:  # noqa: PLR0124  # NaN test
                return self._number(value)
            case str() if HEADERS_TEXTS in self.switches:
                return "text", value.encode("utf-8", "surrogatepass")
            case bytes() if HEADERS_TEXTS in self.switches:
                return "text", value
            case tuple() | Table():
                return self.nested_key(value)
        return family_key(value)

    @staticmethod
    def _number(value: float) -> Hashable:
        return "number", value  # 5 and 5.0 are one key of a dict

    def alike(self, argument: Value) -> Iterator[Value]:
        """The values that a header has when it is equal to an argument; of lists and maps one that has the key.

        What is equal to nothing but itself is given as it is.
        """
        if not self.switches:
            yield argument
            return
        match self.key(argument):
            case ("number", int() | float() as number):
                yield from self._numbers(number)
            case ("text", bytes() as text) if HEADERS_TEXTS in self.switches:
                yield text
                try:
                    yield text.decode()
                except UnicodeDecodeError:
                    return
            case ("timestamp", _) if HEADERS_MILLISECONDS in self.switches:
                return  # no integer is a fraction of a second
            case _:
                yield argument

    def _numbers(self, number: float) -> Iterator[Value]:
        by_value = HEADERS_NUMBERS in self.switches
        if by_value:
            try:
                same = float(number)
            except OverflowError:
                same = float("nan")
            if same == number:
                yield same
        if number != number or number in (float("inf"), float("-inf")) or int(number) != number:  # noqa: PLR0124
            return
        whole = int(number)
        if INT64_MIN <= whole <= INT64_MAX:
            yield whole
        if by_value and TIMESTAMP_MIN <= whole * 1000 <= TIMESTAMP_MAX:
            yield Timestamp(whole * 1000)
        if HEADERS_MILLISECONDS in self.switches and TIMESTAMP_MIN <= whole <= TIMESTAMP_MAX:
            yield Timestamp(whole)


def _in_order(value: Value) -> Hashable:
    """The key of a nested value of which the order of entries counts, as in AMQP 0-9-1 tables on the wire."""
    match value:
        case tuple():
            return ("list", tuple(_in_order(item) for item in value))
        case Table():
            return ("map", tuple((key, _in_order(item)) for key, item in value.items()))
    return family_key(value)


#: Equality by family.
BY_FAMILY: Final = Equality()


@cache
def _equality(switches: frozenset[str]) -> Equality:
    return Equality(switches)


def equality_under(switches: frozenset[str]) -> Equality:
    """The equality of headers under switches, those that concern it."""
    return _equality(switches & _SWITCHES) if switches else BY_FAMILY
