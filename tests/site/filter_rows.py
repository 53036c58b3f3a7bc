"""Rows of example tables in `docs/filters`: a filter, a message, and what the product says of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from bindery.router.columns import BatchView
from bindery.router.errors import FilterError
from bindery.router.filters import DEFAULT_LIMITS, FilterGroups, Limits, evaluate, parse
from bindery.router.filters.limits import Payload
from bindery.router.message import Message, to_batch
from tests.documents import ROOT

#: 1 January 2026: what UTC() says.
_CLOCK_MS: Final = 1_767_225_600_000
#: Page -> the language that its tables are in.
DIALECTS: Final = {path.stem: path for path in sorted(ROOT.glob("docs/filters/*.md")) if path.stem != "index"}
_ROW: Final = re.compile(r"^\| `(.+?)` \| `(\{.*\})` \| (\S+) \|$")
_WORDS: Final = {True: "true", False: "false", None: "unknown"}


@dataclass(frozen=True, slots=True)
class Row:
    """A row: `message` is what stands in its second column, as a message; where that is a body, bodies are JSON."""

    dialect: str
    line: int
    filter: str
    message: Message
    result: str
    limits: Limits = DEFAULT_LIMITS


def rows(dialect: str) -> Iterator[Row]:
    """The rows of tables with the heads `filter`, `headers` or `message`, `result`. Other rows are errors."""
    head = ""
    for line, text in enumerate(DIALECTS[dialect].read_text("utf-8").splitlines(), 1):
        if not text.startswith("|"):
            head = ""
        elif not head:
            head = text
        elif head.startswith("| filter ") and not text.startswith("|---"):
            match = _ROW.match(text)
            assert match, f"{DIALECTS[dialect].name}:{line}: {text}"
            if head == "| filter | body | result |":
                message = Message.from_json({"body": match[2]})
                yield Row(dialect, line, match[1], message, match[3], Limits(payload=Payload("json")))
                continue
            shown = json.loads(match[2])
            raw = {"application_properties": shown} if head == "| filter | headers | result |" else shown
            yield Row(dialect, line, match[1], Message.from_json(raw), match[3])


def judged(row: Row) -> str:
    """What the product says: refused, or true, false, unknown, by the reference and the engine alike."""
    try:
        filter = parse(row.filter, row.dialect, limits=row.limits)
    except FilterError:
        return "refused"
    result = evaluate(filter, row.message, clock_ms=_CLOCK_MS)
    view = BatchView(to_batch([row.message]), clock_ms=_CLOCK_MS)
    selection = FilterGroups([[filter]]).select(view, np.zeros(1, np.int64), np.zeros(1, np.int32))
    assert (len(selection.pair) == 1) == (result is True), f"the engine and the reference differ: {row}"
    return _WORDS[result]
