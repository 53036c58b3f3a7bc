"""JMS selectors and what the Apache selector filter adds (JMS 2.0 §3.8.1; seeds 000 and 001)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.filters.rules import ERROR, check, check_message

SELECTORS = ("jms", "apache-selector", "artemis")
ABSENT: dict[str, Any] = {}


@pytest.mark.parametrize("dialect", SELECTORS)
@pytest.mark.parametrize(
    ("text", "properties", "expected"),
    [
        # integer division truncates, the remainder belongs to artemis
        ("7 / 2 = 3", ABSENT, True),
        ("-7 / 2 = -3", ABSENT, True),
        ("7 / 2.0 = 3.5", ABSENT, True),
        ("a / -1 = 1", {"a": -9223372036854775808}, None),
        # no joining of strings
        ("a + b = 'xy'", {"a": "x", "b": "y"}, None),
        # strings and booleans have no order; a literal of theirs cannot be ordered at all
        ("a < b OR a >= b", {"a": "a", "b": "b"}, False),
        ("a < b OR a >= b", {"a": {"binary": "00"}, "b": {"binary": "01"}}, False),
        ("a > 'x'", ABSENT, ERROR),
        ("TRUE < a", ABSENT, ERROR),
        ("a BETWEEN 'a' AND 'b'", ABSENT, ERROR),
        ("'a' BETWEEN 1 AND 2", ABSENT, ERROR),
        ("a BETWEEN 1 AND FALSE", ABSENT, ERROR),
        ("('x') < a", ABSENT, ERROR),
        ("(a = 1) < b", ABSENT, ERROR),
        ("a BETWEEN (b = 1) AND 2", ABSENT, ERROR),
        ("(a = 1) + 1 = 2", ABSENT, ERROR),
        ("-(a = 1) = 2", ABSENT, ERROR),
        # BETWEEN
        ("a BETWEEN 1 AND 3", {"a": 3}, True),
        ("a BETWEEN 3 AND 1", {"a": 2}, False),
        ("a NOT BETWEEN 1 AND 3", {"a": 4}, True),
        ("a BETWEEN b AND 3", {"a": 4}, False),
        ("a BETWEEN b AND 3", {"a": 2}, None),
        ("a NOT BETWEEN b AND 3", {"a": 4}, True),
        ("a BETWEEN 1 AND 3", {"a": "2"}, False),
        ("a NOT BETWEEN 1 AND 3", {"a": "2"}, False),
        ("NOT a BETWEEN 1 AND 3", {"a": "2"}, True),
        ("a NOT BETWEEN 1 AND 3", {"a": {"decimal": "NaN"}}, False),
        ("a BETWEEN 1 AND 1 + 2 AND b", {"a": 3, "b": True}, True),
        ("a + 1 BETWEEN 1 AND 3", {"a": 2}, True),
        # values where a condition is needed
        ("5", ABSENT, ERROR),
        ("'x'", ABSENT, ERROR),
        ("a + 1", ABSENT, ERROR),
        ("-a", ABSENT, ERROR),
        ("a AND 5", ABSENT, ERROR),
        ("NOT 'x'", ABSENT, ERROR),
        ("a OR (1 + 1)", ABSENT, ERROR),
        ("TRUE", ABSENT, True),
        ("(FALSE)", ABSENT, False),
        ("(a) AND ((b))", {"a": True, "b": True}, True),
        # LIKE takes string literals as pattern and escape, IN a property and string literals
        ("a LIKE b", ABSENT, ERROR),
        ("a LIKE 5", ABSENT, ERROR),
        ("a LIKE ('x')", ABSENT, ERROR),
        ("a LIKE 'x' ESCAPE b", ABSENT, ERROR),
        ("a LIKE 'x' ESCAPE 5", ABSENT, ERROR),
        ("(a = 1) LIKE 'x'", ABSENT, ERROR),
        ("'abc' LIKE 'a%'", ABSENT, True),
        ("5 LIKE '5'", ABSENT, False),
        ("a + 1 LIKE '6'", {"a": 5}, False),
        ("'a' IN ('a')", ABSENT, ERROR),
        ("a + 1 IN ('a')", ABSENT, ERROR),
        ("a IN (1)", ABSENT, ERROR),
        ("a IN (b)", ABSENT, ERROR),
        ("a IN ()", ABSENT, ERROR),
        ("a IN 'x'", ABSENT, ERROR),
        ("a IN ('x',)", ABSENT, ERROR),
        ("a NOT IN ('x'", ABSENT, ERROR),
        # IS NULL takes anything but a literal
        ("5 IS NULL", ABSENT, ERROR),
        ("-5 IS NULL", ABSENT, ERROR),
        ("('x') IS NOT NULL", ABSENT, ERROR),
        ("TRUE IS NULL", ABSENT, ERROR),
        ("a + 1 IS NULL", ABSENT, True),
        ("a / 0 IS NULL", {"a": 1}, True),
        ("(a > 1) IS NULL", ABSENT, True),
        ("(a IS NULL) IS NULL", ABSENT, False),
        ("NULL IS NULL", ABSENT, ERROR),
        ("a = NULL", ABSENT, ERROR),
        ("NULL", ABSENT, ERROR),
        # literals of Java
        ("a = 0x1F", {"a": 31}, True),
        ("a = 0X1fL", {"a": 31}, True),
        ("a = 017", {"a": 15}, True),
        ("a = 00", {"a": 0}, True),
        ("a = 5l", {"a": 5}, True),
        ("a = 7.", {"a": 7}, True),
        ("a = .5", {"a": 0.5}, True),
        ("a = 7E3", {"a": 7000}, True),
        ("a = 7.e+3", {"a": 7000}, True),
        ("a = 1.5f", {"a": 1.5}, True),
        ("a = 7D", {"a": 7.0}, True),
        ("a = 0.1f", {"a": {"float": 0.1}}, True),
        ("a = 0.1d", {"a": 0.1}, True),
        ("a = 09.5", {"a": 9.5}, True),
        ("a = 08", ABSENT, ERROR),
        ("a = 0x", ABSENT, ERROR),
        ("a = 0x8000000000000000", ABSENT, ERROR),
        ("a = -0x8000000000000000", ABSENT, ERROR),
        ("a = 0x7FFFFFFFFFFFFFFF", {"a": 9223372036854775807}, True),
        ("a = 01000000000000000000000", ABSENT, ERROR),
        ("a = -01000000000000000000000", ABSENT, ERROR),
        ("a = 0777777777777777777777", {"a": 9223372036854775807}, True),
        ("a = -9223372036854775808L", {"a": -9223372036854775808}, True),
        ("a = 5.0L", ABSENT, ERROR),
        ("a = 'it''s'", {"a": "it's"}, True),
        ("a = ''''", {"a": "'"}, True),
        ("a = 'x", ABSENT, ERROR),
        ("a=1AND b=2", {"a": 1, "b": 2}, True),
        # Java identifiers
        ("größe = 1 AND цвет = 2 AND _x$1 = 3", {"größe": 1, "цвет": 2, "_x$1": 3}, True),
        ("€uro = 1", {"€uro": 1}, True),
        ("a² = 1", ABSENT, ERROR),
        ("1a = 1", ABSENT, ERROR),
        ("a.b = 1", ABSENT, ERROR),
        ("a\u00a0= 1", ABSENT, ERROR),
        # operators that are not
        ("a == 1", ABSENT, ERROR),
        ("a != 1", ABSENT, ERROR),
        ("a => 1", ABSENT, ERROR),
        ("a = 1 && b = 1", ABSENT, ERROR),
        ("a = 1;", ABSENT, ERROR),
        # a blank text is no filter
        ("", ABSENT, True),
        (" \t\r\n\f ", ABSENT, True),
    ],
)
def test_rule_of_selectors(dialect: str, text: str, properties: dict[str, Any], expected: Any) -> None:
    check(dialect, text, properties, expected)


FULL = {
    "header": {"durable": True, "priority": 7, "ttl": 60, "first_acquirer": True, "delivery_count": 2},
    "properties": {
        "message_id": "m",
        "user_id": "u",
        "to": "t",
        "subject": "s",
        "reply_to": "r",
        "correlation_id": 5,
        "content_type": "c",
        "content_encoding": "e",
        "absolute_expiry_time": 9,
        "creation_time": 8,
        "group_id": "g",
        "group_sequence": 3,
        "reply_to_group_id": "x",
    },
    "message_annotations": {"x-opt-jms-type": "new", "jms-type": "old"},
}


@pytest.mark.parametrize("dialect", ["jms", "apache-selector"])
@pytest.mark.parametrize(
    ("name", "full", "absent"),
    [
        ("JMSMessageID", "= 'm'", None),
        ("JMSCorrelationID", "= 5", None),
        ("JMSType", "= 'new'", None),
        ("JMSPriority", "= 7", "= 4"),
        ("JMSDeliveryMode", "= 'PERSISTENT'", "= 'NON_PERSISTENT'"),
        ("JMSTimestamp", "= 8", None),
        ("JMSDestination", "= 't'", None),
        ("JMSExpiration", "= 9", None),
        ("JMSRedelivered", "= TRUE", "= FALSE"),
        ("JMSReplyTo", "= 'r'", None),
        ("JMSXGroupID", "= 'g'", None),
        ("JMSXGroupSeq", "= 3", None),
        ("JMSXDeliveryCount", "= 3", "= 1"),
        ("JMSXUserID", "= 'u'", None),
    ],
)
def test_jms_headers_are_message_fields(dialect: str, name: str, full: str, absent: str | None) -> None:
    """Seeds 000 and 001: mapping JMS headers to AMQP fields."""
    check_message(dialect, f"{name} {full}", FULL, True)
    check_message(dialect, f"{name} IS NULL", {}, absent is None)
    if absent is not None:
        check_message(dialect, f"{name} {absent}", {}, True)
    # a property of the same name is never read
    check(dialect, f"{name} = 'property'", {name: "property"}, None if absent is None else False)


@pytest.mark.parametrize(
    ("text", "message", "expected"),
    [
        ("amqp.durable AND amqp.priority = 7 AND amqp.ttl = 60", FULL, True),
        ("amqp.first_acquirer AND amqp.delivery_count = 2", FULL, True),
        ("amqp.message_id = 'm' AND amqp.to = 't' AND amqp.subject = 's'", FULL, True),
        ("amqp.user_id IS NOT NULL AND amqp.user_id <> 'u'", FULL, False),
        ("amqp.content_type = 'c' AND amqp.content_encoding = 'e' AND amqp.reply_to = 'r'", FULL, True),
        ("amqp.absolute_expiry_time = 9 AND amqp.creation_time = 8", FULL, True),
        ("amqp.group_id = 'g' AND amqp.group_sequence = 3 AND amqp.reply_to_group_id = 'x'", FULL, True),
        ("amqp.jms_type = 'new' AND amqp.delivery_mode = 'PERSISTENT' AND amqp.redelivered", FULL, True),
        ("amqp.jms_type = 'old'", {"message_annotations": {"jms-type": "old"}}, True),
        ("amqp.durable = FALSE AND amqp.priority = 4 AND amqp.delivery_count = 0", {}, True),
        ("amqp.ttl IS NULL", {}, True),
        ("amqp.redelivered", {}, False),
        ("amqp = 1", {"application_properties": {"amqp": 1}}, True),
        ("amqp.nosuch = 1", {}, ERROR),
        ("amqp.Priority = 1", {}, ERROR),
        ("AMQP.priority = 1", {}, ERROR),
        ("amqp. = 1", {}, ERROR),
        ("amqp.priority.x = 1", {}, ERROR),
        ("amqp.body IS NULL", {}, ERROR),
        ("a.b = 1", {}, ERROR),
    ],
)
def test_apache_selectors_name_amqp_fields(text: str, message: dict[str, Any], expected: Any) -> None:
    """Seed 000: names are amqp.<field> with underscores."""
    check_message("apache-selector", text, message, expected)


def test_amqp_names_belong_to_the_apache_selector() -> None:
    check("jms", "amqp.priority = 4", {}, ERROR)
    check("artemis", "amqp.priority = 4", {}, ERROR)


@pytest.mark.parametrize(
    ("text", "message", "expected"),
    [
        ("AMQUserID = 'm'", FULL, True),
        ("AMQAddress = 't'", FULL, True),
        ("AMQAddress = 'x'", {"exchange": "x"}, True),
        ("AMQAddress = ''", {}, True),
        ("AMQAddress = 'x'", {"exchange": "x", "routing_key": "k"}, True),
        ("AMQAddress = 'k'", {"routing_key": "k"}, True),  # the default exchange: the queue that the key names
        ("AMQAddress = 't'", {"routing_key": "k", "properties": {"to": "t"}}, True),
        ("AMQAddress = ''", {"routing_key": "k", "properties": {"to": ""}}, True),
        ("AMQGroupID = 'g'", FULL, True),
        ("AMQPriority = 7", FULL, True),
        ("AMQPriority = 4", {}, True),
        ("AMQExpiration = 9", FULL, True),
        ("AMQExpiration = 0", {}, True),
        ("AMQExpiration = 9", {**FULL, "header": {"ttl": 5}}, True),
        ("AMQExpiration = 13", {"header": {"ttl": 5}, "properties": {"creation_time": 8}}, True),
        ("AMQExpiration = 0", {"properties": {"creation_time": 8}}, True),
        ("AMQExpiration = 8", {"header": {"ttl": 0}, "properties": {"creation_time": 8}}, True),
        ("AMQExpiration IS NULL", {"header": {"ttl": 5}}, True),
        ("AMQExpiration = 0", {"header": {"ttl": 5}}, None),
        (
            "AMQExpiration = 9223372036854775",
            {"header": {"ttl": 2**63 - 1}, "properties": {"creation_time": 8}},
            True,
        ),
        ("AMQDurable = 'DURABLE'", FULL, True),
        ("AMQDurable = 'NON_DURABLE'", {}, True),
        ("AMQTimestamp = 8", FULL, True),
        ("AMQTimestamp IS NULL", {}, True),
        ("AMQSize = 3", {"body": "aé"}, True),
        ("AMQSize = 0", {"amqp_value": "abc"}, True),
        ("AMQNosuch = 1", {"application_properties": {"AMQNosuch": 1}}, True),
        ("amqpriority = 1", {"application_properties": {"amqpriority": 1}}, True),
        ("JMSPriority = 1", {"application_properties": {"JMSPriority": 1}}, True),
        ("AMQUserID IS NULL", {"application_properties": {"AMQUserID": "u"}}, True),
        # quoted names
        ('"AMQPriority" = 7', FULL, True),
        ('"a b" = 1', {"application_properties": {"a b": 1}}, True),
        ('"a""b" = 1', {"application_properties": {'a"b': 1}}, True),
        ('"AND" AND "XPATH"', {"application_properties": {"AND": True, "XPATH": True}}, True),
        ("\"a\" IN ('x')", {"application_properties": {"a": "x"}}, True),
        ('"a', {}, ERROR),
        ("XPATH = 1", {}, ERROR),
        # remainder
        ("7 % 3 = 1 AND -7 % 3 = -1 AND 7 % -3 = 1", {}, True),
        ("a % 0 = 0", {"application_properties": {"a": 1}}, None),
        ("a % -1 = 0", {"application_properties": {"a": -9223372036854775808}}, True),
        ("5.5 % 2 = 1.5", {}, True),
        ("a % 0 <> a % 0", {"application_properties": {"a": 1.0}}, True),
        # XPATH
        ("XPATH '/a/b = 5' AND NOT XPATH '/a/c'", {"body": "<a><b>5</b></a>"}, True),
        ("XPATH '//['", {}, ERROR),
        ("(XPATH 'a') = TRUE", {"body": "<a/>"}, True),
        ("XPATH 'a' = TRUE AND TRUE = XPATH 'a' AND XPATH 'a' <> XPATH 'b'", {"body": "<a/>"}, True),
        ("XPATH 'a' = flag", {"body": "<a/>", "application_properties": {"flag": False}}, False),
        ("XPATH 'a' = flag", {"body": "<a/>"}, None),
        ("XPATH 'a' IS NULL", {}, False),
        ("NOT XPATH 'a' = FALSE", {}, False),
        ("XPATH 'a' = 1", {"body": "<a/>"}, False),
        ("XPATH 'a' > 1", {}, ERROR),
        ("XPATH 'a' + 1 = 2", {}, ERROR),
        ("- XPATH 'a' = 2", {}, ERROR),
        ("XPATH 'a' LIKE 'a'", {}, ERROR),
        ("XPATH 'a' IN ('a')", {}, ERROR),
        ("XPATH 'a' BETWEEN 1 AND 2", {}, ERROR),
    ],
)
def test_rule_of_artemis(text: str, message: dict[str, Any], expected: Any) -> None:
    """Seed 004: identifiers of core messages, quoted names, remainder, XPATH."""
    check_message("artemis", text, message, expected)


@pytest.mark.parametrize(
    ("text", "properties", "expected"),
    [
        ("convert_string_expressions:a > 18", {"a": "21"}, True),
        ("convert_string_expressions:a > 18", {"a": "x"}, False),
        ("convert_string_expressions:18 < a", {"a": "21"}, True),
        ("convert_string_expressions:a <> 5", {"a": "5.0"}, False),
        ("convert_string_expressions:a = 5", {"a": "5e0"}, True),
        ("convert_string_expressions:a = 5", {"a": ".5e1"}, True),
        ("convert_string_expressions:a = 5", {"a": "5."}, True),
        ("convert_string_expressions:a = 5", {"a": " 5"}, False),
        ("convert_string_expressions:a = 5", {"a": "5\n"}, False),
        ("convert_string_expressions:a = 5", {"a": "٥"}, False),
        ("convert_string_expressions:a = 5", {"a": ""}, False),
        ("convert_string_expressions:a = 9007199254740993", {"a": "9007199254740993"}, True),
        ("convert_string_expressions:a > 0 OR a < 0", {"a": "9223372036854775808"}, False),
        ("convert_string_expressions:a < 0", {"a": "-9223372036854775808"}, True),
        ("convert_string_expressions:a > 0 OR a < 0", {"a": "1e999"}, False),
        ("convert_string_expressions:a = TRUE", {"a": "tRuE"}, True),
        ("convert_string_expressions:a <> TRUE", {"a": "yes"}, False),
        ("convert_string_expressions:(b = 1) = a", {"a": "true", "b": 1}, True),
        ("convert_string_expressions:a", {"a": "true"}, None),
        ("convert_string_expressions:a = b", {"a": "1", "b": "1.0"}, False),
        ("convert_string_expressions:a < b", {"a": "1", "b": "2"}, False),
        ("convert_string_expressions:a = '5'", {"a": 5}, True),
        ("convert_string_expressions:a < '5'", {}, ERROR),
        ("convert_string_expressions:a BETWEEN '1' AND 5", {}, ERROR),
        ("convert_string_expressions:a BETWEEN 1 AND b", {"a": "2", "b": 3}, True),
        ("convert_string_expressions:a NOT BETWEEN 1 AND 3", {"a": "4"}, True),
        ("convert_string_expressions:-a = -5", {"a": "5"}, True),
        ("convert_string_expressions:-a = 5", {"a": "x"}, None),
        ("convert_string_expressions:a * 2 = 11.0", {"a": "5.5"}, True),
        ("convert_string_expressions:a + 1 = 6", {"a": "5"}, True),
        ("convert_string_expressions:a + 1 = 6", {"a": "x"}, None),
        ("convert_string_expressions:a IN ('5')", {"a": 5}, False),
        ("convert_string_expressions:a LIKE '5'", {"a": 5}, False),
        ("convert_string_expressions:", {}, True),
        ("convert_string_expressions: a = 5", {"a": "5"}, True),
        ("convert_string_expressions :a = 5", {}, ERROR),
        (" convert_string_expressions:a = 5", {}, ERROR),
        ("CONVERT_STRING_EXPRESSIONS:a = 5", {}, ERROR),
        ("hyphenated_props:a-b = 1", {"a-b": 1}, True),
        ("hyphenated_props:a-b = 1", {"a": 2, "b": 1}, None),
        ("hyphenated_props:a - b = 1", {"a": 2, "b": 1}, True),
        ("hyphenated_props:a -b = 1", {"a": 2, "b": 1}, True),
        ("hyphenated_props:5 -b = 4 AND -b = -1", {"b": 1}, True),
        ("hyphenated_props:a--b = 1", {"a--b": 1}, True),
        ("a-b = 1", {"a": 2, "b": 1}, True),
        ("hyphenated_props:convert_string_expressions:a-b > 4", {"a-b": "5"}, True),
        ("convert_string_expressions:hyphenated_props:a-b > 4", {"a-b": "5"}, True),
    ],
)
def test_prefixes_of_artemis(text: str, properties: dict[str, Any], expected: Any) -> None:
    """Seed 004: convert_string_expressions and hyphenated_props."""
    check("artemis", text, properties, expected)
