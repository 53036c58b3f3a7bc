"""Access predicates: which values a field must hold before a filter can be true.

A filter `type = 'a' AND price > 5` can only be true for messages whose type is 'a'; an index over such keys
leads each message to the filters that it may satisfy, and no other is looked at. A condition joins by an access
rule that gives its keys, or None when it has none; a condition over one field and constants then has the set of values
for which it is true (`bindery.router.filters.value_sets`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeVar

from bindery.router.columns import Ref
from bindery.router.filters.ast import And, Compare, Field, In, Literal, Node, Not, Or, Truth
from bindery.router.filters.payload import PAYLOAD
from bindery.router.filters.spread import is_spread
from bindery.router.filters.value_sets import ValueSet, intersection, union, values_of
from bindery.router.values import INT64_MAX, INT64_MIN, Timestamp, Value

#: A condition without keys that is true whatever the message holds.
ALWAYS: Final = Truth(Literal(True))


@dataclass(frozen=True, slots=True)
class Key:
    """The field `ref` holds a value equal to `value`.

    `strict` keeps integers, doubles and timestamps apart (property filters, headers); without it they are one
    family and equal by number (text filters). A key that no value equals (null, NaN) does not exist.
    """

    ref: Ref
    value: Literal
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Within:
    """The field `ref` holds a value of a set, or no value if that is in it; `strict` as in `Key`."""

    ref: Ref
    values: ValueSet
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """The field `ref` holds a topic with the word `value`, wherever it stands there."""

    ref: Ref
    value: Literal
    strict: ClassVar[bool] = True


Lead = Key | Within | Word


@dataclass(frozen=True, slots=True)
class Access:
    """One of `keys` must hold; `exact`: then the condition is true, and needs no further look."""

    keys: tuple[Lead, ...]
    exact: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """A way into a filter: its keys, and what remains to be checked for messages that hold one."""

    keys: tuple[Lead, ...]
    residual: Node


Rule = Callable[[Any], Access | None]
NodeType = TypeVar("NodeType", bound=Node)
RULES: Final[dict[type[Node], Rule]] = {}


def access(kind: type[NodeType]) -> Callable[[Callable[[NodeType], Access | None]], Rule]:
    """Register the access rule of a node type."""

    def register(function: Callable[[NodeType], Access | None]) -> Rule:
        RULES[kind] = function
        return function

    return register


def access_of(node: Node) -> Access | None:
    """The keys of a condition, if it has any."""
    rule = RULES.get(type(node))
    found = rule(node) if rule is not None else None
    if found is None or any(isinstance(key, Within) for key in found.keys):
        return _within(node) or found
    return found


def _within(node: Node) -> Access | None:
    """The set of values that a condition over one field asks for.

    Not exact for a body, and nothing where no value will do: bodies that cannot be parsed must be looked at.
    """
    found = values_of(node)
    if found is None or (found.ref.section == PAYLOAD and not found.values):
        return None
    keys = (Within(found.ref, found.values, found.strict),) if found.values else ()
    return Access(keys, exact=found.ref.section != PAYLOAD)


def entries(expression: Node) -> Iterator[Entry]:
    """Every way into a filter; none when it may be true for any message. Sets of values of one field are one way."""
    parts = expression.parts if isinstance(expression, And) else (expression,)
    within: dict[tuple[Ref, bool], list[tuple[ValueSet, list[int]]]] = defaultdict(list)
    for place, part in enumerate(parts):
        match access_of(part):
            case Access((Within(ref, values, strict),), exact) if not is_spread(ref):
                within[ref, strict].append((values, [place] if exact else []))
            case Access(keys, exact):
                yield Entry(keys, _rest(parts, [place] if exact else []))
    for (ref, strict), found in within.items():
        values = intersection([values for values, _ in found])
        if values or ref.section != PAYLOAD:
            keys = (Within(ref, values, strict),) if values else ()
            yield Entry(keys, _rest(parts, [place for _, decided in found for place in decided]))


def _rest(parts: tuple[Node, ...], decided: Iterable[int]) -> Node:
    """The conjunction of the parts that are not decided."""
    done = set(decided)
    rest = tuple(part for place, part in enumerate(parts) if place not in done)
    return rest[0] if len(rest) == 1 else And(rest) if rest else ALWAYS


def equality(ref: Ref, value: Value, *, strict: bool = False) -> Access:
    """The field equals the value: one key, or none when nothing equals the value.

    A key into a body is not exact: the filter is asked of bodies that cannot be parsed, too (`KeyIndex.in_trouble`).
    """
    if value is None or isinstance(value, tuple) or (isinstance(value, float) and math.isnan(value)):
        return Access((), exact=True)
    key = Key(ref, Literal(value if strict else plain_number(value)), strict)
    return Access((key,), exact=ref.section != PAYLOAD)


def plain_number(value: Value) -> Value:
    """Numbers of one family in one form: timestamps and whole doubles of 64 bits as integers."""
    if isinstance(value, Timestamp):
        return value.ms
    if isinstance(value, float) and value.is_integer() and INT64_MIN <= int(value) <= INT64_MAX:
        return int(value)
    return value


def any_of(*found: Access | None) -> Access | None:
    """One of several conditions; without keys when one of them has none."""
    known = [item for item in found if item is not None]
    if len(known) < len(found):
        return None
    keys: dict[Lead, None] = {}
    within: dict[tuple[Ref, bool], list[ValueSet]] = defaultdict(list)
    for key in (key for item in known for key in item.keys):
        if isinstance(key, Within):
            within[key.ref, key.strict].append(key.values)
        else:
            keys[key] = None
    merged = [Within(ref, union(sets), strict) for (ref, strict), sets in within.items()]
    return Access((*keys, *merged), exact=all(item.exact for item in known))


@access(Compare)
def _compare(node: Compare) -> Access | None:
    if node.op == "=" and not node.rules.converts_text:
        for field, constant in node.sides:
            return equality(field.ref, constant.value)
    return None


@access(In)
def _in(node: In) -> Access | None:
    if not isinstance(node.operand, Field):
        return None
    ref = node.operand.ref
    return any_of(*(equality(ref, item.value) if isinstance(item, Literal) else None for item in node.members))


@access(Truth)
def _truth(node: Truth) -> Access | None:
    if isinstance(node.operand, Field):
        return equality(node.operand.ref, True)
    if isinstance(node.operand, Literal) and node.operand.value is not True:
        return Access((), exact=True)
    return None


@access(Not)
def _not(node: Not) -> Access | None:
    inner = node.part
    if isinstance(inner, Truth) and isinstance(inner.operand, Field):
        return equality(inner.operand.ref, False)
    return None


@access(Or)
def _or(node: Or) -> Access | None:
    return any_of(*(access_of(part) for part in node.parts))


@access(And)
def _and(node: And) -> Access | None:
    """Inside another condition: the part with the fewest keys, which decides nothing alone; values before sets."""
    found = [item for item in map(access_of, node.parts) if item is not None]
    return Access(min(found, key=_width).keys, exact=False) if found else None


def _width(item: Access) -> tuple[bool, int]:
    return any(isinstance(key, Within) for key in item.keys), len(item.keys)
