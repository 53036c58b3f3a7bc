"""Folding mapped columns into messages, against the scalar reading of the same values."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bindery.jobs.fold import CORRUPT_COLUMN, MARKS_COLUMN, RAW_COLUMN, SOURCE_COLUMN, Fold, MappedColumn, row_bytes
from bindery.jobs.reread import Layout
from bindery.router.message import MESSAGE_SCHEMA, Message, to_batch, value_from_row
from tests.unit.jobs.arrays import shown
from tests.unit.strategies import messages, unchecked

CAP = 1 << 20


def seq(rows: int) -> pa.Array:
    return pa.array(range(rows), pa.int64())


def column(name: str, array: pa.Array, member: str, *, guarded: bool = False) -> tuple[MappedColumn, pa.Array]:
    mapped = MappedColumn(f"m_{name}", "application_properties", name, guarded, f"`{name}`", member)
    return mapped, array


ENTRIES = {
    "int": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "double": (pa.float64(), st.floats(allow_nan=False)),
    "string": (pa.string(), st.text(max_size=3)),
    "bool": (pa.bool_(), st.booleans()),
    "binary": (pa.binary(), st.binary(max_size=3)),
}


@settings(max_examples=60, deadline=None)
@given(data=st.data(), rows=st.integers(0, 5), members=st.lists(st.sampled_from(sorted(ENTRIES)), max_size=5))
def test_named_columns_become_map_entries_without_their_nulls(
    data: st.DataObject, rows: int, members: list[str]
) -> None:
    values = [data.draw(st.lists(st.none() | ENTRIES[member][1], min_size=rows, max_size=rows)) for member in members]
    mapped = [
        column(f"p{n}", pa.array(content, ENTRIES[member][0]), member)
        for n, (member, content) in enumerate(zip(members, values, strict=True))
    ]
    batch = pa.RecordBatch.from_arrays(
        [*(array for _, array in mapped), pa.nulls(rows)], names=[*(one.arrow for one, _ in mapped), "other"]
    )
    folded, refused = Fold(tuple(one for one, _ in mapped), False, CAP)(batch, seq(rows))

    assert refused is None
    assert entries(folded) == [
        {f"p{n}": content[row] for n, content in enumerate(values) if content[row] is not None} for row in range(rows)
    ]


def entries(batch: pa.RecordBatch) -> list[dict[str, object]]:
    rows = batch.column("application_properties").to_pylist()
    return [{name: value_from_row(value) for name, value in row or ()} for row in rows]


@settings(max_examples=40, deadline=None)
@given(st.lists(messages, max_size=4))
def test_canonical_columns_pass_unchanged(published: list[Message]) -> None:
    batch = to_batch(published)
    fold = Fold(tuple(MappedColumn(name, name) for name in MESSAGE_SCHEMA.names), False, 1 << 40)
    folded, refused = fold(batch, seq(len(published)))
    assert refused is None
    for name in MESSAGE_SCHEMA.names:
        assert shown(folded.column(name)) == shown(batch.column(name)), name


def test_a_failed_expression_refuses_its_record_only() -> None:
    guarded = pa.StructArray.from_arrays([pa.array([1, None, None])], names=["v"], mask=pa.array([False, False, True]))
    raw = pa.array([None, None, '{"a":"x"}'])
    batch = pa.RecordBatch.from_arrays([guarded, raw], names=["m_a", RAW_COLUMN])
    mapped, _ = column("a", guarded, "int", guarded=True)

    folded, refused = Fold((mapped,), False, CAP)(batch, seq(3))

    assert folded.column("seq").to_pylist() == [0, 1]
    assert entries(folded) == [{"a": 1}, {}]
    assert refused is not None
    assert refused.batch.column("seq").to_pylist() == [2]
    assert refused.reason.to_pylist() == ["invalid_record"]
    assert refused.detail.to_pylist() == ["message.application_properties.a: `a` failed"]
    assert refused.raw.to_pylist() == [b'{"a":"x"}']


def test_an_unparsable_record_is_refused_before_its_expressions() -> None:
    text = pa.array([None, '{"a": "x"}'])
    guarded = pa.StructArray.from_arrays([pa.array([1, None])], names=["v"], mask=pa.array([False, True]))
    batch = pa.RecordBatch.from_arrays(
        [guarded, text, text, pa.array([None, "1"])], names=["m_a", CORRUPT_COLUMN, RAW_COLUMN, MARKS_COLUMN]
    )
    mapped, _ = column("a", guarded, "int", guarded=True)
    layout = Layout("json", (("a", "INT"),), (0,))
    folded, refused = Fold((mapped,), False, CAP, layout=layout)(batch, seq(2))
    assert folded.num_rows == 1
    assert refused is not None
    assert refused.raw.to_pylist() == [b'{"a": "x"}']
    assert refused.detail.to_pylist() == ["a: 'x' is not INT"]
    assert [problem.kind for problem in refused.problems] == ["not-a-number"]


def test_a_failed_expression_says_what_it_read() -> None:
    guarded = pa.StructArray.from_arrays([pa.nulls(2, pa.int64())], names=["v"], mask=pa.array([True, True]))
    raw = pa.array(['{"a":"x\\u001b","b":0,"c":"/w==","d":1}', "cut"])
    batch = pa.RecordBatch.from_arrays([guarded, raw], names=["m_a", RAW_COLUMN])
    mapped, _ = column("a", guarded, "int", guarded=True)
    where = "message.application_properties.a: `a` failed"

    uses = (("a", False), ("b", False), ("c", True))
    _, refused = Fold((replace(mapped, uses=uses),), False, CAP)(batch, seq(2))
    assert refused is not None
    assert refused.detail.to_pylist() == [f"{where}, a is 'x\ufffd', b is '0', c is '\ufffd'", where]
    assert [problem.kind for problem in refused.problems] == ["expression", "expression"]

    _, refused = Fold((replace(mapped, uses=uses[:1], cast="INT"),), False, CAP)(batch, seq(2))
    assert refused is not None
    assert refused.detail.to_pylist() == [
        "a: 'x\ufffd' is not INT; message.application_properties.a: `a`",
        where,
    ]
    assert [problem.kind for problem in refused.problems] == ["not-a-number", "expression"]


def test_a_record_above_the_cap_is_too_large() -> None:
    batch = to_batch([Message(body=b"x" * 90), Message(body=b"x" * 101), Message(properties={"subject": "y" * 200})])
    fold = Fold(tuple(MappedColumn(name, name) for name in MESSAGE_SCHEMA.names), False, 100)
    folded, refused = fold(batch, seq(3))
    assert folded.num_rows == 1
    assert refused is not None
    assert refused.reason.to_pylist() == ["too_large", "too_large"]
    assert refused.detail.to_pylist() == [f"a record of {n} bytes; the cap is 100" for n in (101, 200)]


@settings(max_examples=40, deadline=None)
@given(st.lists(messages, max_size=4), st.integers(0, 3))
def test_the_size_of_a_record_counts_its_texts_and_binaries(published: list[Message], start: int) -> None:
    batch = to_batch(published).slice(min(start, len(published)))
    for name in MESSAGE_SCHEMA.names:
        expected = [texts_in(message.as_row()[name]) for message in published[start:]]
        assert row_bytes(batch.column(name)).tolist() == expected, name


def texts_in(value: object) -> int:
    match value:
        case str():
            return len(value.encode())
        case bytes():
            return len(value)
        case dict():
            return sum(texts_in(content) for content in value.values())
        case list() | tuple():
            return sum(texts_in(item) for item in value)
    return 0


def test_the_place_of_a_record_keeps_what_the_source_gives() -> None:
    place = pa.StructArray.from_arrays([pa.array(["f"]), pa.array([7], pa.int64())], names=["file", "row_index"])
    batch = pa.RecordBatch.from_arrays([place], names=[SOURCE_COLUMN])
    folded, _ = Fold((), False, CAP)(batch, seq(1))
    assert folded.column("source").to_pylist() == [
        {"file": "f", "topic": None, "partition": None, "offset": None, "row_index": 7}
    ]


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("nonsense", "Expecting value"),
        ('{"exchange": 5}', "exchange: "),
        ('{"application_properties": {"n": 9223372036854775808}}', "64 bits"),
        ('{"exchange": "\\ud800"}', "lone surrogate"),
        ("[" * 100_000, ""),
    ],
)
def test_a_line_that_is_no_message_is_refused_with_its_text(text: str, detail: str) -> None:
    batch = pa.RecordBatch.from_pydict({"value": [text, '{"exchange": "x"}']})
    folded, refused = Fold((), True, CAP)(batch, seq(2))
    assert folded.column("exchange").to_pylist() == ["x"]
    assert refused is not None
    assert refused.raw.to_pylist() == [text.encode()]
    assert detail in refused.detail[0].as_py()


def test_a_line_that_is_not_utf8_or_not_there_is_refused_with_its_bytes() -> None:
    lines = [b'{"exchange": "\xff"}', None, b'{"exchange": "x"}']
    folded, refused = Fold((), True, CAP)(pa.RecordBatch.from_arrays([unchecked(lines)], names=["value"]), seq(3))
    assert folded.column("exchange").to_pylist() == ["x"]
    assert refused is not None
    assert refused.reason.to_pylist() == ["invalid_record"] * 2
    assert refused.raw.to_pylist() == lines[:2]


@pytest.mark.parametrize("member", ["string", "nested"])
def test_a_record_with_text_that_is_not_utf8_is_refused_and_no_other(member: str) -> None:
    """Spark casts binaries to strings without a look."""
    texts = [b"ok", b"\xff\xfe", None, b"\xc3\xa9", b"a\x80"]
    mapped, array = column("p", unchecked(texts), member)
    batch = pa.RecordBatch.from_arrays([array, pa.array(texts)], names=[mapped.arrow, RAW_COLUMN])
    folded, refused = Fold((mapped,), False, CAP)(batch, seq(5))
    assert [row.get("p") for row in entries(folded)] == ["ok", None, "é"] or member == "nested"
    assert folded.column("seq").to_pylist() == [0, 2, 3]
    assert refused is not None
    assert refused.reason.to_pylist() == ["invalid_record"] * 2
    assert refused.detail[0].as_py() == "message.application_properties: text that is not UTF-8"
    assert refused.raw.to_pylist() == [b"\xff\xfe", b"a\x80"]
    refused.batch.validate(full=True)


def test_a_boxed_struct_is_unboxed_and_a_null_box_is_a_null() -> None:
    header = to_batch([Message(header={"priority": 1}), Message(), Message(header={"ttl": 2})]).column("header")
    box = pa.list_(header.type)
    boxes = pa.array([None if row is None else [row] for row in header.to_pylist()], box)
    for some in (boxes, boxes.slice(1), boxes.slice(1, 1), boxes.slice(2)):
        batch = pa.RecordBatch.from_arrays([some], names=["header"])
        folded, _ = Fold((MappedColumn("header", "header", boxed=True),), False, CAP)(batch, seq(len(some)))
        assert folded.column("header").to_pylist() == [row and row[0] for row in some.to_pylist()]
