"""Lint of filters and of topologies: one registry of rules, and what their findings have in common.

A code never changes its meaning, and has one section on its rule's page.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from bindery.router.errors import InvalidInput

Severity = Literal["error", "warning", "info"]
#: Severities from the gravest.
SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "info")


@dataclass(frozen=True, slots=True)
class Rule:
    """One code: what it is called, how grave it is, why it matters, and on which page of the docs it stands."""

    code: str
    title: str
    severity: Severity
    explanation: str
    document: str

    @property
    def anchor(self) -> str:
        """Where the code is documented."""
        return f"{self.document}#{self.code.lower()}"

    def page(self) -> list[str]:
        """The paragraphs of its section: what and why, an example, what to do; in Markdown."""
        return [self.explanation]


#: Every rule of the linters that are loaded, by code.
RULES: Final[dict[str, Rule]] = {}
RuleType = TypeVar("RuleType", bound=Rule)


def register(rule: RuleType) -> RuleType:
    """Add a rule; raises ValueError when its code is another's."""
    if rule.code in RULES:
        raise ValueError(f"two rules have the code {rule.code}")
    RULES[rule.code] = rule
    return rule


def prefixes(codes: str, rules: Iterable[str], *, where: str) -> list[str]:
    """Codes of rules or beginnings of codes, separated by commas; raises InvalidInput for one that no rule has."""
    named = [code.strip().upper() for code in codes.split(",") if code.strip()]
    for prefix in named:
        if not any(code.startswith(prefix) for code in rules):
            raise InvalidInput(f"no rule {prefix!r}", where=where, hint="`bindery rule` lists the rules")
    return named


@dataclass(frozen=True, slots=True)
class Finding:
    """One remark by a rule; never a reason to refuse anything. What it is about is said by the classes below it."""

    code: str
    message: str

    @property
    def rule(self) -> Rule:
        """The rule behind the code."""
        return RULES[self.code]

    @property
    def severity(self) -> Severity:
        """How grave the rule is."""
        return self.rule.severity

    @property
    def title(self) -> str:
        """What the rule is called."""
        return self.rule.title

    @property
    def explanation(self) -> str:
        """Why the rule is there."""
        return self.rule.explanation

    @property
    def anchor(self) -> str:
        """Where the rule is documented."""
        return self.rule.anchor
