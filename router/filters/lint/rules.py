"""The rules of lint: each with a code, an explanation and a place in the docs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from bindery.router.filters.lint.findings import Finding, Remark, Severity
from bindery.router.filters.lint.subject import Subject

#: Where findings are explained; the anchor of a rule is its code in lower case.
DOCUMENT: Final = "docs/lint.md"

Check = Callable[[Subject], Iterator[Remark]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: `check` yields remarks; `example` breaks it and `instead` does not (dialect, text)."""

    code: str
    title: str
    severity: Severity
    explanation: str
    check: Check
    dialects: frozenset[str]
    example: tuple[str, str]
    instead: tuple[str, str] | None

    @property
    def anchor(self) -> str:
        """Where the rule is explained."""
        return f"{DOCUMENT}#{self.code.lower()}"

    def finding(self, remark: Remark, where: str | None) -> Finding:
        """A remark as a finding of this rule."""
        return Finding(
            self.code,
            self.severity,
            self.title,
            remark.message,
            self.explanation,
            remark.offset,
            remark.length,
            self.anchor,
            where,
        )


#: All rules by code, in the order of their definition.
RULES: Final[dict[str, Rule]] = {}

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

    def register(check: Check) -> Check:
        RULES[code] = Rule(code, title, severity, explanation, check, dialects, example, instead)
        return check

    return register
