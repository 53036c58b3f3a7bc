"""Delta tables as sources: an inbox, or a queue table of this installation (a bridge)."""

from __future__ import annotations

from dataclasses import replace

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from bindery.jobs.consume import Consumer
from bindery.jobs.control.bridge import bridge_filter
from bindery.jobs.control.config import FileSource, JobFile, QueueSource
from bindery.jobs.sources.files import absolute, spark_reason
from bindery.jobs.sources.records import Records
from bindery.store.paths import DataDir


def read_delta(spark: SparkSession, data: DataDir, source: FileSource, file: JobFile) -> Records:
    """What is appended to a Delta table; rows that are rewritten or deleted there are not seen again."""
    return _stream(spark, source.path, source.options, file, ("source", "path"))


def read_queue(spark: SparkSession, data: DataDir, source: QueueSource, file: JobFile) -> Records:
    """A queue table of this installation: rows as they arrive; rows that are taken from it are not seen."""
    consumer = Consumer.of(bridge_filter(data, source, file))
    path = data.queue(source.vhost or file.job.vhost, source.queue)
    records = _stream(spark, path, source.options, file, ("source", "queue"))
    return replace(records, consumer=consumer, is_queue=True)


def _stream(spark: SparkSession, path: str, options: dict[str, str], file: JobFile, key: tuple[str, ...]) -> Records:
    place = absolute(path)
    reader = spark.readStream.format("delta").options(**options).option("skipChangeCommits", "true")
    try:
        frame = reader.load(place)
    except AnalysisException as error:
        raise file.error(key, f"no Delta table to stream from at {path!r}: {spark_reason(error)}") from None
    return Records(
        frame,
        tuple(frame.columns),
        {},
        table=lambda: spark.read.format("delta").load(place),
    )
