"""Topic patterns: which one accepts everything that another accepts (seed 003 §4.6.2.2 for the matching)."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bindery.router.exchanges.patterns import Pattern, PatternIndex, words


def naive_match(pattern: tuple[str, ...], key: tuple[str, ...]) -> bool:
    if not pattern:
        return not key
    head, *rest = pattern
    if head == "#":
        return any(naive_match(tuple(rest), key[n:]) for n in range(len(key) + 1))
    return bool(key) and (head == "*" or head == key[0]) and naive_match(tuple(rest), key[1:])


def keys_up_to(length: int, alphabet: str) -> list[tuple[str, ...]]:
    return [key for n in range(length + 1) for key in itertools.product(alphabet, repeat=n)]


patterns = st.lists(st.sampled_from(["a", "b", "*", "#"]), max_size=4).map(".".join)


@given(patterns, patterns)
@settings(max_examples=300)
def test_cover_agrees_with_every_key(wide: str, narrow: str) -> None:
    # "z" stands for any word that no pattern names; with at most four tokens, six words decide
    decided = all(naive_match(words(wide), key) for key in keys_up_to(6, "abz") if naive_match(words(narrow), key))
    assert Pattern.of(wide).covers(Pattern.of(narrow)) == decided


@given(st.lists(patterns, max_size=12), patterns)
@settings(max_examples=150)
def test_the_index_misses_no_cover(wide: list[str], narrow: str) -> None:
    pattern = Pattern.of(narrow)
    everything = {Pattern.of(text) for text in wide}
    found = list(PatternIndex(everything).candidates(pattern))
    assert len(found) == len(set(found))
    assert {p for p in everything if p != pattern and p.covers(pattern)} <= set(found)


@pytest.mark.parametrize(
    ("wide", "narrow", "expected"),
    [
        ("#", "", True),
        ("#", "a.*.#", True),
        ("*", "", False),
        ("", "", True),
        ("a.#", "a", True),
        ("a.*.#", "a.#", False),
        ("#.*", "*.#", True),
        ("*.#", "#.*", True),
        ("#.a.#", "#.a.b.a.#", True),
        ("#.a.b.#", "#.a.*.b.#", False),
        ("a..b", "a..b", True),
        ("a.*.b", "a..b", True),
        ("##", "#", False),
        ("#", "##", True),
    ],
)
def test_examples(wide: str, narrow: str, expected: bool) -> None:
    assert Pattern.of(wide).covers(Pattern.of(narrow)) is expected


def test_patterns_with_one_language_have_one_normal_form() -> None:
    assert Pattern.of("#.*.#.*") == Pattern.of("*.*.#")


def test_many_hashes_stay_cheap() -> None:
    wide = Pattern.of(".".join(["#", "a"] * 30 + ["#"]))
    narrow = Pattern.of(".".join(["#", "a", "*"] * 30 + ["#"]))
    assert wide.covers(narrow)
    assert not narrow.covers(wide)


def test_a_case_that_explodes_when_made_deterministic_stays_cheap() -> None:
    nth_from_the_end = Pattern.of(".".join(["#", "a"] + ["*"] * 40))
    assert nth_from_the_end.covers(nth_from_the_end)
    assert nth_from_the_end.covers(Pattern.of(".".join(["#", "a", "a"] + ["*"] * 39)))
