"""Hypothesis strategies for values and messages, and odd columns, shared by the unit tests."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import strategies as st

from bindery.router.message import MAP_SECTIONS, SECTION_FIELDS, Message
from bindery.router.values import INT64_MAX, INT64_MIN, TIMESTAMP_MAX, TIMESTAMP_MIN, Table, Timestamp

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
integers = st.integers(INT64_MIN, INT64_MAX) | st.integers(-3, 3)
timestamps = st.builds(Timestamp, st.integers(TIMESTAMP_MIN, TIMESTAMP_MAX))
scalars = st.booleans() | integers | st.floats() | texts | st.binary(max_size=4) | timestamps


def _nest(inner: st.SearchStrategy) -> st.SearchStrategy:
    items = inner | st.none()
    return st.lists(items, max_size=3).map(tuple) | st.dictionaries(texts | st.just("int"), items, max_size=3).map(
        Table
    )


values = scalars | st.recursive(_nest(scalars), _nest, max_leaves=5)
tables = st.dictionaries(texts, values | st.none(), max_size=4).map(Table)

_KINDS = {bool: st.booleans(), int: st.integers(-(2**31), 2**31 - 1), str: texts, bytes: st.binary(max_size=4)}


def _section(name: str) -> st.SearchStrategy:
    fields = {
        field: values if kind is None else timestamps if kind is Timestamp else _KINDS[kind]
        for field, kind in SECTION_FIELDS[name].items()
    }
    return st.fixed_dictionaries({}, optional=fields)


messages = st.builds(
    Message,
    exchange=texts,
    routing_key=texts,
    cc=st.lists(texts, max_size=2).map(tuple),
    bcc=st.lists(texts, max_size=2).map(tuple),
    mandatory=st.booleans(),
    reject_unroutable=st.booleans(),
    connection=st.none() | texts,
    header=_section("header"),
    properties=_section("properties"),
    body=st.none() | st.binary(max_size=5),
    amqp_value=st.none() | values,
    amqp_sequence=st.none() | values,
    **dict.fromkeys(MAP_SECTIONS, tables),
)


def unchecked(texts: list[bytes | None]) -> pa.Array:
    """A string column of any bytes, as Spark and Parquet files may bring one."""
    return pa.Array.from_buffers(pa.string(), len(texts), pa.array(texts, pa.binary()).buffers())
