"""Filters that accept a message as well: constants made wider, conditions left out, or no filter at all.

Whatever a filter accepted before, the wider one accepts too: parts are widened only where they stand under AND and OR,
and what stands under NOT, or compares two fields, is left out as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from bindery.router.errors import BinderyError
from bindery.router.filters import Filter
from bindery.router.filters.ast import (
    And,
    Between,
    Compare,
    Condition,
    Field,
    In,
    IsNull,
    Like,
    Literal,
    Node,
    Or,
    Rules,
    Trouble,
)
from bindery.router.filters.printer import Printer, normal_form
from bindery.router.filters.scalar import Context
from bindery.router.message import Message
from bindery.router.values import Value

#: Characters of a value that a filter is made to name.
_LONGEST_VALUE: Final = 100
#: How much wider a filter becomes: a constant moves, a condition goes.
_MOVED, _GONE = 2, 4
_TURNED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Wider:
    """A wider filter: its text (None: no filter is left), what becomes of it in words, and how much wider it is."""

    text: str | None
    says: str
    breadth: int


def wider(filter: Filter, message: Message, *, clock_ms: int, reads: Callable[[str], Filter]) -> Iterator[Wider]:
    """Wider filters that accept a message which the given one does not, the least wide first.

    `reads` is how the language reads a text where the filter stands; what cannot be written in it is left out.
    """
    context = Context(message, clock_ms)
    printer = Printer(filter.dialect)
    seen: set[str] = set()
    for moving in (True, False):
        changes = _Changes(context, printer, moving=moving)
        node = changes.of(filter.expression)
        if node is None:
            continue
        text = normal_form(node, filter.dialect)
        try:
            accepts = Context(message, clock_ms).value(reads(text).expression) is True
        except BinderyError:  # beyond the language or its limits
            continue
        if accepts and text not in seen:
            seen.add(text)
            yield Wider(text, " and ".join(changes.said), changes.breadth)
    yield Wider(None, f"the filter {printer.text(filter.expression)} goes", 2 * _GONE)


class _Changes:
    """What is done to the conditions of a filter that are not true; `moving`: constants are moved where that helps."""

    def __init__(self, context: Context, printer: Printer, *, moving: bool) -> None:
        self._context = context
        self._printer = printer
        self._moving = moving
        self.said: list[str] = []
        self.breadth = 0

    def of(self, node: Node) -> Node | None:
        """The condition that accepts the message; None where nothing is left of it."""
        if self._context.value(node) is True:
            return node
        if isinstance(node, And):
            parts = []
            for part in node.parts:
                kept = self.of(part)
                if kept is None:
                    self._note(_GONE, f"{self._printer.text(part)} goes")
                else:
                    parts.append(kept)
            return None if not parts else parts[0] if len(parts) == 1 else And(tuple(parts))
        if not self._moving:
            return None
        if isinstance(node, Or):
            for place, part in enumerate(node.parts):
                inner = _Changes(self._context, self._printer, moving=True)
                moved = inner.of(part)
                if moved is not None:
                    self.said += inner.said
                    self.breadth += inner.breadth
                    return Or((*node.parts[:place], moved, *node.parts[place + 1 :]))
            return None
        widened = _widened(node, self._context)
        if widened is not None:
            self._note(_MOVED, f"{self._printer.text(widened)} instead of {self._printer.text(node)}")
        return widened

    def _note(self, breadth: int, words: str) -> None:
        self.said.append(words)
        self.breadth += breadth


def _widened(node: Node, context: Context) -> Condition | None:
    """A condition on one field that lets in the value which the message has there too."""
    match node:
        case Compare():
            return _compared(node, context)
        case In(operand=Field() as field):
            return _or_equal(node, field, context, In(field, (*node.members, Literal(_held(field, context)))))
        case Between(operand=Field() as field, low=Literal() as low, high=Literal() as high, negated=False):
            value = _held(field, context)
            if not _is_number(value):
                return _or_equal(node, field, context)
            below = context.value(Compare("<", field, low, node.rules)) is True
            above = context.value(Compare(">", field, high, node.rules)) is True
            return replace(node, low=Literal(value) if below else low, high=Literal(value) if above else high)
        case Like(operand=Field() as field):
            return _or_equal(node, field, context)
    return None


def _compared(node: Compare, context: Context) -> Condition | None:
    for field, constant in node.sides:
        op = node.op if node.left is field else _TURNED[node.op]
        value = _held(field, context)
        if op in ("<", "<=", ">", ">=") and _is_number(value) and _is_number(constant.value):
            return Compare(op[0] + "=", field, Literal(value), node.rules)
        if op == "=" or value is None:
            several = In(field, (constant, Literal(value))) if isinstance(constant.value, str) else None
            return _or_equal(node, field, context, several)
        return None
    return None


def _or_equal(node: Condition, field: Field, context: Context, several: In | None = None) -> Condition | None:
    """The condition, or the field has the value of the message; `several` says the same in one, of texts."""
    value = _held(field, context)
    if value is None:
        return Or((node, IsNull(field)))
    if isinstance(value, str):
        if len(value) > _LONGEST_VALUE:
            return None
        if several is not None:
            return several
    elif not isinstance(value, bool | int | float):
        return None
    return Or((node, Compare("=", field, Literal(value), Rules())))


def _held(field: Field, context: Context) -> Value:
    """What the message has in a field; None also where that cannot be computed."""
    value = context.value(field)
    return None if isinstance(value, Trouble) else value


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
