"""Deviations in the scalar reference, and which values lead to them."""

from __future__ import annotations

from contextlib import suppress

from bindery.router.filters.access import Access, access, access_of, any_of, equality
from bindery.router.filters.ast import TROUBLE, Field, Literal, Rules, Trouble
from bindery.router.filters.deviations.nodes import Flag, InTurn, OneOf, OnText, Same
from bindery.router.filters.scalar import Context, Result, compare, rule
from bindery.router.values import Value

_BY_BYTES = Rules()


def same(node: Same, left: Result, right: Result) -> bool | Trouble | None:
    """The truth of an equality with a say on nulls."""
    if left is TROUBLE or right is TROUBLE:
        return TROUBLE
    if left is None or right is None:
        return node.both if left is right else node.one_left if left is None else node.one_right
    if node.bytes:
        left, right = _in_bytes(left, right), _in_bytes(right, left)
    return compare("=", left, right, node.rules)


def _in_bytes(value: Value, other: Value) -> Value:
    """A string that meets a binary, as its bytes."""
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) and isinstance(other, bytes) else value


@rule(Same)
def _same(node: Same, context: Context) -> Result:
    return same(node, context.value(node.left), context.value(node.right))


@rule(OneOf)
def _one_of(node: OneOf, context: Context) -> Result:
    value = context.value(node.operand)
    if value is None or value is TROUBLE:
        return value
    return any(equal_member(value, context.value(member)) for member in node.members)


def equal_member(value: Value, member: Result) -> bool:
    """Whether a value is equal to a member of IN; nothing is to one that is null or cannot be computed."""
    if member is None or member is TROUBLE:
        return False
    return compare("=", _in_bytes(value, member), _in_bytes(member, value), _BY_BYTES) is True


@rule(InTurn)
def _in_turn(node: InTurn, context: Context) -> Result:
    result: Result = None
    for part in node.parts:
        result = context.value(part)
        if (result is not True) if node.conjunction else (result is True):
            break
    return result


@rule(OnText)
def _on_text(node: OnText, context: Context) -> Result:
    value = context.value(node.test.operand)
    return context.value(node.test) if isinstance(value, str) or value is TROUBLE else None


@rule(Flag)
def _flag(node: Flag, context: Context) -> Result:
    value = context.value(node.operand)
    return value if isinstance(value, bool) or value is None or value is TROUBLE else False


# -- which values lead to them ------------------------------------------------------------------------------


@access(Same)
def _same_access(node: Same) -> Access | None:
    if node.rules.converts_text:
        return None
    for one, other in ((node.left, node.right), (node.right, node.left)):
        if isinstance(one, Field) and isinstance(other, Literal) and other.value is not None:
            return _equal(one, other.value, by_bytes=node.bytes)
    return None


def _equal(field: Field, value: Value, *, by_bytes: bool) -> Access | None:
    alike: list[Value] = [value]
    if by_bytes and isinstance(value, str):
        alike.append(value.encode("utf-8", "surrogatepass"))
    if by_bytes and isinstance(value, bytes):
        with suppress(UnicodeDecodeError):
            alike.append(value.decode())
    return any_of(*(equality(field.ref, one) for one in alike))


@access(OneOf)
def _one_of_access(node: OneOf) -> Access | None:
    if not isinstance(node.operand, Field):
        return None
    field = node.operand
    return any_of(
        *(_equal(field, item.value, by_bytes=True) if isinstance(item, Literal) else None for item in node.members)
    )


@access(InTurn)
def _in_turn_access(node: InTurn) -> Access | None:
    found = [access_of(part) for part in node.parts]
    if not node.conjunction:
        return any_of(*found)
    known = [item for item in found if item is not None]
    return Access(min(known, key=lambda item: len(item.keys)).keys, exact=False) if known else None


@access(OnText)
def _on_text_access(node: OnText) -> Access | None:
    return access_of(node.test)


@access(Flag)
def _flag_access(node: Flag) -> Access | None:
    return equality(node.operand.ref, True) if isinstance(node.operand, Field) else None
