"""Queues and journals as DataFrames: the rows and flat columns that SQL and Arrow give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import bindery
from bindery.analytics.row_pages import queue_at
from bindery.analytics.snippets import Reading
from bindery.router.message import Message
from bindery.router.values import Table, Timestamp
from bindery.store.topology import TopologyStore
from tests.spark.installation import Installation
from tests.unit.store.routed import route


def test_a_frame_has_the_flat_columns_of_a_point(
    spark: SparkSession, installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BINDERY_CACHE", str(tmp_path / "cache"))
    installation.queue("all", source="amq.fanout", key="")
    values = [1, 0.5, "text", True, b"\x00", Timestamp(1), (1, "a"), None]
    messages = [
        Message(exchange="amq.fanout", application_properties=Table({"n": number, "mixed": value, "exchange": "x"}))
        for number, value in enumerate(values)
    ]
    installation.publish(messages[:3], file="a.json")
    installation.route()
    installation.publish(messages[3:], file="b.json")
    installation.route()
    queue = bindery.open(installation.data.root).queue("all")
    names = ["n", "mixed", "application_properties.exchange", "priority"]
    for options in ({}, {"at": 0}, {"filter": "n > 1"}, {"since": "2026-01-01"}):
        expected = queue.arrow(flat=True, columns=names, **options).to_pylist()
        frame = queue.spark(spark, flat=True, columns=names, **options)
        assert sorted((row.asDict() for row in frame.collect()), key=lambda row: row["n"]) == expected
    assert queue.spark(flat=False, at=0).count() == 3
    assert bindery.spark() is spark
    _run_snippets(spark, installation)
    route(installation.data, TopologyStore(installation.data), messages, stream="kept", journal=True)
    journal = bindery.open(installation.data.root).journal("kept")
    options = {"flat": True, "columns": ["n", "mixed", "reason"], "filter": "n > 5"}
    assert [row.asDict() for row in journal.spark(spark, **options).sort("n").collect()] == journal.arrow(
        **options
    ).to_pylist()


def _run_snippets(spark: SparkSession, installation: Installation) -> None:
    """What the service gives to be pasted reads these rows, too."""
    topology = TopologyStore(installation.data).load()
    for asked, rows in (({}, 8), ({"version": 1}, 3), ({"at": "0"}, 3), ({"filter": "n > 1"}, 6)):
        table, _ = queue_at(installation.data, "/", "all", version=asked.get("version"), at=asked.get("at"))
        reading = Reading(data=installation.data, topology=topology, vhost="/", name="all", table=table, **asked)
        code = {one.title: one.code for one in reading.snippets()}
        names: dict[str, Any] = {"spark": spark}
        exec(code["PySpark"], names)  # noqa: S102  # running it is the test
        assert names["rows"].count() == rows, asked
        assert spark.sql(code["Spark SQL"]).count() == (8 if "filter" in asked else rows), asked
