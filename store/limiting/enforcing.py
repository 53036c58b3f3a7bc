"""Limits of a queue enforced: what it must not hold any more goes, in one commit, beside whoever appends and takes.

The commit holds only while the table has the files that were judged: rows that somebody has taken meanwhile are judged
anew, and what is appended meanwhile is for the next pass. It carries, by reason, how many rows limits have deleted from
the table so far, as transaction identifiers: the numbers are as durable as the deletions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from bindery.router.errors import BinderyError
from bindery.router.model import Queue
from bindery.router.queue_limits import QueueLimits
from bindery.store import tables
from bindery.store.actions import AddFile, Transaction
from bindery.store.limiting.judging import REASONS, Judged, Reason, judge
from bindery.store.log import TableLog
from bindery.store.paths import DataDir
from bindery.store.read import rewritten
from bindery.store.rewriting import UNCHANGED, Rewriting, Unchanged
from bindery.store.row_bag import Places
from bindery.store.transfers import queue_log

#: Transaction identifiers that count rows by reason.
_COUNT: Final = "bindery.limited:"


@dataclass(slots=True)
class LimitsReport:
    """What the limits of a queue did, or would do.

    expired     rows whose time was over
    overflowed  rows that were too many
    files       files that went as a whole
    bytes       bytes of those files
    next_ms     milliseconds since 1970 before which nothing else expires, as far as files tell; None for never
    kept_back   why the limits of this queue are not kept
    left        somebody else is at the table
    error       why they could not be kept
    """

    vhost: str
    queue: str
    expired: int = 0
    overflowed: int = 0
    files: int = 0
    bytes: int = 0
    next_ms: int | None = None
    kept_back: str | None = None
    left: bool = False
    error: str | None = None

    @property
    def name(self) -> str:
        """What to call the queue."""
        return f"queue {self.queue} in vhost {self.vhost}"

    @property
    def is_touched(self) -> bool:
        """Whether there is anything to say."""
        return bool(self.expired or self.overflowed or self.kept_back or self.error)

    def add(self, files: Mapping[str, AddFile], judged: Judged) -> None:
        """Count what goes from files of the queue."""
        counts = judged.counts()
        self.expired += counts["expired"]
        self.overflowed += counts["maxlen"]
        whole = [file for name, file in files.items() if judged.whole(name)]
        self.files += len(whole)
        self.bytes += sum(file.size for file in whole)
        self.next_ms = None if judged.next_us is None else judged.next_us // 1_000


def keep_limits(
    data: DataDir, queue: Queue, limits: QueueLimits, clock: Callable[[], int], *, dry_run: bool = False
) -> LimitsReport:
    """Delete from a queue what its limits do not allow; errors are in the report.

    `clock` gives milliseconds since 1970: that of whoever does it, against which `routed_at` is held.
    """
    report = LimitsReport(queue.vhost, queue.name)
    if limits.exchange is not None:
        report.kept_back = "what goes is to be dead-lettered, which is not done: nothing goes"
        return report
    try:
        log = queue_log(data, queue.vhost, queue.name)
        if dry_run:
            report.add(tables.files_of(log), judge(log, limits, clock() * 1_000))
        else:
            _drop(log, limits, clock, report)
    except (BinderyError, OSError) as error:
        report.error = str(error)
    return report


def _drop(log: TableLog, limits: QueueLimits, clock: Callable[[], int], report: LimitsReport) -> None:
    """Delete what goes, and report it."""
    attempts = tables.attempts(log.path)
    while True:
        judged = judge(log, limits, clock() * 1_000)
        if not judged.marks:
            report.add({}, judged)
            return
        counts, places = judged.counts(), judged.places()

        def without(
            file: str, judged: Judged = judged, places: Mapping[str, Places] = places
        ) -> pa.Table | Unchanged | None:
            if file not in places:
                return UNCHANGED
            return None if judged.whole(file) else rewritten(log.path, file, places[file])

        info = {"bindery.change": "limits", **{f"bindery.{reason}": number for reason, number in counts.items()}}
        with Rewriting(log, without, prefix="limits") as rewriting:
            for _ in attempts:
                files = dict(tables.files_of(log))
                if not places.keys() <= files.keys():
                    break  # somebody has taken rows, or they stand in other files now
                if rewriting.commit(transactions=_counted(log, counts), info=info) is not None:
                    report.add(files, judged)
                    return
                log.refresh()


def _counted(log: TableLog, counts: Mapping[Reason, int]) -> list[Transaction]:
    """What puts on record how many more rows limits have deleted."""
    before = deleted(log)
    return [Transaction(f"{_COUNT}{reason}", before[reason] + number) for reason, number in counts.items()]


def deleted(log: TableLog) -> Counter[Reason]:
    """How many rows limits have deleted from a queue since its table was made, by reason."""
    return Counter({reason: log.transaction_version(f"{_COUNT}{reason}") or 0 for reason in REASONS})
