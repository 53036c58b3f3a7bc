"""Redrive: chosen unroutable rows are routed again, exactly once, whatever dies in between."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from router.errors import InvalidInput, NotFound
from router.filters import parse
from router.message import UNROUTABLE_SCHEMA, Message, from_batch
from router.model import Binding, Exchange, Queue, TopologyEditor
from router.values import Table
from store import redrive as redrive_module
from store import tables
from store.paths import DataDir
from store.read import read_queue
from store.redrive import Outcome, Redriver
from store.topology import TopologyStore
from store.unroutable import Selection, summary
from tests.unit.store.conftest import Crash, crash_at
from tests.unit.store.routed import route


def flight(number: int, key: str = "flight.UA", **more: Any) -> Message:
    properties = Table({"flight": number, **more})
    return Message("flights", key, bcc=("hidden",), application_properties=properties)


def declare(editor: TopologyEditor) -> None:
    editor.declare_exchange(Exchange("/", "flights", "topic"))
    editor.declare_queue(Queue("/", "late"))
    editor.declare_queue(Queue("/", "all"))
    editor.bind(Binding(0, "/", "flights", "all", routing_key="train.#"))


def repair(editor: TopologyEditor) -> None:
    selector = Table({"x-filter-jms-selector": "flight < 100"})
    editor.bind(Binding(0, "/", "flights", "late", routing_key="flight.#", arguments=selector))
    editor.bind(Binding(0, "/", "flights", "all", routing_key="hidden"))


@pytest.fixture
def lost(data: DataDir, store: TopologyStore) -> TopologyStore:
    """Ten flights that nothing routes, over two batches."""
    store.edit(declare, author="t")
    route(data, store, [flight(n) for n in range(5)], batch_id=0, clock_ms=1_700_000_000_000)
    route(data, store, [flight(n, key="flight.AA") for n in range(5, 10)], batch_id=1, clock_ms=1_800_000_000_000)
    return store


def numbers(data: DataDir, queue: str) -> list[int]:
    messages = from_batch(read_queue(data, queue))
    return sorted(message.application_properties["flight"] for message in messages)  # type: ignore[type-var]


def marks(data: DataDir) -> dict[tuple[int, int], Any]:
    rows = DeltaTable(data.unroutable("/")).to_pyarrow_table().to_pylist()
    return {(row["routing"]["batch_id"], row["routing"]["seq"]): row["redriven"] for row in rows}


def test_rows_that_reach_a_queue_now_are_delivered_and_marked(data: DataDir, lost: TopologyStore) -> None:
    version = lost.edit(repair, author="t").version
    outcome = Redriver(data, lost, "/").redrive(Selection())
    assert (outcome.redriven, outcome.copies) == (10, 20)  # bcc counts again: each is in late and in all
    assert dict(outcome.queues) == {"late": 10, "all": 10}
    assert numbers(data, "late") == numbers(data, "all") == list(range(10))
    (batch,) = outcome.batches
    assert set(map(str, marks(data).values())) == {str({"topology_version": version, "batch": batch})}
    row = read_queue(data, "late").to_pylist()[0]
    assert row["routing"]["stream"] == batch
    assert row["routing"]["topology_version"] == version
    assert row["source"]["file"] == "flights.csv"


def test_a_second_redrive_finds_nothing_to_do(data: DataDir, lost: TopologyStore) -> None:
    lost.edit(repair, author="t")
    Redriver(data, lost, "/").redrive(Selection())
    again = Redriver(data, lost, "/").redrive(Selection())
    assert again.as_data() == Outcome(topology_version=lost.load().version).as_data()
    assert len(numbers(data, "late")) == 10


def test_rows_that_still_reach_nothing_stay_as_they_are(data: DataDir, lost: TopologyStore) -> None:
    outcome = Redriver(data, lost, "/").redrive(Selection())
    assert (outcome.redriven, dict(outcome.still_unroutable)) == (0, {"no_binding": 10})
    assert set(marks(data).values()) == {None}
    assert len(marks(data)) == 10


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(key="flight.AA"), range(5, 10)),
        (Selection(key="*.UA.#"), range(5)),
        (Selection(reasons=frozenset({"filtered"})), ()),
        (Selection(reasons=frozenset({"no_binding"})), range(10)),
        (Selection(exchange="trains"), ()),
        (Selection(since=datetime(2025, 1, 1, tzinfo=UTC)), range(5, 10)),
        (Selection(until=datetime(2025, 1, 1, tzinfo=UTC)), range(5)),
        (Selection(condition=parse("flight IN ('x') OR flight BETWEEN 3 AND 6", "jms")), range(3, 7)),
        (Selection(key="flight.UA", condition=parse("flight > 2", "jms")), (3, 4)),
    ],
)
def test_only_chosen_rows_are_redriven(data: DataDir, lost: TopologyStore, selection: Selection, expected: Any) -> None:
    lost.edit(repair, author="t")
    counted = summary(data, "/", selection)
    assert counted.rows == len(expected)
    Redriver(data, lost, "/").redrive(selection)
    assert numbers(data, "late") == list(expected)


def test_a_dry_run_counts_and_writes_nothing(data: DataDir, lost: TopologyStore) -> None:
    lost.edit(repair, author="t")
    outcome = Redriver(data, lost, "/").redrive(Selection(), dry_run=True)
    assert (outcome.redriven, outcome.copies, outcome.batches) == (10, 20, [])
    assert numbers(data, "late") == []
    assert set(marks(data).values()) == {None}
    assert not Path(data.root, "redrives").exists()


STEPS = ("planned", "marking", "marked", "pinned", "append queue / all", "append queue / late", "tables", "manifest",
         "delivered")  # fmt: skip


@pytest.mark.parametrize("step", STEPS)
def test_a_redrive_that_dies_at_any_step_loses_and_doubles_nothing(
    data: DataDir, lost: TopologyStore, step: str
) -> None:
    lost.edit(repair, author="t")
    with pytest.raises(Crash):
        Redriver(data, lost, "/", fault=crash_at(step)).redrive(Selection(key="flight.UA"))
    # meanwhile the stream goes on, and the topology changes
    route(data, lost, [flight(50, "lost.again")], batch_id=2)
    lost.edit(lambda editor: editor.declare_queue(Queue("/", "later")), author="t")
    Redriver(data, lost, "/").redrive(Selection())
    assert numbers(data, "late") == list(range(10))
    assert numbers(data, "all") == [*range(10), 50]
    assert all(mark is not None for mark in marks(data).values())
    assert not list(Path(data.root, "redrives").glob("*/*"))
    assert Redriver(data, lost, "/").redrive(Selection()).redriven == 0


KILLED = """
import os, sys
from store.paths import DataDir
from store.redrive import Redriver
from store.topology import TopologyStore
from store.unroutable import Selection

data = DataDir.open(sys.argv[1])
Redriver(data, TopologyStore(data), "/", fault=lambda step: os._exit(9) if step.startswith(sys.argv[2]) else None
         ).redrive(Selection())
"""


def test_killed_again_and_again_it_still_comes_to_the_same_end(data: DataDir, lost: TopologyStore) -> None:
    lost.edit(repair, author="t")
    for step in ("planned", "marked", "append queue / late", "tables"):
        died = subprocess.run([sys.executable, "-c", KILLED, data.root, step], check=False, timeout=60)
        assert died.returncode == 9
    Redriver(data, lost, "/").redrive(Selection())
    assert numbers(data, "late") == numbers(data, "all") == list(range(10))


def test_two_redrives_at_once_share_the_rows(data: DataDir, lost: TopologyStore) -> None:
    lost.edit(repair, author="t")
    other: list[Outcome] = []

    first = Redriver(data, lost, "/", fault=_redrive_once_at("marking", data, lost, Selection(key="flight.AA"), other))
    outcome = first.redrive(Selection())
    assert outcome.redriven + sum(one.redriven for one in other) == 10
    assert numbers(data, "late") == list(range(10))


def _redrive_once_at(
    wanted: str, data: DataDir, store: TopologyStore, selection: Selection, outcomes: list[Outcome]
) -> Any:
    """A fault that runs a whole second redrive, which does not know of the first one's plan, at a step."""

    def fault(step: str) -> None:
        if step == wanted and not outcomes:
            outcomes.append(Outcome())
            rival = Redriver(data, store, "/")
            rival._plans = rival._plans.with_name("rival")  # as if it had begun before the first one's plan was there
            outcomes[0] = rival.redrive(selection)

    return fault


def test_a_queue_deleted_in_between_gives_its_rows_back(data: DataDir, lost: TopologyStore) -> None:
    lost.edit(lambda editor: editor.bind(Binding(0, "/", "flights", "late", routing_key="flight.UA")), author="t")
    with pytest.raises(Crash):
        Redriver(data, lost, "/", fault=crash_at("marked")).redrive(Selection())
    lost.edit(lambda editor: editor.delete_queue("/", "late"), author="t")
    outcome = Redriver(data, lost, "/").redrive(Selection())
    assert outcome.redriven == 0
    assert set(marks(data).values()) == {None}
    assert dict(outcome.still_unroutable) == {"no_binding": 10}


def test_many_rows_go_in_several_rounds(data: DataDir, lost: TopologyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redrive_module, "MAX_ROWS", 3)
    lost.edit(repair, author="t")
    outcome = Redriver(data, lost, "/").redrive(Selection())
    assert outcome.redriven == 10
    assert len(outcome.batches) == 2  # a file's rows stay together
    assert numbers(data, "late") == list(range(10))


def test_a_table_from_before_the_mark_grows_the_column(data: DataDir, store: TopologyStore) -> None:
    columns = UNROUTABLE_SCHEMA.remove(UNROUTABLE_SCHEMA.get_field_index("redriven"))
    tables.create_table(data.unroutable("/"), replace(tables.UNROUTABLE, schema=columns), vhost="/")
    store.edit(declare, author="t")
    route(data, store, [flight(1)])
    store.edit(repair, author="t")
    assert Redriver(data, store, "/").redrive(Selection()).redriven == 1
    assert numbers(data, "late") == [1]


def test_rows_that_hold_no_message_are_refused(data: DataDir, lost: TopologyStore) -> None:
    with pytest.raises(InvalidInput, match="hold no message"):
        Redriver(data, lost, "/").redrive(Selection(reasons=frozenset({"invalid_record"})))
    with pytest.raises(InvalidInput, match="unknown reason"):
        Selection(reasons=frozenset({"lost"}))
    with pytest.raises(InvalidInput, match="time zone"):
        Selection(since=datetime(2025, 1, 1))
    with pytest.raises(NotFound):
        Redriver(data, lost, "other")


def test_a_vhost_without_unroutable_rows(data: DataDir, store: TopologyStore) -> None:
    assert Redriver(data, store, "/").redrive(Selection()).redriven == 0
    assert summary(data, "/").rows == 0


def test_the_summary_counts_by_reason_and_key(data: DataDir, lost: TopologyStore) -> None:
    lost.edit(repair, author="t")
    Redriver(data, lost, "/").redrive(Selection(condition=parse("flight < 2", "jms")))
    found = summary(data, "/", top=1).as_data()
    assert (found["rows"], found["redriven"]) == (10, 2)
    assert found["reasons"] == [{"reason": "no_binding", "disposition": "discarded", "rows": 8}]
    assert found["keys"] == [{"exchange": "flights", "routing_key": "flight.AA", "reason": "no_binding", "rows": 5}]
    assert found["distinct_keys"] == 2
    assert found["first"].startswith("2023-11-14T22:13:20")
