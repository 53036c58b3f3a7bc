"""`bindery filter check` and `test` for filter sets, with lint's remarks and a queue's messages."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from bindery.cli.filter import app
from bindery.store.commit import BatchCommitter
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from tests.unit.store.conftest import data, declare_queues, deliver, root, store

__all__ = ["data", "root", "store"]  # fixtures

SET = '{"f": {"descriptor": "amqp:properties-filter", "value": {"subject": "&s:EU", "to": "q"}}}'


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def codes(*arguments: str) -> set[str]:
    result = run("check", *arguments, "--json")
    assert result.exit_code == 0, result.output
    return {finding["code"] for finding in json.loads(result.output)["findings"]}


def test_remarks_are_shown_and_do_not_block() -> None:
    result = run("check", "NOT colour = 'red'", "--dialect", "artemis")
    assert result.exit_code == 0
    assert "BF105 info, column 1: write NOT (colour = 'red')" in result.output
    assert "docs/lint.md" in result.output


def test_the_language_is_jms_unless_another_is_named() -> None:
    """As with every other filter of the command line."""
    assert json.loads(run("check", "price > 5", "--json").output)["dialect"] == "jms"


def test_names_that_were_hardly_meant_are_noted() -> None:
    result = run("check", "JMSPriority > 1 or AMQPrioritty = 1", "--dialect", "artemis", "--json")
    assert json.loads(result.output)["notes"] == [
        "JMSPriority is an ordinary property in this language; the field is called AMQPriority",
        "did you mean AMQPriority?",
    ]


def test_a_filter_set_is_described_in_its_own_words() -> None:
    result = run("check", SET, "--dialect", "filter-set")
    assert result.exit_code == 0
    assert "properties.subject MATCHES '&s:EU' AND" not in result.output  # folded: the case is gone
    assert "properties.subject MATCHES '&s:eu' AND properties.to = 'q'" in result.output


def test_a_bad_filter_set_is_refused_with_its_place() -> None:
    result = run("check", SET.replace("&s:", "&z:"), "--dialect", "filter-set", "--json")
    assert result.exit_code == 2
    assert json.loads(result.output)["error"]["where"] == "f.value.subject"


@pytest.mark.parametrize(("subject", "exit_code"), [("order.eu", 0), ("order.us", 1)])
def test_a_filter_set_is_tried_on_a_message(tmp_path, subject: str, exit_code: int) -> None:  # type: ignore[no-untyped-def]
    message = tmp_path / "m.json"
    message.write_text(json.dumps({"properties": {"subject": subject, "to": "q"}}))
    result = run("test", SET, "--dialect", "filter-set", "--message", str(message))
    assert result.exit_code == exit_code


def test_the_messages_of_a_queue_are_compared(data: DataDir, store: TopologyStore) -> None:
    version = store.edit(declare_queues("q", "empty"), author="t").version
    with BatchCommitter(data, stream="s", app_id="s:1") as committer:
        deliver(
            data,
            committer,
            0,
            version,
            "q",
            application_properties=lambda seq: [("price", {"string": str(seq)})],
        )
    place = ("--data", str(data.root), "--queue", "q")
    assert "BF106" in codes("price > 5", "--dialect", "jms", *place)
    assert "BF106" not in codes("price = '5'", "--dialect", "jms", *place)
    assert "BF113" in codes("weight > 5", "--dialect", "jms", *place)
    assert "BF113" not in codes("weight > 5", "--dialect", "jms", "--data", str(data.root), "--queue", "empty")
    assert run("check", "a = 1", "--dialect", "jms", "--data", str(data.root), "--queue", "none").exit_code == 2


# -- schemas of bodies ------------------------------------------------------------------------------------


def in_files(folder: Path, schema: str, body: bytes) -> list[str]:
    (folder / "s.avsc").write_text(schema)
    (folder / "m.json").write_text(json.dumps({"body": {"binary": body.hex()}}))
    return ["--dialect", "jms", "--payload", "avro", "--schema", str(folder / "s.avsc")]


def test_a_filter_is_tried_on_a_body_with_its_schema(tmp_path: Path) -> None:
    options = in_files(tmp_path, '{"type": "map", "values": "int"}', b"\x02\x02a\x0a\x00")
    assert run("check", "body.a = 5", *options).exit_code == 0
    result = run("test", "body.a = 5", *options, "--message", str(tmp_path / "m.json"))
    assert (result.exit_code, result.output.splitlines()[0]) == (0, "passes: true")


@pytest.mark.parametrize(
    ("schema", "options", "said"),
    [
        ('{"type": "map"}', [], "s.avsc: values of a type map are missing"),
        ('{"type": "array", "items": "x"}', [], "s.avsc.items: no type is called 'x'"),
        ("{", [], "s.avsc: the file is no schema of avro: Expecting"),
        ('"int"', ["--payload", "json"], "--schema: bodies that are json have no schema"),
        ('"int"', ["--schema", "no.avsc"], "no.avsc: the file is no schema of avro: No such file or directory"),
    ],
)
def test_what_is_no_schema_is_refused_with_its_file(tmp_path: Path, schema: str, options: list[str], said: str) -> None:
    result = run("check", "body.a = 5", *in_files(tmp_path, schema, b""), *options)
    assert result.exit_code == 2
    assert said in result.output


def test_a_schema_and_its_format_go_together(tmp_path: Path) -> None:
    assert "state it by --schema FILE" in run("check", "body = 5", "--dialect", "jms", "--payload", "avro").output
    assert "state --payload too" in run("check", "a = 5", "--dialect", "jms", "--schema", "x").output


def test_a_proto_file_is_compiled_with_what_it_imports(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "seat.proto").write_text('syntax = "proto3"; package air; message Seat { int32 row = 1; }')
    schema = tmp_path / "air.proto"
    schema.write_text('syntax = "proto3"; package air; import "sub/seat.proto"; message Flight { Seat seat = 1; }')
    (tmp_path / "m.json").write_text(json.dumps({"body": {"binary": "0a020805"}}))
    options = ["--dialect", "jms", "--payload", "protobuf", "--schema", str(schema), "--type"]
    tried = ["test", "body.seat.row = 5", "--message", str(tmp_path / "m.json"), *options]
    assert run(*tried, "air.Flight").output.startswith("passes")
    assert "--type: the schema has no message type 'air.Fligt'" in run(*tried, "air.Fligt").output
    schema.write_text('syntax = "proto3"; import "/etc/passwd"; message Flight {')
    result = run(*tried, "air.Flight")
    assert result.exit_code == 2
    assert "air.proto: the file is no schema of protobuf: " in result.output


def test_without_a_compiler_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.proto").write_text("message M {}")
    monkeypatch.setitem(sys.modules, "grpc_tools", None)
    result = run("check", "body.a = 5", "--dialect", "jms", "--payload", "protobuf", "--schema",
                 str(tmp_path / "a.proto"), "--type", "M")  # fmt: skip
    assert result.exit_code == 2
    assert "pip install 'bindery[proto]'" in result.output
