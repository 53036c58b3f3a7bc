"""Deferred queues: their copies wait in journals, and reach their tables exactly once."""

from __future__ import annotations

from typing import Any

from bindery.router.declarations import TopologyEditor
from bindery.router.message import QUEUE_SCHEMA, Message
from bindery.router.model import Queue
from bindery.router.values import Table
from bindery.store import deferred, tables
from bindery.store.deferred.waiting import Journal, flushed_through
from bindery.store.paths import DataDir
from bindery.store.places import at as place
from bindery.store.topology import TopologyStore
from tests.unit.store.routed import route


def declare(store: TopologyStore, **freshness: int) -> None:
    """Queues by name, with seconds, 0 for those that have their copies at once; all bound to amq.fanout."""

    def change(editor: TopologyEditor) -> None:
        for name, seconds in freshness.items():
            arguments = Table({"x-freshness": seconds}) if seconds else Table()
            editor.declare_queue(Queue("/", name, arguments=arguments))

    store.edit(change, author="t")


def rows(data: DataDir, queue: str) -> list[dict[str, Any]]:
    path = data.queue("/", queue)
    found: list[dict[str, Any]] = []
    for file in tables.files_of(tables.TableLog(path, files=True)):
        found += place(path, file).read_parquet(QUEUE_SCHEMA).to_pylist()
    return sorted(found, key=lambda row: (row["routing"]["batch_id"], row["routing"]["seq"]))


def journal(data: DataDir) -> Journal:
    return Journal.open(data.journal("flights"))


def test_copies_wait_and_are_then_those_of_an_immediate_queue(data: DataDir, store: TopologyStore) -> None:
    declare(store, late=60, now=0)
    bodies = [Message("", "late", cc=("now",), bcc=("x",), application_properties=Table({"n": n})) for n in range(9)]
    for number in range(3):
        route(data, store, bodies[3 * number : 3 * number + 3], batch_id=number)
    assert (rows(data, "late"), len(rows(data, "now"))) == ([], 9)
    done = deferred.materialise(data, store, journal(data))
    assert (done.queues, done.copies, done.through, done.failed) == (["late"], 9, 2, {})
    assert rows(data, "late") == rows(data, "now")
    assert flushed_through(tables.TableLog(data.queue("/", "late")), "flights") == 2
    again = deferred.materialise(data, store, journal(data))
    assert (again.queues, again.copies) == ([], 0)
    assert len(rows(data, "late")) == 9
