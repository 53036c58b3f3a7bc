"""The reference evaluator: one message, one node at a time, to the letter of docs/filters.md.

Slow and obvious on purpose: it exists to check the vectorised evaluator, to explain a result (`trace`), and to
try a filter without a batch. Conditions give False, None (unknown), `TROUBLE` (unknown because of run-time
trouble) or True; operands give a value, None (null) or `TROUBLE`. See `bindery.router.filters.ast`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from bindery.router.columns import Ref
from bindery.router.filters import arithmetic, fields, like, payload, text
from bindery.router.filters.ast import (
    TROUBLE,
    And,
    Arithmetic,
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
    Rules,
    Sign,
    Trouble,
    Truth,
    XPath,
)
from bindery.router.filters.families import number_of
from bindery.router.message import Message
from bindery.router.values import Table, Timestamp, Value, member_value

Result = Value | Trouble
Rule = Callable[[Any, "Context"], Result]
NodeType = TypeVar("NodeType", bound=Node)

RULES: Final[dict[type[Node], Rule]] = {}


def rule(kind: type[NodeType]) -> Callable[[Callable[[NodeType, Context], Result]], Rule]:
    """Register how a node type is evaluated."""

    def register(function: Callable[[NodeType, Context], Result]) -> Rule:
        RULES[kind] = function
        return function

    return register


@dataclass(slots=True)
class Context:
    """What an evaluation works on.

    `counted` says that trouble has made some operand false rather than unknown (XPATH); `chosen` is what a node around
    chose of what a reference through lists finds (`bindery.router.filters.spread`).
    """

    message: Message
    clock_ms: int = 0
    counted: bool = False
    chosen: Mapping[Ref, Any] = field(default_factory=dict)

    def value(self, node: Node) -> Result:
        """The value of an operand, or the truth of a condition."""
        return RULES[type(node)](node, self)

    def at(self, ref: Ref, element: Any) -> Context:
        """The same where one of the elements is chosen that a reference finds."""
        return replace(self, chosen={**self.chosen, ref: element})


def compare(op: str, left: Result, right: Result, rules: Rules) -> bool | Trouble | None:
    """`left op right`: null gives unknown, unlike families give false for every operator."""
    if left is TROUBLE or right is TROUBLE:
        return TROUBLE
    if left is None or right is None:
        return None
    if rules.converts_text:
        left, right = converted(left, right), converted(right, left)
    if isinstance(left, bool) or isinstance(right, bool):
        both = isinstance(left, bool) and isinstance(right, bool)
        return both and _EQUALITY.get(op, _never)(left, right)
    first, second = number_of(left), number_of(right)
    if first is not None and second is not None:
        return _ORDER[op](first, second)  # Python compares int and float exactly
    if isinstance(left, str | bytes) and type(left) is type(right):
        return (_ORDER if rules.orders_text else _EQUALITY).get(op, _never)(left, right)
    return False


def _never(left: object, right: object) -> bool:
    return False


_EQUALITY: Final[Mapping[str, Callable[[Any, Any], bool]]] = {"=": operator.eq, "<>": operator.ne}
_ORDER: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    **_EQUALITY,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def converted(value: Value, other: Value) -> Value:
    """A string that meets a number or boolean, read as one when it parses (Artemis filter expressions)."""
    if isinstance(value, str):
        read: Value = None
        if isinstance(other, bool):
            read = arithmetic.text_as_flag(value)
        elif number_of(other) is not None:
            read = arithmetic.text_as_number(value)
        return value if read is None else read
    return value


def all_of(*truths: Result) -> bool | Trouble | None:
    """AND: false if any is, else unknown if any is, else trouble if any is, else true."""
    if any(truth is False for truth in truths):
        return False
    if any(truth is None for truth in truths):
        return None
    return TROUBLE if any(truth is TROUBLE for truth in truths) else True


def any_of(*truths: Result) -> bool | Trouble | None:
    """OR: true if any is, else trouble if any is, else unknown if any is, else false."""
    if any(truth is True for truth in truths):
        return True
    if any(truth is TROUBLE for truth in truths):
        return TROUBLE
    return None if any(truth is None for truth in truths) else False


def none_of(truth: Result) -> bool | Trouble | None:
    """NOT: unknown stays unknown."""
    return (not truth) if isinstance(truth, bool) else None if truth is None else TROUBLE


@rule(Literal)
def _literal(node: Literal, context: Context) -> Result:
    return node.value


@rule(Field)
def _field(node: Field, context: Context) -> Result:
    if node.ref in context.chosen:
        return context.chosen[node.ref]  # type: ignore[no-any-return]  # a value of Python's types
    if node.ref.section == payload.PAYLOAD:
        return payload.look_up(context.message, node.ref).value
    return fields.read(context.message, node.ref)


@rule(Element)
def _element(node: Element, context: Context) -> Result:
    return pick(context.value(node.of), context.value(node.index))


def pick(of: Result, index: Result) -> Result:
    """A member of a nested value; null when there is none."""
    if of is TROUBLE or index is TROUBLE:
        return TROUBLE
    if isinstance(of, tuple) and isinstance(index, int) and not isinstance(index, bool):
        return member_value(of[index]) if 0 <= index < len(of) else None
    if isinstance(of, Table) and isinstance(index, str):
        return member_value(of.get(index))
    return None


@rule(Sign)
def _sign(node: Sign, context: Context) -> Result:
    value = context.value(node.operand)
    if value is None or value is TROUBLE:
        return value
    number = as_number(value, node.rules)
    if number is None:
        return TROUBLE
    return within(arithmetic.negate(number), node.rules) if node.op == "-" else number


@rule(Arithmetic)
def _arithmetic(node: Arithmetic, context: Context) -> Result:
    result = context.value(node.first)
    for op, operand in zip(node.ops, node.rest, strict=True):
        result = calculate(op, result, context.value(operand), node.rules)
    return result


def calculate(op: str, left: Result, right: Result, rules: Rules) -> Result:
    """`left op right` for two values of any type."""
    if left is TROUBLE or right is TROUBLE:
        return TROUBLE
    if left is None or right is None:
        return None
    if rules.joins_text and op == "+" and isinstance(left, str) and isinstance(right, str):
        return left + right
    first, second = as_number(left, rules), as_number(right, rules)
    if first is None or second is None:
        return TROUBLE
    return within(arithmetic.calculate(op, first, second, floating_division=rules.floating_division), rules)


def within(result: int | float | Trouble, rules: Rules) -> int | float | Trouble:
    """The result of arithmetic, or trouble for an integer that has more bits than the language gives it."""
    return result if not isinstance(result, int) or -rules.most - 1 <= result <= rules.most else TROUBLE


def as_number(value: Result, rules: Rules) -> int | float | None:
    """The number that an operand of arithmetic is, texts read where the language does so; None when it is none."""
    if isinstance(value, str) and rules.converts_text:
        return arithmetic.text_as_number(value)
    return number_of(value)


@rule(Call)
def _call(node: Call, context: Context) -> Result:
    return call(node.function, tuple(context.value(item) for item in node.arguments), context.clock_ms)


def call(function: str, arguments: tuple[Result, ...], clock_ms: int) -> Result:
    """A function of the SQL filter; a wrong type or bound is trouble, null gives null."""
    if any(value is TROUBLE for value in arguments):
        return TROUBLE
    if any(value is None for value in arguments):
        return None
    result: Value = FUNCTIONS[function](*arguments) if arguments else Timestamp(clock_ms)
    return TROUBLE if result is None else result


def _cased(change: Callable[[str], str]) -> Callable[[Value], Value]:
    return lambda value: change(value) if isinstance(value, str) else None


def _count(value: Value, least: int = 0) -> int | None:
    """The value as a bound, when it is an integer that is not too small."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= least else None


def _left(value: Value, count: Value) -> Value:
    size = _count(count)
    return value[:size] if isinstance(value, str) and size is not None else None


def _right(value: Value, count: Value) -> Value:
    size = _count(count)
    return value[max(len(value) - size, 0) :] if isinstance(value, str) and size is not None else None


def _substring(value: Value, start: Value, count: Value) -> Value:
    first, size = _count(start, 1), _count(count)
    if not isinstance(value, str) or first is None or size is None:
        return None
    return value[first - 1 :][:size]


def _date(value: Value) -> Value:
    ms = text.date_to_ms(value) if isinstance(value, str) else None
    return None if ms is None else Timestamp(ms)


#: Functions of one or more values; None means that they do not apply.
FUNCTIONS: Final[Mapping[str, Callable[..., Value]]] = {
    "LOWER": _cased(text.lower),
    "UPPER": _cased(text.upper),
    "LEFT": _left,
    "RIGHT": _right,
    "SUBSTRING": _substring,
    "DATE": _date,
}


@rule(Truth)
def _truth(node: Truth, context: Context) -> Result:
    value = context.value(node.operand)
    return value if isinstance(value, bool) or value is TROUBLE else None


@rule(Compare)
def _compare(node: Compare, context: Context) -> Result:
    return compare(node.op, context.value(node.left), context.value(node.right), node.rules)


@rule(Between)
def _between(node: Between, context: Context) -> Result:
    value, low, high = context.value(node.operand), context.value(node.low), context.value(node.high)
    if node.negated:
        return any_of(compare("<", value, low, node.rules), compare(">", value, high, node.rules))
    return all_of(compare(">=", value, low, node.rules), compare("<=", value, high, node.rules))


@rule(In)
def _in(node: In, context: Context) -> Result:
    value = context.value(node.operand)
    # no conversion of strings in IN (docs/filters.md)
    return any_of(*(compare("=", value, context.value(member), Rules()) for member in node.members))


@rule(Like)
def _like(node: Like, context: Context) -> Result:
    value, pattern = context.value(node.operand), context.value(node.pattern)
    if node.escape is None:
        return match(value, pattern, longest=node.longest)
    return match(value, pattern, context.value(node.escape), longest=node.longest)


def match(value: Result, pattern: Result, *escape: Result, longest: int) -> bool | Trouble | None:
    """LIKE with at most one escape; a bad escape or a computed pattern that is too long is trouble."""
    operands = (value, pattern, *escape)
    if any(item is TROUBLE for item in operands):
        return TROUBLE
    if any(item is None for item in operands):
        return None
    mark = escape[0] if escape else None
    if escape and (not isinstance(mark, str) or len(mark) != 1):
        return TROUBLE
    if not isinstance(pattern, str):
        return False
    compiled = like.compile_pattern(pattern, str(mark) if escape else None) if len(pattern) <= longest else None
    if compiled is None:
        return TROUBLE
    return isinstance(value, str) and like.matches(value, compiled)


@rule(IsNull)
def _is_null(node: IsNull, context: Context) -> Result:
    value = context.value(node.operand)
    return value is None or value is TROUBLE


@rule(XPath)
def _xpath(node: XPath, context: Context) -> Result:
    from bindery.router.filters import xpath  # noqa: PLC0415  # an XML parser, loaded when a filter needs it

    document = fields.read(context.message, fields.DOCUMENT)
    if not isinstance(document, str | bytes):
        return False
    outcome = xpath.XPathDocuments(limits=node.limits).outcome(xpath.compile(node.expression), document)
    context.counted |= outcome.trouble
    return outcome.value


@rule(And)
def _and(node: And, context: Context) -> Result:
    return all_of(*(context.value(part) for part in node.parts))


@rule(Or)
def _or(node: Or, context: Context) -> Result:
    return any_of(*(context.value(part) for part in node.parts))


@rule(Not)
def _not(node: Not, context: Context) -> Result:
    return none_of(context.value(node.part))
