"""Frames of deferred queues have what waits for them in journals, each copy once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import bindery
from bindery.jobs.read import read_queue_df
from bindery.router.message import Message
from bindery.router.values import Table
from bindery.store import deferred
from bindery.store.journal_files import Journal
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from tests.unit.store.routed import route
from tests.unit.store.test_deferred import declare

pytestmark = pytest.mark.spark


def test_a_frame_of_a_deferred_queue_is_that_of_an_immediate_one(spark: SparkSession, tmp_path: Path) -> None:
    data = DataDir.open(tmp_path / "data", create=True)
    store = TopologyStore(data)
    declare(store, late=60, now=0)
    for batch in range(2):
        sent = [Message("", "late", cc=("now",), bcc=("x",), application_properties=Table({"n": n})) for n in range(3)]
        route(data, store, sent, batch_id=batch)
        if not batch:
            deferred.materialise(data, store, Journal.open(data.journal("flights")))
    late, now = (read_queue_df(spark, data, name) for name in ("late", "now"))
    assert late.schema == now.schema
    assert sorted(map(str, late.collect())) == sorted(map(str, now.collect()))
    assert read_queue_df(spark, data, "late", filter="n > 0").count() == 4
    assert read_queue_df(spark, data, "late", live=False).count() == 3
    queue = bindery.open(data.root).queue("late")
    assert queue.spark(spark, flat=True, filter="n = 1", columns=["n"]).count() == 2
    assert queue.spark(spark, at="flights:0").count() == 3
