"""The progress of a stream on a terminal: a bar with rows per second; nothing elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from bindery.jobs.report import BatchReport, Totals


class StreamProgress:
    """Shows reports of micro-batches as they come; `total` records when it is known.

    The rate is that of the records since the first batch began, waiting included.
    """

    def __init__(self, stream: str, *, total: int | None = None, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self.totals = Totals()
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
        self.totals.add(batch)
        self._bar.update(self._task, completed=self.totals.records, rate=f"{self.rate:,.0f} rows/s")

    def note(self, text: str) -> None:
        """A line that is told wherever the output goes, whole."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    @property
    def rate(self) -> float:
        """Records per second so far."""
        return self.totals.records / max(time.monotonic() - self._started, 1e-9)
