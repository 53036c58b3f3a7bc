"""What it costs to remember every file that was read (`make bench-files`).

A stream over a folder of empty files (reading is not what is measured) takes them in, then one batch after
the other with a single new file. Printed per 1,000 remembered files: the heap of the
driver's JVM, the bytes of the checkpoint's list, and the seconds of a batch in a folder that still holds
all of them and in one from which they were moved away.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.scratch import scratch
from bindery.jobs.control.config import parse_job
from bindery.jobs.route import RouteJob
from bindery.jobs.session import build_session
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore

JOB = "stream: files\nsource: {{format: json, path: {path}}}\ntrigger: available-now\n"
LINE = '{"exchange": "amq.fanout"}\n'


def heap(spark: SparkSession) -> int:
    """Bytes in use after a collection."""
    jvm: Any = spark._jvm
    runtime = jvm.java.lang.Runtime.getRuntime()
    for _ in range(3):
        jvm.java.lang.System.gc()
        time.sleep(0.2)
    return int(runtime.totalMemory() - runtime.freeMemory())


def batches(job: RouteJob, inbox: Path, count: int, name: str) -> tuple[float, int]:
    """Median seconds of a run with one new file each, and the heap while the last one had its list."""
    seconds, held = [], 0
    for number in range(count):
        draft = inbox / ".draft"
        draft.write_text(LINE)
        draft.rename(inbox / f"{name}-{number}.json")
        started = time.perf_counter()
        job.run()
        seconds.append(time.perf_counter() - started)
        held = heap(job.spark)
    return statistics.median(seconds), held


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=11)
    options = parser.parse_args(arguments)
    with scratch() as folder:
        run(folder, options.files, options.rounds)


def run(folder: Path, files: int, rounds: int) -> None:
    inbox, archive = folder / "inbox", folder / "archive"
    inbox.mkdir()
    archive.mkdir()
    data = DataDir.open(folder / "data", create=True)
    TopologyStore(data).create()
    # listing in the driver: a thousand listing tasks would be measured instead
    settings = {"spark.sql.sources.parallelPartitionDiscovery.threshold": str(files + 1000)}
    spark = build_session("bench", master="local[2]", settings=settings, log_file=folder / "spark.log")
    job = RouteJob(spark, data, parse_job(JOB.format(path=inbox)))
    few, empty = batches(job, inbox, rounds, "few")
    for number in range(files):
        (inbox / f"{number:08}-0123456789abcdef.json").touch()
    started = time.perf_counter()
    job.run()
    print(f"{files:,} files taken in: {time.perf_counter() - started:.1f} s")
    many, full = batches(job, inbox, rounds, "many")
    for path in inbox.iterdir():
        path.rename(archive / path.name)
    moved, _ = batches(job, inbox, rounds, "moved")
    log = max(
        (Path(data.checkpoint("files")) / "sources" / "0").glob("*.compact"), key=lambda path: path.stat().st_size
    )
    thousands = files / 1000
    listed = log.stat().st_size / thousands / 1024
    print(f"heap per 1,000 files: {(full - empty) / thousands / 1024:,.0f} KiB")
    print(f"checkpoint's list per 1,000 files: {listed:,.0f} KiB, rewritten every 10 batches")
    print(f"a run with one new file: {few:.2f} s beside few files, {many:.2f} s beside {files:,}")
    print(f"the same once those were moved away: {moved:.2f} s")
    spark.stop()


if __name__ == "__main__":
    main()
