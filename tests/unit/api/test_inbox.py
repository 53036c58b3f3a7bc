"""Bulk ingestion: everything is checked first, bad records are named, and no few bytes become many."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bindery.api.inbox import Rejected, exchanges_of, read_arrow, read_ndjson
from bindery.router.message import from_batch

NDJSON = b'{"exchange": "x", "routing_key": "k", "application_properties": {"n": [1]}, "body": "hi"}\n\n{"cc": ["a"]}\n'


def ipc(table: pa.Table, *, kind: Any = pa.ipc.new_stream, compression: str | None = None) -> bytes:
    sink = io.BytesIO()
    with kind(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    return sink.getvalue()


def problems(read: Any, raw: bytes) -> list[tuple[int, str | None]]:
    with pytest.raises(Rejected) as rejected:
        read(raw)
    return [(problem.line, problem.where) for problem in rejected.value.problems]


def test_one_message_a_line_and_blank_lines_are_skipped() -> None:
    records = read_ndjson(NDJSON)
    first, second = from_batch(records)
    assert (first.exchange, first.body, second.cc) == ("x", b"hi", ("a",))
    assert exchanges_of(records) == ["x", ""]


def test_every_bad_line_is_named() -> None:
    raw = b'{"nope": 1}\n{}\n{]\n{"exchange": 5}\n[]\n{"header": {"priority": "x"}}'
    assert problems(read_ndjson, raw) == [
        (1, "nope"),
        (3, None),
        (4, "exchange"),
        (5, "message"),
        (6, "header.priority"),
    ]


def test_what_an_inbox_does_not_keep_is_refused() -> None:
    assert problems(read_ndjson, b'{"reject_unroutable": false}\n{"reject_unroutable": true}') == [
        (2, "reject_unroutable")
    ]


@pytest.mark.parametrize("line", [b"[" * 100_000, b'{"body": NaN}', b"\xff", b'{"exchange": "\\ud800"}'])
def test_hostile_lines_are_bad_lines(line: bytes) -> None:
    assert problems(read_ndjson, b"{}\n" + line)[0][0] == 2


@pytest.mark.parametrize("kind", [pa.ipc.new_stream, pa.ipc.new_file])
def test_arrow_streams_and_files_are_read(kind: Any) -> None:
    records = read_ndjson(NDJSON)
    assert read_arrow(ipc(records, kind=kind)).equals(records)


def test_missing_columns_are_null_and_unknown_ones_refused() -> None:
    assert from_batch(read_arrow(ipc(pa.table({"exchange": ["x"]}))))[0].exchange == "x"
    problems(read_arrow, ipc(pa.table({"nope": ["x"]})))
    problems(read_arrow, ipc(pa.table({"mandatory": ["perhaps"]})))


def test_compressed_buffers_are_refused() -> None:
    """A few bytes of zstd can unfold to any size."""
    problems(read_arrow, ipc(pa.table({"exchange": ["x" * 10_000_000]}), compression="zstd"))
    encoded = pa.table({"exchange": pa.array(["x" * 1_000_000]).dictionary_encode()})
    problems(read_arrow, ipc(encoded, compression="lz4"))


def test_unreadable_nested_values_are_refused() -> None:
    records = read_ndjson(NDJSON)
    rows = records.to_pylist()
    rows[0]["application_properties"] = [("n", {"nested": "{not json"})]
    problems(read_arrow, ipc(pa.Table.from_pylist(rows, schema=records.schema)))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damaged_streams_are_refused_or_read(data: st.DataObject) -> None:
    raw = bytearray(ipc(read_ndjson(NDJSON)))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        read_arrow(bytes(raw[: data.draw(st.integers(0, len(raw)))]))
    except Rejected as rejected:
        assert rejected.total == 1
