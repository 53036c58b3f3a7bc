"""What a filter is made of, and why it accepts a message or not: data for `filter check`, `filter test`, explain."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bindery.router.columns import Ref
from bindery.router.filters import arithmetic
from bindery.router.filters.ast import (
    TROUBLE,
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
    Sign,
    Trouble,
    Truth,
    XPath,
    children,
    walk,
)
from bindery.router.filters.dialect import DIALECTS, JMS
from bindery.router.filters.fields import DERIVED, DERIVED_FIELDS
from bindery.router.filters.filter import Filter
from bindery.router.filters.printer import Printer, normal_form
from bindery.router.filters.scalar import Context, Result
from bindery.router.message import HEADER_DEFAULTS, Message
from bindery.router.values import Table, Timestamp, Value, encode

_FAMILIES: Final[tuple[tuple[type | tuple[type, ...], str], ...]] = (
    (bool, "boolean"),
    (int, "integer"),
    (float, "double"),
    (str, "string"),
    (bytes, "binary"),
    (Timestamp, "timestamp"),
    (tuple, "list"),
    (Table, "map"),
)


Reason = Callable[[Any, Result, list[Result], Context], str]


@dataclass(frozen=True, slots=True)
class Trace:
    """One sub-expression and what became of it.

    text     the sub-expression in normal form
    kind     condition, property, literal or value
    value    of a condition True, False or None; of an operand its value, None for null
    why      the reason in words; empty where the parts say it all
    parts    its sub-expressions
    """

    text: str
    kind: str
    value: Value
    why: str
    parts: tuple[Trace, ...]

    @property
    def shown(self) -> str:
        """true, false, unknown, null, or the value as JSON."""
        if self.kind == "condition":
            return {True: "true", False: "false"}.get(bool(self.value), "") if self.value is not None else "unknown"
        return "null" if self.value is None else str(encode(self.value))

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data, parts included."""
        data: dict[str, Any] = {"text": self.text, "kind": self.kind}
        data["value"] = self.shown if self.kind == "condition" else encode(self.value)
        if self.why:
            data["why"] = self.why
        if self.parts:
            data["parts"] = [part.as_data() for part in self.parts]
        return data


def trace(filter: Filter, message: Message, *, clock_ms: int = 0) -> Trace:
    """Every sub-expression of a filter with its value for one message, and why."""
    printer = Printer(DIALECTS.get(filter.dialect, JMS))
    context = Context(message, clock_ms)
    return _trace(filter.expression, context, printer)


def _trace(node: Node, context: Context, printer: Printer) -> Trace:
    if isinstance(node, Truth):
        inner = _trace(node.operand, context, printer)
        value = _plain(context.value(node))
        if value is None and inner.value is not None:
            why = f"{_a(inner.value)} is no condition"
            return Trace(inner.text, "condition", None, why, inner.parts)
        return Trace(inner.text, "condition", value, inner.why, inner.parts)
    result = context.value(node)
    inner_nodes = [] if isinstance(node, Field | Literal) else list(children(node))
    reason: Reason = _WHY.get(type(node), _no_reason)
    why = reason(node, result, [context.value(child) for child in inner_nodes], context)
    parts = tuple(_trace(child, context, printer) for child in inner_nodes)
    return Trace(printer.text(node), kind_of(node), _plain(result), why, parts)


def _plain(result: Result) -> Value:
    return None if isinstance(result, Trouble) else result


def kind_of(node: Node) -> str:
    """What a sub-expression is: condition, property, literal or value."""
    if node.is_condition:
        return "condition"
    if isinstance(node, Field | Element):
        return "property"
    return "literal" if isinstance(node, Literal) else "value"


def type_of(node: Node) -> str:
    """The type a sub-expression has by its form: boolean, number, string …; `any` for a property."""
    if node.is_condition:
        return "boolean"
    if isinstance(node, Literal):
        return family(node.value)
    if isinstance(node, Arithmetic):
        return "number or string" if node.rules.joins_text and set(node.ops) == {"+"} else "number"
    if isinstance(node, Sign):
        return "number"
    if isinstance(node, Call):
        return "timestamp" if node.function in ("UTC", "DATE") else "string"
    return _FIELD_TYPES.get(node.ref, "any") if isinstance(node, Field) else "any"


_FIELD_TYPES: Final[Mapping[Ref, str]] = {
    Ref("header", "durable"): "boolean",
    Ref("header", "priority"): "integer",
    Ref("header", "ttl"): "integer",
    Ref("header", "first_acquirer"): "boolean",
    Ref("header", "delivery_count"): "integer",
    Ref("properties", "user_id"): "binary",
    **{
        Ref("properties", name): "string"
        for name in ("to", "subject", "reply_to", "content_type", "content_encoding", "group_id", "reply_to_group_id")
    },
    Ref("properties", "absolute_expiry_time"): "timestamp",
    Ref("properties", "creation_time"): "timestamp",
    Ref("properties", "group_sequence"): "integer",
    **{
        Ref(DERIVED, name): kind
        for name, kind in {
            "delivery_mode": "string",
            "durability": "string",
            "redelivered": "boolean",
            "attempts": "integer",
            "user_text": "string",
            "address": "string",
            "body_size": "integer",
        }.items()
    },
}


def family(value: Value) -> str:
    """The family of a value, in one word."""
    return next((name for kind, name in _FAMILIES if isinstance(value, kind)), "null")


def _a(value: Value) -> str:
    name = family(value)
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def references(expression: Node) -> list[Ref]:
    """The message fields that a filter reads, in order of first mention; derived ones by their sources."""
    found: dict[Ref, None] = {}
    for node in walk(expression):
        if isinstance(node, Field):
            derived = DERIVED_FIELDS.get(node.ref.name) if node.ref.section == DERIVED else None
            found.update(dict.fromkeys(derived.sources if derived else (node.ref,)))
        elif isinstance(node, XPath):
            found.update(dict.fromkeys(DERIVED_FIELDS["document"].sources))
    return list(found)


def describe(filter: Filter) -> dict[str, Any]:
    """What `filter check` reports: normal form, fields read, every sub-expression with its type, notes."""
    printer = Printer(DIALECTS.get(filter.dialect, JMS))
    return {
        "dialect": filter.dialect,
        "filter": filter.text,
        "normal_form": normal_form(filter.expression, filter.dialect),
        "properties": [
            f"{ref.section}.{ref.name}" if ref.name else ref.section for ref in references(filter.expression)
        ],
        "expressions": [
            {"text": printer.text(node), "type": type_of(node), "depth": level}
            for node, level in _with_levels(filter.expression)
        ],
        "notes": notes(filter),
    }


def notes(filter: Filter) -> list[str]:
    """Names that are legal properties but read like a misspelt or another language's name."""
    dialect = DIALECTS.get(filter.dialect)
    found: dict[str, None] = {}
    if dialect is None:
        return []
    for node in walk(filter.expression):
        if not isinstance(node, Field) or node.ref.section != "application_properties":
            continue
        name = node.ref.name
        close = difflib.get_close_matches(name, dialect.names, 1, 0.85)
        foreign = next((other.name for other in DIALECTS.values() if name in other.names), None)
        if close:
            found[f"{name} is an application property here; did you mean {close[0]}?"] = None
        elif foreign is not None:
            found[f"{name} is an application property here; it is a message field in {foreign}"] = None
    return list(found)


def _with_levels(expression: Node) -> Iterator[tuple[Node, int]]:
    pending = [(expression, 0)]
    while pending:
        node, level = pending.pop()
        if isinstance(node, Truth):
            node = node.operand
        yield node, level
        pending += [(child, level + 1) for child in reversed(list(children(node)))]


# why a node has its value


def _no_reason(node: Any, result: Result, parts: list[Result], context: Context) -> str:
    return ""


def _why_field(node: Field, result: Result, parts: list[Result], context: Context) -> str:
    ref = node.ref
    if ref.section == DERIVED:
        return "derived from " + " and ".join(
            f"{item.section}{'.' * bool(item.name)}{item.name}" for item in DERIVED_FIELDS[ref.name].sources
        )
    if result is None:
        return f"the message has no {ref.section}{'.' * bool(ref.name)}{ref.name}"
    if ref.section == "header" and context.message.header.get(ref.name) is None and ref.name in HEADER_DEFAULTS:
        return "absent: the default"
    return ""


def _missing(parts: list[Result]) -> str:
    if any(part is TROUBLE for part in parts):
        return "an operand could not be computed"
    return "an operand is null" if any(part is None for part in parts) else ""


def _why_compare(node: Compare | Between, result: Result, parts: list[Result], context: Context) -> str:
    missing = _missing(parts)
    if missing or result is True:
        return missing
    first, *others = parts
    unlike = next((other for other in others if not _alike(first, other)), None)
    if unlike is not None:
        note = "" if node.rules.converts_text else "; values are never converted"
        return f"{_a(_plain(first))} and {_a(_plain(unlike))} are unlike: every comparison is false{note}"
    orders = isinstance(node, Between) or node.op not in ("=", "<>")
    ordered = (int, float, Timestamp, *((str, bytes) if node.rules.orders_text else ()))
    if orders and (isinstance(first, bool) or not isinstance(first, ordered)):
        return f"{family(_plain(first))} values have no order here: false"
    return ""


def _alike(left: Result, right: Result) -> bool:
    for kinds in ((bool,), (int, float, Timestamp), (str,), (bytes,)):
        if isinstance(left, kinds):
            return isinstance(right, kinds) and (bool in kinds or not isinstance(right, bool))
    return False


def _why_number(node: Arithmetic | Sign, result: Result, parts: list[Result], context: Context) -> str:
    if result is not TROUBLE:
        return _missing(parts)
    if any(part is TROUBLE for part in parts):
        return "an operand could not be computed"
    wrong = next((part for part in parts if not _counts(part, node.rules.converts_text)), 0)
    if wrong != 0 or isinstance(wrong, bool):
        return f"{_a(_plain(wrong))} is no number: unknown"
    if any(part == 0 for part in parts[1:]) and isinstance(node, Arithmetic) and set(node.ops) & {"/", "%"}:
        return "an integer cannot be divided by zero: unknown"
    return "the result does not fit 64 bits: unknown"


def _counts(value: Result, converts: bool) -> bool:
    if isinstance(value, str):
        return converts and arithmetic.text_as_number(value) is not None
    return value is None or (isinstance(value, int | float | Timestamp) and not isinstance(value, bool))


def _why_call(node: Call, result: Result, parts: list[Result], context: Context) -> str:
    if result is TROUBLE:
        return _missing(parts) or f"{node.function} does not apply to " + ", ".join(_a(_plain(part)) for part in parts)
    return _missing(parts)


def _why_element(node: Element, result: Result, parts: list[Result], context: Context) -> str:
    if result is not None:
        return ""
    if not isinstance(parts[0], tuple | Table):
        return "not a list or map" if parts[0] is not None else "nothing to pick from"
    return "no such member"


def _why_in(node: In, result: Result, parts: list[Result], context: Context) -> str:
    if result is None:
        return "the value is null" if parts[0] is None else "none is equal, and a member is null"
    return ""


def _why_like(node: Like, result: Result, parts: list[Result], context: Context) -> str:
    if result is TROUBLE:
        return _missing(parts) or "the escape is not one character, or ends the pattern, or the pattern is too long"
    if result is None:
        return _missing(parts)
    if not isinstance(parts[0], str):
        return f"{_a(_plain(parts[0]))} is no string: LIKE is false"
    return "" if isinstance(parts[1], str) else "the pattern is no string: LIKE is false"


def _why_not(node: Not, result: Result, parts: list[Result], context: Context) -> str:
    return "NOT of unknown is unknown" if result is None else ""


_WHY: Final[Mapping[type[Node], Reason]] = {
    Field: _why_field,
    Compare: _why_compare,
    Between: _why_compare,
    Arithmetic: _why_number,
    Sign: _why_number,
    Call: _why_call,
    Element: _why_element,
    In: _why_in,
    Like: _why_like,
    Not: _why_not,
    IsNull: _no_reason,
}
