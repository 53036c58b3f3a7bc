"""A copy that a defect in a filter may have cost is on record, is counted, and is never doubled by a redrive."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from bindery.api.publisher import Publisher
from bindery.jobs.consume import Consumer
from bindery.jobs.fold import Fold, MappedColumn
from bindery.router.declarations import TopologyEditor
from bindery.router.engine import Router
from bindery.router.filters import parse, scalar
from bindery.router.message import MESSAGE_SCHEMA, Message, from_batch, to_batch
from bindery.router.model import Binding, Exchange, Queue
from bindery.router.values import Table
from bindery.store import file_rows
from bindery.store.manifest import MANIFEST, read_manifest
from bindery.store.paths import DataDir
from bindery.store.read import read_queue
from bindery.store.redrive import Redriver
from bindery.store.routed_counts import RoutedCounts, by_filter_text
from bindery.store.topology import TopologyStore
from bindery.store.totals import ManifestTotals, Totals
from bindery.store.unroutable import DELIVERED, Selection, summary
from tests.unit.store.routed import route

SQL = {"f": {"descriptor": "amqp:sql-filter", "value": "LOWER(s) LIKE 'b%'"}}


def declare(editor: TopologyEditor) -> None:
    filters = Table({"f": Table(SQL["f"])})
    for name in ("x", "alone"):
        editor.declare_exchange(Exchange("/", name, "fanout"))
    for name in ("lowered", "all"):
        editor.declare_queue(Queue("/", name))
    editor.bind(Binding(0, "/", "x", "lowered", arguments=Table({"x-filters": filters})))
    editor.bind(Binding(0, "/", "x", "all"))
    editor.bind(Binding(0, "/", "alone", "lowered", arguments=Table({"x-filters": filters})))
    editor.bind(Binding(0, "/", "x", "lowered", arguments=Table({"x-filter-jms-selector": "n / 0 = 1"})))


def message(exchange: str, text: str) -> Message:
    return Message(exchange, application_properties=Table({"s": text, "n": 1}))


@pytest.fixture
def defect() -> Any:
    """LOWER raises for BAD until the patch is undone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(scalar.FUNCTIONS, "LOWER", lambda value: str(1 // 0) if value == "BAD" else value.lower())
        yield patch


@pytest.fixture
def declared(store: TopologyStore) -> TopologyStore:
    store.edit(declare, author="t")
    return store


SENT = [message("x", "B1"), message("x", "BAD"), message("alone", "BAD"), message("alone", "B2")]


def texts(data: DataDir, queue: str) -> list[object]:
    return sorted(str(one.application_properties["s"]) for one in from_batch(read_queue(data, queue)))


def test_a_message_that_reached_other_queues_has_a_row_too_and_is_never_routed_again(
    data: DataDir, declared: TopologyStore, defect: pytest.MonkeyPatch
) -> None:
    route(data, declared, SENT)
    assert (texts(data, "lowered"), texts(data, "all")) == (["B1", "B2"], ["B1", "BAD"])
    rows = DeltaTable(data.unroutable("/")).to_pyarrow_table().to_pylist()
    assert sorted((row["exchange"], row["reason"], row["disposition"]) for row in rows) == [
        ("alone", "filter_error", "discarded"),
        ("x", "filter_error", DELIVERED),
    ]
    assert all("binding" in row["detail"] and "ZeroDivisionError" in row["detail"] for row in rows)
    dict_of_reasons = dict(summary(data, "/").reasons)
    assert dict_of_reasons == {("filter_error", "discarded"): 1, ("filter_error", DELIVERED): 1}
    defect.undo()
    for _ in range(2):
        outcome = Redriver(data, declared, "/").redrive(Selection())
    assert (outcome.redriven, outcome.still_unroutable.total()) == (0, 0)
    assert (texts(data, "lowered"), texts(data, "all")) == (["B1", "B2", "BAD"], ["B1", "BAD"])


def test_a_redrive_that_meets_a_defect_records_and_counts_it(
    data: DataDir, declared: TopologyStore, defect: pytest.MonkeyPatch
) -> None:
    route(data, declared, [message("alone", "BAD")])
    declared.edit(lambda editor: editor.bind(Binding(0, "/", "alone", "all")), author="t")
    outcome = Redriver(data, declared, "/").redrive(Selection())
    assert (outcome.redriven, outcome.copies) == (1, 1)
    rows = DeltaTable(data.unroutable("/")).to_pyarrow_table().to_pylist()
    assert sorted((row["disposition"], row["redriven"] is not None) for row in rows) == [
        (DELIVERED, False),
        ("discarded", True),
    ]
    (batch,) = (row for row in read_manifest(data) if row["stream"].startswith("redrive"))
    assert dict(batch["filter_errors"]) == {json.dumps(SQL, separators=(",", ":")): 1}
    assert Redriver(data, declared, "/").redrive(Selection()).redriven == 0


@pytest.mark.usefixtures("defect")
def test_the_publisher_counts_trouble_and_defects_by_filter(data: DataDir, declared: TopologyStore) -> None:
    publisher = Publisher(data, declared.load, app_id="api:1")
    try:
        assert [publisher.publish("/", one).result(60) for one in SENT[1:3]] == [("all",), ()]
    finally:
        publisher.close()
    totals = ManifestTotals(data.manifest).totals()
    assert totals.filter_unknowns == {"n / 0 = 1": 1}
    assert totals.filter_errors == {json.dumps(SQL, separators=(",", ":")): 2}
    assert totals.unroutable == {("api", "filter_error"): 1}


@pytest.mark.usefixtures("defect")
def test_a_task_hands_its_counts_to_the_driver(declared: TopologyStore) -> None:
    topology = declared.load()
    batch = to_batch(SENT)
    counts, total = RoutedCounts(), RoutedCounts()
    counts.add(batch, Router.compile(topology, "/").route(batch, clock_ms=0))
    for _ in range(2):
        total.merge(json.loads(json.dumps(counts.as_data())))
    assert by_filter_text(topology, "/", total.errors) == {json.dumps(SQL, separators=(",", ":")): 4}
    assert by_filter_text(topology, "/", total.trouble) == {"n / 0 = 1": 4}


def test_a_manifest_from_before_there_were_such_counts_has_none(tmp_path: Path) -> None:
    """Whoever only reads may see a file from before a writer gave the table the new column."""
    row = {"stream": "s", "records": 1, "copies": 1, "unroutable": [("filtered", 1)], "filter_unknowns": [("a", 1)]}
    rows = pa.Table.from_pylist([row], schema=MANIFEST.schema)
    now = pa.array([0], MANIFEST.schema.field("committed_at").type)
    rows = rows.set_column(rows.schema.get_field_index("committed_at"), "committed_at", now)
    newer = ["filter_errors", "requests", "batches", "timed", "invalid", "unparsable", "canary"]
    for number, older in enumerate((rows, rows.drop_columns(newer))):
        pq.write_table(older, tmp_path / f"{number}.parquet")
        totals = Totals()
        totals.add(file_rows.read(str(tmp_path), f"{number}.parquet", MANIFEST.schema))
        assert (totals.filter_unknowns, totals.filter_errors, totals.unparsable) == ({"a": 1}, {}, {})


@pytest.mark.usefixtures("defect")
def test_a_bridge_refuses_the_messages_that_its_filter_could_not_judge() -> None:
    """They are read once: passed over, they would be lost without a word."""
    sent = [message("x", text) for text in ("BAD", "B1", "c", "BAD", "b2")]
    batch = to_batch([replace(one, routing_key=str(n)) for n, one in enumerate(sent)])
    columns = tuple(MappedColumn(name, name) for name in MESSAGE_SCHEMA.names)
    fold = Fold(columns, False, 1 << 20, consumer=Consumer.of(parse("LOWER(s) LIKE 'b%'", "amqp-sql")))
    folded, refused = fold(batch, pa.array(np.arange(5)))
    assert folded.column("routing_key").to_pylist() == ["1", "4"]
    assert refused is not None
    assert refused.batch.column("routing_key").to_pylist() == ["0", "3"]
    assert refused.reason.to_pylist() == ["filter_error"] * 2
    assert "the filter of the bridge: ZeroDivisionError" in refused.detail[0].as_py()
