"""Canaries over REST: begun, compared while messages are published, promoted or rolled back, and who may."""

from __future__ import annotations

from typing import Any

import pytest

from tests.service.conftest import Server
from tests.service.http import Client
from tests.service.test_metrics import samples, value

pytestmark = pytest.mark.service

CHANGE: dict[str, Any] = {
    "delete": {"bindings": [{"source": "orders", "destination": "eu", "routing_key": "eu.#"}]},
    "definitions": {
        "queues": [{"name": "new"}],
        "bindings": [{"source": "orders", "destination": "new", "destination_type": "queue", "routing_key": "eu.#"}],
    },
}


@pytest.fixture
def shop(alone: Server) -> Client:
    client = alone.client()
    client.put("/exchanges/%2F/orders", {"type": "topic"})
    client.put("/queues/%2F/eu", {})
    client.post("/bindings/%2F/e/orders/q/eu", {"routing_key": "eu.#"})
    return client


def publish(client: Client, *ids: str) -> None:
    for name in ids:
        body = {"routing_key": "eu.x", "properties": {"message_id": name}, "payload": "p", "payload_encoding": "string"}
        assert client.post("/exchanges/%2F/orders/publish", body).json["routed"]


def depth(client: Client, queue: str) -> int:
    return int(client.post(f"/queues/%2F/{queue}/count", {}).json["messages"])


def test_a_canary_from_its_beginning_to_its_promotion(shop: Client, alone: Server) -> None:
    assert shop.get("/canary/%2F").status == 404
    begun = shop.put("/canary/%2F", {"change": CHANGE, "filter": "JMSMessageID LIKE 'c%'"})
    assert begun.status == 200 and begun.json["changed"]
    candidate = begun.json["canary"]["version"]
    assert begun.json["canary"]["filter"] == "JMSMessageID LIKE 'c%'"
    assert not shop.put("/canary/%2F", {"change": CHANGE, "filter": "JMSMessageID LIKE 'c%'"}).json["changed"]

    publish(shop, "a", "b", "c1", "c2")
    assert (depth(shop, "eu"), depth(shop, "new")) == (2, 2)
    found = shop.get("/canary/%2F").json
    compared = found["comparison"]
    assert (compared["messages"], compared["equal"], compared["differing"]) == (2, 0, 2)
    lost, gained = sorted(compared["queues"], key=lambda one: one["queue"])
    assert (lost["queue"], lost["lost"], gained["queue"], gained["gained"]) == ("eu", 2, "new", 2)
    assert "[eu.#]" in gained["examples"][0]["because"][0]
    assert found["change"]["total"] == 2
    assert value(samples(alone), "bindery_canary_messages_total", vhost="/", what="differing") == 2

    refused = shop.post("/canary/%2F/promote?version=1", {})
    assert (refused.status, refused.json["error"]) == (412, "precondition_failed")
    done = shop.post(f"/canary/%2F/promote?version={candidate}", {})
    assert done.json["changed"] and done.json["canary"]["state"] == "promoted"
    assert not shop.post("/canary/%2F/promote", {}).json["changed"]
    publish(shop, "d")
    assert (depth(shop, "eu"), depth(shop, "new")) == (2, 3)
    assert shop.delete("/canary/%2F").status == 404


def test_rolled_back_everything_goes_as_before(shop: Client) -> None:
    shop.put("/canary/%2F", {"change": CHANGE, "share": 1})
    publish(shop, "a")
    done = shop.delete("/canary/%2F").json
    assert (done["changed"], done["canary"]["state"], done["canary"]["queues"]) == (True, "rolled back", ["new"])
    assert not shop.delete("/canary/%2F").json["changed"]
    publish(shop, "b")
    assert (depth(shop, "eu"), depth(shop, "new")) == (1, 1)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"change": CHANGE, "share": 2}, "above 0 and up to 1"),
        ({"change": CHANGE, "shar": 1}, "shar"),
        ({"change": {"queues": [{"name": "q", "durable": "no!"}]}, "share": 1}, "durable"),
        ({"share": 0.5}, "no canary runs"),
        ({"change": CHANGE, "filter": "a ="}, "ends too early"),
    ],
)
def test_what_is_wrong_is_said(shop: Client, body: dict[str, Any], said: str) -> None:
    answer = shop.put("/canary/%2F", body)
    assert answer.status in (400, 404)
    assert said in answer.raw.decode()
    assert shop.get("/canary/%2F").status == 404
