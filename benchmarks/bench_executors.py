"""Two executors of one core against one, on a standalone cluster of this machine (`make bench-executors`).

Each worker is held to a core of its own (`taskset`): else one executor, with its threads and Python processes, would
take what the other one is to add. The driver is held to none, and shares those cores where there are no more.

A master and two workers are started; the same batches into 100 queues are routed in a session with one executor and in
one with two, each batch cut into the same four tasks. Commits, which the driver makes, are shown apart: they do not get
faster by executors. Printed at the end is how many times as fast the tasks of a batch, and whole batches, are with two.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pyspark
from rich.console import Console
from rich.table import Table

from benchmarks import workload
from benchmarks.bench_route import declare
from benchmarks.scratch import scratch
from bindery.jobs.control.config import parse_job
from bindery.jobs.report import BatchReport
from bindery.jobs.route import RouteJob
from bindery.jobs.session import build_session
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from tests.servers.ports import free_port

TASKS = 4
JOB = "stream: bench\nsource: {{format: parquet, path: {path}, options: {{maxFilesPerTrigger: {tasks}}}}}\n"
#: Batches that are not counted: executors start and compile.
WARM_UP = 4
_SECONDS = 60


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Two executors of one core against one.")
    parser.add_argument("--messages", type=int, default=100_000, help="messages of a batch")
    parser.add_argument("--batches", type=int, default=10)
    options = parser.parse_args(arguments)
    console = Console(width=120)
    with scratch() as folder, cluster(folder) as master:
        source = folder / "source"
        source.mkdir()
        for number in range(TASKS * options.batches):
            messages = workload.messages(options.messages // TASKS, seed=number)
            pq.write_table(messages, source / f"{number:04}.parquet")
        found = {executors: measure(folder, master, source, executors) for executors in (1, 2)}
    stages = [stage for stage in found[1][0].seconds if not stage.startswith("task ")]
    table = Table(
        "stage", "1 executor, s", "2 executors, s", title=f"{len(found[1])} batches of {options.messages:,} messages"
    )
    for stage in stages:
        table.add_row(stage, *(f"{median(found[executors], [stage]):.2f}" for executors in (1, 2)))
    table.add_row("[bold]batch", *(f"[bold]{median(found[executors], stages):.2f}" for executors in (1, 2)))
    console.print(table)
    for name, of in (("tasks", ["tasks"]), ("batch", stages)):
        console.print(f"{name}: {median(found[1], of) / median(found[2], of):.2f} times as fast with two executors")


def median(reports: Sequence[BatchReport], stages: Sequence[str]) -> float:
    """The median seconds of a batch in those stages."""
    return statistics.median(sum(report.seconds[stage] for stage in stages) for report in reports)


def measure(folder: Path, master: str, source: Path, executors: int) -> list[BatchReport]:
    """The batches that count, in a session with so many executors."""
    data = DataDir.open(folder / f"data{executors}", create=True)
    TopologyStore(data).edit(declare, author="bench")
    settings = {
        "spark.cores.max": str(executors),
        "spark.executor.cores": "1",
        "spark.executor.memory": "700m",
        "spark.sql.files.minPartitionNum": str(TASKS),
        "spark.sql.files.openCostInBytes": "1",
    }
    spark = build_session("bench", master=master, settings=settings, log_file=folder / f"driver{executors}.log")
    reports: list[BatchReport] = []
    try:
        file = parse_job(JOB.format(path=source, tasks=TASKS))
        RouteJob(spark, data, file, report=reports.append).run(available_now=True)
    finally:
        spark.stop()
    return reports[WARM_UP:]


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """The address of a master with two workers of one core each."""
    home = Path(pyspark.__file__).parent
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(Path(__file__).parents[1]),
        "NUMBA_CACHE_DIR": str(folder / "numba"),
    }
    port = free_port()
    master = ["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(free_port())]
    started: list[subprocess.Popen[bytes]] = []

    cores = sorted(os.sched_getaffinity(0))

    def start(name: str, words: Sequence[str], core: int | None = None) -> Path:
        log = folder / f"{name}.log"
        held = [] if core is None else ["taskset", "--cpu-list", str(core)]
        with log.open("wb") as output:
            command = [*held, str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{words[0]}", *words[1:]]
            started.append(subprocess.Popen(command, env=environment, cwd=folder, stdout=output, stderr=output))
        return log

    try:
        start("master", master)
        for number in (1, 2):
            worker = ["worker.Worker", "--host", "127.0.0.1", "--port", str(free_port())]
            worker += ["--webui-port", str(free_port()), "-c", "1", "-m", "1g", "-d", str(folder / f"work{number}")]
            log = start(f"worker{number}", [*worker, f"spark://127.0.0.1:{port}"], cores[number - 1])
            end = time.monotonic() + _SECONDS
            while "Successfully registered with master" not in log.read_text(errors="replace"):
                if time.monotonic() > end:
                    raise RuntimeError(f"the worker did not start: {log.read_text(errors='replace')[-2000:]}")
                time.sleep(0.2)
        yield f"spark://127.0.0.1:{port}"
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait()


if __name__ == "__main__":
    main()
