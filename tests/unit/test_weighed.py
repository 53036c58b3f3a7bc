"""A cache that is bounded by weight, and the caches of filters, which strangers can fill."""

from __future__ import annotations

import tracemalloc

import pytest

from bindery.router.errors import FilterError
from bindery.router.filters import filter as filters
from bindery.router.filters import like, text
from bindery.router.filters.dialect import dialect_named
from bindery.router.filters.limits import DEFAULT_LIMITS
from bindery.router.filters.parser import parse_text
from bindery.router.filters.sets import modifiers
from bindery.router.weighed import Weighed


def test_what_was_used_last_stays_and_no_more_than_the_weight() -> None:
    made: list[str] = []
    cache = Weighed(lambda word: made.append(word) or word, len, weight=40, entries=100)
    for word in ("aaaaa", "bbbbb", "ccccc", "ddddd", "eeeee", "fffff", "ggggg", "hhhhh"):
        assert cache(word) == word
    assert (cache.weight, len(cache)) == (40, 8)
    cache("aaaaa")
    cache("iii")
    assert (cache.weight, len(cache)) == (38, 8)
    made.clear()
    for word in ("aaaaa", "ccccc", "iii", "bbbbb"):
        cache(word)
    assert made == ["bbbbb"]


def test_entries_are_bounded_too_and_a_heavy_result_is_never_kept() -> None:
    cache = Weighed(str, len, weight=80, entries=3)
    for number in range(9):
        cache(number)
    assert (cache.weight, len(cache)) == (3, 3)
    assert cache("x" * 11) == "x" * 11
    assert (cache.weight, len(cache)) == (3, 3)


def test_an_error_is_not_remembered() -> None:
    cache = Weighed(int, lambda _: 1, weight=8, entries=8)
    for _ in range(2):
        with pytest.raises(ValueError, match="invalid literal"):
            cache("x")
    assert len(cache) == 0


@pytest.mark.parametrize(
    "selector",
    [
        " OR ".join(f"a={n}" for n in range(100, 340)),
        "+".join(["1"] * 480) + "=1",
        "-" * 90 + "a = 1",
        "a IN (" + ",".join(f"'{n}'" for n in range(480)) + ")",
        "type = 'T1' AND price > 5",
        "a" * 4_000,
    ],
    ids=lambda selector: selector[:12],
)
def test_a_filter_weighs_what_its_tree_takes(selector: str) -> None:
    def tree() -> object:
        return parse_text(selector, dialect_named("jms"), DEFAULT_LIMITS)

    def taken_by_five() -> int:
        tracemalloc.start()
        kept = [tree() for _ in range(5)]
        found = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return found // len(kept)

    tree()
    taken = min(taken_by_five() for _ in range(3))  # threads of other tests allocate meanwhile
    weight = filters._bytes(filters.parse(selector, "jms"))
    assert taken <= 1.3 * weight
    assert weight <= filters.CACHE_BYTES // 8


def test_remembered_filters_stay_within_their_bytes() -> None:
    cache = Weighed(filters._parse, filters._bytes, weight=200_000, entries=65_536)
    for number in range(60):
        cache(" OR ".join(f"a{number} = {n}" for n in range(40)), "jms", DEFAULT_LIMITS)
    assert 100_000 < cache.weight <= 200_000
    assert len(cache) < 60


def test_a_text_is_measured_before_it_is_parsed_or_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filters, "_parsed", pytest.fail)
    with pytest.raises(FilterError, match="more than 4096"):
        filters.parse("a" * 1_000_000, "jms")


def test_what_messages_bring_is_remembered_only_when_it_is_short() -> None:
    """A date, a computed pattern and a reference; each keeps its meaning however long it is."""
    text._date_to_ms.cache_clear()
    assert text.date_to_ms("2020-01-01" + " " * 60) is None
    assert text.date_to_ms("2020-01-01T00:00:00." + "0" * 30 + "+00:00") == 1_577_836_800_000
    assert text._date_to_ms.cache_info().currsize == 1
    like._remembered.cache_clear()
    long = "x" * 100_000
    pattern = like.compile_pattern(long + "%", None)
    assert pattern is not None
    assert like.matches(long + "y", pattern)
    assert like._remembered.cache_info().currsize == 0
    modifiers._remembered.cache_clear()
    assert modifiers.read_reference("&P:" + long).matches(long + "y")
    assert modifiers._remembered.cache_info().currsize == 0
