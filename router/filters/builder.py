# ruff: noqa: D102  # the methods of the builder are named after the grammar rules that they serve
"""Parse events to tree, with the type rules that hold when a filter is defined (docs/filters.md).

The methods are named after the grammar's rules and get the parts of a sentence bottom-up; nothing recurses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from lark import Token
from lark.visitors import v_args

from bindery.router.columns import Ref
from bindery.router.errors import FilterError
from bindery.router.filters import like
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
    XPath,
)
from bindery.router.filters.body_paths import Path as BodyPath
from bindery.router.filters.cesql.building import EventRules
from bindery.router.filters.deviations.building import Deviations
from bindery.router.filters.dialect import Dialect
from bindery.router.filters.fields import SQL_VALUES, is_map
from bindery.router.filters.limits import Limits
from bindery.router.filters.parts import Part
from bindery.router.filters.payload import FORMATS, reference
from bindery.router.filters.service_bus import ServiceBusRules
from bindery.router.message import SECTION_FIELDS
from bindery.router.spelling import did_you_mean, nearest

#: Function -> how many arguments it takes.
ARITY = {"LOWER": 1, "UPPER": 1, "LEFT": 2, "RIGHT": 2, "SUBSTRING": 3, "UTC": 0, "DATE": 1}
_EQUALITY = ("=", "<>")


@dataclass(slots=True)
class Path:
    """A reference of the SQL filter while it is read: names and indexes, left to right."""

    steps: list[tuple[str | Part, bool]]
    start: int
    end: int


@v_args(inline=True)
class TreeBuilder(EventRules, ServiceBusRules):
    """Builds the tree of one text. Lark calls its methods, named after grammar rules; `build_with` comes first."""

    text: str
    dialect: Dialect
    limits: Limits
    deviations: Deviations

    def build_with(self, text: str, dialect: Dialect, limits: Limits) -> None:
        """Set the text that the next parse is about."""
        self.text, self.dialect, self.limits = text, dialect, limits
        self.deviations = Deviations.under(limits.compat, dialect)

    # conditions

    def start(self, part: Part) -> Node:
        return self._condition(part)

    def either(self, *parts: Part) -> Part:
        node = self.deviations.either(_flat(Or, parts, self))
        return Part(node, parts[0].start, parts[-1].end)

    def both(self, *parts: Part) -> Part:
        node = self.deviations.both(_flat(And, parts, self))
        return Part(node, parts[0].start, parts[-1].end)

    def negate(self, part: Part) -> Part:
        return Part(Not(self._condition(part)), part.start, part.end)

    def compare(self, left: Part, op: Token, right: Part) -> Part:
        name = "<>" if op == "!=" else str(op)
        for side in (left, right):
            if name not in _EQUALITY:
                self._refuse_unordered(side, f"`{name}`")
        node = self.deviations.compare(Compare(name, left.node, right.node, self.deviations.rules))
        return Part(node, left.start, right.end)

    def between(self, operand: Part, low: Part, high: Part) -> Part:
        return self._between(operand, low, high, negated=False)

    def not_between(self, operand: Part, low: Part, high: Part) -> Part:
        return self._between(operand, low, high, negated=True)

    def _between(self, operand: Part, low: Part, high: Part, *, negated: bool) -> Part:
        for side in (operand, low, high):
            self._refuse_unordered(side, "BETWEEN")
        node = self.deviations.between(Between(operand.node, low.node, high.node, negated, self.deviations.rules))
        return Part(node, operand.start, high.end)

    def member(self, operand: Part, *members: Part) -> Part:
        if self.dialect.strict:
            if not isinstance(operand.node, Field) or operand.bracketed:
                self._refuse(operand, "IN takes a property on its left")
            for item in members:
                if not _is_text(item.node) or item.bracketed:
                    self._refuse(item, "IN takes string literals in parentheses", hint="write x = 1 OR x = 2 instead")
        node = self.deviations.member(In(operand.node, tuple(item.node for item in members)))
        return Part(node, operand.start, members[-1].end)

    def not_member(self, operand: Part, *members: Part) -> Part:
        part = self.member(operand, *members)
        part.node = Not(part.node)
        return part

    def like(self, operand: Part, pattern: Part, escape: Part | None = None) -> Part:
        if self.dialect.strict:
            if not self.deviations.not_first:  # NOT a LIKE 'x' is (NOT a) LIKE 'x' there
                self._refuse_condition(operand, "LIKE")
            for side, name in ((pattern, "pattern"), (escape, "escape")):
                if side is not None and (not _is_text(side.node) or side.bracketed):
                    self._refuse(side, f"the {name} of LIKE must be a string literal")
        self._check_pattern(pattern, escape)
        like_node = Like(operand.node, pattern.node, escape.node if escape else None, self.limits.like_pattern)
        return Part(self.deviations.like(like_node), operand.start, (escape or pattern).end)

    def not_like(self, operand: Part, pattern: Part, escape: Part | None = None) -> Part:
        part = self.like(operand, pattern, escape)
        part.node = Not(part.node)
        return part

    def _check_pattern(self, pattern: Part, escape: Part | None) -> None:
        mark: str | None = None
        if escape is not None and isinstance(escape.node, Literal):
            value = escape.node.value
            if not isinstance(value, str) or len(value) != 1:
                self._refuse(escape, "the escape of LIKE is a string of one character")
            mark = value
        if not _is_text(pattern.node):
            return
        text = str(pattern.node.value)  # type: ignore[attr-defined]  # a text literal
        if len(text) > self.limits.like_pattern:
            self._refuse(pattern, f"a LIKE pattern of more than {self.limits.like_pattern} characters")
        if (escape is None or mark is not None) and like.compile_pattern(text, mark) is None:
            self._refuse(
                pattern,
                "the pattern of LIKE ends with its escape character",
                hint="the escape stands before the character that it takes literally; write it twice for itself",
            )

    def is_null(self, operand: Part) -> Part:
        if not self.dialect.strict:
            self._reference_only(operand, "IS NULL")
        elif isinstance(operand.node, Literal):
            self._refuse(operand, "IS NULL takes a property or an expression, not a literal")
        return Part(IsNull(operand.node), operand.start, operand.end)

    def is_not_null(self, operand: Part) -> Part:
        part = self.is_null(operand)
        part.node = Not(part.node)
        return part

    def exists(self, operand: Part) -> Part:
        self._reference_only(operand, "EXISTS")
        return Part(Not(IsNull(operand.node)), operand.start, operand.end)

    def xpath(self, expression: Any) -> Part:
        from bindery.router.filters import xpath  # noqa: PLC0415  # an XML parser, loaded when a filter needs it

        try:
            xpath.compile(expression.constant)
        except FilterError as error:
            # the place inside the expression, counted in the filter: quotes are doubled there
            before = expression.constant[: error.offset]
            raise FilterError(
                error.message,
                text=self.text,
                offset=expression.start_pos + 1 + len(before) + before.count("'"),
                length=error.length + error.found.count("'"),
                hint=error.hint,
            ) from None
        return Part(XPath(expression.constant, self.limits.xpath), expression.start_pos, expression.end_pos)

    # operands

    def chain(self, first: Part, *rest: Any) -> Part:
        ops, operands = rest[::2], rest[1::2]
        if self.dialect.strict:
            for part in (first, *operands):
                self._refuse_condition(part, f"`{ops[0]}`")
        names, nodes = tuple(str(op) for op in ops), tuple(part.node for part in operands)
        head = first.node
        if isinstance(head, Arithmetic) and (head.ops[0] in "+-") == (names[0] in "+-"):
            # (a + b) + c is the same chain: left to right
            names, nodes, head = head.ops + names, head.rest + nodes, head.first
        return Part(Arithmetic(head, names, nodes, self.deviations.rules), first.start, operands[-1].end)

    def sign(self, op: Token, operand: Part) -> Part:
        if self.dialect.strict:
            self._refuse_condition(operand, f"`{op}`")
        node, start = operand.node, op.start_pos or 0
        if isinstance(node, Literal) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
            if op == "+":
                return Part(node, start, operand.end)
            if not (isinstance(node.value, int) and node.value == -(2**63)):
                return Part(Literal(-node.value), start, operand.end)
        return Part(Sign(str(op), node, self.deviations.rules), start, operand.end)

    def bracketed(self, part: Part) -> Part:
        part.bracketed = True
        return part

    def literal(self, token: Any) -> Part:
        return Part(Literal(token.constant), token.start_pos, token.end_pos)

    def true(self, token: Token) -> Part:
        return Part(Literal(True), token.start_pos or 0, token.end_pos or 0)

    def false(self, token: Token) -> Part:
        return Part(Literal(False), token.start_pos or 0, token.end_pos or 0)

    def null(self, token: Token) -> Part:
        return Part(Literal(None), token.start_pos or 0, token.end_pos or 0)

    def nan(self, token: Token) -> Part:
        return Part(Literal(math.nan), token.start_pos or 0, token.end_pos or 0)

    def inf(self, token: Token) -> Part:
        return Part(Literal(math.inf), token.start_pos or 0, token.end_pos or 0)

    def name(self, token: Token) -> Part:
        return self._named(str(token), token)

    def body(self, token: Any) -> Part:
        return Part(self._in_body(token.constant, token.start_pos, token.end_pos), token.start_pos, token.end_pos)

    def _in_body(self, path: BodyPath, start: int, end: int) -> Field:
        payload = self.limits.payload
        if payload is None:
            raise ValueError("nothing reads bodies where none are declared")
        if path and not FORMATS[payload.format].members:
            raise FilterError(
                f"a body that is {payload.format} has no members",
                text=self.text,
                offset=start,
                length=end - start,
                hint="`body` alone stands for the whole",
            )
        return Field(reference(payload, path))

    def quoted(self, token: Any) -> Part:
        return self._named(token.constant, token)

    def _named(self, name: str, token: Token) -> Part:
        names, prefix = self.dialect.names, self.dialect.reserved_prefix
        ref = names.get(name)
        if ref is None and prefix is not None and name.startswith(prefix):
            close = nearest(name, [known for known in names if known.startswith(prefix)])
            raise FilterError(
                f"no message field is called {name!r}",
                text=self.text,
                offset=token.start_pos or 0,
                length=len(token),
                hint=did_you_mean(close, f"{prefix}<field of header or properties>", quoted=False),
            )
        node = Field(ref or Ref("application_properties", name))
        return Part(node, token.start_pos or 0, token.end_pos or 0)

    # references of the SQL filter

    def path(self, token: Any) -> Path:
        return Path([_step(token)], token.start_pos, token.end_pos)

    def step(self, path: Path, token: Any) -> Path:
        if token.type == "NAME" and "-" in token:
            self._refuse_hyphen(token, token.start_pos, f"[{token}] for the name")
        path.steps.append(_step(token))
        path.end = token.end_pos
        return path

    def index(self, path: Path, operand: Part) -> Path:
        path.steps.append((operand, True))
        path.end = operand.end + 1
        return path

    def property(self, path: Path) -> Part:
        (first, delimited), *steps = path.steps
        name = str(first)
        section = None if delimited else self.dialect.sections.get(name)
        if name == "body" and not delimited and self.limits.payload is not None:
            return Part(self._in_body(self._constants(steps), path.start, path.end), path.start, path.end)
        dotted = bool(steps) and isinstance(steps[0][0], str)
        if section is not None and "-" in name and not dotted:
            form = section if section in SQL_VALUES else f"{name}.<name>"
            self._refuse_hyphen(name, path.start, f"{form} for the section")
        if section is not None and dotted:
            node: Field | Element = self._in_section(section, str(steps[0][0]), path)
            steps = steps[1:]
        elif name in SQL_VALUES and not delimited:
            node = Field(Ref(name))
        else:
            node = Field(Ref("application_properties", name))
        for step, _ in steps:
            node = Element(node, Literal(step) if isinstance(step, str) else step.node)
        return Part(node, path.start, path.end)

    def _constants(self, steps: list[tuple[str | Part, bool]]) -> tuple[str | int, ...]:
        """The steps of a path into the body, which is known when the filter is defined."""
        found: list[str | int] = []
        for step, _ in steps:
            value = step.node.value if isinstance(step, Part) and isinstance(step.node, Literal) else step
            if not isinstance(value, str | int) or isinstance(value, bool) or (isinstance(value, int) and value < 0):
                self._refuse(cast(Part, step), "an index into the body is a whole number from 0, or a string")
            found.append(value)
        return tuple(found)

    def _refuse_hyphen(self, name: str, start: int, other: str) -> NoReturn:
        """A section's name with a hyphen but no dot: by the letter a subtraction, hardly ever meant as one."""
        spaced = name.replace("-", " - ")
        raise FilterError(
            f"{name!r} stands only before a dot",
            text=self.text,
            offset=start,
            length=len(name),
            hint=f"write {other}, `{spaced}` for a subtraction",
        )

    def _in_section(self, section: str, name: str, path: Path) -> Field | Element:
        if section in SQL_VALUES:
            return Element(Field(Ref(section)), Literal(name))
        fields = SECTION_FIELDS.get(section, {})
        if not is_map(section) and name not in fields:
            close = nearest(name.replace("-", "_"), fields)
            raise FilterError(
                f"{section} has no field {name!r}",
                text=self.text,
                offset=path.start,
                length=path.end - path.start,
                hint=did_you_mean(close, "fields: " + ", ".join(fields), quoted=False),
            )
        return Field(Ref(section, name))

    def function(self, name: Token) -> Token:
        return name

    def call(self, name: Token, *arguments: Part) -> Part:
        function = str(name.type)
        start = name.start_pos or 0
        end = arguments[-1].end if arguments else name.end_pos or 0
        wanted = ARITY[function]
        if len(arguments) != wanted:
            raise FilterError(
                f"{function} takes {wanted} argument{'s' * (wanted != 1)}, found {len(arguments)}",
                text=self.text,
                offset=start,
                length=end - start,
            )
        return Part(Call(function, tuple(part.node for part in arguments)), start, end)

    # type rules

    def _condition(self, part: Part) -> Node:
        node = part.node
        if node.is_condition:
            return node
        is_flag = isinstance(node, Literal) and isinstance(node.value, bool)
        if self.dialect.strict and not isinstance(node, Field) and not is_flag:
            self._refuse(part, "a condition is needed here, this is a value", hint="compare it with something")
        return self.deviations.flag(node)

    def _refuse_unordered(self, part: Part, place: str) -> None:
        if not self.dialect.strict:
            return
        self._refuse_condition(part, place)
        if isinstance(part.node, Literal) and isinstance(part.node.value, str | bool):
            what = "a string" if isinstance(part.node.value, str) else "a boolean"
            self._refuse(part, f"{place} orders numbers, not {what}", hint="strings and booleans have = and <> only")

    def _refuse_condition(self, part: Part, place: str) -> None:
        if part.node.is_condition:
            self._refuse(part, f"{place} takes a value, this is a condition")

    def _reference_only(self, part: Part, place: str) -> None:
        if not isinstance(part.node, Field | Element) or part.bracketed:
            self._refuse(part, f"{place} takes a property")


def _step(token: Any) -> tuple[str, bool]:
    """A name and whether it is delimited."""
    return (token.constant, True) if token.type == "QUOTED" else (str(token), False)


def _is_text(node: Node) -> bool:
    return isinstance(node, Literal) and isinstance(node.value, str)


def _flat(kind: type[And | Or], parts: tuple[Part, ...], builder: TreeBuilder) -> tuple[Node, ...]:
    """The parts of a chain; a bracketed chain of the same kind joins it (both are associative).

    One that goes in turn stays as it is.
    """
    nodes: list[Node] = []
    for part in parts:
        node = builder._condition(part)
        nodes.extend(node.parts if isinstance(node, kind) else (node,))
    return tuple(nodes)
