"""What is done on Spark without a router: an append for each queue, or all copies in one table."""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from benchmarks import workload
from benchmarks.peers import cases
from benchmarks.peers.asked import Options, Question, differences, in_turns, measured
from benchmarks.peers.ours import Ours, Spark
from benchmarks.results import version_of
from benchmarks.scratch import scratch
from bindery.router.model import Binding

#: What bindings ask for, as columns of their own: no condition has to look into a map.
PROPERTIES: Final = {"carrier": "string", "region": "string", "distance": "int", "price": "double", "late": "bool"}


def condition(binding: Binding) -> str:
    """A binding of the workload as an expression of SQL; keys have three words, so that `*` and `#` are LIKE's `%`."""
    asked = [f"exchange = '{binding.source}'"]
    match workload.TYPES[binding.source]:
        case "direct":
            asked.append(f"routing_key = '{binding.routing_key}'")
        case "topic":
            asked.append(f"routing_key LIKE '{binding.routing_key.replace('*', '%').replace('#', '%')}'")
        case "headers":
            criteria = {name: value for name, value in binding.arguments.items() if not name.startswith("x-")}
            either = " OR " if binding.arguments.get("x-match") == "any" else " AND "
            asked.append(either.join(f"{name} = {_literal(value)}" for name, value in criteria.items()))
    if selector := binding.arguments.get(cases.SELECTOR):
        asked.append(str(selector))
    return " AND ".join(f"({one})" for one in asked)


def _literal(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


def conditions(case: cases.Case) -> dict[str, str]:
    """Queue -> when a message goes to it: one of its bindings matches."""
    found: dict[str, list[str]] = {}
    for binding in case.bindings():
        found.setdefault(binding.destination, []).append(condition(binding))
    return {queue: " OR ".join(f"({one})" for one in parts) for queue, parts in sorted(found.items())}


def _read(spark: SparkSession, source: Path) -> DataFrame:
    """The messages, with the properties as columns, kept in memory for all queries."""
    columns = [f"application_properties['{name}'].`{kind}` AS {name}" for name, kind in PROPERTIES.items()]
    return spark.read.parquet(str(source)).selectExpr("*", *columns).cache()


def _append_each(frame: DataFrame, filters: Mapping[str, str], place: Path) -> None:
    for queue, text in filters.items():
        frame.where(text).drop(*PROPERTIES).write.format("delta").mode("append").save(str(place / queue))


def _copies(frame: DataFrame, filters: Mapping[str, str]) -> DataFrame:
    """A row for each copy, with its queue: what CASE gives for every queue, exploded."""
    cases_of = ", ".join(f"CASE WHEN {text} THEN '{queue}' END" for queue, text in filters.items())
    return frame.selectExpr("*", f"explode(array_compact(array({cases_of}))) AS queue").drop(*PROPERTIES)


def _one_table(frame: DataFrame, filters: Mapping[str, str], place: Path, *, partitioned: bool) -> None:
    writer = _copies(frame, filters).write.format("delta").mode("append")
    (writer.partitionBy("queue") if partitioned else writer).save(str(place))


def _counted(spark: SparkSession, place: Path, filters: Mapping[str, str], *, each: bool) -> dict[str, int]:
    if each:
        return {queue: spark.read.format("delta").load(str(place / queue)).count() for queue in filters}
    rows = spark.read.format("delta").load(str(place)).groupBy("queue").count().collect()
    return dict.fromkeys(filters, 0) | {row["queue"]: row["count"] for row in rows}


#: Queues that are written to warm up.
_WARM_UP: Final = 10
Write = Callable[[DataFrame, Mapping[str, str], Path], None]
#: Title -> how it is written, what is asked of the ratio, and how it is said.
WAYS: Final[Mapping[str, tuple[Write, float | None, str]]] = {
    "one Delta append per queue": (_append_each, 15, "the batch cached; for each queue a filter and an append"),
    "one table, partitioned by queue": (
        partial(_one_table, partitioned=True),
        None,
        "the batch cached; CASE for each queue, exploded; partitionBy(queue)",
    ),
    "one table of all copies": (
        partial(_one_table, partitioned=False),
        None,
        "the batch cached; CASE for each queue, exploded; not partitioned, so that a queue is read by a filter",
    ),
}


def questions(options: Options, spark: Spark) -> Iterator[Question]:
    """Ask about every way; every round writes new tables, that which warms up some of them."""
    case = cases.whole()
    for title in WAYS:
        with scratch() as folder:
            yield _asked(title, options, spark(), case, folder)


def _asked(title: str, options: Options, spark: SparkSession, case: cases.Case, folder: Path) -> Question:
    write, at_least, said = WAYS[title]
    filters = conditions(case)
    ours = Ours(case, case.messages(options.records), folder)
    place = folder / "written"

    def measure(warm_up: bool) -> Mapping[str, float]:
        shutil.rmtree(place, ignore_errors=True)
        chosen = dict(itertools.islice(filters.items(), _WARM_UP)) if warm_up else filters
        started = time.perf_counter()
        frame = _read(spark, ours.source)
        write(frame, chosen, place)
        took = time.perf_counter() - started
        frame.unpersist()
        return {"Spark": took, "tables": ours.durable(spark, "tables")[0]}

    seconds = in_turns(title, options, measure)
    return measured(
        title,
        "Peers: Spark without a router",
        ("Bindery (tables)", seconds["tables"]),
        (f"Spark {version_of('pyspark')}", seconds["Spark"]),
        messages=options.records,
        copies=sum(ours.counts.values()),
        notes=differences(ours.counts, _counted(spark, place, filters, each=write is _append_each)),
        settings={
            "peer": said,
            "Bindery": "micro-batch of a job into a Delta table per queue, from its pin to its last commit",
            "workload": f"{len(case.bindings()):,} bindings, {len(case.queues()):,} queues",
        },
        command=options.command("spark"),
        versions={},
        at_least=at_least,
    )
