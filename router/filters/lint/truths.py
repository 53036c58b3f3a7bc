"""Which truths a condition can have at all, whatever the message: constants, types and contradictions.

An over-approximation: a truth that is missing from the answer is impossible, one that is in it may be too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import Any, Final

from bindery.router.filters.ast import (
    And,
    Between,
    Call,
    Compare,
    Element,
    Field,
    In,
    IsNull,
    Like,
    Literal,
    Node,
    Not,
    Or,
    Truth,
    XPath,
    walk,
)
from bindery.router.filters.families import NUMBER, family, number_of
from bindery.router.filters.fields import never_null
from bindery.router.filters.lint.schema import fixed_families
from bindery.router.filters.scalar import Context, all_of, any_of, none_of
from bindery.router.filters.sets.nodes import (
    Accepts,
    Equals,
    NestedMatches,
    Present,
    StartsWith,
    TextForm,
    TopicMatches,
)
from bindery.router.message import Message

Truths = frozenset[bool | None]
ANY: Final[Truths] = frozenset({True, False, None})
TWO: Final[Truths] = frozenset({True, False})
_READS_MESSAGE: Final = (Field, XPath, Present, TextForm)


def possible(node: Node) -> Truths:
    """The truths that a condition may have."""
    if not _reads_message(node):
        result = Context(Message()).value(node)
        return frozenset({result if isinstance(result, bool) else None})
    judge = _JUDGES.get(type(node))
    return judge(node) if judge else ANY


def _reads_message(node: Node) -> bool:
    return any(
        isinstance(part, _READS_MESSAGE) or (isinstance(part, Call) and not part.arguments) for part in walk(node)
    )


def _combined(parts: Iterable[Node], combine: Callable[..., Any]) -> Truths:
    found: Truths = frozenset()
    for part in parts:
        truths = possible(part)
        found = frozenset(combine(*pair) for pair in product(found, truths)) if found else truths
    return found


def _and(node: And) -> Truths:
    found = _combined(node.parts, all_of)
    return found - {True} if contradiction(node.parts) else found


def _or(node: Or) -> Truths:
    found = _combined(node.parts, any_of)
    return frozenset({True}) if _covers(node.parts) else found


def _not(node: Not) -> Truths:
    return frozenset(none_of(truth) for truth in possible(node.part))  # type: ignore[misc]  # no trouble among them


def nullable(node: Node) -> bool:
    """Whether an operand may read as null."""
    if isinstance(node, Literal):
        return node.value is None
    return not (isinstance(node, Field) and never_null(node.ref))


def _families(node: Node) -> frozenset[str] | None:
    if isinstance(node, Literal):
        found = family(node.value)
        return frozenset({found}) if found else frozenset()
    return fixed_families(node.ref) if isinstance(node, Field) else None


def _compare(node: Compare) -> Truths:
    left, right = _families(node.left), _families(node.right)
    truths: set[bool | None] = {True, False}
    if left is not None and right is not None and not node.rules.converts_text and not left & right:
        truths.discard(True)
    if node.op == "=" and any(outside_domain(*pair) for pair in node.sides):
        truths.discard(True)
    if nullable(node.left) or nullable(node.right):
        truths.add(None)
    return frozenset(truths)


_DOMAINS: Final[Mapping[str, tuple[str, ...]]] = {
    "delivery_mode": ("PERSISTENT", "NON_PERSISTENT"),
    "durability": ("DURABLE", "NON_DURABLE"),
}


def outside_domain(field: Field, literal: Literal) -> tuple[str, ...]:
    """The only values of a field when the literal is none of them, else nothing."""
    domain = _DOMAINS.get(field.ref.name, ()) if field.ref.section == "derived" else ()
    return domain if domain and literal.value not in domain else ()


def _between(node: Between) -> Truths:
    operands = (node.operand, node.low, node.high)
    truths: set[bool | None] = {True, False}
    if any(nullable(operand) for operand in operands):
        truths.add(None)
    low, high = _number(node.low), _number(node.high)
    if not node.negated and low is not None and high is not None and low > high:
        truths.discard(True)
    families = [_families(operand) for operand in operands]
    if any(found is not None and NUMBER not in found for found in families) and not node.rules.orders_text:
        truths.discard(True)
    return frozenset(truths)


def _in(node: In) -> Truths:
    operand = _families(node.operand)
    members = [_families(member) for member in node.members]
    truths: set[bool | None] = {True, False}
    if operand is not None and all(found is not None and not found & operand for found in members):
        truths.discard(True)
    if nullable(node.operand) or any(nullable(member) for member in node.members):
        truths.add(None)
    return frozenset(truths)


def _like(node: Like) -> Truths:
    operand = _families(node.operand)
    truths: set[bool | None] = {True, False}
    if operand is not None and "string" not in operand:
        truths.discard(True)
    if any(nullable(part) for part in (node.operand, node.pattern)) or node.escape is not None:
        truths.add(None)
    return frozenset(truths)


def _is_null(node: IsNull) -> Truths:
    if isinstance(node.operand, Field) and never_null(node.operand.ref):
        return frozenset({False})
    return TWO


def _truth(node: Truth) -> Truths:
    found = _families(node.operand)
    if found is not None and "boolean" not in found:
        return frozenset({None})
    return ANY if nullable(node.operand) else TWO


def _two(_: Node) -> Truths:
    return TWO


def _accepts(node: Accepts) -> Truths:
    return frozenset(truth is True for truth in possible(node.part))


_JUDGES: Final[Mapping[type[Node], Callable[[Any], Truths]]] = {
    And: _and,
    Or: _or,
    Not: _not,
    Compare: _compare,
    Between: _between,
    In: _in,
    Like: _like,
    IsNull: _is_null,
    Truth: _truth,
    XPath: _two,
    Accepts: _accepts,
    Equals: _two,
    Present: _two,
    StartsWith: _two,
    NestedMatches: _two,
    TopicMatches: _two,
}


class _Bounds:
    """What the parts of one AND ask of one operand."""

    def __init__(self) -> None:
        self.low: float = float("-inf")
        self.high: float = float("inf")
        self.low_open = self.high_open = False
        self.equal: Literal | None = None
        self.clash = self.absent = self.used = False

    def at_least(self, value: float, *, is_open: bool) -> None:
        if value > self.low or (value == self.low and is_open):
            self.low, self.low_open = value, is_open

    def at_most(self, value: float, *, is_open: bool) -> None:
        if value < self.high or (value == self.high and is_open):
            self.high, self.high_open = value, is_open

    def equals(self, literal: Literal) -> None:
        if self.equal is not None and not _same(self.equal, literal):
            self.clash = True
        self.equal = literal

    @property
    def impossible(self) -> bool:
        value = _number(self.equal) if self.equal is not None else None
        if value is not None:
            self.at_least(value, is_open=False)
            self.at_most(value, is_open=False)
        empty = self.low > self.high or (self.low == self.high and (self.low_open or self.high_open))
        return self.clash or empty or (self.absent and self.used)


def _same(left: Literal, right: Literal) -> bool:
    a, b = _number(left), _number(right)
    return left.value == right.value if a is None or b is None else a == b


def _number(node: Node | None) -> int | float | None:
    return number_of(node.value) if isinstance(node, Literal) else None


_TURNED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}


def contradiction(parts: Iterable[Node]) -> bool:
    """Whether conditions cannot all be true: bounds that leave nothing, two values at once, x and NOT x."""
    parts = list(parts)
    bounds: dict[Node, _Bounds] = {}
    for part in parts:
        if isinstance(part, IsNull):
            bounds.setdefault(part.operand, _Bounds()).absent = True
        elif isinstance(part, Between) and not part.negated and _plain(part.operand):
            _bound(bounds, part.operand, ">=", part.low)
            _bound(bounds, part.operand, "<=", part.high)
        elif isinstance(part, Compare) and not part.rules.converts_text:
            if _plain(part.left) and isinstance(part.right, Literal):
                _bound(bounds, part.left, part.op, part.right)
            elif _plain(part.right) and isinstance(part.left, Literal):
                _bound(bounds, part.right, _TURNED[part.op], part.left)
    opposed = {part.part for part in parts if isinstance(part, Not)} & set(parts)
    return bool(opposed) or any(bound.impossible for bound in bounds.values())


def _plain(node: Node) -> bool:
    return isinstance(node, Field | Element)


def _bound(bounds: dict[Node, _Bounds], operand: Node, op: str, literal: Node) -> None:
    bound = bounds.setdefault(operand, _Bounds())
    bound.used = True
    if op == "=" and isinstance(literal, Literal):
        bound.equals(literal)
    value = _number(literal)
    if value is None or value != value:  # noqa: PLR0124  # NaN bounds nothing
        return
    if op in (">", ">="):
        bound.at_least(value, is_open=op == ">")
    elif op in ("<", "<="):
        bound.at_most(value, is_open=op == "<")


def _covers(parts: tuple[Node, ...]) -> bool:
    """Whether some part or its negation always holds."""
    whole = set(parts)
    return any(isinstance(part, Not) and part.part in whole and None not in possible(part.part) for part in parts)
