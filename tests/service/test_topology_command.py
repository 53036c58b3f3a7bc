"""`bindery topology`: the versions that the service shows, without a service."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from bindery.cli.main import app
from bindery.router.declarations import TopologyEditor
from bindery.router.definitions import apply, parse_definitions, protection_key
from bindery.router.errors import InUse
from bindery.router.model import Binding, Exchange, Queue, Setting, Vhost
from bindery.router.values import Table
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore


@pytest.fixture
def store(tmp_path: Path) -> TopologyStore:
    """Version 2: a queue bound to an exchange; version 3: the queue is gone."""
    store = TopologyStore(DataDir.open(tmp_path / "data", create=True))

    def declare(editor: TopologyEditor) -> None:
        editor.declare_exchange(Exchange("/", "x", "topic"))
        editor.declare_queue(Queue("/", "q"))
        editor.bind(Binding(0, "/", "x", "q", "queue", "a.#", Table({"void": None})))

    store.edit(declare, author="ada", reason="first")
    store.edit(lambda editor: editor.delete_queue("/", "q"), author="bob")
    return store


def run(store: TopologyStore, *arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(app, ["topology", *arguments, "--data", store.data.root], input=given)


def test_versions_and_show(store: TopologyStore) -> None:
    newest = store.load().version
    shown = json.loads(run(store, "versions", "--json").stdout)
    assert [(one["version"], one["author"]) for one in shown[:2]] == [(newest, "bob"), (newest - 1, "ada")]
    text = run(store, "versions", "--limit", "2").stdout
    assert "ada" in text
    assert "first" in text
    found = run(store, "show", str(newest)).stdout
    assert "- queue 'q' in vhost '/'" in found
    assert run(store, "show", "99").exit_code != 0


def test_diff_between_versions_and_with_a_file(store: TopologyStore, tmp_path: Path) -> None:
    newest = store.load().version
    found = run(store, "diff", str(newest - 1), "--json")
    assert found.exit_code == 1
    assert json.loads(found.stdout)["counts"] == {"deleted": {"binding": 1, "queue": 1}}
    same = run(store, "diff", str(newest), str(newest))
    assert (same.exit_code, same.stdout.strip()) == (0, "no difference")
    for text in ("nope.json", "-1", "1.5", "٣"):
        refused = run(store, "diff", text)
        assert refused.exit_code == 2, text
    assert "--proposed" in run(store, "diff", "nope.json").output
    document = tmp_path / "then.json"
    assert run(store, "export", "--version", str(newest - 1), "-o", str(document)).exit_code == 0
    proposed = json.loads(run(store, "diff", "--proposed", str(document), "--json").stdout)
    assert proposed["counts"] == {"created": {"binding": 1, "queue": 1}}
    assert run(store, "diff").exit_code != 0


def test_export_keeps_void_arguments(store: TopologyStore) -> None:
    newest = store.load().version
    document = json.loads(run(store, "export", "--version", str(newest - 1)).stdout)
    assert document["bindings"][0]["arguments"] == {"void": None}
    assert json.loads(run(store, "export").stdout)["bindings"] == []


def test_rollback_asks_and_keeps_ids(store: TopologyStore) -> None:
    newest = store.load().version
    before = store.load(version=newest - 1)
    assert run(store, "rollback", str(newest - 1), given="n\n").exit_code == 1
    assert json.loads(run(store, "rollback", str(newest - 1), "--dry-run", "--json").stdout)["total"] == 2
    assert store.load().version == newest
    done = run(store, "rollback", str(newest - 1), "--yes")
    assert done.exit_code == 0, done.output
    assert store.load().bindings == before.bindings
    assert store.history(limit=1)[0].reason == f"rollback to version {newest - 1}"


def test_rollback_spares_protected_vhosts(store: TopologyStore) -> None:
    newest = store.load().version

    def protect(editor: TopologyEditor) -> None:
        editor.declare_vhost(Vhost("kept"))
        editor.put_setting(Setting(*protection_key("kept"), True))

    store.edit(protect, author="ada")
    refused = run(store, "rollback", str(newest), "--yes")
    assert isinstance(refused.exception, InUse)
    assert "kept" in store.load().vhosts


def test_import_draws_no_bar_where_nobody_looks(store: TopologyStore, tmp_path: Path) -> None:
    document = tmp_path / "definitions.json"
    document.write_text(json.dumps({"queues": [{"name": "new", "vhost": "/", "durable": True}]}))
    done = CliRunner().invoke(app, ["import", str(document), "--data", store.data.root])
    assert done.exit_code == 0
    assert done.stderr == ""
    assert "1 queue" in done.stdout


def test_import_tells_each_entry_as_it_is_reached(store: TopologyStore) -> None:
    document = parse_definitions({"queues": [{"name": name, "vhost": "/", "durable": True} for name in "abc"]})
    reached: list[int] = []
    store.edit(lambda editor: apply(document, editor, done=reached.append), author="t")
    assert reached == [1, 2, 3]
