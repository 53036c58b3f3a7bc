"""What a micro-batch of a stream did, and what a run did in all its batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bindery.router.engine.result import DUPLICATE
from bindery.router.error_text import counted, visible
from bindery.store.problems import add_alike

#: Problems that a summary names, and characters of each.
_NAMED: Final = 3
_CHARS: Final = 120


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What one micro-batch did; `seconds` by stage (the tasks' own stages summed over tasks).

    `requests` to an object store by kind: of the tasks, and of the driver since the batch before.

    `batch_id` is the number under which its rows are recorded.
    """

    batch_id: int
    topology_version: int
    records: int
    copies: int
    unroutable: int
    seconds: dict[str, float]
    requests: Mapping[str, int] = field(default_factory=dict)
    replayed: bool = False
    #: Of `unroutable`: how many for each reason, and what is wrong with invalid records (store.problems), shortened.
    reasons: Mapping[str, int] = field(default_factory=dict)
    problems: Mapping[str, int] = field(default_factory=dict)
    #: Bodies that filters could not read: ("exchange" or "queue", its name, reason) -> messages.
    unparsable: Mapping[tuple[str, str, str], int] = field(default_factory=dict)


@dataclass(slots=True)
class Totals:
    """Records, copies, and what reached no queue, by reason; of invalid records also what is wrong with them.

    Bodies that filters could not read are counted wherever their messages went.
    """

    records: int = 0
    copies: int = 0
    unroutable: int = 0
    batches: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)
    unparsable: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def add(self, batch: BatchReport) -> None:
        """Count a batch."""
        self.records += batch.records
        self.copies += batch.copies
        self.unroutable += batch.unroutable
        self.batches += 1
        self.reasons.update(batch.reasons)
        add_alike(self.problems, batch.problems.items())
        self.unparsable.update(batch.unparsable)

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {
            "batches": self.batches,
            "records": self.records,
            "copies": self.copies,
            "unroutable": self.unroutable,
            "reasons": dict(sorted(self.reasons.items())),
            "problems": dict(sorted(self.problems.items())),
            "unparsable": [
                {"kind": kind, "name": name, "reason": reason, "messages": number}
                for (kind, name, reason), number in sorted(self.unparsable.items())
            ],
        }

    @property
    def lost(self) -> int:
        """Records that reached no queue, but for those that repeat one which was routed."""
        return self.unroutable - self.reasons[DUPLICATE]

    @property
    def summary(self) -> str:
        """One line: what was routed, and what most often kept records from a queue."""
        parts = [f"{counted(self.records, 'record')} → {counted(self.copies, 'copy', 'copies')}"]
        invalid = self.reasons["invalid_record"]
        if invalid:
            parts.append(f"{invalid:,} invalid: {_most(self.problems)}")
        repeats = self.reasons[DUPLICATE]
        if repeats:
            parts.append(counted(repeats, "duplicate"))
        told = ("invalid_record", DUPLICATE)
        others = Counter({reason: n for reason, n in self.reasons.items() if reason not in told})
        if others:
            parts.append(f"{others.total():,} unroutable: {_most(others)}")
        if self.unparsable:
            unread = Counter({f"{why} for {kind} {name!r}": n for (kind, name, why), n in self.unparsable.items()})
            parts.append(f"{counted(unread.total(), 'body', 'bodies')} not readable: {_most(unread)}")
        return ", ".join(parts)


def _most(found: Counter[str]) -> str:
    """The most frequent of what was counted."""
    named = sorted(found.items(), key=lambda one: (-one[1], one[0]))
    texts = [
        f"{visible(text if len(text) <= _CHARS else text[: _CHARS - 1] + '…')} ×{n:,}" for text, n in named[:_NAMED]
    ]
    return ", ".join(texts) + (" …" if len(named) > _NAMED else "")
