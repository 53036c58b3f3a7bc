"""Nested values whose text is anything at all: never an exception, in no filter, and never for another message."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bindery.router.columns import BatchView
from bindery.router.filters import Filter, FilterGroups, evaluate, is_troubled, parse
from bindery.router.filters.sets import parse_filter_set
from bindery.router.message import Message, from_batch, to_batch
from bindery.router.values import Opaque, Table, nested_value
from tests.unit.filters.rules import check

BEYOND = {"list": [18446744073709551615, {"ulong": 18446744073709551615}, -9223372036854775809]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *[("a[0] IS NOT NULL", True), ("a[0] IS NULL", False), ("a[2] IS NULL", False), ("a[3] IS NULL", True)],
        # comparisons with a nested value are false
        *[("a[0] = 18446744073709551615.0", False), ("a[0] <> 1", False), ("a[0] > 1", False), ("a[2] < 1", False)],
        *[("a[0] = a[1]", False), ("a[0] = '18446744073709551615'", False), ("a[0] IN (1, 2)", False)],
        *[("NOT (a[0] > 1)", True), ("a[0] NOT IN (1)", True)],
        *[("a[0] LIKE '%'", False), ("a[0] NOT LIKE '%'", True), ("'x' LIKE a[0]", False)],
        # arithmetic and functions do not apply to it
        *[("a[0] + 1 > 0", None), ("-a[0] < 0", None), ("LOWER(a[0]) = 'x'", None)],
        ("LEFT('abc', a[0]) = 'abc'", None),
        *[("a[0]", None), ("a[0] OR TRUE", True), ("a[a[0]] IS NULL", True), ("a[0][0] IS NULL", True)],
    ],
)  # fmt: skip
def test_an_integer_beyond_64_bits_stays_json_text(text: str, expected: bool | None) -> None:
    check("amqp-sql", text, {"a": BEYOND}, expected)


TEXTS = [
    *("", "{", '{"list":', "5", "null", '"x"', "18446744073709551615", "[" * 100_000, "[" * 200 + "]" * 200),
    *("[" + "9" * 5_000 + "]", '[{"uuid": 5}]', '["\\ud800"]', "[NaN]", "[18446744073709551615]", '{"k": [1e999]}'),
    *('{"k": 18446744073709551615}', "[1]", '["x"]', '{"k": "x"}'),
]


def described(descriptor: str, value: Any) -> Filter:
    return parse_filter_set({"f": {"descriptor": descriptor, "value": value}})


def filters_on(section: str, letter: str) -> list[Filter]:
    place = "amqp_value" if letter == "v" else f"{letter}.a"
    texts = [
        *("{}[0] = 1", "{}[0] IS NULL", "{} IS NULL", "{} = 'x'", "{} LIKE '%'", "{}.k > 1", "{}[0] + 1 = 2"),
        *("{}[{}[0]] IS NULL", "UPPER({}[0]) = 'X'", "DATE({}[0]) > UTC()", "{}[0] IN (1, 'x')", "{}", "{}[0] < 'z'"),
    ]
    references: list[Any] = [[1], ["x"], ["&p:x"], [None], {"k": "x"}, {"k": {"ulong": 5}}, {}, [], "x", "&i:X", 5]
    wrap = (lambda value: value) if letter == "v" else (lambda value: {"a": value})
    return [
        *(parse(text.format(*[place] * text.count("{}")), "amqp-sql") for text in texts),
        *(described(f"amqp:{section}-filter", wrap(value)) for value in references),
    ]


@pytest.mark.parametrize(
    ("section", "letter"), [("footer", "f"), ("message-annotations", "m"), ("amqp-value", "v")], ids=lambda item: item
)
def test_filters_read_any_nested_text_and_agree_with_the_reference(section: str, letter: str) -> None:
    name = section.replace("-", "_")
    values = [*map(Opaque, TEXTS), 1, "x", None]
    batch = to_batch([Message(**{name: value if letter == "v" else Table({"a": value})}) for value in values])
    messages = from_batch(batch)
    assert [getattr(message, name) for message in messages[:3]] == [
        value if letter == "v" else Table({"a": value}) for value in map(nested_value, TEXTS[:3])
    ]
    filters = filters_on(section, letter)
    rows = np.arange(batch.num_rows)
    found = FilterGroups([filters]).select(BatchView(batch), rows, np.zeros(len(rows), np.int32))
    everything = [(row, member) for row in rows.tolist() for member in range(len(filters))]
    assert list(zip(found.pair.tolist(), found.member.tolist(), strict=True)) == [
        (row, member) for row, member in everything if evaluate(filters[member], messages[row]) is True
    ]
    assert list(zip(found.troubled_pair.tolist(), found.troubled_member.tolist(), strict=True)) == [
        (row, member) for row, member in everything if is_troubled(filters[member], messages[row])
    ]


def test_selectors_and_legacy_headers_see_no_value_in_broken_text() -> None:
    batch = to_batch([Message(application_properties=Table({"a": Opaque(text)})) for text in TEXTS])
    legacy = "apache.org:legacy-amqp-headers-binding:map"
    accepted = [parse("a IS NOT NULL", "jms"), described(legacy, {"x-match": "all", "a": None})]
    refused = [
        *(parse(f"a {text}", "jms") for text in ("= 5", "<> 5", "= 'x'", "LIKE '%'", "BETWEEN 1 AND 9", "IN ('x')")),
        parse("convert_string_expressions:a = 5", "artemis"),
        described(legacy, {"x-match": "any", "a": 5}),
        described("amqp:application-properties-filter", {"a": 5}),
    ]
    rows = np.arange(batch.num_rows)
    found = FilterGroups([[*accepted, *refused]]).select(BatchView(batch), rows, np.zeros(len(rows), np.int32))
    assert found.pair.tolist() == np.repeat(rows, 2).tolist()
    assert set(found.member.tolist()) == {0, 1}
