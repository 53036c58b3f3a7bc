"""SQL filter expressions (seed 002, section "SQL Filter Expressions")."""

from __future__ import annotations

from typing import Any

import pytest

from bindery.router.errors import FilterError
from bindery.router.filters import parse
from tests.unit.filters.rules import CLOCK_MS, ERROR, check, check_message

ABSENT: dict[str, Any] = {}
NESTED = {
    "tags": ["a", "b", [7, 8]],
    "map": {"k": 1, "0": 2, "n": None},
    "text": "abc",
    "n": 1,
    "p": {"x": 5},
}


@pytest.mark.parametrize(
    ("text", "properties", "expected"),
    [
        # a value where a condition is needed is unknown
        ("5", ABSENT, None),
        ("'x'", ABSENT, None),
        ("a + 1", {"a": 1}, None),
        ("NULL", ABSENT, None),
        ("NOT 5", ABSENT, None),
        ("5 OR TRUE", ABSENT, True),
        ("5 AND FALSE", ABSENT, False),
        ("UTC()", ABSENT, None),
        # strings order by code point, binaries bytewise; booleans not at all
        ("a < 'b'", {"a": "a"}, True),
        ("a < b", {"a": "\uffff", "b": "😀"}, True),
        ("'Z' < 'a'", ABSENT, True),
        ("a <= 0xFF", {"a": {"binary": "0a"}}, True),
        ("0x0A01 > 0x0A", ABSENT, True),
        ("TRUE > FALSE OR TRUE >= TRUE", ABSENT, False),
        ("a > 'x'", {"a": 5}, False),
        ("a > 0x00", {"a": "x"}, False),
        # both spellings of unequal
        ("a != 1 AND a <> 1", {"a": 2}, True),
        # division is floating, + joins two strings
        ("7 / 2 = 3.5 AND 6 / 3 = 2", ABSENT, True),
        ("a / 0 = 1", {"a": 1}, None),
        ("a / 0.0 = INF", {"a": 1}, True),
        ("-7 % 3 = -1", ABSENT, True),
        ("a % 0 = 1", {"a": 1}, None),
        ("a + b = 'xy'", {"a": "x", "b": "y"}, True),
        ("a + 'y' + 'z' = 'xyz'", {"a": "x"}, True),
        ("a + 1 = 2", {"a": "1"}, None),
        ("a - 'x' = 'y'", {"a": "x"}, None),
        ("a + b = 3", {"a": 1, "b": 2}, True),
        ("a + 0x01 = 1", {"a": {"binary": "01"}}, None),
        # constants
        ('a = "it\'s" AND b = \'say "x"\'', {"a": "it's", "b": 'say "x"'}, True),
        ('a = "say ""x"""', {"a": 'say "x"'}, True),
        ("a = NULL", {"a": 1}, None),
        ("NAN <> NAN AND NOT NAN = NAN", ABSENT, True),
        ("a < inf AND a > -Inf", {"a": 5}, True),
        ("a = 0xaBcD", {"a": {"binary": "abcd"}}, True),
        ("a = 0XAB", {"a": {"binary": "ab"}}, True),
        ("a = 0xABC", ABSENT, ERROR),
        ("a = 0x", ABSENT, ERROR),
        ("a = 0xG1", ABSENT, ERROR),
        ("a = 010", {"a": 10}, True),
        ("a = 08", {"a": 8}, True),
        ("a = .5 OR a = 5. OR a = 5E2", {"a": 500}, True),
        ("a = 5L", ABSENT, ERROR),
        ("a = 1.5f", ABSENT, ERROR),
        ("a = -009223372036854775808", {"a": -9223372036854775808}, True),
        # LIKE with expressions
        ("a LIKE b", {"a": "abc", "b": "a%"}, True),
        ("a NOT LIKE b", {"a": "abc"}, None),
        ("a LIKE b ESCAPE c", {"a": "a%", "b": "a!%", "c": "!"}, True),
        ("a LIKE b ESCAPE c", {"a": "ax", "b": "a!%", "c": "!"}, False),
        ("a LIKE b ESCAPE c", {"a": "a", "b": "a!", "c": "!"}, None),
        ("a LIKE 'a' ESCAPE c", {"a": "a", "c": "xy"}, None),
        ("a LIKE 'a' ESCAPE c", {"a": "a", "c": ""}, None),
        ("a LIKE 'a' ESCAPE c", {"a": "a", "c": 5}, None),
        ("a LIKE 'a' ESCAPE c", {"a": "a"}, None),
        ("a LIKE 5", {"a": "5"}, False),
        ("a NOT LIKE 5", {"a": "5"}, True),
        ("a LIKE LOWER('A%')", {"a": "abc"}, True),
        ("a LIKE 'x' + '%'", {"a": "xyz"}, True),
        ("a LIKE 'x' ESCAPE 5", ABSENT, ERROR),
        ("a LIKE 'x' ESCAPE NULL", ABSENT, ERROR),
        # IN with expressions
        ("a IN (1, 'x', b + 1)", {"a": 3, "b": 2}, True),
        ("a IN (1, b)", {"a": 2}, None),
        ("a NOT IN (2, b)", {"a": 2}, False),
        ("a NOT IN (1, b)", {"a": 2}, None),
        ("a + 1 IN (2)", {"a": 1}, True),
        ("a IN ('1')", {"a": 1}, False),
        ("a IN (NULL)", {"a": 1}, None),
        ("a IN ()", ABSENT, ERROR),
        # IS NULL and EXISTS take a property
        ("EXISTS(a)", {"a": 1}, True),
        ("NOT EXISTS(a)", {"a": None}, True),
        ("exists ( a ) and a is not null", {"a": False}, True),
        ("EXISTS('a')", ABSENT, ERROR),
        ("EXISTS((a))", ABSENT, ERROR),
        ("EXISTS(a + 1)", ABSENT, ERROR),
        ("EXISTS(a, b)", ABSENT, ERROR),
        ("5 IS NULL", ABSENT, ERROR),
        ("(a) IS NULL", ABSENT, ERROR),
        ("a + 1 IS NULL", ABSENT, ERROR),
        ("LOWER(a) IS NULL", ABSENT, ERROR),
        ("NULL IS NULL", ABSENT, ERROR),
        # there is no BETWEEN
        ("a BETWEEN 1 AND 2", ABSENT, ERROR),
        ("BETWEEN = 1", {"BETWEEN": 1}, True),
        # functions
        ("LOWER(a) = 'aé' AND UPPER(a) = 'AÉ'", {"a": "aÉ"}, True),
        ("UPPER('ß') = 'ß' AND LOWER('İΣ') = 'iσ'", ABSENT, True),
        ("LOWER(a) = '5'", {"a": 5}, None),
        ("LOWER(a) = 'x'", ABSENT, None),
        ("LEFT(a, 2) = 'a😀' AND RIGHT(a, 2) = '😀c'", {"a": "a😀c"}, True),
        ("LEFT(a, 0) = '' AND RIGHT(a, 0) = ''", {"a": "abc"}, True),
        ("LEFT(a, 9) = a AND RIGHT(a, 9) = a", {"a": "abc"}, True),
        ("LEFT(a, -1) = ''", {"a": "abc"}, None),
        ("LEFT(a, 1.0) = 'a'", {"a": "abc"}, None),
        ("LEFT(a, TRUE) = 'a'", {"a": "abc"}, None),
        ("SUBSTRING(a, 2, 1) = 'b'", {"a": "abc"}, True),
        ("SUBSTRING(a, 1, 99) = a AND SUBSTRING(a, 9, 1) = ''", {"a": "abc"}, True),
        ("SUBSTRING(a, 0, 1) = ''", {"a": "abc"}, None),
        ("SUBSTRING(a, 1, 9223372036854775807) = a", {"a": "abc"}, True),
        ("SUBSTRING(a, 9223372036854775807, 1) = ''", {"a": "abc"}, True),
        ("SUBSTRING(a, b, 1) = 'b'", {"a": "abc", "b": 2}, True),
        ("DATE(a) = 1577836800000", {"a": "2020-01-01"}, True),
        ("DATE(a) = 1577836800000", {"a": "2020-01-01T00:00:00"}, True),
        ("DATE(a) = 1577836800000", {"a": "2020-01-01T01:30:00.0009+01:30"}, True),
        ("DATE(a) = 1577836800000", {"a": "2020-13-01"}, None),
        ("DATE(a) = 1577836800000", {"a": "01.01.2020"}, None),
        ("DATE('2020-01-01') + 1 > DATE('2020-01-01')", ABSENT, True),
        (f"UTC() = {CLOCK_MS}", ABSENT, True),
        ("UTC(1) = 0", ABSENT, ERROR),
        ("UTC = 1", ABSENT, ERROR),
        ("LEFT(a) = 'x'", ABSENT, ERROR),
        ("LOWER() = 'x'", ABSENT, ERROR),
        ("NOSUCH(a) = 1", ABSENT, ERROR),
        # delimited names, and names that are reserved
        ("[a b] = 1 AND []]] = 2 AND [[[] = 3 AND [] = 4", {"a b": 1, "]": 2, "[": 3, "": 4}, True),
        ("[left] = 1 AND [And] = 2", {"left": 1, "And": 2}, True),
        ("left = 1", ABSENT, ERROR),
        ("nan = 1", {"nan": 1}, False),
        ("_a = 1", ABSENT, ERROR),
        ("a$ = 1", ABSENT, ERROR),
        ("é = 1", ABSENT, ERROR),
        ("[a = 1", ABSENT, ERROR),
        # nested references
        ("tags[0] = 'a' AND tags[n] = 'b' AND tags[2][1] = 8", NESTED, True),
        ("tags[3] IS NULL AND tags[-1] IS NULL AND tags['0'] IS NULL AND tags[1.0] IS NULL", NESTED, True),
        ("tags[TRUE] IS NULL AND tags[missing] IS NULL", NESTED, True),
        ("tags [1] = 'b'", NESTED, True),
        ("map.k = 1 AND map['k'] = 1 AND map.[0] = 2 AND map[LEFT('kk', 1)] = 1", NESTED, True),
        ("map.n IS NULL AND map.nosuch IS NULL AND map[0] IS NULL AND map.k.x IS NULL", NESTED, True),
        ("text[0] IS NULL AND nosuch.x IS NULL AND n.x IS NULL", NESTED, True),
        ("tags = 1 OR tags <> 1", NESTED, False),
        ("a.p.x = 5 AND [p].x = 5 AND p['x'] = 5", NESTED, True),
        ("map[0", NESTED, ERROR),
        ("map. = 1", NESTED, ERROR),
        ("map.left = 1", NESTED, ERROR),
        # blank text is an error
        ("", ABSENT, ERROR),
        (" \n", ABSENT, ERROR),
    ],
)
def test_rule_of_sql_filters(text: str, properties: dict[str, Any], expected: Any) -> None:
    check("amqp-sql", text, properties, expected)


SECTIONS = {
    "header": {"durable": True, "priority": 7, "ttl": 60},
    "properties": {"subject": "s", "content_type": "c", "creation_time": 5},
    "application_properties": {
        "k": "app",
        "h": 1,
        "v": 2,
        "s": 3,
        "amqp_value": 4,
        "amqp": 9,
        "value": 2,
        "H": {"x": 1},
    },
    "message_annotations": {"k": "msg", "x-opt": 5},
    "delivery_annotations": {"k": "del"},
    "footer": {"k": "foot"},
    "amqp_value": {"map": {"k": "val", "l": [1, {"x": "y"}]}},
    "amqp_sequence": {"list": ["one", 2]},
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("header.priority = 7 AND h.priority = 7", True),
        ("properties.subject = 's' AND p.subject = 's' AND p.[subject] = 's'", True),
        ("application_properties.k = 'app' AND application-properties.k = 'app' AND a.k = 'app' AND k = 'app'", True),
        ("message_annotations.k = 'msg' AND message-annotations.k = 'msg' AND m.k = 'msg' AND m.[x-opt] = 5", True),
        ("delivery_annotations.k = 'del' AND delivery-annotations.k = 'del' AND d.k = 'del'", True),
        ("footer.k = 'foot' AND f.k = 'foot'", True),
        ("amqp_value.k = 'val' AND amqp-value.k = 'val' AND v.k = 'val' AND v.l[1].x = 'y'", True),
        ("amqp_sequence[0] = 'one' AND s.x IS NULL AND amqp_sequence[2] IS NULL", True),
        ("amqp_value['k'] = 'val' AND EXISTS(amqp_value) AND EXISTS(amqp_sequence)", True),
        ("amqp_value = 4 OR amqp_value <> 4", False),
        ("h = 1 AND v = 2 AND s = 3 AND [amqp_value] = 4", True),
        ("amqp - value = 7", True),
        ("amqp-value = 7", ERROR),  # neither a section nor, at a glance, a subtraction
        ("amqp-sequence[0] = 'one'", ERROR),
        ("application-properties = 5", ERROR),
        ("v.amqp-value = 5", ERROR),
        ("amqp-values = 7", None),  # a subtraction of other names
        ("H.x = 1", True),  # section names are case-sensitive
        ("p . subject = 's'", True),
        ("h.first_acquirer = FALSE AND h.delivery_count = 0 AND NOT EXISTS(p.group_id)", True),
        ("h.nosuch = 1", ERROR),
        ("p.nosuch IS NULL", ERROR),
        ("properties.[content-type] = 'c'", ERROR),
        ("p.content-type = 'c'", ERROR),
        ("m.[content-type] IS NULL AND v.[content-type] IS NULL", True),
        ("p.subject.x IS NULL", True),
        ("p.creation_time = 5 AND p.creation_time + 1 = 6", True),
    ],
)
def test_sections(text: str, expected: Any) -> None:
    """Seed 002: property references; a section name before a dot is always the section."""
    check_message("amqp-sql", text, SECTIONS, expected)


@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        ("amqp-value = 5", 1, "write amqp_value for the section, `amqp - value` for a subtraction"),
        ("TRUE = amqp-sequence[0]", 8, "write amqp_sequence for the section"),
        ("message-annotations['x'] = 1", 1, "write message-annotations.<name> for the section"),
        ("v.amqp-value = 5", 3, "write [amqp-value] for the name"),
        ("p.message-id = 'x'", 1, "did you mean message_id?"),
        ("h.[delivery-count] = 1", 1, "did you mean delivery_count?"),
    ],
)
def test_what_to_write_for_a_name_with_a_hyphen(text: str, place: int, hint: str) -> None:
    with pytest.raises(FilterError) as refusal:
        parse(text, "amqp-sql")
    assert refusal.value.column == place
    assert hint in (refusal.value.hint or "")
