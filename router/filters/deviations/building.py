"""Which nodes a filter gets under a compatibility mode: asked by the tree builder, which knows no mode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from bindery.router.compat import (
    SELECTOR_DIVISION,
    SELECTOR_FLAGS,
    SELECTOR_IN_TURN,
    SELECTOR_NOT_FIRST,
    SELECTOR_NULLS,
    SELECTOR_TEXT_TESTS,
    SELECTOR_TWO_VALUED,
    SQL_EQUALITY,
    SQL_IN,
    SQL_LIKE,
    switches_of,
)
from bindery.router.filters.ast import And, Between, Compare, In, Like, Literal, Node, Not, Or, Rules, Truth
from bindery.router.filters.deviations.nodes import Flag, InTurn, OneOf, OnText, Same
from bindery.router.filters.dialect import Dialect

#: What the switches of a grammar begin with.
_OF_GRAMMAR: Final[Mapping[str, str]] = {"selector.lark": "selector-", "amqp_sql.lark": "sql-"}


@dataclass(frozen=True, slots=True)
class Deviations:
    """The deviations of a filter while it is read.

    switches  those of the mode that concern its language
    rules     how the language evaluates under them
    """

    switches: frozenset[str]
    rules: Rules

    @classmethod
    def under(cls, mode: str | None, dialect: Dialect) -> Deviations:
        """Those of a language under a mode; none where it has none."""
        prefix = _OF_GRAMMAR.get(dialect.grammar)
        if mode is None or prefix is None:
            return cls(frozenset(), dialect.rules)
        switches = _switches(mode, prefix)
        rules = dialect.rules
        if SELECTOR_DIVISION in switches:
            rules = replace(rules, floating_division=True)
        return cls(switches, rules)

    @property
    def not_first(self) -> bool:
        """Whether NOT binds tighter than comparison."""
        return SELECTOR_NOT_FIRST in self.switches

    def both(self, parts: tuple[Node, ...]) -> Node:
        """AND."""
        return InTurn(True, parts) if SELECTOR_IN_TURN in self.switches else And(parts)

    def either(self, parts: tuple[Node, ...]) -> Node:
        """OR."""
        return InTurn(False, parts) if SELECTOR_IN_TURN in self.switches else Or(parts)

    def compare(self, node: Compare) -> Node:
        """A comparison."""
        if node.op not in ("=", "<>"):
            return node
        same: Node
        if SELECTOR_TWO_VALUED in self.switches:
            same = Same(node.left, node.right, node.rules, True, False, False)
        elif SELECTOR_NULLS in self.switches:
            same = Same(node.left, node.right, node.rules, True, None, False)
        elif SQL_EQUALITY in self.switches:
            same = Same(node.left, node.right, node.rules, None, None, None, bytes=True)
        else:
            return node
        return same if node.op == "=" else Not(same)

    def between(self, node: Between) -> Node:
        """BETWEEN, which is AND or OR of two comparisons."""
        if SELECTOR_IN_TURN not in self.switches:
            return node
        ops = ("<", ">") if node.negated else (">=", "<=")
        low, high = (
            Compare(op, node.operand, bound, node.rules) for op, bound in zip(ops, (node.low, node.high), strict=True)
        )
        return self.either((low, high)) if node.negated else self.both((low, high))

    def member(self, node: In) -> Node:
        """IN."""
        if SQL_IN in self.switches:
            return OneOf(node.operand, node.members)
        return OnText(node) if SELECTOR_TEXT_TESTS in self.switches else node

    def like(self, node: Like) -> Node:
        """LIKE."""
        return OnText(node) if SQL_LIKE in self.switches else node

    def flag(self, node: Node) -> Node:
        """An operand that stands for a condition."""
        return Flag(node) if SELECTOR_FLAGS in self.switches and not isinstance(node, Literal) else Truth(node)


@cache
def _switches(mode: str, prefix: str) -> frozenset[str]:
    return frozenset(name for name in switches_of(mode) if name.startswith(prefix))
