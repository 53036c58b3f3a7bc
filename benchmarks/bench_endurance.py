"""Thousands of small batches into one process: what a batch costs in the end (`make bench-endurance`).

Every batch goes through what a task of a streaming job does (`RouteTask`) and is committed as its driver does it,
without Spark: a fanout exchange gives each queue each of its messages, and the journal of the stream has them once.
`--others` are further queues with arguments of their own: deferred ones, unless told otherwise, whose copies wait in
the journal until a flush. Flushes and maintenance run beside it as beside a job, the limits of the queues included.

The clock of the batches is short: each is ten minutes after the one before, so that the journal, which is kept for a
day, lets go of its first rows after 144 batches. What else is kept, and how long copies wait, is measured by the
machine's clock, in seconds.

Printed for each window of batches: the median of a batch, processor time of the process (maintenance included) per
batch, its memory, open handles and threads, files and bytes of the data directory, files of the journal, commits of
flushes, and copies that wait. In the end the
ratios of the last windows, in the mean, to the yardstick: the window that ends when everything that is let go of has
been let go of for the first time.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from rich.console import Console
from rich.table import Table as Shown

from benchmarks import workload
from benchmarks.batches import OneTask, resident
from benchmarks.scratch import scratch
from bindery.router.declarations import TopologyEditor
from bindery.router.engine import Router
from bindery.router.freshness import deferred_queues
from bindery.router.model import Binding, Exchange, Queue
from bindery.router.values import Table
from bindery.store import tables
from bindery.store.batches import BatchDriver, RouterOf
from bindery.store.commit import BatchCommitter
from bindery.store.deferred import Flushed, Flushing
from bindery.store.deferred.waiting import flushed_through
from bindery.store.log import TableLog
from bindery.store.maintenance import Upkeep
from bindery.store.maintenance.journals import Kept, keep_journal, past_keeping, trimmed_mark
from bindery.store.maintenance.policy import Policy
from bindery.store.maintenance.trimming import trim
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore

STREAM: Final = "endurance"
MESSAGES: Final = 20
#: Milliseconds from one batch to the next, by the clock that they are stamped with.
STEP_MS: Final = 600_000
#: Batches between two trims of the journal, for which the hour of maintenance is too long.
TRIM_EACH: Final = 50
#: Batches between two looks at the folder: what lies in it goes up and down with every clean-up.
LOOK_EACH: Final = 25
#: Deferred queues whose tables are asked how far they have come.
SAMPLE: Final = 10
#: Windows that make up the end.
LAST: Final = 3
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Window:
    """What a window of batches cost, and what there was in the mean (of the folder) or at its end."""

    batches: int
    clock_ms: float
    processor_ms: float
    resident: int
    handles: int
    threads: int
    files: float
    bytes: float
    journal_files: int
    flushes: int
    waiting: float
    oldest_s: float


#: What the end is compared in, and what it is called.
COMPARED: Final = {
    "clock_ms": "median of a batch",
    "processor_ms": "processor time of a batch",
    "resident": "resident memory",
    "handles": "open handles",
    "files": "files",
    "bytes": "bytes",
    "journal_files": "files of the journal",
    "waiting": "copies that wait",
    "oldest_s": "age of the oldest of them",
}


def fold(batch: pa.RecordBatch, seq: pa.Array, *, clock_ms: int = 0) -> tuple[pa.RecordBatch, None]:
    """The records are messages already; they get their numbers."""
    return workload.sent_to(STREAM, batch, seq), None


class Endurance:
    """A data directory, and the batches of one stream that are routed into it.

    flushes  commits of the stream's own flushes up to now; maintenance brings copies that are late
    """

    def __init__(self, folder: Path, queues: Sequence[Queue], *, retention: timedelta) -> None:
        self.data = DataDir.open(folder, create=True)
        self.topologies = TopologyStore(self.data)
        self.topologies.edit(lambda editor: _declare(editor, queues), author="bench")
        keep_journal(self.data, STREAM, "/", Kept(age=timedelta(days=1)))
        self._messages = workload.messages(MESSAGES * 50, seed=1).combine_chunks().to_batches()[0]
        self._policy = Policy(
            retention=retention,
            shortest=timedelta(0),
            versions=100,
            orphan_age=2 * retention,
            manifest_retention=retention,
        )
        self._start_ms = time.time_ns() // 1_000_000
        self._deferred = deferred_queues(self.topologies.load(), "/", 0)
        self._flushing: Flushing | None = None
        self.flushes = 0
        #: The newest batch that is committed, and the tables of some deferred queues, which all get the same.
        self._newest = -1
        self._committed: list[float] = []
        deferred = [name for name, waits in zip(self._names(), self._deferred.tolist(), strict=True) if waits]
        self._looked_at = [
            TableLog(self.data.queue("/", name)) for name in deferred[:: max(1, len(deferred) // SAMPLE)]
        ]

    @contextmanager
    def running(self) -> Iterator[BatchDriver[Router]]:
        """The driver of the stream, with maintenance and flushes beside it; in the end nothing waits."""
        with ExitStack() as end:
            upkeep = end.enter_context(Upkeep(self.data, self._policy))
            committer = end.enter_context(BatchCommitter(self.data, stream=STREAM, app_id=f"{STREAM}:1"))

            def flushed(done: Flushed) -> None:
                self.flushes += len(done.queues)
                upkeep.flushed(done)

            if self._deferred.any():
                self._flushing = end.enter_context(Flushing(self.data, STREAM, "/", flushed=flushed))
            yield BatchDriver(committer, self.topologies, "/", router=RouterOf("/"), committed=upkeep.committed)
            if self._flushing is not None:
                self._flushing.finish()

    def batch(self, driver: BatchDriver[Router], number: int) -> None:
        """Route and commit one batch, as a job with one task does it."""
        deferred = self._deferred if self._deferred.any() else None
        messages = self._messages.slice(number % 50 * MESSAGES, MESSAGES)
        task = OneTask(self.data, driver, fold, deferred)
        done = task.batch(number, self.topologies.load(), self.clock_ms(number), messages)
        self._newest = number
        self._committed.append(time.monotonic())
        if self._flushing is not None:
            self._flushing.committed(done.journal_bytes, done.copies / done.messages)

    def waiting(self) -> tuple[int, float]:
        """Copies that are in no table yet, and for how many seconds the oldest has waited, as some queues have it.

        The exchange is a fanout: every deferred queue has a copy of every message.
        """
        if not self._looked_at:
            return 0, 0.0
        behind, oldest = 0, self._newest
        for log in self._looked_at:
            log.refresh()
            through = flushed_through(log, STREAM)
            behind += self._newest - through
            oldest = min(oldest, through)
        age = 0.0 if oldest == self._newest else time.monotonic() - self._committed[oldest + 1]
        return MESSAGES * int(self._deferred.sum()) * behind // len(self._looked_at), age

    def _names(self) -> list[str]:
        """The queues by their numbers."""
        return [queue.name for queue in self.topologies.load().in_vhost("/")[1]]

    def clock_ms(self, number: int) -> int:
        """The clock of a batch."""
        return self._start_ms + number * STEP_MS

    def trim(self, number: int) -> None:
        """What maintenance does to the journal once an hour, by the clock of the batches."""
        log = self._journal()
        trim(log, lambda: past_keeping(log, self.clock_ms(number)), lambda gone: trimmed_mark(log, gone))

    def journal_files(self) -> int:
        """Files of the journal's newest version."""
        return len(tables.files_of(self._journal()))

    def _journal(self) -> Any:
        return tables.open_log(self.data.journal(STREAM), tables.JOURNAL, files=True)


def _declare(editor: TopologyEditor, queues: Sequence[Queue]) -> None:
    editor.declare_exchange(Exchange("/", STREAM, "fanout"))
    for queue in queues:
        editor.declare_queue(queue)
        editor.bind(Binding(0, "/", STREAM, queue.name))


def looked_at(root: str) -> tuple[int, int]:
    """Files of a folder and their bytes; one that goes meanwhile counts for nothing."""
    files = size = 0
    folders = [root]
    while folders:
        with suppress(FileNotFoundError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                    continue
                with suppress(FileNotFoundError):
                    size += entry.stat(follow_symlinks=False).st_size
                    files += 1
    return files, size


def windows(run: Endurance, batches: int, window: int, deadline: float, every: float) -> Iterator[Window]:
    """Run the batches, one `every` so many seconds; what each window of them cost.

    A batch that takes longer than that makes those after it late, and they catch up. Ends early, after a whole window,
    when the time is over.
    """
    with run.running() as driver:
        due = time.monotonic()
        for start in range(0, batches, window):
            if time.monotonic() > deadline:
                return
            spent: list[float] = []
            looks: list[tuple[int, int]] = []
            waiting: list[tuple[int, float]] = []
            flushes = run.flushes
            processor = time.process_time()
            looking = 0.0
            for number in range(start, min(start + window, batches)):
                due += every
                time.sleep(max(0.0, due - time.monotonic()))
                begun = time.perf_counter()
                run.batch(driver, number)
                spent.append((time.perf_counter() - begun) * 1_000)
                aside = time.thread_time()
                if number % TRIM_EACH == TRIM_EACH - 1:
                    run.trim(number)
                if number % LOOK_EACH == LOOK_EACH - 1:
                    looks.append(looked_at(run.data.root))
                    waiting.append(run.waiting())
                looking += time.thread_time() - aside
            yield Window(
                batches=start + len(spent),
                clock_ms=statistics.median(spent),
                processor_ms=(time.process_time() - processor - looking) * 1_000 / len(spent),
                resident=resident(),
                handles=sum(1 for _ in Path("/proc/self/fd").iterdir()),
                threads=sum(1 for _ in Path("/proc/self/task").iterdir()),
                files=statistics.mean(files for files, _ in looks),
                bytes=statistics.mean(size for _, size in looks),
                journal_files=run.journal_files(),
                flushes=run.flushes - flushes,
                waiting=statistics.mean(copies for copies, _ in waiting),
                oldest_s=max(age for _, age in waiting),
            )


def row(one: Window) -> tuple[str, ...]:
    """A window as the table shows it."""
    return (
        f"{one.batches:,}", f"{one.clock_ms:,.0f}", f"{one.processor_ms:,.0f}", f"{one.resident / 2**20:,.0f}",
        f"{one.handles:,}", f"{one.threads:,}", f"{one.files:,.0f}", f"{one.bytes / 2**20:,.1f}",
        f"{one.journal_files:,}", f"{one.flushes:,}", f"{one.waiting:,.0f}", f"{one.oldest_s:,.0f}",
    )  # fmt: skip


def show(found: Sequence[Window], title: str, yardstick: int) -> None:
    """The series, and the ratios of its end to the yardstick."""
    table = Shown(
        "batches", "ms/batch", "processor ms/batch", "MiB", "handles", "threads", "files", "MiB in DIR",
        "journal files", "flushes", "copies waiting", "oldest, s", title=title,
    )  # fmt: skip
    for column in table.columns:
        column.justify = "right"
    for one in found:
        table.add_row(*row(one))
    Console(width=140).print(table)
    start = next((one for one in found if one.batches >= yardstick), None)
    if start is None or start is found[-1]:
        return
    last = [asdict(one) for one in found[-LAST:]]
    for name, called in COMPARED.items():
        before = asdict(start)[name]
        if not before:
            continue
        ratio = statistics.mean(one[name] for one in last) / before
        print(f"{called}: {ratio:.2f} times that at {start.batches:,} batches")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="What a batch costs after thousands of them, without Spark.")
    parser.add_argument("--batches", type=int, default=2_000)
    parser.add_argument("--window", type=int, default=100, help="batches between two lines")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="end after so long, however many batches")
    parser.add_argument("--queues", type=int, default=100)
    parser.add_argument(
        "--arguments", type=json.loads, default={"x-max-length": 1_000}, help="arguments of the queues, in JSON"
    )
    parser.add_argument("--others", type=int, default=1_000, help="further queues")
    parser.add_argument(
        "--other-arguments",
        type=json.loads,
        default={"x-freshness": 120, "x-max-length": 1_000},
        help="their arguments, in JSON",
    )
    parser.add_argument("--every", type=float, default=1.0, help="seconds from one batch to the next; 0 for at once")
    parser.add_argument("--retention", type=int, default=120, help="seconds that old versions and files are kept")
    parser.add_argument("--yardstick", type=int, default=400, help="batches after which the end is compared with")
    options = parser.parse_args(arguments)
    queues = [Queue("/", f"queue{number:03}", arguments=Table(options.arguments)) for number in range(options.queues)]
    queues += [
        Queue("/", f"other{number:04}", arguments=Table(options.other_arguments)) for number in range(options.others)
    ]
    deadline = time.monotonic() + options.minutes * 60
    found = []
    with scratch() as folder:
        run = Endurance(folder / "data", queues, retention=timedelta(seconds=options.retention))
        for one in windows(run, options.batches, options.window, deadline, options.every):
            found.append(one)
            print(" ".join(row(one)), flush=True)
        print(f"{run.flushes:,} commits of flushes; {run.waiting()[0]:,} copies wait in the end")
    show(found, f"{len(queues):,} queues, {MESSAGES} messages a batch, a journal of 144 batches", options.yardstick)


if __name__ == "__main__":
    main()
