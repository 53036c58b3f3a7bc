"""Why a filter accepts a message or not: the one tree of reasons that `filter test` prints and explain sums up.

What a node of another module says of itself is registered with `reason`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeVar

from bindery.router.filters import fields, payload
from bindery.router.filters.ast import (
    TROUBLE,
    Arithmetic,
    Between,
    Call,
    Compare,
    Element,
    Field,
    In,
    Like,
    Node,
    Not,
    Sign,
    Trouble,
    Truth,
    XPath,
    children,
)
from bindery.router.filters.ast import Literal as Constant
from bindery.router.filters.cesql.nodes import Cast, CastLike, InOrder, Invocation, MemberOf
from bindery.router.filters.families import family
from bindery.router.filters.filter import Filter
from bindery.router.filters.printer import Printer
from bindery.router.filters.scalar import Context, Result, as_number, converted
from bindery.router.message import HEADER_DEFAULTS, Message
from bindery.router.values import TYPE_NAMES, Table, Value, a_type, encode

#: What keeps a node from being true, beside its values: something is missing, of another type, or in trouble.
Cause = Literal["", "missing", "type", "trouble"]
Because = tuple[Cause, str]
Reason = Callable[[Any, "Trace", Context], Because]
NodeType = TypeVar("NodeType", bound=Node)
NOTHING: Final[Because] = ("", "")

_REASONS: Final[dict[type[Node], Reason]] = {}
#: Where the parts of some nodes are evaluated, when that is not where the node is: the parts, each with its context.
INSIDE: Final[dict[type[Node], Callable[[Any, Context], list[tuple[Node, Context]]]]] = {}


def reason(*kinds: type[Node]) -> Callable[[Reason], Reason]:
    """Register what says why nodes of some types have their result; it sees the trace without cause and why."""

    def register(function: Reason) -> Reason:
        _REASONS.update(dict.fromkeys(kinds, function))
        return function

    return register


@dataclass(frozen=True, slots=True)
class Trace:
    """One sub-expression and what became of it.

    node        the sub-expression; text: in normal form; kind: condition, property, literal or value
    result      of a condition its truth, of an operand its value; TROUBLE where it could not be computed
    parts       its sub-expressions
    reads       the fields that it reads, in order of mention: (name, value)
    cause, why  the reason, in words; empty where the parts say it all
    """

    node: Node
    text: str
    kind: str
    result: Result
    parts: tuple[Trace, ...]
    reads: tuple[tuple[str, Value], ...]
    cause: Cause = ""
    why: str = ""

    @property
    def value(self) -> Value:
        """Of a condition True, False or None; of an operand its value, None for null."""
        return None if isinstance(self.result, Trouble) else self.result

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
    return _trace(filter.expression, Context(message, clock_ms), Printer(filter.dialect))


def _trace(node: Node, context: Context, printer: Printer) -> Trace:
    result = context.value(node)
    if isinstance(node, Truth):
        inner = _trace(node.operand, context, printer)
        found = replace(inner, node=node, kind="condition", result=result)
        if result is None and inner.value is not None:
            return replace(found, cause="trouble", why=f"{a_type(type(inner.value))} is no condition")
        return found
    text = printer.text(node)
    parts: tuple[Trace, ...] = ()
    if isinstance(node, Field):
        reads = {text: None if isinstance(result, Trouble) else result}
    else:
        inside = INSIDE.get(type(node))
        within = inside(node, context) if inside else [(child, context) for child in children(node)]
        parts = tuple(_trace(child, around, printer) for child, around in within)
        reads = dict(read for part in parts for read in part.reads)
    found = Trace(node, text, kind_of(node), result, parts, tuple(reads.items()))
    says = _REASONS.get(type(node))
    cause, why = says(node, found, context) if says else NOTHING
    return replace(found, cause=cause, why=why) if why else found


def kind_of(node: Node) -> str:
    """What a sub-expression is: condition, property, literal or value."""
    if node.is_condition:
        return "condition"
    if isinstance(node, Field | Element):
        return "property"
    return "literal" if isinstance(node, Constant) else "value"


def missing(parts: Sequence[Trace]) -> Because:
    """What operands that are null or in trouble keep a node from having a value."""
    for part in parts:
        if part.result is TROUBLE:
            return "trouble", part.why or f"{part.text} cannot be computed"
    null = [part for part in parts if part.result is None]
    absent = dict.fromkeys(name for part in null for name, value in part.reads if value is None)
    names = absent or dict.fromkeys(part.text for part in null)
    if not names:
        return NOTHING
    return "missing", f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} {'missing' if absent else 'null'}"


def _type(part: Trace) -> str:
    return a_type(type(part.value))


@reason(Field)
def _field(node: Field, found: Trace, context: Context) -> Because:
    ref = node.ref
    cause: Cause = "missing" if found.result is None else ""
    if ref in context.chosen:
        return NOTHING
    if ref.section == payload.PAYLOAD:
        return "trouble" if found.result is TROUBLE else cause, payload.look_up(context.message, ref).why
    if ref.section == fields.DERIVED:
        field = fields.derived(ref.name)
        return cause, field.origin or "derived from " + " and ".join(map(str, field.sources))
    if found.result is None:
        return cause, f"the message has no {ref}"
    if ref.section == "header" and context.message.header.get(ref.name) is None and ref.name in HEADER_DEFAULTS:
        return cause, "absent: the default"
    return NOTHING


@reason(Compare, Between)
def _compare(node: Compare | Between, found: Trace, context: Context) -> Because:
    because = missing(found.parts)
    if because != NOTHING or found.result is True:
        return because
    first, *others = found.parts
    for other in others:
        left, right = first.value, other.value
        if node.rules.converts_text:
            left, right = converted(left, right), converted(right, left)
        if family(left) != family(right):
            return "type", f"{_type(first)} and {_type(other)} never compare true"
    name = TYPE_NAMES[type(first.value)]
    kind = family(first.value)
    if kind == "nested":
        return "type", f"a {name} never compares true"
    if isinstance(node, Between) or node.op not in ("=", "<>"):
        text = kind in ("string", "binary")
        if kind == "boolean" or (text and not node.rules.orders_text):
            return "type", f"a {name} has no order here"
    return NOTHING


@reason(Arithmetic, Sign)
def _number(node: Arithmetic | Sign, found: Trace, context: Context) -> Because:
    because = missing(found.parts)
    if found.result is not TROUBLE or because[0] == "trouble":
        return because
    for part in found.parts:
        if part.value is not None and as_number(part.value, node.rules) is None:
            return "trouble", f"{_type(part)} is no number"
    if isinstance(node, Arithmetic) and set(node.ops) & {"/", "%"} and any(part.value == 0 for part in found.parts[1:]):
        return "trouble", "an integer cannot be divided by zero"
    return "trouble", f"the result does not fit {node.rules.integer_bits} bits"


@reason(Call, Invocation)
def _call(node: Call, found: Trace, context: Context) -> Because:
    because = missing(found.parts)
    if found.result is TROUBLE and because == NOTHING:
        return "trouble", f"{node.function} does not apply to {', '.join(map(_type, found.parts))}"
    return because


@reason(Cast, CastLike)
def _cast(node: Cast | CastLike, found: Trace, context: Context) -> Because:
    because = missing(found.parts)
    if found.result is TROUBLE and because[0] != "trouble":
        to = node.to if isinstance(node, Cast) else TYPE_NAMES[type(found.parts[1].value)]
        return "trouble", f"{found.parts[0].shown} is no {to}"
    return because


@reason(InOrder)
def _in_order(node: InOrder, found: Trace, context: Context) -> Because:
    """The first part that is no truth ends the evaluation, whatever stands behind it."""
    first = next((part for part in found.parts if part.value is None), None)
    return missing([first]) if first is not None and found.value is None else NOTHING


@reason(MemberOf)
def _member_of(node: MemberOf, found: Trace, context: Context) -> Because:
    return missing(found.parts) if found.value is None else NOTHING


@reason(Element)
def _element(node: Element, found: Trace, context: Context) -> Because:
    of = found.parts[0].value
    if found.result is not None:
        return NOTHING
    if not isinstance(of, tuple | Table):
        return "missing", "not a list or map" if of is not None else "nothing to pick from"
    return "missing", "no such member"


@reason(In)
def _in(node: In, found: Trace, context: Context) -> Because:
    operand, *members = found.parts
    if found.result is TROUBLE or (found.result is None and operand.value is None):
        return missing(found.parts if found.result is TROUBLE else [operand])
    if found.result is None:
        return "missing", f"none is equal, and {missing(members)[1]}"
    if found.result is False and all(family(member.value) != family(operand.value) for member in members):
        return "type", f"{_type(operand)} and {_type(members[0])} never compare true"
    return NOTHING


@reason(Like)
def _like(node: Like, found: Trace, context: Context) -> Because:
    because = missing(found.parts)
    if because != NOTHING:
        return because
    if found.result is TROUBLE:
        return "trouble", "the escape is not one character, or ends the pattern, or the pattern is too long"
    for part in found.parts[:2]:
        if not isinstance(part.value, str):
            return "type", f"{_type(part)} is no string"
    return NOTHING


@reason(Not)
def _not(node: Not, found: Trace, context: Context) -> Because:
    return ("", "NOT of unknown is unknown") if found.value is None else NOTHING


@reason(XPath)
def _xpath(node: XPath, found: Trace, context: Context) -> Because:
    from bindery.router.filters import xpath  # noqa: PLC0415  # an XML parser, loaded when a filter needs it

    document = fields.read(context.message, fields.DOCUMENT)
    readable = document if isinstance(document, str | bytes) else None
    outcome = xpath.XPathDocuments(limits=node.limits).outcome(xpath.compile(node.expression), readable)
    return ("trouble" if readable else "missing", outcome.why) if outcome.why else NOTHING
