"""Bodies: lenient where clients need it, refused in the broker's words elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bindery.api.bodies import (
    BindingBody,
    ExchangeBody,
    GetBody,
    PolicyBody,
    PublishBody,
    UserBody,
    parse_object,
    validate,
)
from bindery.api.errors import Refusal


def refusal(call: Any, *arguments: Any) -> Any:
    with pytest.raises(Refusal) as refused:
        call(*arguments)
    assert refused.value.status == 400
    return refused.value.reason


@pytest.mark.parametrize("raw", [b"", b"  ", b"null", b"{}", b"\xef\xbb\xbf{}"])
def test_nothing_is_an_empty_object(raw: bytes) -> None:
    assert parse_object(raw) == {}


@pytest.mark.parametrize("raw", [b'{"type": ', b"[]", b"5", b"{]", b'{"a": NaN}', b"\xff", b"[" * 100_000, b'"\\ud800'])
def test_what_is_no_object_is_refused(raw: bytes) -> None:
    assert refusal(parse_object, raw) == "not_json"


def test_text_that_is_not_unicode_is_refused() -> None:
    assert refusal(parse_object, b'{"name": "\\ud800"}') == "not_json"


def test_json_within_json_is_called_by_its_name() -> None:
    assert "doubly-JSON-encoded" in refusal(parse_object, b'"{}"')


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=40))
def test_no_bytes_but_an_object_or_a_refusal(raw: bytes) -> None:
    try:
        assert isinstance(parse_object(raw), dict)
    except Refusal as refused:
        assert refused.status == 400


def test_booleans_may_be_text() -> None:
    body = validate(ExchangeBody, {"durable": "true", "internal": False, "vhost": "ignored"})
    assert (body.durable, body.internal, body.auto_delete, body.type) == (True, False, False, "direct")
    assert refusal(validate, ExchangeBody, {"durable": "maybe"}) == ["not_boolean", "maybe"]
    assert refusal(validate, ExchangeBody, {"type": None}) == "invalid exchange type 'null'"


def test_counts_may_be_text() -> None:
    given = {"ackmode": "ack_requeue_true", "encoding": "auto"}
    assert validate(GetBody, {**given, "count": "-1"}).count == -1
    assert refusal(validate, GetBody, {**given, "count": "x"}) == ["not_integer", "x"]
    assert refusal(validate, GetBody, {**given, "count": True}) == ["not_integer", True]
    assert refusal(validate, GetBody, {**given, "count": 1, "truncate": "x"}) == ["not_integer", "x"]


def test_missing_keys_are_named_together() -> None:
    assert refusal(validate, PublishBody, {"routing_key": "", "properties": {}}) == (
        "[{key_missing,payload},{key_missing,payload_encoding}]"
    )
    assert refusal(validate, PolicyBody, {"pattern": "("}) == "[{key_missing,definition}]"


@pytest.mark.parametrize(("raw", "text"), [(None, ""), (5, "5"), (1.5, "1.5"), (True, "true"), ("k", "k")])
def test_a_routing_key_may_be_any_scalar(raw: Any, text: str) -> None:
    assert validate(BindingBody, {"routing_key": raw}).routing_key == text


def test_arguments_are_an_object_or_the_empty_array() -> None:
    assert validate(BindingBody, {"arguments": []}).arguments == {}
    assert refusal(validate, BindingBody, {"arguments": "x"}) == "arguments is not an object"
    assert refusal(validate, BindingBody, {"arguments": [1]}) == "arguments is not an object"


def test_tags_are_text_with_commas_or_an_array() -> None:
    assert validate(UserBody, {"tags": "a, b,"}).tags == ("a", "b")
    assert validate(UserBody, {"tags": ["a", "b"]}).tags == ("a", "b")
