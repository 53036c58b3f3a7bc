"""Topic exchanges (seed 003 §4.6.2.2; AMQP 0-9-1 §3.1.3.3)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bindery.router.matching.trie import TopicMatcher, pattern_words
from bindery.router.message import Message
from bindery.router.reference import topic_matches
from tests.unit.exchanges.matching import exchange_router, matched, visits

words = st.sampled_from(["a", "b", "", "*", "#", "a#", "**", "ж", "x"])
texts = st.lists(words, max_size=5).map(".".join)


def accepts(pattern: str, key: str) -> bool:
    return len(TopicMatcher([pattern]).match([key])[1]) == 1


@pytest.mark.parametrize(
    ("pattern", "key", "accepted"),
    [
        ("", "", True),
        ("", ".", False),
        ("#", "", True),
        ("*", "", False),
        ("*", ".", False),
        ("*.*", ".", True),
        ("a.*", "a.", True),
        ("a.*", "a", False),
        ("a.#", "a", True),
        ("a.#", "a.", True),
        ("#.a", "a", True),
        ("#.a.#", "b.a.b.b", True),
        ("*.#.*", "a", False),
        ("*.#.*", "a.b", True),
        ("a#b", "axb", False),
        ("a#b", "a#b", True),
        ("##", "a.b", False),
        ("**", "a", False),
        ("a.b", "a.B", False),
        ("a.*", "a.*", True),
        ("a.b", "a.*", False),
        ("a.b", "a.#", False),
        ("#.#.#", "", True),
    ],
)
def test_words_and_wildcards(pattern: str, key: str, accepted: bool) -> None:
    assert accepts(pattern, key) is accepted
    assert topic_matches(pattern, key) is accepted


@given(st.lists(texts, max_size=8), st.lists(texts, max_size=8))
@settings(deadline=None)
def test_patterns_accept_what_their_definition_says(patterns: list[str], keys: list[str]) -> None:
    offsets, accepted = TopicMatcher(patterns).match(keys)
    for number, key in enumerate(keys):
        found = accepted[offsets[number] : offsets[number + 1]].tolist()
        assert len(found) == len(set(found))
        assert set(found) == {n for n, pattern in enumerate(patterns) if topic_matches(pattern, key)}


@given(texts, texts)
@settings(deadline=None)
def test_the_normal_form_accepts_the_same_keys(pattern: str, key: str) -> None:
    assert topic_matches(".".join(pattern_words(pattern)), key) is topic_matches(pattern, key)


def test_words_of_the_normal_form() -> None:
    assert pattern_words("#.*.#.a.#.#") == ("*", "#", "a", "#")
    assert pattern_words("") == ()


def test_thirty_hashes_take_words_times_nodes() -> None:
    router = exchange_router("topic", [(".".join(["#", "a"] * 30), {}), (".".join(["#", "a"] * 15 + ["b"]), {})])
    key = ".".join(["a"] * 60)
    assert matched(router, [Message(exchange="x", routing_key=key)]) == [{0}]
    assert visits(router, [Message(exchange="x", routing_key=key)]) <= 60 * 100


def test_thousands_of_open_patterns_touch_only_those_that_advance() -> None:
    router = exchange_router("topic", [(f"#.w{n}.#", {}) for n in range(5_000)])
    key = ".".join(f"w{n}" for n in range(10))
    assert matched(router, [Message(exchange="x", routing_key=key)]) == [set(range(10))]
    assert visits(router, [Message(exchange="x", routing_key=key)]) <= 10 * 40


def test_bindings_that_cannot_match_cost_nothing() -> None:
    messages = [Message(exchange="x", routing_key=f"order.{n}.created") for n in range(50)]
    few, many = (exchange_router("topic", [(f"*.{n}.*", {}) for n in range(count)]) for count in (50, 2_000))
    assert matched(few, messages) == matched(many, messages)
    assert visits(many, messages) == visits(few, messages)


def test_keys_that_differ_in_unknown_words_are_walked_once() -> None:
    router = exchange_router("topic", [("order.*.created", {}), ("order.#", {})])
    one = [Message(exchange="x", routing_key="order.0.created")]
    thousand = [Message(exchange="x", routing_key=f"order.{n}.created") for n in range(1_000)]
    assert matched(router, thousand) == [{0, 1}] * 1_000
    assert visits(router, thousand) == visits(router, one)


def test_long_keys_and_foreign_bytes_are_just_keys() -> None:
    router = exchange_router("topic", [("#", {}), ("a.#.z", {}), ("é.*", {})])
    keys = ["a." + "b." * 5_000 + "z", "é.\x00", "." * 300]
    messages = [Message(exchange="x", routing_key=key) for key in keys]
    assert matched(router, messages) == [{0, 1}, {0, 2}, {0}]
