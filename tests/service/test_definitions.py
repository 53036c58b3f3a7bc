"""Importing and exporting definitions: whole or not at all, with a report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from bindery.store.access import hash_password
from tests.service.conftest import Server
from tests.service.http import Client, segment

pytestmark = pytest.mark.service

NAME = "definitions/1"
AT = segment(NAME)


@pytest.fixture(autouse=True)
def vhost(client: Client) -> Iterator[None]:
    client.delete(f"/vhosts/{AT}")
    assert client.put(f"/vhosts/{AT}").status == 201
    yield
    client.delete(f"/vhosts/{AT}")


def document(**sections: Any) -> dict[str, Any]:
    return {
        "exchanges": [{"name": "x", "vhost": NAME, "type": "topic", "durable": True}],
        "queues": [{"name": "q", "vhost": NAME, "durable": True}],
        "bindings": [
            {"source": "x", "vhost": NAME, "destination": "q", "destination_type": "queue", "routing_key": "a.#"}
        ],
        **sections,
    }


def names(client: Client, kind: str) -> list[str]:
    return [item["name"] for item in client.get(f"/{kind}/{AT}?columns=name").json if "amq" not in item["name"]]


def test_an_import_is_one_commit(client: Client) -> None:
    many = [{"name": f"e{n}", "vhost": NAME, "type": "topic", "durable": True} for n in range(2_000)]
    before = client.get("/overview").json["topology_version"]
    assert client.post("/definitions", document(exchanges=many, bindings=[])).status == 204
    assert client.get("/overview").json["topology_version"] == before + 1


def test_a_conflict_refuses_the_whole_with_a_report(client: Client) -> None:
    client.put(f"/exchanges/{AT}/x", {"type": "direct", "durable": True})
    answer = client.post("/definitions", document())
    assert (answer.status, answer.json["error"]) == (400, "bad_request")
    (conflict,) = answer.json["report"]["conflicts"]
    assert (conflict["kind"], conflict["name"]) == ("exchange", "x")
    assert conflict["differences"] == {"type": {"current": "direct", "given": "topic"}}
    assert names(client, "queues") == []
    assert client.call("POST", "/definitions?overwrite=1", document()).status == 204
    assert client.get(f"/exchanges/{AT}/x").json["type"] == "topic"


def test_a_dry_run_reports_and_changes_nothing(client: Client) -> None:
    client.put(f"/exchanges/{AT}/x", {"type": "direct", "durable": True})
    before = client.get("/overview").json["topology_version"]
    answer = client.call("POST", "/definitions?dry_run=1", document())
    assert answer.status == 200
    assert answer.json["created"] == {"queue": 1, "binding": 1}
    assert len(answer.json["conflicts"]) == 1
    assert client.get("/overview").json["topology_version"] == before


def test_users_are_imported_only_with_the_rest(server: Server, client: Client) -> None:
    users = [{"name": "imported", "password_hash": hash_password("pw"), "tags": "management", "limits": {}}]
    grant = [{"user": "imported", "vhost": NAME, "configure": "", "write": "", "read": ".*"}]
    broken = document(users=users, permissions=grant, exchanges=[{"name": "z", "vhost": NAME, "type": "nonsense"}])
    assert client.post("/definitions", broken).status == 400
    assert client.get("/users/imported").status == 404
    bad_user = document(users=[{"name": "imported", "password_hash": "!"}])
    assert client.post("/definitions", bad_user).status == 400
    assert names(client, "queues") == []
    assert client.post("/definitions", document(users=users, permissions=grant)).status == 204
    assert server.client("imported", "pw").get(f"/queues/{AT}").status == 200
    client.delete("/users/imported")


def test_a_file_in_a_form_is_a_document(client: Client) -> None:
    body = json.dumps(document()).encode()
    form = b'--b\r\nContent-Disposition: form-data; name="file"; filename="d.json"\r\n\r\n' + body + b"\r\n--b--\r\n"
    headers = {"content-type": "multipart/form-data; boundary=b"}
    assert client.call("POST", "/definitions", raw=form, headers=headers).status == 204
    assert names(client, "queues") == ["q"]
    assert client.call("POST", "/definitions", raw=form.replace(b"file", b"feil"), headers=headers).status == 400
    assert client.call("POST", "/definitions", raw=b"no form", headers=headers).status == 400


@pytest.mark.parametrize(
    "broken",
    [
        {"exchanges": 5},
        {"exchanges": [5]},
        {"exchanges": [{"vhost": NAME, "name": "x"}]},
        {"queues": [{"vhost": NAME, "name": 5, "durable": True}]},
        {"queues": [{"name": "q", "durable": True}]},
        {"queues": [{"name": "q", "vhost": "no such vhost", "durable": True}]},
        {"policies": [{"vhost": NAME, "pattern": "x", "definition": {}}]},
        {"users": [{"tags": ""}]},
        {"rabbitmq_definition_format": "single_virtual_host", "queues": []},
    ],
)
def test_documents_that_are_wrong_are_refused(client: Client, broken: dict[str, Any]) -> None:
    before = client.get("/overview").json["topology_version"]
    answer = client.post("/definitions", broken)
    assert (answer.status, answer.json["error"]) == (400, "bad_request")
    assert client.get("/overview").json["topology_version"] == before


def test_an_export_brings_everything_back(server: Server, client: Client, tmp_path: Path) -> None:
    assert client.post("/definitions", document()).status == 204
    policy = {"pattern": "^x", "definition": {"alternate-exchange": "y"}, "apply-to": "exchanges", "priority": 2}
    client.put(f"/policies/{AT}/p", policy)
    client.put(f"/operator-policies/{AT}/o", {"pattern": "q", "definition": {"expires": 5}})
    client.put(f"/parameters/c/{AT}/n", {"value": {"a": [1]}})
    client.put(f"/diverts/{AT}/d", {"source": "x", "destination": "amq.fanout", "filter": "a = 1"})
    client.put("/users/kept", {"password": "pw", "tags": "monitoring"})
    exported = client.get("/definitions").json
    other = Server(tmp_path / "data").start()
    try:
        second = other.client()
        assert second.post("/definitions", exported).status == 204
        assert second.get(f"/definitions/{AT}").json == client.get(f"/definitions/{AT}").json
        for path in (f"/policies/{AT}", f"/operator-policies/{AT}", f"/parameters/c/{AT}", f"/diverts/{AT}"):
            assert second.get(path).json == client.get(path).json, path
        assert other.client("kept", "pw").get("/whoami").json["tags"] == ["monitoring"]
    finally:
        other.stop()
        client.delete("/users/kept")


def test_an_unchanged_export_is_not_sent_twice(client: Client) -> None:
    first = client.get(f"/definitions/{AT}")
    again = client.call("GET", f"/definitions/{AT}", headers={"if-none-match": first.headers["etag"]})
    assert (again.status, again.raw) == (304, b"")


def test_the_name_of_a_download_ends_no_header(client: Client) -> None:
    answer = client.get("/definitions?download=a%0d%0aX-Evil:%201%22;b.json")
    assert answer.headers["content-disposition"] == "attachment; filename=aX-Evil1b.json"
    assert "x-evil" not in answer.headers


def test_an_import_says_what_has_no_effect(client: Client) -> None:
    queue = {"name": "q", "vhost": NAME, "durable": True, "arguments": {"x-max-priority": 1, "x-queue-filter": "a = 1"}}
    policy = {"name": "p", "vhost": NAME, "pattern": "", "definition": {"delivery-limit": 1}}
    content = document(queues=[queue], policies=[policy])
    tried = client.post("/definitions?dry_run=1", content)
    assert [(item["path"], list(item["names"])) for item in tried.json["without_effect"]] == [
        ("policies[0]", ["delivery-limit"]),
        ("queues[0]", ["x-max-priority"]),
    ]
    done = client.post("/definitions", content)
    assert (done.status, done.headers["x-bindery-without-effect"]) == (204, "delivery-limit, x-max-priority")


def test_an_import_names_the_keys_that_nobody_reads(client: Client) -> None:
    queue = {"name": "q", "vhost": NAME, "durable": True, "arguments": {}, "argumens": {"x-queue-filter": "a = 1"}}
    binding = {"vhost": NAME, "source": "amq.topic", "destination": "q", "routingkey": "a.#"}
    content = document(queues=[queue], bindings=[binding]) | {"exchange": [], "product_name": "RabbitMQ"}
    for query in ("?dry_run=1", ""):
        done = client.post(f"/definitions{query}", content)
        named = unquote(done.headers["x-bindery-without-effect"]).split(", ")
        assert sorted(named) == ["bindings[0].routingkey", "exchange", "queues[0].argumens"]
