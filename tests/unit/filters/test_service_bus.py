"""Azure Service Bus: names in any case, scopes, and correlation filters (its SQL filter syntax and topic filters)."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindery.router.columns import Ref
from bindery.router.errors import FilterError
from bindery.router.filters import FilterGroups, evaluate, parse
from bindery.router.filters.naming import name_in
from bindery.router.filters.sets import parse_filter_set
from bindery.router.message import Message
from bindery.router.values import Table
from tests.examples import examples
from tests.unit.filters.judging import judge
from tests.unit.filters.rules import check

_NAMES = st.sampled_from(["price", "Price", "PRICE", "pricE", "é", "É", "ß", "ẞ", "σ", "ς", "Σ", "ſ", "s", "S", ""])


def _same(one: str, other: str) -> bool:
    """Whether names differ in case alone, said by the engine of regular expressions."""
    return re.fullmatch(re.escape(one), other, re.IGNORECASE) is not None


@given(_NAMES, st.lists(st.dictionaries(_NAMES, st.integers(0, 2), max_size=4), min_size=1, max_size=6))
@examples(100)
def test_names_are_compared_in_any_case_and_the_last_counts(name: str, headers: list[dict[str, int]]) -> None:
    filter = parse(f"[{name}] = 1", "service-bus")
    batch = [Message(application_properties=Table(one)) for one in headers]
    for one, message in zip(headers, batch, strict=True):
        values = [value for key, value in one.items() if _same(name, key)]
        assert evaluate(filter, message) is ((values[-1] == 1) if values else None)
    judge([[filter]], batch)


def test_filters_that_name_a_property_in_two_cases_are_one() -> None:
    one, other = (parse(text, "service-bus").expression for text in ("Price > 1", "user.[PRICE] > 1"))
    assert one == other


@pytest.mark.parametrize("name", ["price", "two words", 'a"b', "a]b", "and", "é", "1st", ""])
def test_every_property_has_a_name_that_reads_back(name: str) -> None:
    written = name_in("service-bus", Ref("application_properties", name))
    assert written is not None
    check("service-bus", f"{written} = 5", {name: 5}, True)


@pytest.mark.parametrize(
    ("text", "found", "hint"),
    [
        ("price > @limit", "@", "write the value in place of the parameter"),
        ("sys.Labels = 'a'", "sys.Labels", "did you mean Label"),
        ("sys.DeliveryCount > 1", "sys.DeliveryCount", "has not been delivered yet"),
        ("order.id = 1", "order.id", "[order.id]"),
        ("a = newid()", "newid", "compare a property"),
        ("a = p(b)", "p(b)", "property('name')"),
        ("a = q('b')", "q('b')", "property(name)"),
        ("[a = 1", "[", "not closed"),
        ("_a = 1", "_", "in brackets"),
    ],
)
def test_what_is_refused_says_where_and_what_to_do(text: str, found: str, hint: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse(text, "service-bus")
    error = caught.value
    assert text[error.offset : error.offset + error.length] == found
    assert hint in str(error.hint)


_WHOLE = {
    "correlationId": "c",
    "messageId": "m",
    "to": "t",
    "replyTo": "r",
    "label": "l",
    "sessionId": "g",
    "replyToSessionId": "h",
    "contentType": "text/plain",
    "properties": {"Region": "eu", "count": 5},
}
_MESSAGE = Message(
    properties={
        "correlation_id": "c",
        "message_id": "m",
        "to": "t",
        "reply_to": "r",
        "subject": "l",
        "group_id": "g",
        "reply_to_group_id": "h",
        "content_type": "text/plain",
    },
    application_properties=Table({"region": "eu", "COUNT": 5}),
)


def _correlation(value: Any) -> Any:
    return parse_filter_set({"f": {"descriptor": "com.microsoft:correlation-filter", "value": value}})


def test_a_correlation_filter_asks_for_all_and_with_the_case_of_values() -> None:
    filters = [_correlation(_WHOLE), _correlation({"subject": "l"}), _correlation({"label": "L"})]
    filters += [_correlation({**_WHOLE, key: "other"}) for key in _WHOLE if key != "properties"]
    filters += [_correlation({**_WHOLE, "properties": {"region": "EU"}}), _correlation({"properties": {"none": 1}})]
    assert [evaluate(one, _MESSAGE) is True for one in filters] == [True, True] + [False] * (len(filters) - 2)
    judge([filters], [_MESSAGE, Message()])
    assert FilterGroups([filters])


@pytest.mark.parametrize(
    ("value", "where", "message"),
    [
        ({}, "f.value", "asks for nothing"),
        ("label = 'a'", "f.value", "expected an object"),
        ({"lable": "a"}, "f.value.lable", "unknown key"),
        ({"label": 5}, "f.value.label", "expected a string"),
        ({"properties": {"a": None}}, "f.value.properties.a", "one simple value"),
        ({"properties": {"a": [1]}}, "f.value.properties.a", "one simple value"),
    ],
)
def test_a_correlation_filter_refuses_what_it_does_not_know(value: Any, where: str, message: str) -> None:
    with pytest.raises(FilterError, match=message) as caught:
        _correlation(value)
    assert caught.value.where == where
