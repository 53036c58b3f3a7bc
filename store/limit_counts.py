"""How many rows the limits of a queue have deleted, as transaction identifiers of its log.

The numbers travel with the commits that delete, so they are as durable as the deletions, and as exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, Literal

from bindery.store.actions import Transaction
from bindery.store.log import TableLog

#: Why rows go: in RabbitMQ's words, or because a later row has the same last value key.
Reason = Literal["expired", "maxlen", "replaced"]
REASONS: Final[tuple[Reason, ...]] = ("expired", "maxlen", "replaced")
#: Reasons for which rows go to the dead letter exchange.
DEAD: Final[tuple[Reason, ...]] = ("expired", "maxlen")
_COUNT: Final = "bindery.limited:"


def counted(log: TableLog, counts: Mapping[Reason, int]) -> list[Transaction]:
    """What puts on record, in a commit on top of the log's version, how many more rows go."""
    before = deleted(log)
    return [Transaction(f"{_COUNT}{reason}", before[reason] + number) for reason, number in counts.items()]


def deleted(log: TableLog) -> Counter[Reason]:
    """How many rows limits have deleted from a queue since its table was made, by reason."""
    return Counter({reason: log.transaction_version(f"{_COUNT}{reason}") or 0 for reason in REASONS})
