"""Queue tables are plain Delta tables: Spark, deltalake, polars and DuckDB read the same rows."""

from __future__ import annotations

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from delta.tables import DeltaTable as SparkTable
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession

from bindery.router.message import QUEUE_SCHEMA, Message, from_batch
from bindery.router.values import Table, Timestamp
from bindery.store.read import read_queue
from tests.spark.installation import Installation

RICH = Message(
    exchange="amq.fanout",
    routing_key="é.b",
    cc=("x", "y"),
    connection="c1",
    header={"priority": 9, "durable": True, "ttl": 5},
    message_annotations=Table({"x-opt-jms-type": "order"}),
    properties={"message_id": 7, "subject": "s", "creation_time": Timestamp(1_700_000_000_000), "user_id": b"u"},
    application_properties=Table(
        {"i": 2**62, "d": 0.5, "s": "text", "t": True, "b": b"\x00", "at": Timestamp(1), "l": (1, "a"), "n": None}
    ),
    body=b"\xff",
    amqp_value="v",
    amqp_sequence=(1, 2),
    footer=Table({"f": 1}),
)
POOR = Message(exchange="amq.fanout", routing_key="poor")


@pytest.fixture
def routed(installation: Installation) -> Installation:
    """Two commits, so two files: one with every column, one where most of them are left out."""
    installation.queue("all", source="amq.fanout", key="")
    installation.publish([RICH], file="a.parquet")
    installation.route()
    installation.publish([POOR, POOR], file="b.parquet")
    installation.route()
    return installation


def test_a_message_comes_back_as_it_was_published(routed: Installation) -> None:
    table = read_queue(routed.data, "all")
    assert table.schema == QUEUE_SCHEMA
    messages = {message.routing_key: message for message in from_batch(table)}
    assert messages == {"é.b": RICH, "poor": POOR}


def test_every_reader_finds_the_same_rows(routed: Installation, spark: SparkSession) -> None:
    path = routed.data.queue("/", "all")
    table = DeltaTable(path)
    by_sql = pa.table(QueryBuilder().register("q", table).execute("select routing_key from q"))
    found = {
        "deltalake": sorted(table.to_pyarrow_table()["routing_key"].to_pylist()),
        "deltalake sql": sorted(by_sql["routing_key"].to_pylist()),
        "spark": sorted(row.routing_key for row in spark.read.format("delta").load(path).collect()),
        "polars": sorted(pl.scan_delta(path).select("routing_key").collect()["routing_key"].to_list()),
        "duckdb": sorted(
            key for (key,) in duckdb.from_arrow(table.to_pyarrow_dataset()).project("routing_key").fetchall()
        ),
    }
    assert found == {reader: ["poor", "poor", "é.b"] for reader in found}


def test_every_reader_finds_nested_values_and_nulls_for_columns_left_out(
    routed: Installation, spark: SparkSession
) -> None:
    path = routed.data.queue("/", "all")
    table = DeltaTable(path)
    by_spark = spark.read.format("delta").load(path)
    rows = by_spark.selectExpr(
        "routing_key", "application_properties['i'].int i", "header.priority p", "amqp_value.string v", "cc[1] c"
    ).collect()
    assert sorted(map(tuple, rows), key=str) == sorted(
        [("poor", None, None, None, None)] * 2 + [("é.b", 2**62, 9, "v", "y")], key=str
    )
    by_duckdb = duckdb.from_arrow(table.to_pyarrow_dataset()).project(
        'routing_key, application_properties[\'i\']."int", header.priority, amqp_value."string", cc[2]'
    )
    assert sorted(by_duckdb.fetchall(), key=str) == sorted(map(tuple, rows), key=str)
    by_polars = [
        (
            row["routing_key"],
            (dict(row["application_properties"] or ()).get("i") or {}).get("int"),
            (row["header"] or {}).get("priority"),
            (row["amqp_value"] or {}).get("string"),
            (row["cc"] or (None, None))[1],
        )
        for row in pl.scan_delta(path).collect().to_arrow().to_pylist()
    ]
    assert sorted(by_polars, key=str) == sorted(map(tuple, rows), key=str)


def test_spark_may_delete_and_optimize_between_batches(routed: Installation, spark: SparkSession) -> None:
    path = routed.data.queue("/", "all")
    SparkTable.forPath(spark, path).delete("routing_key = 'é.b'")
    SparkTable.forPath(spark, path).optimize().executeCompaction()
    assert routed.counts() == {"all": 2}

    routed.publish([RICH], file="c.parquet")
    routed.route()

    assert routed.counts() == {"all": 3}
    assert {message.routing_key: message for message in from_batch(read_queue(routed.data, "all"))} == {
        "é.b": RICH,
        "poor": POOR,
    }


def test_skipping_by_statistics_keeps_the_rows_that_match(routed: Installation, spark: SparkSession) -> None:
    path = routed.data.queue("/", "all")
    frame = spark.read.format("delta").load(path)
    stamps = sorted({row.routed_at for row in frame.collect()})
    assert [frame.where(frame.routed_at == stamp).count() for stamp in stamps] == [1, 2]
    assert frame.where("routing.batch_id = 1 AND routing.seq >= 0").count() == 2
    low, high = (row["routing"]["seq"] for row in routed.rows("all") if row["routing_key"] == "poor")
    assert frame.where(f"routing.seq = {max(low, high)}").count() == 1
