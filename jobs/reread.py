"""Why a record of a CSV or JSON file does not parse: its text is read again, and the value named that does not fit.

Spark marks such a record and leaves the columns that it could not read null. So a column that is null and for
which the text has a value is the one that failed; nothing here judges values by rules of its own.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from bindery.store.problems import SET_NULL, Problem, misfit, shown

#: Characters of a record that is read again; of a longer one it is said that it does not parse.
_LONGEST: Final = 1024 * 1024
_UNPARSED: Final = Problem("other", "the record does not parse by the schema of the source")
#: What stands for a value that is not there, in files of others.
_ABSENT: Final = frozenset({"na", "n/a", "null", "none", "nil", "-", "\\n", "nan", "?"})


@dataclass(frozen=True, slots=True)
class Layout:
    """How the text of a record is read again.

    columns  of the schema, in its order: name, and type in SQL
    read     the places of the columns that the job reads; a record carries a mark for each, 1 where it is null
    null     the text that stands for null in CSV; None when the job does not say
    """

    format: Literal["csv", "json"]
    columns: tuple[tuple[str, str], ...]
    read: tuple[int, ...]
    separator: str = ","
    quote: str = '"'
    escape: str = '"'
    null: str | None = None

    def problem(self, text: str, marks: str) -> Problem:
        """Why a record does not parse."""
        if len(text) > _LONGEST:
            return _UNPARSED
        null = [place for place, mark in zip(self.read, marks, strict=True) if mark == "1"]
        try:
            return (self._in_csv if self.format == "csv" else self._in_json)(text, null)
        except (csv.Error, TypeError, ValueError, RecursionError):
            return _UNPARSED  # Spark takes separators and numbers that Python does not

    def _in_csv(self, text: str, null: list[int]) -> Problem:
        fields = next(self._fields(text), [])
        if len(fields) != len(self.columns):
            counted = f"{len(fields)} field{'s' * (len(fields) != 1)}, the schema has {len(self.columns)} columns"
            # a field with a line end, read line by line
            broken = bool(self.quote) and text.count(self.quote) % 2
            advice = "; a quote is left open: set multiLine: true if fields hold line ends" if broken else ""
            return Problem("fields", counted + advice, counted)
        stated = [place for place in null if fields[place] != (self.null or "")]
        # an empty field without quotes is null, and Python does not tell which had some
        for place in sorted(stated, key=lambda place: not fields[place]):
            value = fields[place]
            absent = self.null is None and value.strip().lower() in _ABSENT
            return misfit(*self._named(place, value), SET_NULL if absent else "")
        return _UNPARSED

    def _fields(self, text: str) -> Iterator[list[str]]:
        if not self.quote:
            return csv.reader([text], delimiter=self.separator, quoting=csv.QUOTE_NONE)
        doubled = self.escape == self.quote
        return csv.reader(
            text.splitlines(keepends=True),
            delimiter=self.separator,
            quotechar=self.quote,
            doublequote=doubled,
            escapechar=None if doubled else self.escape or None,
        )

    def _in_json(self, text: str, null: list[int]) -> Problem:
        try:
            record = json.loads(text)
        except json.JSONDecodeError as error:
            if len(null) < len(self.read):
                return _UNPARSED  # Spark accepts more than JSON, and has read columns
            said = f"not JSON: {error.msg}"
            return Problem("syntax", f"{said} at character {error.pos + 1}", said)
        if not isinstance(record, dict):
            return Problem("syntax", f"no JSON object: '{shown(text)}'")
        stated = [place for place in null if record.get(self.columns[place][0]) is not None]
        if not stated:
            # what has members is read without those that do not fit
            stated = [place for place in self.read if isinstance(record.get(self.columns[place][0]), dict | list)]
            if len(stated) != 1:
                return _UNPARSED
        value = record[self.columns[stated[0]][0]]
        return misfit(*self._named(stated[0], value if isinstance(value, str) else json.dumps(value)))

    def _named(self, place: int, value: str) -> tuple[str, str, str]:
        name, type_name = self.columns[place]
        return name, value, type_name
