"""What lint says of a filter: findings as data."""

from __future__ import annotations

from dataclasses import dataclass

from bindery.router import lint


@dataclass(frozen=True, slots=True)
class Remark:
    """What a check found: a message and its place in the text, in code points (0, 0 where a set has no text)."""

    message: str
    offset: int = 0
    length: int = 0


@dataclass(frozen=True, slots=True)
class Finding(lint.Finding):
    """One remark on a filter, with its place; `where` is the place inside a filter set, None for a text."""

    offset: int
    length: int
    where: str | None = None

    def as_data(self) -> dict[str, object]:
        """The finding as JSON-ready data."""
        names = ("code", "severity", "title", "message", "explanation", "offset", "length", "anchor", "where")
        return {name: getattr(self, name) for name in names}
