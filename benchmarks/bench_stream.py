"""Thousands of small batches into 100 queues: what a batch costs after months (`make bench-stream`).

One streaming job reads a file of 20 messages a batch; every queue gets copies in every batch, so a batch
is 100 files and 100 commits at least. The next file is placed when the batch before is committed, and
files that were read are moved away, as an operator's own clean-up would. Printed for every window of
batches: processor time of the whole process tree per batch (driver, JVM, workers, maintenance), their
memory, and what lies on the disk, as its mean over the window, since it goes up and down with every clean-up.
The JVM gets its whole heap at the start, so that its resident memory grows by what is outside of it only; what
it holds of its heap is what is in use after a collection, which every reading begins with.
Retention is shorter than in a real installation by as much as the run is, so that the state of months
is reached within it.

The last lines are ratios of the last windows, in the mean, to the yardstick, the window that ends at 200 batches:
what lies on the disk is what the retention covers, so a window in which batches are quicker has more of it.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from benchmarks import workload
from benchmarks.scratch import scratch
from bindery.jobs.control.config import parse_job
from bindery.jobs.report import BatchReport
from bindery.jobs.route import RouteJob
from bindery.jobs.session import build_session
from bindery.router.declarations import TopologyEditor
from bindery.router.model import Binding, Exchange, Queue
from bindery.store.maintenance import Upkeep
from bindery.store.maintenance.policy import Policy
from bindery.store.paths import DataDir
from bindery.store.tables import count_rows
from bindery.store.topology import TopologyStore

QUEUES = 100
#: Batches between two looks at the disk.
LOOK = 10
MESSAGES = 20
#: Windows that make up the end.
LAST = 10
#: The window whose figures are the yardstick ends at this batch.
YARDSTICK = 200
JOB = """\
stream: endurance
source: {{format: parquet, path: {path}}}
trigger: 1 millisecond
"""
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Reading:
    """What was seen when a window ended: seconds and bytes; files and their bytes as the mean over the window."""

    batches: int
    clock: float
    processor: float
    driver: int
    jvm: int
    heap: int
    workers: int
    files: int
    log_files: int
    log_bytes: int
    data_bytes: int


def _tree(root: int) -> Iterator[tuple[str, float, int]]:
    """Name, processor seconds (children that ended included) and resident bytes of a process and all below it."""
    parents: dict[int, list[int]] = {}
    found: dict[int, tuple[str, float, int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                name, _, rest = (folder / "stat").read_text().partition("(")[2].rpartition(")")
            except OSError:
                continue
            fields = rest.split()
            pid = int(folder.name)
            parents.setdefault(int(fields[1]), []).append(pid)
            found[pid] = (name, sum(map(int, fields[11:15])) / _TICKS, int(fields[21]) * _PAGE)
    pending = [root]
    while pending:
        pid = pending.pop()
        pending += parents.get(pid, [])
        if pid in found:
            yield found[pid]


@dataclass
class Disk:
    """What lies on the disk, summed over several looks."""

    looks: int = 0
    files: int = 0
    log_files: int = 0
    log_bytes: int = 0
    data_bytes: int = 0

    def look(self, root: str) -> None:
        """Count files and bytes once more."""
        self.looks += 1
        for folder, _, names in os.walk(root):
            is_log = folder.endswith("_delta_log")
            for name in names:
                try:
                    size = Path(folder, name).stat().st_size
                except FileNotFoundError:
                    continue
                self.files += 1
                self.log_files += is_log
                self.log_bytes += size if is_log else 0
                self.data_bytes += 0 if is_log else size

    def means(self) -> dict[str, int]:
        """The fields of a reading."""
        names = ("files", "log_files", "log_bytes", "data_bytes")
        return {name: getattr(self, name) // max(1, self.looks) for name in names}


def heap_held(spark: SparkSession) -> int:
    """Bytes in use in the JVM's heap after a collection."""
    jvm: Any = spark.sparkContext._jvm
    runtime = jvm.java.lang.Runtime.getRuntime()
    runtime.gc()
    return int(runtime.totalMemory() - runtime.freeMemory())


def read(spark: SparkSession, disk: Disk, batches: int, started: float) -> Reading:
    """Look at the processes."""
    heap = heap_held(spark)
    processor, memory = 0.0, {"driver": 0, "jvm": 0, "workers": 0}
    for number, (name, seconds, resident) in enumerate(_tree(os.getpid())):
        processor += seconds
        memory["driver" if number == 0 else "jvm" if name == "java" else "workers"] += resident
    return Reading(batches, time.perf_counter() - started, processor, heap=heap, **memory, **disk.means())


class _Job(RouteJob):
    """A job with a shorter retention than anybody may ask for: the run stands for months."""

    policy: Policy

    def _maintained(self, available_now: bool) -> Upkeep:
        return Upkeep(self.data, self.policy)


class Producer:
    """Places one file a batch, and moves away those that were read long ago."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._messages = pq.ParquetFile(self._write(workload.messages(MESSAGES * 50, seed=1), folder / ".all")).read()
        self._placed: list[Path] = []

    @staticmethod
    def _write(rows: pa.Table, path: Path) -> Path:
        pq.write_table(rows, path)
        return path

    def place(self, number: int) -> None:
        """The file of a batch: written under a hidden name, then renamed."""
        rows = self._messages.slice(number % 50 * MESSAGES, MESSAGES)
        rows = rows.set_column(0, "exchange", pa.array(["endurance"] * MESSAGES))
        path = self._folder / f"{number:06}.parquet"
        self._write(rows, self._folder / f".{path.name}").rename(path)
        self._placed.append(path)
        while len(self._placed) > 50:
            self._placed.pop(0).unlink()


def declare(editor: TopologyEditor) -> None:
    """One fanout exchange; every queue gets every message."""
    editor.declare_exchange(Exchange("/", "endurance", "fanout"))
    for number in range(QUEUES):
        editor.declare_queue(Queue("/", f"queue{number:03}"))
        editor.bind(Binding(0, "/", "endurance", f"queue{number:03}"))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="What a batch costs after thousands of them.")
    parser.add_argument("--batches", type=int, default=5_000)
    parser.add_argument("--window", type=int, default=100, help="batches between two readings")
    parser.add_argument("--minutes", type=float, help="end after so long, however many batches there were")
    parser.add_argument("--retention", type=int, default=60, help="seconds that old versions and files are kept")
    options = parser.parse_args(arguments)
    with scratch() as folder:
        run(folder, options)


def run(folder: Path, options: argparse.Namespace) -> None:
    console = Console(width=160)
    source = folder / "source"
    source.mkdir()
    data = DataDir.open(folder / "data", create=True)
    TopologyStore(data).edit(declare, author="bench")
    settings = {
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC -Xms1g -XX:+AlwaysPreTouch",
    }
    spark = build_session("bench", settings=settings, log_file=folder / "spark.log")
    producer = Producer(source)
    producer.place(0)
    started = time.perf_counter()
    deadline = started + options.minutes * 60 if options.minutes else float("inf")
    disk = Disk()
    readings = [read(spark, disk, 0, started)]

    def report(batch: BatchReport) -> None:
        nonlocal disk
        done = batch.batch_id + 1
        is_last = done == options.batches or time.perf_counter() > deadline
        if done % LOOK == 0:
            disk.look(data.root)
        if done % options.window == 0 or done == YARDSTICK or is_last:
            readings.append(read(spark, disk, done, started))
            show_window(console, readings[-2], readings[-1])
            disk = Disk()
        if is_last:
            job.stop()
        else:
            producer.place(done)

    policy = Policy(retention=timedelta(seconds=options.retention), shortest=timedelta(0), versions=100)
    job = _Job(spark, data, parse_job(JOB.format(path=source)), report=report)
    job.policy = policy
    job.run()
    spark.stop()
    show(console, readings, options.window)
    rows = {count_rows(data, "/", f"queue{number:03}") for number in range(QUEUES)}
    print(f"rows in each queue: {sorted(rows)}, expected [{readings[-1].batches * MESSAGES}]")


def show_window(console: Console, before: Reading, now: Reading) -> None:
    """One line while the run goes on."""
    console.print(
        f"{now.batches} batches, {now.clock:.0f} s: {_per_batch(before, now):.0f} ms processor a batch, "
        f"{(now.driver + now.jvm + now.workers) / 2**20:,.0f} MiB of memory, {now.files:,} files, "
        f"log {now.log_bytes / 2**20:.1f} MiB",
        highlight=False,
    )


def _per_batch(before: Reading, now: Reading) -> float:
    return (now.processor - before.processor) * 1000 / (now.batches - before.batches)


def show(console: Console, readings: Sequence[Reading], window: int) -> None:
    """The series, and the ratios of its end to the yardstick."""
    table = Table(
        "batches", "processor ms/batch", "clock ms/batch", "driver MiB", "JVM MiB", "heap MiB",
        "workers MiB",
        "files", "log files", "log MiB", "data MiB", title=f"{QUEUES} queues, {MESSAGES} messages a batch",
    )  # fmt: skip
    for column in table.columns:
        column.justify = "right"
    figures: dict[int, dict[str, float]] = {}
    for before, now in itertools.pairwise(readings):
        number = now.batches - before.batches
        figures[now.batches] = {
            "processor time": _per_batch(before, now),
            "driver memory": now.driver,
            "JVM memory": now.jvm,
            "JVM heap held": now.heap,
            "workers' memory": now.workers,
            "files": now.files,
            "log bytes": now.log_bytes,
        }
        mib = [f"{size / 2**20:,.0f}" for size in (now.driver, now.jvm, now.heap, now.workers)]
        table.add_row(
            f"{now.batches:,}", f"{_per_batch(before, now):,.0f}", f"{(now.clock - before.clock) * 1000 / number:,.0f}",
            *mib, f"{now.files:,}", f"{now.log_files:,}",
            *(f"{size / 2**20:,.1f}" for size in (now.log_bytes, now.data_bytes)),
        )  # fmt: skip
    console.print(table)
    if YARDSTICK in figures:
        whole = [batches for batches in figures if batches >= YARDSTICK and batches % window == 0] or [YARDSTICK]
        ends = whole[-LAST:]
        for name, value in figures[YARDSTICK].items():
            mean = sum(figures[batches][name] for batches in ends) / len(ends)
            print(f"ratio {ends[0]:,} to {ends[-1]:,}/{YARDSTICK} batches, {name}: {mean / value:.2f}")


if __name__ == "__main__":
    main()
