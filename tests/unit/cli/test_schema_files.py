"""Schemas in files beside a document: every command that reads documents reads them, and stores the schema itself."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from bindery.cli.documents import read_change, read_documents
from bindery.router.errors import DefinitionsRefused
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from tests.unit.cli.conftest import Run

AVRO = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
PROTO = 'syntax = "proto3"; package air; message Flight { int32 delay = 1; }'


def document(folder: Path, schema: Any, *, payload: str = "avro", **more: Any) -> Path:
    arguments = {"x-payload": payload, "x-payload-schema": schema, **more}
    path = folder / "t.json"
    path.write_text(json.dumps({"exchanges": [{"name": "e", "type": "topic", "arguments": arguments}]}))
    return path


def stated(path: Path) -> Any:
    (source,) = read_documents([path])
    return source.value["exchanges"][0]["arguments"]["x-payload-schema"]


def problems(path: Path) -> list[dict[str, Any]]:
    with pytest.raises(DefinitionsRefused) as refused:
        read_change([path], "/")
    return refused.value.problems


def test_a_file_is_read_relative_to_its_document(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    below = tmp_path / "documents" / "schemas"
    below.mkdir(parents=True)
    (below / "r.avsc").write_text(json.dumps(AVRO, indent=2))
    path = document(below.parent, {"file": "schemas/r.avsc"})
    monkeypatch.chdir(tmp_path)
    for command in ("import", "apply"):
        code, _, err = run(command, str(path), "--data", str(tmp_path / command))
        assert (code, err) == (0, "")
        topology = TopologyStore(DataDir.open(tmp_path / command)).load()
        assert topology.exchange("/", "e").arguments["x-payload-schema"]["name"] == "R"  # type: ignore[index, call-overload]
    assert stated(document(below.parent, {"registry": {"7": {"file": "schemas/r.avsc"}}})) == {"registry": {"7": AVRO}}
    inside = below.parent / "change.json"
    inside.write_text(json.dumps({"definitions": json.loads(path.read_text())}))
    assert read_change([inside], "/").problems == []


def test_a_proto_file_is_stored_compiled(tmp_path: Path) -> None:
    (tmp_path / "f.proto").write_text(PROTO)
    path = document(tmp_path, {"file": "f.proto"}, payload="protobuf", **{"x-payload-type": "air.Flight"})
    once = stated(path)
    (tmp_path / "f.proto").write_text(PROTO + "// a remark\n")
    assert stated(path) == once  # so that a document that is applied again changes nothing
    assert read_change([path], "/").problems == []


@pytest.mark.parametrize("name", ["../r.avsc", "/etc/passwd", "link.avsc", "", 5, "a/../../r.avsc"])
def test_no_file_elsewhere_is_read(tmp_path: Path, name: Any) -> None:
    (tmp_path / "r.avsc").write_text(json.dumps(AVRO))
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "link.avsc").symlink_to(tmp_path / "r.avsc")
    (problem,) = problems(document(folder, {"file": name}))
    assert "is no file beside the document" in problem["message"]
    assert problem["path"] == "exchanges[0].arguments.x-payload-schema"
    assert problem["line"] == 1
    assert problem["column"] > 1


def test_what_is_wrong_with_a_file_is_told_with_the_place_that_names_it(tmp_path: Path) -> None:
    (missing,) = problems(document(tmp_path, {"file": "no.avsc"}))
    assert missing["message"] == "the file is no schema of avro: No such file or directory"
    (tmp_path / "f.proto").write_text("message M {")
    (broken,) = problems(document(tmp_path, {"file": "f.proto"}, payload="protobuf"))
    assert broken["message"].startswith("the file is no schema of protobuf: f.proto:1:")


def test_standard_input_names_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = document(tmp_path, {"file": "r.avsc"}).read_text()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    (problem,) = problems(Path("-"))
    assert problem["message"] == "a document from standard input has no folder to read files from"
    assert problem["file"] == "<stdin>"
