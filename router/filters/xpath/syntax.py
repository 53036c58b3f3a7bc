"""XPath 1.0 text to expression objects: tokens, precedence, and every check that needs no document.

Sources: XPath 1.0 §2 (paths), §3 (expressions), §3.7 (how `*` and the operator names are told apart).
Refused here: malformed text, unknown functions and axes, wrong argument counts, prefixed names and
variables (none is bound), and expressions over the caps.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NoReturn

from bindery.router.errors import FilterError
from bindery.router.filters.xpath.axes import AXES, NodeTest
from bindery.router.filters.xpath.expressions import (
    Arithmetic,
    Call,
    Comparison,
    Constant,
    Expression,
    Filtered,
    Junction,
    Negation,
    Path,
    Step,
    Union,
)
from bindery.router.filters.xpath.functions import FUNCTIONS

#: Caps on one expression; with them evaluation needs a bounded stack whatever the document.
MAX_CHARACTERS: Final = 4096
MAX_TOKENS: Final = 1000
MAX_NESTING: Final = 100

_NAME: Final = r"[^\W\d][\w.\-\u00b7]*"
_TOKEN: Final = re.compile(
    rf"""[ \t\r\n]*(?:
        (?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)
      | (?P<literal>"[^"]*"|'[^']*')
      | (?P<name>{_NAME})
      | (?P<symbol>::|//|\.\.|!=|<=|>=|[()\[\].@,/|+\-=<>*:$])
    )""",
    re.VERBOSE,
)
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_NODE_TYPES: Final = frozenset({"comment", "text", "processing-instruction", "node"})
_OPERATOR_NAMES: Final = frozenset({"and", "or", "mod", "div"})
#: §3.5 and §3.4: operators from the loosest level to the tightest.
_LEVEL_OF: Final = {
    operator: level
    for level, operators in enumerate(("or", "and", "= !=", "< <= > >=", "+ -", "* div mod"))
    for operator in operators.split()
}
_CHAINS: Final = (Junction, Junction, Comparison, Comparison, Arithmetic, Arithmetic)
#: §3.7: after these a `*` is a name test and a name is a name.
_NO_OPERATOR_AFTER: Final = frozenset(
    {"", "@", "::", "(", "[", ",", "/", "//", "|", "+", "-", "=", "!=", "<", "<=", ">", ">=", ":", "$"}
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # number, literal, name, operator, symbol, end
    text: str
    offset: int


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.depth = 0
        if len(text) > MAX_CHARACTERS:
            self.fail(f"XPath expression is longer than {MAX_CHARACTERS} characters", MAX_CHARACTERS, 0)
        self.tokens = self.tokenize()
        self.at = 0

    def fail(self, message: str, offset: int, length: int, hint: str | None = None) -> NoReturn:
        raise FilterError(message, text=self.text, offset=offset, length=length, hint=hint)

    def fail_at(self, token: _Token, message: str, hint: str | None = None) -> NoReturn:
        self.fail(message, token.offset, len(token.text), hint)

    def tokenize(self) -> list[_Token]:
        tokens: list[_Token] = []
        at, before = 0, ""
        while True:
            found = _TOKEN.match(self.text, at)
            if found is None:
                blank = _SPACE.match(self.text, at)
                at = blank.end() if blank else at
                if at == len(self.text):
                    tokens.append(_Token("end", "", at))
                    return tokens
                unclosed = self.text[at] in "'\""
                self.fail(
                    "unclosed literal in XPath" if unclosed else f"unexpected {self.text[at]!r} in XPath",
                    at,
                    len(self.text) - at if unclosed else 1,
                )
            kind = found.lastgroup or "symbol"
            text, offset = found.group(kind), found.start(kind)
            after_operand = before not in _NO_OPERATOR_AFTER
            if after_operand and (text == "*" or (kind == "name" and text in _OPERATOR_NAMES)):
                kind = "operator"
            tokens.append(_Token(kind, text, offset))
            before = "" if kind == "operator" else text
            at = found.end()
            if len(tokens) > MAX_TOKENS:
                self.fail(f"XPath expression has more than {MAX_TOKENS} tokens", offset, len(text))

    @property
    def token(self) -> _Token:
        return self.tokens[self.at]

    def take(self) -> _Token:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def sees(self, *texts: str) -> bool:
        return self.token.kind == "symbol" and self.token.text in texts

    def expect(self, text: str) -> _Token:
        if not self.sees(text):
            self.fail_at(self.token, f"expected {text!r} in XPath, found {self.token.text or 'the end'!r}")
        return self.take()

    def parse(self) -> Expression:
        expression = self.expression()
        if self.token.kind != "end":
            self.fail_at(self.token, f"unexpected {self.token.text!r} in XPath")
        return expression

    def expression(self) -> Expression:
        """A whole expression, one level deeper than what surrounds it."""
        self.depth += 1
        if self.depth > MAX_NESTING:
            self.fail_at(self.token, f"XPath expression is nested deeper than {MAX_NESTING} levels")
        found = self.operators(0)
        self.depth -= 1
        return found

    def operators(self, loosest: int) -> Expression:
        """Operands joined by operators that bind at least as tightly as a level."""
        found = self.unary()
        while (level := self.level()) >= loosest:
            rest: list[tuple[str, Expression]] = []
            while self.level() == level:
                operator = self.take().text
                rest.append((operator, self.operators(level + 1)))
            found = _CHAINS[level](found, tuple(rest))
        return found

    def level(self) -> int:
        """How tightly the token binds as an operator; -1 when it is none."""
        if self.token.kind not in ("operator", "symbol"):
            return -1
        return _LEVEL_OF.get(self.token.text, -1)

    def unary(self) -> Expression:
        signs = 0
        while self.sees("-"):
            self.take()
            signs += 1
        members = [self.path()]
        while self.sees("|"):
            self.take()
            members.append(self.path())
        operand = members[0] if len(members) == 1 else Union(tuple(members))
        return Negation(operand, odd=signs % 2 == 1) if signs else operand

    def path(self) -> Expression:
        if self.sees("/"):
            self.take()
            return Path(None, self.steps() if self.starts_step() else (), absolute=True)
        if self.sees("//"):
            self.take()
            return Path(None, _joined((_ANY_BELOW, *self.steps())), absolute=True)
        if not self.starts_primary():
            return Path(None, self.steps(), absolute=False)
        start: Expression = self.primary()
        predicates = self.predicates()
        if predicates:
            start = Filtered(start, predicates)
        if self.sees("/"):
            self.take()
            return Path(start, self.steps(), absolute=False)
        if self.sees("//"):
            self.take()
            return Path(start, _joined((_ANY_BELOW, *self.steps())), absolute=False)
        return start

    def starts_step(self) -> bool:
        token = self.token
        return token.kind == "name" or (token.kind == "symbol" and token.text in (".", "..", "@", "*"))

    def starts_primary(self) -> bool:
        token = self.token
        if token.kind in ("number", "literal"):
            return True
        if token.kind == "symbol":
            return token.text in ("(", "$")
        follows = self.tokens[self.at + 1] if token.kind == "name" else None
        return follows is not None and follows.text == "(" and token.text not in _NODE_TYPES

    def steps(self) -> tuple[Step, ...]:
        steps = [self.step()]
        while self.sees("/", "//"):
            if self.take().text == "//":
                steps.append(_ANY_BELOW)
            steps.append(self.step())
        return _joined(tuple(steps))

    def step(self) -> Step:
        token = self.token
        if self.sees("."):
            self.take()
            return Step("self", NodeTest("node"), ())
        if self.sees(".."):
            self.take()
            return Step("parent", NodeTest("node"), ())
        axis = "child"
        if self.sees("@"):
            self.take()
            axis = "attribute"
        elif token.kind == "name" and self.tokens[self.at + 1].text == "::":
            if token.text not in AXES:
                self.fail_at(token, f"unknown XPath axis {token.text!r}", "axes: " + ", ".join(AXES))
            axis = token.text
            self.at += 2
        return Step(axis, self.node_test(), self.predicates())

    def node_test(self) -> NodeTest:
        token = self.token
        if self.sees("*"):
            self.take()
            return NodeTest("*")
        if token.kind != "name":
            self.fail_at(token, f"expected a name in XPath, found {token.text or 'the end'!r}")
        self.take()
        if self.sees(":"):
            self.fail(
                f"XPath prefix {token.text!r} is not bound to a namespace",
                token.offset,
                len(token.text) + 1,
                "no prefix is bound in a filter; compare local-name() and namespace-uri()",
            )
        if not (self.sees("(") and token.text in _NODE_TYPES):
            return NodeTest("name", token.text)
        self.take()
        target: str | None = None
        if token.text == "processing-instruction" and self.token.kind == "literal":
            target = self.take().text[1:-1]
        self.expect(")")
        return NodeTest(token.text, target)

    def predicates(self) -> tuple[Expression, ...]:
        found: list[Expression] = []
        while self.sees("["):
            self.take()
            found.append(self.expression())
            self.expect("]")
        return tuple(found)

    def primary(self) -> Expression:
        token = self.take()
        if token.kind == "number":
            return Constant(float(token.text))
        if token.kind == "literal":
            return Constant(token.text[1:-1])
        if token.text == "(":
            inner = self.expression()
            self.expect(")")
            return inner
        if token.text == "$":
            name = self.token.text
            self.fail(f"XPath variable ${name} is not bound", token.offset, 1 + len(name), "a filter binds none")
        return self.call(token)

    def call(self, token: _Token) -> Expression:
        if token.text not in FUNCTIONS:
            known = "XPath 1.0 functions: " + ", ".join(FUNCTIONS)
            self.fail_at(token, f"unknown XPath function {token.text!r}", known)
        self.expect("(")
        arguments: list[Expression] = []
        if not self.sees(")"):
            arguments.append(self.expression())
            while self.sees(","):
                self.take()
                arguments.append(self.expression())
        self.expect(")")
        function = FUNCTIONS[token.text]
        if not function.fewest <= len(arguments) <= function.most:
            self.fail_at(token, f"XPath function {token.text}() takes {function.counts}, found {len(arguments)}")
        return Call(function, tuple(arguments))


_ANY_BELOW: Final = Step("descendant-or-self", NodeTest("node"), ())


def _joined(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """`//x` as one descendant step where no predicate counts positions: one sweep instead of two."""
    joined: list[Step] = []
    for step in steps:
        plain = step.axis == "child" and not any(predicate.positional for predicate in step.predicates)
        if joined and joined[-1] is _ANY_BELOW and plain:
            joined[-1] = Step("descendant", step.test, step.predicates)
        else:
            joined.append(step)
    return tuple(joined)


def parse(text: str) -> Expression:
    """The expression that a text states; raises FilterError with the position inside it."""
    return _Parser(text).parse()
