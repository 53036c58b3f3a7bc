"""Compaction: which files are merged, what stays as it was, and what races do to it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from bindery.router.errors import CommitUnknown
from bindery.router.message import QUEUE_SCHEMA
from bindery.store import data_files, faults, tables
from bindery.store.actions import AddFile
from bindery.store.checkpoints import write_checkpoint
from bindery.store.log import TableLog
from bindery.store.maintenance import Policy
from bindery.store.maintenance.compaction import compact
from bindery.store.maintenance.merging import merge
from bindery.store.maintenance.table_places import place_of
from bindery.store.maintenance.tiers import merges, order
from bindery.store.paths import DataDir
from bindery.store.places import at as place
from bindery.store.read import delete_matching, read_queue, row_ids, take
from bindery.store.topology import TopologyStore
from tests.unit.store.conftest import queue_rows
from tests.unit.store.maintenance.conftest import Stream, data_files_of, entries_of


def file(rows: int, size: int = 5_000, path: str = "") -> AddFile:
    return AddFile(path or f"f{rows}-{size}", size, rows, "", 0)


def opened(data: DataDir, name: str = "a") -> TableLog:
    return TableLog(data.queue("/", name), files=True)


def compacted(data: DataDir, name: str = "a", policy: Policy | None = None) -> Any:
    place = place_of(data, tables.QUEUE, data.queue("/", name))
    return compact(place, place.open(), policy or Policy())


# -- which -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "size", "expected"),
    [(1, 4_000, 0), (15, 4_000, 0), (16, 4_000, 1), (255, 4_000, 1), (256, 4_000, 2), (1, 1 << 20, 1), (0, 0, 0)],
)
def test_the_order_of_a_file_is_that_of_its_rows_or_its_bytes(rows: int, size: int, expected: int) -> None:
    assert order(file(rows, size), 16) == expected


def test_fewer_than_a_fan_in_are_left_alone() -> None:
    assert merges([file(3, path=f"{n}") for n in range(15)], Policy()) == []
    (group,) = merges([file(3, path=f"{n}") for n in range(16)], Policy())
    assert len(group) == 16


def test_what_has_half_the_target_size_is_done_with() -> None:
    assert merges([file(10**6, 16 << 20, f"{n}") for n in range(40)], Policy()) == []


def test_groups_have_the_target_size_and_the_order_of_their_rows() -> None:
    files = [
        AddFile(f"{n}", 1 << 20, 10, f'{{"minValues":{{"routed_at":"2026-01-01T00:00:{59 - n:02}.000Z"}}}}', 0)
        for n in range(40)
    ]
    groups = merges(files, Policy(target_bytes=16 << 20))
    assert [len(group) for group in groups] == [16, 16, 8]
    assert [one.path for group in groups for one in group] == [f"{n}" for n in reversed(range(40))]


@given(st.lists(st.integers(1, 400), min_size=1, max_size=600))
@settings(max_examples=30, deadline=None)
def test_rows_are_rewritten_once_per_order_and_few_files_stay(batches: list[int]) -> None:
    """A table of one file per batch, compacted whenever there is something to merge."""
    policy = Policy(fan_in=8)
    files: list[AddFile] = []
    written = 0
    for number, rows in enumerate(batches):
        files.append(file(rows, 4_000, f"b{number}"))
        while groups := merges(files, policy):
            for group in groups:
                together = sum(one.rows or 0 for one in group)
                written += together
                files = [one for one in files if one not in group]
                files.append(file(together, 4_000, f"m{written}"))
    total = sum(batches)
    orders = order(file(total), 8) + 1
    assert sum(one.rows or 0 for one in files) == total
    assert written <= total * orders
    assert len(files) <= 7 * orders


# -- what stays ----------------------------------------------------------------------------------------


def test_rows_and_their_order_and_statistics_stay(data: DataDir, stream: Stream) -> None:
    stream.run(20, rows=5)
    before = read_queue(data, "a")
    assert (compacted(data).removed, compacted(data).removed) == (20, 0)
    (name,) = tables.files_of(opened(data))
    assert read_queue(data, "a").equals(before)
    inside = place(data.queue("/", "a"), name).read_parquet()
    assert row_ids(inside) == row_ids(before)
    write_checkpoint(data.queue("/", "a"))
    stats = json.loads(opened(data).files[name].stats)
    at = "2026-01-01T00:00:00.000Z"
    assert stats["numRecords"] == tables.count_rows(data, "/", "a") == 100
    version = stream.version
    assert stats["minValues"] == {
        "routed_at": at,
        "routing": {"topology_version": version, "batch_id": 0, "seq": 0},
    }
    assert stats["maxValues"] == {
        "routed_at": at,
        "routing": {"topology_version": version, "batch_id": 19, "seq": 4},
    }


def test_other_engines_read_what_was_merged(data: DataDir, stream: Stream) -> None:
    stream.run(20)
    path = data.queue("/", "a")
    before = sorted(map(repr, DeltaTable(path).to_pyarrow_table().to_pylist()))
    compacted(data)
    assert sorted(map(repr, DeltaTable(path).to_pyarrow_table().to_pylist())) == before
    assert pl.read_delta(path).height == 60
    merged = DeltaTable(path).to_pyarrow_dataset()
    assert duckdb.sql("select count(distinct routing.batch_id) from merged").fetchall() == [(20,)]
    assert DeltaTable(path, version=20).to_pyarrow_table().num_rows == 60
    assert merged is not None


def test_a_merge_changes_no_data_and_says_so(data: DataDir, stream: Stream) -> None:
    stream.run(20)
    compacted(data)
    newest = f"{entries_of(data.queue('/', 'a'))[-1]:020}.json"
    entry = (place(data.queue("/", "a"), "_delta_log", newest).read() or b"").decode()
    assert entry.count('"dataChange":false') == 21
    assert '"dataChange":true' not in entry


def test_columns_that_files_lack_stay_absent_and_those_of_a_newer_schema_are_kept(
    data: DataDir, store: TopologyStore
) -> None:
    tables.ensure_queue_table(data, "/", "a")
    path = data.queue("/", "a")
    newer = pa.schema([*QUEUE_SCHEMA, ("priority", pa.int32())])
    tables.grow(TableLog(path), tables.Kind("queue", newer, {}))
    log = opened(data)
    for number in range(16):
        rows = queue_rows(number, range(2), version=1).drop_columns(["body", "header"])
        if number == 7:
            rows = rows.append_column("priority", pa.array([5, 6], pa.int32()))
        log.commit([data_files.write_file(path, rows)])
    compacted(data)
    (name,) = tables.files_of(opened(data))
    merged = place(path, name).read_parquet()
    assert not {"body", "header"} & set(merged.column_names)
    assert merged["priority"].drop_null().to_pylist() == [5, 6]
    assert merged.num_rows == 32


def test_memory_does_not_grow_with_the_files(data: DataDir, store: TopologyStore, tmp_path: Path) -> None:
    tables.ensure_queue_table(data, "/", "a")
    path = data.queue("/", "a")
    rows = queue_rows(0, range(2_000), version=1, body=lambda seq: seq.to_bytes(4, "big") * 4_096)
    sources = [data_files.write_file(path, rows) for _ in range(6)]
    before = pa.total_allocated_bytes()
    peaks: list[int] = []

    def watch(_point: str, _path: str) -> None:
        peaks.append(pa.total_allocated_bytes() - before)

    schema = pa.schema(opened(data).state.schema.to_arrow())
    with faults.installed(watch):
        found = merge(path, sources, schema, target_bytes=4 << 20)
    assert sum(one.rows or 0 for one in found) == 12_000
    assert len(peaks) > 20
    # 197 MB of rows; a row group is 16 MiB, held as it was read, joined, and encoded
    assert max(peaks) < 100 << 20


# -- races -----------------------------------------------------------------------------------------------


def before_the_commit(data: DataDir, effect: Callable[[], object]) -> faults.Hook:
    waiting = [True]

    def hook(point: str, path: str) -> None:
        if waiting and point == "write.after" and "/compact-" in path:
            waiting.clear()
            effect()

    return hook


def test_an_append_meanwhile_costs_a_retry_and_no_second_merge(data: DataDir, stream: Stream) -> None:
    stream.run(20)
    with faults.installed(before_the_commit(data, lambda: stream.run(1, "a"))):
        done = compacted(data)
    assert (done.removed, done.added, done.dropped) == (20, 1, 0)
    assert read_queue(data, "a").num_rows == 63


@pytest.mark.parametrize("change", ["get", "purge", "clear", "compact"])
def test_a_merge_of_files_that_went_meanwhile_is_thrown_away(data: DataDir, stream: Stream, change: str) -> None:
    stream.run(20)
    left: dict[str, tuple[Callable[[], object], int]] = {
        "get": (lambda: take(data, "a", limit=1), 59),
        "purge": (lambda: delete_matching(data, "a", None), 0),
        "clear": (lambda: tables.clear_queue_table(data, "/", "a", undeclared_at=stream.version + 1), 0),
        "compact": (lambda: compacted(data), 60),
    }
    effect, rows = left[change]
    with faults.installed(before_the_commit(data, effect)):
        done = compacted(data)
    assert done.dropped == 1
    assert read_queue(data, "a").num_rows == rows
    assert len([name for name in data_files_of(data.queue("/", "a")) if name.startswith("compact-")]) <= 1


def test_a_cleared_queue_stays_closed_to_older_batches(data: DataDir, stream: Stream) -> None:
    stream.run(20)
    tables.clear_queue_table(data, "/", "a", undeclared_at=stream.version)
    compacted(data)
    stream.run(1, "a")
    assert read_queue(data, "a").num_rows == 0
    assert tables.undeclared_since(opened(data)) == stream.version


def test_files_stay_when_nobody_knows_whether_the_merge_was_committed(data: DataDir, stream: Stream) -> None:
    stream.run(20)

    def destroy(point: str, path: str) -> None:
        if point == "put.after" and "_delta_log" in path:
            place(path).replace(b"{")
            raise OSError("lost")

    with faults.installed(destroy), pytest.raises(CommitUnknown):
        compacted(data)
    assert any(name.startswith("compact-") for name in data_files_of(data.queue("/", "a")))
