"""Bindery in a program of Spark's own: rows get the outcome that the job, the engine and explain give."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import bindery
from bindery.router.errors import FilterError, InvalidInput, NotFound
from bindery.router.explain import Explainer
from bindery.router.message import Message, to_batch
from bindery.router.model import Exchange, Topology
from bindery.router.values import Table
from tests.examples import examples
from tests.spark.installation import Installation
from tests.unit.engine.topologies import messages, topologies

MAPPING = {
    "exchange": "airline",
    "routing_key": "concat_ws('.', carrier, dest)",
    "application_properties": {"dep_delay": "CAST(delay AS INT)"},
}


def _frame(spark: SparkSession, some: list[Message]) -> DataFrame:
    table = pa.Table.from_batches([to_batch(some)])
    return spark.createDataFrame(table.append_column("number", pa.array(range(len(some)))))


@given(topology=topologies(), some=st.lists(messages, min_size=1, max_size=25))
@examples(4)
def test_rows_get_what_explain_says(spark: SparkSession, topology: Topology, some: list[Message]) -> None:
    rows = bindery.spark.route(_frame(spark, some), topology).orderBy("number").collect()
    explained = Explainer(topology, "/").explain(to_batch(some), clock_ms=0)
    told = [(row.queues, [one.id for one in row.bindings], row.reason, row.disposition, row.detail) for row in rows]
    # of a message that reached some queues, and met a filter that failed, explain says the queues alone
    assert told == [(list(one.queues), list(one.lineage), one.reason, one.disposition, one.detail) for one in explained]


def test_rows_get_what_the_job_writes(spark: SparkSession, installation: Installation) -> None:
    installation.edit(lambda editor: editor.declare_exchange(Exchange("/", "flights", "topic")))
    installation.queue("late", source="flights", key="#", **{"x-filter-jms-selector": "dep_delay >= 60"})
    installation.queue("all", source="flights", key="*.LAX")
    records = [
        {"airline": "flights", "carrier": "UA", "dest": "LAX", "delay": "75"},
        {"airline": "flights", "carrier": "AA", "dest": "MIA", "delay": "61"},
        {"airline": "flights", "carrier": "WN", "dest": "MSY", "delay": "5"},
        {"airline": "flights", "carrier": "DL", "dest": "LAX", "delay": "soon"},
        {"airline": "trains", "carrier": "DB", "dest": "LAX", "delay": None},
        {"airline": None, "carrier": None, "dest": None, "delay": None},
    ]
    schema = "airline STRING, carrier STRING, dest STRING, delay STRING"
    installation.write_lines(*map(json.dumps, records), file="a.json")
    source = {"format": "json", "path": str(installation.inbox), "schema": schema}
    job = {"stream": "s", "source": source, "message": MAPPING, "trigger": "available-now"}
    installation.route(json.dumps(job))
    frame = spark.read.schema(schema).json(str(installation.inbox))
    routed = bindery.spark.route(frame, bindery.open(installation.data.root), MAPPING)
    assert routed.columns == [*frame.columns, "queues", "bindings", "reason", "disposition", "detail"]
    rows = routed.collect()
    # a filter on the outcome that Spark may move, and a part of the columns
    assert routed.where("reason = 'no_exchange'").select("carrier").orderBy("carrier").collect() == [("DB",)]
    for queue in ("late", "all"):
        held = [(row["routing_key"], row["routing"]["bindings"]) for row in installation.rows(queue)]
        found = [(f"{row.carrier}.{row.dest}", [b.id for b in row.bindings]) for row in rows if queue in row.queues]
        assert sorted(found) == sorted(held)
        assert held
    recorded = Counter((row["reason"], row["disposition"], row["detail"]) for row in installation.unroutable())
    told = Counter((row.reason, row.disposition, row.detail) for row in rows if row.reason)
    assert told == recorded
    assert {reason for reason, _, _ in told} == {"filtered", "invalid_record", "no_exchange", "no_binding"}
    (lax,) = [row for row in rows if row.carrier == "UA"]
    assert [one.asDict() for one in lax.bindings if one.destination == "all"] == [
        {"id": 2, "source": "flights", "destination": "all", "destination_type": "queue", "routing_key": "*.LAX"}
    ]


def test_a_stream_is_routed_under_the_topology_of_the_call(
    spark: SparkSession, installation: Installation, tmp_path: Path
) -> None:
    installation.queue("q", source="amq.direct", key="k")
    installation.publish([Message("amq.direct", "k", application_properties=Table({"n": 1}))], file="a.parquet")
    schema = spark.read.parquet(str(installation.inbox)).schema
    frame = spark.readStream.schema(schema).parquet(str(installation.inbox))
    routed = bindery.spark.route(frame, bindery.open(installation.data.root))
    installation.queue("later", source="amq.direct", key="k")
    found: list[Any] = []
    query = (
        routed.select("routing_key", "queues", "reason")
        .writeStream.foreachBatch(lambda batch, _: found.extend(map(tuple, batch.collect())))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert found == [("k", ["q"], None)]
    assert set(installation.counts().values()) == {0}


def test_what_cannot_be_routed_is_said_at_once(spark: SparkSession) -> None:
    schema = "airline string, carrier string, dest string, delay string"
    frame = spark.createDataFrame([("flights", "UA", "LAX", "75")], schema)
    for wrong, error in (
        ({"mapping": {"exchnage": "airline"}}, "did you mean 'exchange'"),
        ({"mapping": {"exchange": "airlin"}}, "columns of the source: airline"),
        ({}, "columns of the source: airline"),
        ({"mapping": {"exchange": "uuid()"}}, "batch_time"),
    ):
        with pytest.raises(InvalidInput) as caught:
            bindery.spark.route(frame, Topology.empty(), **wrong)
        assert caught.value.where == "mapping"
        assert error in (caught.value.hint or "")
    with pytest.raises(NotFound, match="vhost"):
        bindery.spark.route(frame, Topology.empty(), MAPPING, vhost="other")
    with pytest.raises(InvalidInput, match="'queues'"):
        bindery.spark.route(frame.withColumn("Queues", sf.lit(1)), Topology.empty(), MAPPING)


def test_a_selector_is_a_column_with_three_values(spark: SparkSession) -> None:
    rows = [(10, "a", 1.5, Decimal("2.50"), True), (11, None, None, None, None), (None, "b%", 0.0, Decimal(0), False)]
    frame = spark.createDataFrame(rows, "price int, name string, rate double, exact decimal(6,2), `a-b` boolean")
    cases = {
        "price > 10": [False, True, None],
        "price > 10 OR name = 'a'": [True, True, None],
        "NOT (price > 10 AND name LIKE 'b%')": [True, None, None],
        "rate < exact": [True, None, False],
        "price = '10'": [False, False, None],
        "price / 0 > 1": [None, None, None],
        "name IS NULL": [False, True, False],
        "": [True, True, True],
    }
    found = frame.select(*(bindery.spark.selector(text) for text in cases)).collect()
    assert {text: [row[n] for row in found] for n, text in enumerate(cases)} == cases
    assert frame.where(bindery.spark.selector("price > 10")).count() == 1
    named = bindery.spark.selector("x = TRUE", columns={"x": "`a-b`"})
    assert [row[0] for row in frame.select(named).collect()] == [True, None, False]
    assert frame.where(bindery.spark.selector("LOWER(name) = 'a'", dialect="amqp-sql")).count() == 1
    bodies = spark.createDataFrame([('{"n": 5}',), ("{",), (None,)], "value string")
    looking = bindery.spark.selector("body.n = 5", payload="json", columns={"body": "value"})
    assert [row[0] for row in bodies.select(looking).collect()] == [True, None, None]
    with pytest.raises(AnalysisException, match="Did you mean one of the following"):
        frame.select(bindery.spark.selector("prize > 10"))
    with pytest.raises(FilterError) as caught:
        bindery.spark.selector("price >< 10")
    assert (caught.value.column, caught.value.found) == (7, "><")
    with pytest.raises(InvalidInput) as unread:
        bindery.spark.selector("price > 10", columns={"pricee": "price"})
    assert "did you mean 'price'" in (unread.value.hint or "")
