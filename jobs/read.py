"""A queue, or another table of messages, as a Spark DataFrame, with a consumer's filter that the engine evaluates."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from bindery.jobs.consume import Consumer
from bindery.jobs.fold import conformed
from bindery.jobs.session import require_classic
from bindery.jobs.shipping import shipped
from bindery.router.filters import Filter
from bindery.router.message import JOURNAL_ROUTING, MESSAGE_SCHEMA, ROUTING
from bindery.store.consumer_filters import ConsumerFilter, queue_filter
from bindery.store.deferred.live import Tail, Wanted
from bindery.store.paths import DataDir
from bindery.store.places import hadoop_address
from bindery.store.read import of_queue
from bindery.store.tables import QUEUE, open_table


def read_queue_df(
    spark: SparkSession,
    data: str | DataDir,
    queue: str,
    *,
    vhost: str = "/",
    filter: ConsumerFilter | None = None,  # the name that brokers' clients use
    dialect: str = "jms",
    version: int | None = None,
    connection: str | None = None,
    payload: str | None = None,
    live: bool = True,
) -> DataFrame:
    """The rows of a queue that a filter accepts, as a DataFrame of the queue columns; nothing is taken.

    What waits for a deferred queue in journals is among them, but where there is a `version`, or `live` is False.
    Arguments and errors as for `bindery.store.read.read_queue`; a DataFrame has no row order: sort by `routing`.
    """
    require_classic(spark)
    directory = data if isinstance(data, DataDir) else DataDir.open(data)
    path = directory.queue(vhost, queue)
    tail: Tail = {}
    if version is None:
        found = of_queue(directory, vhost, queue, live=live)
        version, tail = found.log.version, found.tail
    else:
        open_table(path, QUEUE, vhost=vhost, name=queue, version=version)
    condition = queue_filter(
        directory, queue, filter, vhost=vhost, dialect=dialect, connection=connection, payload=payload
    )
    return accepted_frame(spark, path, condition, version, tail)


def accepted_frame(
    spark: SparkSession,
    path: str,
    condition: Filter | None,
    version: int | None = None,
    tail: Tail = MappingProxyType({}),
) -> DataFrame:
    """The rows of a table of messages that a filter accepts, as a DataFrame of its columns; `tail` waits for it."""
    require_classic(spark)
    consumer = Consumer.of(condition)
    reader = spark.read.format("delta")
    frame = (reader if version is None else reader.option("versionAsOf", version)).load(hadoop_address(path))
    for journal, wanted in {one.journal: one.wanted for one in tail.values()}.items():
        frame = frame.unionByName(_waiting(spark, journal, wanted).select(frame.columns))
    if consumer is None:
        return frame
    return frame.mapInArrow(shipped(_Accepted(consumer, int(time.time() * 1000)), gives_results=False), frame.schema)


def _waiting(spark: SparkSession, journal: str, wanted: Wanted) -> DataFrame:
    """The rows of a journal that wait for a queue, as a queue has them."""
    routing, batch = sf.col("routing"), sf.col("routing.batch_id")
    kept = sf.array_contains("routing.deferred", sf.lit(wanted.queue_id)) & (batch > wanted.after)
    kept &= sf.col("routing.topology_version") > wanted.undeclared
    if wanted.through is not None:
        kept &= batch <= wanted.through
    rows = spark.read.format("delta").load(hadoop_address(journal)).where(kept)
    # what only journals say: other queues, and who else was to get the message
    alone = routing.dropFields(*(name for name in JOURNAL_ROUTING.names if name not in ROUTING.names))
    return rows.withColumns({"routing": alone, "bcc": sf.lit(None).cast(rows.schema["bcc"].dataType)})


@dataclass(frozen=True, slots=True)
class _Accepted:
    """The function of `mapInArrow`."""

    consumer: Consumer
    clock_ms: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            messages = pa.RecordBatch.from_arrays(
                [conformed(batch.column(field.name), field.type) for field in MESSAGE_SCHEMA], schema=MESSAGE_SCHEMA
            )
            yield batch.take(pa.array(self.consumer.accepted(messages, clock_ms=self.clock_ms)))
