# ruff: noqa: D102  # the methods of the builder are named after the grammar rules that they serve
"""Parse events of CloudEvents SQL to tree; types are known where no extension attribute is concerned."""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any, Final, NoReturn

from lark import Token, Transformer
from lark.visitors import v_args

from bindery.router.errors import FilterError
from bindery.router.filters import like
from bindery.router.filters.ast import (
    And,
    Arithmetic,
    Compare,
    Field,
    In,
    IsNull,
    Like,
    Literal,
    Node,
    Not,
    Sign,
    Truth,
)
from bindery.router.filters.cesql.casting import BOOLEAN, INTEGER, STRING
from bindery.router.filters.cesql.functions import FUNCTIONS
from bindery.router.filters.cesql.inference import cast_to, static_type
from bindery.router.filters.cesql.nodes import CastLike, InOrder, Invocation, MemberOf
from bindery.router.filters.cesql.patterns import ESCAPE, asks_for_text, escaped_pattern, is_only_text
from bindery.router.filters.dialect import Dialect
from bindery.router.filters.fields import event_attribute
from bindery.router.filters.limits import Limits
from bindery.router.filters.parts import Part
from bindery.router.spelling import did_you_mean, nearest

#: CloudEvents 1.0, "Naming conventions"; upper case is read as lower case.
_ATTRIBUTE: Final = re.compile("[A-Za-z0-9]+")


@v_args(inline=True)
class EventRules(Transformer[Token, Node]):
    """The rules of `cesql.lark`, for the builder of all languages."""

    text: str
    dialect: Dialect
    limits: Limits

    def _refuse(self, part: Part, message: str, *, hint: str | None = None) -> NoReturn:
        raise FilterError(message, text=self.text, offset=part.start, length=part.end - part.start, hint=hint)

    def event_filter(self, part: Part) -> Node:
        kind = static_type(part.node)
        if kind in (STRING, INTEGER):
            article = "an" if kind == INTEGER else "a"
            self._refuse(
                part, f"a filter is a boolean, this is {article} {kind}", hint="compare it with something, or BOOL(…)"
            )
        node = part.node if part.node.is_condition else Truth(part.node)
        # what stands before an error does not matter to whether the whole is true: the engine may choose the order
        return And(node.parts) if isinstance(node, InOrder) and node.op == "AND" else node

    def event_logic(self, first: Part, *rest: Any) -> Part:
        node = self._boolean(first)
        for name, run in groupby(zip(rest[::2], rest[1::2], strict=True), lambda pair: str(pair[0].type)):
            more = (self._boolean(part) for _, part in run)
            node = InOrder(name, (*_parts(name, node), *(inner for one in more for inner in _parts(name, one))))
        return Part(node, first.start, rest[-1].end)

    def event_not(self, part: Part) -> Part:
        return Part(Not(self._boolean(part)), part.start, part.end)

    def event_compare(self, left: Part, op: Token, right: Part) -> Part:
        name = str(op)
        if name in ("=", "<>", "!="):
            first, second = _equal_sides(left.node, right.node)
            node: Node = Compare("=", first, second, self.dialect.rules)
            node = node if name == "=" else Not(node)
        else:
            node = Compare(name, cast_to(left.node, INTEGER), cast_to(right.node, INTEGER), self.dialect.rules)
        return Part(node, left.start, right.end)

    def event_like(self, operand: Part, token: Any) -> Part:
        return self._like_literal(operand, token)

    def _like_literal(self, operand: Part, token: Any) -> Part:
        pattern = escaped_pattern(token.constant)
        where = Part(operand.node, token.start_pos, token.end_pos)
        if len(pattern) > self.limits.like_pattern:
            self._refuse(where, f"a LIKE pattern of more than {self.limits.like_pattern} characters")
        if like.compile_pattern(pattern, ESCAPE) is None:
            raise ValueError("an escape stands before the character that it escapes")
        value = operand.node if asks_for_text(pattern) and static_type(operand.node) is None else None
        node = Like(value or cast_to(operand.node, STRING), Literal(pattern), Literal(ESCAPE), self.limits.like_pattern)
        return Part(node, operand.start, token.end_pos)

    def event_not_like(self, operand: Part, token: Any) -> Part:
        part = self._like_literal(operand, token)
        part.node = Not(part.node)
        return part

    def event_member(self, operand: Part, *members: Part) -> Part:
        return self._member_of(operand, members)

    def event_not_member(self, operand: Part, *members: Part) -> Part:
        part = self._member_of(operand, members)
        part.node = Not(part.node)
        return part

    def _member_of(self, operand: Part, members: tuple[Part, ...]) -> Part:
        kind = static_type(operand.node)
        if kind is None:
            found = tuple(
                item.node if item.node == operand.node else CastLike(item.node, operand.node) for item in members
            )
        else:
            found = tuple(cast_to(item.node, kind) for item in members)
        constant = kind is not None and all(isinstance(item, Literal) for item in found)
        node: Node = In(operand.node, found) if constant else MemberOf(operand.node, found)
        return Part(node, operand.start, members[-1].end + 1)

    def event_exists(self, token: Token) -> Part:
        return Part(Not(IsNull(self._attribute(token))), token.start_pos or 0, token.end_pos or 0)

    def event_chain(self, first: Part, *rest: Any) -> Part:
        names = tuple(str(op) for op in rest[::2])
        nodes = tuple(cast_to(part.node, INTEGER) for part in rest[1::2])
        head = first.node
        if isinstance(head, Arithmetic) and (head.ops[0] in "+-") == (names[0] in "+-"):
            names, nodes, head = head.ops + names, head.rest + nodes, head.first
        return Part(Arithmetic(cast_to(head, INTEGER), names, nodes, self.dialect.rules), first.start, rest[-1].end)

    def event_minus(self, op: Token, operand: Part) -> Part:
        node, start = cast_to(operand.node, INTEGER), op.start_pos or 0
        if isinstance(node, Literal) and isinstance(node.value, int) and -node.value <= self.dialect.rules.most:
            return Part(Literal(-node.value), start, operand.end)
        return Part(Sign("-", node, self.dialect.rules), start, operand.end)

    def event_plus(self, op: Token, token: Any) -> Part:
        return Part(Literal(token.constant), op.start_pos or 0, token.end_pos)

    def event_attribute(self, token: Token) -> Part:
        return Part(self._attribute(token), token.start_pos or 0, token.end_pos or 0)

    def _attribute(self, token: Token) -> Field:
        if _ATTRIBUTE.fullmatch(token) is None:
            self._refuse(
                Part(Literal(None), token.start_pos or 0, token.end_pos or 0),
                f"{str(token)!r} is no attribute of an event",
                hint="attributes have lower-case letters and digits, and no prefix: ce_type is called type",
            )
        return Field(event_attribute(token.lower()))

    def event_call(self, name: Token, *arguments: Part) -> Part:
        start, end = name.start_pos or 0, (arguments[-1].end if arguments else (name.end_pos or 0) + 1) + 1
        function = name.upper()
        found = FUNCTIONS.get(function)
        if found is None:
            self._refuse(
                Part(Literal(None), start, name.end_pos or 0),
                f"there is no function {str(name)!r}",
                hint=did_you_mean(nearest(function, FUNCTIONS), "functions: " + ", ".join(FUNCTIONS), quoted=False),
            )
        if not found.fits(len(arguments)):
            self._refuse(
                Part(Literal(None), start, min(end, len(self.text))),
                f"{function} takes {found.arity}, found {len(arguments)}",
            )
        return Part(Invocation(function, tuple(part.node for part in arguments)), start, min(end, len(self.text)))

    def _boolean(self, part: Part) -> Node:
        node = cast_to(part.node, BOOLEAN)
        return node if node.is_condition else Truth(node)


def _parts(op: str, node: Node) -> tuple[Node, ...]:
    """The parts of a chain of that operator, which are associative; any other condition is one part."""
    return node.parts if isinstance(node, InOrder) and node.op == op else (node,)


def _equal_sides(left: Node, right: Node) -> tuple[Node, Node]:
    """Both sides of an equality: the left one is cast to the type of the right one."""
    kind = static_type(right)
    if kind is None:
        return (left if left == right else CastLike(left, right)), right
    only_text = isinstance(right, Literal) and isinstance(right.value, str) and is_only_text(right.value)
    if only_text and static_type(left) is None:
        return left, right  # a boolean or integer is not that string, cast or not: the field itself leads to the filter
    return cast_to(left, kind), right
