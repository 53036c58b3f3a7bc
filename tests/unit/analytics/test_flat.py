"""Flat columns say what the stored headers say."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from bindery.analytics.flat import MAX_COLUMNS, as_text, flat_columns, flattened, kinds_in, type_of
from bindery.router.columns import Ref
from bindery.router.message import UNROUTABLE_SCHEMA, Message, from_batch, to_batch
from bindery.router.values import Table, Timestamp, Value
from tests.examples import examples

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.integers(-(2**53), 2**53).map(Timestamp),
    st.lists(st.integers(0, 9), max_size=2).map(tuple),
)
NAMES = st.sampled_from(["a", "A", "b", "carrier", "exchange", "Priority", "to", "", "x.y", 'q"', "ü", "n\0l"])
HEADERS = st.dictionaries(NAMES, VALUES, max_size=5)
MESSAGES = st.builds(
    lambda headers, identity: Message(
        application_properties=Table(headers), properties={} if identity is None else {"message_id": identity}
    ),
    HEADERS,
    st.one_of(st.none(), st.integers(0, 9), st.text(max_size=3), st.binary(max_size=3)),
)


def expected(value: Value, kind: pa.DataType) -> Any:
    """A value in a column of a type, the slow way."""
    if value is None:
        return None
    if pa.types.is_string(kind):
        return as_text(value) if not isinstance(value, tuple) else str(list(value)).replace(" ", "")
    if pa.types.is_timestamp(kind):
        assert isinstance(value, Timestamp)
        return value.ms * 1000
    return float(value) if pa.types.is_floating(kind) else value  # type: ignore[arg-type]


def values_of(array: pa.Array) -> list[Any]:
    return (array.cast(pa.int64()) if pa.types.is_timestamp(array.type) else array).to_pylist()


@given(st.lists(MESSAGES, min_size=1, max_size=6))
@examples(200)
def test_flat_columns_are_the_headers(messages: list[Message]) -> None:
    batch = to_batch(messages)
    columns = flat_columns(kinds_in(batch))
    headers = {name for one in messages for name in one.application_properties}
    assert {one.ref.name for one in columns if one.ref.section == "application_properties"} == headers
    for column, array in zip(columns, flattened(batch, columns), strict=True):
        assert array.type == column.type
        stored = [getattr(one, column.ref.section).get(column.ref.name) for one in from_batch(batch)]
        found = list(map(repr, values_of(array)))
        assert found == [repr(expected(value, column.type)) for value in stored], column


@given(st.lists(HEADERS, min_size=1, max_size=6))
@examples(100)
def test_no_two_columns_have_one_name_whatever_the_case(rows: list[dict[str, Value]]) -> None:
    columns = flat_columns(kinds_in(to_batch([Message(application_properties=Table(row)) for row in rows])))
    names = [name.lower() for name in (*UNROUTABLE_SCHEMA.names, *(one.name for one in columns))]
    assert len(set(names)) == len(names)
    assert all(names)
    assert not any("\0" in name for name in names)


def test_a_header_whose_name_is_taken_says_whose_it_is() -> None:
    seen = {Ref("application_properties", name): 1 << 6 for name in ("body", "Priority", "carrier", "CARRIER")}
    names = {one.ref.name: one.name for one in flat_columns(seen) if one.ref.section == "application_properties"}
    assert names == {
        "body": "application_properties.body",
        "Priority": "application_properties.Priority",
        "CARRIER": "CARRIER",
        "carrier": "application_properties.carrier",
    }


def test_types_widen() -> None:
    bits = {name: 1 << tag for tag, name in enumerate(("absent", "null", "bool", "int", "double", "time", "text"))}
    assert type_of(bits["int"] | bits["null"]) == pa.int64()
    assert type_of(bits["int"] | bits["double"]) == pa.float64()
    assert type_of(bits["int"] | bits["bool"]) == pa.string()
    assert type_of(bits["null"]) == pa.string()
    (column,) = flat_columns({Ref("application_properties", "x"): bits["int"] | bits["text"]})[-1:]
    assert column.widened == "application_properties.x holds integer and string: the column 'x' is string"


def test_columns_have_an_end() -> None:
    seen = {Ref("application_properties", f"h{number:06}"): 1 << 3 for number in range(MAX_COLUMNS + 5)}
    headers = [one for one in flat_columns(seen) if one.ref.section == "application_properties"]
    assert [one.name for one in headers] == [f"h{number:06}" for number in range(MAX_COLUMNS)]
