"""Copies that transformations have changed, in tables and journals (docs/transform.md)."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest

from bindery.router.declarations import TopologyEditor
from bindery.router.errors import InvalidInput, Refused
from bindery.router.message import Message
from bindery.router.model import TRANSFORM, Binding, Divert, Exchange, Queue
from bindery.router.values import Table
from bindery.store import deferred
from bindery.store.backfill import Backfiller
from bindery.store.changed_copies import copy_numbers, message_number
from bindery.store.journal_files import Journal
from bindery.store.paths import DataDir
from bindery.store.read import read_queue
from bindery.store.rebuild import Rebuilder
from bindery.store.recorded import find_row, parse_row
from bindery.store.redrive import Redriver
from bindery.store.topology import TopologyStore
from bindery.store.unroutable import Selection
from tests.unit.store.routed import route

MESSAGES = [Message("a", application_properties=Table({"n": number})) for number in range(3)]


def declare(editor: TopologyEditor) -> None:
    """Two exchanges; `now` and `late` get each message as it is, with y, and over the divert with z."""
    for name in "ab":
        editor.declare_exchange(Exchange("/", name, "fanout"))
    for queue, seconds in (("now", 0), ("late", 60), ("plain", 0)):
        editor.declare_queue(Queue("/", queue, arguments=Table({"x-freshness": seconds} if seconds else {})))
    for queue in ("now", "late"):
        editor.bind(Binding(0, "/", "a", queue))
        editor.bind(Binding(0, "/", "a", queue, arguments=Table({TRANSFORM: "SET y = n * 10"})))
        editor.bind(Binding(0, "/", "b", queue))
    editor.bind(Binding(0, "/", "a", "plain"))
    editor.declare_divert(Divert(0, "/", "d", "a", "b", filter="n <> 1", transform="SET z = UTC(); REMOVE n"))


def copies(data: DataDir, queue: str) -> list[dict[str, Any]]:
    return sorted(
        read_queue(data, queue).to_pylist(), key=lambda row: (row["routing"]["batch_id"], row["routing"]["seq"])
    )


def values(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: next(v for v in value.values() if v is not None) for name, value in row["application_properties"] or ()
    }


def test_numbers_of_changed_copies_tell_the_message() -> None:
    seq = np.array([0, 5, 2**53 - 1], np.int64)
    for form in (1, 2, 15):
        numbers = copy_numbers(seq, np.full(3, form))
        assert (numbers < 0).all()
        assert [message_number(int(one)) for one in numbers] == seq.tolist()
    assert copy_numbers(seq[:2], np.ones(2, np.int32)).tolist() == [-1, -6]
    assert message_number(7) == 7


def test_each_form_is_a_row_with_a_number_of_its_own(data: DataDir, store: TopologyStore) -> None:
    store.edit(declare, author="t")
    route(data, store, MESSAGES, clock_ms=5_000)
    rows = copies(data, "now")
    assert len(rows) == 3 + 3 + 2
    assert len({row["routing"]["seq"] for row in rows}) == len(rows)
    of_first = [row for row in rows if message_number(row["routing"]["seq"]) == 0]
    assert sorted(sorted(values(row)) for row in of_first) == [["n"], ["n", "y"], ["z"]]
    assert len({tuple(row["routing"]["bindings"]) for row in of_first}) == 1, "the lineage is the message's"
    assert {row["exchange"] for row in rows} == {"a"}
    assert all(row["source"] == of_first[0]["source"] for row in of_first)


def test_a_deferred_queue_gets_the_same_rows(data: DataDir, store: TopologyStore) -> None:
    store.edit(declare, author="t")
    for batch_id in range(2):
        route(data, store, MESSAGES, batch_id=batch_id, clock_ms=5_000 + batch_id)
    assert not copies(data, "late") or copies(data, "late") == copies(data, "now")
    done = deferred.materialise(data, store, Journal.open(data.journal("flights")))
    assert (done.queues, done.failed) == (["late"], {})
    assert copies(data, "late") == copies(data, "now")


@pytest.mark.local_only  # it loses a folder
def test_a_lost_table_has_its_changed_copies_again(data: DataDir, store: TopologyStore) -> None:
    store.edit(declare, author="t")
    for batch_id in range(2):
        route(data, store, MESSAGES, batch_id=batch_id, journal=True, clock_ms=5_000 + batch_id)
    before = copies(data, "now")
    shutil.rmtree(data.queue("/", "now"))
    assert Rebuilder(data, store, "/").rebuild("now").rows == len(before)
    assert copies(data, "now") == before


def test_unroutable_rows_are_as_published_and_a_redrive_changes_them(data: DataDir, store: TopologyStore) -> None:
    store.edit(lambda editor: editor.declare_exchange(Exchange("/", "a", "fanout")), author="t")
    route(data, store, MESSAGES, clock_ms=5_000)

    def later(editor: TopologyEditor) -> None:
        editor.declare_queue(Queue("/", "now"))
        editor.bind(Binding(0, "/", "a", "now", arguments=Table({TRANSFORM: "SET n = n + 1"})))
        editor.bind(Binding(0, "/", "a", "now", arguments=Table({TRANSFORM: "REMOVE n"})))

    store.edit(later, author="t")
    outcome = Redriver(data, store, "/").redrive(Selection())
    assert (outcome.redriven, outcome.copies) == (3, 6)
    rows = copies(data, "now")
    assert sorted(values(row).get("n", -1) for row in rows) == [-1, -1, -1, 1, 2, 3]
    assert Redriver(data, store, "/").redrive(Selection()).copies == 0


def test_a_backfill_of_a_queue_with_changed_copies_is_refused(data: DataDir, store: TopologyStore) -> None:
    store.edit(declare, author="t")
    route(data, store, MESSAGES, journal=True)
    with pytest.raises(Refused, match="a transformation stands on a way to it"):
        Backfiller(data, store, "/").backfill("now")
    assert Backfiller(data, store, "/").backfill("plain").rows == 0

    def plain(editor: TopologyEditor) -> None:
        editor.delete_divert("/", "d")
        for binding in list(editor.topology.bindings.values()):
            if TRANSFORM in binding.arguments:
                editor.unbind(binding)

    store.edit(plain, author="t")
    with pytest.raises(Refused, match="it has had copies that transformations had changed"):
        Backfiller(data, store, "/").backfill("now")


def test_a_changed_copy_is_not_explained_as_if_it_had_been_published(data: DataDir, store: TopologyStore) -> None:
    store.edit(declare, author="t")
    route(data, store, MESSAGES, journal=True)
    changed = next(row["routing"]["seq"] for row in copies(data, "now") if row["routing"]["seq"] < 0)
    with pytest.raises(InvalidInput, match="is a copy that a transformation has changed") as caught:
        find_row(data, store.load(), "/", parse_row(f"flights:0:{changed}"))
    assert f"flights:0:{message_number(changed)}" in str(caught.value.hint)
    assert find_row(data, store.load(), "/", parse_row("flights:0:1")).row.seq == 1


def test_a_transform_of_a_divert_is_kept_in_the_topology(data: DataDir, store: TopologyStore) -> None:
    store.edit(declare, author="t")
    assert store.load().divert("/", "d").transform == "SET z = UTC(); REMOVE n"
