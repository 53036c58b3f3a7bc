"""Every reference against every value: both evaluators, led by keys and not, against the plain reading."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bindery.router.columns import BatchView
from bindery.router.filters import FilterGroups, evaluate
from bindery.router.filters.sets import parse_filter_set
from bindery.router.message import Message, to_batch
from bindery.router.values import Table, Timestamp, Value
from tests.unit.filters.sets.plain import accepts

Described = dict[str, Any]

TEXTS = [
    "",
    "a",
    "A",
    "ab",
    "Ab",
    "ba",
    "bA",
    "&a",
    "ß",
    "ẞ",
    "ßa",
    "ǅ",
    "\U0010ffff",
    "\U0010ffffa",
    "x" * 40,
    "x" * 50,
]
VALUES: list[Value] = [
    *TEXTS,
    b"",
    b"a",
    b"ab",
    0,
    5,
    5.0,
    -0.0,
    True,
    Timestamp(5),
    None,
    (),
    ("a", 5),
    Table({"a": 5}),
]
REFERENCES = [
    f"{modifier}{text}"
    for modifier in ("", "&S:", "&P:", "&s:", "&p:", "&i:", "&&")
    for text in TEXTS
    if modifier or not text.startswith("&")
]
NESTED: list[Any] = [
    [],
    ["a"],
    ["a", None],
    ["a", 5],
    ["a", 5.0],
    ["&p:A", 5],
    ["a", 5, None],
    [None, None],
    [["a"]],
    {"map": {}},
    {"map": {"a": 5}},
    {"map": {"a": None}},
    {"map": {"b": None}},
    {"map": {"a": 5, "b": None}},
    {"map": {"a": ["&S:x"]}},
    {"map": {"a": {"map": {"a": 5}}}},
    {"map": {"b": ["&&a", "x"]}},
    {"map": {"a": {"decimal": "NaN"}}},
    [{"list": [5]}],
]
NESTED_VALUES: list[Value] = [
    (),
    ("a",),
    ("a", 5),
    ("a", 5, "more"),
    ("ab", 5),
    ("a", None),
    (("a", "b"),),
    Table(),
    Table({"a": 5}),
    Table({"a": 5, "b": 1}),
    Table({"a": None}),
    Table({"b": None}),
    Table({"a": ("yx", 1)}),
    Table({"a": 2**70}),
    (2**70, (2**70,)),
    Table({"a": Table({"a": 5}), "b": ("&a", "x")}),
    "a",
    None,
]
PATTERNS = [
    "",
    "#",
    "*",
    "a",
    "a.b",
    "a.*",
    "*.b",
    "a.#",
    "#.b",
    "#.a.*",
    "a.#.b",
    "#.a.#",
    "*.a.#",
    "#.#",
    "a.*.#.b",
    "a.",
]
KEYS = [None, "", "a", "b", ".", "a.b", "b.a", "a.b.c", "c.b", "a.a.b", "x.a.y", "x.y.a.z", "b.b", "a.", "*", "#"]


def described(descriptor: str, value: Any) -> Described:
    return {"descriptor": descriptor, "value": value}


def twice_negated(member: Described) -> Described:
    """The same condition, out of reach of access predicates."""
    inner = described("apache.org:not-filter:list", [member])
    return described("apache.org:not-filter:list", [inner])


def check(members: list[Described], messages: list[Message]) -> None:
    raws = [{"f": item} for member in members for item in (member, twice_negated(member))]
    filters = [parse_filter_set(raw) for raw in raws]
    expected = {(row, n) for row, message in enumerate(messages) for n, raw in enumerate(raws) if accepts(raw, message)}
    view = BatchView(to_batch(messages))
    rows = np.arange(len(messages))
    found = FilterGroups([filters]).select(view, rows, np.zeros(len(messages), np.int32))
    vectorised = set(zip(found.pair.tolist(), found.member.tolist(), strict=True))
    scalar = {
        (row, n) for row, message in enumerate(messages) for n, item in enumerate(filters) if evaluate(item, message)
    }
    named = {(filters[n].text, messages[row].as_json().__repr__()) for row, n in (vectorised | scalar) ^ expected}
    assert not named
    assert scalar == vectorised == expected


def test_text_references() -> None:
    members = [described("amqp:message-annotations-filter", {"k": reference}) for reference in REFERENCES]
    check(members, [Message(message_annotations=Table({"k": value})) for value in VALUES] + [Message()])


def test_other_references() -> None:
    simple: list[Any] = [5, 5.0, 0, 0.0, True, False, {"binary": "61"}, {"timestamp": 5}, None]
    members = [described("amqp:application-properties-filter", {"k": value}) for value in simple]
    check(members, [Message(application_properties=Table({"k": value})) for value in VALUES] + [Message()])


def test_nested_references() -> None:
    for descriptor, section in (("amqp:footer-filter", "footer"), ("amqp:amqp-value-filter", "amqp_value")):
        whole = section == "amqp_value"
        members = [described(descriptor, reference if whole else {"k": reference}) for reference in NESTED]
        messages = [Message(**{section: value if whole else Table({"k": value})}) for value in NESTED_VALUES]
        check(members, messages)


def test_topics() -> None:
    members = [described("apache.org:legacy-amqp-topic-binding:string", pattern) for pattern in PATTERNS]
    check(members, [Message(properties={} if key is None else {"subject": key}) for key in KEYS])


@pytest.mark.parametrize("mode", ["all", "any"])
def test_headers(mode: str) -> None:
    tables: list[Any] = [
        {},
        {"a": 5},
        {"a": None},
        {"a": 5, "b": "x"},
        {"a": 5.0, "b": None},
        {"x-a": 5},
        {"x-a": 5, "a": 5},
        {"X-a": 5},
    ]
    members = [described("apache.org:legacy-amqp-headers-binding:map", {"x-match": mode, **table}) for table in tables]
    check(members, [Message(application_properties=Table(table)) for table in tables])


def test_header_fields_and_their_defaults() -> None:
    references = [
        {"priority": 4},
        {"priority": 5},
        {"durable": False},
        {"delivery_count": 0},
        {"ttl": 0},
        {"ttl": None},
    ]
    members = [described("amqp:header-filter", reference) for reference in references]
    headers: list[dict[str, Value]] = [{}, {"priority": 5}, {"durable": True, "ttl": 0}, {"delivery_count": 1}]
    check(members, [Message(header=header) for header in headers])


def test_groups() -> None:
    leaves = [described("amqp:sql-filter", text) for text in ("TRUE", "FALSE", "missing = 1", "k = 5")]
    groups = ["amqp:all-filter", "amqp:any-filter", "amqp:not-filter", "apache.org:or-filter:list"]
    pairs = [[], *([leaf] for leaf in leaves), *([one, other] for one in leaves for other in leaves)]
    check(
        [described(name, members) for name in groups for members in pairs],
        [Message(), Message(application_properties=Table({"k": 5}))],
    )
