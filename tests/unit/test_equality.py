"""Equality by family (AMQP 0-9-1 headers exchange, AMQP filter expressions)."""

from __future__ import annotations

import math
from itertools import product

import pytest
from hypothesis import given, settings

from bindery.router.equality import family_equal, family_key
from bindery.router.values import Table, Timestamp, Value
from tests.unit.strategies import values

FIVES: list[Value] = [5, 5.0, "5", b"5", Timestamp(5), True, (5,), Table({"a": 5})]


def test_families_never_meet() -> None:
    assert [family_equal(a, b) for a, b in product(FIVES, FIVES)] == [
        at % (len(FIVES) + 1) == 0 for at in range(len(FIVES) ** 2)
    ]


@pytest.mark.parametrize(
    ("argument", "actual", "equal"),
    [
        (0.0, -0.0, True),
        (math.nan, math.nan, False),
        (True, 1, False),
        (1, True, False),
        (2**53 + 1, 2**53, False),
        ((1, None), (1, None), True),
        ((1, None), (1, 2), False),
        ((1,), (1, 2), False),
        ((math.nan,), (math.nan,), False),
        (Table({"a": None}), Table({"a": None}), True),
        (Table({"a": None}), Table({"a": 1}), False),
        (Table({"a": 1}), Table({"a": 1, "b": 2}), False),
        (Table({"a": (1, Table({"b": 2.0}))}), Table({"a": (1, Table({"b": 2}))}), False),
        (None, None, True),
    ],
)
def test_equality(argument: Value, actual: Value, equal: bool) -> None:
    assert family_equal(argument, actual) is equal
    assert (family_key(argument) == family_key(actual)) is equal


@settings(max_examples=200, deadline=None)
@given(values, values)
def test_keys_are_equal_exactly_for_equal_values(left: Value, right: Value) -> None:
    assert (family_key(left) == family_key(right)) is family_equal(left, right)
    assert family_equal(left, right) is family_equal(right, left)
    hash(family_key(left))
