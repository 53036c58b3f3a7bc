"""Definition errors are data: the place, what was expected, what to do."""

from __future__ import annotations

import traceback

import pytest

from bindery.router.error_text import render_error
from bindery.router.errors import BinderyError, FilterError
from bindery.router.filters import parse


def refused(text: str, dialect: str = "jms") -> FilterError:
    with pytest.raises(FilterError) as caught:
        parse(text, dialect)
    return caught.value


@pytest.mark.parametrize(
    ("dialect", "text", "found", "hint"),
    [
        ("jms", "a == 1", "==", "use `=`"),
        ("jms", "a != 1", "!", "use `<>`"),
        ("jms", "a =< 1", "=<", "use `<=`"),
        ("jms", "a = 1 && b = 2", "&&", "use AND"),
        ("jms", "a = 1 || b = 2", "||", "use OR"),
        ("jms", 'a = "x"', '"', "a string takes single quotes"),
        ("jms", "a = 'x", "'", "not closed"),
        ("jms", "(a = 1", "", "not closed"),
        ("jms", "a = 1)", ")", "was not opened"),
        ("jms", "a =", "", "a value is missing after '='"),
        ("jms", "a = 1 AND", "", "a value is missing after 'AND'"),
        ("jms", "a < b < c", "<", "do not chain"),
        ("jms", "a BETWEEN 1 OR 2", "OR", "BETWEEN a AND b"),
        ("jms", "a BETWEEN 1", "", "BETWEEN a AND b"),
        ("jms", "a = 1 AMD b = 2", "AMD", "did you mean AND?"),
        ("jms", "a = NULL", "NULL", "IS NULL"),
        ("jms", "a LIKE b", "b", None),
        ("jms", "a IN ()", ")", "at least one"),
        ("jms", "a IN (1)", "1", "x = 1 OR x = 2"),
        ("jms", "foo(1) = 2", "(", "no functions"),
        ("jms", "a = 1 b", "b", "an operator is missing"),
        ("jms", "IN = 1", "IN", "reserved word"),
        ("jms", "a > 'x'", "'x'", "= and <> only"),
        ("jms", "a + 1", "a + 1", "compare it"),
        ("jms", "a = 08", "08", "octal"),
        ("jms", "a = 9223372036854775808", "9223372036854775808", "as a double"),
        ("jms", "amqp.priority = 4", ".", "apache-selector"),
        ("jms", "a LIKE 'x!' ESCAPE '!'", "'x!'", "write it twice"),
        ("apache-selector", "amqp.prioritty = 4", "amqp.prioritty", "did you mean amqp.priority?"),
        ("artemis", "AND = 1", "AND", 'write "AND"'),
        ("artemis", 'a = "x', '"', "double quotes name a property"),
        ("artemis", " hyphenated_props:a = 1", ":", "very start"),
        ("amqp-sql", "a == 1", "==", "use `=`"),
        ("amqp-sql", "h.prioritty = 4", "h.prioritty", "did you mean priority?"),
        ("amqp-sql", "LOWR(a) = 'x'", "(", "did you mean LOWER?"),
        ("amqp-sql", "LEFT(a) = 'x'", "LEFT(a", None),
        ("amqp-sql", "a BETWEEN 1 AND 2", "BETWEEN", "x >= a AND x <= b"),
        ("amqp-sql", "a = 0xABC", "0xABC", "even number"),
        ("amqp-sql", "left = 1", "=", None),
        ("amqp-sql", "", "", "write TRUE"),
    ],
)
def test_an_error_names_the_text_and_a_way_out(dialect: str, text: str, found: str, hint: str | None) -> None:
    error = refused(text, dialect)
    assert error.found == found
    assert hint is None or hint in (error.hint or "")


def test_line_and_column_count_from_one() -> None:
    error = refused("a = 1\nAND b == 2")
    assert (error.line, error.column, error.offset, error.length) == (2, 7, 12, 2)
    assert error.as_data()["expected"] == ["a property", "a value", "("]


def test_the_caret_stands_under_the_offending_text() -> None:
    shown = render_error(refused("größe = 1\n AND ключ == 2")).splitlines()
    assert shown[1] == "   AND ключ == 2"
    assert shown[2].index("^^") == shown[1].index("==")


def test_a_wide_character_takes_two_columns() -> None:
    shown = render_error(refused("名前 == 1")).splitlines()
    assert shown[2] == "  " + " " * 5 + "^^"


def test_a_long_line_is_cut_around_the_place() -> None:
    shown = render_error(refused("a = 1 AND " * 100 + "b == 2")).splitlines()
    assert len(shown[1]) < 120
    assert shown[1][shown[2].index("^")] == "="


def test_control_characters_are_not_echoed() -> None:
    assert "\x1b" not in render_error(refused("a = \x1b[31m 1"))


def test_unknown_dialects_are_named() -> None:
    assert "artemis" in (refused("a = 1", "sql92").hint or "")


def test_a_traceback_says_what_to_do_and_where() -> None:
    """Who calls from Python sees no more than that."""
    shown = "".join(traceback.format_exception_only(refused("a =\nb AND")))
    assert shown.splitlines()[1:] == [
        "hint: a value is missing after 'AND'",
        "line 2, column 6 of the filter, near 'a =\\nb AND'",
    ]


def test_a_path_that_the_message_names_is_not_said_twice() -> None:
    assert render_error(BinderyError("cannot read /a/b: denied", where="/a/b")) == "error: cannot read /a/b: denied"
    assert render_error(BinderyError("denied", where="/a/b")) == "error: /a/b: denied"
    assert render_error(BinderyError("no queue 'x'", where="queue")) == "error: queue: no queue 'x'"
