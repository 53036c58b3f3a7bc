"""The manifest is read from its newest end, and only where the wanted rows can be."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from deltalake import DeltaTable

from bindery.router.errors import UnsupportedTable
from bindery.store.actions import Transaction
from bindery.store.commit import BatchCommitter, BatchCounts
from bindery.store.log import TableLog
from bindery.store.manifest import manifest_row, newest_batches, open_manifest, read_manifest, write_rows
from bindery.store.paths import DataDir
from bindery.store.places import Place
from bindery.store.places import at as place
from bindery.store.read import RowId
from bindery.store.recorded import find_row
from bindery.store.samples import recent_messages
from bindery.store.topology import TopologyStore
from tests.unit.store.conftest import declare_queues, deliver

FIRST = datetime(2026, 1, 1, tzinfo=UTC)


def commit(data: DataDir, *batches: tuple[str, int, int]) -> Place:
    """Rows (stream, batch id, microseconds after FIRST) as one file of the manifest."""
    log = open_manifest(data)
    rows = [
        manifest_row(
            app_id=f"{stream}:c",
            stream=stream,
            batch_id=batch,
            topology_version=1,
            clock=FIRST,
            tables=(),
            counts=BatchCounts(records=batch),
            commit_ms=1.0,
        )
        | {"committed_at": FIRST + timedelta(microseconds=after)}
        for stream, batch, after in batches
    ]
    added = write_rows(data, rows)
    assert log.commit([added], transactions=[Transaction("t", log.version)]) is not None
    return place(data.manifest, added.path)


def names(rows: Any) -> list[tuple[str, int]]:
    return [(row["stream"], row["batch_id"]) for row in rows]


def test_the_newest_batches_come_first_whatever_files_hold_them(data: DataDir) -> None:
    assert names(newest_batches(data)) == []
    commit(data, ("a", 0, 10), ("b", 0, 50), ("a", 3, 2_000_000))
    commit(data, ("a", 1, 20))
    commit(data, ("b", 1, 60), ("a", 2, 40), ("a", 4, 2_000_001))
    expected = [("a", 4), ("a", 3), ("b", 1), ("b", 0), ("a", 2), ("a", 1), ("a", 0)]
    assert names(newest_batches(data)) == expected
    assert names(reversed(read_manifest(data))) == expected
    DeltaTable(data.manifest).optimize.compact()
    assert names(newest_batches(data)) == expected
    assert [set(row) for row in newest_batches(data, columns=["records"])] == [{"records", "committed_at"}] * 7


def test_who_stops_early_opens_the_newest_files_only(data: DataDir) -> None:
    files = [commit(data, ("a", number, number * 10_000)) for number in range(12)]
    for file in files[:8]:
        file.remove()
    assert names(itertools.islice(newest_batches(data), 3)) == [("a", 11), ("a", 10), ("a", 9)]
    with pytest.raises(UnsupportedTable, match="is missing"):
        list(newest_batches(data))


@pytest.mark.parametrize("wanted", [{"app_id": "b:c"}, {"stream": "b"}, {"stream": "a", "batch_id": 7}])
def test_files_that_cannot_hold_the_wanted_rows_are_not_opened(data: DataDir, wanted: dict[str, Any]) -> None:
    files = [commit(data, ("a", number, number)) for number in range(12)]
    kept = [commit(data, ("b", 100, 1_000)), commit(data, ("b", 101, 1_001)), files[7]]
    for file in files:
        if file not in kept:
            file.remove()
    expected = [("a", 7)] if "batch_id" in wanted else [("b", 100), ("b", 101)]
    assert names(read_manifest(data, **wanted)) == expected


def test_committed_batches_are_found_by_their_statistics(data: DataDir, store: TopologyStore) -> None:
    version = store.edit(declare_queues("q", "r"), author="t").version
    with BatchCommitter(data, stream="s", app_id="s:1") as committer:
        for batch in range(12):
            deliver(data, committer, batch, version, "q", "r")
    # what is committed within a millisecond or two is told apart by looking into the files
    for name in list(TableLog(data.manifest, files=True).files or {})[:6]:
        place(data.manifest, name).remove()
    assert names(read_manifest(data, stream="s", batch_id=11)) == [("s", 11)]
    samples = recent_messages(data, "/", records=3)
    assert {name: len(numbers) for name, numbers in samples.items()} == {"q": 3, "r": 3}
    assert find_row(data, store.load(), "/", RowId("s", 11, 1)).queue == "q"
