"""What is refused when a filter set is defined, where, and with which hint (seeds 000–002)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bindery.router.errors import FilterError
from bindery.router.filters import evaluate
from bindery.router.filters.limits import Limits
from bindery.router.filters.sets import FilterSetLimits, parse_filter_set, parse_filter_set_text
from bindery.router.filters.sets.descriptors import APACHE_DOMAIN, FILTER_TYPES
from bindery.router.message import Message
from bindery.router.values import Table

TRUE = {"descriptor": "amqp:sql-filter", "value": "TRUE"}
PROPERTIES = "amqp:properties-filter"
HEADERS = "apache.org:legacy-amqp-headers-binding:map"


def described(descriptor: Any, value: Any) -> dict[str, Any]:
    return {"f": {"descriptor": descriptor, "value": value}}


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def grouped(levels: int) -> dict[str, Any]:
    member: dict[str, Any] = TRUE
    for _ in range(levels - 1):
        member = {"descriptor": "amqp:all-filter", "value": [member]}
    return {"f": member}


@pytest.mark.parametrize(
    ("raw", "where", "hint"),
    [
        (described("amqp:property-filter", {}), "f.descriptor", "did you mean 'amqp:properties-filter'?"),
        (described("AMQP:SQL-FILTER", "TRUE"), "f.descriptor", "did you mean 'amqp:sql-filter'?"),
        (described("apache.org:selector-filter", "TRUE"), "f.descriptor", "selector-filter:string"),
        (described(0x120, "TRUE"), "f.descriptor", "amqp: filters are named by symbol"),
        (described(APACHE_DOMAIN | 8, "x"), "f.descriptor", "codes are"),
        (described(True, "x"), "f.descriptor", ""),
        ({"f": TRUE, "g": 5}, "g", ""),
        ({"f": {**TRUE, "name": "x"}}, "f", "descriptor"),
        ({"f": {"descriptor": "amqp:sql-filter"}}, "f", "descriptor"),
        (described(PROPERTIES, {"price": 5}), "f.value.price", "fields: message_id"),
        (described(PROPERTIES, {"message-id": "x"}), "f.value.message-id", "did you mean message_id?"),
        (described(PROPERTIES, {"subject": 5}), "f.value.subject", ""),
        (described(PROPERTIES, {"user_id": "guest"}), "f.value.user_id", "a binary is written"),
        (described(PROPERTIES, {"creation_time": True}), "f.value.creation_time", ""),
        (described(PROPERTIES, {"creation_time": 5.0}), "f.value.creation_time", ""),
        (described(PROPERTIES, {"subject": "&x:y"}), "f.value.subject", "modifiers: &S:"),
        (described(PROPERTIES, []), "f.value", ""),
        (described("amqp:footer-filter", {"k": [1, {"a": ["&q"]}]}), "f.value.k[1].a[0]", "modifiers"),
        (described("amqp:footer-filter", {"k": [{"ulong": 2**63}]}), "f.value.k[0]", ""),
        (described("amqp:application-properties-filter", {"k": {"ulong": 2**63}}), "f.value.k", ""),
        (described("amqp:application-properties-filter", {"k": [1]}), "f.value.k", ""),
        (described("amqp:amqp-sequence-filter", 5), "f.value", "a list is written"),
        (described(HEADERS, {"a": 1}), "f.value.x-match", ""),
        (described(HEADERS, {"x-match": "all", "a": [1]}), "f.value.a", ""),
        (described("apache.org:no-local-filter:list", ["c"]), "f.value", ""),
        (described("apache.org:not-filter:list", []), "f.value", ""),
        (described("amqp:any-filter", [TRUE, {**TRUE, "value": "a ="}]), "f.value[1].value", ""),
        ("x", "filters", ""),
        ({"f\ud800": TRUE}, "filters", ""),
    ],
)
def test_refused_with_place_and_hint(raw: Any, where: str, hint: str) -> None:
    with pytest.raises(FilterError) as refusal:
        parse_filter_set(raw)
    assert refusal.value.where == where
    assert hint in (refusal.value.hint or "")
    json.dumps(refusal.value.as_data())


def test_an_error_inside_a_selector_keeps_its_position() -> None:
    with pytest.raises(FilterError) as refusal:
        parse_filter_set(described("apache.org:selector-filter:string", "a = 1 AND b ! 2"))
    assert (refusal.value.where, refusal.value.found, refusal.value.column) == ("f.value", "!", 13)


@pytest.mark.parametrize(
    ("raw", "fits"),
    [
        (described("amqp:footer-filter", {f"k{n}": n for n in range(64)}), True),
        (described("amqp:footer-filter", {f"k{n}": n for n in range(65)}), False),
        (described("amqp:footer-filter", {"k": list(range(65))}), False),
        (described("amqp:amqp-value-filter", nested(100)), True),
        (described("amqp:amqp-value-filter", nested(101)), False),
        (described("amqp:footer-filter", {"k": nested(100)}), True),
        (described("amqp:footer-filter", {"k": nested(101)}), False),
        (grouped(100), True),
        (grouped(101), False),
        ({"f": {"descriptor": "amqp:all-filter", "value": [TRUE] * 999}}, True),
        ({"f": {"descriptor": "amqp:all-filter", "value": [TRUE] * 1000}}, False),
    ],
)
def test_caps(raw: dict[str, Any], fits: bool) -> None:
    if fits:
        assert evaluate(parse_filter_set(raw), Message()) in (True, False)
    else:
        with pytest.raises(FilterError, match=r"more than|at most|nested deeper"):
            parse_filter_set(raw)


def test_caps_are_configurable() -> None:
    limits = FilterSetLimits(entries=1, nesting=1, filters=1, text=Limits(characters=4))
    for raw in (
        described("amqp:footer-filter", {"a": 1, "b": 2}),
        described("amqp:footer-filter", {"a": [[1]]}),
        {"a": TRUE, "b": TRUE},
        described("amqp:sql-filter", "a = 1"),
    ):
        parse_filter_set(raw)
        with pytest.raises(FilterError):
            parse_filter_set(raw, limits=limits)


def test_codes_stand_for_both_names_of_a_filter() -> None:
    codes: dict[int, list[str]] = {}
    for kind in FILTER_TYPES:
        if kind.code is not None:
            codes.setdefault(kind.code - APACHE_DOMAIN, []).append(kind.symbol)
    assert sorted(codes) == list(range(8))
    assert [len(codes[n]) for n in range(8)] == [1, 1, 1, 2, 2, 1, 1, 1]
    assert APACHE_DOMAIN == 0x0000468C_00000000


@pytest.mark.parametrize("name", ["apache.org:no-local-filter:list", "apache.org:jms-no-local-filter:list"])
@pytest.mark.parametrize(
    ("owner", "connection", "accepted"),
    [("c", "c", False), ("c", "d", True), ("c", None, True), (None, "c", True), (None, None, True)],
)
def test_no_local(name: str, owner: str | None, connection: str | None, accepted: bool) -> None:
    item = parse_filter_set(described(name, []), owner=owner)
    assert evaluate(item, Message(connection=connection)) is accepted


def test_sets_of_two_owners_are_two_filters() -> None:
    raw = described("apache.org:no-local-filter:list", [])
    assert parse_filter_set(raw, owner="c") != parse_filter_set(raw, owner="d")
    # an owner that nothing asks for is no part of the set
    assert parse_filter_set({"f": TRUE}, owner="c") == parse_filter_set({"f": TRUE})


def test_a_name_given_twice_is_refused() -> None:
    with pytest.raises(FilterError, match="stands twice"):
        parse_filter_set_text('{"f": {"descriptor": "amqp:all-filter", "value": []}, "f": 1}')


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"f": NaN'])
def test_text_that_is_no_json(text: str) -> None:
    with pytest.raises(FilterError):
        parse_filter_set_text(text)


def test_the_reference_map_is_plain() -> None:
    item = parse_filter_set(described("amqp:application-properties-filter", {"timestamp": 5}))
    assert evaluate(item, Message(application_properties=Table({"timestamp": 5}))) is True
