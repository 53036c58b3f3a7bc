"""What `filter check` and `filter test` report, as data and on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from bindery.cli.filter import app
from bindery.router.errors import FilterError
from bindery.router.filters import evaluate, parse
from bindery.router.filters.description import describe
from bindery.router.filters.trace import Trace, trace
from bindery.router.message import Message
from tests.unit.filters.generators import filter_texts, messages
from tests.unit.filters.rules import WORDED


def traced(text: str, properties: dict[str, Any], dialect: str = "jms") -> Trace:
    return trace(parse(text, dialect), Message.from_json({"application_properties": properties}))


def find(item: Trace, text: str) -> Trace:
    """The first sub-expression with this text."""
    pending = [item]
    while pending:
        current = pending.pop(0)
        if current.text == text:
            return current
        pending += current.parts
    raise AssertionError(f"no sub-expression {text!r}")


@pytest.mark.parametrize(
    ("text", "properties", "part", "shown", "why"),
    [
        ("a = '5'", {"a": 5}, "a = '5'", "false", "an integer and a string never compare true"),
        ("a = 5", {}, "a = 5", "unknown", "a is missing"),
        ("a < b + 1", {"a": 1}, "a < b + 1", "unknown", "b is missing"),
        ("a = b", {}, "a = b", "unknown", "a and b are missing"),
        ("a = 5", {}, "a", "null", "no application_properties.a"),
        ("a", {"a": "x"}, "a", "unknown", "a string is no condition"),
        ("NOT a", {}, "NOT a", "unknown", "NOT of unknown"),
        ("a / 0 = 1", {"a": 1}, "a / 0", "null", "divided by zero"),
        ("a + 1 = 1", {"a": 2**63 - 1}, "a + 1", "null", "64 bits"),
        ("a + 1 = 1", {"a": "x"}, "a + 1", "null", "a string is no number"),
        ("a + 1 = 1", {"a": "x"}, "a + 1 = 1", "unknown", "a string is no number"),
        ("a < b", {"a": "x", "b": "y"}, "a < b", "false", "no order"),
        ("a LIKE 'x'", {"a": 5}, "a LIKE 'x'", "false", "no string"),
        ("JMSPriority = 4", {}, "JMSPriority", "4", "default"),
        ("JMSRedelivered", {}, "JMSRedelivered", "false", "header.delivery_count"),
    ],
)
def test_a_trace_says_why(text: str, properties: dict[str, Any], part: str, shown: str, why: str) -> None:
    item = find(traced(text, properties), part)
    assert item.shown == shown
    assert why in item.why


@pytest.mark.parametrize("dialect", WORDED)
@given(data=st.data())
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_trace_of_anything_has_the_result_and_is_json(dialect: str, data: st.DataObject) -> None:
    try:
        item = parse(data.draw(filter_texts(dialect)), dialect)
    except FilterError:
        return
    message = data.draw(messages)
    found = trace(item, message)
    assert found.value is evaluate(item, message)
    json.dumps(found.as_data())
    json.dumps(describe(item))


def test_a_trace_names_what_a_field_is_derived_from() -> None:
    found = trace(parse("AMQAddress = 'q'", "artemis"), Message(routing_key="q"))
    assert found.value is True
    assert "derived from properties.to and exchange and routing_key" in json.dumps(found.as_data())


def test_describe_lists_properties_and_types() -> None:
    report = describe(parse("AMQAddress = 'x' and JMSPriority > 1 or AMQPrioritty = 1", "artemis"))
    assert report["normal_form"] == "AMQAddress = 'x' AND JMSPriority > 1 OR AMQPrioritty = 1"
    assert report["properties"][:2] == ["properties.to", "exchange"]
    assert report["expressions"][0]["type"] == "boolean"


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def test_check_prints_the_normal_form() -> None:
    result = run("check", "a=1 and(b)", "--dialect", "jms")
    assert result.exit_code == 0
    assert "a = 1 AND b" in result.stdout
    assert "application_properties.a, application_properties.b" in result.stdout


def test_check_points_at_an_error() -> None:
    result = run("check", "a == 1", "--dialect", "jms")
    assert result.exit_code == 2
    assert "    ^^" in result.stderr
    as_json = run("check", "a == 1", "--dialect", "jms", "--json")
    assert as_json.exit_code == 2
    assert json.loads(as_json.stdout)["error"]["column"] == 3


@pytest.mark.parametrize(("value", "code", "shown"), [(6, 0, "true"), (4, 1, "false"), (None, 1, "unknown")])
def test_test_exits_by_the_result(tmp_path: Path, value: object, code: int, shown: str) -> None:
    path = tmp_path / "message.json"
    path.write_text(json.dumps({"application_properties": {"a": value}}), "utf-8")
    result = run("test", "a > 5", "--dialect", "jms", "--message", str(path))
    assert (result.exit_code, result.stdout.splitlines()[0].rpartition(": ")[2]) == (code, shown)
    as_json = json.loads(run("test", "a > 5", "--dialect", "jms", "--message", str(path), "--json").stdout)
    assert as_json["passes"] is (code == 0)
    assert as_json["trace"]["parts"][0]["text"] == "a"


@pytest.mark.parametrize("content", ["not json", "[]", '{"nosuch": 1}', '{"header": {"priority": "x"}}', None])
def test_an_unreadable_message_is_bad_input(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "message.json"
    if content is not None:
        path.write_text(content, "utf-8")
    assert run("test", "a > 5", "--dialect", "jms", "--message", str(path)).exit_code == 2
