"""The canonical message record: JSON form, Arrow form, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindery.router.errors import InvalidRecord
from bindery.router.message import SENT_SCHEMA, Message, from_batch, to_batch
from bindery.router.values import TIMESTAMP_MAX, TIMESTAMP_MIN, Timestamp, identity
from tests.unit.strategies import messages


def _same(left: Message, right: Message) -> bool:
    """Equal up to the order of fields and what a record cannot tell apart (an absent section, an empty one)."""

    def shape(message: Message) -> dict:
        return {key: repr(sorted(v.items()) if isinstance(v, dict) else v) for key, v in message.as_json().items()}

    return shape(left) == shape(right)


@given(messages)
def test_json_round_trips(message):
    assert _same(Message.from_json(message.as_json()), message)


@given(st.lists(messages, max_size=4))
def test_arrow_round_trips(batch):
    arrow = to_batch(batch)
    assert arrow.schema.equals(SENT_SCHEMA)
    arrow.validate(full=True)
    for back, sent in zip(from_batch(arrow), batch, strict=True):
        assert _same(back, sent)


@pytest.mark.parametrize(
    ("raw", "where"),
    [
        ({"routingkey": "x"}, "routingkey"),
        ({"routing_key": 5}, "routing_key"),
        ({"cc": "x"}, "cc"),
        ({"cc": [1]}, "cc[0]"),
        ({"mandatory": 1}, "mandatory"),
        ({"reject_unroutable": "yes"}, "reject_unroutable"),
        ({"header": {"priority": "4"}}, "header.priority"),
        ({"header": {"priority": 2**31}}, "header.priority"),
        ({"header": {"colour": 1}}, "header.colour"),
        ({"properties": {"to": 1}}, "properties.to"),
        ({"properties": {"creation_time": "now"}}, "properties.creation_time"),
        ({"application_properties": {"n": {"ulong": 2**64 - 1}}}, "application_properties.n"),
        ({"properties": {"creation_time": 2**63}}, "properties.creation_time"),
        ({"application_properties": {"s": "\ud800"}}, "message.application_properties.s"),
        ({"body": 5}, "body"),
        ([], "message"),
    ],
)
def test_a_record_that_does_not_fit_is_refused_naming_the_place(raw, where):
    with pytest.raises(InvalidRecord) as caught:
        Message.from_json(raw)
    assert caught.value.where == where


def test_an_unknown_key_is_told_with_the_one_that_was_meant() -> None:
    with pytest.raises(InvalidRecord) as caught:
        Message.from_json({"routingkey": "x"})
    assert caught.value.hint == "did you mean 'routing_key'?"
    with pytest.raises(InvalidRecord) as caught:
        Message.from_json({"zzz": "x"})
    assert str(caught.value.hint).startswith("known keys: exchange, routing_key")


def test_an_entry_with_a_null_value_is_present():
    message = Message.from_json({"application_properties": {"x": None}})
    (back,) = from_batch(to_batch([message]))
    assert list(back.application_properties.items()) == [("x", None)]
    assert identity(back.application_properties) == '{"x":null}'


def test_a_time_that_means_never_is_kept_as_the_last_one() -> None:
    never = {"absolute_expiry_time": 2**63 - 1, "creation_time": {"timestamp": -(2**63)}}
    message = Message.from_json({"properties": never})
    assert message.properties == {
        "absolute_expiry_time": Timestamp(TIMESTAMP_MAX),
        "creation_time": Timestamp(TIMESTAMP_MIN),
    }
    assert from_batch(to_batch([message])) == [message]
