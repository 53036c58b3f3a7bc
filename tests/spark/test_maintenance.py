"""Maintained tables in Spark: read, streamed, and beside Spark's own OPTIMIZE and VACUUM."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from bindery.router.message import Message
from bindery.store.checkpoints import write_checkpoint
from bindery.store.commit import BatchCommitter
from bindery.store.log import TableLog
from bindery.store.maintenance import maintain
from bindery.store.paths import DataDir
from bindery.store.read import delete_matching, read_queue
from bindery.store.tables import count_rows
from bindery.store.topology import TopologyStore
from tests.spark.installation import Installation
from tests.unit.store.conftest import declare_queues
from tests.unit.store.maintenance.conftest import NOTHING_OLD, Clock, Stream, data_files_of

pytestmark = pytest.mark.spark
IN_A_WEEK = Clock(timedelta(days=8))


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[Stream]:
    data = DataDir.open(tmp_path / "data", create=True)
    version = TopologyStore(data).edit(declare_queues("a", "b"), author="t").version
    with BatchCommitter(data, stream="flights", app_id="flights:1") as committer:
        yield Stream(data, version, committer)


def keys(spark: SparkSession, path: str, **options: str) -> list[tuple[int, int]]:
    rows = spark.read.options(**options).format("delta").load(path).select("routing.batch_id", "routing.seq").collect()
    return sorted((row.batch_id, row.seq) for row in rows)


def test_spark_reads_what_is_left_and_every_version_within_the_retention(spark: SparkSession, stream: Stream) -> None:
    path = stream.data.queue("/", "a")
    stream.run(20)
    write_checkpoint(path)
    stream.run(20)
    everything = keys(spark, path)
    maintain(stream.data, replace(NOTHING_OLD, retention=timedelta(days=7)), clock=Clock())
    assert keys(spark, path) == everything
    assert keys(spark, path, versionAsOf="7") == [key for key in everything if key[0] < 7]
    maintain(stream.data, NOTHING_OLD, clock=IN_A_WEEK)
    assert len(data_files_of(path)) == 1
    assert keys(spark, path) == everything
    found = spark.read.format("delta").load(path).where("routed_at < '2025-01-01'")
    assert found.inputFiles() == []  # skipped by the statistics that the merged file states


def test_a_stream_over_a_maintained_queue_gets_each_row_once(
    spark: SparkSession, stream: Stream, tmp_path: Path
) -> None:
    path = stream.data.queue("/", "a")
    out = str(tmp_path / "out")

    def advance() -> list[tuple[int, int]]:
        source = spark.readStream.format("delta").option("skipChangeCommits", "true")
        (
            source.option("maxFilesPerTrigger", "7").load(path).select("routing").writeStream.format("parquet")
            .option("checkpointLocation", stream.data.checkpoint("bridge"))
            .trigger(availableNow=True).start(out).awaitTermination()
        )  # fmt: skip
        rows = spark.read.parquet(out).select("routing.batch_id", "routing.seq").collect()
        return sorted((row.batch_id, row.seq) for row in rows)

    stream.run(10)
    assert len(advance()) == 30
    stream.run(30)
    write_checkpoint(path)
    expected = keys(spark, path)
    delete_matching(stream.data, "a", None)
    found = maintain(stream.data, NOTHING_OLD, clock=IN_A_WEEK)
    assert [one.held_by for one in found.tables if one.name.endswith("/a")] == [("bridge",)]
    stream.run(20)
    expected += [key for key in keys(spark, path) if key not in expected]
    maintain(stream.data, NOTHING_OLD, clock=IN_A_WEEK)  # merges what the stream has not seen yet
    assert advance() == sorted(expected)
    maintain(stream.data, NOTHING_OLD, clock=IN_A_WEEK)
    assert advance() == sorted(expected)


def test_optimize_and_vacuum_of_spark_do_no_harm_beside_ours(spark: SparkSession, stream: Stream) -> None:
    path = stream.data.queue("/", "a")
    stream.run(20)
    log = TableLog(path, files=True)
    spark.sql(f"OPTIMIZE delta.`{path}`")
    assert log.refresh() and len(log.files or ()) == 1
    stream.run(20)
    expected = keys(spark, path)
    maintain(stream.data, NOTHING_OLD, clock=IN_A_WEEK)
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        spark.sql(f"VACUUM delta.`{path}` RETAIN 0 HOURS")
    finally:
        spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    stream.run(1)
    assert [key for key in keys(spark, path) if key[0] < 40] == expected
    assert read_queue(stream.data, "a").num_rows == DeltaTable(path).to_pyarrow_table().num_rows == 123


def test_a_job_that_runs_unattended_maintains_its_tables_and_one_that_ends_does_not(
    installation: Installation,
) -> None:
    installation.queue("all", source="amq.fanout", key="")
    job_file = "stream: s\nsource: {format: parquet, path: INBOX, options: {maxFilesPerTrigger: 1}}\ntrigger: "
    for number in range(20):
        installation.publish([Message(exchange="amq.fanout", routing_key=str(number))], file=f"{number:02}.parquet")
    installation.route(f"{job_file}available-now\n")
    assert len(DeltaTable(installation.data.queue("/", "all")).file_uris()) == 20
    for number in range(20, 46):  # more batches than any table waits for
        installation.publish([Message(exchange="amq.fanout", routing_key=str(number))], file=f"{number:02}.parquet")
    installation.route(f"{job_file}available-now\nmaintenance: true\n")
    assert len(DeltaTable(installation.data.queue("/", "all")).file_uris()) < 46
    assert count_rows(installation.data, "/", "all") == 46
