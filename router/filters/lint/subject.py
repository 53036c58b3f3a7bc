"""A filter with the places of its nodes, ready to be looked over."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from lark import Token
from lark.visitors import v_args

from bindery.router.filters.ast import Condition, IsNull, Node, Not, walk
from bindery.router.filters.builder import TreeBuilder
from bindery.router.filters.dialect import DIALECTS, Dialect
from bindery.router.filters.filter import Filter
from bindery.router.filters.lexer import tokenize
from bindery.router.filters.limits import NO_LIMITS, Limits
from bindery.router.filters.lint.finding import Remark
from bindery.router.filters.lint.schema import ObservedSchema
from bindery.router.filters.parser import parse_text, strip_prefixes
from bindery.router.filters.parts import Part

_IS_NULL = re.compile(r"[\s)]*IS\s+(?:NOT\s+)?NULL", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Located(Condition):
    """A tree with the places that its nodes came from; what `LocatingBuilder` gives."""

    root: Node
    spans: dict[int, tuple[int, int]] = field(hash=False, compare=False)
    unbracketed_negations: tuple[Node, ...] = ()


class LocatingBuilder(TreeBuilder):
    """Builds the tree and remembers the place of every part."""

    def build_with(self, text: str, dialect: Dialect, limits: Limits) -> None:
        """Start on a text; see `TreeBuilder.build_with`."""
        super().build_with(text, dialect, limits)
        self.spans: dict[int, tuple[int, int]] = {}
        self.negations: list[Node] = []

    def locate(self, part: Any) -> Any:
        """Remember where a part stands."""
        if isinstance(part, Part):
            self.spans[id(part.node)] = (part.start, part.end - part.start)
        return part


def _locating(name: str) -> Any:
    plain = getattr(TreeBuilder, name).base_func

    def build(self: LocatingBuilder, *parts: Any) -> Any:
        part = plain(self, *parts)
        if isinstance(part, Part) and isinstance(part.node, IsNull | Not):
            # the words IS NULL stand behind the operand that the part was built from
            words = _IS_NULL.match(self.text, part.end)
            part.end = words.end() if words else part.end
        return self.locate(part)

    build.__name__ = name
    return v_args(inline=True)(build)


_CONDITIONS = "either both compare between not_between member not_member like not_like is_null is_not_null exists xpath"
_OPERANDS = "chain sign literal true false null nan inf name quoted body property call"
for _name in f"{_CONDITIONS} {_OPERANDS}".split():
    setattr(LocatingBuilder, _name, _locating(_name))


@v_args(inline=True)
def _negate(self: LocatingBuilder, part: Part) -> Part:
    built: Part = TreeBuilder.negate.base_func(self, part)  # type: ignore[attr-defined]  # lark's wrapper
    start = self.text.upper().rfind("NOT", 0, part.start)
    built.start = start if start >= 0 else part.start
    if not part.bracketed:
        self.negations.append(built.node)
    return self.locate(built)  # type: ignore[no-any-return]


@v_args(inline=True)
def _start(self: LocatingBuilder, part: Part) -> Node:
    root: Node = TreeBuilder.start.base_func(self, part)  # type: ignore[attr-defined]  # lark's wrapper
    return Located(root, self.spans, tuple(self.negations))


LocatingBuilder.negate = _negate  # type: ignore[method-assign]
LocatingBuilder.start = _start  # type: ignore[method-assign]


def described(raw: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every described filter of a filter set, members of groups included, with its place."""
    pending: list[tuple[str, Any]] = [("", raw)]
    while pending:
        where, item = pending.pop(0)
        if isinstance(item, dict):
            if item.keys() == {"descriptor", "value"}:
                yield where, item
            pending += [(f"{where}.{key}" if where else key, value) for key, value in item.items()]
        elif isinstance(item, list):
            pending += [(f"{where}[{n}]", value) for n, value in enumerate(item)]


class Subject:
    """One filter written as text, or the tree of a filter set (whose nodes have no place)."""

    def __init__(self, filter: Filter, schema: ObservedSchema | None = None) -> None:  # what it is
        self.text = filter.text
        self.schema = schema
        self.dialect_name = filter.dialect
        self.dialect = DIALECTS.get(filter.dialect)
        self._payload = filter.payload
        self._spans: dict[int, tuple[int, int]] = {}
        self.root: Node = filter.expression
        self.unbracketed_negations: tuple[Node, ...] = ()
        if self.dialect is not None:
            limits = replace(NO_LIMITS, payload=filter.payload, compat=filter.compat)
            tree = parse_text(filter.text, self.dialect, limits, builder=LocatingBuilder)
            if isinstance(tree, Located):
                self.root = tree.root
                self._spans = tree.spans
                self.unbracketed_negations = tree.unbracketed_negations

    @cached_property
    def nodes(self) -> list[Node]:
        """Every node, parents first."""
        return list(walk(self.root))

    def all(self, *kinds: type[Any]) -> Iterator[Any]:
        """The nodes of some types."""
        return (node for node in self.nodes if isinstance(node, kinds))

    @cached_property
    def tokens(self) -> list[Token]:
        """The tokens of the text."""
        if self.dialect is None:
            return []
        start, dialect = strip_prefixes(self.text, self.dialect)
        if self._payload is not None:
            dialect = dialect.with_bodies()
        return tokenize(self.text, dialect, limits=NO_LIMITS, start=start)

    @cached_property
    def _described(self) -> list[dict[str, Any]]:
        """Every described filter of a filter set, members of groups included."""
        if self.dialect is not None:
            return []
        return [item for _, item in described(json.loads(self.text))]

    @property
    def descriptors(self) -> list[str | int]:
        """The descriptors of a filter set."""
        return [item["descriptor"] for item in self._described if isinstance(item["descriptor"], str | int)]

    def described(self, *descriptors: str | int) -> Iterator[tuple[str | int, dict[str, Any]]]:
        """The maps that the filters of some descriptors hold."""
        for item in self._described:
            if item["descriptor"] in descriptors and isinstance(item["value"], dict):
                yield item["descriptor"], item["value"]

    def span(self, node: Node) -> tuple[int, int]:
        """Offset and length of a node, (0, 0) when it has no place of its own."""
        found = self._spans.get(id(node))
        if found is None:
            inner = next((self._spans[id(child)] for child in walk(node) if id(child) in self._spans), None)
            return inner or (0, len(self.text) if self._spans else 0)
        return found

    def written(self, node: Node) -> str:
        """The text of a node."""
        offset, length = self.span(node)
        return self.text[offset : offset + length]

    def remark(self, node: Node, message: str) -> Remark:
        """A remark on a node."""
        return Remark(message, *self.span(node))
