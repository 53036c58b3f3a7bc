"""A rule as a table row: a filter, what the message has, and the truth that the rule demands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pytest

from bindery.router.columns import BatchView
from bindery.router.errors import FilterError
from bindery.router.filters import DIALECTS, FilterGroups, evaluate, is_troubled, parse
from bindery.router.message import Message, to_batch

#: The languages with sentences; patterns are JSON (`test_patterns.py`).
WORDED: Final = tuple(name for name, dialect in DIALECTS.items() if dialect.grammar.endswith(".lark"))
#: The languages that share one logic and one grammar of values; CloudEvents SQL has its own.
SELECTING: Final = tuple(name for name in WORDED if name != "cesql")
CLOCK_MS: Final = 1_577_836_800_000
#: A definition error.
ERROR: Final = "error"


def check(dialect: str, text: str, properties: Mapping[str, Any], expected: bool | str | None) -> None:
    """Both evaluators give `expected` (None: unknown) for a message with these application properties."""
    check_message(dialect, text, {"application_properties": properties}, expected)


def check_message(dialect: str, text: str, message: Mapping[str, Any], expected: bool | str | None) -> None:
    """Like `check`, for a whole message in its JSON form."""
    if expected == ERROR:
        with pytest.raises(FilterError):
            parse(text, dialect)
        return
    item, record = parse(text, dialect), Message.from_json(message)
    assert evaluate(item, record, clock_ms=CLOCK_MS) is expected
    # the negation tells false from unknown in the vectorised evaluator
    plain = text.strip() and ":" not in text.partition("'")[0]
    negated = parse(f"NOT ({text})", dialect) if plain else item
    view = BatchView(to_batch([record]), clock_ms=CLOCK_MS)
    found = FilterGroups([[item, negated]]).select(view, np.zeros(1, np.int64), np.zeros(1, np.int32))
    accepted = set(found.member.tolist())
    assert (0 in accepted) is (expected is True)
    if negated is not item:
        assert (1 in accepted) is (expected is False)
    assert (0 in found.troubled_member.tolist()) is is_troubled(item, record, clock_ms=CLOCK_MS)
