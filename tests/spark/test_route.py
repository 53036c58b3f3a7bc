"""The streaming job: every message once into every queue it is routed to, whatever happens to the driver."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bindery.jobs.report import BatchReport
from bindery.jobs.route import RouteJob
from bindery.router.declarations import TopologyEditor
from bindery.router.message import Message
from bindery.router.model import Binding, Exchange, Queue
from bindery.router.policies import Policy
from bindery.router.values import Table
from bindery.store import faults
from bindery.store.log import TableLog
from bindery.store.maintenance.journals import Kept
from tests.spark.installation import Installation
from tests.unit.store.conftest import Crash, at, crash

ONE_FILE_EACH = """
stream: s
source: {format: parquet, path: INBOX, options: {maxFilesPerTrigger: 1}}
trigger: available-now
"""


def orders(*keys: str) -> list[Message]:
    return [
        Message(exchange="amq.topic", routing_key=key, application_properties=Table({"n": n}), body=key.encode())
        for n, key in enumerate(keys)
    ]


def test_a_message_is_copied_once_to_each_queue_with_its_lineage_and_place(installation: Installation) -> None:
    installation.queue("all")
    installation.queue("eu", key="eu.*")
    installation.queue("eu", key="*.big", **{"x-filter-jms-selector": "n >= 1"})
    installation.queue("none", key="nothing")
    installation.publish(orders("eu.small", "eu.big", "us.small", "us.big"), file="a.parquet")

    (report,) = installation.route()

    assert installation.counts() == {"all": 4, "eu": 3, "none": 0}
    assert (report.records, report.copies, report.unroutable) == (4, 7, 0)
    everything = {row["routing_key"]: row for row in installation.rows("all")}
    eu = {row["routing_key"]: row for row in installation.rows("eu")}
    ids = {key: row["routing"]["bindings"] for key, row in everything.items()}
    assert ids == {"eu.small": [1, 2], "eu.big": [1, 2, 3], "us.small": [1], "us.big": [1, 3]}
    assert all(eu[key]["routing"] == everything[key]["routing"] for key in eu)
    assert len({row["routing"]["seq"] for row in everything.values()}) == 4
    big = eu["eu.big"]
    assert big["source"]["file"].endswith("a.parquet")
    assert big["source"]["row_index"] == 1
    assert big["body"] == b"eu.big"
    assert dict(big["application_properties"])["n"]["int"] == 1
    assert big["routing"]["stream"] == "s"
    assert big["routing"]["topology_version"] == report.topology_version


def test_a_journal_has_each_message_once_with_the_queues_it_reached(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation.queue("all")
    with monkeypatch.context() as before:  # queues had ids
        before.setattr(TopologyEditor, "_put_queue", lambda e, q: e._put("queues", (q.vhost, q.name), q))
        installation.queue("eu", key="eu.*")
    sent = [*orders("eu.small", "us.big"), Message(exchange="nowhere", routing_key="x", bcc=("y",))]
    installation.publish(sent, file="a.parquet")

    installation.route(ONE_FILE_EACH + "journal: on\n")

    ids = {name: queue.id for (_, name), queue in installation.topology.load().queues.items()}
    rows = {row["routing_key"]: row for row in installation.journal()}
    reached = {key: set(row["routing"]["queues"]) for key, row in rows.items()}
    assert reached == {"eu.small": {ids["all"], ids["eu"]}, "us.big": {ids["all"]}, "x": set()}
    assert (rows["x"]["reason"], rows["x"]["bcc"]) == ("no_exchange", ["y"])
    in_queue = {row["routing_key"]: row for row in installation.rows("all")}
    for key in ("eu.small", "us.big"):
        assert rows[key]["source"] == in_queue[key]["source"]
        assert rows[key]["routing"]["seq"] == in_queue[key]["routing"]["seq"]

    # without the key a policy of streams says it, from the next batch on, and a job that says `off` keeps none
    by_policy = Policy("/", "kept", "^s$", Table({"journal": True, "max-age": "2D"}), "streams").setting()
    installation.topology.edit(lambda editor: editor.put_setting(by_policy), author="t")
    for name, said in (("b", ""), ("c", "journal: off\n")):
        installation.publish(orders(f"eu.{name}"), file=f"{name}.parquet")
        installation.route(ONE_FILE_EACH + said)
    assert {row["routing_key"] for row in installation.journal()} == {"eu.small", "us.big", "x", "eu.b"}
    assert Kept.of(TableLog(installation.data.journal("s")).state.configuration).age == timedelta(days=2)


def test_deferred_queues_have_their_copies_at_the_end_of_a_job(installation: Installation) -> None:
    """How long copies may wait is pinned: a job that says otherwise repeats a batch as it was begun."""
    installation.queue("late")
    installation.edit(lambda editor: editor.declare_queue(Queue("/", "now", arguments=Table({"x-freshness": 0}))))
    installation.edit(lambda editor: editor.bind(Binding(0, "/", "amq.topic", "now", routing_key="#")))
    installation.publish(orders("a", "b"), file="a.parquet")
    with faults.installed(at("batch.in_tables", crash)), pytest.raises(Crash):
        installation.route(ONE_FILE_EACH + "freshness: 600\n")
    assert (len(installation.rows("late")), len(installation.rows("now"))) == (0, 2)

    installation.route(ONE_FILE_EACH)

    ids = {name: queue.id for (_, name), queue in installation.topology.load().queues.items()}
    assert [row["routing"]["deferred"] for row in installation.journal()] == [[ids["late"]]] * 2
    assert installation.rows("late") == installation.rows("now")
    assert len(installation.rows("late")) == 2


def test_bcc_routes_and_stays_out_of_queue_tables(installation: Installation) -> None:
    installation.queue("hidden", source="amq.direct", key="secret")
    message = Message(exchange="amq.direct", routing_key="x", bcc=("secret",))
    lost = Message(exchange="amq.direct", routing_key="y", bcc=("nobody",))
    installation.publish([message, lost], file="a.parquet")

    installation.route()

    (row,) = installation.rows("hidden")
    assert row["bcc"] is None
    (unroutable,) = installation.unroutable()
    assert (unroutable["reason"], unroutable["disposition"]) == ("no_binding", "discarded")
    assert unroutable["bcc"] == ["nobody"]


def test_a_second_run_finds_nothing_new(installation: Installation) -> None:
    installation.queue("all")
    installation.publish(orders("a", "b"), file="a.parquet")
    installation.route()

    assert installation.route() == []
    assert installation.counts() == {"all": 2}


def test_a_batch_that_spark_repeats_is_not_routed_again(installation: Installation) -> None:
    installation.queue("all")
    installation.publish(orders("a", "b"), file="a.parquet")
    installation.route()
    manifest = installation.manifest()
    installation.forget_last_batch()

    (report,) = installation.route()

    assert report.replayed
    assert installation.counts() == {"all": 2}
    assert installation.manifest() == manifest


def test_a_driver_that_dies_before_spark_records_the_batch_repeats_nothing(installation: Installation) -> None:
    class Died(Exception):
        pass

    def die(_report: BatchReport) -> None:
        raise Died

    installation.queue("all")
    installation.publish(orders("a", "b"), file="a.parquet")
    with pytest.raises(Died):
        installation.job(report=die).run()
    installation.queue("later")

    installation.publish(orders("c"), file="b.parquet")
    reports = installation.route()

    assert [report.replayed for report in reports] == [True, False]
    assert installation.counts() == {"all": 3, "later": 1}


def test_a_batch_replayed_from_its_pin_is_routed_by_the_topology_it_was_pinned_to(installation: Installation) -> None:
    """The driver dies after the pin: bindings made meanwhile must not change what the batch gives."""
    installation.queue("all")
    installation.publish(orders("a", "b"), file="a.parquet")

    pinned = installation.topology.load().version

    with faults.installed(at("batch.pinned", crash)), pytest.raises(Crash):
        installation.job().run()
    installation.queue("later")

    (report,) = installation.route()

    assert report.topology_version == pinned
    assert installation.counts() == {"all": 2, "later": 0}


def test_a_topology_change_takes_effect_at_the_next_batch_of_a_running_stream(installation: Installation) -> None:
    installation.queue("before")
    installation.publish(orders("a"), file="a.parquet")
    installation.publish(orders("b", "c"), file="b.parquet")

    def bind(report: BatchReport) -> None:
        if report.batch_id == 0:
            installation.queue("after")

    installation.job(ONE_FILE_EACH, report=bind).run()

    first, second = installation.reports
    assert second.topology_version > first.topology_version
    assert installation.counts() == {"before": 3, "after": second.records}
    assert first.records + second.records == 3


def test_stop_ends_the_stream_after_the_batch_that_runs(installation: Installation) -> None:
    installation.queue("all")
    for name in "abc":
        installation.publish(orders(name), file=f"{name}.parquet")
    text = ONE_FILE_EACH.replace("available-now", "1 second")
    jobs: list[RouteJob] = []
    jobs.append(installation.job(text, report=lambda _report: jobs[0].stop()))

    jobs[0].run()
    assert installation.counts() == {"all": 1}

    installation.route(text, available_now=True)
    assert installation.counts() == {"all": 3}


def test_the_manifest_counts_what_the_batch_did(installation: Installation) -> None:
    installation.queue("all")
    installation.queue("eu", key="eu.*")
    installation.publish([*orders("eu.a", "us.a"), Message(exchange="nowhere")], file="a.parquet")

    installation.route()

    (row,) = installation.manifest()
    assert (row["records"], row["copies"]) == (3, 3)
    assert dict(row["bindings"]) == {1: 2, 2: 1}
    assert dict(row["unroutable"]) == {"no_exchange": 1}
    assert {table["name"]: table["rows"] for table in row["tables"]} == {"all": 2, "eu": 1, "": 1}


def test_a_filter_in_trouble_is_counted_by_its_text(installation: Installation) -> None:
    installation.queue("late", **{"x-filter-jms-selector": "n / 0 > 1"})
    installation.publish(orders("a", "b"), file="a.parquet")

    installation.route()

    (row,) = installation.manifest()
    assert dict(row["filter_unknowns"]) == {"n / 0 > 1": 2}


def test_a_small_task_buffer_gives_more_files_and_the_same_rows(installation: Installation) -> None:
    installation.queue("all")
    big = [Message(exchange="amq.topic", routing_key=str(n), body=bytes(300_000)) for n in range(20)]
    installation.publish(big, file="a.parquet")

    installation.route(
        "stream: s\nsource: {format: parquet, path: INBOX}\ntrigger: available-now\n"
        "task_buffer_bytes: 1048576\nmax_batch_records: 2\n"
    )

    assert sorted(int(row["routing_key"]) for row in installation.rows("all")) == list(range(20))
    assert len({row["routing"]["seq"] for row in installation.rows("all")}) == 20


def test_filters_look_into_bodies_and_count_those_that_cannot_be_parsed(installation: Installation) -> None:
    arguments = Table({"x-payload": "json"})
    installation.edit(lambda editor: editor.declare_exchange(Exchange("/", "orders", "fanout", arguments=arguments)))
    installation.queue("big", source="orders", **{"x-filter-jms-selector": "body.amount >= 100"})
    installation.queue("skus", source="orders", **{"x-filter-jms-selector": "body.items[0].sku LIKE 'A-%'"})
    bodies = (b'{"amount": 250}', b'{"amount": 5, "items": [{"sku": "A-1"}]}', b"no JSON", b'{"amount": "250"}', None)
    installation.publish([Message(exchange="orders", body=body) for body in bodies], file="a.parquet")

    (report,) = installation.route()

    assert (report.records, report.copies, report.unroutable) == (5, 2, 3)
    assert [row["body"] for row in installation.rows("big")] == [bodies[0]]
    assert [row["body"] for row in installation.rows("skus")] == [bodies[1]]
    (row,) = installation.manifest()
    assert dict(row["filter_unknowns"]) == {"body.amount >= 100": 1, "body.items[0].sku LIKE 'A-%'": 1}
    assert row["unparsable"] == [
        {"kind": "exchange", "vhost": "/", "name": "orders", "reason": "syntax", "messages": 1}
    ]
    assert report.unparsable == {("exchange", "orders", "syntax"): 1}
    assert {row["reason"] for row in installation.unroutable()} == {"filtered"}
