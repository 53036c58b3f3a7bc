"""The progress of a stream on a terminal: a bar with rows per second; nothing elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from bindery.cli.render import counted
from bindery.jobs.route import BatchReport
from bindery.router.error_text import visible
from bindery.store.problems import add_alike

#: Problems that a summary names, and characters of each.
_NAMED = 3
_CHARS = 120


class StreamProgress:
    """Shows reports of micro-batches as they come; `total` records when it is known.

    The rate is that of the records since the first batch began, waiting included.
    """

    def __init__(self, stream: str, *, total: int | None = None, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self.records = 0
        self.copies = 0
        self.unroutable = 0
        self.batches = 0
        self.reasons: Counter[str] = Counter()
        self.problems: Counter[str] = Counter()
        self._started = time.monotonic()
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("records"),
            TextColumn("[cyan]{task.fields[rate]}"),
            TimeElapsedColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self._task = self._bar.add_task(f"stream {stream}", total=total, rate="")

    def __enter__(self) -> Self:
        self._started = time.monotonic()
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def report(self, batch: BatchReport) -> None:
        """Count a batch; for RouteJob."""
        self.records += batch.records
        self.copies += batch.copies
        self.unroutable += batch.unroutable
        self.batches += 1
        self.reasons.update(batch.reasons)
        add_alike(self.problems, batch.problems.items())
        self._bar.update(self._task, completed=self.records, rate=f"{self.rate:,.0f} rows/s")

    def note(self, text: str) -> None:
        """A line that is told wherever the output goes, whole."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    @property
    def rate(self) -> float:
        """Records per second so far."""
        return self.records / max(time.monotonic() - self._started, 1e-9)

    @property
    def summary(self) -> str:
        """One line: what was routed, and what most often kept records from a queue."""
        parts = [f"{counted(self.records, 'record')} → {counted(self.copies, 'copy', 'copies')}"]
        invalid = self.reasons["invalid_record"]
        if invalid:
            parts.append(f"{invalid:,} invalid: {_most(self.problems)}")
        others = Counter({reason: n for reason, n in self.reasons.items() if reason != "invalid_record"})
        if others:
            parts.append(f"{others.total():,} unroutable: {_most(others)}")
        return ", ".join(parts)


def _most(found: Counter[str]) -> str:
    """The most frequent of what was counted."""
    named = sorted(found.items(), key=lambda one: (-one[1], one[0]))
    texts = [
        f"{visible(text if len(text) <= _CHARS else text[: _CHARS - 1] + '…')} ×{n:,}" for text, n in named[:_NAMED]
    ]
    return ", ".join(texts) + (" …" if len(named) > _NAMED else "")
