"""`bindery lint` and `bindery rule`: selection, places, formats, fixes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator
from typer.testing import CliRunner, Result

from bindery.cli.main import app
from bindery.router.analysis import RULES
from bindery.router.errors import InvalidInput

DOCUMENT = """{
  "rabbit_version": "3.10.8",
  "exchanges": [
    {"name": "x", "vhost": "/", "type": "topic", "durable": true, "auto_delete": false, "arguments": {}},
    {"name": "h", "vhost": "/", "type": "headers", "durable": true, "auto_delete": false, "arguments": {}}],
  "queues": [{"name": "q", "vhost": "/", "durable": true, "arguments": {}},
             {"name": "unbound", "vhost": "/", "durable": true, "arguments": {}}],
  "bindings": [
    {"source": "x", "vhost": "/", "destination": "q", "destination_type": "queue", "routing_key": "a.#",
     "arguments": {}},
    {"source": "x", "vhost": "/", "destination": "q", "destination_type": "queue", "routing_key": "a.b",
     "arguments": {}},
    {"source": "h", "vhost": "/", "destination": "q", "destination_type": "queue", "routing_key": "",
     "arguments": {"x-match": "all", "a": 1}},
    {"source": "h", "vhost": "/", "destination": "q", "destination_type": "queue", "routing_key": "",
     "arguments": {"x-match": "any"}}
  ]
}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "my definitions.json"
    found.write_text(DOCUMENT)
    return found


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def codes(*arguments: str | Path) -> dict[str, int]:
    found: dict[str, int] = json.loads(run("lint", *arguments, "--json").stdout)["totals"]
    return found


def test_findings_have_the_line_of_their_object(file: Path) -> None:
    found = json.loads(run("lint", file, "--format", "json").stdout)["findings"]
    assert {(one["code"], one["file"], one["line"]) for one in found} == {
        ("BT112", str(file), 15),
        ("BT101", str(file), 11),
        ("BT120", str(file), 7),
    }
    done = run("lint", file)
    assert done.exit_code == 1
    assert f"{file}:11: binding x -> q [a.b] (id 2): accepts only what" in done.stdout
    assert done.stdout.splitlines()[-1] == "3 found: 1 error, 1 warning, 1 info"


def test_codes_are_selected_and_ignored_by_their_beginnings(file: Path) -> None:
    assert codes(file, "--select", "BT101") == {"BT101": 1}
    assert codes(file, "--select", "bt11,BT12") == {"BT112": 1, "BT120": 1}
    assert codes(file, "--ignore", "BT1") == {}
    assert codes(file, "--select", "BT1", "--ignore", "BT11,BT12") == {"BT101": 1}
    assert codes(file, "--ignore", "BT1", "--select", "BT112") == {"BT112": 1}, "the longer one counts"
    assert run("lint", file, "--ignore", "BT112").exit_code == 0
    for option in ("--select", "--ignore"):
        done = run("lint", file, option, "BF101")
        assert isinstance(done.exception, InvalidInput)
        assert (done.exception.message, done.exception.where) == ("no rule 'BF101'", option)


def test_what_decides_nothing_is_taken_out(file: Path, tmp_path: Path) -> None:
    mended = tmp_path / "mended.json"
    assert run("lint", file, "--fix", "--output", mended).exit_code == 1, "an error is left"
    before, after = json.loads(DOCUMENT), json.loads(mended.read_text())
    assert after.pop("bindings") == [one for one in before.pop("bindings") if one["routing_key"] != "a.b"]
    assert after == before
    done = run("lint", file, "--fix", "--ignore", "BT101")
    assert json.loads(done.stdout) == json.loads(DOCUMENT)
    assert "BT112" in done.stderr
    assert isinstance(run("lint", file, "--output", mended).exception, InvalidInput)


def test_the_change_for_a_data_directory_is_applied_and_lint_is_clean_of_it(file: Path, tmp_path: Path) -> None:
    at = ("--data", tmp_path / "data")
    assert run("import", file, *at).exit_code == 0
    assert codes(*at) == {"BT101": 1, "BT112": 1, "BT120": 1}
    change = tmp_path / "change.json"
    run("lint", *at, "--fix", "--output", change)
    assert json.loads(change.read_text()) == {"delete": {"bindings": [2]}}
    assert run("apply", change, *at, "--dry-run").exit_code == 0
    assert codes(*at)["BT101"] == 1, "a dry run changes nothing"
    done = run("apply", change, *at)
    assert done.exit_code == 0, done.output
    assert codes(*at) == {"BT112": 1, "BT120": 1}
    # what is left has nothing to be mended: the change is empty, and applies, too
    run("lint", *at, "--fix", "--output", change)
    assert json.loads(change.read_text()) == {"delete": {"bindings": []}}
    assert run("apply", change, *at).exit_code == 0


def test_a_comment_says_that_something_is_meant_so(tmp_path: Path) -> None:
    file = tmp_path / "d.yaml"

    def totals(first: str = "", above: str = "") -> dict[str, int]:
        file.write_text(
            f"""exchanges:
  - {{name: x, type: topic, durable: true}}
queues:
  - {{name: q, durable: true}}
bindings:
  - {{source: x, destination: q, destination_type: queue, routing_key: "a.#"}}
{above}
  - source: x  {first}
    destination: q
    destination_type: queue
    routing_key: a.b
"""
        )
        return codes(file)

    assert totals() == {"BT101": 1}
    for comment in (
        "# bindery: ignore",
        "# bindery: ignore BT101",
        "#bindery:ignore bt2,BT1",
        "# so. # bindery: ignore BT",
    ):
        assert totals(first=comment) == totals(above=f"  {comment}") == {}, comment
    for other in ("# bindery: ignore BT102,", "# ignore BT101", "# bindery: ignored"):
        assert totals(first=other) == {"BT101": 1}, other
    found = json.loads(run("lint", file, "--json").stdout)["findings"]
    assert found[0]["line"] == 8
    assert len(json.loads(run("lint", file, "--fix").stdout)["bindings"]) == 1


#: What SARIF 2.1.0 requires of the parts that are given (§3.13 to §3.30), and the values that are listed there.
_TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
_LOCATION = {
    "type": "object",
    "properties": {
        "physicalLocation": {
            "required": ["artifactLocation"],
            "properties": {
                "artifactLocation": {"properties": {"uri": {"format": "uri-reference"}}, "required": ["uri"]},
                "region": {"properties": {"startLine": {"type": "integer", "minimum": 1}}},
            },
        },
        "logicalLocations": {"type": "array", "minItems": 1},
    },
}
_SARIF: Any = {
    "type": "object",
    "required": ["version", "runs", "$schema"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "items": {
                "required": ["tool", "results"],
                "properties": {
                    "tool": {
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "required": ["name", "rules"],
                                "properties": {
                                    "rules": {
                                        "uniqueItems": True,
                                        "items": {
                                            "required": ["id"],
                                            "properties": {
                                                "shortDescription": _TEXT,
                                                "fullDescription": _TEXT,
                                                "help": _TEXT,
                                            },
                                        },
                                    }
                                },
                            }
                        },
                    },
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "results": {
                        "items": {
                            "required": ["message", "ruleId"],
                            "properties": {
                                "message": _TEXT,
                                "level": {"enum": ["none", "note", "warning", "error"]},
                                "locations": {"items": _LOCATION},
                                "relatedLocations": {"items": _LOCATION},
                            },
                        }
                    },
                },
            },
        },
    },
}


def test_findings_as_sarif(file: Path) -> None:
    shown = json.loads(run("lint", file, "--format", "sarif").stdout)
    assert list(Draft202012Validator(_SARIF, validate_formats=True).iter_errors(shown)) == []
    (made,) = shown["runs"]
    rules = made["tool"]["driver"]["rules"]
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in made["results"])
    levels = {result["ruleId"]: result["level"] for result in made["results"]}
    assert levels == {"BT112": "error", "BT101": "warning", "BT120": "note"}
    (shadowed,) = (result for result in made["results"] if result["ruleId"] == "BT101")
    place = shadowed["locations"][0]["physicalLocation"]
    assert place["region"] == {"startLine": 11}
    assert place["artifactLocation"]["uri"].endswith("my%20definitions.json")
    assert shadowed["relatedLocations"][0]["physicalLocation"]["region"] == {"startLine": 9}


def test_the_page_of_a_rule() -> None:
    for rule in RULES.values():
        shown = run("rule", rule.code.lower()).stdout
        assert shown.startswith(f"{rule.code} {rule.title} ({rule.severity})\n")
        assert f"What to do: {rule.remedy}" in shown
    assert "Example: JMSPriorty > 4" in run("rule", "BF110").stdout
    listed = run("rule").stdout.splitlines()
    assert "BT101  warning  shadowed binding" in listed
    assert {"BT199", "BF101"} <= {line.split()[0] for line in listed}
    assert {one["code"] for one in json.loads(run("rule", "--json").stdout)} >= {"BT101", "BF216"}
    assert json.loads(run("rule", "BT199", "--json").stdout)["severity"] == "info"
    wrong = run("rule", "BT1O1").exception
    assert isinstance(wrong, InvalidInput)
    assert "did you mean BT1" in str(wrong.hint)
