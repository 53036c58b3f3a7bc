"""CloudEvents SQL read a second time, from its specification (cesql/spec.md 1.0): text to value and errors.

It shares nothing with the product but the typed values of messages: a parser of its own, and evaluation in the
specification's complete mode (§4.1), where an error leaves a value and evaluation goes on.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from bindery.router.message import Message
from bindery.router.values import Timestamp

#: A value and the errors on the way, by their names in §3.3.
Outcome = tuple[Any, tuple[str, ...]]
_TOKEN: Final = re.compile(
    r"""\s*(?:(\d+(?!\w))|('(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")|(\w+)|(<>|!=|<=|>=|[-+*/%=<>(),]))""", re.S
)
_CORE: Final = {"id", "source", "specversion", "type", "datacontenttype", "dataschema", "subject", "time"}
_ZERO: Final = {bool: False, int: 0, str: ""}


def evaluate(text: str, message: Message) -> Outcome:
    """The value of a legal text for a message, and its errors."""
    return _Reading(text, message).logic()()


def _attribute(name: str, message: Message) -> Any:
    held = message.application_properties
    prefix = next(
        (one for one in ("cloudEvents:", "cloudEvents_", "ce_") if held.get(f"{one}specversion") is not None), ""
    )
    value: Any = held.get(prefix + name)
    if type(value) is float:
        value = repr(value)
    elif type(value) is bytes:
        try:
            value = value.decode() if prefix == "ce_" else base64.b64encode(value).decode()
        except UnicodeDecodeError:
            value = None
    elif type(value) is Timestamp:
        try:
            moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=value.ms)
            precise = "milliseconds" if value.ms % 1000 else "seconds"
            value = moment.replace(tzinfo=None).isoformat(timespec=precise) + "Z"
        except OverflowError:
            value = None
    elif type(value) is int and not -(2**31) <= value < 2**31:
        value = str(value)
    elif type(value) not in (bool, int, str):
        value = None
    if value is None and name == "datacontenttype":
        value = message.properties.get("content_type")
    return _text(value) if name in _CORE and value is not None else value


def _text(value: Any) -> str:
    return {True: "true", False: "false"}[value] if type(value) is bool else str(value)


def _cast(outcome: Outcome, to: type) -> Outcome:
    value, errors = outcome
    if type(value) is to or "missing" in errors:
        return value, errors
    if to is str:
        return _text(value), errors
    if type(value) is not str:
        return to(value), errors
    if to is int and re.fullmatch("[+-]?[0-9]+", value) and -(2**31) <= int(value) < 2**31:
        return int(value), errors
    if to is bool and value.lower() in ("true", "false"):
        return value.lower() == "true", errors
    return _ZERO[to], (*errors, "cast")


class _Reading:
    """Recursive descent in the order of §3.6; each rule gives a function without arguments that evaluates."""

    def __init__(self, text: str, message: Message) -> None:
        self.tokens = [match.groups() for match in _TOKEN.finditer(text)]
        self.place = 0
        self.message = message

    def word(self) -> str:
        if self.place == len(self.tokens):
            return ""
        return next((part for part in self.tokens[self.place][2:] if part), "").upper()

    def take(self, *words: str) -> str:
        found = self.word()
        if found in words:
            self.place += 1
            return found
        return ""

    def logic(self) -> Callable[[], Outcome]:
        left = self.comparison()
        while op := self.take("AND", "OR", "XOR"):
            left = _logic(op, left, self.comparison())
        return left

    def comparison(self) -> Callable[[], Outcome]:
        left = self.sum()
        while op := self.take("=", "!=", "<>", "<", "<=", ">", ">="):
            left = _compare(op, left, self.sum())
        return left

    def sum(self) -> Callable[[], Outcome]:
        left = self.product()
        while op := self.take("+", "-"):
            left = _calculate(op, left, self.product())
        return left

    def product(self) -> Callable[[], Outcome]:
        left = self.test()
        while op := self.take("*", "/", "%"):
            left = _calculate(op, left, self.test())
        return left

    def test(self) -> Callable[[], Outcome]:
        left = self.unary()
        while self.word() in ("NOT", "LIKE", "IN"):
            negated = bool(self.take("NOT"))
            if self.take("LIKE"):
                left = _like(left, self.text(), negated)
            elif self.take("IN"):
                left = _in(left, self.list(), negated)
        return left

    def list(self) -> list[Callable[[], Outcome]]:
        self.take("(")
        items = []
        while not self.take(")"):
            items.append(self.logic())
            self.take(",")
        return items

    def text(self) -> str:
        literal = self.tokens[self.place][1]
        self.place += 1
        return literal[1:-1].replace("\\" + literal[0], literal[0])

    def unary(self) -> Callable[[], Outcome]:
        if self.take("NOT"):
            inner = self.unary()
            return lambda: _on(lambda value: (not value, ()), bool, (inner(), bool))
        if self.take("-"):
            inner = self.unary()
            return lambda: _on(lambda value: _fit(-value), int, (inner(), int))
        if self.take("EXISTS"):
            name = self.word().lower()
            self.place += 1
            return lambda: (_attribute(name, self.message) is not None, ())
        if self.take("+"):
            return self.unary()
        return self.atom()

    def atom(self) -> Callable[[], Outcome]:
        number, text, name, _ = self.tokens[self.place]
        if self.take("("):
            inner = self.logic()
            self.take(")")
            return inner
        if text:
            value: Any = self.text()
            return lambda: (value, ())
        self.place += 1
        if number:
            return lambda: (int(number), ())
        if name.upper() in ("TRUE", "FALSE"):
            return lambda: (name.upper() == "TRUE", ())
        if self.word() == "(":
            arguments = self.list()
            return lambda: _FUNCTIONS[name.upper()](*(item() for item in arguments))
        found = _attribute(name.lower(), self.message)
        return lambda: (found, ()) if found is not None else (False, ("missing",))


def _on(compute: Callable[..., Outcome], zero: type, *operands: tuple[Outcome, type | None]) -> Outcome:
    """A function of operands that are cast; a missing attribute leaves the zero value of its result (§3.2)."""
    cast = [one if to is None else _cast(one, to) for one, to in operands]
    errors = tuple(error for _, found in cast for error in found)
    if "missing" in errors:
        return _ZERO[zero], errors
    value, more = compute(*(value for value, _ in cast))
    return value, (*errors, *more)


def _fit(value: int) -> Outcome:
    return (value, ()) if -(2**31) <= value < 2**31 else (0, ("math",))


def _logic(op: str, left: Callable[[], Outcome], right: Callable[[], Outcome]) -> Callable[[], Outcome]:
    def run() -> Outcome:
        value, errors = _cast(left(), bool)
        if not errors and op != "XOR" and value is (op == "OR"):
            return value, ()
        other, more = _cast(right(), bool)
        return {"AND": value and other, "OR": value or other, "XOR": value is not other}[op], (*errors, *more)

    return run


_ORDER: Final = {"<": int.__lt__, "<=": int.__le__, ">": int.__gt__, ">=": int.__ge__}


def _compare(op: str, left: Callable[[], Outcome], right: Callable[[], Outcome]) -> Callable[[], Outcome]:
    def run() -> Outcome:
        if op in _ORDER:
            return _on(lambda one, two: (_ORDER[op](one, two), ()), bool, (left(), int), (right(), int))
        other = right()
        return _on(lambda one, two: ((one == two) is (op == "="), ()), bool, (left(), type(other[0])), (other, None))

    return run


def _calculate(op: str, left: Callable[[], Outcome], right: Callable[[], Outcome]) -> Callable[[], Outcome]:
    def compute(one: int, two: int) -> Outcome:
        if op in "/%":
            if two == 0:
                return 0, ("math",)
            quotient = abs(one) // abs(two) * (1 if (one < 0) == (two < 0) else -1)
            return _fit(quotient if op == "/" else one - two * quotient)
        return _fit({"+": one + two, "-": one - two, "*": one * two}[op])

    return lambda: _on(compute, int, (left(), int), (right(), int))


def _like(left: Callable[[], Outcome], pattern: str, negated: bool) -> Callable[[], Outcome]:
    parts = re.findall(r"\\[%_]|.", pattern, re.S)
    wanted = "".join({"%": ".*", "_": "."}.get(one) or re.escape(one[-1]) for one in parts)
    found = re.compile(wanted, re.S)
    return lambda: _on(lambda text: ((found.fullmatch(text) is None) is negated, ()), bool, (left(), str))


def _in(left: Callable[[], Outcome], members: list[Callable[[], Outcome]], negated: bool) -> Callable[[], Outcome]:
    def run() -> Outcome:
        value, errors = left()
        for member in members:
            other, more = _cast(member(), type(value))
            errors = (*errors, *more)
            if not errors and other == value:
                return not negated, ()
        return negated, errors

    return run


def _side(right: bool) -> Callable[..., Outcome]:
    def compute(text: str, count: int) -> Outcome:
        if count < 0:
            return text, ("function",)
        return text[max(len(text) - count, 0) :] if right else text[:count], ()

    return compute


def _substring(text: str, position: int, length: int = 2**31) -> Outcome:
    if abs(position) > len(text) or length < 0:
        return "", ("function",)
    start = position - 1 if position > 0 else len(text) + position
    return (text[start : start + length] if position else ""), ()


def _function(compute: Callable[..., Outcome], gives: type, *takes: type | None) -> Callable[..., Outcome]:
    return lambda *items: _on(compute, gives, *((item, takes[min(n, len(takes) - 1)]) for n, item in enumerate(items)))


def _absolute(number: int) -> Outcome:
    return (abs(number), ()) if number != -(2**31) else (2**31 - 1, ("math",))


_FUNCTIONS: Final[dict[str, Callable[..., Outcome]]] = {
    "INT": _function(lambda value: (value, ()), int, int),
    "BOOL": _function(lambda value: (value, ()), bool, bool),
    "STRING": _function(lambda value: (value, ()), str, str),
    "IS_INT": _function(lambda value: (not _cast((value, ()), int)[1], ()), bool, None),
    "IS_BOOL": _function(lambda value: (not _cast((value, ()), bool)[1], ()), bool, None),
    "LENGTH": _function(lambda text: (len(text), ()), int, str),
    "CONCAT": _function(lambda *texts: ("".join(texts), ()), str, str),
    "CONCAT_WS": _function(lambda mark, *texts: (mark.join(texts), ()), str, str),
    "LOWER": _function(lambda text: (text.lower(), ()), str, str),
    "UPPER": _function(lambda text: (text.upper(), ()), str, str),
    "TRIM": _function(lambda text: (re.sub(r"^[ \t\n\u2028]+|[ \t\n\u2028]+\Z", "", text), ()), str, str),
    "LEFT": _function(_side(right=False), str, str, int),
    "RIGHT": _function(_side(right=True), str, str, int),
    "SUBSTRING": _function(_substring, str, str, int, int),
    "ABS": _function(_absolute, int, int),
}
