"""Typed values and their JSON form (seed 000, "Mapping AMQP types to JMS types"; conformance encoding)."""

from __future__ import annotations

import json
import math
import pickle

import pytest
from hypothesis import given

from bindery.router.errors import InvalidInput
from bindery.router.values import (
    MAX_DEPTH,
    TIMESTAMP_MAX,
    TIMESTAMP_MIN,
    Opaque,
    Table,
    Timestamp,
    decode,
    encode,
    from_nested_text,
    identity,
    member_value,
    nested_value,
    to_nested_text,
)
from tests.unit.strategies import tables, values


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ({"byte": -128}, -128),
        ({"ulong": 2**63 - 1}, 2**63 - 1),
        ({"float": 0.1}, 0.10000000149011612),
        ({"float": 1e300}, math.inf),
        ({"decimal": "1.5"}, 1.5),
        ({"symbol": "s"}, "s"),
        ({"char": "c"}, "c"),
        ({"uuid": "00000000-0000-0000-0000-0000000000ff"}, bytes(15) + b"\xff"),
        ({"binary": "00ff"}, b"\x00\xff"),
        ({"timestamp": -1}, Timestamp(-1)),
        ({"timestamp": TIMESTAMP_MAX}, Timestamp(TIMESTAMP_MAX)),
        ({"list": [1, {"symbol": "x"}]}, (1, "x")),
        ({"map": {"int": 1}}, Table({"int": 1})),
        ({"int": 1, "long": 2}, Table({"int": 1, "long": 2})),
        ({"other": 1}, Table({"other": 1})),
    ],
)
def test_amqp_types_fold_to_their_family(raw, value):
    assert identity(decode(raw)) == identity(value)
    assert type(decode(raw)) is type(value)


@pytest.mark.parametrize(
    "raw",
    [
        2**63,
        {"ulong": 2**63},
        {"byte": 128},
        {"ubyte": -1},
        {"int": True},
        {"int": 1.0},
        {"binary": "0"},
        {"uuid": "x"},
        {"char": "ab"},
        {"decimal": "one"},
        {"timestamp": 1.5},
        {"timestamp": 2**63},
        {"list": 1},
        {"map": [1]},
    ],
)
def test_a_value_that_does_not_fit_is_refused_never_clipped(raw):
    with pytest.raises(InvalidInput):
        decode(raw)


@pytest.mark.parametrize(
    ("ms", "read"),
    [
        (TIMESTAMP_MAX + 1, TIMESTAMP_MAX),
        (2**63 - 1, TIMESTAMP_MAX),
        (TIMESTAMP_MIN - 1, TIMESTAMP_MIN),
        (-(2**63), TIMESTAMP_MIN),
    ],
)
def test_a_time_that_microseconds_cannot_hold_is_the_last_one_that_they_can(ms: int, read: int) -> None:
    """AMQP 1.0 part 1, §1.6.17: 64-bit milliseconds. Senders write the largest for "never"."""
    assert decode({"timestamp": ms}) == Timestamp(read)


def test_inside_a_nested_value_an_integer_beyond_64_bits_is_kept():
    assert decode([2**63, {"ulong": 2**64 - 1}]) == (2**63, 2**64 - 1)


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", '{"list":', "5", "null", '"x"', "18446744073709551615", "[" * 100_000, "[" * 200 + "]" * 200),
        *("[" + "9" * 5_000 + "]", '[{"uuid": 5}]', '[{"binary": "zz"}]', '[{"timestamp": 99999999999999999999}]'),
    ],
    ids=lambda text: text[:20],
)
def test_nested_text_that_is_no_list_or_map_is_opaque_and_stays_as_it_is(text: str) -> None:
    value = nested_value(text)
    assert value == Opaque(text)
    assert to_nested_text(value) == text
    assert encode(value) == {"nested": text}


def test_a_member_that_64_bits_cannot_hold_is_opaque_outside_its_list() -> None:
    assert member_value(2**63) == Opaque("9223372036854775808")
    assert member_value(-(2**63) - 1) == Opaque("-9223372036854775809")
    assert [member_value(value) for value in (2**63 - 1, -(2**63), True, None, (2**64,))] == [
        *(2**63 - 1, -(2**63), True, None, (2**64,))
    ]


def test_nesting_is_capped():
    raw = 1
    for _ in range(MAX_DEPTH + 2):
        raw = [raw]
    with pytest.raises(InvalidInput, match="nested deeper"):
        decode(raw)


@given(values)
def test_encoding_round_trips(value):
    again = decode(json.loads(json.dumps(encode(value))))
    assert identity(again) == identity(value)


@given(tables)
def test_nested_text_round_trips_and_tables_compare_by_typed_identity(table):
    assert from_nested_text(to_nested_text(table)) == table
    assert hash(pickle.loads(pickle.dumps(table))) == hash(table)  # noqa: S301  # our own bytes


def test_identity_tells_families_apart_and_ignores_order():
    assert len({identity(v) for v in (1, 1.0, True, "1", b"1", Timestamp(1), (1,), None)}) == 8
    assert Table({"a": 1, "b": 2}) == Table({"b": 2, "a": 1})
    assert Table({"a": 1}) != Table({"a": 1.0})
    assert identity(0.0) == identity(-0.0)
