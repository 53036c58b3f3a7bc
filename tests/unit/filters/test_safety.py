"""No text crashes, hangs or overflows the stack; what a filter may cost is capped when it is defined."""

from __future__ import annotations

import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bindery.router.errors import FilterError
from bindery.router.filters import DIALECTS, Limits, evaluate, like, parse
from bindery.router.filters.printer import normal_form
from bindery.router.message import Message
from bindery.router.values import Table
from tests.unit.filters.rules import WORDED

_FRAGMENTS = st.sampled_from(
    [
        *(
            "a",
            "b",
            "AND",
            "OR",
            "NOT",
            "=",
            "<>",
            "<",
            "(",
            ")",
            "[",
            "]",
            "'",
            '"',
            "''",
            "LIKE",
            "ESCAPE",
            "IN",
            ",",
        ),
        *(
            "BETWEEN",
            "IS",
            "NULL",
            "TRUE",
            "1",
            "0x",
            "08",
            "1e999",
            "-",
            "+",
            "*",
            "/",
            "%",
            "h",
            "amqp.",
            "XPATH '/'",
        ),
        *(
            "\ud800",
            "\u00a0",
            "😀",
            "\x00",
            "9" * 25,
            "LOWER",
            "UTC()",
            "EXISTS",
            "convert_string_expressions:",
            "\n",
            ".",
        ),
    ]
)


@pytest.mark.parametrize("dialect", DIALECTS)
@given(text=st.text(max_size=40) | st.lists(_FRAGMENTS, max_size=14).map(" ".join) | st.lists(_FRAGMENTS).map("".join))
@settings(max_examples=200, deadline=None)
def test_any_text_is_a_filter_or_a_filter_error(dialect: str, text: str) -> None:
    try:
        item = parse(text, dialect)
    except FilterError as error:
        assert 0 <= error.offset <= error.offset + error.length <= len(error.text)
        assert error.as_data()["code"] == "invalid_filter"
    else:
        evaluate(item, Message())
        assert parse(normal_form(item.expression, dialect), dialect).expression == item.expression


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000 + "a = 1" + ")" * 10_000,
        "(" * 2_000,
        ")" * 2_000,
        "(" * 150 + "a = 1" + ")" * 150,
        "NOT " * 900 + "a",
        "a = " + "- " * 900 + "b",
        "a = " + "-(" * 90 + "+ " * 50 + "a" + ")" * 90,
        "a = 1 OR " * 12_000 + "b",
        "a = '" + "x" * 100_000 + "'",
        "a = " + "9" * 4_000,
        "a = 1e" + "9" * 4_000,
        "a = 0x" + "F" * 4_001,
        "a = 0" + "7" * 4_000,
        "[" * 3_000,
        "a" + "[0" * 1_000,
        "a = '\ud800'",
        "\udfff",
    ],
    ids=range(17),
)
def test_hostile_texts_are_refused(dialect: str, text: str) -> None:
    if dialect == "cesql" and re.fullmatch("a = [0-9]+[A-Za-z][0-9A-Za-z]*", text):
        text = f"LENGTH({text})" + ")"  # there it is the name of an attribute
    with pytest.raises(FilterError):
        parse(text, dialect)


@pytest.mark.parametrize("dialect", WORDED)
def test_what_the_caps_allow_evaluates_without_recursion_trouble(dialect: str) -> None:
    limit = sys.getrecursionlimit()
    texts = [
        "(" * 95 + "a = 1" + ")" * 95,
        "NOT (" * 48 + "a = 1" + ")" * 48,
        " OR ".join(["a = 2"] * 200 + ["a = 1"]),
        "a = " + " + ".join(["0"] * 450) + " + 1",
        "a = " + "(" * 90 + "1" + ")" * 90,
    ]
    for text in texts:
        assert evaluate(parse(text, dialect), Message(application_properties=Table({"a": 1}))) is True
    assert sys.getrecursionlimit() == limit


def test_caps_are_configurable() -> None:
    for limits in (Limits(characters=5), Limits(tokens=3), Limits(depth=1), Limits(like_pattern=1)):
        with pytest.raises(FilterError):
            parse("(a LIKE 'xyz')", "jms", limits=limits)
    assert parse("a LIKE 'xyz'", "jms").text == "a LIKE 'xyz'"


def test_exactly_the_cap_is_allowed() -> None:
    text = "a = '" + "x" * 4_090 + "'"
    assert len(text) == 4_096
    parse(text, "jms")
    with pytest.raises(FilterError):
        parse(text + " ", "jms")


def test_a_computed_pattern_beyond_the_cap_is_trouble_not_work() -> None:
    message = Message(application_properties=Table({"a": "x" * 5_000, "b": "%_" * 3_000}))
    assert evaluate(parse("a LIKE b", "amqp-sql"), message) is None


@pytest.mark.parametrize("unit", ["%_", "%a_", "%_a%", "a%_", "%aa_a"])
def test_many_wildcards_cost_a_bounded_number_of_searches(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each segment is searched once, from where the one before ended."""
    searches = 0
    find = like._Places.find

    def counted(self: like._Places, segment: like.Segment, start: int, end: int) -> int:
        nonlocal searches
        searches += 1
        return find(self, segment, start, end)

    monkeypatch.setattr(like._Places, "find", counted)
    pattern = like.compile_pattern(unit * 1_000, None)
    assert pattern is not None
    like.matches("a" * 4_000, pattern)
    like.matches("ab" * 2_000, pattern)
    like.matches("b" * 4_000, pattern)
    assert searches <= 3 * 2 * 1_000


def test_calls_in_each_other_do_not_multiply_a_text_without_end() -> None:
    """CONCAT_WS puts its first argument in more than once; beyond a bound that is an error, and no message passes."""
    text = "'ab'"
    for _ in range(30):
        text = f"CONCAT_WS({text},'','','','')"
    assert not evaluate(parse(f"LENGTH({text}) > 0", "cesql"), Message())
