"""`bindery apply`: a plan, one version or none, and the same documents for every command."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from bindery.router.message import Message
from bindery.router.model import Queue
from bindery.router.values import Table
from bindery.store import plans
from bindery.store.access import AccessEditor, AccessStore, Permission, User
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from tests.unit.cli.conftest import Run
from tests.unit.store.routed import route

TOPOLOGY = """\
rabbit_version: "4.1"
exchanges:
  - {name: flights, type: topic}
queues:
  - name: houston
  - name: late
bindings:
  - {source: flights, destination: late, routing_key: "#", arguments: {x-filter-jms-selector: dep_delay >= 60}}
"""


@pytest.fixture
def run(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run a command in a folder of its own, with standard input."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        return run(*arguments)

    return call


def store() -> TopologyStore:
    return TopologyStore(DataDir.open("data"))


def test_a_plan_is_shown_and_then_made_once(run, tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(TOPOLOGY)
    code, out, _ = run("apply", "t.yaml", "--dry-run")
    assert (code, (tmp_path / "data").exists()) == (0, False)
    plan = out.splitlines()[1:-1]
    assert plan == [
        "+ binding flights -> queue late, key '#': arguments.x-filter-jms-selector \"dep_delay >= 60\"",
        '+ exchange flights: type "topic"',
        "+ queue houston",
        "+ queue late",
        "Plan: 4 to add, 0 to change, 0 to delete",
    ]
    code, out, _ = run("apply", "t.yaml", "--reason", "why not")
    assert code == 0
    assert out.splitlines()[1:-1] == plan
    assert out.endswith("Applied: 4 added, 0 changed, 0 deleted; topology version 2\n")
    assert store().version(2).reason == "why not"
    code, out, _ = run("apply", "t.yaml", "--prune")
    assert (code, store().load().version) == (0, 2)
    assert out.endswith("topology version 2, nothing was changed\n")


def test_a_change_is_told_property_by_property(run) -> None:
    run("apply", "-", stdin=TOPOLOGY)
    change = "exchanges: [{name: flights, type: topic, arguments: {alternate-exchange: amq.fanout}}]"
    code, out, _ = run("apply", "-", stdin=change)
    assert code == 0
    assert '~ exchange flights: arguments.alternate-exchange (none) -> "amq.fanout"' in out
    assert store().version(3).reason == "apply of standard input"
    assert store().load().exchanges["/", "flights"].arguments == Table({"alternate-exchange": "amq.fanout"})


def test_messages_that_go_with_a_queue_are_told(run) -> None:
    run("apply", "-", stdin=TOPOLOGY)
    late = [Message("flights", "k", application_properties=Table({"dep_delay": 60 + n})) for n in range(3)]
    route(DataDir.open("data"), store(), late, stream="s:t", clock_ms=1_700_000_000_000)
    code, out, _ = run("apply", "-", "--dry-run", stdin="delete: {queues: [late, houston]}")
    assert code == 0
    assert "- queue late (3 messages in it)\n" in out
    assert "- queue houston\n" in out
    assert "Plan: 0 to add, 0 to change, 3 to delete" in out
    again = "delete: {queues: [late]}\ndefinitions: {queues: [{name: late}]}"
    _, out, _ = run("apply", "-", stdin=again)
    assert "! queue late is deleted and declared again (3 messages in it)" in out
    _, out, _ = run("queues", "--json")
    assert {queue["name"]: queue["messages"] for queue in json.loads(out)}["late"] == 0


def test_a_refused_document_changes_nothing_and_every_error_has_its_place(run, tmp_path: Path) -> None:
    bad = (
        TOPOLOGY.replace("exchanges:", "exchange:")
        .replace("dep_delay >= 60", "dep_delay >=")
        .replace("name: late", "nmae: late")
    )
    (tmp_path / "a.yaml").write_text(bad)
    (tmp_path / "b.json").write_text('{"queues": [{"name": "x",\n "name": "y"}]}')
    code, out, err = run("apply", "a.yaml", "b.json")
    assert (code, out) == (2, "")
    assert err.startswith("b.json:2:2: the key 'name' stands twice in one object\n")
    code, out, err = run("apply", "a.yaml")
    assert (code, (tmp_path / "data").exists()) == (2, False)
    assert err.splitlines()[:5] == [
        "a.yaml:2:1: unknown key 'exchange'",
        "  hint: did you mean 'exchanges'?",
        "a.yaml:6:5: unknown key 'nmae'",
        "  hint: did you mean 'name'?",
        "a.yaml:6:5: name is missing",
    ]
    assert err.endswith("errors; nothing was changed\n")
    (tmp_path / "c.yaml").write_text("delete: {}\nadds:\n  queues: [{name: x}]\n")
    assert run("apply", "c.yaml")[2].startswith("c.yaml:2:1: unknown key 'adds'\n  hint: did you mean 'add'?")
    code, out, _ = run("apply", "a.yaml", "--json")
    assert code == 2
    assert {(one["file"], one["line"]) for one in json.loads(out)["errors"]} >= {("a.yaml", 2), ("a.yaml", 6)}


def test_json_of_a_plan(run) -> None:
    _, out, _ = run("apply", "-", "--json", stdin=TOPOLOGY)
    report = json.loads(out)
    assert (report["total"], report["counts"], report["version"]) == (
        4,
        {"created": {"binding": 1, "exchange": 1, "queue": 2}},
        2,
    )
    assert report["ignored"][0]["path"] == "rabbit_version"


def test_every_command_takes_the_same_documents(run, tmp_path: Path) -> None:
    run("apply", "-", stdin=TOPOLOGY)
    (tmp_path / "m.json").write_text(
        json.dumps({"exchange": "flights", "routing_key": "a", "application_properties": {"dep_delay": 70}})
    )
    selector = "arguments: {x-filter-jms-selector: dep_delay >= 60}"
    change = f"delete: {{bindings: [{{source: flights, destination: late, routing_key: '#', {selector}}}]}}"
    explain = ("explain", "--message", "m.json", "--json")
    assert json.loads(run(*explain)[1])["queues"] == ["late"]
    assert json.loads(run(*explain, "--against", "-", stdin=change)[1])["queues"] == []
    code, out, _ = run("topology", "diff", "--proposed", "-", "--json", stdin=change)
    assert (code, json.loads(out)["counts"]) == (1, {"deleted": {"binding": 1}})
    assert run("lint", "-", stdin=TOPOLOGY)[0] == 0
    code, _, err = run("import", "-", stdin=change)
    assert (code, "bindery apply" in err) == (2, True)
    typo = TOPOLOGY.replace("x-filter-jms-selector", "x-filter-jms-selectr")
    for command in (
        ["apply", "-"],
        ["import", "-", "--vhost", "/"],
        [*explain, "--against", "-"],
        ["lint", "-"],
        ["topology", "diff", "--proposed", "-"],
    ):
        code, _, err = run(*command, stdin=typo)
        assert code == 2
        assert "<stdin>:8:" in err
        assert "did you mean 'x-filter-jms-selector'?" in err
    assert store().load().version == 2
    code, out, _ = run("import", "-", "--vhost", "/", stdin=TOPOLOGY)
    assert (code, "ignored:   rabbit_version" in out) == (0, True)


def test_a_plan_that_somebody_elses_change_alters_is_not_made(run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("apply", "-", stdin=TOPOLOGY)
    planned = plans.planned

    def and_then(rival: str) -> None:
        waiting = [rival]

        def plan(*arguments: Any) -> Any:
            made = planned(*arguments)
            while waiting:
                queue = Queue("/", waiting.pop())
                store().edit(lambda editor, queue=queue: editor.declare_queue(queue), author="rival")
            return made

        monkeypatch.setattr(plans, "planned", plan)

    Path("t.yaml").write_text(TOPOLOGY.replace("name: houston", "name: atlanta"))
    and_then("other")
    code, _, err = run("apply", "t.yaml", "--prune")
    assert (code, "somebody else changed the topology" in err) == (1, True)
    assert set(store().load().queues) == {("/", "houston"), ("/", "late"), ("/", "other")}
    code, out, _ = run("apply", "t.yaml", "--prune")
    assert (code, "- queue other\n" in out) == (0, True)
    assert set(store().load().queues) == {("/", "atlanta"), ("/", "late")}


def test_what_was_granted_in_a_vhost_goes_with_it(run) -> None:
    run("apply", "-", stdin="vhosts: [{name: v}]")
    access = AccessStore(DataDir.open("data").access)

    def grant(editor: AccessEditor) -> None:
        editor.put_user(User("u"))
        editor.put_permission(Permission("u", "v", "", "", ".*"))

    access.edit(grant, author="t", action="granted")
    code, out, _ = run("apply", "-", stdin="delete: {vhosts: [v]}")
    assert (code, "- vhost v\n" in out) == (0, True)
    assert not access.load().permissions


def test_the_plan_tells_which_of_two_bindings_by_one_key_goes(run: Run, tmp_path: Path) -> None:
    one, other = (
        {"source": "amq.fanout", "destination": "q", "arguments": {"x-filter-jms-selector": text}}
        for text in ("n = 1", "n = 2")
    )
    (tmp_path / "two.json").write_text(json.dumps({"queues": [{"name": "q"}], "bindings": [one, other]}))
    (tmp_path / "less.json").write_text(json.dumps({"delete": {"bindings": [other]}}))
    assert run("apply", "two.json")[0] == 0
    assert run("apply", "less.json", "--dry-run")[1].startswith(
        "- binding amq.fanout -> queue q, key '': arguments.x-filter-jms-selector \"n = 2\"\n"
    )
