"""The core function library of XPath 1.0 (§4) and the conversions between its four types."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Union, cast

from bindery.router.filters.xpath.document import ATTRIBUTE, ELEMENT, INSTRUCTION, NAMESPACE, XML_NAMESPACE
from bindery.router.filters.xpath.run import Run

XPathValue = Union[float, str, bool, "list[int]"]

_SPACES: Final = " \t\r\n"
_NUMBER: Final = re.compile(r"-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_RUNS: Final = re.compile(r"[ \t\r\n]+")


class TypeMismatch(Exception):
    """A value that is no node set where only a node set will do: a run-time error of the operand."""


@dataclass(frozen=True, slots=True)
class Argument:
    """What a function gets: its evaluated arguments and the context."""

    values: list[XPathValue]
    node: int
    position: int
    size: int

    def nodes(self, index: int = 0) -> list[int]:
        """The node set at an index; the context node when it was left out."""
        if index >= len(self.values):
            return [self.node]
        value = self.values[index]
        if not isinstance(value, list):
            raise TypeMismatch
        return value

    def text(self, run: Run, index: int = 0) -> str:
        """The string at an index; that of the context node when it was left out."""
        return to_text(run, self.values[index] if index < len(self.values) else [self.node])

    def number(self, run: Run, index: int = 0) -> float:
        """The number at an index; that of the context node when it was left out."""
        return to_number(run, self.values[index] if index < len(self.values) else [self.node])


def to_boolean(value: XPathValue) -> bool:
    """§4.3 boolean()."""
    if isinstance(value, float):
        return value != 0 and not math.isnan(value)
    return bool(value)


def to_text(run: Run, value: XPathValue) -> str:
    """§4.2 string(): a node set gives its first node in document order, numbers never an exponent."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return run.string_value(value[0]) if value else ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return format(Decimal(repr(value + 0.0)), "f").removesuffix(".0")


def to_number(run: Run | None, value: XPathValue) -> float:
    """§4.4 number(): optional minus and decimal digits; anything else is NaN."""
    if isinstance(value, float):
        return value
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, list):
        if not value:
            return math.nan
        value = cast("Run", run).string_value(value[0])
    text = value.strip(_SPACES)
    return float(text) if _NUMBER.fullmatch(text) else math.nan


def _first(run: Run, argument: Argument) -> int | None:
    nodes = argument.nodes()
    return nodes[0] if nodes else None


_NAMED: Final = (ELEMENT, ATTRIBUTE, INSTRUCTION, NAMESPACE)


def _local_name(run: Run, argument: Argument) -> str:
    node = _first(run, argument)
    return run.document.name[node] if node is not None and run.document.kind[node] in _NAMED else ""


def _namespace_uri(run: Run, argument: Argument) -> str:
    node = _first(run, argument)
    return run.document.uri[node] if node is not None else ""


def _name(run: Run, argument: Argument) -> str:
    node = _first(run, argument)
    local = _local_name(run, argument)
    prefix = run.document.prefix[node] if node is not None else ""
    return f"{prefix}:{local}" if prefix else local


def _concat(run: Run, argument: Argument) -> str:
    joined = "".join(argument.text(run, index) for index in range(len(argument.values)))
    run.charge(len(joined) // 64)
    return joined


def _substring_before(run: Run, argument: Argument) -> str:
    head, found, _ = _partition(argument.text(run, 0), argument.text(run, 1))
    return head if found else ""


def _substring_after(run: Run, argument: Argument) -> str:
    return _partition(argument.text(run, 0), argument.text(run, 1))[2]


def _partition(text: str, mark: str) -> tuple[str, bool, str]:
    at = text.find(mark)
    return (text[:at], True, text[at + len(mark) :]) if at >= 0 else ("", False, "")


def _substring(run: Run, argument: Argument) -> str:
    text = argument.text(run, 0)
    first = _rounded(argument.number(run, 1))
    last = first + _rounded(argument.number(run, 2)) if len(argument.values) > 2 else math.inf
    if math.isnan(first) or math.isnan(last):
        return ""
    low = 1 if first < 1 else first
    high = min(last, len(text) + 1)
    return text[int(low) - 1 : int(high) - 1] if low < high else ""


def _translate(run: Run, argument: Argument) -> str:
    text, source, target = (argument.text(run, index) for index in range(3))
    table: dict[int, str | None] = {}
    for position, char in enumerate(source):
        table.setdefault(ord(char), target[position] if position < len(target) else None)
    return text.translate(table)


def _lang(run: Run, argument: Argument) -> bool:
    wanted = argument.text(run).lower()
    document, node = run.document, argument.node
    while node >= 0:
        if document.kind[node] == ELEMENT:
            run.charge(1 + len(document.attributes(node)))
            for attribute in document.attributes(node):
                if document.name[attribute] == "lang" and document.uri[attribute] == XML_NAMESPACE:
                    found = document.text[attribute].lower()
                    return found == wanted or found.startswith(wanted + "-")
        node = document.parent[node]
    return False


def _id(run: Run, argument: Argument) -> XPathValue:
    # without a DTD no attribute is of type ID (§5.2.1), so no element has one
    return []


def _sum(run: Run, argument: Argument) -> float:
    return sum((to_number(run, [node]) for node in argument.nodes()), 0.0)


def _rounded(value: float) -> float:
    """§4.4 round(): the closest integer, halves upwards; zero keeps its sign."""
    if math.isnan(value) or math.isinf(value) or value == 0:
        return value
    whole = math.floor(value)
    nearest = float(whole + 1 if value - whole >= 0.5 else whole)
    return math.copysign(nearest, value) if nearest == 0 else nearest


def _whole(round_to: Callable[[float], int]) -> Callable[[Run, Argument], float]:
    def apply(run: Run, argument: Argument) -> float:
        value = argument.number(run)
        return value if math.isnan(value) or math.isinf(value) else float(round_to(value))

    return apply


@dataclass(frozen=True, slots=True)
class Function:
    """A function: its argument counts, whether it gives a number, and what it reads of the context."""

    apply: Callable[[Run, Argument], XPathValue]
    fewest: int = 0
    most: int = 0
    numeric: bool = False
    positional: bool = False
    context: bool = False

    @property
    def counts(self) -> str:
        """How many arguments it takes, in words."""
        if self.most > 1000:
            return f"{self.fewest} or more arguments"
        if self.fewest == self.most:
            return f"{self.most} argument{'' if self.most == 1 else 's'}"
        return f"{self.fewest} to {self.most} arguments"

    def reads_context(self, given: int) -> bool:
        """Whether the value depends on the context besides the arguments."""
        return self.context or self.positional or (self.fewest == 0 and self.most == 1 and given == 0)


_MANY: Final = 1_000_000

FUNCTIONS: Final = {
    "last": Function(lambda run, a: float(a.size), positional=True, numeric=True),
    "position": Function(lambda run, a: float(a.position), positional=True, numeric=True),
    "count": Function(lambda run, a: float(len(a.nodes())), 1, 1, numeric=True),
    "id": Function(_id, 1, 1),
    "local-name": Function(_local_name, 0, 1),
    "namespace-uri": Function(_namespace_uri, 0, 1),
    "name": Function(_name, 0, 1),
    "string": Function(lambda run, a: a.text(run), 0, 1),
    "concat": Function(_concat, 2, _MANY),
    "starts-with": Function(lambda run, a: a.text(run, 0).startswith(a.text(run, 1)), 2, 2),
    "contains": Function(lambda run, a: a.text(run, 1) in a.text(run, 0), 2, 2),
    "substring-before": Function(_substring_before, 2, 2),
    "substring-after": Function(_substring_after, 2, 2),
    "substring": Function(_substring, 2, 3),
    "string-length": Function(lambda run, a: float(len(a.text(run))), 0, 1, numeric=True),
    "normalize-space": Function(lambda run, a: _RUNS.sub(" ", a.text(run)).strip(" "), 0, 1),
    "translate": Function(_translate, 3, 3),
    "boolean": Function(lambda run, a: to_boolean(a.values[0]), 1, 1),
    "not": Function(lambda run, a: not to_boolean(a.values[0]), 1, 1),
    "true": Function(lambda run, a: True),
    "false": Function(lambda run, a: False),
    "lang": Function(_lang, 1, 1, context=True),
    "number": Function(lambda run, a: a.number(run), 0, 1, numeric=True),
    "sum": Function(_sum, 1, 1, numeric=True),
    "floor": Function(_whole(math.floor), 1, 1, numeric=True),
    "ceiling": Function(_whole(math.ceil), 1, 1, numeric=True),
    "round": Function(lambda run, a: _rounded(a.number(run)), 1, 1, numeric=True),
}
