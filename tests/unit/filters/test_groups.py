"""The work of FilterGroups depends on the filters that a message may satisfy, not on how many there are."""

from __future__ import annotations

import numpy as np
import pytest

from bindery.router.columns import BatchView
from bindery.router.filters import Filter, FilterGroups, Limits, parse, scalar
from bindery.router.filters.access import ALWAYS, entries
from bindery.router.filters.sets import parse_filter_set
from bindery.router.message import Message, to_batch
from bindery.router.values import Table


def batch(*properties: dict[str, object]) -> BatchView:
    return BatchView(to_batch(Message(application_properties=Table(item)) for item in properties))


def pairs(view: BatchView, groups: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Every row with every group."""
    rows = np.repeat(np.arange(view.rows), groups)
    return rows, np.tile(np.arange(groups, dtype=np.int32), view.rows)


@pytest.mark.parametrize(
    "shape",
    [
        "type = 'T{}' AND price > {}",
        "price > 5 AND 'T{}' = type",
        "type IN ('T{}', 'X{}') AND price > 1",
        "(type = 'T{}' OR code = {}) AND price > 1",
        "price > 1 AND (type = 'T{}' AND price <> {})",
        "price > 1 AND type LIKE 'T{}x%'",
        "type LIKE 'T{}x_y'",
        "price > 1 AND (type = 'T{}' AND price < 9 OR type = 'Y{}')",
    ],
)
def test_only_filters_whose_key_a_message_holds_are_looked_at(shape: str) -> None:
    groups = FilterGroups([[parse(shape.format(n, n), "jms") for n in range(1_000)]])
    ending = "xzy" if "LIKE" in shape else ""
    view = batch(*({"type": f"T{n}{ending}", "price": 7} for n in range(50)), {"type": "other"}, {})
    assert groups.candidates(view, *pairs(view)) == 50


def test_groups_do_not_see_the_filters_of_others() -> None:
    groups = FilterGroups([[parse(f"type = 'T' AND price * 1 > {n}", "jms")] for n in range(1_000)])
    view = batch({"type": "T", "price": 10})
    rows, numbers = np.zeros(3, np.int64), np.array([5, 5, 999], np.int32)
    assert groups.candidates(view, rows, numbers) == 3
    found = groups.select(view, rows, numbers)
    assert found.pair.tolist() == [0, 1]


def test_equal_filters_of_a_group_are_evaluated_once() -> None:
    texts = [("price * 1 > 5", "jms"), ("price*1>5", "jms"), ("price * 1 > 5", "artemis")]
    groups = FilterGroups([[parse(*text) for text in texts] * 100])
    view = batch({"price": 6}, {"price": 5})
    assert groups.candidates(view, *pairs(view)) == 2
    found = groups.select(view, *pairs(view))
    assert found.pair.tolist() == [0] * 300
    assert found.member.tolist() == list(range(300))


def test_a_key_that_decides_leaves_nothing_to_check() -> None:
    (entry,) = entries(parse("type = 'a'", "jms").expression)
    assert [key.value.value for key in entry.keys] == ["a"]
    (entry,) = entries(parse("type <> 'a'", "jms").expression)
    assert entry.residual == ALWAYS
    assert not list(entries(parse("type LIKE '%a' OR price > 1", "jms").expression))
    assert not list(entries(parse("convert_string_expressions:price = 5", "artemis").expression))


@pytest.mark.parametrize(
    ("constant", "held"),
    [
        ("5", [True, True, True, False, False, False]),
        ("5.0", [True, True, True, False, False, False]),
        ("'5'", [False, False, False, True, False, False]),
        ("TRUE", [False, False, False, False, True, False]),
    ],
)
def test_keys_find_numbers_by_value_and_keep_families_apart(constant: str, held: list[bool]) -> None:
    view = BatchView(
        to_batch(
            Message.from_json({"application_properties": {"a": value}})
            for value in (5, 5.0, {"timestamp": 5}, "5", True, {"binary": "35"})
        )
    )
    groups = FilterGroups([[parse(f"a = {constant}", "jms")]])
    found = groups.select(view, *pairs(view))
    assert found.pair.tolist() == np.flatnonzero(held).tolist()


def test_the_field_with_most_values_leads() -> None:
    """`kind` is the same in every filter; `id` tells them apart."""
    groups = FilterGroups([[parse(f"kind = 'order' AND id = {n}", "jms") for n in range(100)]])
    view = batch({"kind": "order", "id": 7})
    assert groups.candidates(view, *pairs(view)) == 1


def test_no_groups_no_members_no_pairs() -> None:
    view = batch({"a": 1})
    empty = np.zeros(0, np.int64), np.zeros(0, np.int32)
    assert len(FilterGroups([]).select(view, *empty).pair) == 0
    assert len(FilterGroups([[], []]).select(view, *pairs(view, 2)).pair) == 0
    assert len(FilterGroups([[parse("a = 1", "jms")]]).select(view, *empty).pair) == 0


def test_a_blank_filter_accepts_everything() -> None:
    view = batch({"a": 1}, {})
    groups = FilterGroups([[parse("", "jms"), parse("a = 1", "jms")]])
    found = groups.select(view, *pairs(view))
    assert list(zip(found.pair.tolist(), found.member.tolist(), strict=True)) == [(0, 0), (0, 1), (1, 0)]


def properties_equal(name: str, value: object) -> dict[str, object]:
    return {"descriptor": "amqp:application-properties-filter", "value": {name: value}}


def sql(text: str) -> dict[str, object]:
    return {"descriptor": "amqp:sql-filter", "value": text}


@pytest.mark.parametrize(
    ("members", "held"),
    [
        ([sql("a = 1"), properties_equal("a", 1)], 1),  # keys on one field: by number, and by type and number
        ([sql("a = 1.5"), properties_equal("a", 1.5)], 1.5),
        ([sql("a = 'x'"), properties_equal("a", "x")], "x"),
        ([properties_equal("a", 0.0), properties_equal("a", -0.0)], 0.0),  # two keys that one value equals
        ([sql("a = 0.0"), sql("a = -0.0"), properties_equal("a", 0.0), properties_equal("a", -0.0)], -0.0),
        ([sql("a = 1"), sql("a = 1.0"), sql("b = 1"), sql("a LIKE 'x%'")], 1),
    ],
)
def test_a_filter_to_which_several_keys_of_one_message_lead_is_selected_once(
    members: list[dict[str, object]], held: object
) -> None:
    either = parse_filter_set({"f": {"descriptor": "amqp:any-filter", "value": members}})
    groups = FilterGroups([[either, parse("b = 5", "jms")]])
    view = batch({"a": held, "b": 5}, {"a": held, "b": 6}, {"a": held}, {"b": 1})
    found = groups.select(view, *pairs(view))
    selected = list(zip(found.pair.tolist(), found.member.tolist(), strict=True))
    other = [(3, 0)] if sql("b = 1") in members else []
    assert selected == [(0, 0), (0, 1), (1, 0), (2, 0), *other]
    assert groups.candidates(view, *pairs(view)) == len(selected)


def test_more_candidates_than_a_block_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bindery.router.filters.selecting.BLOCK", 7)
    filters = [parse(f"a > {n}", "jms") for n in range(10)]
    view = batch(*({"a": n} for n in range(10)))
    found = FilterGroups([filters]).select(view, *pairs(view))
    assert list(zip(found.pair.tolist(), found.member.tolist(), strict=True)) == [
        (row, member) for row in range(10) for member in range(row)
    ]


def test_functions_are_called_per_distinct_value_not_per_row_or_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    """In however many blocks the filters ask: a block of few rows may ask apart, then all rows are done at once."""
    calls: list[str] = []
    monkeypatch.setattr("bindery.router.filters.selecting.BLOCK", 50)
    monkeypatch.setitem(scalar.FUNCTIONS, "LOWER", lambda value: calls.append(value) or value.lower())
    groups = FilterGroups([[parse(f"LOWER(s) <> 'x{n}'", "amqp-sql") for n in range(40)]])
    view = batch(*({"s": f"S{n % 5}"} for n in range(60)))
    assert len(groups.select(view, *pairs(view)).pair) == 60 * 40
    assert len(calls) <= 60 // 8 + 5
    calls.clear()
    alone = FilterGroups([[parse("LOWER(s) = 's1'", "amqp-sql")]])
    assert len(alone.select(view, *pairs(view)).pair) == 12
    assert sorted(calls) == ["S0", "S1", "S2", "S3", "S4"]


def test_trouble_is_reported_for_the_filters_that_had_it() -> None:
    filters = [parse(text, "jms") for text in ("a / 0 = 1", "a = 1", "a / 0 = 1 AND b = 1", "a / 0 = 1 OR a = 1")]
    view = batch({"a": 1})
    found = FilterGroups([filters]).select(view, *pairs(view))
    assert found.member.tolist() == [1, 3]
    assert found.troubled_member.tolist() == [0]


def test_filters_are_values() -> None:
    assert parse("a = 1", "jms") == parse("a = 1", "jms") != parse("a = 1", "artemis")
    assert len({parse("a = 1", "jms"), parse("a = 1", "jms")}) == 1
    tree = parse("a = 1", "jms").expression
    assert Filter.of(tree, text="x", dialect="own").expression is tree
    assert parse("a = 1", "jms", limits=Limits(tokens=3)).text == "a = 1"
