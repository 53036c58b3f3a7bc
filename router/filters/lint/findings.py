"""What lint says: findings as data, each by a rule with a code, an explanation and a place in the docs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from bindery.router.filters.lint.subject import Subject

Severity = Literal["warning", "info"]
#: Where findings are explained; the anchor of a rule is its code in lower case.
DOCUMENT: Final = "docs/lint.md"


@dataclass(frozen=True, slots=True)
class Finding:
    """One remark on a filter; never a reason to refuse it.

    offset, length  the place in the filter's text, in code points (both 0 when the set has no text there)
    where           the place inside a filter set, None for a filter written as text
    """

    code: str
    severity: Severity
    title: str
    message: str
    explanation: str
    offset: int
    length: int
    anchor: str
    where: str | None = None

    def as_data(self) -> dict[str, object]:
        """The finding as JSON-ready data."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Remark:
    """What a check found: a message and the place in the text."""

    message: str
    offset: int = 0
    length: int = 0


Check = Callable[["Subject"], Iterator[Remark]]


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
