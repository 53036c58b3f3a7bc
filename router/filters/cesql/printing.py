"""How a tree is written in CloudEvents SQL: casts are left out, since parsing puts them where they were."""

from __future__ import annotations

from functools import partial

from bindery.router.filters.ast import (
    And,
    Arithmetic,
    Compare,
    In,
    IsNull,
    Like,
    Literal,
    Node,
    Not,
    Sign,
    Truth,
)
from bindery.router.filters.cesql.nodes import Cast, CastLike, InOrder, Invocation, MemberOf
from bindery.router.filters.cesql.patterns import written_pattern
from bindery.router.filters.printer import Printer, prints

#: How tightly a text binds (CESQL 1.0 §3.6).
LOGIC, COMPARISON, SUM, PRODUCT, TEST, UNARY, ATOM = range(7)
_prints = partial(prints, grammar="cesql.lark")
Written = tuple[str, int]


def quoted(text: str) -> str:
    """A string literal; the quote is chosen that has no backslash before it in the text."""
    quote = '"' if "\\'" in text else "'"
    return quote + text.replace(quote, "\\" + quote) + quote


@_prints(Literal)
def _literal(node: Literal, printer: Printer) -> Written:
    if isinstance(node.value, str):
        return quoted(node.value), ATOM
    if isinstance(node.value, bool):
        return str(node.value).upper(), ATOM
    text = str(node.value)
    return text, UNARY if text.startswith("-") else ATOM


@_prints(Truth)
def _truth(node: Truth, printer: Printer) -> Written:
    return printer.written(node.operand)


@_prints(Cast)
def _cast(node: Cast, printer: Printer) -> Written:
    return printer.written(node.operand)


@_prints(CastLike)
def _cast_like(node: CastLike, printer: Printer) -> Written:
    return printer.written(node.operand)


@_prints(Invocation)
def _invocation(node: Invocation, printer: Printer) -> Written:
    return f"{node.function}({', '.join(map(printer.text, node.arguments))})", ATOM


@_prints(Sign)
def _sign(node: Sign, printer: Printer) -> Written:
    return node.op + printer.text(node.operand, UNARY), UNARY


@_prints(Arithmetic)
def _arithmetic(node: Arithmetic, printer: Printer) -> Written:
    level = SUM if node.ops[0] in "+-" else PRODUCT
    text = printer.text(node.first, level + 1)
    for op, operand in zip(node.ops, node.rest, strict=True):
        text += f" {op} {printer.text(operand, level + 1)}"
    return text, level


def _compare(node: Compare, printer: Printer, op: str = "") -> Written:
    return f"{printer.text(node.left, SUM)} {op or node.op} {printer.text(node.right, SUM)}", COMPARISON


def _like(node: Like, printer: Printer, negation: str = "") -> Written:
    pattern = quoted(written_pattern(str(node.pattern.value))) if isinstance(node.pattern, Literal) else "?"
    return f"{printer.text(node.operand, UNARY)} {negation}LIKE {pattern}", TEST


def _member(node: In | MemberOf, printer: Printer, negation: str = "") -> Written:
    return f"{printer.text(node.operand, UNARY)} {negation}IN ({', '.join(map(printer.text, node.members))})", TEST


_prints(Compare)(_compare)
_prints(Like)(_like)
_prints(In)(_member)
_prints(MemberOf)(_member)


@_prints(IsNull)
def _is_null(node: IsNull, printer: Printer) -> Written:
    return f"NOT EXISTS {printer.text(node.operand, ATOM)}", UNARY


@_prints(Not)
def _not(node: Not, printer: Printer) -> Written:
    match node.part:
        case IsNull():
            return f"EXISTS {printer.text(node.part.operand, ATOM)}", UNARY
        case Compare(op="="):
            return _compare(node.part, printer, "<>")
        case Like():
            return _like(node.part, printer, "NOT ")
        case In() | MemberOf():
            return _member(node.part, printer, "NOT ")
    return f"NOT {printer.text(node.part, UNARY)}", UNARY


@_prints(And)
def _and(node: And, printer: Printer) -> Written:
    return _chain("AND", node.parts, printer)


@_prints(InOrder)
def _in_order(node: InOrder, printer: Printer) -> Written:
    return _chain(node.op, node.parts, printer)


def _chain(op: str, parts: tuple[Node, ...], printer: Printer) -> Written:
    return f" {op} ".join(printer.text(part, COMPARISON) for part in parts), LOGIC
