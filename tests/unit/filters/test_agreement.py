"""The vectorised evaluator and the scalar reference give the same result for every filter and message."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from router.columns import BatchView
from router.errors import FilterError
from router.filters import DIALECTS, Filter, FilterGroups, Selection, evaluate, is_troubled, parse
from router.filters.printer import normal_form
from router.message import Message, to_batch
from tests.unit.filters.generators import filter_texts, messages

CLOCK_MS = 1_577_836_800_000


def parsed(text: str, dialect: str) -> Filter | None:
    """The filter, or None for a text that breaks a rule."""
    try:
        return parse(text, dialect)
    except FilterError:
        return None


def filters(dialect: str) -> st.SearchStrategy[Filter]:
    return filter_texts(dialect).map(lambda text: parsed(text, dialect)).filter(bool)


any_filter = st.one_of([filters(dialect) for dialect in DIALECTS])


def expected(groups: list[list[Filter]], batch: list[Message], pairs: list[tuple[int, int]]) -> Selection:
    accepted, troubled = [], []
    for pair, (row, group) in enumerate(pairs):
        for member, item in enumerate(groups[group]):
            if evaluate(item, batch[row], clock_ms=CLOCK_MS):
                accepted.append((pair, member))
            elif is_troubled(item, batch[row], clock_ms=CLOCK_MS):
                troubled.append((pair, member))
    return Selection(*_columns(accepted), *_columns(troubled))


def _columns(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    array = np.array(pairs, np.int64).reshape(-1, 2)
    return array[:, 0], array[:, 1].astype(np.int32)


def select(compiled: FilterGroups, batch: list[Message], pairs: list[tuple[int, int]]) -> Selection:
    rows, groups = np.array(pairs, np.int64).reshape(-1, 2).T
    return compiled.select(BatchView(to_batch(batch), clock_ms=CLOCK_MS), rows, groups.astype(np.int32))


def assert_same(
    found: Selection, wanted: Selection, groups: list[list[Filter]], batch: list[Message], pairs: list
) -> None:
    for name in ("pair", "member", "troubled_pair", "troubled_member"):
        assert getattr(found, name).dtype == getattr(wanted, name).dtype
    both = (set(zip(s.pair.tolist(), s.member.tolist(), strict=True)) for s in (found, wanted))
    for pair, member in set.symmetric_difference(*both):
        pytest.fail(f"{groups[pairs[pair][1]][member]} differs for {batch[pairs[pair][0]]}")
    both = (set(zip(s.troubled_pair.tolist(), s.troubled_member.tolist(), strict=True)) for s in (found, wanted))
    for pair, member in set.symmetric_difference(*both):
        pytest.fail(f"{groups[pairs[pair][1]][member]} is troubled in one for {batch[pairs[pair][0]]}")
    for name in ("pair", "member", "troubled_pair", "troubled_member"):
        assert np.array_equal(getattr(found, name), getattr(wanted, name)), "not sorted by pair and member"


@pytest.mark.parametrize("dialect", DIALECTS)
@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
def test_one_filter_over_a_batch_agrees_with_the_reference(dialect: str, data: st.DataObject) -> None:
    group = [data.draw(filters(dialect))]
    batch = data.draw(st.lists(messages, min_size=1, max_size=6))
    pairs = [(row, 0) for row in range(len(batch))]
    assert_same(select(FilterGroups([group]), batch, pairs), expected([group], batch, pairs), [group], batch, pairs)


@given(data=st.data())
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
def test_groups_with_shared_filters_agree_with_the_reference(data: st.DataObject) -> None:
    pool = data.draw(st.lists(any_filter, min_size=1, max_size=5))
    groups = data.draw(st.lists(st.lists(st.sampled_from(pool), max_size=6), min_size=1, max_size=4))
    batch = data.draw(st.lists(messages, min_size=1, max_size=5))
    rows = st.integers(0, len(batch) - 1)
    pairs = data.draw(st.lists(st.tuples(rows, st.integers(0, len(groups) - 1)), min_size=1, max_size=8))
    compiled = FilterGroups(groups)
    wanted = expected(groups, batch, pairs)
    assert_same(select(compiled, batch, pairs), wanted, groups, batch, pairs)
    shipped = pickle.loads(pickle.dumps(compiled))  # noqa: S301  # our own bytes
    assert_same(select(shipped, batch, pairs), wanted, groups, batch, pairs)


@given(data=st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
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
    batch = data.draw(st.lists(messages, min_size=1, max_size=6))
    pairs = [(row, 0) for row in range(len(batch))]
    assert_same(select(FilterGroups([group]), batch, pairs), expected([group], batch, pairs), [group], batch, pairs)


@pytest.mark.parametrize("dialect", DIALECTS)
@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
def test_the_normal_form_parses_to_the_same_tree(dialect: str, data: st.DataObject) -> None:
    item = data.draw(filters(dialect))
    assert parse(normal_form(item.expression, dialect), dialect).expression == item.expression
