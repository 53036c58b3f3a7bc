"""Parquet files that are put together of values encoded once hold what pyarrow's own would."""

from __future__ import annotations

import math
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bindery.router.message import MESSAGE_SCHEMA, QUEUE_SCHEMA, Message, to_batch
from bindery.store.pages import Copies, copies, leaves
from tests.unit.jobs.arrays import shown
from tests.unit.strategies import messages

LINEAGE = st.lists(st.integers(0, 2**31 - 1), max_size=4)


def queue_table(published: list[Message], numbers: list[int], lineage: list[list[int]]) -> pa.Table:
    """Rows of a queue, some of whose columns hold nothing."""
    batch = to_batch(published)
    rows = [
        {"topology_version": 3, "stream": "s", "batch_id": 7, "seq": seq, "bindings": ids}
        for seq, ids in zip(numbers, lineage, strict=True)
    ]
    kind = QUEUE_SCHEMA.field("routing").type
    return pa.table({name: batch.column(name) for name in MESSAGE_SCHEMA.names}).append_column(
        pa.field("routing", kind), pa.array(rows, kind)
    )


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of a few rows, and dictionaries as soon as something is there twice."""
    monkeypatch.setattr(copies, "_PAGE_BYTES", 48)
    monkeypatch.setattr(leaves, "_REPEATS", 2)


@pytest.mark.usefixtures("small")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(messages, LINEAGE), min_size=1, max_size=6), st.data())
def test_a_file_has_the_rows_that_were_chosen(drawn: list[tuple[Message, list[int]]], data: st.DataObject) -> None:
    """In their order, one as often as it was chosen, whatever is absent, empty or nested in them."""
    numbers = data.draw(st.lists(st.integers(0, 2**53), min_size=len(drawn), max_size=len(drawn)))
    table = queue_table([message for message, _ in drawn], numbers, [ids for _, ids in drawn])
    rows = np.array(data.draw(st.lists(st.integers(0, len(drawn) - 1), min_size=1, max_size=40)), np.uint32)
    encoded = Copies(table, delta={"routing.seq", "routing.bindings.list.element"}, bounded={"routing.seq"})
    file = b"".join(encoded.file(rows))
    found, expected = pq.read_table(pa.BufferReader(file)), table.take(pa.array(rows))
    assert found.schema.equals(expected.schema)
    for name in expected.column_names:
        assert shown(found[name].combine_chunks()) == shown(expected[name].combine_chunks()), name


@given(st.lists(st.integers(-(2**62), 2**62 - 1), min_size=1, max_size=300))
@settings(deadline=None)
def test_differences_of_integers_add_up(numbers: list[int]) -> None:
    encoded = Copies(pa.table({"n": pa.array(numbers, pa.int64())}), delta={"n"})
    file = pa.BufferReader(b"".join(encoded.file(np.arange(len(numbers), dtype=np.uint32))))
    assert pq.read_table(file)["n"].to_pylist() == numbers


TEXTS = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=4)


@given(st.lists(st.tuples(TEXTS, st.none() | st.integers(-5, 5), LINEAGE), min_size=1, max_size=30))
@settings(deadline=None)
def test_a_file_states_the_bounds_of_its_values(drawn: list[tuple[str | None, int | None, list[int]]]) -> None:
    """What readers pass over files and row groups by: of texts in the order of their bytes."""
    columns = {"text": pa.string(), "number": pa.int64(), "ids": pa.list_(pa.int32())}
    table = pa.table(
        {name: pa.array([row[n] for row in drawn], kind) for n, (name, kind) in enumerate(columns.items())}
    )
    names = {"text": "text", "number": "number", "ids": "ids.list.element"}
    rows = np.arange(0, len(drawn), 2, dtype=np.uint32)
    file = b"".join(Copies(table, bounded=set(names.values())).file(rows))
    group = pq.read_metadata(pa.BufferReader(file)).row_group(0)
    for number, name in enumerate(names):
        values = table[name].take(pa.array(rows)).combine_chunks()
        values = pc.list_flatten(values) if name == "ids" else values
        stated, expected = group.column(number).statistics, pc.min_max(values).as_py()
        if expected["min"] is None:
            assert stated is None or not stated.has_min_max
        else:
            assert (stated.min, stated.max) == (expected["min"], expected["max"])
            if name != "ids":  # an empty list counts as a null there
                assert stated.null_count == values.null_count


def test_a_bound_that_is_long_is_not_stated() -> None:
    table = pa.table({"text": ["x" * 5000]})
    file = pa.BufferReader(b"".join(Copies(table, bounded={"text"}).file(np.zeros(1, np.uint32))))
    assert pq.read_metadata(file).row_group(0).column(0).statistics is None


def test_a_page_is_about_a_megabyte() -> None:
    """Readers hold a page of each column at once: a file of large bodies has many."""
    table = pa.table({"body": [bytes([n]) * 300_000 for n in range(40)]})
    encoded = Copies(table)
    (column,) = encoded._columns
    cut = list(copies._cuts(column.values(40), np.arange(40, dtype=np.uint32)))
    assert [last - first for first, last in cut] == [3] * 13 + [1]
    assert pq.read_table(pa.BufferReader(b"".join(encoded.file(np.arange(40, dtype=np.uint32))))).equals(table)


@pytest.mark.parametrize(("content", "codec"), [(b"text " * 50, "SNAPPY"), (None, "UNCOMPRESSED")])
def test_what_does_not_get_smaller_is_not_compressed(content: bytes | None, codec: str) -> None:
    rng = np.random.default_rng(1)
    table = pa.table({"body": [content or rng.bytes(250) for _ in range(100)]})
    file = pa.BufferReader(b"".join(Copies(table).file(np.arange(100, dtype=np.uint32))))
    assert pq.read_metadata(file).row_group(0).column(0).compression == codec


def test_zeros_keep_their_signs() -> None:
    """What is the same in every bit alone is a dictionary of one value."""
    table = pa.table({"double": [0.0, -0.0, 0.0]})
    found = pq.read_table(pa.BufferReader(b"".join(Copies(table).file(np.arange(3, dtype=np.uint32)))))
    assert [math.copysign(1, value) for value in found["double"].to_pylist()] == [1, -1, 1]


def test_a_dictionary_stays_away_from_files_that_would_be_smaller_without() -> None:
    table = pa.table({"key": [f"key{n % 20}" for n in range(400)]})
    encoded = Copies(table)
    for rows, expected in ((19, False), (20, True)):
        file = pa.BufferReader(b"".join(encoded.file(np.arange(rows, dtype=np.uint32))))
        assert pq.read_metadata(file).row_group(0).column(0).has_dictionary_page is expected


def test_other_engines_read_it(tmp_path: Path) -> None:
    sent = [Message(exchange="x", routing_key=f"k{n % 10}", body=bytes([n % 256]) * (n % 40)) for n in range(500)]
    table = queue_table(sent, list(range(len(sent))), [[n % 7, 7 + n % 3] for n in range(len(sent))])
    encoded = Copies(table, delta={"routing.seq", "routing.bindings.list.element"}, bounded={"routing_key"})
    rows = np.arange(0, len(sent), 3, dtype=np.uint32)
    path = tmp_path / "file.parquet"
    path.write_bytes(b"".join(encoded.file(rows)))
    chosen = ["routing_key", "mandatory", "body", "routing"]
    expected = table.take(pa.array(rows)).select(chosen).to_pylist()
    assert pl.read_parquet(path, columns=chosen).to_dicts() == expected
    assert duckdb.read_parquet(str(path)).project(", ".join(chosen)).arrow().read_all().to_pylist() == expected
