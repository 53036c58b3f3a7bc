"""Columns of a batch agree with the messages row by row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from bindery.router.columns import ABSENT, NULL, BatchView, Ref, column_of, constant_column
from bindery.router.message import (
    HEADER_DEFAULTS,
    MAP_SECTIONS,
    MESSAGE_SCHEMA,
    SECTION_FIELDS,
    VALUE,
    VALUE_MAP,
    Message,
    from_batch,
    to_batch,
)
from bindery.router.values import Table, Timestamp, identity
from tests.unit.strategies import messages, unchecked, values


def _refs(batch: list[Message]):
    for section in MAP_SECTIONS:
        for name in {name for message in batch for name in getattr(message, section)} | {"missing"}:
            yield Ref(section, name), [getattr(message, section).get(name) for message in batch]
    for section, fields in SECTION_FIELDS.items():
        for name in fields:
            default = HEADER_DEFAULTS.get(name) if section == "header" else None
            yield Ref(section, name), [getattr(message, section).get(name, default) for message in batch]
    for section in ("exchange", "connection", "body", "amqp_value", "amqp_sequence"):
        yield Ref(section), [getattr(message, section) for message in batch]


@given(st.lists(messages, min_size=1, max_size=5), st.data())
def test_columns_hold_what_the_messages_hold(batch, data):
    start = data.draw(st.integers(0, len(batch) - 1))
    view = BatchView(to_batch(batch).slice(start))
    for ref, expected in _refs(batch[start:]):
        column = view.column(ref)
        assert [identity(column.value(row)) for row in range(len(column))] == [identity(v) for v in expected], ref


def test_text_that_is_not_utf8_reads_with_replacement_characters_and_harms_no_other_row():
    texts = unchecked([b"\xff", b"ok", None, b"a\x80", "é".encode()])
    expected = ["\ufffd", "ok", None, "a\ufffd", "é"]
    batch = to_batch([Message(application_properties=Table({"k": 1})) for _ in expected])
    strings = [texts if field.name == "string" else pa.nulls(5, field.type) for field in VALUE]
    held = pa.StructArray.from_arrays(strings, fields=list(VALUE))
    keys = unchecked([text or b"" for text in texts.cast(pa.binary()).to_pylist()])
    maps = pa.MapArray.from_arrays(pa.array(range(6), pa.int32()), keys, held, type=VALUE_MAP)
    replaced = {"exchange": texts, "amqp_value": held, "application_properties": maps}
    columns = [replaced.get(name, batch.column(name)) for name in batch.schema.names]
    odd = pa.RecordBatch.from_arrays(columns, schema=batch.schema)
    for start in (0, 1):
        view = BatchView(odd.slice(start))
        for ref in (Ref("exchange"), Ref("amqp_value")):
            column = view.column(ref)
            assert [column.value(row) for row in range(view.rows)] == expected[start:]
        assert view.column(Ref("application_properties", "a\ufffd")).value(3 - start) == "a\ufffd"
        read = from_batch(odd.slice(start))
        assert [message.exchange or None for message in read] == expected[start:]
        assert read[3 - start].application_properties == Table({"a\ufffd": "a\ufffd"})


def test_an_absent_entry_and_a_null_one_have_different_tags():
    view = BatchView(to_batch([Message(), Message(application_properties=Table({"x": None}))]))
    assert view.column(Ref("application_properties", "x")).tag.tolist() == [ABSENT, NULL]


def test_of_a_repeated_key_the_last_entry_counts():
    entries = [("x", {"int": 1}), ("y", {"int": 2}), ("x", {"string": "last"})]
    row = Message().as_row() | {"application_properties": entries}
    view = BatchView(pa.RecordBatch.from_pylist([row], schema=MESSAGE_SCHEMA))
    assert view.column(Ref("application_properties", "x")).value(0) == "last"


def test_entries_under_a_null_map_belong_to_no_row():
    full = to_batch([Message(application_properties=Table({"x": n})) for n in range(3)])
    entries = full.column("application_properties")
    holed = pa.MapArray.from_arrays(entries.offsets, entries.keys, entries.items, mask=pa.array([False, True, False]))
    columns = [holed if name == "application_properties" else full.column(name) for name in full.schema.names]
    view = BatchView(pa.RecordBatch.from_arrays(columns, schema=full.schema))
    column = view.column(Ref("application_properties", "x"))
    assert [column.value(row) for row in range(3)] == [0, None, 2]


@given(st.lists(values | st.none(), min_size=1, max_size=5))
def test_columns_from_python_values(given_values):
    column = column_of(given_values)
    assert [identity(column.value(row)) for row in range(len(column))] == [identity(v) for v in given_values]
    taken = column.take(np.array([0, 0]))
    assert identity(taken.value(1)) == identity(given_values[0])


def test_a_constant_column_repeats_its_value():
    assert [constant_column(Timestamp(7), 2).value(row) for row in range(2)] == [Timestamp(7)] * 2
