"""The rules of filter lint: each with a check, an example, and what should stand instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from bindery.router.filters.lint.finding import Remark
from bindery.router.filters.lint.subject import Subject
from bindery.router.lint import Rule, Severity, register

DOCUMENT: Final = "docs/lint.md"

Check = Callable[[Subject], Iterator[Remark]]


@dataclass(frozen=True, slots=True)
class FilterRule(Rule):
    """A rule: `check` yields remarks; `example` breaks it and `instead` does not (dialect, text)."""

    check: Check
    dialects: frozenset[str]
    example: tuple[str, str]
    instead: tuple[str, str] | None

    def page(self) -> list[str]:
        """What and why, its languages, a filter that breaks the rule, and one that does not."""
        instead = [] if self.instead is None else [f"Without the remark: {self.instead[1]}"]
        languages = f"Languages: {', '.join(sorted(self.dialects))}"
        return [self.explanation, languages, f"Example: {self.example[1]}", *instead]


#: The rules of filters by code, in the order of their definition.
RULES: Final[dict[str, FilterRule]] = {}

SELECTORS: Final = frozenset({"jms", "apache-selector", "artemis"})
JMS_LIKE: Final = frozenset({"jms", "apache-selector"})
SQL: Final = frozenset({"amqp-sql"})
TEXTS: Final = SELECTORS | SQL
SETS: Final = frozenset({"filter-set"})
EVERYTHING: Final = TEXTS | SETS


def rule(
    code: str,
    title: str,
    *,
    severity: Severity = "warning",
    explanation: str,
    dialects: frozenset[str] = TEXTS,
    example: tuple[str, str],
    instead: tuple[str, str] | None = None,
) -> Callable[[Check], Check]:
    """Register a check as a rule."""

    def add(check: Check) -> Check:
        found = FilterRule(code, title, severity, explanation, DOCUMENT, check, dialects, example, instead)
        RULES[code] = register(found)
        return check

    return add
