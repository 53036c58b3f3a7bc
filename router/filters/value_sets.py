"""Sets of values of one field: those for which a condition over that field and constants is true, or false.

Values stand in one order: by family (`family_of`), and inside a family by number, code point or byte. A cut is a place
in that order: `(family,)` before all values of a family, `(family, value, after)` before or after one value. Python
compares cuts as they should stand, integers with doubles exactly. A set is a tuple of intervals between two cuts,
ascending and apart.

In the text languages integers, doubles and timestamps are one family; `strict` keeps them apart, as property filters do
(docs/filter-sets.md). NaN is a family of its own: it differs from every number and stands before or after none. A body
that cannot be parsed has no value, and is in no set.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, TypeVar

from bindery.router.columns import ABSENT, BINARY, BOOL, DOUBLE, INT, NESTED, NULL, STRING, TAG_OF, TIMESTAMP, Ref
from bindery.router.filters.ast import And, Between, Compare, Field, In, IsNull, Node, Not, Or, Rules, Truth
from bindery.router.values import Timestamp, Value

Cut = tuple[Any, ...]
ValueSet = tuple[tuple[Cut, Cut], ...]


def family_of(tag: int, *, strict: bool) -> int:
    """The place of the family of values with a column tag among the families."""
    return 2 * (INT if tag in (DOUBLE, TIMESTAMP) and not strict else tag)


#: The families of NaN: behind the doubles.
NAN: Final = 2 * DOUBLE + 1
#: Families in which < has a meaning: in every language, and in those that order texts.
_ORDERED: Final = (2 * INT,)
_ORDERED_TEXTS: Final = (2 * INT, 2 * STRING, 2 * BINARY)
_END: Final = (2 * NESTED + 1,)
NOTHING: Final[ValueSet] = ()
EVERYTHING: Final[ValueSet] = (((2 * ABSENT,), _END),)
NO_VALUE: Final[ValueSet] = (((2 * ABSENT,), (2 * BOOL,)),)
ANY_VALUE: Final[ValueSet] = (((2 * BOOL,), _END),)
ABSENCE: Final[ValueSet] = (((2 * ABSENT,), (2 * NULL,)),)
PRESENCE: Final[ValueSet] = (((2 * NULL,), _END),)


def union(sets: Iterable[ValueSet]) -> ValueSet:
    """The values that are in any of some sets."""
    found: list[tuple[Cut, Cut]] = []
    for low, high in sorted(interval for one in sets for interval in one):
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return tuple(found)


def minus(whole: ValueSet, taken: ValueSet) -> ValueSet:
    """The values of one set that are not in another."""
    cuts = [EVERYTHING[0][0], *(cut for interval in taken for cut in interval), EVERYTHING[0][1]]
    gaps = tuple(gap for gap in list(pairwise(cuts))[::2] if gap[0] < gap[1])
    return intersection((whole, gaps))


def intersection(sets: Sequence[ValueSet]) -> ValueSet:
    """The values that are in all of some sets."""
    found = sets[0]
    for other in sets[1:]:
        both, left, right = [], 0, 0
        while left < len(found) and right < len(other):
            low, high = max(found[left][0], other[right][0]), min(found[left][1], other[right][1])
            if low < high:
                both.append((low, high))
            if found[left][1] == high:
                left += 1
            else:
                right += 1
        found = tuple(both)
    return found


@dataclass(frozen=True, slots=True)
class FieldValues:
    """Values of the field `ref`; `strict` as in the module's text."""

    ref: Ref
    values: ValueSet
    strict: bool = False


Rule = Callable[[Any, bool], FieldValues | None]
NodeType = TypeVar("NodeType", bound=Node)
RULES: Final[dict[type[Node], Rule]] = {}


def values(kind: type[NodeType]) -> Callable[[Callable[[NodeType, bool], FieldValues | None]], Rule]:
    """Register how the values are found for which a node of a type is true, or false."""

    def register(function: Callable[[NodeType, bool], FieldValues | None]) -> Rule:
        RULES[kind] = function
        return function

    return register


def values_of(node: Node, truth: bool = True) -> FieldValues | None:
    """For which values a condition is true, or is false and not unknown.

    None when it is about several fields, or about more than the places of constants in the order.
    """
    rule = RULES.get(type(node))
    return rule(node, truth) if rule is not None else None


def point(value: Value, *, strict: bool) -> ValueSet:
    """The values equal to one; nothing equals NaN."""
    if isinstance(value, float) and math.isnan(value):
        return NOTHING
    number = value.ms if isinstance(value, Timestamp) else value
    family = family_of(TAG_OF[type(value)], strict=strict)
    return (((family, number, False), (family, number, True)),)


def _compared(op: str, value: Value, rules: Rules) -> ValueSet | None:
    """Where `field op value` is true: values of unlike families make every comparison false."""
    equal = point(value, strict=False)
    if not equal or rules.converts_text or TAG_OF[type(value)] == NESTED:
        return None
    ((before, after),) = equal
    family = before[0]
    if op == "=":
        return equal
    if op == "<>":
        numbers_end = NAN + 1 if family == 2 * INT else family + 1
        return ((family,), before), (after, (numbers_end,))
    if family not in (_ORDERED_TEXTS if rules.orders_text else _ORDERED):
        return NOTHING
    if op in ("<", "<="):
        return (((family,), after if op == "<=" else before),)
    return ((before if op == ">=" else after, (family + 1,)),)


_MIRRORED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@values(Compare)
def _compare(node: Compare, truth: bool) -> FieldValues | None:
    for field, constant in node.sides:
        if constant.value is None:
            return FieldValues(field.ref, NOTHING)  # always unknown
        true = _compared(node.op if field is node.left else _MIRRORED[node.op], constant.value, node.rules)
        if true is not None:
            return FieldValues(field.ref, true if truth else minus(ANY_VALUE, true))
    return None


@values(Between)
def _between(node: Between, truth: bool) -> FieldValues | None:
    low = Compare("<" if node.negated else ">=", node.operand, node.low, node.rules)
    high = Compare(">" if node.negated else "<=", node.operand, node.high, node.rules)
    return values_of(Or((low, high)) if node.negated else And((low, high)), truth)


@values(In)
def _in(node: In, truth: bool) -> FieldValues | None:
    return _or(Or(tuple(Compare("=", node.operand, member, Rules()) for member in node.members)), truth)


@values(IsNull)
def _is_null(node: IsNull, truth: bool) -> FieldValues | None:
    if not isinstance(node.operand, Field):
        return None
    return FieldValues(node.operand.ref, NO_VALUE if truth else ANY_VALUE)


@values(Truth)
def _truth(node: Truth, truth: bool) -> FieldValues | None:
    return FieldValues(node.operand.ref, point(truth, strict=False)) if isinstance(node.operand, Field) else None


@values(Not)
def _not(node: Not, truth: bool) -> FieldValues | None:
    return values_of(node.part, not truth)


@values(And)
def _and(node: And, truth: bool) -> FieldValues | None:
    return _combined(node.parts, truth, all_=truth)


@values(Or)
def _or(node: Or, truth: bool) -> FieldValues | None:
    return _combined(node.parts, truth, all_=not truth)


def _combined(nodes: tuple[Node, ...], truth: bool, *, all_: bool) -> FieldValues | None:
    """The values for which all of some conditions, or any, have a truth; they are about one field and one order."""
    found: list[FieldValues] = []
    for node in nodes:
        part = values_of(node, truth)
        if part is None or (found and (part.ref, part.strict) != (found[0].ref, found[0].strict)):
            return None
        found.append(part)
    sets = [part.values for part in found]
    return FieldValues(found[0].ref, intersection(sets) if all_ else union(sets), found[0].strict)


def share(found: ValueSet, cuts: Sequence[Cut]) -> float:
    """Which part of the stretches between some cuts (ascending) a set covers; all when it has the absent field.

    The cuts are those of all filters on the field: what they ask for stands for what messages hold.
    """
    if found and found[0][0] == EVERYTHING[0][0]:
        return 1.0
    covered = sum(bisect_left(cuts, high) - bisect_left(cuts, low) for low, high in found)
    return covered / (len(cuts) + 1)
