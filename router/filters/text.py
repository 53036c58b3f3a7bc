"""Text rules that must not depend on a locale or a library: simple case mappings and ISO 8601 dates.

Case mappings go code point by code point (Unicode simple mappings), so that a text keeps its length:
'ß' has no upper case, final sigma is an ordinary sigma.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def lower(text: str) -> str:
    """Simple lower case of every code point."""
    return text.lower() if text.isascii() else "".join(map(_lower, text))


def upper(text: str) -> str:
    """Simple upper case of every code point."""
    return text.upper() if text.isascii() else "".join(map(_upper, text))


def fold(text: str) -> str:
    """Simple case folding of every code point: two texts that differ in case alone fold to one."""
    return text.lower() if text.isascii() else "".join(map(_fold, text))


@lru_cache(maxsize=4096)
def _lower(char: str) -> str:
    if char == "İ":  # the only code point whose full lower case is longer than the simple one
        return "i"
    return char.lower()


@lru_cache(maxsize=4096)
def _upper(char: str) -> str:
    # Where the full mapping is longer, the title case is the simple upper case of a Greek iota-subscript
    # letter; other such letters (ß, ŉ, ligatures) have no simple one.
    for mapped in (char.upper(), char.title()):
        if len(mapped) == 1:
            return mapped
    return char


@lru_cache(maxsize=4096)
def _fold(char: str) -> str:
    if char == "İ":  # folds only in full or Turkic mappings
        return char
    for mapped in (char.casefold(), char.lower()):
        if len(mapped) == 1:
            return mapped
    return char


_DATE = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d|\d{8}|\d{4}-?W\d\d(?:-?\d)?|\d{4}-?\d{3})"
    r"(?:[Tt ](?P<time>\d\d(?::?\d\d(?::?\d\d)?)?)(?:[.,](?P<fraction>\d{1,30}))?"
    r"(?P<zone>[Zz]|[+-]\d\d(?::?\d\d)?)?)?",
    re.ASCII,
)


#: No longer text is a date: 30 digits of a fraction included, 59 characters are.
_LONGEST_DATE = 64


def date_to_ms(text: str) -> int | None:
    """Milliseconds since 1970 of an ISO 8601 date or date and time (no zone = UTC), None when it is none.

    Calendar, week and ordinal dates, extended or basic; a finer fraction is cut to milliseconds.
    """
    return _date_to_ms(text) if len(text) <= _LONGEST_DATE else None


@lru_cache(maxsize=4096)
def _date_to_ms(text: str) -> int | None:
    found = _DATE.fullmatch(text)
    if found is None:
        return None
    digits = re.sub("[-:]", "", found["date"])
    time = (found["time"] or "").replace(":", "")
    zone = (found["zone"] or "Z").replace(":", "")
    try:
        day = _day(digits)
        hour, minute, second = (int(time[n : n + 2] or 0) for n in (0, 2, 4))
        if (hour, minute, second) == (24, 0, 0) and not int(found["fraction"] or 0):
            day, hour = day + timedelta(days=1), 0
        moment = day.replace(hour=hour, minute=minute, second=second)
        offset = timedelta(0)
        if zone not in "Zz":
            if int(zone[1:3]) > 23 or int(zone[3:5] or 0) > 59:
                return None
            offset = timedelta(hours=int(zone[1:3]), minutes=int(zone[3:5] or 0)) * (-1 if zone[0] == "-" else 1)
    except (ValueError, OverflowError):
        return None
    # a fraction belongs to the last unit given: .5 after an hour is half an hour
    unit = {0: 0, 2: 3_600_000, 4: 60_000, 6: 1000}[len(time)]
    fraction = found["fraction"]
    part = int(fraction) * unit // 10 ** len(fraction) if fraction else 0
    return (moment - _EPOCH - offset) // timedelta(milliseconds=1) + part


def _day(digits: str) -> datetime:
    if "W" in digits:
        year, rest = digits.split("W")
        return datetime.fromisocalendar(int(year), int(rest[:2]), int(rest[2:] or 1)).replace(tzinfo=UTC)
    if len(digits) == 7:
        first = datetime(int(digits[:4]), 1, 1, tzinfo=UTC)
        day = first + timedelta(days=int(digits[4:]) - 1)
        if day.year != first.year:
            raise ValueError("no such day of the year")
        return day
    return datetime(int(digits[:4]), int(digits[4:6]), int(digits[6:]), tzinfo=UTC)
