"""Queues as DataFrames: the rows and flat columns that SQL and Arrow give."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import bindery
from bindery.router.message import Message
from bindery.router.values import Table, Timestamp
from tests.spark.installation import Installation


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
