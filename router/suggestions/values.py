"""What a message would have to hold so that a filter accepts it: properties with other values, as few as possible.

A sub-expression of one field is made true by trying the values that its constants suggest, each judged by the
reference evaluator; AND and OR are followed, NOT turns what is wanted. What reads no field that a sender sets, or
compares two fields, is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from bindery.router.columns import Ref
from bindery.router.filters.ast import And, Between, Compare, Field, In, IsNull, Like, Literal, Node, Not, Or, Truth
from bindery.router.filters.filter import Filter
from bindery.router.filters.like import compile_pattern
from bindery.router.filters.scalar import Context
from bindery.router.filters.sets.nodes import Accepts, Equals, Present, StartsWith
from bindery.router.message import MAP_SECTIONS, SECTION_FIELDS, Message
from bindery.router.values import INT64_MAX, INT64_MIN, Table, Value

#: What is tried for a property that has to be there, whatever its value.
_SOMETHING: Final = "any"


def accepted(filter: Filter, message: Message, *, clock_ms: int) -> Message | None:
    """A message that the filter accepts and that differs in few properties; None where none is found."""
    return _fit(filter.expression, True, message, clock_ms)


def with_value(message: Message, ref: Ref, value: Value) -> Message | None:
    """A message with another value in a field, or (None) without it; None for a field that no sender sets so."""
    if ref.section in MAP_SECTIONS:
        table = {name: held for name, held in getattr(message, ref.section).items() if name != ref.name}
        if value is not None:
            table[ref.name] = value
        section: dict[str, Any] = {ref.section: Table(table)}
        return replace(message, **section)
    kinds: Mapping[str, type | None] = SECTION_FIELDS.get(ref.section, {})
    if ref.name not in kinds:
        return None
    kind = kinds[ref.name]
    if value is not None and kind is not None and type(value) is not kind:
        return None
    fields: dict[str, Value] = {name: held for name, held in getattr(message, ref.section).items() if name != ref.name}
    if value is not None:
        fields[ref.name] = value
    changed: dict[str, Any] = {ref.section: fields}
    return replace(message, **changed)


def _fit(node: Node, wanted: bool, message: Message, clock_ms: int) -> Message | None:
    if Context(message, clock_ms).value(node) is wanted:
        return message
    match node:
        case Not():
            return _fit(node.part, not wanted, message, clock_ms)
        case Accepts():
            return _fit(node.part, wanted, message, clock_ms)
        case And() | Or() if isinstance(node, And) is wanted:
            for part in node.parts:
                fitted = _fit(part, wanted, message, clock_ms)
                if fitted is None:
                    return None
                message = fitted
            # what suits one part may have spoilt another
            return message if Context(message, clock_ms).value(node) is wanted else None
        case And() | Or():
            each = (_fit(part, wanted, message, clock_ms) for part in node.parts)
            return next((one for one in each if one is not None), None)
        case _:
            return _leaf(node, wanted, message, clock_ms)


def _leaf(node: Node, wanted: bool, message: Message, clock_ms: int) -> Message | None:
    for ref, value in _candidates(node):
        changed = with_value(message, ref, value)
        if changed is not None and Context(changed, clock_ms).value(node) is wanted:
            return changed
    return None


def _candidates(node: Node) -> Iterator[tuple[Ref, Value]]:
    """Fields and values that may make a sub-expression true or false, those that say most of it first."""
    match node:
        case Truth(operand=Field(ref=ref)):
            yield ref, True
            yield ref, False
        case Compare():
            for field, constant in node.sides:
                yield from ((field.ref, value) for value in _around(constant.value))
        case Between(operand=Field(ref=ref), low=Literal(value=low), high=Literal(value=high)):
            yield from ((ref, value) for bound in (low, high) for value in _around(bound))
        case In(operand=Field(ref=ref)):
            constants = [one.value for one in node.members if isinstance(one, Literal)]
            yield from ((ref, value) for value in constants)
            yield from ((ref, value) for constant in constants[:1] for value in _around(constant))
        case Like(operand=Field(ref=ref), pattern=Literal(value=str(pattern))):
            yield ref, _example(pattern, node.escape)
            yield ref, _SOMETHING
            yield ref, ""
        case IsNull(operand=Field(ref=ref)) | Present(field=Field(ref=ref)):
            yield ref, None
            yield ref, _SOMETHING
            yield ref, 1
            yield ref, True
        case Equals(field=Field(ref=ref), reference=Literal(value=value)):
            yield from ((ref, near) for near in _around(value))
        case StartsWith(field=Field(ref=ref), reference=Literal(value=str(prefix))):
            yield ref, prefix
            yield ref, ""


def _around(value: Value) -> Iterator[Value]:
    """A value and its neighbours."""
    yield value
    match value:
        case bool():
            yield not value
        case int():
            if value < INT64_MAX:
                yield value + 1
            if value > INT64_MIN:
                yield value - 1
        case float():
            yield value + 1.0
            yield value - 1.0
        case str():
            yield value + "a"
            yield ""


def _example(pattern: str, escape: Node | None) -> str:
    """A short text that a pattern of LIKE matches."""
    mark = escape.value if isinstance(escape, Literal) and isinstance(escape.value, str) else None
    segments = compile_pattern(pattern, mark) or ()
    return "".join("x" if place in one.free else char for one in segments for place, char in enumerate(one.text))
