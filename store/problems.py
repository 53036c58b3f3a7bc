"""Why a record is no message, in words: the `detail` of its unroutable row, and what is counted of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from bindery.router.error_text import visible

#: Kinds of problems, by which metrics count them.
KINDS: Final = (
    "not-a-number",
    "not-a-boolean",
    "not-a-time",
    "not-a-value",
    "fields",
    "syntax",
    "expression",
    "message",
    "not-utf-8",
    "file",
    "other",
)
#: Characters of a value that are shown.
_SHOWN: Final = 60
#: Problems of one batch that are told apart in a summary.
_TOLD_APART: Final = 50
#: What may be done about a value that stands for none.
SET_NULL: Final = "set nullValue"
_QUOTED: Final = re.compile(r"'[^']*'")
_MISFIT: Final = re.compile(r"(?P<column>.+?): '(?P<value>.*)' is not (?P<type>[A-Z][^;]*)(?:; .*)?")
_KIND_OF_TYPE: Final[Mapping[str, str]] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"), "not-a-number"),
    "BOOLEAN": "not-a-boolean",
    **dict.fromkeys(("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ"), "not-a-time"),
}


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a record is no message: its kind, what the row says, and the start of that which a summary shows."""

    kind: str
    detail: str
    short: str = ""

    @property
    def summary(self) -> str:
        """What a summary shows."""
        return self.short or self.detail


def misfit(column: str, value: str, type_name: str, advice: str = "") -> Problem:
    """A value of a column that is not of its type, given in SQL; `advice` is what may be done about it."""
    said = f"'{shown(value)}' is not {type_name}"
    kind = _KIND_OF_TYPE.get(re.split(r"[(<]", type_name)[0], "not-a-value")
    return Problem(kind, f"{column}: {said}{advice and '; ' + advice}", f"{column} {said}")


def misfit_in(detail: str) -> dict[str, str] | None:
    """The column, value and type that a detail names (`misfit`); None where it names none."""
    found = _MISFIT.fullmatch(detail)
    return None if found is None else found.groupdict()


def remedy(reason: str, detail: str) -> str | None:
    """What may be done about a record that is no message; None for what is no such record, or nobody knows."""
    found = misfit_in(detail)
    if reason == "too_large":
        return "raise max_record_bytes, or map less of the record"
    if reason != "invalid_record":
        return None
    if found is not None and detail.endswith(SET_NULL):
        return f"source.options: {{nullValue: {shown(found['value'])}}}, if that stands for no value"
    if "multiLine" in detail:
        return "source.options: {multiLine: true}"
    if found is not None and "; message." in detail:
        return "try_cast gives null instead; then write the record into the source again"
    if found is not None:
        return f"correct the record and write it into the source again; or read {found['column']} as STRING"
    if detail.startswith("its header"):
        return "put source.schema, or the file under a new name, right"
    if detail.startswith("message."):
        return "change the expression (try_cast, try_divide, coalesce …), and write the record into the source again"
    return "correct the record, and write it into the source again"


def shown(text: str) -> str:
    """A text from outside, shortened and without what a terminal would act on."""
    return visible(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")


def add_alike(told: Counter[str], found: Iterable[tuple[str, int]]) -> None:
    """Count summaries of problems; those that differ by what they quote are one, shown by the first of them.

    What comes when very many are told apart already is not counted.
    """
    first = {_QUOTED.sub("''", text): text for text in told}
    for text, number in found:
        like = _QUOTED.sub("''", text)
        if like in first or len(first) < _TOLD_APART:
            told[first.setdefault(like, text)] += number
