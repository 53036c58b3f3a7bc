"""Deferred queues at points: what waited there is read out of journals, whatever has been flushed since."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

import bindery
from bindery.analytics.point import ReadPoint
from bindery.analytics.row_pages import page_of, queue_at, row_of
from bindery.analytics.tables import queue_rows
from bindery.router.errors import NotFound
from bindery.router.message import Message
from bindery.router.values import Table
from bindery.store import deferred, read, tables
from bindery.store.deferred.flushing import record_materialised
from bindery.store.journal_files import Journal
from bindery.store.maintenance.journals import Kept, keep_journal, past_keeping, trimmed_mark
from bindery.store.maintenance.trimming import trim
from bindery.store.paths import DataDir
from bindery.store.read import RowId
from bindery.store.topology import TopologyStore
from tests.unit.store.routed import route
from tests.unit.store.test_deferred import declare


def publish(data: DataDir, store: TopologyStore, batch: int, stream: str, messages: int = 2) -> None:
    sent = [
        Message("", "late", cc=("now",), application_properties=Table({"n": n, f"only_{stream}": 1}), body=b"%d" % n)
        for n in range(messages)
    ]
    route(data, store, sent, batch_id=batch, stream=stream)
    time.sleep(0.003)


def flush(data: DataDir, store: TopologyStore, stream: str) -> None:
    journal = Journal.open(data.journal(stream))
    record_materialised(journal, deferred.materialise(data, store, journal).through)


def rows(point: ReadPoint, queue: str) -> list[tuple[str, int, int]]:
    found = queue_rows(point, "/", queue).read(["routing"])["routing"].to_pylist()
    return sorted((one["stream"], one["batch_id"], one["seq"]) for one in found)


@pytest.mark.local_only
@pytest.mark.parametrize(
    "seed", [0, pytest.param(1, marks=pytest.mark.nightly), pytest.param(2, marks=pytest.mark.nightly)]
)
def test_at_every_point_a_deferred_queue_is_its_immediate_twin(data: DataDir, store: TopologyStore, seed: int) -> None:
    """Batches of two streams, flushes and consumers in any order; each point as it was, and all of them at the end."""
    chance = random.Random(seed)
    declare(store, late=60, now=0)
    batches = dict.fromkeys("ab", 0)
    points: dict[str, list[tuple[str, int, int]]] = {}
    times: list[tuple[datetime, list[tuple[str, int, int]]]] = []
    for _ in range(14):
        stream = chance.choice("ab")
        match chance.choice(("batch", "batch", "flush", "take", "one")):
            case "batch":
                publish(data, store, batches[stream], stream, chance.randint(1, 3))
                point = f"{stream}:{batches[stream]}"
                points[point] = rows(ReadPoint.of(data, point), "now")
                batches[stream] += 1
            case "flush" if batches[stream]:
                flush(data, store, stream)
            case "one":
                deferred.materialise_queue(data, store, "/", "late")
            case "take":
                # in one order in both: they are equal before
                assert read.take(data, "late", limit=2).rows.equals(read.take(data, "now", limit=2).rows)
        assert rows(ReadPoint.of(data), "late") == rows(ReadPoint.of(data), "now")
        if any(batches.values()):
            time.sleep(0.003)
            times.append((datetime.now(UTC), rows(ReadPoint.of(data), "now")))
            time.sleep(0.003)
    for at, expected in [*points.items(), *times]:
        point = ReadPoint.of(data, at)
        assert rows(point, "late") == rows(point, "now") == expected


def test_a_flush_of_a_batch_that_has_not_ended_there_is_not_seen(data: DataDir, store: TopologyStore) -> None:
    declare(store, late=60, now=0)
    publish(data, store, 0, "a")
    point = ReadPoint.of(data)
    publish(data, store, 1, "a")
    flush(data, store, "a")
    assert rows(point, "late") == rows(point, "now") == [("a", 0, 0), ("a", 0, 1)]


def test_what_a_journal_has_not_kept_is_no_smaller_queue(data: DataDir, store: TopologyStore) -> None:
    declare(store, late=60, now=0)
    publish(data, store, 0, "a")
    flush(data, store, "a")
    publish(data, store, 1, "a")
    flush(data, store, "a")
    publish(data, store, 2, "a")
    keep_journal(data, "a", "/", Kept(timedelta(hours=1)))
    log = tables.open_log(data.journal("a"), tables.JOURNAL, files=True)
    later = int(time.time() * 1000) + 7_200_000
    assert trim(log, lambda: past_keeping(log, later), lambda gone: trimmed_mark(log, gone)) == 2
    with pytest.raises(NotFound, match="cannot be read as of the batch a:1"):
        rows(ReadPoint.of(data, "a:1"), "late")
    assert len(rows(ReadPoint.of(data, "a:1"), "now")) == 4
    assert len(rows(ReadPoint.of(data, "a:2"), "late")) == 6


def test_programs_and_pages_have_what_waits(data: DataDir, store: TopologyStore) -> None:
    declare(store, late=60, now=0)
    publish(data, store, 0, "a", 3)
    flush(data, store, "a")
    publish(data, store, 1, "a", 3)
    publish(data, store, 0, "b", 1)
    opened = bindery.open(data.root)
    late = opened.queue("late")
    assert late.arrow().equals(opened.queue("now").arrow())
    assert opened.queue("late", live=False).arrow().num_rows == 3
    assert repr(opened.queue("late", live=False)).endswith(".queue('late', live=False)")
    flat = late.arrow(flat=True, filter="n > 0", columns=["n", "only_b"])
    assert (flat.num_rows, flat["only_b"].null_count) == (4, 4)
    assert opened.sql("SELECT count(*) c, sum(n) n FROM late WHERE n > 1")["c"].to_pylist() == [2]
    assert opened.sql("SELECT count(*) c FROM late WHERE routing.batch_id = 1", at="a:0")["c"].to_pylist() == [0]

    def shown(queue: str, **options: bool) -> tuple[list[bytes], int, int]:
        table, _ = queue_at(data, "/", queue, **options)
        page = page_of(table, limit=5, newest=True, preview=10)
        return page.rows["body"].to_pylist(), page.held, page.waiting

    bodies, held, waiting = shown("late")
    assert (bodies, held) == shown("now")[:2]
    assert (waiting, shown("late", live=False)[1:]) == (4, (3, 0))
    table, _ = queue_at(data, "/", "late")
    first = page_of(table, limit=2, preview=10)
    assert page_of(table, limit=9, preview=10, after=first.next).rows.num_rows == 5
    assert row_of(table, RowId("b", 0, 0), 10).body_bytes == (1,)
    assert replace(table, tail={}).waiting == 0
