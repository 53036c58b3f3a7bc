"""Topology versions over HTTP: who, when and what; states of then; comparison; the way back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from bindery.router.errors import NotFound
from bindery.store import history
from tests.service.conftest import Server
from tests.service.http import Client, segment

pytestmark = pytest.mark.service

VHOST = "versions"
V = segment(VHOST)


@pytest.fixture
def admin(server: Server) -> Iterator[Client]:
    """The administrator, in a vhost with an exchange, a queue and a typed binding between them."""
    client = server.client()
    client.put(f"/vhosts/{V}")
    client.put(f"/exchanges/{V}/x", {"type": "headers", "durable": True})
    client.put(f"/queues/{V}/q", {"durable": True})
    client.post(f"/bindings/{V}/e/x/q/q", {"routing_key": "", "arguments": {"n": 5, "void": None}})
    yield client
    client.delete(f"/vhosts/{V}/deletion/protection")
    client.delete(f"/vhosts/{V}")


def newest(client: Client) -> int:
    number: int = client.get("/topology/versions?limit=1").json["newest"]
    return number


def test_a_version_says_who_changed_what_and_when(server: Server, admin: Client) -> None:
    admin.put("/users/eve", {"password": "eve", "tags": "management"})
    admin.put(f"/permissions/{V}/eve", {"configure": ".*", "write": ".*", "read": ".*"})
    server.client("eve", "eve").put(f"/queues/{V}/hers", {"durable": True})
    listed = admin.get("/topology/versions?limit=1").json
    (info,) = listed["versions"]
    assert info["version"] == listed["newest"]
    assert info["author"] == "eve"
    assert info["counts"] == {"created": {"queue": 1}}
    assert info["changes"] == [{"change": "created", "kind": "queue", "vhost": VHOST, "name": "hers"}]
    assert info["timestamp"].endswith("+00:00")
    whole = admin.get(f"/topology/versions/{info['version']}").json
    assert whole["author"] == "eve"
    (change,) = whole["changes"]
    assert change["before"] is None
    after = change["after"]
    assert after.pop("id") > 0
    assert after == {"name": "hers", "vhost": VHOST, "durable": True, "auto_delete": False, "arguments": {}}
    admin.delete("/users/eve")


def test_a_version_names_a_binding_by_its_ends(admin: Client) -> None:
    admin.put(f"/queues/{V}/bound", {})
    admin.post(f"/bindings/{V}/e/amq.topic/q/bound", {"routing_key": "eu.#"})
    admin.delete(f"/bindings/{V}/e/amq.topic/q/bound/eu.%23")
    ends = {"source": "amq.topic", "destination": "bound", "destination_type": "queue", "routing_key": "eu.#"}
    for change, info in zip(
        ("deleted", "created"), admin.get("/topology/versions?limit=2").json["versions"], strict=True
    ):
        (named,) = info["changes"]
        assert named.items() >= {"change": change, "kind": "binding", **ends}.items()


def test_versions_are_paged_from_the_newest(admin: Client) -> None:
    last = newest(admin)
    first, second = admin.get("/topology/versions?limit=2").json["versions"]
    assert (first["version"], second["version"]) == (last, last - 1)
    older = admin.get(f"/topology/versions?before={last}&limit=1").json["versions"]
    assert [info["version"] for info in older] == [last - 1]
    assert admin.get("/topology/versions?before=0").json["versions"] == []
    assert admin.get("/topology/versions/0").json["version"] == 0


def listed(client: Client, path: str) -> set[str]:
    return {item["name"] for item in client.get(path).json}


def test_every_get_of_topology_objects_answers_as_of_a_version(admin: Client) -> None:
    before = newest(admin)
    admin.put(f"/diverts/{V}/d", {"source": "x", "destination": "amq.topic"})
    admin.put(f"/policies/{V}/p", {"pattern": ".*", "definition": {"alternate-exchange": "amq.fanout"}})
    admin.put(f"/parameters/shovel/{V}/s", {"value": {"a": 1}})
    full = newest(admin)
    paths = (f"/exchanges/{V}/x", f"/queues/{V}/q", f"/diverts/{V}/d", f"/policies/{V}/p", f"/parameters/shovel/{V}/s")
    then = {path: admin.get(path).json for path in paths}
    key = admin.get(f"/bindings/{V}/e/x/q/q").json[0]["properties_key"]
    admin.delete(f"/diverts/{V}/d")
    admin.delete(f"/exchanges/{V}/x")
    admin.delete(f"/queues/{V}/q")
    admin.delete(f"/policies/{V}/p")
    admin.delete(f"/parameters/shovel/{V}/s")
    for path in paths:
        assert admin.get(path).status == 404
        state = admin.get(f"{path}?version={full}")
        assert state.status == 200, path
        assert state.json["name"] == then[path]["name"]
        assert state.json.get("arguments") == then[path].get("arguments")
    assert "x" in listed(admin, f"/exchanges?version={full}")
    assert "x" in listed(admin, f"/exchanges/{V}?version={full}") - listed(admin, f"/exchanges/{V}")
    assert "q" in listed(admin, f"/queues/{V}?version={full}") - listed(admin, f"/queues/{V}")
    assert admin.get(f"/diverts/{V}/d?version={before}").status == 404
    assert admin.get(f"/bindings/{V}/e/x/q/q/{segment(key)}?version={full}").json["arguments"] == {
        "n": 5,
        "void": None,
    }
    exported = admin.get(f"/definitions/{V}?version={full}").json
    assert [item["name"] for item in exported["queues"]] == ["q"]
    assert admin.get(f"/definitions/{V}").json["queues"] == []
    admin.delete(f"/vhosts/{V}")
    assert admin.get(f"/vhosts/{V}?version={full}").json["name"] == VHOST


def test_no_route_of_topology_objects_is_left_out(server: Server) -> None:
    """What lists or shows objects of the topology takes a version and a time."""
    objects = (
        *("vhosts", "exchanges", "queues", "bindings", "diverts", "policies", "operator-policies"),
        *("parameters", "global-parameters", "vhost-limits", "definitions"),
    )
    live = ("/connections", "/channels", "/permissions", "/topic-permissions")
    of_tables = ("/rows/{row}", "/table", "/table/changes", "/properties")  # what a queue holds has versions of its own
    for path, methods in server.app.openapi()["paths"].items():
        if (
            "get" in methods
            and path.split("/")[2:3]
            and path.split("/")[2] in objects
            and not path.endswith(live + of_tables)
        ):
            names = {parameter["name"] for parameter in methods["get"].get("parameters", ())}
            assert {"version", "at"} <= names, path


def test_every_get_answers_as_of_a_time(admin: Client) -> None:
    admin.put(f"/queues/{V}/later", {"durable": True})
    first, second = admin.get("/topology/versions?limit=2").json["versions"]
    seen = {info["version"]: quote(info["timestamp"], safe="") for info in (first, second)}
    assert admin.get(f"/queues/{V}/later?at={seen[first['version']]}").status == 200
    if first["timestamp"] != second["timestamp"]:
        assert admin.get(f"/queues/{V}/later?at={seen[second['version']]}").status == 404
    assert admin.get(f"/queues/{V}?at=2001-01-01").status == 404
    assert admin.get(f"/queues/{V}?at=2999-01-01").status == 200


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("version=999999", 404),
        ("version=-1", 400),
        ("version=one", 400),
        ("version=" + "9" * 400, 404),
        ("at=yesterday", 400),
        ("at=2026-01-01T00:00:00+00:00", 400),  # the + of a query is a blank; the answer says so
        ("version=1&at=2026-01-01", 400),
    ],
)
def test_a_state_that_never_was_is_refused(admin: Client, query: str, status: int) -> None:
    answer = admin.get(f"/queues?{query}")
    assert answer.status == status, answer.raw
    assert {"error", "reason"} <= answer.json.keys()


def test_diff_shows_objects_before_and_after(admin: Client) -> None:
    start = newest(admin)
    admin.put(f"/vhosts/{V}", {"description": "changed"})
    admin.delete(f"/queues/{V}/q")
    found = admin.get(f"/topology/diff?from={start}&vhost={V}").json
    assert (found["from"], found["to"]) == (start, newest(admin))
    assert found["counts"] == {"updated": {"vhost": 1}, "deleted": {"binding": 1, "queue": 1}}
    changes = {(one["change"], one["kind"]): one for one in found["changes"]}
    binding = changes["deleted", "binding"]["before"]
    assert binding["arguments"] == {"n": 5, "void": None}
    assert binding["id"] > 0
    assert changes["updated", "vhost"]["after"]["description"] == "changed"
    back = admin.get(f"/topology/diff?from={found['to']}&to={start}&vhost={V}").json
    assert back["counts"] == {"updated": {"vhost": 1}, "created": {"binding": 1, "queue": 1}}
    assert admin.get(f"/topology/diff?from={start}&vhost={V}&limit=1&offset=1").json["total"] == 3
    assert admin.get(f"/topology/diff?from={start}&vhost=missing").status == 404
    assert admin.get("/topology/diff").status == 400


def test_diff_shows_a_user_their_own_vhosts_only(server: Server, admin: Client) -> None:
    start = newest(admin)
    admin.put("/vhosts/hidden")
    admin.put("/queues/hidden/secret", {"durable": True})
    admin.put(f"/queues/{V}/open", {"durable": True})
    admin.put("/users/dora", {"password": "d", "tags": "management"})
    admin.put(f"/permissions/{V}/dora", {"configure": "", "write": "", "read": ""})
    dora = server.client("dora", "d")
    found = dora.get(f"/topology/diff?from={start}").json
    assert [one["name"] for one in found["changes"]] == ["open"]
    assert dora.get(f"/topology/diff?from={start}&vhost=hidden").status == 404
    assert dora.get("/topology/versions").status == 401
    admin.delete("/vhosts/hidden")
    admin.delete("/users/dora")


def test_a_proposed_document_is_compared_with_now(admin: Client) -> None:
    version = newest(admin)
    document = admin.get(f"/definitions/{V}").json
    same = admin.call("POST", f"/topology/diff?vhost={V}", document).json
    assert (same["total"], same["absent"]) == (0, [])
    document["queues"] = [{"name": "new", "durable": True, "auto_delete": False, "arguments": {}}]
    document["bindings"] = []
    found = admin.call("POST", f"/topology/diff?vhost={V}", document).json
    assert found["counts"] == {"created": {"queue": 1}}
    assert {(one["kind"], one["name"]) for one in found["absent"] if one["kind"] != "binding"} == {("queue", "q")}
    assert [one["kind"] for one in found["absent"]].count("binding") == 1
    assert newest(admin) == version
    refused = admin.call("POST", f"/topology/diff?vhost={V}", {"exchanges": [{"name": "y", "type": "sphere"}]})
    assert refused.status == 400


def test_rollback_is_one_version_and_keeps_ids(admin: Client) -> None:
    start = newest(admin)
    before = admin.get(f"/topology/diff?from=0&to={start}&vhost={V}").json["changes"]
    admin.delete(f"/exchanges/{V}/x")
    admin.delete(f"/queues/{V}/q")
    admin.put(f"/queues/{V}/other", {"durable": True})
    now = newest(admin)
    assert admin.post("/topology/rollback", {"to": start, "expected": now - 1}).status == 412
    answer = admin.post("/topology/rollback", {"to": start, "expected": now})
    assert answer.status == 200, answer.raw
    assert answer.json["version"] == now + 1 == newest(admin)
    assert answer.json["counts"]["created"] == {"binding": 1, "exchange": 1, "queue": 1}
    assert answer.json["counts"]["deleted"] == {"queue": 1}
    after = admin.get(f"/topology/diff?from=0&vhost={V}").json["changes"]
    assert after == before  # ids of bindings included
    info = admin.get("/topology/versions?limit=1").json["versions"][0]
    assert (info["author"], info["reason"]) == ("guest", f"rollback to version {start}")
    again = admin.post("/topology/rollback", {"to": start})
    assert (again.status, again.json["total"], again.json["version"]) == (200, 0, now + 1)
    assert admin.post("/topology/rollback", {"to": 10**9}).status == 404
    assert admin.post("/topology/rollback", {"to": -1}).status == 400
    assert admin.post("/topology/rollback", {}).status == 400


def test_rollback_spares_protected_vhosts_and_revokes_permissions_in_those_that_go(admin: Client) -> None:
    start = newest(admin)
    admin.put("/vhosts/young")
    admin.post("/vhosts/young/deletion/protection")
    refused = admin.post("/topology/rollback", {"to": start})
    assert refused.status == 412
    assert admin.get("/vhosts/young").status == 200
    admin.delete("/vhosts/young/deletion/protection")
    assert admin.post("/topology/rollback", {"to": start}).status == 200
    assert admin.get("/vhosts/young").status == 404
    assert [item for item in admin.get("/permissions").json if item["vhost"] == "young"] == []


def test_types_and_void_arguments_survive_export_and_import(admin: Client) -> None:
    """RabbitMQ's own export loses the types of arguments; here a document says what JSON cannot."""
    typed: dict[str, Any] = {
        "x-match": "all",
        "void": None,
        "whole": 5,
        "floating": 5.0,
        "big": 2**63 - 1,
        "when": {"timestamp": 1700000000000},
        "raw": {"binary": "00ff"},
        "list": [1, 1.5, None],
    }
    admin.post(f"/bindings/{V}/e/x/q/q", {"routing_key": "typed", "arguments": typed})
    document = admin.get(f"/definitions/{V}").json
    exported = next(item for item in document["bindings"] if item["routing_key"] == "typed")["arguments"]
    assert exported == typed
    assert isinstance(exported["floating"], float)
    admin.put("/vhosts/copy")
    assert admin.call("POST", "/definitions/copy", document).status == 204
    again = admin.get("/definitions/copy").json
    assert json.dumps(again["bindings"], sort_keys=True) == json.dumps(document["bindings"], sort_keys=True)
    kinds = [type(value) for value in exported.values()]
    imported = next(item for item in again["bindings"] if item["routing_key"] == "typed")["arguments"]
    assert [type(imported[name]) for name in exported] == kinds
    admin.delete("/vhosts/copy")


def test_secrets_in_parameters_are_masked_for_others_than_administrators(server: Server, admin: Client) -> None:
    start = newest(admin)
    value = {"src-uri": ["amqp://me:hunter2@broker/v"], "password": "hunter2", "dest-queue": "q"}
    admin.put(f"/parameters/shovel/{V}/s", {"value": value})
    admin.put("/users/pat", {"password": "p", "tags": "policymaker"})
    admin.put("/users/mon", {"password": "m", "tags": "monitoring"})
    admin.put(f"/permissions/{V}/pat", {"configure": ".*", "write": ".*", "read": ".*"})
    assert admin.get(f"/parameters/shovel/{V}/s").json["value"] == value
    version = newest(admin)
    for client in (server.client("pat", "p"), server.client("mon", "m")):
        for path in (
            "/parameters",
            "/parameters/shovel",
            f"/parameters/shovel/{V}",
            f"/parameters/shovel/{V}/s",
            f"/topology/diff?from={start}",
            f"/topology/versions/{version}",
        ):
            assert b"hunter2" not in client.get(path).raw, path
    assert b"amqp://me:***@broker/v" in server.client("mon", "m").get("/parameters").raw
    for name in ("pat", "mon"):
        admin.delete(f"/users/{name}")


def test_a_time_is_found_among_a_thousand_versions(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(1000):
        entry = {"commitInfo": {"timestamp": int((start + timedelta(minutes=number)).timestamp() * 1000)}}
        (log / f"{number:020}.json").write_text(json.dumps({"txn": {}}) + "\n" + json.dumps(entry) + "\n")
    assert history.version_at(str(tmp_path), 999, start + timedelta(minutes=421, seconds=30)) == 421
    assert history.version_at(str(tmp_path), 999, start) == 0
    assert history.version_at(str(tmp_path), 999, start + timedelta(days=2)) == 999
    with pytest.raises(NotFound):
        history.version_at(str(tmp_path), 999, start - timedelta(seconds=1))
    assert [info.version for info in history.read_history(str(tmp_path), 999, limit=2)] == [999, 998]
