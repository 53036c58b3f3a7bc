"""What a drain reads off the wire and makes of it, and where it is told to find its broker."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from bindery.api.amqp import publish_record, shown_properties
from bindery.jobs.draining.address import read_address
from bindery.jobs.draining.appending import Appender, Arrival
from bindery.jobs.draining.mapping import Delivery, Refused, identity, record_of
from bindery.jobs.draining.options import DrainOptions, read_start
from bindery.jobs.draining.wire import find_integer, read_properties
from bindery.router.errors import InvalidInput, InvalidRecord
from bindery.router.message import Message, from_batch, to_batch
from bindery.router.model import Queue
from bindery.router.values import Table, Timestamp
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from tests import amqp
from tests.amqp import Field, encoded
from tests.examples import examples


def delivered(properties: bytes, *, body: bytes = b"", redelivered: bool = False, **names: Any) -> Delivery:
    return Delivery(names.get("exchange", "x"), names.get("routing_key", "k"), redelivered, properties, body)


def message(properties: bytes, **delivery: Any) -> Message:
    found = record_of(delivered(properties, **delivery))
    assert isinstance(found, Message), found
    return found


def test_a_refused_message_keeps_the_topology_version_at_which_it_was_refused(tmp_path: Path) -> None:
    data = DataDir.open(tmp_path, create=True)
    options = DrainOptions(queue="q", name="d", start="first")
    arrivals = [
        Arrival(record_of(delivered(encoded({"delivery_mode": 3}), body=b"%d" % offset)), offset=offset)
        for offset in range(3)
    ]

    def versions() -> dict[bytes, int | None]:
        rows = DeltaTable(data.unroutable("/")).to_pyarrow_table().to_pylist()
        return {row["body"]: row["routing"]["topology_version"] for row in rows}

    Appender(data, options, "q", is_stream=True).append(arrivals[:1])
    store = TopologyStore(data)
    store.create()
    first = store.edit(lambda editor: editor.declare_queue(Queue("/", "a")), author="t").version
    drain = Appender(data, options, "q", is_stream=True)
    drain.append(arrivals[:2])
    second = store.edit(lambda editor: editor.declare_queue(Queue("/", "b")), author="t").version
    # what was committed before is given again, to this drain and to one that was started anew
    drain.append(arrivals[:2])
    Appender(data, options, "q", is_stream=True).append(arrivals)
    assert versions() == {b"0": None, b"1": first, b"2": second}


@given(amqp.properties, amqp.headers)
@examples(200)
def test_every_property_and_field_is_read(properties: dict[str, Any], headers: dict[str, Field]) -> None:
    found = read_properties(encoded(properties, headers))
    expected: dict[str, Any] = dict(properties)
    if "timestamp" in expected:
        expected["timestamp"] = Timestamp(expected["timestamp"] * 1000)
    assert found == {**expected, "headers": Table({name: field.value for name, field in headers.items()})}


@given(amqp.properties, amqp.headers)
@examples(100)
def test_a_record_survives_its_table_and_shows_what_was_sent(
    properties: dict[str, Any], headers: dict[str, Field]
) -> None:
    record = message(encoded(properties, headers), body=b"\xff\x00")
    assert from_batch(to_batch([record])) == [record]
    shown = shown_properties(record)
    assert isinstance(shown, dict) or not (properties or headers)
    expected = {name: value.decode() if isinstance(value, bytes) else value for name, value in properties.items()}
    assert {name: value for name, value in dict(shown or {}).items() if name != "headers"} == expected
    assert record.application_properties == Table({name: field.value for name, field in headers.items()})


def test_a_message_is_the_record_that_publishing_it_makes() -> None:
    sent = {
        "content_type": "text/plain", "content_encoding": "gzip", "delivery_mode": 2, "priority": 7,
        "correlation_id": "c", "reply_to": "r", "expiration": "60000", "message_id": "m", "timestamp": 1_700_000_000,
        "type": "t", "user_id": "ann", "app_id": "a", "cluster_id": "z",
    }  # fmt: skip
    published = publish_record(
        exchange="x",
        routing_key="k",
        payload=b"body",
        properties={**sent, "headers": {"n": 1, "CC": ["c1", "c2"]}},
        user="ann",
    )
    keys = Field(amqp.long_string(amqp.long_string(b"c1") + amqp.long_string(b"c2"), b"A"), ("c1", "c2"))
    wire = {name: value.encode() if isinstance(value, str) else value for name, value in sent.items()}
    record = message(encoded(wire, {"n": Field(b"b\x01", 1), "CC": keys}), body=b"body")
    assert {**record.as_json(), "mandatory": True} == published.as_json()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (b"U\xff\xff", -1),
        (b"L" + b"\xff" * 8, -1),
        (b"f" + struct.pack(">f", float("inf")), float("inf")),
        (b"D\x01" + struct.pack(">i", -15), -1.5),
        (b"S\x00\x00\x00\x01\xff", b"\xff"),
        (b"x\x00\x00\x00\x01a", b"a"),
        (b"t\x02", True),
    ],
)
def test_fields_that_few_send(field: bytes, value: object) -> None:
    (found,) = read_properties(encoded({}, {"n": Field(field, None)}))["headers"].values()  # type: ignore[union-attr]
    assert (found, type(found)) == (value, type(value))


def nested(levels: int) -> bytes:
    field = b"V"
    for _ in range(levels):
        field = amqp.long_string(field, b"A")
    return field


@pytest.mark.parametrize(
    ("properties", "detail"),
    [
        (encoded({"timestamp": 2**63}), "timestamp: time 9223372036854775808 (seconds) is later than any"),
        (encoded({}, {"t": Field(b"T" + b"\xff" * 8, None)}), "headers.t: time 18446744073709551615"),
        (encoded({}, {"t": Field(nested(101), None)}), "nested deeper than 100 levels"),
        (encoded({"content_type": b"\xff"}), "content_type: is not UTF-8"),
        (encoded({"reply_to": b"\xff"}), "reply_to: is not UTF-8"),
        (encoded({"expiration": b"soon"}), "expiration: 'soon' is no number of milliseconds"),
        (encoded({"expiration": b"007"}), "expiration: '007' is no number of milliseconds"),
        (encoded({"expiration": b"9" * 30}), "is no number of milliseconds"),
        (encoded({"delivery_mode": 3}), "delivery_mode: 3 is neither 1 nor 2"),
        (encoded({}, {"CC": Field(amqp.long_string(b"k"), None)}), "headers.CC: is no array of routing keys"),
        (encoded({}, {"BCC": Field(amqp.long_string(b"V", b"A"), None)}), "headers.BCC: is no array of routing keys"),
        (encoded({}, {"n": Field(b"Z", None)}), "headers.n: field type b'Z' is unknown"),
        (encoded({}, {"n": Field(b"I\x00", None)}), "headers.n: ends too early"),
        (b"\x20\x00" + b"\x00\x00\x00\x02\x01\xff", "headers: is not UTF-8"),
        (b"\x20\x00" + b"\x00\x00\x00\x06\x01aV\x01aV", "headers: field 'a' is there twice"),
        (b"\x00\x01\x00\x00", "properties: property flags go on in a second word"),
        (b"\x80", "properties: ends too early"),
    ],
)
def test_what_no_record_can_hold_is_refused_with_its_bytes(properties: bytes, detail: str) -> None:
    found = record_of(delivered(properties, body=b"body"))
    assert isinstance(found, Refused)
    assert detail in found.detail
    assert found.delivery.raw == b"\x01x\x01k" + properties


@pytest.mark.parametrize("names", [{"exchange": b"\xff"}, {"routing_key": b"\xff"}])
def test_names_that_are_no_text_are_refused(names: dict[str, bytes]) -> None:
    found = record_of(delivered(encoded({}), **names))
    assert isinstance(found, Refused)
    assert found.detail.endswith(": is not UTF-8")
    assert b"\x01\xff" in found.delivery.raw


def test_ids_and_annotations_may_be_bytes() -> None:
    record = message(encoded(dict.fromkeys(("message_id", "correlation_id", "type", "app_id", "user_id"), b"\xff")))
    assert record.properties == {"message_id": b"\xff", "correlation_id": b"\xff", "user_id": b"\xff"}
    assert record.message_annotations == Table({"x-opt-jms-type": b"\xff", "x-basic-app-id": b"\xff"})


def test_what_the_broker_says_of_a_delivery_is_kept() -> None:
    offset = Field(b"l" + struct.pack(">q", 7), 7)
    record = message(encoded({}, {"x-stream-offset": offset, "a": Field(b"t\x01", True)}), redelivered=True)
    assert record.header == {"first_acquirer": False, "delivery_count": 1}
    assert record.message_annotations == Table({"x-stream-offset": 7})
    assert record.application_properties == Table({"a": True})
    counted = message(encoded({}, {"x-delivery-count": Field(b"l" + struct.pack(">q", 3), 3)}), redelivered=True)
    assert counted.header == {"first_acquirer": False, "delivery_count": 3}
    assert record_of(delivered(encoded({}), exchange="x"), "y") == message(encoded({}), exchange="y")


def test_two_deliveries_of_one_message_have_one_identity() -> None:
    sent = {"message_id": b"m", "content_type": b"t"}
    counted = {"x-delivery-count": Field(b"l" + struct.pack(">q", 1), 1)}
    first = identity(message(encoded(sent), body=b"1"))
    assert first == identity(message(encoded(sent, counted), body=b"1", redelivered=True))
    assert first == identity(from_batch(to_batch([message(encoded(sent), body=b"1")]))[0])
    assert first not in (None, identity(message(encoded(sent), body=b"2")))
    assert identity(message(encoded({"content_type": b"t"}))) is None


@given(amqp.properties, st.dictionaries(amqp.names, amqp.fields, max_size=3), st.integers(0, 2**63 - 1))
@examples(100)
def test_an_offset_is_found_whatever_stands_beside_it(
    properties: dict[str, Any], headers: dict[str, Field], offset: int
) -> None:
    field = {"x-stream-offset": Field(b"l" + struct.pack(">q", offset), offset)}
    unreadable = {"late": Field(b"T" + b"\xff" * 8, None)}
    assert find_integer(encoded(properties, {**headers, **unreadable, **field}), "x-stream-offset") == offset
    assert find_integer(encoded(properties, headers), "x-stream-offset") is None
    assert find_integer(encoded(properties), "x-stream-offset") is None


@given(st.binary(max_size=60))
@examples(300)
def test_any_bytes_are_read_or_refused(properties: bytes) -> None:
    find_integer(properties, "x-stream-offset")
    try:
        read_properties(properties)
    except InvalidRecord:
        assert isinstance(record_of(delivered(properties)), Refused)


# -- addresses and options --------------------------------------------------------------------------------


def test_an_address_takes_its_secrets_by_reference(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("from file\n")
    monkeypatch.setenv("BROKER", "amqps://ann:p%40ss@broker:99/a%2Fb")
    monkeypatch.setenv("WORD", "from env")
    whole = read_address("env:BROKER")
    assert (whole.host, whole.port, whole.vhost, whole.user, whole.password, whole.tls) == (
        *("broker", 99, "a/b", "ann", "p@ss", True),
    )
    assert "p@ss" not in repr(whole) + str(whole)
    assert read_address("amqp://ann@h", "env:WORD").password == "from env"
    assert read_address("amqp://ann@h", f"file:{tmp_path / 'secret'}").password == "from file"
    plain = read_address("amqp://h/")
    assert (plain.port, plain.vhost, plain.user, plain.password) == (5672, "/", "guest", "guest")
    assert read_address("amqps://[::1]/v").port == 5671


@pytest.mark.parametrize(
    ("url", "password", "message"),
    [
        ("amqp://ann:hidden@h", None, "holds a password"),
        ("amqp://ann@h", None, "there is no password"),
        ("amqp://ann@h", "hidden", "is no reference"),
        ("amqp://ann@h", "env:NOT_THERE", "the environment has no NOT_THERE"),
        ("amqp://ann@h", "file:/not/there", "cannot read /not/there"),
        ("env:NOT_THERE", None, "the environment has no NOT_THERE"),
        ("env:HIDDEN", None, "is no AMQP URI"),
        ("http://h", None, "is no AMQP URI"),
        ("amqp://h:port", None, "host or port cannot be read"),
        ("amqp://[h", None, "host or port cannot be read"),
        ("amqp://h/v?heartbeat=5", None, "takes no parameters"),
        ("amqp://h/a/b", None, "a slash that is not %2F"),
    ],
)
def test_bad_addresses_are_refused_without_their_secrets(
    url: str, password: str | None, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIDDEN", "hidden")
    with pytest.raises(InvalidInput, match=message) as caught:
        read_address(url, password)
    assert "hidden" not in f"{caught.value}{caught.value.where}{caught.value.hint}".replace("HIDDEN", "")


def test_places_in_a_stream() -> None:
    assert [read_start(text) for text in ("first", "last", "next", "0", "12")] == ["first", "last", "next", 0, 12]
    assert read_start("2026-01-31") == datetime(2026, 1, 31, tzinfo=UTC)
    for bad in ("-1", "soon", "9" * 19, "9" * 40):
        with pytest.raises(InvalidInput, match="no place in a stream"):
            read_start(bad)


def test_names_of_drains() -> None:
    assert DrainOptions("a/b", "a.b-c_1").full == 10_000
    assert DrainOptions("q", "q", prefetch=5).full == 5
    with pytest.raises(InvalidInput, match="no name of a drain"):
        DrainOptions("a/b", "a/b")
