"""Routing to 100 queues against Spark's plain append of the same messages to one table (`make bench`).

400,000 messages, 1,300 bindings of four exchange types, a third with selectors, about nine copies each.
Both read the same four Parquet files from the page cache and are timed in alternation in one process,
after a warm-up; the figures are medians. `route` is a micro-batch of the streaming job from its pin to
its last commit; `stream` is the whole available-now run around it, with starting and ending the query;
`with a journal` is such a micro-batch of a stream that keeps one, `deferred` one whose 100 queues are all deferred, so
that the journal alone is written; `materialised` is what writing their tables takes then, at the end of that stream.
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

from benchmarks import results, workload
from benchmarks.scratch import scratch
from bindery.jobs.control.config import JobFile, parse_job
from bindery.jobs.report import BatchReport
from bindery.jobs.route import RouteJob
from bindery.jobs.session import build_session
from bindery.router.declarations import TopologyEditor
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore

FILES = 4
JOB = "stream: {stream}\nsource: {{format: parquet, path: {path}}}\ntrigger: available-now\n"
STAGES = ("prepare", "tasks", "commit")


def write_messages(folder: Path, rows: int) -> None:
    folder.mkdir(parents=True)
    for number in range(FILES):
        pq.write_table(workload.messages(rows // FILES, seed=number), folder / f"{number}.parquet")


def declare(editor: TopologyEditor) -> None:
    topology = workload.topology()
    exchanges, queues, bindings, _ = topology.in_vhost("/")
    for exchange in exchanges:
        if exchange.name in workload.TYPES:
            editor.declare_exchange(exchange)
    for queue in queues:
        editor.declare_queue(queue)
    for binding in bindings:
        editor.bind(binding)


def append(spark: SparkSession, source: Path, table: Path) -> float:
    started = time.perf_counter()
    spark.read.parquet(str(source)).write.format("delta").mode("append").save(str(table))
    return time.perf_counter() - started


def route(spark: SparkSession, data: DataDir, file: JobFile) -> tuple[float, BatchReport]:
    reports: list[BatchReport] = []
    started = time.perf_counter()
    RouteJob(spark, data, file, report=reports.append).run()
    elapsed = time.perf_counter() - started
    (report,) = reports
    return elapsed, report


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Routing against a plain append.")
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    with scratch() as folder:
        run(folder, options.rows, options.rounds)


def run(folder: Path, rows: int, rounds: int) -> None:
    console = Console()
    source = folder / "messages"
    write_messages(source, rows)
    data = DataDir.open(folder / "data", create=True)
    TopologyStore(data).edit(declare, author="bench")
    spark = build_session(
        "bench",
        settings={"spark.sql.files.minPartitionNum": str(FILES), "spark.driver.memory": "2g"},
        log_file=folder / "spark.log",
    )
    appends: list[float] = []
    streams: list[float] = []
    routes: list[float] = []
    journaled: list[float] = []
    deferred: list[float] = []
    materialised: list[float] = []
    reports: list[BatchReport] = []
    for number in range(rounds + 1):
        appended = append(spark, source, folder / "appended")
        stream, report = route(spark, data, parse_job(JOB.format(stream=f"bench-{number}", path=source)))
        routed = sum(report.seconds[stage] for stage in STAGES)
        kept = JOB.format(stream=f"bench-journal-{number}", path=source) + "journal: on\n"
        _, beside = route(spark, data, parse_job(kept))
        noted = sum(beside.seconds[stage] for stage in STAGES)
        late = JOB.format(stream=f"bench-deferred-{number}", path=source) + "freshness: 3600\n"
        whole, waiting = route(spark, data, parse_job(late))
        waited = sum(waiting.seconds[stage] for stage in STAGES)
        console.print(
            f"{'warm-up' if number == 0 else f'round {number}'}: append {appended:.2f} s, route {routed:.2f} s "
            f"({report.copies:,} copies), stream {stream:.2f} s, with a journal {noted:.2f} s, "
            f"deferred {waited:.2f} s ({whole:.2f} s with materialising)",
            highlight=False,
        )
        if number:
            appends.append(appended)
            routes.append(routed)
            journaled.append(noted)
            deferred.append(waited)
            materialised.append(whole - stream + routed - waited)
            streams.append(stream)
            reports.append(report)
    spark.stop()
    yardstick, routed = statistics.median(appends), statistics.median(routes)
    copies = reports[-1].copies
    table = Table("path", "seconds", "messages/s", "copies/s", "ratio", title=f"{rows:,} messages, {copies:,} copies")
    for column in table.columns[1:]:
        column.justify = "right"
    for name, seconds, made in (
        ("append", yardstick, rows),
        ("route", routed, copies),
        ("stream", statistics.median(streams), copies),
        ("route, with a journal", statistics.median(journaled), copies),
        ("route, deferred", statistics.median(deferred), copies),
        ("materialise", statistics.median(materialised), copies),
    ):
        table.add_row(
            name, f"{seconds:.2f}", f"{rows / seconds:,.0f}", f"{made / seconds:,.0f}", f"{seconds / yardstick:.1f}"
        )
    console.print(table)
    stages = Table("stage of route", "seconds", title="Stages (medians; tasks' own stages are summed over tasks)")
    stages.columns[1].justify = "right"
    for stage in reports[-1].seconds:
        stages.add_row(stage, f"{statistics.median(report.seconds[stage] for report in reports):.2f}")
    console.print(stages)
    note(rows, copies, {"append": appends, "route": routes, "with a journal": journaled, "deferred": deferred})
    print(f"ratio route/append: {routed / yardstick:.1f}")
    print(f"ratio deferred/append: {statistics.median(deferred) / yardstick:.2f}")
    print(f"ratio with a journal/without: {statistics.median(journaled) / routed:.2f}")


def note(rows: int, copies: int, seconds: dict[str, list[float]]) -> None:
    """Record each way to route beside the append of the same round."""
    appended = seconds.pop("append")
    for way, taken in seconds.items():
        ratio, spread = results.rounds(appended, taken)
        answer = results.Answer(
            "Routing into 100 queues",
            "a batch into tables" if way == "route" else f"a batch, {way}",
            "s",
            {"Bindery": statistics.median(taken), "Spark's append": statistics.median(appended)},
            ratio,
            spread,
            {
                "workload": f"{rows:,} messages, 1,300 bindings, {copies:,} copies",
                "beside it": "Spark's plain append of the same messages to one Delta table, without routing",
                "ratio": "how many times as long as the append Bindery takes",
                "rounds": str(len(taken)),
            },
            f"python -m benchmarks.bench_route --rows {rows}",
        )
        results.record(f"route-{way.replace(' ', '-')}", answer)


if __name__ == "__main__":
    main()
