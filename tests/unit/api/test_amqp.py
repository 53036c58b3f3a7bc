"""Properties of AMQP 0-9-1 messages: what is published is what get gives back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bindery.api.amqp import payload_of, publish_record, read_payload, shown_payload, shown_properties
from bindery.api.errors import Refusal
from bindery.router.message import Message, from_batch, to_batch

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALARS = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | TEXT
HEADERS = st.dictionaries(TEXT.filter(lambda name: name not in ("CC", "BCC")), SCALARS | st.lists(SCALARS, max_size=3))
PROPERTIES = st.fixed_dictionaries(
    {},
    optional={
        "headers": HEADERS.filter(bool),
        "delivery_mode": st.sampled_from([1, 2]),
        "priority": st.integers(0, 255),
        "expiration": st.integers(0, 2**40).map(str),
        "timestamp": st.integers(0, 2**32),
        "message_id": TEXT,
        "correlation_id": TEXT,
        "reply_to": TEXT,
        "content_type": TEXT,
        "content_encoding": TEXT,
        "type": TEXT,
        "app_id": TEXT,
        "cluster_id": TEXT,
        "user_id": st.just("guest"),
    },
)


def record(properties: dict[str, Any], payload: bytes = b"") -> Message:
    return publish_record(exchange="x", routing_key="k", payload=payload, properties=properties, user="guest")


@settings(max_examples=150, deadline=None)
@given(PROPERTIES)
def test_get_gives_back_what_was_published(properties: dict[str, Any]) -> None:
    (stored,) = from_batch(to_batch([record(properties)]))
    assert shown_properties(stored) == (properties or [])


def test_nested_headers_come_back() -> None:
    headers = {"a": [1, {"b": True}], "f": 1.5, "t": {"k": {"l": [[]]}}, "at": {"timestamp": 5}}
    assert shown_properties(record({"headers": headers})) == {"headers": headers}


def test_sender_selected_keys_leave_the_headers_and_only_cc_comes_back() -> None:
    message = record({"headers": {"CC": ["a"], "BCC": ["b"], "n": 1}})
    assert (message.cc, message.bcc) == (("a",), ("b",))
    assert shown_properties(message) == {"headers": {"CC": ["a"], "n": 1}}


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"priority": "x"}, ["not_int", "priority"]),
        ({"content_type": 5}, ["not_string", "content_type"]),
        ({"headers": {"a": None}}, "null_not_allowed"),
        (
            {"headers": {"CC": "k"}},
            '406 PRECONDITION_FAILED - invalid message: {unacceptable_type_in_header,"CC",longstr}',
        ),
        ({"headers": 5}, ["not_table", "headers"]),
        ({"expiration": "soon"}, "406 PRECONDITION_FAILED - invalid expiration 'soon': no_integer"),
        (
            {"user_id": "ann"},
            "406 PRECONDITION_FAILED - user_id property set to 'ann' but authenticated user was 'guest'",
        ),
    ],
)
def test_wrong_types_are_refused_in_the_brokers_words(properties: dict[str, Any], reason: Any) -> None:
    with pytest.raises(Refusal) as refused:
        record(properties)
    assert (refused.value.status, refused.value.reason) == (400, reason)


def test_unknown_properties_are_ignored() -> None:
    assert shown_properties(record({"nope": 1})) == []


def test_payloads_are_text_or_base64() -> None:
    assert read_payload("hé", "string") == "hé".encode()
    assert read_payload("aP9s", "base64") == b"h\xffl"
    assert shown_payload(b"h\xffl", as_base64=False) == ("aP9s", "base64")
    assert shown_payload(b"hi", as_base64=True) == ("aGk=", "base64")
    assert shown_payload(b"hi", as_base64=False) == ("hi", "string")
    for payload, encoding, reason in [
        ("!", "base64", ["not_base64", "!"]),
        ("x", "hex", ["unsupported_encoding", "hex"]),
        (5, "string", "payload_not_string"),
    ]:
        with pytest.raises(Refusal) as refused:
            read_payload(payload, encoding)
        assert refused.value.reason == reason


def test_a_value_section_stands_in_for_a_missing_body() -> None:
    assert payload_of(Message(amqp_value="text")) == b"text"
    assert payload_of(Message(amqp_value=5)) == b""
