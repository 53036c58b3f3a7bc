"""Actions of rules of Azure Service Bus: what they do to the copy of a message, statement by statement.

Source: "Subscription rule SQL action syntax": `SET property = expression` and `REMOVE property`, with semicolons
between them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_PART: Final = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\[(?:[^]]|\]\])*\]|;|[^'\"\[;]+|.", re.S)
_NAME: Final = r"((?:[A-Za-z_]\w*\s*\.\s*)?(?:[A-Za-z_]\w*|\[(?:[^]]|\]\])*\]|\"(?:[^\"]|\"\")*\"))"
_SET: Final = re.compile(rf"\s*SET\s+{_NAME}\s*=\s*(\S.*?)\s*", re.S | re.I)
_REMOVE: Final = re.compile(rf"\s*REMOVE\s+{_NAME}\s*", re.S | re.I)


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement: `SET` a property to the value of an expression, or `REMOVE` it, where there is no expression."""

    name: str
    expression: str | None = None

    def __str__(self) -> str:
        return f"REMOVE {self.name}" if self.expression is None else f"SET {self.name} = {self.expression}"


def read_action(text: str) -> list[Statement] | None:
    """The statements of an action; None for a text that is none."""
    written = [""]
    for part in _PART.findall(text):
        if part == ";":
            written.append("")
        else:
            written[-1] += part
    statements = [_statement(one) for one in written if one.strip()]
    known = [one for one in statements if one is not None]
    return known if known and len(known) == len(statements) else None


def _statement(text: str) -> Statement | None:
    assigned = _SET.fullmatch(text)
    if assigned is not None:
        return Statement(assigned[1], assigned[2])
    removed = _REMOVE.fullmatch(text)
    return None if removed is None else Statement(removed[1])
