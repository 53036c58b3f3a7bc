"""What maintenance keeps, for how long, and how large it makes files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from bindery.router.errors import InvalidInput

_UNITS: Final = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
_DURATION: Final = re.compile(r"\s*(?:interval\s+)?(\d{1,9})\s*(second|minute|hour|day|week)s?\s*", re.IGNORECASE)
_SIZE: Final = re.compile(r"\s*(\d{1,9})\s*(KiB|MiB|GiB|TiB)?\s*")
_BYTES: Final = {None: 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}

#: How long old versions stay readable where nothing else is said.
DEFAULT_RETENTION: Final = timedelta(days=7)
#: Size of merged files where nothing else is said: whoever takes a message rewrites the file that holds it.
DEFAULT_TARGET: Final = 32 << 20
#: Shortest retention that may be asked for: a query that runs must not lose its files.
SHORTEST_RETENTION: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Policy:
    """What maintenance keeps, for how long, and how large it makes files.

    retention           how long old versions stay readable; None: what each table states
    versions            of a table that is committed to very often, so many versions are kept, …
    shortest            … but never less than this long (a shorter `retention` comes first)
    orphan_age          age at which a file that no version refers to is taken for left behind
    hold_limit          a stream that has not moved for so long holds nothing back any more
    manifest_retention  age at which rows of the manifest are summed up
    target_bytes        size that compaction makes files of
    fan_in              files of one order of size that are merged
    """

    retention: timedelta | None = None
    versions: int = 10_000
    shortest: timedelta = timedelta(days=1)
    orphan_age: timedelta = timedelta(days=1)
    hold_limit: timedelta = timedelta(days=30)
    manifest_retention: timedelta = timedelta(days=30)
    target_bytes: int = DEFAULT_TARGET
    fan_in: int = 16


def duration(text: str) -> timedelta:
    """A length of time such as "7 days" or "interval 12 hours"; raises InvalidInput."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise InvalidInput(f"{text!r} is no length of time", where="retention", hint="such as '7 days' or '12 hours'")
    return timedelta(seconds=int(found[1]) * _UNITS[found[2].lower()])


def retention_of(text: str) -> timedelta:
    """A retention that a user asks for; raises InvalidInput for one under a minute."""
    found = duration(text)
    if found < SHORTEST_RETENTION:
        raise InvalidInput(
            f"a retention of {text!r} is too short",
            where="retention",
            hint="at least 1 minute: whoever reads a table needs its files until the end of the query",
        )
    return found


def size(text: str) -> int:
    """A number of bytes such as "32 MiB"; raises InvalidInput under 1 MiB."""
    found = _SIZE.fullmatch(text)
    number = 0 if found is None else int(found[1]) * _BYTES[found[2]]
    if not 1 << 20 <= number <= 4 << 30:
        raise InvalidInput(
            f"{text!r} is no size of files", where="target size", hint="1 MiB to 4 GiB, such as '32 MiB'"
        )
    return number


def bytes_of(text: str) -> int:
    """How many bytes a table may have, such as "10 GiB"; raises InvalidInput under 64 MiB."""
    found = _SIZE.fullmatch(text)
    number = 0 if found is None else int(found[1]) * _BYTES[found[2]]
    if number < 64 << 20:
        raise InvalidInput(f"{text!r} is no size of a table", where="size", hint="at least 64 MiB, such as '10 GiB'")
    return number


def as_interval(length: timedelta) -> str:
    """A length of time as table properties state it."""
    seconds = int(length.total_seconds())
    for unit in ("week", "day", "hour", "minute"):
        if unit != "week" and seconds and seconds % _UNITS[unit] == 0:
            return f"interval {seconds // _UNITS[unit]} {unit}s"
    return f"interval {seconds} seconds"
