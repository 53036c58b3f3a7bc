"""Text to tree: the language's tokens through the LALR tables of its grammar file.

lark's LALR parser keeps its own stack, the tree is built bottom-up while parsing: no input recurses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from threading import Lock
from typing import Any, Final

from lark import Lark, Token, UnexpectedToken
from lark.exceptions import VisitError
from lark.lexer import Lexer

from bindery.router.errors import FilterError
from bindery.router.filters.ast import Literal, Node, Truth, depth
from bindery.router.filters.builder import TreeBuilder
from bindery.router.filters.deviations.building import Deviations
from bindery.router.filters.dialect import Dialect
from bindery.router.filters.lexer import check_text, tokenize
from bindery.router.filters.limits import Limits
from bindery.router.filters.syntax_errors import explain

#: Forms of texts that no grammar file describes, by what `Dialect.grammar` calls them, and what reads them.
READERS: Final[dict[str, Callable[[str, Dialect, Limits], Node]]] = {}


class _Tokens(Lexer):
    """Hands tokens that are already made to lark's parser."""

    def __init__(self, conf: Any) -> None:
        """Nothing to configure: the tokens come from the language's table."""

    def lex(self, tokens: Any) -> Iterator[Token]:  # type: ignore[override]  # lark's one-argument form
        return iter(tokens)


class _Grammar:
    """A grammar file's parser and the tree builder that it calls."""

    def __init__(self, name: str, builder: type[TreeBuilder], *, not_first: bool) -> None:
        self.lock = Lock()  # the builder works on one text at a time
        self.builder = builder()
        rules = files("bindery.router.filters").joinpath(name).read_text("utf-8")
        self.lark = Lark(
            _not_first(rules) if not_first else rules,
            parser="lalr",
            lexer=_Tokens,
            transformer=self.builder,
            maybe_placeholders=False,
        )


@cache
def _grammar(name: str, builder: type[TreeBuilder], *, not_first: bool) -> _Grammar:
    return _Grammar(name, builder, not_first=not_first)


def _not_first(rules: str) -> str:
    """The rules of a grammar in which NOT binds as tightly as a sign (Artemis, unaryExpr of its grammar)."""
    negation = '| "NOT" negation                                   -> negate\n'
    sign = "?factor: atom | (PLUS | MINUS) factor"
    if rules.count(negation) != 1 or rules.count(sign) != 1:
        raise ValueError("the grammar has no such rules")
    return rules.replace(negation, "\n").replace(
        sign, f'{sign[: sign.index("|")]}| "NOT" factor -> negate {sign[sign.index("|") :]}'
    )


def parse_text(text: str, dialect: Dialect, limits: Limits, *, builder: type[TreeBuilder] = TreeBuilder) -> Node:
    """The tree of a text, its types checked; raises FilterError. `builder` may collect more on the way."""
    check_text(text, limits)
    read = READERS.get(dialect.grammar)
    tree = read(text, dialect, limits) if read else _parsed(text, dialect, limits, builder)
    if depth(tree) > limits.depth:
        raise FilterError(
            f"the filter is nested deeper than {limits.depth} levels",
            text=text,
            length=len(text),
            hint="split it into several filters",
        )
    return tree


def _parsed(text: str, dialect: Dialect, limits: Limits, builder: type[TreeBuilder]) -> Node:
    """The tree by the language's grammar file."""
    start, dialect = strip_prefixes(text, dialect)
    if limits.payload is not None:
        dialect = dialect.with_bodies()
    tokens = tokenize(text, dialect, limits=limits, start=start)
    if not tokens:
        if not dialect.blank_accepts:
            raise FilterError("the filter is empty", text=text, hint="write TRUE to accept every message")
        return Truth(Literal(True))
    not_first = Deviations.under(limits.compat, dialect).not_first
    grammar = _grammar(dialect.grammar, builder, not_first=not_first)
    try:
        with grammar.lock:
            grammar.builder.build_with(text, dialect, limits)
            tree: Node = grammar.lark.parse(tokens)  # type: ignore[assignment]  # the builder's tree
    except UnexpectedToken as error:
        raise explain(error, tokens, text, dialect) from None
    except VisitError as error:
        if isinstance(error.orig_exc, FilterError):
            raise error.orig_exc from None
        raise
    return tree


def strip_prefixes(text: str, dialect: Dialect) -> tuple[int, Dialect]:
    """Where the filter begins after its prefixes, and the language as it reads after them."""
    start = 0
    while True:
        found = next((prefix for prefix in dialect.prefixes if text.startswith(prefix.text, start)), None)
        if found is None:
            return start, dialect
        start += len(found.text)
        dialect = dialect.with_prefix(found)
