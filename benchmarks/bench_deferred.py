"""Ten thousand deferred queues: batches of 10,000 messages, nine copies each (`make bench-deferred`).

Every batch goes through what a task of a streaming job does (`RouteTask`) and is committed as its driver does it, one
second after the one before, without Spark; `Flushing` materialises the queues beside it, as in a job. The clock is
short: the freshness of the queues is `--freshness` seconds, and an hour is six times that, as ten minutes are a sixth
of an hour. So a copy waits for as many batches, and a queue gets as many files, as in an hour with a freshness of ten
minutes whose batches are so much larger or rarer.

Printed for each sixth of the hour: seconds of a batch, median and greatest; memory; copies and files that were
materialised; how old the oldest message was, at most, that still waited. In the end the files that a queue got in the
hour, whether every copy came, once, and the time of a batch against that of the same batches without any queue that is
deferred, into 100 queues.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table as Shown

from benchmarks import results, workload
from benchmarks.batches import OneTask, resident
from benchmarks.scratch import scratch
from bindery.router.declarations import TopologyEditor
from bindery.router.engine import Router
from bindery.router.freshness import deferred_queues
from bindery.router.model import DEFAULT_VHOST, Binding, Exchange, Queue
from bindery.router.values import Table
from bindery.store import tables
from bindery.store.batches import BatchDriver, RouterOf
from bindery.store.commit import BatchCommitter
from bindery.store.deferred import Flushing
from bindery.store.deferred.flushing import Flushed
from bindery.store.journal_files import Journal
from bindery.store.maintenance.journals import Kept, keep_journal
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore

STREAM: Final = "deferred"
KEYS: Final = tuple(f"area{n % 10}.kind{n // 10 % 10}.item{n // 100}" for n in range(10_000))
#: Copies of a message, in the mean.
COPIES: Final = 9
#: Parts of the hour for which a line is printed; each is as long as the freshness.
PARTS: Final = 6
#: Batches between two looks at how old the oldest message is.
LOOK_EACH: Final = 5


def declare(editor: TopologyEditor, queues: int) -> None:
    """Half of the messages go through a direct exchange, half through a topic one; a third of the patterns filter."""
    rng = np.random.default_rng(7)
    for name, kind in (("orders", "direct"), ("events", "topic")):
        editor.declare_exchange(Exchange(DEFAULT_VHOST, name, kind))
    names = [f"queue{number:05}" for number in range(queues)]
    for name in names:
        editor.declare_queue(Queue(DEFAULT_VHOST, name))
    for number in range(COPIES * len(KEYS)):
        queue = names[number % queues] if number < queues else names[rng.integers(queues)]
        editor.bind(Binding(0, DEFAULT_VHOST, "orders", queue, "queue", KEYS[number % len(KEYS)]))
    # a pattern leads to ten keys, or with its selector to half of their messages
    for number in range(COPIES * len(KEYS) // 10 * 6 // 5):
        _, kind, item = KEYS[rng.integers(len(KEYS))].split(".")
        arguments = Table({"x-filter-jms-selector": f"distance > {rng.integers(40, 60)}"} if number % 3 == 0 else {})
        queue = names[rng.integers(queues)]
        editor.bind(Binding(0, DEFAULT_VHOST, "events", queue, "queue", f"*.{kind}.{item}", arguments))


def messages(rows: int, seed: int) -> pa.RecordBatch:
    """Messages of the workload, to these exchanges and keys."""
    rng = np.random.default_rng(seed)
    table = workload.messages(rows, seed=seed)
    exchange = pa.array(["orders", "events"]).take(pa.array(rng.integers(0, 2, rows)))
    key = pa.array(KEYS).take(pa.array(rng.integers(0, len(KEYS), rows)))
    for name, column in (("exchange", exchange), ("routing_key", key)):
        table = table.set_column(table.column_names.index(name), name, column)
    return table.combine_chunks().to_batches()[0]


def fold(batch: pa.RecordBatch, seq: pa.Array, *, clock_ms: int = 0) -> tuple[pa.RecordBatch, None]:
    """The records are messages already; they get their numbers."""
    return workload.sent_to(None, batch, seq), None


@dataclass
class Done:
    """What flushes have done; `commits` of each queue, in all, and the rest since the last line."""

    commits: Counter[str] = field(default_factory=Counter)
    copies: int = 0
    files: int = 0
    bytes: int = 0
    failed: int = 0

    def add(self, found: Flushed) -> None:
        """One more flush."""
        self.commits.update(found.queues)
        self.copies += found.copies
        self.files += len(found.queues)
        self.bytes += found.bytes
        self.failed += len(found.failed)

    def line(self) -> tuple[int, int, int]:
        """Copies, files and bytes since the last line."""
        found = self.copies, self.files, self.bytes
        self.copies = self.files = self.bytes = 0
        return found


class Stream:
    """A data directory with a stream into queues that are all deferred, or none where `freshness` (seconds) is 0."""

    def __init__(self, folder: Path, queues: int, freshness: int, rows: int) -> None:
        self.data = DataDir.open(folder, create=True)
        topologies = TopologyStore(self.data)
        topologies.edit(lambda editor: declare(editor, queues), author="bench")
        keep_journal(self.data, STREAM, "/", Kept(freshness=freshness))
        self.topology = topologies.load()
        self.messages = [messages(rows, seed) for seed in range(8)]
        self.copies = 0
        self.journal_bytes = 0
        driver: BatchDriver[Router] = BatchDriver(
            BatchCommitter(self.data, stream=STREAM, app_id=f"{STREAM}:1"), topologies, "/", router=RouterOf("/")
        )
        deferred = deferred_queues(self.topology, "/", freshness) if freshness else None
        self._task = OneTask(self.data, driver, fold, deferred)

    def batch(self, number: int) -> int:
        """Route and commit one batch; the bytes of the journal's files."""
        messages = self.messages[number % len(self.messages)]
        done = self._task.batch(number, self.topology, time.time_ns() // 1_000_000, messages)
        self.copies += done.copies
        self.journal_bytes += done.journal_bytes
        return done.journal_bytes

    def rows(self) -> int:
        """Rows in the tables of the queues."""
        found = 0
        for vhost, name in self.topology.queues:
            log = tables.open_log(self.data.queue(vhost, name), tables.QUEUE, files=True)
            found += tables.rows_in(log)
        return found

    def oldest_seconds(self) -> float:
        """Age of the oldest message that may have copies which wait."""
        since = Journal.open(self.data.journal(STREAM)).waiting_since_ms
        return 0.0 if since is None else time.time() - since / 1000


def run(stream: Stream, options: argparse.Namespace) -> None:
    """An hour of batches, and what it cost."""
    table = Shown(
        "batches", "s/batch", "p99", "MiB", "copies", "files", "MiB of files", "oldest s", "processor s",
        title=f"{options.queues:,} deferred queues, {options.rows:,} messages a batch, freshness {options.freshness} s",
    )  # fmt: skip
    for column in table.columns:
        column.justify = "right"
    console = Console(width=140)
    done = Done()
    every: list[float] = []
    begun = time.monotonic()
    number = 0
    with Flushing(stream.data, STREAM, "/", freshness=options.freshness, flushed=done.add) as flushing:
        for part in range(PARTS):
            spent: list[float] = []
            oldest = 0.0
            processor = time.process_time()
            while time.monotonic() < begun + (part + 1) * options.freshness:
                started = time.perf_counter()
                written = stream.batch(number)
                spent.append(time.perf_counter() - started)
                flushing.committed(written, COPIES)
                number += 1
                if number % LOOK_EACH == 0:
                    oldest = max(oldest, stream.oldest_seconds())
                time.sleep(max(0.0, begun + number * options.interval - time.monotonic()))
            every += spent
            copies, files, size = done.line()
            row = (
                f"{number:,}", f"{statistics.median(spent):.2f}", f"{np.quantile(spent, 0.99):.2f}",
                f"{resident() / 2**20:,.0f}", f"{copies:,}", f"{files:,}", f"{size / 2**20:,.0f}", f"{oldest:.0f}",
                f"{time.process_time() - processor:.0f}",
            )  # fmt: skip
            table.add_row(*row)
            print(" ".join(row), flush=True)
        hour = done.commits.copy()
        finishing = time.perf_counter()
        flushing.finish()
        finishing = time.perf_counter() - finishing
    console.print(table)
    per_queue = sorted(hour.values()) or [0]
    print(f"median of a batch: {statistics.median(every):.2f} s; p99 {np.quantile(every, 0.99):.2f} s")
    print(f"files of a queue in the hour: median {statistics.median(per_queue):.0f}, most {per_queue[-1]}")
    print(f"the rest at the end: {finishing:.1f} s; queues that failed: {done.failed}")
    print(f"bytes of the journal: {stream.journal_bytes / max(1, number * options.rows):.0f} a message")
    rows = stream.rows()
    first, last = every[: len(every) // PARTS], every[-(len(every) // PARTS) :]
    note(options, first, last, f"{stream.copies:,} made, {rows:,} in the queues' tables")
    print(f"copies {stream.copies:,}, rows of queues {rows:,}: {stream.copies - rows:+,} missing")


def note(options: argparse.Namespace, first: Sequence[float], last: Sequence[float], copies: str) -> None:
    """Record what a batch takes at the end of the hour beside its beginning."""
    beside, middle = statistics.median(first), statistics.median(last)
    answer = results.Answer(
        "Thousands of deferred queues",
        f"a batch into {options.queues:,} queues after an hour",
        "s",
        {"the last sixth": middle, "the first sixth": beside},
        middle / beside,
        (min(last) / beside, max(last) / beside),
        {
            "workload": f"{options.rows:,} messages a batch, {COPIES} copies each, a batch each {options.interval:g} s",
            "clock": f"an hour is {PARTS * options.freshness} s, the freshness {options.freshness} s",
            "ratio": "how many times as long as in the beginning; the spread is that of batches",
            "copies": copies,
        },
        f"python -m benchmarks.bench_deferred --queues {options.queues} --freshness {options.freshness}",
        at_most=1.5,
    )
    results.record("deferred-hour", answer)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Thousands of deferred queues.")
    parser.add_argument("--queues", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=10_000, help="messages of a batch")
    parser.add_argument("--freshness", type=int, default=200, help="seconds; ten minutes in the short clock")
    parser.add_argument("--interval", type=float, default=1.0, help="seconds from one batch to the next")
    options = parser.parse_args(arguments)
    with scratch() as folder:
        run(Stream(folder / "data", options.queues, options.freshness, options.rows), options)


if __name__ == "__main__":
    main()
