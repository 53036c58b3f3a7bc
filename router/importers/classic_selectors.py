"""Selectors of ActiveMQ Classic: where they answer otherwise than JMS, with messages that show it.

Classic evaluates three-valued, as JMS does, but for the points in `Point` (activemq-client 5.18: SelectorParser.jj,
`ComparisonExpression`, `UnaryExpression`, `ArithmeticExpression`).
"""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from bindery.router.filters import DEFAULT_LIMITS, Filter, evaluate, parse
from bindery.router.filters.ast import (
    And,
    Arithmetic,
    Between,
    Compare,
    Field,
    In,
    IsNull,
    Like,
    Literal,
    Node,
    Not,
    Or,
    Sign,
    Truth,
    walk,
)
from bindery.router.filters.dialect import dialect_named
from bindery.router.filters.lexer import tokenize
from bindery.router.filters.scalar import Context
from bindery.router.message import Message

#: The prefix by which texts are read as what they meet (SelectorParser.CONVERT_STRING_EXPRESSIONS_PREFIX).
CONVERT: Final = "convert_string_expressions:"
_FUNCTIONS: Final = re.compile(r"\b(REGEX|INLIST|MAKELIST|SPLIT|REPLACE)\s*\(", re.IGNORECASE)
_XQUERY: Final = re.compile(r"\bXQUERY\s*'", re.IGNORECASE)
_COMMENT: Final = re.compile(r"--|/\*")
_TEXT: Final = re.compile(r"'(?:[^']|'')*'")
#: Tokens after which an operand begins, so that NOT is a prefix, and those that go on with a comparison.
_BEFORE: Final = frozenset({"AND", "OR", "NOT", "LPAR"})
_AFTER: Final = frozenset({"AND", "OR", "RPAR"})
#: Messages that are tried for an example.
_SOME: Final = 2_000
#: Fields that Classic fills otherwise -> what it says there.
_FIELDS: Final[Mapping[tuple[str, str], str]] = {
    ("properties", "to"): "JMSDestination is 'queue://NAME' or 'topic://NAME' there; here it is the property `to`",
    ("properties", "reply_to"): "JMSReplyTo begins with queue:// or topic:// there; here it is as it was published",
    ("properties", "absolute_expiry_time"): "JMSExpiration is 0 there where a message never expires; here it is null",
    ("properties", "group_sequence"): "JMSXGroupSeq is 0 there where nobody states it; here it is null",
}


class Point(Enum):
    """A point in which Classic answers otherwise than JMS, with what is to be said of it."""

    UNLIKE = "`<>` is true for values of unlike types there, and false here"
    NULL = "two missing properties are equal there, and a constant before `=` is unequal to a missing one; here unknown"
    ORDER = "two texts in < <= > >= are ordered there; here that is false"
    DIVIDE = "integers divide without truncation there: 7/2 is 3.5"
    PLUS = "a text + a value joins them there; here that is unknown"
    IN = "IN and NOT IN of what is no text are unknown there; here false and true"
    TRUTH = "a property that holds no boolean is false as a condition there; here it is unknown"
    ESCAPE = "an escape before a character that needs none is a character itself there"
    CONVERT = "a text is read by the type of what it meets there: '10.5' beside an integer is no number"
    NOT = "NOT binds tighter than comparisons there: NOT a = 1 is (NOT a) = 1"


@dataclass(frozen=True, slots=True)
class Selector:
    """A selector as it stands, what it is here, and the dialect of that; `points` may make it answer otherwise."""

    text: str
    filter: Filter
    points: tuple[Point, ...]
    fields: tuple[str, ...]

    def accepts(self, message: Mapping[str, Any], points: frozenset[Point] | None = None) -> bool:
        """Whether Classic forwards a message; with `points` as if it differed from JMS in those alone."""
        active = frozenset(Point) if points is None else points
        node = self.filter.expression
        if Point.NOT in self.points and Point.NOT in active:
            node = _tight(node)
        reading = _Reading(Message.from_json(message), active, self.text.startswith(CONVERT))
        try:
            return reading.value(node) is True
        except _FailsThere:
            return False

    def shown(self, point: Point) -> Mapping[str, Any] | None:
        """Properties of a message that Classic forwards for the point, or keeps back, and the filter here does not."""
        if point is Point.NOT and not _is_one_not(self):
            return None
        for properties in self._candidates():
            content = {"application_properties": properties}
            here = evaluate(self.filter, Message.from_json(content)) is True
            if self.accepts(content, frozenset({point})) is not here and self.accepts(content) is not here:
                return properties
        return None

    def _candidates(self) -> Iterator[dict[str, Any]]:
        """Some messages, the same each time, with values near those that the selector names and of other types."""
        nodes = list(walk(self.filter.expression))
        names = sorted({node.ref.name for node in nodes if isinstance(node, Field) and _is_property(node)})
        values: list[Any] = [None, 5, "text", True]
        constants = [node.value for node in nodes if isinstance(node, Literal)][:8]
        for value in constants:
            values += _near(value)
        numbers = [value for value in constants if isinstance(value, int) and abs(value) < 2**20]
        values += [one * other + 1 for one, other in itertools.pairwise(numbers)]
        values += [2.5, "other"]
        values = [value for at, value in enumerate(values) if repr(value) not in map(repr, values[:at])]
        if len(values) ** len(names) <= _SOME:
            drawn: Iterator[tuple[Any, ...]] = itertools.product(values, repeat=len(names))
        else:
            chance = random.Random(0)  # noqa: S311  # examples, no secrets
            drawn = (tuple(chance.choice(values) for _ in names) for _ in range(_SOME))
        for combination in drawn:
            yield {name: value for name, value in zip(names, combination, strict=True) if value is not None}


class Unreadable(Exception):
    """A selector that has no counterpart here: why, and what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def read_selector(text: str) -> Selector:
    """A selector of Classic; raises FilterError, or Unreadable for what only Classic reads.

    The dialect here is `jms`, or `artemis` where XPATH, % or a conversion of texts needs it.
    """
    plain = _TEXT.sub("''", text)
    if _XQUERY.search(plain):
        raise Unreadable("XQUERY is no part of selectors here; Classic takes it for false", "write it as XPATH")
    if called := _FUNCTIONS.search(plain):
        raise Unreadable(f"there is no function {called[1]} in selectors here", "write it with LIKE, IN or =")
    if _COMMENT.search(plain):
        raise Unreadable("there are no comments in selectors here", "leave the comment out")
    needs_artemis = text.startswith(CONVERT) or "%" in plain or re.search(r"\bXPATH\s*'", plain, re.IGNORECASE)
    if needs_artemis and re.search(r"(?<![\w$])JMS\w+", plain):
        raise Unreadable("XPATH, % and conversions of texts go with no names that begin with JMS here", "split it")
    parsed = parse(text, "artemis" if needs_artemis else "jms")
    nodes = list(walk(parsed.expression))
    fields = tuple(
        dict.fromkeys(
            _FIELDS[node.ref.section, node.ref.name]
            for node in nodes
            if isinstance(node, Field) and (node.ref.section, node.ref.name) in _FIELDS
        )
    )
    return Selector(text, parsed, tuple(_points(text, parsed.dialect, nodes)), fields)


def _points(text: str, dialect: str, nodes: list[Node]) -> Iterator[Point]:
    """The points that may concern a selector, by what stands in it."""
    if _binds_tight(text, dialect):
        yield Point.NOT
    compared = [node for node in nodes if isinstance(node, Compare)]
    if any(node.op == "<>" for node in compared):
        yield Point.UNLIKE
    equal = [node for node in compared if node.op in ("=", "<>")]
    turned = any(isinstance(node, Not) for node in nodes)
    if any(
        not isinstance(node.right, Literal) and (not isinstance(node.left, Literal) or node.op == "<>" or turned)
        for node in equal
    ):
        yield Point.NULL
    ordered = [node for node in compared if node.op not in ("=", "<>")]
    between = [side for node in nodes if isinstance(node, Between) for side in (node.low, node.high)]
    if any(not isinstance(node.left, Literal) and not isinstance(node.right, Literal) for node in ordered) or any(
        not isinstance(side, Literal) for side in between
    ):
        yield Point.ORDER
    chains = [node for node in nodes if isinstance(node, Arithmetic)]
    if any("/" in node.ops for node in chains):
        yield Point.DIVIDE
    if any("+" in node.ops for node in chains):
        yield Point.PLUS
    if any(isinstance(node, In) for node in nodes):
        yield Point.IN
    if any(isinstance(node, Truth) and isinstance(node.operand, Field) for node in nodes):
        yield Point.TRUTH
    if any(isinstance(node, Like) and node.escape is not None for node in nodes):
        yield Point.ESCAPE
    if text.startswith(CONVERT):
        yield Point.CONVERT


def _binds_tight(text: str, dialect: str) -> bool:
    """Whether a NOT stands before an operand that is compared with something."""
    start = len(CONVERT) if text.startswith(CONVERT) else 0
    tokens = [token.type for token in tokenize(text, dialect_named(dialect), limits=DEFAULT_LIMITS, start=start)]
    for at, kind in enumerate(tokens):
        if kind != "NOT" or (at and tokens[at - 1] not in _BEFORE):
            continue
        end = at + 1
        while end < len(tokens) and tokens[end] in ("NOT", "PLUS", "MINUS"):
            end += 1
        if tokens[end] == "XPATH":
            end += 1
        levels = 0
        while levels or tokens[end] == "LPAR":
            levels += {"LPAR": 1, "RPAR": -1}.get(tokens[end], 0)
            end += 1
            if not levels:
                end -= 1
                break
        if end + 1 < len(tokens) and tokens[end + 1] not in _AFTER:
            return True
    return False


def _is_one_not(selector: Selector) -> bool:
    """Whether all of the selector is NOT and one comparison, which is read otherwise there."""
    node = selector.filter.expression
    return isinstance(node, Not) and isinstance(node.part, Compare) and isinstance(node.part.left, Field)


def _tight(node: Node) -> Node:
    """NOT a = 1 as (NOT a) = 1."""
    if isinstance(node, Not) and isinstance(node.part, Compare):
        compared = node.part
        return Compare(compared.op, Not(Truth(compared.left)), compared.right, compared.rules)
    return node


def _is_property(node: Field) -> bool:
    return node.ref.section == "application_properties"


def _near(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [value, not value, str(value).lower()]
    if isinstance(value, int | float):
        if abs(value) > 2**53:
            return [value]
        return [value, value + 1, value - 1, value + 0.5, str(value), f"{value}.5"]
    return [value, f"{value}x", value[:1], value[1:]] if isinstance(value, str) else []


class _FailsThere(Exception):
    """Evaluating fails there: the send is refused, and nothing is forwarded."""


@dataclass(slots=True)
class _Reading:
    """A message that a selector is evaluated for, with the points in which that is done as Classic does it."""

    message: Message
    points: frozenset[Point]
    converts: bool
    context: Context = field(init=False)

    def __post_init__(self) -> None:
        self.context = Context(self.message, 0)

    def value(self, node: Node) -> Any:
        """A value or a truth; None is null and unknown."""
        match node:
            case Literal():
                return node.value
            case Truth():
                held = self.value(node.operand)
                if held is None or isinstance(held, bool):
                    return held
                return False if Point.TRUTH in self.points else None
            case Sign():
                held = self.value(node.operand)
                if not isinstance(held, int | float) or isinstance(held, bool):
                    return None
                return -held if node.op == "-" else held
            case Arithmetic():
                return self._chain(node)
            case Compare():
                return self._compared(node.op, self.value(node.left), self.value(node.right))
            case Between():
                held, low, high = (self.value(part) for part in (node.operand, node.low, node.high))
                if node.negated:
                    return _either([self._compared("<", held, low), self._compared(">", held, high)])
                return _both([self._compared(">=", held, low), self._compared("<=", held, high)])
            case In():
                held = self.value(node.operand)
                if held is None or (not isinstance(held, str) and Point.IN in self.points):
                    return None
                return isinstance(held, str) and held in [self.value(member) for member in node.members]
            case Like():
                return self._like(node)
            case IsNull():
                return self.value(node.operand) is None
            case And():
                return _both([self.value(part) for part in node.parts])
            case Or():
                return _either([self.value(part) for part in node.parts])
            case Not():
                held = self.value(node.part)
                return None if held is None else not held
        found = self.context.value(node)
        return found if isinstance(found, bool | int | float | str) else None

    def _chain(self, node: Arithmetic) -> Any:
        held = self.value(node.first)
        for op, part in zip(node.ops, node.rest, strict=True):
            held = self._calculated(op, held, self.value(part))
        return held

    def _calculated(self, op: str, left: Any, right: Any) -> Any:
        if left is None or right is None:
            return None
        if op == "+" and isinstance(left, str) and Point.PLUS in self.points:
            return left + _as_java(right)
        numbers = [one for one in (left, right) if isinstance(one, int | float) and not isinstance(one, bool)]
        if len(numbers) < 2:
            if Point.PLUS in self.points:
                raise _FailsThere
            return None
        try:
            match op:
                case "+":
                    return left + right
                case "-":
                    return left - right
                case "*":
                    return left * right
                case "/" if Point.DIVIDE in self.points or isinstance(left, float) or isinstance(right, float):
                    return left / right
                case "/":
                    return math.trunc(left / right)
                case _:
                    return math.fmod(left, right)
        except (ArithmeticError, ValueError):
            return None if Point.DIVIDE not in self.points else math.nan

    def _compared(self, op: str, left: Any, right: Any) -> bool | None:
        if left is None or right is None:
            return self._compared_with_null(op, left, right)
        if self.converts and _family(left) is not _family(right):
            left, right = _converted(left, right, exact=Point.CONVERT in self.points)
        if _family(left) is not _family(right):
            return op == "<>" and Point.UNLIKE in self.points
        if op == "<>":
            return bool(left != right)
        if op == "=":
            return bool(left == right)
        is_number = isinstance(left, int | float) and not isinstance(left, bool)
        if not is_number and Point.ORDER not in self.points:
            return False
        return bool({"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[op])

    def _compared_with_null(self, op: str, left: Any, right: Any) -> bool | None:
        if op not in ("=", "<>") or Point.NULL not in self.points or (left is None and right is not None):
            return None
        return (left is right) is (op == "=")

    def _like(self, node: Like) -> bool | None:
        held = self.value(node.operand)
        if held is None:
            return None
        if not isinstance(held, str):
            return False
        pattern, escape = self.value(node.pattern), None if node.escape is None else self.value(node.escape)
        pieces, at = [], 0
        while at < len(pattern):
            here, then = pattern[at], pattern[at + 1 : at + 2]
            always = Point.ESCAPE not in self.points
            if here == escape and then and (always or then in ("_", "%", escape)):
                pieces.append(re.escape(then))
                at += 1
            else:
                pieces.append({"%": ".*", "_": "."}.get(here, re.escape(here)))
            at += 1
        return re.fullmatch("".join(pieces), held, re.DOTALL) is not None


def _family(value: Any) -> type:
    if isinstance(value, bool):
        return bool
    return float if isinstance(value, int | float) else type(value)


def _converted(left: Any, right: Any, *, exact: bool) -> tuple[Any, Any]:
    """A text beside a number or boolean, read as one; `exact`: as one of that very type."""
    for text, other, swapped in ((left, right, False), (right, left, True)):
        if isinstance(text, str) and isinstance(other, bool | int | float):
            read = _read_as(text, other, exact=exact)
            if read is not None:
                return (other, read) if swapped else (read, other)
    return left, right


def _read_as(text: str, other: Any, *, exact: bool) -> Any:
    if isinstance(other, bool):
        return text.lower() == "true" if exact or text.lower() in ("true", "false") else None
    if isinstance(other, int) and exact:
        return int(text) if re.fullmatch(r"[+-]?\d+", text, re.ASCII) else None
    if re.fullmatch(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", text, re.ASCII) is None:
        return None
    return int(text) if re.fullmatch(r"[+-]?\d+", text, re.ASCII) else float(text)


def _as_java(value: Any) -> str:
    """A value as Java writes it behind a text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _both(truths: list[bool | None]) -> bool | None:
    return False if False in truths else None if None in truths else True


def _either(truths: list[bool | None]) -> bool | None:
    return True if True in truths else None if None in truths else False
