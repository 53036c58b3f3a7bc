"""Replay: history routed through another topology, without writing anything.

History is what journals hold and, of streams and times that these do not cover, queue tables and the unroutable table
(`bindery.jobs.replayer`). Without a journal consumed rows do not matter as long as one copy of a message is left;
messages of which none is left, and those that were counted only, are not replayed then.

A Spark task gets groups of files in which all copies of a message stand together
(`bindery.store.routed_files`), so nothing is shuffled and each message is read about once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import SparkSession

from bindery.jobs.comparison import Comparison
from bindery.jobs.replayer import Replayer, Span
from bindery.jobs.session import require_classic
from bindery.jobs.shipping import results, shipped
from bindery.router.engine import Router
from bindery.router.model import Topology
from bindery.store.paths import DataDir
from bindery.store.routed_files import file_groups, group_of, group_text
from bindery.store.topology import TopologyStore

RESULT_SCHEMA: Final = "result string"
#: Tasks per core: groups differ in size.
_TASKS_PER_CORE: Final = 4


@dataclass(frozen=True, slots=True)
class ReplayTask:
    """The function of `mapInArrow`: groups of files in, one JSON result each out."""

    data: DataDir
    vhost: str
    span: Span
    proposed: Broadcast[Router]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Compare every group of the partition."""
        replayer = Replayer(TopologyStore(self.data), self.vhost, self.proposed.value, self.span)
        for batch in batches:
            for text in batch.column(0).to_pylist():
                result = replayer.compare(group_of(text)).as_result()
                yield pa.RecordBatch.from_pydict({"result": [json.dumps(result)]})


def replay(
    spark: SparkSession,
    data: DataDir,
    present: Topology,
    proposed: Topology,
    *,
    vhost: str,
    span: Span,
    report: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Compare history with what the proposed topology would have done, in Spark.

    `report` is called with the groups done and in all. Nothing is written. Raises NotFound for an unknown vhost
    and OtherCode.
    """
    require_classic(spark)
    present.vhost(vhost)
    queues = sorted(name for where, name in present.queues if where == vhost)
    groups = file_groups(data, vhost, queues, stream=span.stream, since=span.since, until=span.until)
    total = Comparison()
    if not groups:
        return total
    router = spark.sparkContext.broadcast(Router.compile(proposed, vhost))
    tasks = min(len(groups), spark.sparkContext.defaultParallelism * _TASKS_PER_CORE)
    frame = spark.createDataFrame([(group_text(group),) for group in groups], "files string").repartition(tasks)
    try:
        compared = frame.mapInArrow(shipped(ReplayTask(data, vhost, span, router)), RESULT_SCHEMA)
        for number, result in enumerate(results(compared.toLocalIterator(prefetchPartitions=True)), 1):
            total.merge(result)
            if report is not None:
                report(number, len(groups))
    finally:
        router.destroy()
    return total
