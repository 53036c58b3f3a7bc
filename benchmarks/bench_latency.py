"""Batch after batch of 10,000 messages through a streaming job: what one takes, by stage (`make bench-latency`).

The next file of messages is placed when a batch is committed, so that one trigger follows the other; the first batches
are left out. One after the other, in one session of Spark:

- `empty`: the same stream into a `foreachBatch` that has `mapInArrow` count the rows. This is Spark's own part.
- `immediate`: 100 queues, nine copies of a message, 100 tables (`benchmarks.workload`).
- `deferred`: the same queues, all deferred: the journal is written.
- `thousands`: 10,000 deferred queues (`benchmarks.bench_deferred`).

A batch is what lies between two reports. `Spark` is what is left of it beside the stages of Bindery: planning the next
batch, its offsets and commit log.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table as Shown

from benchmarks import bench_deferred, bench_route, results, workload
from benchmarks.scratch import scratch
from bindery.jobs.control.config import parse_job
from bindery.jobs.report import BatchReport
from bindery.jobs.route import RouteJob
from bindery.jobs.session import build_session
from bindery.router.declarations import TopologyEditor
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore

CASES: Final = ("empty", "immediate", "deferred", "thousands")
STAGES: Final = ("prepare", "tasks", "commit")
#: Files of messages that are placed in turns.
FILES: Final = 8
#: Files that stay where they were read; those before are removed, as an operator's clean-up would.
KEPT: Final = 50
JOB: Final = """\
stream: {name}
source: {{format: parquet, path: {path}}}
trigger: 1 millisecond
freshness: {freshness}
"""


class Producer:
    """Places one file of messages after the other."""

    def __init__(self, folder: Path, messages: Sequence[pa.Table]) -> None:
        self.folder = folder
        self._made = folder.with_name(f"{folder.name}-made")
        for each in (folder, self._made):
            each.mkdir(parents=True)
        for number, rows in enumerate(messages):
            pq.write_table(rows, self._made / f"{number}.parquet")
        self._files = len(messages)
        self._placed = 0

    def place(self) -> None:
        """One more file, whole from its first moment."""
        source = self._made / f"{self._placed % self._files}.parquet"
        os.link(source, self.folder / f"{self._placed:06}.parquet")
        self._placed += 1
        (self.folder / f"{self._placed - KEPT:06}.parquet").unlink(missing_ok=True)


@dataclass
class Series:
    """Seconds of each batch, whole and by stage, from the batch on that ends the warm-up until `seconds` later."""

    name: str
    warm: int
    seconds: float
    whole: list[float] = field(default_factory=list)
    stages: dict[str, list[float]] = field(default_factory=dict)
    _last: float = 0.0
    _until: float = float("inf")

    def add(self, stages: dict[str, float]) -> bool:
        """A batch has ended, whose stages took so long; whether there is to be another."""
        now = time.monotonic()
        if self.warm:
            self.warm -= 1
            self._until = now + self.seconds
        else:
            self.whole.append(now - self._last)
            for name, spent in stages.items():
                self.stages.setdefault(name, []).append(spent)
        self._last = now
        return now < self._until

    def rows(self) -> Iterator[tuple[str, ...]]:
        """What the table shows: of the batch, of each stage, and of what is left for Spark."""
        parts = {name: spent for name, spent in self.stages.items() if name in STAGES}
        lines = {"batch": self.whole, **parts}
        if parts:
            lines["Spark"] = [whole - sum(each) for whole, *each in zip(self.whole, *parts.values(), strict=True)]
        lines |= {name: spent for name, spent in self.stages.items() if name not in STAGES}
        for name, spent in lines.items():
            yield (
                self.name if name == "batch" else "",
                name,
                f"{statistics.median(spent):.3f}",
                f"{float(np.quantile(spent, 0.99)):.3f}",
                f"{len(spent):,}" if name == "batch" else "",
            )


def empty(spark: SparkSession, folder: Path, producer: Producer, found: Series) -> None:
    """A stream that counts rows."""
    enough = threading.Event()

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"rows": [sum(batch.num_rows for batch in batches)]})

    def each(frame: DataFrame, _: int) -> None:
        started = time.perf_counter()
        frame.mapInArrow(count, "rows long").collect()
        if found.add({"tasks": time.perf_counter() - started}):
            producer.place()
        else:
            enough.set()

    producer.place()
    schema = spark.read.parquet(str(producer.folder)).schema
    query = (
        spark.readStream.schema(schema)
        .parquet(str(producer.folder))
        .writeStream.foreachBatch(each)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime="1 millisecond")
        .start()
    )
    while query.isActive and not enough.wait(0.5):
        pass
    error = query.exception()
    query.stop()
    if error is not None:
        raise error


def routed(spark: SparkSession, data: DataDir, producer: Producer, freshness: int, found: Series) -> None:
    """A streaming job."""

    def report(batch: BatchReport) -> None:
        if found.add(dict(batch.seconds)):
            producer.place()
        else:
            job.stop()

    producer.place()
    file = parse_job(JOB.format(name=found.name, path=producer.folder, freshness=freshness))
    job = RouteJob(spark, data, file, report=report)
    job.run()


def run(folder: Path, options: argparse.Namespace) -> None:
    console = Console(width=120)
    spark = build_session("bench", settings={"spark.driver.memory": "2g"}, log_file=folder / "spark.log")
    ordinary = [workload.messages(options.rows, seed) for seed in range(FILES)]
    thousands = [pa.Table.from_batches([bench_deferred.messages(options.rows, seed)]) for seed in range(FILES)]

    def declare_thousands(editor: TopologyEditor) -> None:
        bench_deferred.declare(editor, options.queues)

    found: list[Series] = []
    for name in options.only:
        messages, declare = (thousands, declare_thousands) if name == "thousands" else (ordinary, bench_route.declare)
        producer = Producer(folder / name / "source", messages)
        series = Series(name, options.warm, options.seconds)
        if name == "empty":
            empty(spark, folder / name, producer, series)
        else:
            data = DataDir.open(folder / name / "data", create=True)
            TopologyStore(data).edit(declare, author="bench")
            freshness = 0 if name == "immediate" else options.freshness
            routed(spark, data, producer, freshness, series)
        found.append(series)
        shutil.rmtree(folder / name)
        for row in found[-1].rows():
            print(" ".join(row), flush=True)
    spark.stop()
    table = Shown("stream", "stage", "median s", "p99 s", "batches", title=f"{options.rows:,} messages a batch")
    for column in table.columns[2:]:
        column.justify = "right"
    for series in found:
        for row in series.rows():
            table.add_row(*row)
    console.print(table)
    by_name = {series.name: statistics.median(series.whole) for series in found}
    for name, median in by_name.items():
        if name != "empty" and "empty" in by_name:
            print(f"ratio {name}/empty: {median / by_name['empty']:.2f}")
    note({series.name: series.whole for series in found}, options)


#: What stands in the results for each stream.
_TITLES: Final = {
    "immediate": "a batch into 100 queues",
    "deferred": "a batch into 100 deferred queues",
    "thousands": "a batch into thousands of deferred queues",
}


def note(seconds: dict[str, list[float]], options: argparse.Namespace) -> None:
    """Record the batches of each stream beside those of the empty one."""
    if "empty" not in seconds:
        return
    beside = statistics.median(seconds["empty"])
    for name, taken in seconds.items():
        if name == "empty":
            continue
        middle, late = statistics.median(taken), float(np.quantile(taken, 0.99))
        answer = results.Answer(
            "Latency of batches",
            _TITLES[name],
            "s",
            {"Bindery": middle, "an empty foreachBatch": beside},
            middle / beside,
            (min(taken) / beside, max(taken) / beside),
            {
                "workload": f"{options.rows:,} messages a batch, one trigger after the other",
                "p99": f"{late:.2f} s",
                "ratio": "how many times as long as a batch that counts rows; the spread is that of batches",
                "batches": f"{len(taken):,}",
            },
            f"python -m benchmarks.bench_latency --seconds {options.seconds:g} --rows {options.rows} "
            f"--queues {options.queues}",
        )
        results.record(f"latency-{name}", answer)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="What a batch takes, one after the other.")
    parser.add_argument("--rows", type=int, default=10_000, help="messages of a batch")
    parser.add_argument("--seconds", type=float, default=600, help="of each stream, beyond the first batches")
    parser.add_argument("--warm", type=int, default=20, help="batches that are left out, of each stream")
    parser.add_argument("--queues", type=int, default=10_000, help="of `thousands`")
    parser.add_argument("--freshness", type=int, default=600, help="seconds")
    parser.add_argument("--only", nargs="+", choices=CASES, default=CASES)
    options = parser.parse_args(arguments)
    with scratch() as folder:
        run(folder, options)


if __name__ == "__main__":
    main()
