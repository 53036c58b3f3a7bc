"""A parsed filter: a small value that compares, hashes and pickles by its text and language."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Final

from bindery.router.filters.ast import TROUBLE, Node, walk
from bindery.router.filters.cesql import evaluation, printing  # noqa: F401  # they register the rules of its nodes
from bindery.router.filters.deviations import evaluation as deviations  # noqa: F401  # … of its nodes
from bindery.router.filters.dialect import dialect_named
from bindery.router.filters.lexer import check_text
from bindery.router.filters.limits import DEFAULT_LIMITS, Limits, Payload
from bindery.router.filters.parser import parse_text
from bindery.router.filters.payload import payload_of
from bindery.router.filters.scalar import Context
from bindery.router.message import Message
from bindery.router.weighed import Weighed


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter that can be evaluated.

    Equal when language and text are, what the bodies are that it looks into, and the compatibility mode under which
    it was read.
    """

    text: str
    dialect: str
    expression: Node = field(compare=False, repr=False)
    payload: Payload | None = field(default=None, repr=False)
    compat: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, expression: Node, *, text: str, dialect: str, compat: str | None = None) -> Filter:
        """A filter from a tree that did not come from text; `text` must state it in full."""
        return cls(text, dialect, expression, payload_of(expression), compat)


def parse(text: str, dialect: str, *, limits: Limits = DEFAULT_LIMITS) -> Filter:
    """The filter that a text states; those used last are remembered, up to `CACHE_BYTES`.

    A blank text accepts everything in jms, apache-selector and artemis, and is an error in the other languages.
    Raises FilterError, with the place, what was expected and a hint.
    """
    check_text(text, limits)
    return _parsed(text, dialect, limits)


def _parse(text: str, dialect: str, limits: Limits) -> Filter:
    expression = parse_text(text, dialect_named(dialect), limits)
    return Filter(text, dialect, expression, payload_of(expression) if limits.payload else None, limits.compat)


def _bytes(filter: Filter) -> int:
    """About what a filter takes: its text, and some hundred bytes a node."""
    return sys.getsizeof(filter.text) + 110 * sum(1 for _ in walk(filter.expression))


#: What remembered filters take; anybody who may try a filter can fill it.
CACHE_BYTES: Final = 64 * 2**20
_parsed: Final = Weighed(_parse, _bytes, weight=CACHE_BYTES, entries=65_536)


def evaluate(filter: Filter, message: Message, *, clock_ms: int = 0) -> bool | None:
    """True, False or None (unknown) for one message: the scalar reference. Only True passes."""
    result = Context(message, clock_ms).value(filter.expression)
    return result if isinstance(result, bool) else None


def is_troubled(filter: Filter, message: Message, *, clock_ms: int = 0) -> bool:
    """Whether the filter does not accept and met run-time trouble (docs/filters.md; XPATH limits and DOCTYPEs)."""
    context = Context(message, clock_ms)
    result = context.value(filter.expression)
    return result is TROUBLE or (result is not True and context.counted)
