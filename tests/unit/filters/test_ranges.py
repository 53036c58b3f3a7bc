"""Ranges, negations and IS NULL lead to filters by an index of intervals: exactly, and without looking at others."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindery.router.columns import BatchView, Ref
from bindery.router.filters import FilterGroups, parse, selecting
from bindery.router.filters.access import ALWAYS, Key, Within, entries
from bindery.router.filters.sets import parse_filter_set
from bindery.router.filters.value_sets import intersection, minus, union
from bindery.router.filters.vector import Source
from bindery.router.message import Message, to_batch
from bindery.router.values import INT64_MAX, INT64_MIN, Table, Timestamp, Value
from tests.examples import examples
from tests.unit.filters.judging import judge
from tests.unit.filters.kinds import VALUES
from tests.unit.filters.test_groups import batch, pairs

#: Constants beside which integers and doubles are told apart, and some that nothing lies behind.
NUMBERS = (
    *("0", "-0.0", "5", "5.0", "0.5", "-1.5", "9007199254740992", "9007199254740993", "9007199254740992.0"),
    *("-9007199254740993", "9223372036854775807", "-9223372036854775808", "9223372036854775808.0", "1e308"),
    *("9223372036854774784.0", "-9223372036854775808.0", "4.9e-324"),
)
TEXTS = ("'a'", "'ab'", "''", "'é'", "'5'", "'\uffff'", "'😀'")
SQL_ONLY = (*TEXTS, "0x61", "0xFF", "TRUE", "FALSE", "INF", "NAN", "NULL", "-1.7976931348623157e308")
OPERATORS = ("=", "<>", "<", "<=", ">", ">=")
#: What messages hold: every kind of value, and the numbers beside the constants.
BESIDE: tuple[Value, ...] = (
    *(n + d for n in (2**53, -(2**53), 5) for d in (-2, -1, 0, 1, 2)),
    *(INT64_MAX - 1, INT64_MAX, INT64_MIN, INT64_MIN + 1, 2**63 - 1024, 2**63 - 1023, 2**63 - 1025),
    *(math.nextafter(x, y) for x in (5.0, 0.0, 2.0**63, -(2.0**63), 1e308) for y in (math.inf, -math.inf)),
    *(math.inf, -math.inf, math.nan, 1.7976931348623157e308, Timestamp(4), Timestamp(6)),
)
MESSAGES = [
    Message(application_properties=Table({"a": value}))
    for value in (*(value for kind in VALUES.values() for value in kind), *BESIDE)
] + [Message(), Message(application_properties=Table({"a": None}))]


@pytest.mark.parametrize(("dialect", "constants"), [("jms", NUMBERS), ("amqp-sql", (*NUMBERS, *SQL_ONLY))])
def test_every_bound_against_every_value(dialect: str, constants: tuple[str, ...]) -> None:
    """2^53 and its neighbours, both ends of 64 bits, infinities, NaN, -0.0, and what is no number at all."""
    group = [parse(f"a {op} {constant}", dialect) for op in OPERATORS for constant in constants]
    group += [parse(f"{constant} {op} a", dialect) for op in OPERATORS[2:] for constant in NUMBERS]
    judge([group], MESSAGES)


comparisons = st.builds("a {} {}".format, st.sampled_from(OPERATORS), st.sampled_from(NUMBERS))
mirrored = st.builds("{} {} a".format, st.sampled_from(NUMBERS), st.sampled_from(OPERATORS))
between = st.builds(
    "a {}BETWEEN {} AND {}".format, st.sampled_from(("", "NOT ")), *[st.sampled_from(NUMBERS) for _ in range(2)]
)
listed = st.builds("a {}IN ({}, {})".format, st.sampled_from(("", "NOT ")), *[st.sampled_from(TEXTS)] * 2)
simple = st.one_of(
    comparisons,
    mirrored,
    listed,
    st.builds("a {} {}".format, st.sampled_from(OPERATORS[:2]), st.sampled_from(TEXTS)),
    st.sampled_from(("a IS NULL", "a IS NOT NULL", "a", "NOT a", "a = TRUE", "a <> FALSE")),
)
in_sql = st.builds("a {} {}".format, st.sampled_from(OPERATORS), st.sampled_from(SQL_ONLY))
apart = st.sampled_from(("b > 1", "a LIKE 'a%'", "b / 0 = 1", "a + 1 > 5"))


def texts(*conditions: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Conditions joined by AND, OR and NOT, most of them over one field."""
    return st.recursive(
        st.one_of(*conditions),
        lambda inner: st.one_of(
            st.builds("({} {} {})".format, inner, st.sampled_from(("AND", "OR")), inner | apart),
            inner.map("NOT ({})".format),
        ),
        max_leaves=5,
    )


@pytest.mark.parametrize(
    ("dialect", "written"),
    [
        ("jms", texts(simple, between)),
        ("artemis", texts(simple, between)),
        ("apache-selector", texts(simple, between)),
        ("amqp-sql", texts(simple, in_sql)),
    ],
)
@given(data=st.data())
@examples(15)
def test_sets_of_values_agree_with_the_reference(
    dialect: str, written: st.SearchStrategy[str], data: st.DataObject
) -> None:
    """Several groups, so that one value stands at other places in each."""
    filters = [parse(text, dialect) for text in data.draw(st.lists(written, min_size=1, max_size=8))]
    judge([filters, filters[:1], filters[len(filters) // 2 :]], MESSAGES[data.draw(st.integers(0, 2)) :: 3])


@given(
    wanted=st.lists(
        st.sampled_from((5, 5.0, 0.0, "ab", True, None, {"timestamp": 5}, "&i:AB")), min_size=1, max_size=3
    ),
    negated=st.booleans(),
)
@examples(15)
def test_negations_of_property_filters_agree_with_the_reference(wanted: list[object], negated: bool) -> None:
    """Property filters keep integers, doubles and timestamps apart, and a negation accepts what has no value."""
    members = [{"descriptor": "amqp:application-properties-filter", "value": {"a": item}} for item in wanted]
    members = [{"descriptor": "amqp:not-filter", "value": [item]} for item in members] if negated else members
    group = [parse_filter_set({"f": {"descriptor": "amqp:all-filter", "value": members}})]
    group += [parse_filter_set({"f": {"descriptor": "amqp:sql-filter", "value": "a <> 5 AND a > 1"}})]
    judge([group], MESSAGES[::2])


cuts = st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans())
some_sets = st.lists(st.tuples(cuts, cuts).filter(lambda pair: pair[0] < pair[1]), max_size=4).map(
    lambda intervals: union([(interval,) for interval in intervals])
)


@given(one=some_sets, other=some_sets)
@examples(100)
def test_sets_are_joined_as_sets_of_places_are(one: tuple, other: tuple) -> None:  # type: ignore[type-arg]
    def places(found: tuple) -> set[tuple[int, int, bool]]:  # type: ignore[type-arg]
        every = [(family, value, after) for family in range(4) for value in range(4) for after in (False, True)]
        return {place for place in every if any(low <= place < high for low, high in found)}

    assert places(union((one, other))) == places(one) | places(other)
    assert places(intersection((one, other))) == places(one) & places(other)
    assert places(minus(one, other)) == places(one) - places(other)
    for found in (union((one, other)), intersection((one, other)), minus(one, other)):
        flat = [cut for interval in found for cut in interval]
        assert flat == sorted(set(flat)), "ascending and apart"


# -- the work, counted ------------------------------------------------------------------------------------


def counted_evaluations(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many pairs of a message and a filter each later evaluation is about."""
    asked: list[int] = []
    evaluate = selecting._evaluate
    monkeypatch.setattr(selecting, "_evaluate", lambda *given: asked.append(len(given[2])) or evaluate(*given))
    return asked


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        (lambda n: f"price > {n}", lambda n, price: price > n),
        (lambda n: f"{n} >= price", lambda n, price: price <= n),
        (lambda n: f"price BETWEEN {n} AND {n + 2}", lambda n, price: n <= price <= n + 2),
        (lambda n: f"{n} <= price AND price < {n}.5", lambda n, price: price == n),
        (lambda n: f"price <> {n}", lambda n, price: price != n),
        (lambda n: f"NOT price = {n} AND price < {n + 3}", lambda n, price: price != n and price < n + 3),
        (lambda n: f"price < {n} OR price > {n + 900}", lambda n, price: price < n or price > n + 900),
    ],
)
def test_ranges_are_answered_by_the_index_alone(
    text: Callable[[int], str], matches: Callable[[int, int], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = counted_evaluations(monkeypatch)
    groups = FilterGroups([[parse(text(n), "jms") for n in range(1_000)]])
    prices = (0, 7, 500, 999, 5_000)
    view = batch(*({"price": price} for price in prices), {"price": "7"}, {"other": 7}, {})
    wanted = [(row, n) for row, price in enumerate(prices) for n in range(1_000) if matches(n, price)]
    found = groups.select(view, *pairs(view))
    assert list(zip(found.pair.tolist(), found.member.tolist(), strict=True)) == wanted
    assert groups.candidates(view, *pairs(view)) == len(wanted)
    assert asked == []


def test_a_range_leads_and_the_rest_is_looked_at_for_its_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = counted_evaluations(monkeypatch)
    texts = [f"region LIKE '%{n % 2}' AND price BETWEEN {10 * n} AND {10 * n + 9}" for n in range(1_000)]
    groups = FilterGroups([[parse(text, "jms") for text in texts]])
    view = batch(*({"price": 50 * n, "region": "r1"} for n in range(100)), {"region": "r1"}, {"price": "5"})
    assert len(groups.select(view, *pairs(view)).pair) == 50
    assert sum(asked) == 100


def test_the_narrower_way_in_leads() -> None:
    by_range = "kind = 'order' AND price BETWEEN {} AND {}"
    view = batch({"kind": "order", "type": "T7", "price": 75})
    groups = FilterGroups([[parse(by_range.format(n * 10, n * 10 + 9), "jms") for n in range(100)]])
    assert groups.candidates(view, *pairs(view)) == 1
    groups = FilterGroups([[parse(f"price > {n % 2} AND type = 'T{n}'", "jms") for n in range(100)]])
    assert groups.candidates(view, *pairs(view)) == 1


@pytest.mark.parametrize("text", ["x{} IS NULL AND a = 1", "NOT x{} = 'a'", "x{} <> 'a'", "x{} IS NOT NULL", "x{} > 5"])
def test_filters_about_other_fields_are_not_looked_at(text: str) -> None:
    groups = FilterGroups([[parse(text.format(n), "jms") for n in range(100)]])
    view = batch(*({"x7": 9, "b": n} for n in range(20)), {}, {"x7": "b"}, {"x7": "a"})
    expected = {"x{} > 5": 20, "x{} IS NOT NULL": 22, "x{} <> 'a'": 1, "NOT x{} = 'a'": 21}
    assert groups.candidates(view, *pairs(view)) == expected.get(text, 0)


def test_messages_without_the_field_are_led_by_is_null(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody has the field, and where some have."""
    asked = counted_evaluations(monkeypatch)
    groups = FilterGroups([[parse("nowhere IS NULL", "jms"), parse("a IS NULL", "jms"), parse("a < 5", "jms")]])
    view = batch({"a": 1}, {}, {"a": None})
    found = groups.select(view, *pairs(view))
    assert list(zip(found.pair.tolist(), found.member.tolist(), strict=True)) == [
        *((0, 0), (0, 2)),
        *((1, 0), (1, 1)),
        *((2, 0), (2, 1)),
    ]
    assert asked == []


def test_the_presence_of_a_property_leads_to_filter_sets() -> None:
    """A null reference asks for the entry, with any value or with null; its negation for messages without."""
    present = [{"descriptor": "amqp:application-properties-filter", "value": {f"x{n}": None}} for n in range(100)]
    groups = FilterGroups([[parse_filter_set({"f": item}) for item in present]])
    view = batch({"x7": None}, {"x7": 1}, {}, {"b": 1})
    assert groups.candidates(view, *pairs(view)) == 2
    without = parse_filter_set({"f": {"descriptor": "amqp:not-filter", "value": [present[7]]}})
    assert FilterGroups([[without]]).select(view, *pairs(view)).pair.tolist() == [2, 3]


def test_groups_have_trees_of_their_own() -> None:
    """A group of few filters costs few steps, whatever others have."""
    many = [parse(f"price > {n}", "jms") for n in range(1_000)]
    groups = FilterGroups([many, [parse("price > 7", "jms")]])
    (index,) = groups.indexes
    look_up = index.on(Source(batch({"price": 10}).column(Ref("application_properties", "price"))))
    steps = [len(list(look_up(np.array([group], np.int32), np.zeros(1, np.int64)))) for group in (0, 1)]
    assert steps[0] <= 12 and steps[1] <= 3


def test_n_ranges_take_n_log_n_places_whatever_they_overlap() -> None:
    for text in ("price > {0}", "price BETWEEN {0} AND 4000 - {0}"):
        wide = text.replace("4000 - {0}", "{1}")
        groups = FilterGroups([[parse(wide.format(n, 4_000 - n), "jms") for n in range(1_024)]])
        (index,) = groups.indexes
        assert len(index.runs.entries) <= 1_024 * 2 * 12


def test_an_or_of_ranges_on_two_fields_is_led_where_it_asks_for_little() -> None:
    (way,) = entries(parse("a > 5 OR b = 'x' OR a < 1", "jms").expression)
    assert {type(key) for key in way.keys} == {Key, Within}
    assert way.residual == ALWAYS
    groups = FilterGroups([[parse(f"a BETWEEN {n} AND {n + 1} OR b BETWEEN {n} AND {n}", "jms") for n in range(100)]])
    view = batch({"a": 7, "b": 7}, {"a": 7, "b": 90}, {"b": 50}, {})
    found = groups.select(view, *pairs(view))
    assert list(zip(found.pair.tolist(), found.member.tolist(), strict=True)) == [
        *((0, 6), (0, 7)),
        *((1, 6), (1, 7), (1, 90)),
        (2, 50),
    ]
    assert groups.candidates(view, *pairs(view)) == 6


def test_a_set_that_does_not_decide_is_looked_at() -> None:
    """A part of an OR may narrow its field without deciding anything."""
    groups = FilterGroups([[parse("(a IS NOT NULL AND b > 1) OR a IS NULL", "jms")]])
    view = batch({"a": 1}, {"a": 1, "b": 2}, {})
    assert groups.select(view, *pairs(view)).pair.tolist() == [1, 2]


def test_a_range_that_holds_nothing_is_never_looked_at() -> None:
    groups = FilterGroups([[parse("price > 5 AND price < 3 AND x LIKE '%a'", "jms")]])
    view = BatchView(to_batch([Message(application_properties=Table({"price": 4, "x": "a"}))]))
    assert groups.candidates(view, *pairs(view)) == 0
