"""Who may call what: every route of the OpenAPI document with every role, and permissions by name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.service.conftest import Server
from tests.service.http import Answer, Client, segment

pytestmark = pytest.mark.service

ROLES = ("nobody", "management", "policymaker", "monitoring", "administrator")
#: Path prefix -> the role that a call needs, where it is more than management; the longest prefix counts.
NEEDED = {
    "/users": "administrator",
    "/audit": "administrator",
    "/permissions": "administrator",
    "/topic-permissions": "administrator",
    "/vhosts/{name}/permissions": "administrator",
    "/vhosts/{name}/topic-permissions": "administrator",
    "/definitions": "administrator",
    "/jobs": "administrator",
    "/status": "monitoring",
    "/user-limits": "administrator",
    "PUT /vhosts": "administrator",
    "DELETE /vhosts": "administrator",
    "POST /vhosts": "administrator",
    "PUT /vhost-limits": "administrator",
    "DELETE /vhost-limits": "administrator",
    "PUT /cluster-name": "administrator",
    "PUT /global-parameters": "administrator",
    "DELETE /global-parameters": "administrator",
    "/topology/versions": "monitoring",
    "POST /topology": "administrator",
    "POST /rebalance": "administrator",
    "/canary": "administrator",
    "GET /canary": "monitoring",
    "PUT /parameters": "policymaker",
    "DELETE /parameters": "policymaker",
    "PUT /policies": "policymaker",
    "DELETE /policies": "policymaker",
    "PUT /operator-policies": "policymaker",
    "DELETE /operator-policies": "policymaker",
    "GET /jobs": "monitoring",
    "/nodes": "monitoring",
    "/feature-flags": "monitoring",
    "/deprecated-features": "monitoring",
}
HELD = {
    "nobody": set(),
    "management": {"management"},
    "policymaker": {"management", "policymaker"},
    "monitoring": {"management", "monitoring"},
    "administrator": {"management", "policymaker", "monitoring", "administrator"},
}


def needed(method: str, path: str) -> str:
    matching = [key for key in NEEDED if f"{method} {path}".startswith(key) or path.startswith(key)]
    return NEEDED[max(matching, key=lambda key: (len(key.partition("/")[2]), " " in key))] if matching else "management"


def operations(server: Server) -> Iterator[tuple[str, str]]:
    for path, methods in server.app.openapi()["paths"].items():
        if not path.startswith("/api/"):
            continue
        for method in methods:
            yield method.upper(), path.removeprefix("/api")


def address(path: str) -> str:
    """The path with every parameter filled in with something that does not exist."""
    return re.sub(r"\{(\w+)\}", lambda match: {"kind": "q", "end": "source"}.get(match[1], "nothing"), path)


@pytest.fixture
def users(client: Client) -> dict[str, str]:
    """A user per role, each without any permission; name of the role -> name of the user."""
    for role in ROLES:
        tags = "" if role == "nobody" else role
        client.put(f"/users/role-{role}", {"password": "pw", "tags": tags})
    return {role: f"role-{role}" for role in ROLES}


def test_no_route_answers_a_stranger(server: Server) -> None:
    for method, path in operations(server):
        answer = server.client(None).call(method, address(path))
        assert (answer.status, answer.raw) == (401, b""), f"{method} {path}"
        answer = server.client("stranger", "x").call(method, address(path))
        assert answer.status in (401, 429), f"{method} {path}"


@pytest.mark.parametrize("role", ROLES)
def test_every_route_wants_its_role(server: Server, users: dict[str, str], role: str) -> None:
    """Without permissions nothing can be changed, so that all routes can be called with bad bodies."""
    client = server.client(users[role], "pw")
    for method, path in operations(server):
        if role == "administrator" and method != "GET":
            continue  # some of these would do something
        answer = client.call(method, address(path), raw=b"no json")
        refused = answer.status == 401 and str(answer.json["reason"]).startswith("Not ")
        assert refused == (needed(method, path) not in HELD[role]), f"{method} {path}: {answer.status} {answer.raw!r}"
        assert answer.status != 500, f"{method} {path}: {answer.raw!r}"


@pytest.fixture
def vhost(client: Client) -> Iterator[str]:
    """A vhost with things in it: exchange x (topic), exchange y, queue q, both bound."""
    name = "access test/1"
    client.delete(f"/vhosts/{segment(name)}")
    assert client.put(f"/vhosts/{segment(name)}").status == 201
    at = segment(name)
    assert client.put(f"/exchanges/{at}/x", {"type": "topic"}).status == 201
    assert client.put(f"/exchanges/{at}/y", {"type": "fanout"}).status == 201
    assert client.put(f"/queues/{at}/q").status == 201
    assert client.post(f"/bindings/{at}/e/x/q/q", {"routing_key": "#"}).status == 201
    yield name
    client.delete(f"/vhosts/{segment(name)}")


@pytest.fixture
def ann(server: Server, client: Client, vhost: str) -> Client:
    """A user who may configure c…, write w… and x, read r… in the vhost."""
    client.put("/users/ann", {"password": "pw", "tags": "management"})
    grant = {"configure": "^c", "write": "^[wx]", "read": "^r"}
    assert client.put(f"/permissions/{segment(vhost)}/ann", grant).status in (201, 204)
    return server.client("ann", "pw")


def is_refused(answer: Answer) -> bool:
    return (answer.status, answer.json) == (401, {"error": "not_authorised", "reason": "Access refused."})


MESSAGE = {"routing_key": "k", "payload": "p", "payload_encoding": "string", "properties": {}}
GET = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}


def test_permissions_go_by_name(ann: Client, client: Client, vhost: str) -> None:
    at = segment(vhost)
    assert ann.put(f"/queues/{at}/c1").status == 201
    assert is_refused(ann.put(f"/queues/{at}/other"))
    assert ann.put(f"/exchanges/{at}/c2").status == 201
    assert is_refused(ann.put(f"/exchanges/{at}/other"))
    assert is_refused(ann.delete(f"/queues/{at}/q"))
    assert is_refused(ann.delete(f"/exchanges/{at}/x"))
    assert is_refused(ann.post(f"/bindings/{at}/e/x/q/c1", {})), "binding reads the source and writes the destination"
    assert is_refused(ann.delete(f"/bindings/{at}/e/x/q/q/%23"))
    assert ann.post(f"/exchanges/{at}/x/publish", MESSAGE).json == {"routed": True}
    assert is_refused(ann.post(f"/exchanges/{at}/y/publish", MESSAGE))
    assert is_refused(ann.post(f"/exchanges/{at}/amq.default/publish", MESSAGE))
    assert is_refused(ann.post(f"/queues/{at}/q/get", GET))
    assert is_refused(ann.delete(f"/queues/{at}/q/contents"))
    divert = {"source": "x", "destination": "y"}
    assert is_refused(ann.put(f"/diverts/{at}/d", divert))
    alternate = {"arguments": {"alternate-exchange": "y"}}
    assert is_refused(ann.put(f"/exchanges/{at}/c3", alternate)), "an alternate is written to"
    alternate_binding = {"alternateBinding": {"destination": "y"}}
    assert is_refused(ann.put(f"/exchanges/{at}/c3", alternate_binding)), "an alternate is written to"
    for raw in (b'{"exchange": "x"}\n{"exchange": "y"}', b"{}"):
        assert is_refused(ann.call("POST", f"/inbox/{at}", raw=raw)), "nothing of the whole is stored"
    assert ann.call("POST", f"/inbox/{at}", raw=b'{"exchange": "x"}').json["records"] == 1
    assert client.get(f"/queues/{at}/q").json["messages"] == 1


def test_topic_permissions_go_by_routing_key(ann: Client, client: Client, vhost: str) -> None:
    at = segment(vhost)
    grant = {"exchange": "x", "write": "^a\\.", "read": ".*"}
    assert client.put(f"/topic-permissions/{at}/ann", grant).status == 201
    assert is_refused(ann.post(f"/exchanges/{at}/x/publish", MESSAGE))
    assert ann.post(f"/exchanges/{at}/x/publish", {**MESSAGE, "routing_key": "a.b"}).status == 200


def test_other_vhosts_do_not_exist(ann: Client, vhost: str) -> None:
    at = segment(vhost)
    assert [item["name"] for item in ann.get("/vhosts").json] == [vhost]
    assert {item["vhost"] for item in ann.get("/exchanges").json} == {vhost}
    for method, path in [
        ("GET", "/vhosts/%2F"),
        ("GET", "/queues/%2F"),
        ("GET", "/exchanges/%2F/amq.topic"),
        ("PUT", "/queues/%2F/c"),
        ("DELETE", "/queues/%2F/c"),
        ("GET", "/bindings/%2F"),
        ("POST", "/inbox/%2F"),
        ("GET", "/policies/%2F"),
    ]:
        answer = ann.call(method, path)
        assert (answer.status, answer.json["reason"]) == (404, "Not Found"), f"{method} {path}"
    assert ann.get(f"/queues/{at}").status == 200


def test_what_is_revoked_is_gone_at_once(ann: Client, client: Client, vhost: str) -> None:
    assert ann.get(f"/queues/{segment(vhost)}").status == 200
    assert client.delete(f"/permissions/{segment(vhost)}/ann").status == 204
    assert ann.get(f"/queues/{segment(vhost)}").status == 404
    assert client.delete("/users/ann").status == 204
    assert ann.get("/whoami").status == 401


def test_passwords_change_and_hashes_travel(server: Server, client: Client) -> None:
    assert client.put("/users/eve", {"password": "one", "tags": ["management"]}).status == 201
    assert server.client("eve", "one").get("/whoami").json == {"name": "eve", "tags": ["management"]}
    assert client.put("/users/eve", {"password": "two", "tags": "management"}).status == 204
    assert server.client("eve", "one").get("/whoami").status == 401
    kept = client.get("/users/eve").json
    copy = {key: kept[key] for key in ("password_hash", "hashing_algorithm", "tags")}
    assert client.put("/users/eve2", copy).status == 201
    assert server.client("eve2", "two").get("/whoami").status == 200
    sha512 = {"password": "x", "tags": "", "hashing_algorithm": "rabbit_password_hashing_sha512"}
    assert client.put("/users/eve3", sha512).status == 201
    assert client.put("/users/eve4", {"password": "x"}).json["reason"] == "tags_not_present"
    assert client.put("/users/eve5", {"password_hash": "nonsense", "tags": ""}).status == 400
    assert client.put("/users/eve6", {"tags": "management"}).status == 201
    assert server.client("eve6", "").get("/whoami").status == 401, "a user without password cannot log in"
    assert client.post("/users/bulk-delete", {"users": ["eve", "eve2", "eve3", "eve6"]}).status == 204
    assert client.get("/users/eve").status == 404


def test_users_cannot_delete_themselves(client: Client) -> None:
    assert client.delete("/users/guest").status == 400
    assert client.post("/users/bulk-delete", {"users": ["guest"]}).status == 400


def test_pages_of_other_origins_change_nothing(server: Server, client: Client) -> None:
    foreign = {"origin": "https://evil.example"}
    assert client.call("PUT", "/exchanges/%2F/csrf", {}, headers=foreign).status == 403
    assert client.get("/exchanges/%2F/csrf").status == 404
    own = {"origin": f"http://127.0.0.1:{server.port}"}
    assert client.call("PUT", "/exchanges/%2F/csrf", {}, headers=own).status == 201
    client.delete("/exchanges/%2F/csrf")


@pytest.mark.parametrize("header", ["Basic", "Basic !!!", "Bearer x", "Basic bm9jb2xvbg==", "Basic " + "A" * 10_000])
def test_broken_credentials_are_refused(server: Server, header: str) -> None:
    answer = server.client(None).call("GET", "/whoami", headers={"authorization": header})
    assert answer.status == 401
    assert answer.headers["www-authenticate"].startswith("Basic")


def test_guessing_is_slowed_down(server: Server) -> None:
    statuses = [server.client("victim", str(number)).get("/whoami").status for number in range(12)]
    assert statuses == [401] * 10 + [429] * 2


def test_no_secret_in_lists_of_others(server: Server, users: dict[str, str]) -> None:
    for role in ("management", "policymaker", "monitoring"):
        client = server.client(users[role], "pw")
        for path in ("/users", "/users/guest", "/definitions", "/definitions/%2F"):
            answer: Any = client.get(path)
            assert answer.status == 401
            assert b"password_hash" not in answer.raw


def test_the_audit_says_who_changed_users_and_permissions(client: Client) -> None:
    client.put("/users/audited", {"password": "a secret", "tags": ""})
    client.put("/permissions/%2F/audited", {"configure": "", "write": "", "read": ".*"})
    client.delete("/users/audited")
    changes = client.get("/audit?limit=3").json["changes"]
    assert len(changes) == 3
    assert all("audited" in one["action"] and one["user"] == "guest" for one in changes)
    assert client.get("/audit?text=AUDITED&limit=3&by=guest").json["changes"] == changes
    assert client.get("/audit?text=audited&by=somebody").json["changes"] == []
    newest, oldest = changes[0]["at_ms"], changes[-1]["at_ms"]
    assert changes[0] not in client.get(f"/audit?text=audited&until={newest}").json["changes"]
    assert client.get(f"/audit?text=audited&since={oldest}&until={newest + 1}").json["changes"][:3] == changes
    assert client.get(f"/audit?since={newest + 1}").json["changes"] == []
    assert changes[0]["at_ms"] >= changes[2]["at_ms"]
    assert "a secret" not in str(changes)
    for limit in ("0", "1001", "x"):
        assert client.get(f"/audit?limit={limit}").status == 400
