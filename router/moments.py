"""Times as text, and text as times."""

from __future__ import annotations

from datetime import UTC, datetime


def iso(moment: datetime, timespec: str = "seconds") -> str:
    """A time in ISO 8601, UTC, to the second unless told: 2026-01-31T12:00:00Z."""
    return moment.astimezone(UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def in_utc(moment: datetime) -> datetime:
    """The time; without a zone it is taken for UTC."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def read_iso(text: str) -> datetime:
    """A time in ISO 8601; without a zone it is UTC. Raises ValueError."""
    return in_utc(datetime.fromisoformat(text))
