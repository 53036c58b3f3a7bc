"""Lists: columns, order and pages as the broker's management API gives them."""

from __future__ import annotations

from typing import Any

import pytest

from bindery.api.errors import Refusal
from bindery.api.listing import Costly, Item, Listing, read_listing

ITEMS = [{"vhost": "/", "name": name, "n": number} for number, name in enumerate(["b", "a", "Ca", "d"])]


def listing(**query: Any) -> Listing:
    names = ("columns", "sort", "page", "page_size")
    given: dict[str, Any] = dict.fromkeys(names) | {
        "sort_reverse": "false",
        "name_filter": "",
        "use_regex": "false",
        "disable_stats": "false",
    }
    return read_listing(**{**given, **query})


def names(items: list[Item]) -> list[Any]:
    return [item.get("name") for item in items]


def test_sorted_by_vhost_and_name_unless_told_otherwise() -> None:
    assert names(listing().whole(ITEMS)) == ["Ca", "a", "b", "d"]
    assert names(listing(sort="n").whole(ITEMS)) == ["b", "a", "Ca", "d"]
    assert names(listing(sort="n", sort_reverse="true").whole(ITEMS)) == ["d", "Ca", "a", "b"]


def test_a_missing_field_sorts_first_and_types_do_not_mix() -> None:
    items: list[Item] = [{"name": "t", "v": "x"}, {"name": "i", "v": 5}, {"name": "m"}, {"name": "b", "v": True}]
    assert names(listing(sort="v").whole(items)) == ["m", "i", "b", "t"]
    nested: list[Item] = [{"name": "two", "a": {"k": 2}}, {"name": "one", "a": {"k": 1}}, {"name": "none", "a": {}}]
    assert names(listing(sort="a.k").whole(nested)) == ["none", "one", "two"]


def test_columns_keep_their_nesting_and_unknown_ones_are_dropped() -> None:
    items: list[Item] = [{"name": "a", "arguments": {"x": 1, "y": 2}}, {"name": "b", "arguments": {}}]
    assert listing(columns="arguments.x,nope").whole(items) == [{"arguments": {"x": 1}}, {"arguments": {}}]


def test_a_page_tells_what_it_is_a_page_of() -> None:
    assert listing(page="2", page_size="3", columns="name").paged(ITEMS) == {
        "total_count": 4,
        "filtered_count": 4,
        "item_count": 1,
        "page": 2,
        "page_size": 3,
        "page_count": 2,
        "items": [{"name": "d"}],
    }


def test_names_filter_pages_only() -> None:
    assert len(listing(name_filter="a").paged(ITEMS)) == 4
    page = listing(page="1", name_filter="A").paged(ITEMS)
    assert isinstance(page, dict)
    assert (page["filtered_count"], names(page["items"])) == (2, ["Ca", "a"])
    page = listing(page="1", name_filter="^c", use_regex="true").paged(ITEMS)
    assert isinstance(page, dict)
    assert names(page["items"]) == ["Ca"]


def test_the_first_page_of_nothing_is_empty() -> None:
    page = listing(page="1").paged([])
    assert isinstance(page, dict)
    assert (page["items"], page["page_count"]) == ([], 0)


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ({"page": "x"}, "bad_request"),
        ({"page": "1", "page_size": "x"}, "bad_request"),
        ({"page": "0"}, "invalid_pagination_parameters"),
        ({"page": "1", "page_size": "0"}, "invalid_pagination_parameters"),
        ({"page": "1", "page_size": "501"}, "invalid_pagination_parameters"),
        ({"page": "1", "name_filter": "(", "use_regex": "true"}, "bad_request"),
        ({"page": "9" * 50}, "bad_request"),
    ],
)
def test_bad_numbers_and_expressions_are_refused(query: dict[str, str], error: str) -> None:
    with pytest.raises(Refusal) as refused:
        listing(**query)
    assert (refused.value.status, refused.value.error) == (400, error)


def test_a_page_past_the_end_is_refused() -> None:
    with pytest.raises(Refusal) as refused:
        listing(page="3", page_size="2").paged(ITEMS)
    assert refused.value.error == "page_out_of_range"


def costly(looked_up: list[int]) -> Costly:
    def look_up(items: list[Item]) -> None:
        looked_up.append(len(items))
        for item in items:
            item["messages"] = -item["n"]

    return Costly(frozenset({"messages"}), look_up)


def test_costly_fields_are_looked_up_for_shown_items_only() -> None:
    seen: list[int] = []
    listing(page="1", page_size="2").paged([dict(item) for item in ITEMS], costly=[costly(seen)])
    assert seen == [2]


def test_costly_fields_are_looked_up_for_all_items_when_they_order_the_list() -> None:
    seen: list[int] = []
    page = listing(page="1", page_size="1", sort="messages").paged(
        [dict(item) for item in ITEMS], costly=[costly(seen)]
    )
    assert isinstance(page, dict)
    assert names(page["items"]) == ["d"]
    assert seen == [4]


def test_costly_fields_that_nobody_asks_for_are_not_looked_up() -> None:
    seen: list[int] = []
    listing(columns="name").whole([dict(item) for item in ITEMS], costly=[costly(seen)])
    listing(disable_stats="true").whole([dict(item) for item in ITEMS], costly=[costly(seen)])
    assert seen == []
