"""Rules that hold in every dialect of selectors and SQL filters (JMS 2.0 §3.8.1.2, seed 002, docs/filters.md)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.filters.rules import ERROR, SELECTING, check

ABSENT: dict[str, Any] = {}
TRUTHS = {True: "TRUE", False: "FALSE", None: "missing"}


@pytest.mark.parametrize("dialect", SELECTING)
@pytest.mark.parametrize(
    ("left", "right", "both", "either"),
    [
        (True, True, True, True),
        (True, False, False, True),
        (True, None, None, True),
        (False, True, False, True),
        (False, False, False, False),
        (False, None, False, None),
        (None, True, None, True),
        (None, False, False, None),
        (None, None, None, None),
    ],
)
def test_truth_tables_of_sql(dialect: str, left: Any, right: Any, both: Any, either: Any) -> None:
    check(dialect, f"{TRUTHS[left]} AND {TRUTHS[right]}", ABSENT, both)
    check(dialect, f"{TRUTHS[left]} OR {TRUTHS[right]}", ABSENT, either)
    check(dialect, f"NOT {TRUTHS[left]}", ABSENT, None if left is None else not left)


@pytest.mark.parametrize("dialect", SELECTING)
@pytest.mark.parametrize(
    ("text", "properties", "expected"),
    [
        # a missing property is null, and a null operand gives unknown
        ("a = 1", ABSENT, None),
        ("a <> 1", ABSENT, None),
        ("a = b", ABSENT, None),
        ("a = b", {"a": 1}, None),
        ("a + 1 = 2", ABSENT, None),
        ("-a = 1", ABSENT, None),
        ("a LIKE 'x'", ABSENT, None),
        ("a NOT LIKE 'x'", ABSENT, None),
        ("a IN ('x')", ABSENT, None),
        ("a NOT IN ('x')", ABSENT, None),
        ("a IS NULL", ABSENT, True),
        ("a IS NOT NULL", ABSENT, False),
        ("a IS NULL", {"a": None}, True),
        ("a IS NULL", {"a": []}, False),
        ("a", {"a": True}, True),
        ("a", {"a": False}, False),
        ("a", {"a": 1}, None),
        ("a", {"a": "true"}, None),
        ("a", {"a": {"list": []}}, None),
        # unlike families: false for every operator
        ("a = '1'", {"a": 1}, False),
        ("a <> '1'", {"a": 1}, False),
        ("NOT (a <> '1')", {"a": 1}, True),
        ("a = TRUE", {"a": 1}, False),
        ("a <> TRUE", {"a": "TRUE"}, False),
        ("a < b", {"a": 1, "b": "2"}, False),
        ("a >= b", {"a": True, "b": 0}, False),
        ("a = b", {"a": {"binary": "61"}, "b": "a"}, False),
        # nested values: false for every operator, themselves included
        ("a = a", {"a": [1]}, False),
        ("a <> a", {"a": [1]}, False),
        ("a <> 1", {"a": {"x": 1}}, False),
        ("a = b", {"a": [1]}, None),
        # one family of numbers, compared exactly
        ("a = 5.0", {"a": 5}, True),
        ("a = 5", {"a": 5.0}, True),
        ("a = 5", {"a": {"timestamp": 5}}, True),
        ("a = b", {"a": {"timestamp": 5}, "b": 5.0}, True),
        ("a = 9007199254740992.0", {"a": 9007199254740993}, False),
        ("a > 9007199254740992.0", {"a": 9007199254740993}, True),
        ("a < b", {"a": 9223372036854775807, "b": 9223372036854775808.0}, True),
        ("a = b", {"a": 9223372036854775807, "b": 9223372036854775808.0}, False),
        ("a >= b", {"a": -9223372036854775808, "b": -9223372036854775808.0}, True),
        ("a < b", {"a": 5, "b": {"decimal": "Infinity"}}, True),
        ("a = 0.1", {"a": {"float": 0.1}}, False),
        ("a = 0.0", {"a": -0.0}, True),
        # NaN: only <> is true
        ("a = a", {"a": {"decimal": "NaN"}}, False),
        ("a <> a", {"a": {"decimal": "NaN"}}, True),
        ("a <> 1", {"a": {"decimal": "NaN"}}, True),
        ("a < 1 OR a >= 1", {"a": {"decimal": "NaN"}}, False),
        # booleans have = and <> only
        ("a = TRUE", {"a": True}, True),
        ("a <> FALSE", {"a": True}, True),
        ("a < b OR a > b OR a <= b", {"a": False, "b": True}, False),
        # binaries are equal by content
        ("a = b", {"a": {"binary": "ff"}, "b": {"binary": "ff"}}, True),
        ("a <> b", {"a": {"binary": "ff"}, "b": {"uuid": "00000000-0000-0000-0000-000000000000"}}, True),
        # precedence: OR < AND < NOT < comparison < + < * < sign
        ("NOT a = 1 AND b = 2", {"a": 2, "b": 2}, True),
        ("NOT a = 1 AND b = 2", {"a": 2, "b": 3}, False),
        ("a = 1 OR b = 2 AND c = 3", {"a": 1}, True),
        ("NOT a = 1 OR b = 2", {"a": 1, "b": 2}, True),
        ("NOT NOT a = 1", {"a": 1}, True),
        ("1 + 2 * 3 = 7", ABSENT, True),
        ("2 * -3 = -6", ABSENT, True),
        ("10 - 4 - 3 = 3", ABSENT, True),
        ("-a * 2 = -4", {"a": 2}, True),
        ("- - 5 = 5", ABSENT, True),
        ("+a = 5", {"a": 5}, True),
        # run-time trouble is unknown for the sub-expression
        ("a + 1 > 0", {"a": 9223372036854775807}, None),
        ("a - 1 < 0", {"a": -9223372036854775808}, None),
        ("a * 2 > 0", {"a": 4611686018427387904}, None),
        ("a * -1 > 0", {"a": -9223372036854775808}, None),
        ("-a > 0", {"a": -9223372036854775808}, None),
        ("a / 0 = 1", {"a": 1}, None),
        ("a / 0 = 1 OR b = 1", {"a": 1, "b": 1}, True),
        ("a / 0 = 1 AND b = 1", {"a": 1, "b": 2}, False),
        ("a * 1 = 1", {"a": True}, None),
        ("a - 1 = 1", {"a": "2"}, None),
        ("-a = 1", {"a": "x"}, None),
        ("+a = 1", {"a": True}, None),
        ("a * 2 = 2", {"a": [1]}, None),
        # with a double operand IEEE 754
        ("a / 0 > 1e308", {"a": 1.0}, True),
        ("a / -0.0 < -1e308", {"a": 1}, True),
        ("a / 0 <> a / 0", {"a": 0.0}, True),
        ("a * 10 > a", {"a": 1e308}, True),
        ("a + 1 = 1001", {"a": {"timestamp": 1000}}, True),
        # LIKE
        ("a LIKE ''", {"a": ""}, True),
        ("a LIKE ''", {"a": "x"}, False),
        ("a LIKE '%'", {"a": ""}, True),
        ("a LIKE '_'", {"a": "😀"}, True),
        ("a LIKE '_'", {"a": "\n"}, True),
        ("a LIKE 'a%c'", {"a": "a\nb\nc"}, True),
        ("a LIKE 'a%c'", {"a": "a\nb\nC"}, False),
        ("a LIKE 'a.c'", {"a": "abc"}, False),
        ("a LIKE '%ab%ab%'", {"a": "xabyab"}, True),
        ("a LIKE '%ab%ab%'", {"a": "xabab"}, True),
        ("a LIKE '%aba%ab'", {"a": "abaab"}, True),
        ("a LIKE 'ab%ba'", {"a": "aba"}, False),
        ("a LIKE '!%' ESCAPE '!'", {"a": "%"}, True),
        ("a LIKE '!%' ESCAPE '!'", {"a": "x"}, False),
        ("a LIKE '!a!!' ESCAPE '!'", {"a": "a!"}, True),
        ("a LIKE '%%_' ESCAPE '%'", {"a": "%x"}, True),
        ("a LIKE '__' ESCAPE '_'", {"a": "_"}, True),
        ("a LIKE 'é' ESCAPE '😀'", {"a": "é"}, True),
        ("a LIKE 'x'", {"a": 5}, False),
        ("a NOT LIKE 'x'", {"a": 5}, True),
        ("a LIKE '%'", {"a": {"binary": ""}}, False),
        ("a LIKE '!' ESCAPE '!'", ABSENT, ERROR),
        ("a LIKE 'x' ESCAPE ''", ABSENT, ERROR),
        ("a LIKE 'x' ESCAPE 'ab'", ABSENT, ERROR),
        ("a LIKE '%' ESCAPE '%'", ABSENT, ERROR),
        # IN
        ("a IN ('x', 'y')", {"a": "y"}, True),
        ("a IN ('x', 'y')", {"a": "z"}, False),
        ("a NOT IN ('x', 'y')", {"a": "z"}, True),
        ("a IN ('5')", {"a": 5}, False),
        ("a NOT IN ('5')", {"a": 5}, True),
        # keywords have no case
        ("nOt a iS nUlL aNd tRuE", {"a": 1}, True),
        # integers have 64 bits
        ("a = -9223372036854775808", {"a": -9223372036854775808}, True),
        ("a - -9223372036854775808 = -1", {"a": 0}, None),
        ("a = 9223372036854775808", ABSENT, ERROR),
        ("a -9223372036854775808 = 1", ABSENT, ERROR),
        ("a = -(9223372036854775808)", ABSENT, ERROR),
        ("a = 18446744073709551616", ABSENT, ERROR),
        ("a = 1e309", ABSENT, ERROR),
        ("a = -9223372036854775809", ABSENT, ERROR),
        # comparisons do not chain
        ("a = b = c", ABSENT, ERROR),
        ("a < b < c", ABSENT, ERROR),
        ("a IS NULL IS NULL", ABSENT, ERROR),
        ("a LIKE 'x' = TRUE", ABSENT, ERROR),
        ("a = 1 IS NULL", ABSENT, ERROR),
        ("a = NOT b", ABSENT, ERROR),
        # a condition in parentheses is a boolean
        ("(a = 1) = (b = 1)", {"a": 1, "b": 1}, True),
        ("(a = 1) <> (b = 1)", {"a": 1, "b": 2}, True),
        ("(a = 1) = b", {"a": 1, "b": True}, True),
        ("(a = 1) = b", {"b": True}, None),
    ],
)
def test_rule(dialect: str, text: str, properties: dict[str, Any], expected: Any) -> None:
    check(dialect, text, properties, expected)


@pytest.mark.parametrize("dialect", SELECTING)
def test_names_have_their_case_but_in_service_bus(dialect: str) -> None:
    """Azure Service Bus, "Considerations": property names are case-insensitive."""
    check(dialect, "A = 1", {"a": 1}, True if dialect == "service-bus" else None)
