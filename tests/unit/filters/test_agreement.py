"""The vectorised evaluator, the scalar reference and the plain reading agree on every filter and message."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bindery.router.filters import Filter, FilterGroups, parse
from bindery.router.filters.access import access_of, entries
from bindery.router.filters.ast import Element, Or, walk
from bindery.router.filters.sets import parse_filter_set
from bindery.router.message import Message, to_batch
from tests.examples import GENERATED, examples, missing_after
from tests.unit.filters import plain
from tests.unit.filters.generators import LANGUAGES, SETS_ON_ONE_FIELD, batches, filters_in_modes, groups, lists
from tests.unit.filters.judging import assert_same, expected, judge, select
from tests.unit.filters.kinds import INSIDE, VALUES, key_kind, kind_of
from tests.unit.filters.rules import WORDED


@pytest.mark.parametrize("dialect", WORDED)
@given(data=st.data())
@examples(40)
def test_one_filter_over_a_batch_agrees_with_the_reference(dialect: str, data: st.DataObject) -> None:
    judge([[data.draw(filters_in_modes(dialect))]], data.draw(batches(1, 12)))


@given(some=groups(), batch=batches(1, 5), data=st.data())
@examples(80)
def test_groups_with_shared_filters_agree_with_the_reference(
    some: list[list[Filter]], batch: list[Message], data: st.DataObject
) -> None:
    pairs = st.tuples(st.integers(0, len(batch) - 1), st.integers(0, len(some) - 1))
    judge(some, batch, data.draw(st.lists(pairs, min_size=1, max_size=8)))


@given(raws=lists(SETS_ON_ONE_FIELD, min_size=1, max_size=6), batch=batches(8, 12))
@examples(100)
def test_filters_with_several_keys_on_one_field_agree_with_the_reference(
    raws: list[dict[str, Any]], batch: list[Message]
) -> None:
    """Each alone: what many filters compile to depends on all of them."""
    for raw in raws:
        judge([[parse_filter_set(raw)]], batch)


@given(some=groups(), distinct=batches(1, 4), copies=st.sampled_from((9, 40)))
@examples(30)
def test_a_long_batch_agrees_with_the_reference(some: list[list[Filter]], distinct: list[Message], copies: int) -> None:
    """Rows that ask apart, that ask all at once, and that are decided before others: only long batches have them."""
    batch = distinct * copies
    pairs = [(row, group) for row in range(len(batch)) for group in range(len(some)) if (row + group) % 3]
    wanted = expected(some, batch, pairs)
    assert_same(select(FilterGroups(some), to_batch(batch), pairs), wanted, some, batch, pairs)


@given(data=st.data())
@examples(40)
def test_filters_of_one_shape_agree_with_the_reference(data: st.DataObject) -> None:
    """Equal but for constants: they share one evaluation, with access by `a = …`."""
    values = st.sampled_from(("'a'", "'5'", "5", "5.0", "TRUE", "0", "-1.5"))
    shapes = st.sampled_from(
        (
            "a = {} AND b > 1",
            "a = {} OR b = {}",
            "a = {} AND s LIKE 'a%'",
            "NOT a = {}",
            "a = {}",
            "a = {} AND b / 0 = 1",
        )
    )
    group = []
    for shape in data.draw(st.lists(shapes, min_size=1, max_size=3)):
        for _ in range(3):
            group.append(parse(shape.format(*data.draw(st.lists(values, min_size=2, max_size=2))), "jms"))
    judge([group], data.draw(batches(1, 12)))


# -- what the generators reach ----------------------------------------------------------------------------


def test_the_generators_bring_every_kind_of_value_under_every_kind_of_reference() -> None:
    met: Counter[tuple[str, str]] = Counter()

    texts = LANGUAGES["amqp-sql"].properties
    references = [next(walk(parse(f"{text} IS NULL", "amqp-sql").expression.operand)) for text in texts]

    @settings(GENERATED, max_examples=600)
    @given(batch=batches(10, 10))
    def count(batch: list[Message]) -> None:
        for message, node in itertools.product(batch, references):
            kind = kind_of(plain.evaluate(node, message))
            if kind is not None:
                met["element" if isinstance(node, Element) else node.ref.section, kind] += 1

    maps = ("application_properties", "message_annotations", "delivery_annotations", "footer")
    wanted = {(section, kind) for section in (*maps, "amqp_value") for kind in VALUES}
    wanted |= {("amqp_sequence", kind) for kind in ("list", "beyond 64 bits inside", "null inside")}
    wanted |= {("element", kind) for kind in (*VALUES, *INSIDE) if kind != "deep"}
    assert not missing_after(count, lambda: sorted(wanted - met.keys()))


def test_the_generators_bring_any_two_kinds_of_keys_on_one_field() -> None:
    """As far as a filter of any origin has such: an OR whose parts have keys of both kinds on one field."""
    met: Counter[frozenset[str]] = Counter()

    @settings(GENERATED, max_examples=300)
    @given(raws=lists(SETS_ON_ONE_FIELD, min_size=6, max_size=6))
    def count(raws: list[dict[str, Any]]) -> None:
        for entry in (entry for raw in raws for entry in entries(parse_filter_set(raw).expression)):
            for one in entry.keys:
                met.update(frozenset({key_kind(one), key_kind(two)}) for two in entry.keys if two.ref == one.ref)

    by_number = [f"field by number {kind}" for kind in ("int", "str", "bytes", "bool", "float")]
    strict = [f"field strict {kind}" for kind in ("int", "str", "bytes", "bool", "float", "Timestamp", "float zero")]
    wanted = {frozenset({one, two}) for one in by_number for two in strict}
    wanted |= {frozenset({"field strict float zero", "field strict -float zero"})}
    assert not missing_after(count, lambda: sorted(map(sorted, wanted - met.keys())))


def test_the_generators_bring_ways_in_of_every_kind() -> None:
    met: Counter[str] = Counter()

    @settings(GENERATED, max_examples=250)
    @given(some=groups(), raws=lists(SETS_ON_ONE_FIELD, min_size=4, max_size=4))
    def count(some: list[list[Filter]], raws: list[dict[str, Any]]) -> None:
        for item in {*map(parse_filter_set, raws), *(item for group in some for item in group)}:
            ways = list(entries(item.expression))
            met[f"{min(len(ways), 2)} ways in"] += 1
            met["an OR without a way in"] += not ways and any(isinstance(node, Or) for node in walk(item.expression))
            met.update(type(node).__name__ for node in walk(item.expression) if access_of(node) is not None)
            met.update(key_kind(key).split(" strict")[0] for way in ways for key in way.keys if key.strict)
        met["a filter alone"] += sum(map(len, some)) == 1
        met["several groups"] += len(some) > 1
        met["a filter twice in a group"] += any(len(set(group)) < len(group) for group in some)

    wanted = {"0 ways in", "1 ways in", "2 ways in", "an OR without a way in", "a filter alone", "several groups"}
    wanted |= {"a filter twice in a group", "Compare", "In", "Truth", "Not", "Or", "And", "Like", "Accepts"}
    wanted |= {"Equals", "StartsWith", "NestedMatches", "TopicMatches", "text form", "text head", "nested member"}
    wanted |= {"topic word", "text head of a form", "field"}
    assert not missing_after(count, lambda: {name for name in wanted if not met[name]})
