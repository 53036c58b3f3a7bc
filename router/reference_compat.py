"""The rules of compatibility modes, slowly and by the letter: what `bindery.router.reference` asks under a mode.

Shares nothing with `bindery.router.equality`: values become terms as the broker has them in memory, and are compared
as its language compares.
"""

from __future__ import annotations

from bindery.router.compat import (
    HEADERS_MILLISECONDS,
    HEADERS_NESTED,
    HEADERS_NUMBERS,
    HEADERS_TEXTS,
    TOPIC_EMPTY_WORDS,
)
from bindery.router.equality import family_equal
from bindery.router.values import Table, Timestamp, Value

#: A value as Erlang has it, a number, a text of bytes, an atom or a list, and the name of its type.
Term = tuple[str, object]


def topic_words(text: str, switches: frozenset[str]) -> list[str]:
    """The words of a key or pattern; under Broker-J as Java splits a text, empty ones at its end left out."""
    if TOPIC_EMPTY_WORDS not in switches:
        return text.split(".") if text else []
    found = text.split(".")
    while len(found) > 1 and found[-1] == "":
        found.pop()
    return [] if found == [""] and text else found


def header_equals(argument: Value, header: Value, switches: frozenset[str]) -> bool:
    """Whether a header is equal to the argument of a headers binding."""
    return any(_equal(one, other) for one in _terms(argument, switches, 1000) for other in _terms(header, switches, 1))


def _terms(value: Value, switches: frozenset[str], unit: int) -> list[Term]:
    """What a value is equal by; `unit` is how many milliseconds of a timestamp 3.13 and later count as one."""
    terms: list[Term] = [("itself", value)]
    if isinstance(value, bool) or value is None:
        return terms
    if isinstance(value, int):
        terms = [("integer", value)]
    if isinstance(value, float):
        terms = [("double", value)]
    if isinstance(value, Timestamp) and HEADERS_MILLISECONDS in switches:
        terms = [("integer", value.ms // unit)] if value.ms % unit == 0 else []
    if isinstance(value, Timestamp) and HEADERS_NUMBERS in switches and value.ms % 1000 == 0:
        terms = [("integer", value.ms // 1000)]
    if HEADERS_NUMBERS in switches and terms and terms[0][0] in ("integer", "double"):
        terms = [("number", terms[0][1])]
    if isinstance(value, str) and HEADERS_TEXTS in switches:
        terms = [("bytes", value.encode("utf-8", "surrogatepass"))]
    if isinstance(value, bytes) and HEADERS_TEXTS in switches:
        terms = [("bytes", value)]
    if isinstance(value, tuple | Table) and HEADERS_NESTED in switches:
        terms = [("nothing", ())] if len(value) == 0 else [("nested", value)]
    return terms


def _equal(one: Term, other: Term) -> bool:
    if one[0] != other[0]:
        return False
    if one[0] == "itself":
        return family_equal(one[1], other[1])  # type: ignore[arg-type]  # values
    if one[0] == "nested":
        return _in_order(one[1], other[1])  # type: ignore[arg-type]  # values
    return one[1] == other[1]


def _in_order(one: Value, other: Value) -> bool:
    """Equality of nested values by family, entry by entry."""
    if isinstance(one, Table) and isinstance(other, Table):
        pairs = zip(one.items(), other.items(), strict=False)
        return len(one) == len(other) and all(a == b and _in_order(x, y) for (a, x), (b, y) in pairs)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_in_order, one, other))
    return not isinstance(one, tuple | Table) and family_equal(one, other)
