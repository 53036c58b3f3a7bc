"""Bridges (seed 004): a queue table as a source, with a filter, that feeds an exchange."""

from __future__ import annotations

import pytest
from delta.tables import DeltaTable as SparkTable

from bindery.router.errors import FilterError, InvalidInput, NotFound, Refused
from bindery.router.message import Message
from bindery.router.model import Binding, Divert, Exchange
from bindery.router.policies import Policy
from bindery.router.values import Table
from bindery.store import queue_use
from bindery.store.consumer_filters import consumer_filter
from bindery.store.topology import TopologyStore
from tests.spark.installation import Installation
from tests.unit.store.routed import route
from tests.unit.store.test_deferred import declare

BRIDGE = """
stream: bridge
source:
  format: queue
  queue: orders
  filter: amount > 10
message:
  exchange: "'archive'"
  routing_key: concat('old.', routing_key)
trigger: available-now
"""


@pytest.fixture
def bridged(installation: Installation) -> Installation:
    installation.edit(lambda editor: editor.declare_exchange(Exchange("/", "archive", "topic")))
    installation.queue("orders")
    installation.queue("archived", source="archive", key="old.#")
    publish(installation, 5, 11, 12)
    installation.route()
    return installation


def publish(installation: Installation, *amounts: int) -> None:
    messages = [
        Message(exchange="amq.topic", routing_key=f"k{n}", application_properties=Table({"amount": n}), body=b"x")
        for n in amounts
    ]
    installation.publish(messages, file=f"{amounts}.parquet")


def test_a_bridge_feeds_its_exchange_with_what_its_filter_accepts(bridged: Installation) -> None:
    nothing = queue_use.recorded(bridged.data, "/", "orders")
    queue_use.record(bridged.data, "/", "orders", queue_use.Use(1, 0, 5), nothing)
    (report,) = bridged.route(BRIDGE)
    used = queue_use.recorded(bridged.data, "/", "orders").use
    assert used is not None and used.used_ms > 0, "a queue is used by the job that reads it"

    rows = {row["routing_key"]: row for row in bridged.rows("archived")}
    assert rows.keys() == {"old.k11", "old.k12"}
    assert rows["old.k11"]["exchange"] == "archive"
    assert dict(rows["old.k11"]["application_properties"])["amount"]["int"] == 11
    assert rows["old.k11"]["body"] == b"x"
    assert report.records == 2
    assert bridged.counts() == {"archived": 2, "orders": 3}


def test_what_waits_for_a_deferred_source_at_the_start_is_there(bridged: Installation) -> None:
    store = TopologyStore(bridged.data)
    declare(store, late=60)
    route(bridged.data, store, [Message("", "late", application_properties=Table({"amount": 20}))], stream="other")
    bridged.route(BRIDGE.replace("queue: orders", "queue: late"))
    assert [row["routing_key"] for row in bridged.rows("archived")] == ["old.late"]


def test_rows_deleted_from_the_source_neither_stop_nor_repeat_a_bridge(bridged: Installation) -> None:
    bridged.route(BRIDGE)
    SparkTable.forPath(bridged.spark, bridged.data.queue("/", "orders")).delete("routing_key = 'k11'")
    publish(bridged, 13)
    bridged.route()
    bridged.route(BRIDGE)

    assert sorted(row["routing_key"] for row in bridged.rows("archived")) == ["old.k11", "old.k12", "old.k13"]


def test_a_filter_reads_the_message_as_it_stands_in_the_queue(bridged: Installation) -> None:
    bridged.route(BRIDGE.replace("amount > 10", "AMQAddress = 'amq.topic' AND amount = 5"))
    assert [row["routing_key"] for row in bridged.rows("archived")] == ["old.k5"]


def loop_by_binding(installation: Installation) -> None:
    installation.edit(lambda editor: editor.bind(Binding(0, "/", "archive", "orders", routing_key="never")))


def loop_by_exchange(installation: Installation) -> None:
    installation.edit(lambda editor: editor.bind(Binding(0, "/", "archive", "amq.topic", "exchange")))


def loop_by_divert(installation: Installation) -> None:
    installation.edit(lambda editor: editor.declare_divert(Divert(0, "/", "d", "archive", "amq.topic")))


def loop_by_alternates(installation: Installation) -> None:
    def declare(editor: object) -> None:
        editor.declare_exchange(  # type: ignore[attr-defined]  # a TopologyEditor
            Exchange("/", "far", "fanout", arguments=Table({"alternate-binding": Table({"destination": "orders"})}))
        )
        editor.declare_exchange(  # type: ignore[attr-defined]  # a TopologyEditor
            Exchange("/", "near", "fanout", arguments=Table({"alternate-exchange": "far"}))
        )
        editor.bind(Binding(0, "/", "archive", "near", "exchange"))  # type: ignore[attr-defined]  # a TopologyEditor

    installation.edit(declare)


def loop_by_policy(installation: Installation) -> None:
    def declare(editor: object) -> None:
        editor.put_setting(  # type: ignore[attr-defined]  # a TopologyEditor
            Policy("/", "p", "^archive$", Table({"alternate-exchange": "amq.topic"})).setting()
        )

    installation.edit(declare)


@pytest.mark.parametrize(
    "loop", [loop_by_binding, loop_by_exchange, loop_by_divert, loop_by_alternates, loop_by_policy]
)
def test_a_bridge_that_could_feed_its_own_queue_is_refused(bridged: Installation, loop: object) -> None:
    loop(bridged)  # type: ignore[operator]  # one of the functions above
    with pytest.raises(Refused, match="leads to it"):
        bridged.route(BRIDGE)
    assert bridged.counts()["archived"] == 0


def test_a_bridge_stops_when_a_later_change_closes_a_loop(bridged: Installation) -> None:
    job = bridged.job(BRIDGE)
    loop_by_binding(bridged)
    with pytest.raises(Refused):
        job.run()
    assert bridged.counts() == {"archived": 0, "orders": 3}


def test_the_default_exchange_is_safe_with_another_queue_as_literal_key(bridged: Installation) -> None:
    default = BRIDGE.replace("'archive'", "''")
    with pytest.raises(Refused):
        bridged.route(default)
    with pytest.raises(Refused):
        bridged.route(default.replace("concat('old.', routing_key)", "\"'orders'\""))
    bridged.route(default.replace("concat('old.', routing_key)", "\"'archived'\""))
    assert bridged.counts() == {"archived": 2, "orders": 3}


@pytest.mark.parametrize(
    ("old", "new", "error", "said"),
    [
        ("queue: orders", "queue: nope", NotFound, "no queue 'nope'"),
        ("amount > 10", "amount >", FilterError, "line 6"),
        ("\"'archive'\"", "exchange", InvalidInput, "literal"),
        ("  exchange: \"'archive'\"\n", "", InvalidInput, "literal"),
        ("'archive'", "'nope'", NotFound, "no exchange 'nope'"),
    ],
)
def test_a_bad_bridge_is_refused_at_its_start(
    bridged: Installation, old: str, new: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error) as caught:
        bridged.route(BRIDGE.replace(old, new))
    assert said in f"{caught.value} {getattr(caught.value, 'where', '')}"


def test_a_queue_is_read_as_a_dataframe_with_any_filter(bridged: Installation) -> None:
    from bindery.jobs.read import read_queue_df

    spark, data = bridged.spark, bridged.data
    frame = read_queue_df(spark, data, "orders", filter="amount BETWEEN 11 AND 12")
    assert sorted(row.routing_key for row in frame.select("routing_key").collect()) == ["k11", "k12"]
    assert frame.schema == spark.read.format("delta").load(data.queue("/", "orders")).schema
    by_set = {"sql": {"descriptor": "amqp:sql-filter", "value": "amount = 5 AND EXISTS(amount)"}}
    (row,) = read_queue_df(spark, data, "orders", filter=by_set).collect()
    assert row.application_properties["amount"]["int"] == 5
    assert read_queue_df(spark, data, "orders").count() == 3
    assert read_queue_df(spark, data, "orders", filter=consumer_filter("amount > 1"), version=0).count() == 0
    with pytest.raises(FilterError):
        read_queue_df(spark, data, "orders", filter="amount >")
    assert TopologyStore(data).load().version == bridged.topology.load().version
