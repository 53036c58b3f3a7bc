"""Modifiers, folding, and what a message's lookups cost (seed 002, property filters)."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest

from bindery.router.columns import BatchView
from bindery.router.filters import Filter, FilterGroups, evaluate
from bindery.router.filters.sets import parse_filter_set
from bindery.router.filters.sets.reference import topic_matches, words
from bindery.router.filters.text import fold
from bindery.router.message import Message, to_batch
from bindery.router.values import Table
from tests.unit.filters.sets.plain import topic


def subject(reference: str, text: str) -> bool | None:
    raw = {"f": {"descriptor": "amqp:properties-filter", "value": {"subject": reference}}}
    return evaluate(parse_filter_set(raw), Message(properties={"subject": text}))


@pytest.mark.parametrize(
    ("reference", "text", "holds"),
    [
        ("&S:eu", "order.eu", True),
        ("&S:EU", "order.eu", False),
        ("&P:Order", "Order.eu", True),
        ("&s:EU", "order.eu", True),
        ("&p:ORDER", "order.eu", True),
        ("&i:ORDER.EU", "order.eu", True),
        ("&i:order", "order.eu", False),
        ("&&S:eu", "&S:eu", True),
        ("&&", "&", True),
        ("&S:", "", True),
        ("&P:&&", "&&x", True),
        ("&i:ss", "ß", False),
        ("&i:ẞ", "ß", True),
        ("&i:İ", "i", False),
        ("&i:ΣΑΣ", "σας", True),
        ("&p:SS", "ßa", False),
        ("&s:ǆ", "xǅ", True),
    ],
)
def test_modifiers(reference: str, text: str, holds: bool) -> None:
    assert subject(reference, text) is holds


def test_folding_goes_code_point_by_code_point() -> None:
    for code in range(0x20000):
        char = chr(code)
        folded = fold(char)
        assert len(folded) == 1
        assert fold(folded) == folded
        lowered = char.lower()
        if len(lowered) == 1 and unicodedata.category(char) == "Lu":
            assert fold(lowered) == folded
    # what the full folding makes longer, and Turkic would change, stays
    assert fold("ßİŉǰﬁ") == "ßİŉǰﬁ"
    assert fold("K\u212aſSµΜẞᾳᾼꭰᎠ") == "kkssμμßᾳᾳᎠᎠ"


@pytest.mark.parametrize(
    "pattern", ["", "#", "*", "*.#", "#.*", "a.#", "#.b", "a.*.b", "#.a.#.b.#", "a..b", "*.*", "a.", "##"]
)
@pytest.mark.parametrize("key", ["", "a", "b", ".", "a.b", "a..b", "a.", "a.x.b", "b.a.b", "#", "*", "##", "x.a.b.x"])
def test_topics_match_like_regular_expressions(pattern: str, key: str) -> None:
    assert topic_matches(words(pattern), words(key)) is topic(pattern, key)


def test_many_hashes_stay_polynomial() -> None:
    pattern = words(".".join(["#", "a"] * 200))
    assert not topic_matches(pattern, words(".".join(["b"] * 2000)))
    assert topic_matches(pattern, words(".".join(["a"] * 2000)))


KINDS = {
    "equality": lambda n: ("amqp:application-properties-filter", {"customer": f"c{n}", "region": "&p:EU"}),
    "ignoring case": lambda n: ("amqp:properties-filter", {"subject": f"&i:NEWS.C{n}.X"}),
    "prefix": lambda n: ("amqp:properties-filter", {"subject": f"&P:news.c{n}."}),
    "suffix": lambda n: ("amqp:properties-filter", {"subject": f"&s:.C{n}.X"}),
    "direct": lambda n: ("apache.org:legacy-amqp-direct-binding:string", f"news.c{n}.x"),
    "topic": lambda n: ("apache.org:legacy-amqp-topic-binding:string", f"news.c{n}.#"),
    "topic from the end": lambda n: ("apache.org:legacy-amqp-topic-binding:string", f"#.c{n}.*"),
    "topic of words that move": lambda n: ("apache.org:legacy-amqp-topic-binding:string", f"#.c{n}.#"),
    "headers": lambda n: (
        "apache.org:legacy-amqp-headers-binding:map",
        {"x-match": "all", "customer": f"c{n}", "region": None},
    ),
    "any header": lambda n: (
        "apache.org:legacy-amqp-headers-binding:map",
        {"x-match": "any", "customer": f"c{n}", "other": n},
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_meets_only_the_sets_that_it_may_satisfy(kind: str) -> None:
    sets = []
    for n in range(300):
        descriptor, value = KINDS[kind](n)
        sets.append(parse_filter_set({"f": {"descriptor": descriptor, "value": value}}))
    messages = [
        Message(
            properties={"subject": f"news.c{n}.x"},
            application_properties=Table({"customer": f"c{n}", "region": "eu-west"}),
        )
        for n in range(40)
    ]
    groups = FilterGroups([sets])
    view = BatchView(to_batch(messages))
    rows, of_group = np.arange(40), np.zeros(40, np.int32)
    found = groups.select(view, rows, of_group)
    assert found.member.tolist() == found.pair.tolist() == list(range(40))
    assert groups.candidates(view, rows, of_group) == 40


def test_a_topic_that_has_several_words_of_an_or_is_led_to_it_once() -> None:
    def either(*words: str) -> Filter:
        members = [
            {"descriptor": "apache.org:legacy-amqp-topic-binding:string", "value": f"#.{word}.#"} for word in words
        ]
        return parse_filter_set({"f": {"descriptor": "amqp:any-filter", "value": members}})

    groups = FilterGroups([[either("a", "b"), either("a"), either("c", "d")], [either("b"), either("c")]])
    view = BatchView(to_batch([Message(properties={"subject": text}) for text in ("a.b.a", "b", "x", "", "c.a.d")]))
    rows, of_group = np.repeat(np.arange(5), 2), np.tile(np.array([0, 1], np.int32), 5)
    found = groups.select(view, rows, of_group)
    assert list(zip(rows[found.pair].tolist(), of_group[found.pair].tolist(), found.member.tolist(), strict=True)) == [
        *((0, 0, 0), (0, 0, 1), (0, 1, 0)),
        *((1, 0, 0), (1, 1, 0)),
        *((4, 0, 0), (4, 0, 1), (4, 0, 2), (4, 1, 1)),
    ]
    assert groups.candidates(view, rows, of_group) == len(found.pair)


def test_the_most_selective_member_of_nested_groups_leads() -> None:
    """`kind` is the same in every set; `id` tells them apart, however deep it stands."""

    def member(name: str, value: object) -> dict[str, object]:
        return {"descriptor": "amqp:application-properties-filter", "value": {name: value}}

    sets = [
        parse_filter_set(
            {
                "f": {"descriptor": "amqp:all-filter", "value": [member("kind", "order"), member("id", n)]},
                "g": member("open", True),
            }
        )
        for n in range(100)
    ]
    view = BatchView(to_batch([Message(application_properties=Table({"kind": "order", "id": 7, "open": True}))]))
    groups = FilterGroups([sets])
    assert groups.candidates(view, np.zeros(1, np.int64), np.zeros(1, np.int32)) == 1
