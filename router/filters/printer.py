"""The normal form of a filter: one canonical text that parses back to the same tree.

Keywords in upper case, single blanks, parentheses only where precedence needs them, each field by one name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TypeVar

from bindery.router.columns import Ref
from bindery.router.errors import FilterError
from bindery.router.filters.ast import (
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
    Sign,
    Truth,
    XPath,
    walk,
)
from bindery.router.filters.dialect import DIALECTS, JMS
from bindery.router.filters.fields import DERIVED, SQL_VALUES, attribute_name, property_name
from bindery.router.filters.lexer import tokenize
from bindery.router.filters.limits import Limits
from bindery.router.filters.payload import PAYLOAD, payload_of, referred
from bindery.router.filters.spread import of_elements
from bindery.router.values import Value, encode

#: How tightly a text binds; a looser one needs parentheses where a tighter one stands.
OR, AND, NOT, PREDICATE, SUM, PRODUCT, SIGN, ATOM = range(8)

Rule = Callable[[Any, "Printer"], tuple[str, int]]
NodeType = TypeVar("NodeType", bound=Node)
RULES: Final[dict[type[Node], Rule]] = {}
#: Grammar file -> the rules of its own, where its operators bind otherwise.
OF_GRAMMAR: Final[dict[str, dict[type[Node], Rule]]] = {}


def prints(
    kind: type[NodeType], *, grammar: str | None = None
) -> Callable[[Callable[[NodeType, Printer], tuple[str, int]]], Rule]:
    """Register how a node type is written, by the languages of one grammar or by all: its text and how it binds."""
    rules = RULES if grammar is None else OF_GRAMMAR.setdefault(grammar, {})

    def register(function: Callable[[NodeType, Printer], tuple[str, int]]) -> Rule:
        rules[kind] = function
        return function

    return register


#: Trees that come from no text are written like selectors, fields of the message by section.
_NO_LANGUAGE: Final = replace(JMS, names={name: ref for name, ref in JMS.names.items() if ref.section == DERIVED})


class Printer:
    """Writes trees in the language of a name."""

    def __init__(self, dialect: str, *, bodies: bool = False) -> None:
        """`bodies`: where these are declared, so that a property called `body` is quoted."""
        self._bodies = bodies
        self.dialect = DIALECTS.get(dialect, _NO_LANGUAGE)
        self._names = {ref: name for name, ref in reversed(list(self.dialect.names.items()))}

    def text(self, node: Node, least: int = OR) -> str:
        """The node's text, in parentheses where it binds less tightly than `least`."""
        text, binds = self.written(node)
        return text if binds >= least else f"({text})"

    def written(self, node: Node) -> tuple[str, int]:
        """The node's text and how tightly that binds."""
        own = OF_GRAMMAR.get(self.dialect.grammar, {}).get(type(node))
        return (own or RULES[type(node)])(node, self)

    def field(self, ref: Ref) -> str:
        """What the language calls a field; the elements of one as the field."""
        ref = of_elements(ref)
        known = self._names.get(ref)
        if known is not None:
            return known
        name = property_name(ref)
        if name is not None:
            plain = self._is_plain(name) and name not in self.dialect.names
            if (self.dialect.sections and name in SQL_VALUES) or (self._bodies and name == "body"):
                plain = False
            return name if plain else self._quoted(name)
        if ref.section == PAYLOAD:
            return "body" + "".join(map(self._step, referred(ref)[1]))
        if not ref.name:
            return ref.section
        if ref.section == DERIVED:
            return attribute_name(ref) or f"{DERIVED}.{ref.name}"
        return f"{ref.section}.{ref.name if self._is_plain(ref.name) else self._quoted(ref.name)}"

    def _step(self, step: str | int) -> str:
        """A step into the body; words that a selector reserves may stand after a dot there."""
        if isinstance(step, int):
            return f"[{step}]" if step >= 0 else ""  # through lists
        plain = _MEMBER.fullmatch(step) if self.dialect.body else self._is_plain(step)
        return f".{step}" if plain else f"[{literal_text(step)}]"

    def _is_plain(self, name: str) -> bool:
        try:
            tokens = tokenize(name, self.dialect, limits=_LIMITS)
        except FilterError:
            return False
        # a section's name with a hyphen is a token too, but stands only before a dot
        return len(tokens) == 1 and tokens[0].type == "NAME" and tokens[0] == name and "-" not in name

    def _quoted(self, name: str) -> str:
        if self.dialect.quote is None:
            return name
        opening, closing = self.dialect.quote
        for mark in dict.fromkeys((opening, closing)):
            name = name.replace(mark, mark * 2)
        return f"{opening}{name}{closing}"


#: What follows a dot in a reference into the body.
_MEMBER: Final = re.compile("[A-Za-z_$][A-Za-z0-9_$]*")
_LIMITS: Final = Limits(characters=2**31, tokens=3, depth=3)


def normal_form(expression: Node, dialect: str) -> str:
    """The canonical text of a tree."""
    printer = Printer(dialect, bodies=payload_of(expression) is not None)
    prefixes, nodes = printer.dialect.prefixes, list(walk(expression))
    switched_on = sorted(item.text for item in prefixes if any(_has(node, item.rules) for node in nodes))
    return "".join(switched_on) + printer.text(expression)


def _has(node: Node, switches: Any) -> bool:
    rules = getattr(node, "rules", None)
    return bool(switches) and all(getattr(rules, name, False) == value for name, value in switches.items())


def literal_text(value: Value) -> str:
    """A constant as the text languages write it; other values as JSON."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case float() if math.isnan(value):
            return "NAN"
        case float() if math.isinf(value):
            return "INF" if value > 0 else "-INF"
        case int() | float():
            return repr(value)
        case str():
            return "'" + value.replace("'", "''") + "'"
        case bytes() if value:
            return "0x" + value.hex().upper()
    return str(encode(value))


@prints(Literal)
def _literal(node: Literal, printer: Printer) -> tuple[str, int]:
    text = literal_text(node.value)
    return text, SIGN if text.startswith("-") else ATOM


@prints(Field)
def _field(node: Field, printer: Printer) -> tuple[str, int]:
    return printer.field(node.ref), ATOM


@prints(Element)
def _element(node: Element, printer: Printer) -> tuple[str, int]:
    return f"{printer.text(node.of, ATOM)}[{printer.text(node.index, SUM)}]", ATOM


@prints(Sign)
def _sign(node: Sign, printer: Printer) -> tuple[str, int]:
    return node.op + printer.text(node.operand, SIGN), SIGN


@prints(Arithmetic)
def _arithmetic(node: Arithmetic, printer: Printer) -> tuple[str, int]:
    level = SUM if node.ops[0] in "+-" else PRODUCT
    text = printer.text(node.first, level + 1)
    for op, operand in zip(node.ops, node.rest, strict=True):
        text += f" {op} {printer.text(operand, level + 1)}"
    return text, level


@prints(Call)
def _call(node: Call, printer: Printer) -> tuple[str, int]:
    return f"{node.function}({', '.join(printer.text(item, SUM) for item in node.arguments)})", ATOM


@prints(Truth)
def _truth(node: Truth, printer: Printer) -> tuple[str, int]:
    return RULES[type(node.operand)](node.operand, printer)


@prints(Compare)
def _compare(node: Compare, printer: Printer) -> tuple[str, int]:
    return f"{printer.text(node.left, SUM)} {node.op} {printer.text(node.right, SUM)}", PREDICATE


@prints(Between)
def _between(node: Between, printer: Printer) -> tuple[str, int]:
    value, low, high = (printer.text(item, SUM) for item in (node.operand, node.low, node.high))
    return f"{value} {'NOT ' * node.negated}BETWEEN {low} AND {high}", PREDICATE


def _in(node: In, printer: Printer, negation: str = "") -> tuple[str, int]:
    members = ", ".join(printer.text(item, SUM) for item in node.members)
    return f"{printer.text(node.operand, SUM)} {negation}IN ({members})", PREDICATE


def _like(node: Like, printer: Printer, negation: str = "") -> tuple[str, int]:
    text = f"{printer.text(node.operand, SUM)} {negation}LIKE {printer.text(node.pattern, SUM)}"
    if node.escape is not None:
        text += f" ESCAPE {printer.text(node.escape, SUM)}"
    return text, PREDICATE


def _is_null(node: IsNull, printer: Printer, negation: str = "") -> tuple[str, int]:
    return f"{printer.text(node.operand, SUM)} IS {negation}NULL", PREDICATE


#: Conditions that take NOT inside.
_NEGATABLE: Final[dict[type[Node], Callable[..., tuple[str, int]]]] = {In: _in, Like: _like, IsNull: _is_null}
for _kind, _rule in _NEGATABLE.items():
    RULES[_kind] = _rule


@prints(XPath)
def _xpath(node: XPath, printer: Printer) -> tuple[str, int]:
    return f"XPATH {literal_text(node.expression)}", ATOM


@prints(Not)
def _not(node: Not, printer: Printer) -> tuple[str, int]:
    inside = _NEGATABLE.get(type(node.part))
    if inside is not None:
        return inside(node.part, printer, "NOT ")
    return f"NOT {printer.text(node.part, NOT)}", NOT


@prints(And)
def _and(node: And, printer: Printer) -> tuple[str, int]:
    if len(node.parts) == 1:
        return RULES[type(node.parts[0])](node.parts[0], printer)
    return " AND ".join(printer.text(part, NOT) for part in node.parts) or "TRUE", AND


@prints(Or)
def _or(node: Or, printer: Printer) -> tuple[str, int]:
    if len(node.parts) == 1:
        return RULES[type(node.parts[0])](node.parts[0], printer)
    return " OR ".join(printer.text(part, AND) for part in node.parts) or "FALSE", OR
