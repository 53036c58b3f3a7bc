"""What lint says: findings as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["warning", "info"]


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
