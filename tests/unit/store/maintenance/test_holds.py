"""Streams that read tables of the data directory hold back what they have not read."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import timedelta

import pytest

from bindery.store.log import TableLog
from bindery.store.maintenance import Policy, maintain
from bindery.store.maintenance.holds import find_holds
from bindery.store.paths import DataDir
from bindery.store.places import Place
from bindery.store.places import at as place
from bindery.store.read import delete_matching
from tests.unit.store.maintenance.conftest import NOTHING_OLD, Clock, Stream, data_files_of, entries_of


def offsets(data: DataDir, stream: str, batch: int, table_id: str, version: int) -> Place:
    """What Spark records for a batch of a stream with a Delta source."""
    source = {
        "sourceVersion": 1,
        "reservoirId": table_id,
        "reservoirVersion": version,
        "index": -1,
        "isStartingVersion": False,
    }
    path = place(data.checkpoint(stream), "offsets", str(batch))
    path.parent.make_folder()
    path.replace(("v1\n" + json.dumps({"batchWatermarkMs": 0, "conf": {}}) + "\n" + json.dumps(source)).encode())
    return path


@pytest.fixture
def table_id(data: DataDir, stream: Stream) -> str:
    return TableLog(data.queue("/", "a")).state.table_id


def test_the_batch_before_the_newest_counts_and_the_version_before_it(data: DataDir, table_id: str) -> None:
    for batch, version in ((8, 3), (9, 7), (10, 12)):
        offsets(data, "bridge", batch, table_id, version)
    (hold,) = find_holds(data, timedelta(days=30), time.time_ns() // 1_000_000).active
    assert (hold.stream, hold.table_id, hold.version) == ("bridge", table_id, 6)


def test_sources_of_other_kinds_and_damaged_files_hold_nothing(data: DataDir) -> None:
    path = offsets(data, "bridge", 0, "t", 1)
    path.replace(b'v1\n{"conf":{}}\n{"logOffset":3}\n-\nnot json')
    (path.parent / "1.tmp").replace(b"")
    found = find_holds(data, timedelta(days=30), time.time_ns() // 1_000_000)
    assert (found.active, found.expired) == ((), ())


def test_what_a_stream_has_not_read_stays(data: DataDir, stream: Stream, table_id: str, clock: Clock) -> None:
    stream.run(40)
    path = data.queue("/", "a")
    offsets(data, "bridge", 5, table_id, 21)
    delete_matching(data, "a", None)
    clock.ahead = timedelta(days=3)
    report = maintain(data, NOTHING_OLD, clock=clock)
    (one,) = [table for table in report.tables if table.name.endswith("/a")]
    assert one.held_by == ("bridge",)
    assert entries_of(path)[0] <= 20
    assert len(data_files_of(path)) >= 21
    free = data.queue("/", "b")
    assert len(data_files_of(free)) == 1
    following = TableLog(path).version + 1
    offsets(data, "bridge", 6, table_id, following)
    offsets(data, "bridge", 7, table_id, following)
    maintain(data, NOTHING_OLD, clock=clock)
    assert len(data_files_of(path)) == 0


def test_a_stream_that_is_idle_for_too_long_is_named_and_holds_nothing(
    data: DataDir,
    stream: Stream,
    table_id: str,
    clock: Clock,
    age: Callable[[Place, float], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    stream.run(20)
    recorded = offsets(data, "bridge", 5, table_id, 4)
    age(recorded, 31)
    delete_matching(data, "a", None)
    clock.ahead = timedelta(days=8)
    report = maintain(data, Policy(), clock=clock)
    assert report.idle == ("bridge",)
    assert "bridge has not moved" in caplog.text
    assert data_files_of(data.queue("/", "a")) == set()
