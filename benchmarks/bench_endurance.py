"""Thousands of small batches into one process: what a batch costs in the end (`make bench-endurance`).

Every batch goes through what a task of a streaming job does (`RouteTask`) and is committed as its driver does it,
without Spark: a fanout exchange gives each queue each of its messages, and the journal of the stream has them once.
`--others` adds queues with arguments of their own. Maintenance runs beside it as beside a job, the limits of the queues
included.

The clock of the batches is short: each is ten minutes after the one before, so that the journal, which is kept for a
day, lets go of its first rows after 144 batches. What else is kept is measured by the machine's clock, and is kept for
seconds.

Printed for each window of batches: the median of a batch, processor time of the process (maintenance included) per
batch, its memory, open handles and threads, files and bytes of the data directory, files of the journal. In the end the
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
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from rich.console import Console
from rich.table import Table as Shown

from benchmarks import workload
from benchmarks.scratch import scratch
from bindery.jobs.task import Held, RouteTask
from bindery.router.declarations import TopologyEditor
from bindery.router.engine import Router
from bindery.router.model import Binding, Exchange, Queue
from bindery.router.values import Table
from bindery.store import tables
from bindery.store.batches import BatchDriver, Routed, RouterOf
from bindery.store.commit import BatchCommitter, WrittenFile
from bindery.store.maintenance import Upkeep
from bindery.store.maintenance.journals import Kept, keep_journal, trim
from bindery.store.maintenance.policy import Policy
from bindery.store.paths import DataDir
from bindery.store.routed_counts import RoutedCounts
from bindery.store.topology import TopologyStore

STREAM: Final = "endurance"
MESSAGES: Final = 20
#: Milliseconds from one batch to the next, by the clock that they are stamped with.
STEP_MS: Final = 600_000
#: Batches between two trims of the journal, for which the hour of maintenance is too long.
TRIM_EACH: Final = 50
#: Batches between two looks at the folder: what lies in it goes up and down with every clean-up.
LOOK_EACH: Final = 10
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


#: What the end is compared in, and what it is called.
COMPARED: Final = {
    "clock_ms": "median of a batch",
    "processor_ms": "processor time of a batch",
    "resident": "resident memory",
    "handles": "open handles",
    "files": "files",
    "bytes": "bytes",
    "journal_files": "files of the journal",
}


def fold(batch: pa.RecordBatch, seq: pa.Array, *, clock_ms: int = 0) -> tuple[pa.RecordBatch, None]:
    """The records are messages already; they get their numbers."""
    return workload.sent_to(STREAM, batch, seq), None


class Endurance:
    """A data directory, and the batches of one stream that are routed into it."""

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

    @contextmanager
    def running(self) -> Iterator[BatchDriver[Router]]:
        """The driver of the stream, with maintenance beside it."""
        with (
            Upkeep(self.data, self._policy, limits_each=20.0) as upkeep,
            BatchCommitter(self.data, stream=STREAM, app_id=f"{STREAM}:1") as committer,
        ):
            yield BatchDriver(committer, self.topologies, "/", router=RouterOf("/"), committed=upkeep.committed)

    def batch(self, driver: BatchDriver[Router], number: int) -> None:
        """Route and commit one batch, as a job with one task does it."""
        begun = driver.begin(number, self.topologies.load(), self.clock_ms(number))
        assert begun.router is not None  # noqa: S101  # no batch is begun twice
        task = RouteTask(self.data, "/", begun.stamp, fold, Held(begun.router), 64 << 20, journal=True)
        messages = self._messages.slice(number % 50 * MESSAGES, MESSAGES)
        done = task.route(iter([messages]))
        counts = RoutedCounts()
        counts.merge(done["counts"])
        driver.commit(begun, Routed([WrittenFile(**file) for file in done["files"]], counts))

    def clock_ms(self, number: int) -> int:
        """The clock of a batch."""
        return self._start_ms + number * STEP_MS

    def trim(self, number: int) -> None:
        """What maintenance does to the journal once an hour, by the clock of the batches."""
        trim(self._journal(), self.clock_ms(number))

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
    for folder, _, names in os.walk(root):
        for name in names:
            try:
                size += Path(folder, name).stat().st_size
            except FileNotFoundError:
                continue
            files += 1
    return files, size


def resident() -> int:
    """Bytes of memory that the process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE


def windows(run: Endurance, batches: int, window: int, deadline: float) -> Iterator[Window]:
    """Run the batches; what each window of them cost. Ends early, after a whole window, when the time is over."""
    with run.running() as driver:
        for start in range(0, batches, window):
            if time.monotonic() > deadline:
                return
            spent: list[float] = []
            looks: list[tuple[int, int]] = []
            processor = time.process_time()
            looking = 0.0
            for number in range(start, min(start + window, batches)):
                begun = time.perf_counter()
                run.batch(driver, number)
                spent.append((time.perf_counter() - begun) * 1_000)
                aside = time.thread_time()
                if number % TRIM_EACH == TRIM_EACH - 1:
                    run.trim(number)
                if number % LOOK_EACH == LOOK_EACH - 1:
                    looks.append(looked_at(run.data.root))
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
            )


def row(one: Window) -> tuple[str, ...]:
    """A window as the table shows it."""
    return (
        f"{one.batches:,}", f"{one.clock_ms:,.0f}", f"{one.processor_ms:,.0f}", f"{one.resident / 2**20:,.0f}",
        f"{one.handles:,}", f"{one.threads:,}", f"{one.files:,.0f}", f"{one.bytes / 2**20:,.1f}",
        f"{one.journal_files:,}",
    )  # fmt: skip


def show(found: Sequence[Window], title: str, yardstick: int) -> None:
    """The series, and the ratios of its end to the yardstick."""
    table = Shown(
        "batches", "ms/batch", "processor ms/batch", "MiB", "handles", "threads", "files", "MiB in DIR",
        "journal files", title=title,
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
        ratio = statistics.mean(one[name] for one in last) / asdict(start)[name]
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
    parser.add_argument("--others", type=int, default=0, help="further queues")
    parser.add_argument("--other-arguments", type=json.loads, default={}, help="their arguments, in JSON")
    parser.add_argument("--retention", type=int, default=30, help="seconds that old versions and files are kept")
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
        for one in windows(run, options.batches, options.window, deadline):
            found.append(one)
            print(" ".join(row(one)), flush=True)
    show(found, f"{len(queues):,} queues, {MESSAGES} messages a batch, a journal of 144 batches", options.yardstick)


if __name__ == "__main__":
    main()
