"""The control plane over an object store: what it declares, publishes and keeps is there for the next one."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.service.conftest import PASSWORD, Server
from tests.service.http import Client

pytestmark = pytest.mark.service


def payloads(client: Client, *, ackmode: str = "ack_requeue_true") -> list[str]:
    answer = client.post("/queues/%2F/q/get", {"count": 10, "ackmode": ackmode, "encoding": "auto"})
    assert answer.status == 200, answer.raw
    return [item["payload"] for item in answer.json]


def publish(client: Client, payload: str) -> Any:
    body = {"routing_key": "k", "payload": payload, "payload_encoding": "string", "properties": {}}
    answer = client.post("/exchanges/%2F/x/publish", body)
    assert answer.status == 200, answer.raw
    return answer.json["routed"]


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.1)


def test_what_one_control_plane_did_the_next_one_has(s3_root: str) -> None:
    first = Server(s3_root).start()
    try:
        client = first.client()
        assert client.put("/exchanges/%2F/x", {"type": "direct"}).status == 201
        assert client.put("/queues/%2F/q", {"durable": True}).status == 201
        assert client.post("/bindings/%2F/e/x/q/q", {"routing_key": "k"}).status == 201
        assert publish(client, "one")
        assert publish(client, "two")
        assert payloads(client) == ["one", "two"]
        assert client.get("/queues/%2F/q").json["messages"] == 2
        assert client.put("/users/ann", {"password": "a-password-of-ann", "tags": "management"}).status == 201
        assert client.put("/permissions/%2F/ann", {"configure": "", "write": ".*", "read": ".*"}).status == 201
        assert client.get("/overview").status == 200
        assert client.get("/jobs").json == []
    finally:
        first.stop()

    second = Server(s3_root).start()
    try:
        ann = second.client("ann", "a-password-of-ann")
        assert payloads(ann, ackmode="ack_requeue_false") == ["one", "two"]
        assert publish(ann, "three")
        assert payloads(ann) == ["three"]
        assert second.client().get("/definitions").status == 200
    finally:
        second.stop()


def test_two_control_planes_share_users_and_declarations(s3_root: str) -> None:
    one, other = Server(s3_root).start(), Server(s3_root).start()
    try:
        assert one.client().put("/users/ann", {"password": "a-password-of-ann", "tags": "management"}).status == 201
        assert other.client().put("/users/bob", {"password": "a-password-of-bob", "tags": "management"}).status == 201
        assert one.client().put("/queues/%2F/q", {"durable": True}).status == 201
        assert other.client().get("/queues/%2F/q").status == 200
        names = {"guest", "ann", "bob"}
        # users are looked at once a second
        until(lambda: {user["name"] for user in one.client().get("/users").json} == names)
        until(lambda: {user["name"] for user in other.client().get("/users").json} == names)
        assert one.client().delete("/users/bob").status == 204
        until(lambda: other.client("bob", "a-password-of-bob").get("/whoami").status == 401)
        assert other.client("guest", PASSWORD).get("/whoami").status == 200
    finally:
        one.stop()
        other.stop()
