"""What a consumer of the topic can take back from a record."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bindery.jobs.control.forward import HEADERS, NO_KEY, forward_of
from bindery.jobs.forwarding.records import COLUMNS, Record, records
from bindery.router.errors import InvalidInput
from bindery.router.message import MAP_SECTIONS, QUEUE_SCHEMA, SECTION_FIELDS, Message, to_batch
from bindery.router.values import Table, Timestamp, Value, nested_value
from tests.unit.strategies import messages, unchecked


def rows_of(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of a queue with these messages."""
    routing = [{"topology_version": 1, "stream": "s", "batch_id": 7, "seq": 2**40 + n} for n in range(batch.num_rows)]
    columns = {name: batch.column(name) for name in batch.schema.names}
    columns["routing"] = pa.array(routing, QUEUE_SCHEMA.field("routing").type)
    return pa.RecordBatch.from_arrays(
        [columns[name] for name in COLUMNS], schema=pa.schema([QUEUE_SCHEMA.field(name) for name in COLUMNS])
    )


def sent(*found: Message, key: str = "routing_key") -> list[Record]:
    return list(records(rows_of(to_batch(found)), key=key))


def headers_of(record: Record) -> dict[str, bytes | None]:
    found = dict(record.headers)
    assert len(found) == len(record.headers)
    return found


# -- the same rules read backwards, as docs/forward.md states them --------------------------------------------


def value_of(text: bytes | None, kind: str) -> Value:
    if text is None:
        return None
    match kind:
        case "bool":
            return {b"true": True, b"false": False}[text]
        case "int":
            return int(text)
        case "double":
            return float(text)
        case "binary":
            return text
        case "timestamp":
            return Timestamp(int(text))
        case "nested":
            return nested_value(text.decode())
    return text.decode()


def message_of(record: Record) -> Message:
    headers = headers_of(record)
    types = json.loads(headers.get("bindery.types") or b"{}")
    parts: dict[str, Any] = {section: {} for section in ("header", "properties", *MAP_SECTIONS)}
    section = (headers.get("bindery.value") or b"body").decode()
    parts[section] = record.value if section == "body" else value_of(record.value, types.get(section, "string"))
    for name, text in headers.items():
        section, _, field = name.partition(".")
        if section in MAP_SECTIONS:
            parts[section][field] = value_of(text, types.get(name, "string"))
        elif section in SECTION_FIELDS:
            fixed = SECTION_FIELDS[section][field]
            kinds = {bool: "bool", int: "int", bytes: "binary", Timestamp: "timestamp"}
            parts[section][field] = value_of(text, types.get(name, "string") if fixed is None else kinds.get(fixed, ""))
        elif name in ("amqp_value", "amqp_sequence"):
            parts[name] = value_of(text, types.get(name, "string"))
        elif name == "cc":
            parts["cc"] = tuple(json.loads(text or b"[]"))
        elif name == "mandatory":
            parts["mandatory"] = text == b"true"
        elif name in ("exchange", "routing_key", "connection"):
            parts[name] = (text or b"").decode()
    parts |= {section: Table(parts[section]) for section in MAP_SECTIONS}
    return Message(**parts)


def stored(message: Message) -> dict[str, Any]:
    """The JSON form of what a queue keeps of a message."""
    form = message.as_json()
    form.pop("bcc", None)
    form.pop("reject_unroutable", None)
    return form


@given(st.lists(messages, min_size=1, max_size=4), st.data())
def test_everything_that_a_queue_keeps_can_be_taken_back(found: list[Message], data: st.DataObject) -> None:
    assume(not any("\0" in name for one in found for section in MAP_SECTIONS for name in getattr(one, section)))
    first = data.draw(st.integers(0, len(found) - 1))
    batch = rows_of(to_batch(found)).slice(first)
    back = list(records(batch))
    assert len(back) == len(found) - first
    for record, message in zip(back, found[first:], strict=True):
        assert json.dumps(stored(message_of(record)), sort_keys=True) == json.dumps(stored(message), sort_keys=True)


def test_a_row_says_which_one_it_is() -> None:
    one, two = sent(Message(), Message())
    headers = headers_of(two)
    assert [headers[f"routing.{name}"] for name in ("stream", "batch_id", "seq")] == [b"s", b"7", b"1099511627777"]
    assert one.identity() == "row 1099511627776 of batch 7 of stream 's'"


def test_text_is_text_and_what_is_not_is_named() -> None:
    properties = Table({"s": "x", "i": 5, "d": 0.1, "b": b"\xff", "n": None, "list": (1, "a"), "t": Timestamp(1)})
    (record,) = sent(Message(application_properties=properties, properties={"message_id": 1}))
    headers = headers_of(record)
    shown = {name.partition(".")[2]: text for name, text in headers.items() if name.startswith("application_")}
    assert shown == {"s": b"x", "i": b"5", "d": b"0.1", "b": b"\xff", "n": None, "list": b'[1,"a"]', "t": b"1"}
    kinds = json.loads(headers["bindery.types"] or b"")
    assert kinds.pop("properties.message_id") == "int"
    assert {name.partition(".")[2]: kind for name, kind in kinds.items()} == {
        "i": "int",
        "d": "double",
        "b": "binary",
        "list": "nested",
        "t": "timestamp",
    }


@pytest.mark.parametrize(
    ("number", "text"),
    [(float("nan"), b"NaN"), (float("inf"), b"Infinity"), (float("-inf"), b"-Infinity"), (-0.0, b"-0.0")],
)
def test_numbers_that_are_none_are_written_as_java_does(number: float, text: bytes) -> None:
    (record,) = sent(Message(application_properties=Table({"d": number})))
    assert headers_of(record)["application_properties.d"] == text


def test_a_time_has_the_digits_that_the_table_has() -> None:
    batch = rows_of(to_batch([Message(properties={"creation_time": Timestamp(5)})]))
    place = batch.schema.get_field_index("properties")
    for at, text in ((1_234_567, b"1234.567"), (-1, b"-0.001"), (2_000, b"2")):
        row = [{"creation_time": at}]
        kind = pa.struct([("creation_time", pa.int64())])
        changed = pa.array(row, kind).field("creation_time").cast(pa.timestamp("us", "UTC"))
        fields = list(QUEUE_SCHEMA.field("properties").type)
        arrays = [changed if field.name == "creation_time" else pa.nulls(1, field.type) for field in fields]
        columns = list(batch.columns)
        columns[place] = pa.StructArray.from_arrays(arrays, fields=fields)
        (record,) = records(pa.RecordBatch.from_arrays(columns, schema=batch.schema))
        assert headers_of(record)["properties.creation_time"] == text


def test_a_record_has_the_time_at_which_its_message_was_made_unless_that_is_to_come() -> None:
    now = time.time_ns() // 1_000_000
    times = [None, 0, 1_700_000_000_000, now + 3_600_000, -5]
    found = sent(*(Message(properties={} if ms is None else {"creation_time": Timestamp(ms)}) for ms in times))
    assert [record.timestamp for record in found] == [0, 0, 1_700_000_000_000, 0, 0]
    assert datetime.fromtimestamp(found[2].timestamp / 1000, UTC).year == 2023


def test_the_body_is_the_value_and_what_stands_for_it_says_so() -> None:
    plain, text, number, both, none = sent(
        Message(body=b"\x00\x01"),
        Message(amqp_value="hello"),
        Message(amqp_sequence=(1, 2)),
        Message(body=b"b", amqp_value=5),
        Message(),
    )
    assert (plain.value, headers_of(plain).get("bindery.value")) == (b"\x00\x01", None)
    assert (text.value, headers_of(text)["bindery.value"]) == (b"hello", b"amqp_value")
    assert (number.value, headers_of(number)["bindery.value"]) == (b"[1,2]", b"amqp_sequence")
    assert (both.value, headers_of(both)["amqp_value"]) == (b"b", b"5")
    assert none.value is None


def test_the_key_is_any_header_or_none() -> None:
    message = Message(
        routing_key="k", properties={"group_id": "g", "message_id": 9}, application_properties=Table({"customer": 5})
    )
    keys = ["routing_key", NO_KEY, "properties.group_id", "properties.message_id", "application_properties.customer"]
    assert [sent(message, key=key)[0].key for key in keys] == [b"k", None, b"g", b"9", b"5"]
    assert sent(Message(), key="application_properties.customer")[0].key is None
    assert sent(Message(routing_key=""))[0].key is None


@given(messages)
def test_every_header_may_be_the_key_but_what_tells_of_others(message: Message) -> None:
    (record,) = sent(message)
    named = [name for name in headers_of(record) if not name.startswith("bindery.") and not name.endswith(".")]
    assert all(name in HEADERS or name.partition(".")[0] in MAP_SECTIONS for name in named)
    for name in named:
        assert wanted_key(name) == name
        (again,) = sent(message, key=name)
        assert again.key == (headers_of(record)[name] or None)


def wanted_key(name: str) -> str:
    target = {"queue": "q", "to": "kafka", "bootstrap_servers": "b:9092", "topic": "t", "key": name}
    return forward_of({"stream": "s", "forward": target}).forward.key


def test_a_key_that_no_record_has_is_refused() -> None:
    assert wanted_key(NO_KEY) == NO_KEY
    for name in ("routingkey", "body", "application_properties", "application_properties.", "properties.colour", ""):
        with pytest.raises(InvalidInput, match="no header of a record"):
            wanted_key(name)


def test_bytes_that_are_no_text_pass_and_names_are_repaired() -> None:
    batch = rows_of(
        to_batch([Message(routing_key="k", cc=("a",), application_properties=Table({"n": "v", "a\0b": 1}))])
    )
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns["routing_key"] = unchecked([b"\xff\xfe"])
    section = columns["application_properties"]
    columns["application_properties"] = pa.MapArray.from_arrays(
        section.offsets, unchecked([b"\xc3", b"a\0b"]), section.items
    )
    columns["cc"] = pa.ListArray.from_arrays(pa.array(np.array([0, 1], np.int32)), unchecked([b"\xff"]))
    (record,) = records(pa.RecordBatch.from_arrays(list(columns.values()), schema=batch.schema))
    headers = headers_of(record)
    assert record.key == b"\xff\xfe"
    assert headers["routing_key"] == b"\xff\xfe"
    assert headers["application_properties.\ufffd"] == b"v"
    assert headers["application_properties.a\ufffdb"] == b"1"
    assert json.loads(headers["cc"] or b"") == ["\ufffd"]
