"""`bindery import --from rabbitmq`: what becomes of each object of a definitions document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bindery.router.errors import DefinitionsRefused
from bindery.router.importers import KINDS
from bindery.router.importers.objects import Outcome, Weight
from bindery.router.importers.settling import Settled, settle
from bindery.router.known_arguments import KNOWN
from bindery.router.model import Topology
from bindery.store.access import AccessStore
from bindery.store.paths import DataDir

_QUEUE = {"vhost": "/", "name": "q", "durable": True, "auto_delete": False, "arguments": {}}
_EXCHANGE = {"vhost": "/", "name": "e", "type": "topic", "durable": True, "arguments": {}}
_BINDING = {"vhost": "/", "source": "e", "destination": "q", "destination_type": "queue", "routing_key": "a.#"}


def carried(document: dict[str, Any], *, vhost: str | None = None, access: bool = False) -> Settled:
    objects = KINDS["rabbitmq"].read("defs.json", json.dumps(document).encode(), access=access)
    return settle(objects, Topology.empty(), vhost=vhost)


def outcomes(settled: Settled) -> dict[str, str]:
    return {f"{item.kind} {item.name}": item.outcome.value for item in settled.objects}


def test_what_the_brokers_share_is_carried_over_exactly() -> None:
    settled = carried({"exchanges": [_EXCHANGE], "queues": [_QUEUE], "bindings": [_BINDING]})
    assert settled.faithful
    assert [entry.path for entry in settled.definitions.entries] == ["exchanges[0]", "queues[0]", "bindings[0]"]


@pytest.mark.parametrize("kind", ["x-random", "x-recent-history", "x-delayed-message", "x-no-such"])
def test_an_exchange_of_a_type_that_is_not_here_is_left_out_with_its_bindings(kind: str) -> None:
    settled = carried({"exchanges": [{**_EXCHANGE, "type": kind}], "queues": [_QUEUE], "bindings": [_BINDING]})
    assert outcomes(settled) == {
        "exchange e": "not carried over",
        "queue q": "exact",
        "binding e -> q, key 'a.#'": "not carried over",
    }
    said = {item.kind: item.notes[-1] for item in settled.objects if item.notes}
    assert kind in said["exchange"].text and said["exchange"].hint
    assert "'e'" in said["binding"].text
    assert [entry.path for entry in settled.definitions.entries] == ["queues[0]"]


@pytest.mark.parametrize(
    ("arguments", "outcome"),
    [
        ({}, Outcome.EXACT),
        ({"x-queue-type": "quorum"}, Outcome.EXACT),  # replication sends no message elsewhere
        ({"x-queue-mode": "lazy"}, Outcome.EXACT),
        ({"x-max-priority": 5}, Outcome.DIFFERENT),
        ({"x-message-ttl": 1000}, Outcome.DIFFERENT),
        ({"x-max-length": 10, "x-overflow": "reject-publish"}, Outcome.DIFFERENT),
        ({"x-nobody-knows": 1}, Outcome.DIFFERENT),
        ({"nobody": 1}, Outcome.DIFFERENT),
    ],
)
def test_arguments_of_queues(arguments: dict[str, Any], outcome: Outcome) -> None:
    settled = carried({"queues": [{**_QUEUE, "arguments": arguments}]})
    (item,) = settled.objects
    assert item.outcome is outcome
    assert outcome is Outcome.EXACT or all(
        any(note.key == f"arguments.{name}" for note in item.notes) for name in arguments
    )


def test_every_argument_of_a_queue_that_does_nothing_here_is_named() -> None:
    idle = [name for (kind, name), known in KNOWN.items() if kind == "queue" and not known.effective]
    for name in idle:
        value = "reject-publish" if name == "x-overflow" else 7
        (item,) = carried({"queues": [{**_QUEUE, "arguments": {name: value}}]}).objects
        assert [note.key for note in item.notes] == [f"arguments.{name}"]


def test_no_key_is_silently_ignored() -> None:
    settled = carried(
        {
            "rabbit_version": "3.13.7",
            "wat": [1],
            "queues": [{**_QUEUE, "node": "rabbit@a", "colour": "red", "durable": False, "auto_delete": True}],
            "bindings": [{**_BINDING, "source": "amq.topic", "arguments": {"x-huh": 1}, "properties_key": "a"}],
            "policies": [
                {"vhost": "/", "name": "p", "pattern": "^a", "apply-to": "all", "definition": {"huh": 1}, "size": 2}
            ],
            "parameters": [
                {"vhost": "/", "component": "shovel", "name": "s", "value": {"src-uri": "amqp://u:secret@h"}}
            ],
        }
    )
    keys = {item.kind: {note.key for note in item.notes} for item in settled.objects}
    assert keys["queue"] == {"node", "colour", "durable", "auto_delete"}
    assert keys["binding"] == {"arguments.x-huh", "properties_key"}
    assert keys["policy"] == {"definition.huh", "size"}
    assert outcomes(settled)["parameter shovel s"] == "not carried over"
    assert outcomes(settled)["document wat"] == "not carried over"
    assert outcomes(settled)["document rabbit_version"] == "exact"
    assert "secret" not in json.dumps(settled.as_data())


def test_what_the_rules_refuse_is_left_out_in_the_words_of_the_refusal() -> None:
    settled = carried(
        {
            "queues": [{**_QUEUE, "name": "amq.gen-1"}, {**_QUEUE, "durable": 3}],
            "policies": [{"vhost": "/", "name": "p", "pattern": "(?=a)", "definition": {}}],
        }
    )
    assert set(outcomes(settled).values()) == {"not carried over"}
    assert settled.definitions.entries == ()
    assert "amq." in settled.objects[0].notes[-1].text


def test_an_export_of_one_vhost_goes_to_the_vhost_it_came_from_or_to_one_that_is_named() -> None:
    document = {
        "rabbitmq_definition_format": "single_virtual_host",
        "original_vhost_name": "shop",
        "queues": [{key: value for key, value in _QUEUE.items() if key != "vhost"}],
    }
    assert carried(document).topology.queues.keys() == {("shop", "q")}
    named = carried(document, vhost="/")
    assert named.topology.queues.keys() == {("/", "q")} and "shop" not in named.topology.vhosts


def test_sections_that_are_no_lists_of_objects_are_refused_at_their_place() -> None:
    for document in ({"queues": {}}, {"queues": [3]}):
        with pytest.raises(DefinitionsRefused, match=r"defs.json|expected an"):
            carried(document)


def _file(folder: Path, document: dict[str, Any]) -> Path:
    path = folder / "definitions.json"
    path.write_text(json.dumps(document))
    return path


_LOSSY = {"queues": [_QUEUE], "exchanges": [{**_EXCHANGE, "type": "x-random", "name": "<script>alert(1)</script>"}]}


def test_strict_imports_nothing_and_a_dry_run_neither(run, tmp_path: Path) -> None:
    path, data = _file(tmp_path, _LOSSY), tmp_path / "data"
    code, out, _ = run("import", "--from", "rabbitmq", path, "--data", data, "--strict")
    assert (code, "nothing was imported" in out, data.exists()) == (1, True, False)
    code, out, _ = run("import", "--from", "rabbitmq", path, "--data", data, "--dry-run", "--json")
    assert (code, data.exists()) == (0, False)
    assert json.loads(out)["fidelity"]["counts"] == {"exact": 1, "different": 0, "not carried over": 1}
    code, out, _ = run("import", "--from", "rabbitmq", path, "--data", data)
    assert (code, "not carried over: 1" in out, "topology version 2" in out) == (0, True, True)
    code, out, _ = run(
        "import", "--from", "rabbitmq", _file(tmp_path, {"queues": [_QUEUE]}), "--data", data, "--strict"
    )
    assert (code, "unchanged: 1 queue" in out) == (0, True)


def test_reports_are_text_json_and_a_page_without_markup_of_the_source(run, tmp_path: Path) -> None:
    path = _file(tmp_path, _LOSSY)
    for suffix in ("txt", "json", "html"):
        report = tmp_path / f"report.{suffix}"
        code, _, _ = run(
            "import", "--from", "rabbitmq", path, "--data", tmp_path / "d", "--dry-run", "--report", report
        )
        assert code == 0
        assert "x-random" in report.read_text()
    assert json.loads((tmp_path / "report.json").read_text())["from"] == "rabbitmq"
    page = (tmp_path / "report.html").read_text()
    assert "<script" not in page and "&lt;script&gt;" in page and "http://" not in page
    code, _, err = run("import", "--from", "rabbitmq", path, "--dry-run", "--report", tmp_path / "report.pdf")
    assert (code, ".html" in err) == (2, True)


def test_a_conflict_refuses_the_import_and_names_the_object_of_the_source(run, tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert run("import", "--from", "rabbitmq", _file(tmp_path, {"exchanges": [_EXCHANGE]}), "--data", data)[0] == 0
    other = _file(tmp_path, {"queues": [_QUEUE], "exchanges": [{**_EXCHANGE, "type": "direct"}]})
    code, out, _ = run("import", "--from", "rabbitmq", other, "--data", data, "--json")
    assert (code, json.loads(out)["conflicts"][0]["path"]) == (2, "exchanges[0]")
    code, _, err = run("import", "--from", "rabbitmq", other, "--data", data)
    assert (code, "exchanges[0]: exchange 'e' exists with type" in err, "overwrite" in err) == (2, True, True)
    assert run("import", "--from", "rabbitmq", other, "--data", data, "--overwrite")[0] == 0


def test_users_and_permissions_are_carried_over_when_they_are_asked_for(run, tmp_path: Path) -> None:
    granted = {"user": "ann", "vhost": "/", "configure": "", "write": "^a", "read": ".*"}
    # the hash of "test12" in RabbitMQ's documentation of password hashing
    user = {"name": "ann", "password_hash": "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR", "tags": ["monitoring"]}
    path, data = _file(tmp_path, {"users": [user], "permissions": [granted]}), tmp_path / "data"
    code, out, _ = run("import", "--from", "rabbitmq", path, "--data", data, "--json")
    assert (code, json.loads(out)["fidelity"]["counts"]["not carried over"]) == (0, 2)
    code, out, _ = run("import", "--from", "rabbitmq", path, "--data", data, "--access", "--strict", "--json")
    assert (code, json.loads(out)["fidelity"]["counts"]["exact"], user["password_hash"] in out) == (0, 2, False)
    access = AccessStore(DataDir.open(data).access).load()
    assert (access.users["ann"].tags, access.permissions["/", "ann"].write) == (("monitoring",), "^a")

    elsewhere = _file(tmp_path, {"users": [{**user, "name": "bob"}], "permissions": [{**granted, "vhost": "no"}]})
    code, out, _ = run("import", "--from", "rabbitmq", elsewhere, "--data", data, "--access", "--strict")
    assert (code, "'no'" in out) == (1, True)
    assert "bob" not in AccessStore(DataDir.open(data).access).load().users


def test_options_that_do_nothing_are_refused(run, tmp_path: Path) -> None:
    path = _file(tmp_path, {"queues": [_QUEUE]})
    for arguments, said in (
        (["--strict"], "--strict"),
        (["--from", "rabbit"], "did you mean 'rabbitmq'"),
        (["--from", "rabbitmq", "--skip-dangling"], "--skip-dangling"),
        (["--from", "rabbitmq", "--password", "env:X"], "--password"),
        (["--from", "rabbitmq", "--access", "--vhost", "/"], "--access"),
    ):
        code, _, err = run("import", path, "--data", tmp_path / "data", *arguments)
        assert (code, said in err) == (2, True), err
    assert not (tmp_path / "data").exists()


def test_of_two_objects_of_one_name_that_differ_the_later_one_counts_and_the_earlier_one_is_told_of() -> None:
    again = {**_QUEUE, "arguments": {"x-single-active-consumer": True}}
    settled = carried({"queues": [_QUEUE, again, again], "vhosts": [{"name": "/"}, {"name": "/"}]})
    assert settled.objects[0].outcome is Outcome.LEFT_OUT
    (said,) = settled.objects[0].notes
    assert (said.weight, "queues[1]" in said.text) == (Weight.LOST, True)
    assert dict(settled.topology.queues["/", _QUEUE["name"]].arguments) == again["arguments"]
    # what stands twice alike is declared once, as there
    assert carried({"queues": [_QUEUE, _QUEUE]}).faithful


def test_a_dry_run_tells_what_is_in_the_way(run, tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert run("import", "--from", "rabbitmq", _file(tmp_path, {"exchanges": [_EXCHANGE]}), "--data", data)[0] == 0
    other = _file(tmp_path, {"exchanges": [{**_EXCHANGE, "type": "direct"}]})
    code, _, err = run("import", "--from", "rabbitmq", other, "--data", data, "--dry-run")
    assert (code, "exchanges[0]: exchange 'e' exists with type" in err) == (2, True)
    assert run("import", "--from", "rabbitmq", other, "--data", data, "--dry-run", "--overwrite")[0] == 0


def test_a_report_does_not_replace_what_is_imported(run, tmp_path: Path) -> None:
    path = _file(tmp_path, _LOSSY)
    before = path.read_bytes()
    (tmp_path / "same.json").symlink_to(path)
    for report in (path, tmp_path / "same.json"):
        code, _, err = run("import", "--from", "rabbitmq", path, "--dry-run", "--report", report)
        assert (code, "would replace what is imported" in err, path.read_bytes()) == (2, True, before)


def test_permissions_of_nobody_are_left_out_alone(run, tmp_path: Path) -> None:
    granted = {"user": "ann", "vhost": "/", "configure": "", "write": "", "read": ".*"}
    document = {
        "users": [{"name": "ann", "password_hash": "", "tags": []}],
        "permissions": [granted, {**granted, "user": "gone"}, {**granted, "vhost": "no"}],
    }
    path, data = _file(tmp_path, document), tmp_path / "data"
    code, out, _ = run("import", "--from", "rabbitmq", path, "--data", data, "--access", "--json")
    found = json.loads(out)["fidelity"]
    assert (code, found["counts"]) == (0, {"exact": 2, "different": 0, "not carried over": 2})
    assert "there is no user 'gone'" in out and "there is no vhost 'no'" in out
    assert set(AccessStore(DataDir.open(data).access).load().permissions) == {("/", "ann")}
    # what is no name is refused at its place
    odd = _file(tmp_path, {"users": [{"name": "bob"}], "permissions": [{**granted, "user": ["ann"]}]})
    for dry in ([], ["--dry-run"]):
        code, _, err = run("import", "--from", "rabbitmq", odd, "--data", data, "--access", *dry)
        assert (code, "permissions[0].user: expected a string" in err) == (2, True)
    # of a user who is here already
    later = _file(tmp_path, {"permissions": [{**granted, "write": "x"}]})
    assert run("import", "--from", "rabbitmq", later, "--data", data, "--access", "--strict")[0] == 0


@pytest.mark.parametrize("dashed", [True, False])
def test_bounds_of_a_queue_that_refuses_what_is_too_much_are_not_said_to_be_kept(dashed: bool) -> None:
    stated = {"max-length": 5, "overflow": "reject-publish"}
    if dashed:
        document = {"queues": [{**_QUEUE, "arguments": {f"x-{key}": value for key, value in stated.items()}}]}
    else:
        document = {
            "policies": [
                {"vhost": "/", "name": "p", "pattern": ".", "apply-to": "all", "definition": stated, "priority": 0}
            ]
        }
    (item,) = carried(document).objects
    (text,) = [note.text for note in item.notes if note.key.endswith("max-length")]
    assert "maintenance" not in text and "overflow" in text


def test_hints_for_exchanges_of_other_types_lead_to_the_same_queues() -> None:
    by_chance = {**_EXCHANGE, "type": "x-local-random"}
    link = {**_EXCHANGE, "name": "federation: e", "type": "x-federation-upstream"}
    said = {item.name: item.notes[-1].hint or "" for item in carried({"exchanges": [by_chance, link]}).objects}
    assert "keys" in said["e"]  # of several queues one, as there: a direct exchange alone gives each a copy
    assert "link" in said["federation: e"]
