"""Small batches into 100 queues on a local folder and on an object store (`make bench-storage DATA=s3://…`).

Ten thousand messages a batch, nine copies each: seconds of a batch by stage, and requests to the store by kind, at
the beginning and at the end of the run. Printed at the end is the ratio of a batch on the store to one on the folder.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from benchmarks import workload
from benchmarks.bench_route import declare
from benchmarks.scratch import scratch
from bindery.jobs.control.config import JobFile, parse_job
from bindery.jobs.control.connectors import connectors
from bindery.jobs.report import BatchReport
from bindery.jobs.route import RouteJob
from bindery.jobs.session import build_session
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore

JOB = """\
stream: {stream}
source: {{format: parquet, path: {path}, options: {{maxFilesPerTrigger: {files}}}}}
"""
#: Batches that are not counted: they open tables and start what starts once.
WARM_UP = 3
#: Batches at either end of a run whose requests are compared.
ENDS = 3


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Small batches on a folder and on an object store.")
    parser.add_argument("--data", help="a URL below which the benchmark makes a data directory of its own")
    parser.add_argument("--messages", type=int, default=10_000, help="messages of a batch")
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--files", type=int, default=2, help="files that the messages of a batch come in")
    parser.add_argument("--tasks", type=int, help="tasks of a batch; by default as many as the job takes")
    options = parser.parse_args(arguments)
    with scratch() as folder:
        run(folder, options)


def run(folder: Path, options: argparse.Namespace) -> None:
    console = Console(width=150)
    source = folder / "source"
    source.mkdir()
    for number in range(options.files * options.batches):
        messages = workload.messages(options.messages // options.files, seed=number)
        pq.write_table(messages, source / f"{number:04}.parquet")
    places = {"folder": str(folder / "data")}
    if options.data:
        places["object store"] = f"{options.data.rstrip('/')}/bench-{time.time_ns()}"
    settings = {} if options.tasks is None else {"spark.sql.files.minPartitionNum": str(options.tasks)}
    # each file a piece of its own, so that it is the number of tasks that decides
    settings["spark.sql.files.openCostInBytes"] = "1"
    spark = build_session(
        "bench",
        master="local[2]",
        needs=connectors(places.values()),
        settings=settings,
        log_file=folder / "spark.log",
    )
    job = JOB.format(stream="bench", path=source, files=options.files)
    medians = {name: measure(console, spark, name, place, job) for name, place in places.items()}
    spark.stop()
    if options.data:
        console.print(f"ratio object store/folder: {medians['object store'] / medians['folder']:.1f}")


def measure(console: Console, spark: SparkSession, name: str, place: str, job: str) -> float:
    """The median seconds of a batch, printed with its stages and requests."""
    data = DataDir.open(place, create=True)
    TopologyStore(data).edit(declare, author="bench")
    file: JobFile = parse_job(job)
    reports: list[BatchReport] = []
    RouteJob(spark, data, file, report=reports.append).run(available_now=True)
    counted = reports[WARM_UP:]
    totals = [sum(one.seconds[stage] for stage in ("prepare", "tasks", "commit")) for one in counted]
    table = Table("stage", "median, s", title=f"{name}: {len(counted)} batches of {counted[0].records:,} messages")
    for stage in counted[0].seconds:
        table.add_row(stage, f"{statistics.median(one.seconds[stage] for one in counted):.2f}")
    table.add_row("[bold]batch", f"[bold]{statistics.median(totals):.2f}")
    console.print(table)
    if any(one.requests for one in counted):
        asked = Table("requests a batch", "first", "last", title="means over three batches at either end")
        for kind in sorted({kind for one in counted for kind in one.requests}):
            first, last = (
                statistics.mean(one.requests.get(kind, 0) for one in end) for end in (counted[:ENDS], counted[-ENDS:])
            )
            asked.add_row(kind, f"{first:.0f}", f"{last:.0f}")
        console.print(asked)
    return statistics.median(totals)


if __name__ == "__main__":
    main()
