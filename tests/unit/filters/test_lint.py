"""Each lint rule finds its example and not what should stand instead; the places are right; nothing blocks."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bindery.router.columns import BatchView, Ref
from bindery.router.errors import FilterError
from bindery.router.filters import DIALECTS, Filter, evaluate, parse
from bindery.router.filters.lint import RULES, Finding, ObservedSchema, lint
from bindery.router.filters.lint.truths import possible
from bindery.router.filters.sets import parse_filter_set_text
from bindery.router.message import Message, to_batch
from bindery.router.values import Table

DOCUMENT = Path(__file__).parents[3] / "docs" / "lint.md"
SAMPLE = ObservedSchema(
    200,
    {
        Ref("application_properties", "color"): {"string": 200},
        Ref("application_properties", "price"): {"string": 150, "number": 50},
        Ref("application_properties", "weight"): {"string": 120},
    },
)


def read(dialect: str, text: str) -> Filter:
    return parse_filter_set_text(text) if dialect == "filter-set" else parse(text, dialect)


def codes(found: list[Finding]) -> set[str]:
    return {finding.code for finding in found}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_rule_finds_its_example(rule) -> None:  # type: ignore[no-untyped-def]  # a rule
    assert rule.code in codes(lint(read(*rule.example), schema=SAMPLE))
    if rule.instead is not None:
        assert rule.code not in codes(lint(read(*rule.instead), schema=SAMPLE))


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_the_example_and_the_languages_of_a_rule_are_documented(rule) -> None:  # type: ignore[no-untyped-def]  # a rule
    section = DOCUMENT.read_text("utf-8").split(f"\n### {rule.code} ")[1].split("\n### ")[0]
    assert rule.example[1] in section
    assert f"*{rule.severity}; {', '.join(sorted(rule.dialects))}*" in section


@pytest.mark.parametrize(
    ("dialect", "text", "code", "place"),
    [
        ("jms", "x = 1 AND price > 10 AND price < 5", "BF101", "x = 1 AND price > 10 AND price < 5"),
        ("jms", "x = 1 OR (price > 10 AND price < 5)", "BF101", "price > 10 AND price < 5"),
        ("jms", "x = 1 AND 'a' = 'b'", "BF101", "'a' = 'b'"),
        ("jms", "x = 1 AND 1 = 1", "BF102", "1 = 1"),
        ("jms", "a = 1 AND JMSPriority IS NULL", "BF101", "JMSPriority IS NULL"),
        ("jms", "a BETWEEN 9 AND 1", "BF101", "a BETWEEN 9 AND 1"),
        ("jms", "a = 1 AND a IS NULL", "BF101", "a = 1 AND a IS NULL"),
        ("jms", "a IS NULL OR a IS NOT NULL", "BF102", "a IS NULL OR a IS NOT NULL"),
        ("jms", "JMSDeliveryMode = 'persistent'", "BF101", "JMSDeliveryMode = 'persistent'"),
        ("jms", "JMSPriority LIKE '4%'", "BF106", "JMSPriority LIKE '4%'"),
        ("artemis", 'x = 1 OR colour = "red"', "BF103", '"red"'),
        ("artemis", "x = 1 AND NOT y = 2", "BF105", "NOT y = 2"),
        ("artemis", "NOT x IN ('a', 'b')", "BF105", "NOT x IN ('a', 'b'"),
        ("amqp-sql", "a = 1 and b = 2", "BF207", "and"),
        ("jms", "a = 1 - - 2", "BF107", "- -"),
        ("jms", "jmspriority = 4", "BF110", "jmspriority"),
        ("jms", "Color = 'a' AND color = 'b'", "BF110", "color"),
        ("jms", "c\u043elor = 'a'", "BF110", "c\u043elor"),
        ("jms", "AMQPriority = 4", "BF109", "AMQPriority"),
        ("amqp-sql", "JMSPriority = 4", "BF109", "JMSPriority"),
        ("jms", "colour NOT LIKE 'a%'", "BF108", "colour NOT LIKE 'a%'"),
        ("jms", "NOT (a = 1 OR b = 2)", "BF108", "NOT (a = 1 OR b = 2"),
    ],
)
def test_places(dialect: str, text: str, code: str, place: str) -> None:
    found = [finding for finding in lint(parse(text, dialect)) if finding.code == code]
    assert place in [text[finding.offset : finding.offset + finding.length] for finding in found]


@pytest.mark.parametrize(
    ("dialect", "text", "code"),
    [
        ("jms", "TRUE", "BF102"),
        ("jms", "", "BF102"),
        ("jms", "FALSE", "BF101"),
        ("jms", "a = 1 OR a <> 1", "BF102"),  # unknown without a
        ("jms", "a = 1 AND b = 2", "BF101"),
        ("jms", "a >= 5 AND a <= 5", "BF101"),
        ("jms", "a = 5 AND a = 5.0", "BF101"),
        ("artemis", "convert_string_expressions:AMQPriority = '4'", "BF106"),
        ("artemis", "NOT (x = 1)", "BF105"),
        ("artemis", "x IS NOT NULL", "BF105"),
        ("jms", "colour <> 'red' OR colour IS NULL", "BF108"),
        ("jms", "JMSPriority <> 4", "BF108"),  # never missing: it has a default
        ("jms", "a - 1 = 2", "BF107"),
        ("jms", "a NOT BETWEEN 9 AND 1", "BF101"),
        ("artemis", "\"a b\" = 'x'", "BF103"),
        ("amqp-sql", "a.priority > 4", "BF117"),
    ],
)
def test_no_false_alarm(dialect: str, text: str, code: str) -> None:
    assert code not in codes(lint(parse(text, dialect)))


def test_the_sample_tells_what_properties_hold() -> None:
    found = {finding.code: finding.message for finding in lint(parse("weight > 5", "jms"), schema=SAMPLE)}
    assert found["BF106"] == "weight was seen as string (120 messages), never as a number"
    assert "BF106" not in codes(lint(parse("price > 5", "jms"), schema=SAMPLE))
    assert "BF106" not in codes(lint(parse("weight > 5", "jms")))
    colour = {finding.code: finding.message for finding in lint(parse("colour = 'a'", "jms"), schema=SAMPLE)}
    assert colour["BF113"] == "none of 200 sampled messages has the property colour"
    assert colour["BF110"] == "did you mean color?"


def test_the_sample_is_taken_from_messages() -> None:
    batch = to_batch(
        [
            Message(application_properties=Table({"a": 1, "b": "x"})),
            Message(application_properties=Table({"a": 1.5, "b": None}), amqp_value="t"),
            Message(application_properties=Table({"a": "y"})),
        ]
    )
    sample = ObservedSchema.of(BatchView(batch))
    assert sample.messages == 3
    assert sample.families[Ref("application_properties", "a")] == {"number": 2, "string": 1}
    assert sample.families[Ref("application_properties", "b")] == {"string": 1}
    assert sample.families[Ref("amqp_value")] == {"string": 1}
    assert sorted(sample.properties) == ["a", "b"]


def test_filter_sets_are_looked_into() -> None:
    raw = {
        "g": {
            "descriptor": "amqp:any-filter",
            "value": [
                {"descriptor": "apache.org:selector-filter:string", "value": "a = 1 AND a = 2"},
                {"descriptor": "amqp:footer-filter", "value": {"k": 1}},
            ],
        }
    }
    found = {(finding.code, finding.where) for finding in lint(parse_filter_set_text(json.dumps(raw)))}
    assert ("BF101", "g.value[0].value") in found
    assert ("BF214", "filter set") in found


def test_findings_are_data() -> None:
    (finding,) = [one for one in lint(parse("x = 10 --5", "jms")) if one.code == "BF107"]
    assert json.loads(json.dumps(finding.as_data())) == {
        "code": "BF107",
        "severity": "warning",
        "title": "Leftover signs",
        "message": "`--`: two signs in a row; there are no comments in filters",
        "explanation": RULES["BF107"].explanation,
        "offset": 7,
        "length": 2,
        "anchor": "docs/lint.md#bf107",
        "where": None,
    }


_WORDS = st.sampled_from(
    [
        "a",
        "b",
        "1",
        "2.5",
        "'x'",
        "'%'",
        "=",
        "<>",
        "<",
        ">",
        "AND",
        "OR",
        "NOT",
        "(",
        ")",
        "IS",
        "NULL",
        "IN",
        "LIKE",
        "BETWEEN",
        "+",
        "-",
        "/",
        "TRUE",
        "JMSPriority",
        "JMSType",
        ",",
        '"b"',
    ]
)
_VALUES = st.sampled_from([None, 1, 2.5, "x", True])


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(DIALECTS)), st.lists(_WORDS, min_size=1, max_size=9).map(" ".join))
def test_lint_never_fails_and_never_claims_too_much(dialect: str, text: str) -> None:
    try:
        item = parse(text, dialect)
    except FilterError:
        return
    for finding in lint(item, schema=SAMPLE):
        assert 0 <= finding.offset <= finding.offset + finding.length <= len(text)
    claimed = possible(item.expression)
    for a, b, kind in itertools.product([None, 1, 2, 2.5, "x", True], [None, 1, "x"], [None, "x", 5]):
        properties = {name: value for name, value in (("a", a), ("b", b)) if value is not None}
        annotations = {} if kind is None else {"jms-type": kind}
        message = Message(application_properties=Table(properties), message_annotations=Table(annotations))
        assert evaluate(item, message) in claimed
