"""Text to transformation: `SET field = expression; REMOVE field; RENAME field TO field`.

The statements are those of rule actions of Azure Service Bus ("Subscription rule SQL action syntax"), and RENAME.
Fields and expressions are those of a filter language: `amqp-sql`, or after `service-bus:` that of Service Bus. The
text is cut into statements by its tokens, and each expression is read by the grammar of its language.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NoReturn

from lark import Token
from lark.visitors import v_args

from bindery.router.errors import FilterError
from bindery.router.filters.ast import Field, Literal, Node, walk
from bindery.router.filters.builder import TreeBuilder
from bindery.router.filters.description import type_of
from bindery.router.filters.dialect import AMQP_SQL, SERVICE_BUS, Dialect
from bindery.router.filters.fields import property_name
from bindery.router.filters.lexer import check_text, tokenize
from bindery.router.filters.limits import DEFAULT_LIMITS, Limits
from bindery.router.filters.parser import parse_text
from bindery.router.filters.parts import Part
from bindery.router.message import MAP_SECTIONS, MESSAGE_ID_TYPES, SECTION_FIELDS
from bindery.router.spelling import did_you_mean, nearest
from bindery.router.transforms.applying import fits
from bindery.router.transforms.statements import SETTABLE, Remove, Rename, Set, Statement, Target, Transformation
from bindery.router.values import TYPE_NAMES, a_type
from bindery.router.weighed import Weighed

#: What a text begins with whose fields and expressions are those of Service Bus.
SERVICE_BUS_PREFIX: Final = "service-bus:"
#: Statements of one transformation.
MOST_STATEMENTS: Final = 64
_VERBS: Final = ("SET", "REMOVE", "RENAME")
_FORMS: Final = "SET field = expression, REMOVE field or RENAME field TO field, with `;` between them"
#: After these a word is an operand, never the beginning of a statement.
_WANTS_OPERAND: Final = frozenset(
    {"DOT", "PLUS", "MINUS", "STAR", "SLASH", "PERCENT", "COMPARISON", "COMMA", "LPAR", "LSQB"}
    | {"AND", "OR", "NOT", "LIKE", "IN", "IS", "ESCAPE", "EXISTS"}
)
_NAMES: Final = frozenset({"NAME", "QUOTED", "BRACKETED", *_VERBS, "TO"})
_OPENS: Final = frozenset({"LPAR", "LSQB"})
_CLOSES: Final = frozenset({"RPAR", "RSQB"})


@v_args(inline=True)
class _Operands(TreeBuilder):
    """Builds the tree of an operand: no condition is needed at the top."""

    def start(self, part: Part) -> Node:
        """The whole text."""
        return part.node


def parse(text: str, *, limits: Limits = DEFAULT_LIMITS) -> Transformation:
    """The transformation that a text states; those used last are remembered.

    Raises FilterError, with the place, what was expected and a hint.
    """
    check_text(text, limits)
    return _parsed(text, limits)


def _parse(text: str, limits: Limits) -> Transformation:
    start, dialect = 0, AMQP_SQL
    if text.startswith(SERVICE_BUS_PREFIX):
        start, dialect = len(SERVICE_BUS_PREFIX), SERVICE_BUS
    return Transformation(text, tuple(_Reader(text, dialect, limits, start).statements()))


_parsed: Final = Weighed(
    _parse,
    lambda made: len(made.text) + 110 * sum(_nodes(one) for one in made.statements),
    weight=16 * 2**20,
    entries=16_384,
)


def _nodes(statement: Statement) -> int:
    return 4 + (sum(1 for _ in walk(statement.expression)) if isinstance(statement, Set) else 0)


def _statement_tokens(dialect: Dialect) -> Dialect:
    """The tokens of a language and `;`, with the words of statements as tokens of their own."""
    return replace(
        dialect,
        tokens={**dialect.tokens, "SEMICOLON": ";"},
        keywords=dialect.keywords | {*_VERBS, "TO"},
        hints={key: hint for key, hint in dialect.hints.items() if key != ";"},
    )


class _Reader:
    """Reads one text, statement by statement."""

    def __init__(self, text: str, dialect: Dialect, limits: Limits, start: int) -> None:
        self._text = text
        self._dialect = dialect
        self._limits = limits
        around = _statement_tokens(dialect)
        self._tokens = tokenize(text, around.with_bodies() if limits.payload else around, limits=limits, start=start)
        self._next = 0

    def statements(self) -> Iterator[Statement]:
        """Each statement in order."""
        found = 0
        for tokens in self._cut():
            found += 1
            if found > MOST_STATEMENTS:
                self._refuse(tokens[:1], f"more than {MOST_STATEMENTS} statements")
            yield self._statement(tokens)
        if not found:
            raise FilterError("the transformation is empty", text=self._text, hint=_FORMS)

    # -- cutting --------------------------------------------------------------------------------------

    def _cut(self) -> Iterator[list[Token]]:
        """The tokens of each statement, without the marks between them (`;`, or `,` as Service Bus writes lists)."""
        statement: list[Token] = []
        depth = 0
        for place, token in enumerate(self._tokens):
            depth += (token.type in _OPENS) - (token.type in _CLOSES)
            ends = token.type == "SEMICOLON" or (token.type == "COMMA" and depth == 0)
            if statement and (ends or self._begins(place, statement, depth)):
                yield statement
                statement = []
            if ends:
                continue
            if not statement and token.type not in _VERBS:
                hint = did_you_mean(nearest(str(token).upper(), _VERBS), _FORMS, quoted=False)
                self._refuse([token], "a statement begins with SET, REMOVE or RENAME", hint)
            statement.append(token)
        if statement:
            yield statement

    def _begins(self, place: int, before: Sequence[Token], depth: int) -> bool:
        """Whether a token begins a statement though no mark stands before it."""
        tokens = self._tokens
        if tokens[place].type not in _VERBS or depth or before[-1].type in _WANTS_OPERAND:
            return False
        if len(before) == 1 or before[-1].type == "TO":  # the name that a statement is about
            return False
        return place + 1 < len(tokens) and tokens[place + 1].type in _NAMES

    # -- statements -----------------------------------------------------------------------------------

    def _statement(self, tokens: list[Token]) -> Statement:
        match tokens[0].type:
            case "SET":
                return self._set(tokens)
            case "REMOVE":
                return self._remove(tokens)
        return self._rename(tokens)

    def _set(self, tokens: list[Token]) -> Set:
        equals = next((n for n, token in enumerate(tokens) if token.type == "COMPARISON"), None)
        if equals is None or tokens[equals] != "=":
            at = tokens[-1:] if equals is None else tokens[equals : equals + 1]
            self._refuse(at, "SET needs `=` behind the field", "SET field = expression")
        target = self._target(tokens[0], tokens[1:equals])
        expression = self._expression(tokens[equals], tokens[equals + 1 :])
        self._check_type(target, expression, tokens[equals + 1 :])
        return Set(target, expression)

    def _remove(self, tokens: list[Token]) -> Remove:
        return Remove(self._target(tokens[0], tokens[1:]))

    def _rename(self, tokens: list[Token]) -> Rename:
        behind = (n for n, token in enumerate(tokens) if token.type == "TO" and n > 1 and tokens[n - 1].type != "DOT")
        to = next(behind, None)
        if to is None:
            self._refuse(tokens[-1:], "RENAME needs TO behind the field", "RENAME field TO field")
        old, new = self._target(tokens[0], tokens[1:to]), self._target(tokens[to], tokens[to + 1 :])
        for one, part in ((old, tokens[1:to]), (new, tokens[to + 1 :])):
            if one.section not in MAP_SECTIONS:
                hint = "fields of header and properties have fixed names: SET the one and REMOVE the other"
                self._refuse(part, f"{one} cannot be renamed", hint)
        if old == new:
            self._refuse(tokens[1:to], f"{old} is renamed to its own name")
        return Rename(old, new)

    # -- parts ----------------------------------------------------------------------------------------

    def _target(self, before: Token, tokens: list[Token]) -> Target:
        if not tokens:
            self._refuse([before], f"the field behind {before.type} is missing", _FORMS)
        node = self._tree(tokens)
        if not isinstance(node, Field):
            self._refuse(tokens, f"{self._said(tokens)} is no field", "name one whole field, such as a.region")
        name = property_name(node.ref)
        if name is not None and node.ref.section != "application_properties":  # found in any case, kept as written
            last = tokens[-1]
            if last.type == "RPAR":
                last = tokens[-2]
            written = str(last) if not hasattr(last, "constant") else last.constant
            return Target("application_properties", written, any_case=True)
        section, name = node.ref.section, node.ref.name
        if section in MAP_SECTIONS:
            return Target(section, name)
        if name not in SETTABLE.get(section, ()):
            known = [f"{one}.{field}" for one, fields in SETTABLE.items() for field in sorted(fields)]
            hint = "entries of application_properties, annotations and footer, and these: " + ", ".join(known)
            self._refuse(tokens, f"{node.ref} cannot be changed", hint)
        return Target(section, name)

    def _expression(self, before: Token, tokens: list[Token]) -> Node:
        if not tokens:
            self._refuse([before], "the expression is missing", "SET field = expression")
        return self._tree(tokens)

    def _tree(self, tokens: list[Token]) -> Node:
        """What the grammar of the language makes of some of the text, at its place."""
        start, end = tokens[0].start_pos or 0, tokens[-1].end_pos or 0
        try:
            return parse_text(" " * start + self._text[start:end], self._dialect, self._limits, builder=_Operands)
        except FilterError as error:
            raise FilterError(
                error.message,
                text=self._text,
                offset=error.offset,
                length=error.length,
                expected=error.expected,
                hint=error.hint,
            ) from None

    def _check_type(self, target: Target, expression: Node, tokens: list[Token]) -> None:
        """Refuse a value that the field can never hold, where the form of the expression says so."""
        kinds = SECTION_FIELDS.get(target.section)
        if kinds is None:
            return
        kind = kinds[target.name]
        expected = a_type(kind) if kind else "a message id: a string, an integer or bytes"
        if isinstance(expression, Literal):
            possible = expression.value is None or fits(target, expression.value)
        else:
            accepted = {TYPE_NAMES[one] for one in ((kind,) if kind else MESSAGE_ID_TYPES)}
            given = type_of(expression)
            possible = given == "any" or any(_may_be(one, given) for one in accepted)
        if not possible:
            self._refuse(tokens, f"{target} is {expected}", f"{self._said(tokens)} gives no such value")

    def _said(self, tokens: list[Token]) -> str:
        said = self._text[tokens[0].start_pos : tokens[-1].end_pos]
        return repr(said if len(said) <= 60 else said[:57] + "...")

    def _refuse(self, tokens: Sequence[Token], message: str, hint: str | None = None) -> NoReturn:
        start, end = tokens[0].start_pos or 0, tokens[-1].end_pos or 0
        raise FilterError(message, text=self._text, offset=start, length=end - start, hint=hint)


def _may_be(accepted: str, given: str) -> bool:
    """Whether an expression that gives such values may give one of that type."""
    return accepted in given.split(" or ") or (accepted == "integer" and "number" in given)
