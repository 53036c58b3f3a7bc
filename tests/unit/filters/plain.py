"""Text filters read a second time, from docs/filters.md: the tree interpreted without any of the product's rules.

It shares the syntax tree and the typed values with the evaluators and nothing else, so that it also judges what
those two have in common (LIKE, functions, conversions, nested references, derived fields). Slow, and for the
texts that the tests use: dates and letters beyond those are tested by their own rules.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Final

import numpy as np

from bindery.router.filters import ast, deviations
from bindery.router.filters.ast import TROUBLE
from bindery.router.filters.fields import DERIVED
from bindery.router.message import MAP_SECTIONS, Message
from bindery.router.values import TIMESTAMP_MAX, TIMESTAMP_MIN, Table, Timestamp

_DEFAULTS: Final = {"durable": False, "priority": 4, "first_acquirer": False, "delivery_count": 0}


def evaluate(node: ast.Node, message: Message, clock_ms: int = 0) -> Any:
    """True, False, None (unknown) or TROUBLE of a condition; the value, None or TROUBLE of an operand."""
    return _Reading(message, clock_ms).of(node)


class _Reading:
    def __init__(self, message: Message, clock_ms: int) -> None:
        self.message = message
        self.clock_ms = clock_ms

    def of(self, node: ast.Node) -> Any:
        return getattr(self, f"_{type(node).__name__.lower()}")(node)

    # operands

    def _literal(self, node: ast.Literal) -> Any:
        return node.value

    def _field(self, node: ast.Field) -> Any:
        section, name = node.ref.section, node.ref.name
        if section == DERIVED:
            return self._derived(name)
        content = getattr(self.message, section)
        if section in MAP_SECTIONS or name:
            found = content.get(name)
            return _DEFAULTS.get(name) if found is None and section == "header" else found
        return content

    def _derived(self, name: str) -> Any:
        message = self.message
        durable, attempts = message.header.get("durable") is True, message.header.get("delivery_count") or 0
        match name:
            case "delivery_mode":
                return "PERSISTENT" if durable else "NON_PERSISTENT"
            case "durability":
                return "DURABLE" if durable else "NON_DURABLE"
            case "redelivered":
                return attempts > 0
            case "attempts":
                return attempts + 1 if attempts + 1 < 2**63 else None
            case "jms_type":
                types = [message.message_annotations.get(key) for key in ("x-opt-jms-type", "jms-type")]
                return types[1] if types[0] is None else types[0]
            case "user_text":
                try:
                    return message.properties["user_id"].decode()
                except (KeyError, UnicodeDecodeError):
                    return None
            case "address":
                return message.properties.get("to", message.exchange if message.exchange != "" else message.routing_key)
            case "expiration":
                if "absolute_expiry_time" in message.properties or "ttl" not in message.header:
                    return message.properties.get("absolute_expiry_time", 0)
                if "creation_time" not in message.properties:
                    return None
                ms = message.properties["creation_time"].ms + message.header["ttl"]
                return Timestamp(sorted((TIMESTAMP_MIN, ms, TIMESTAMP_MAX))[1])
            case "body_size":
                return len(message.body or b"")
        raise AssertionError(f"a derived field that this reading does not know: {name}")

    def _element(self, node: ast.Element) -> Any:
        of, index = self.of(node.of), self.of(node.index)
        if TROUBLE in (of, index):
            return TROUBLE
        try:
            if type(of) is tuple and type(index) is int and index >= 0:
                return of[index]
            if type(of) is Table and type(index) is str:
                return of[index]
        except (IndexError, KeyError):
            pass
        return None

    def _sign(self, node: ast.Sign) -> Any:
        return self._calculate("-" if node.op == "-" else "+", 0, self.of(node.operand), node.rules, unary=True)

    def _arithmetic(self, node: ast.Arithmetic) -> Any:
        result = self.of(node.first)
        for op, item in zip(node.ops, node.rest, strict=True):
            result = self._calculate(op, result, self.of(item), node.rules)
        return result

    def _calculate(self, op: str, left: Any, right: Any, rules: ast.Rules, *, unary: bool = False) -> Any:
        if TROUBLE in (left, right):
            return TROUBLE
        if left is None or right is None:
            return None
        if rules.joins_text and op == "+" and type(left) is type(right) is str:
            return left + right
        numbers = [_number(_converted(side, 0) if rules.converts_text else side) for side in (left, right)]
        if None in numbers:
            return TROUBLE
        one, two = numbers
        if unary and type(two) is float:  # the sign of zero counts: no subtraction
            return -two if op == "-" else two
        if type(one) is type(two) is int and not (op == "/" and rules.floating_division):
            if op in "/%" and two == 0:
                return TROUBLE
            # towards zero; what remains has the sign of the dividend
            quotient = math.trunc(Fraction(one, two)) if op in "/%" else 0
            whole = {"+": one + two, "-": one - two, "*": one * two, "/": quotient, "%": one - quotient * two}[op]
            return whole if -(2**63) <= whole < 2**63 else TROUBLE
        if type(one) is type(two) is int and two == 0:
            return TROUBLE
        with np.errstate(all="ignore"):
            work = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "%": np.fmod}[op]
            return float(work(np.float64(one), np.float64(two)))

    def _call(self, node: ast.Call) -> Any:
        values = [self.of(item) for item in node.arguments]
        if TROUBLE in values:
            return TROUBLE
        if None in values:
            return None
        match node.function, values:
            case "UTC", []:
                return Timestamp(self.clock_ms)
            case "LOWER", [str(text)]:
                return "".join(_one(char, char.lower()) for char in text)
            case "UPPER", [str(text)]:
                return "".join(_one(char, char.upper()) for char in text)
            case "DATE", [str(text)]:
                return _date(text)
            case "LEFT", [str(text), int(count)] if _counts(count, 0):
                return "".join(char for n, char in enumerate(text) if n < count)
            case "RIGHT", [str(text), int(count)] if _counts(count, 0):
                return "".join(char for n, char in enumerate(text) if n >= len(text) - count)
            case "SUBSTRING", [str(text), int(first), int(count)] if _counts(first, 1) and _counts(count, 0):
                return "".join(char for n, char in enumerate(text, 1) if first <= n < first + count)
        return TROUBLE

    # conditions

    def _truth(self, node: ast.Truth) -> Any:
        value = self.of(node.operand)
        return value if type(value) is bool or value is TROUBLE else None

    def _compare(self, node: ast.Compare) -> Any:
        return _compared(node.op, self.of(node.left), self.of(node.right), node.rules)

    def _between(self, node: ast.Between) -> Any:
        value, low, high = self.of(node.operand), self.of(node.low), self.of(node.high)
        if node.negated:
            return _or([_compared("<", value, low, node.rules), _compared(">", value, high, node.rules)])
        return _and([_compared(">=", value, low, node.rules), _compared("<=", value, high, node.rules)])

    def _in(self, node: ast.In) -> Any:
        value = self.of(node.operand)
        return _or([_compared("=", value, self.of(item), ast.Rules()) for item in node.members])

    def _like(self, node: ast.Like) -> Any:
        value, pattern = self.of(node.operand), self.of(node.pattern)
        marks = [] if node.escape is None else [self.of(node.escape)]
        if TROUBLE in (value, pattern, *marks):
            return TROUBLE
        if None in (value, pattern, *marks):
            return None
        if any(type(mark) is not str or len(mark) != 1 for mark in marks):
            return TROUBLE
        if type(pattern) is not str:
            return False
        expression = _expression(pattern, *marks) if len(pattern) <= node.longest else None
        if expression is None:
            return TROUBLE
        return type(value) is str and re.fullmatch(expression, value, re.DOTALL) is not None

    def _isnull(self, node: ast.IsNull) -> Any:
        return self.of(node.operand) in (None, TROUBLE)

    def _and(self, node: ast.And) -> Any:
        return _and([self.of(part) for part in node.parts])

    def _or(self, node: ast.Or) -> Any:
        return _or([self.of(part) for part in node.parts])

    def _not(self, node: ast.Not) -> Any:
        truth = self.of(node.part)
        return not truth if type(truth) is bool else truth

    # what compatibility modes put in their place (docs/compat.md)

    def _same(self, node: deviations.Same) -> Any:
        left, right = self.of(node.left), self.of(node.right)
        if TROUBLE in (left, right):
            return TROUBLE
        missing = (left is None, right is None)
        if any(missing):
            return {(True, True): node.both, (True, False): node.one_left, (False, True): node.one_right}[missing]
        if node.bytes and {type(left), type(right)} == {str, bytes}:
            return _bytes(left) == _bytes(right)
        return _compared("=", left, right, node.rules)

    def _oneof(self, node: deviations.OneOf) -> Any:
        value = self.of(node.operand)
        if value is None or value is TROUBLE:
            return value
        members = [self.of(item) for item in node.members]
        texts = type(value) in (str, bytes)
        return any(
            _bytes(value) == _bytes(item)
            if texts and type(item) in (str, bytes)
            else _compared("=", value, item, ast.Rules()) is True
            for item in members
        )

    def _inturn(self, node: deviations.InTurn) -> Any:
        first, *rest = node.parts
        truth = self.of(first)
        if not rest or (truth is True) is not node.conjunction:
            return truth
        return self._inturn(deviations.InTurn(node.conjunction, tuple(rest)))

    def _ontext(self, node: deviations.OnText) -> Any:
        value = self.of(node.test.operand)
        return self.of(node.test) if type(value) is str or value is TROUBLE else None

    def _flag(self, node: deviations.Flag) -> Any:
        value = self.of(node.operand)
        return value if value is None or value is TROUBLE else value is True


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


#: The truths in order: AND is the least, OR the greatest.
_ORDER: Final = (False, None, TROUBLE, True)


def _and(truths: list[Any]) -> Any:
    return _ORDER[min(map(_ORDER.index, truths))]


def _or(truths: list[Any]) -> Any:
    return _ORDER[max(map(_ORDER.index, truths))]


def _compared(op: str, left: Any, right: Any, rules: ast.Rules) -> Any:
    if TROUBLE in (left, right):
        return TROUBLE
    if left is None or right is None:
        return None
    if rules.converts_text:
        left, right = _converted(left, right), _converted(right, left)
    one, two = _number(left), _number(right)
    if one is not None and two is not None:
        if math.isnan(one) or math.isnan(two):
            return op == "<>"
        return _holds(op, _exactly(one), _exactly(two))
    if type(left) is not type(right) or type(left) not in (bool, str, bytes):
        return False
    if op not in ("=", "<>") and (type(left) is bool or not rules.orders_text):
        return False
    if type(left) is str:
        left, right = ([ord(char) for char in side] for side in (left, right))
    return _holds(op, left, right)


def _holds(op: str, left: Any, right: Any) -> bool:
    return bool(
        {"=": left == right, "<>": left != right, "<": left < right, ">": right < left}[op]
        if op in ("=", "<>", "<", ">")
        else left == right or _holds(op[0], left, right)
    )


def _number(value: Any) -> int | float | None:
    if type(value) is Timestamp:
        return int(value.ms)
    if type(value) is int:  # inside a list or map there are larger ones, which are no numbers here
        return value if -(2**63) <= value < 2**63 else None
    return value if type(value) is float else None


def _exactly(number: int | float) -> Any:
    """A number that compares without rounding."""
    return number if isinstance(number, float) and math.isinf(number) else Fraction(number)


def _converted(value: Any, other: Any) -> Any:
    if type(value) is not str or type(other) is str:
        return value
    if type(other) is bool:
        return value.lower() == "true" if value.lower() in ("true", "false") else value
    if _number(other) is None or not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", value):
        return value
    if set(value) & set(".eE"):
        return float(value) if math.isfinite(float(value)) else value
    return int(value) if -(2**63) <= int(value) < 2**63 else value


def _expression(pattern: str, mark: str | None = None) -> str | None:
    """The pattern of LIKE as a regular expression; None when it ends with its escape."""
    parts: list[str] = []
    chars = iter(pattern)
    for char in chars:
        if char == mark:
            taken = next(chars, None)
            if taken is None:
                return None
            parts.append(re.escape(taken))
        else:
            parts.append({"%": ".*", "_": "."}.get(char, re.escape(char)))
    return "".join(parts)


def _one(char: str, mapped: str) -> str:
    return mapped if len(mapped) == 1 else char


_counts: Callable[[Any, int], bool] = lambda value, least: type(value) is int and value >= least  # noqa: E731


def _date(text: str) -> Any:
    if not re.match(r"\d{4}-\d\d-\d\d", text):
        return TROUBLE
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return TROUBLE
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return Timestamp(round(moment.timestamp() * 1000))
