"""Replay over REST: what another topology would have done with the newest messages, for those who may read them."""

from __future__ import annotations

from typing import Any

import pytest

from bindery.router.message import Message
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from tests.service.conftest import Server
from tests.service.http import Client
from tests.unit.store.routed import route

pytestmark = pytest.mark.service

WIDER: dict[str, Any] = {
    "delete": {"bindings": [{"source": "orders", "destination": "eu", "routing_key": "eu.#"}]},
    "definitions": {"bindings": [{"source": "orders", "destination": "eu", "routing_key": "us.#"}]},
}


@pytest.fixture(scope="module")
def shop(server: Server) -> Client:
    """A vhost with six messages for `eu`, four for `us`, and two for nobody."""
    client = server.client()
    client.put("/vhosts/replayed", {})
    client.put("/exchanges/replayed/orders", {"type": "topic"})
    for queue in ("eu", "us"):
        client.put(f"/queues/replayed/{queue}", {})
        client.post(f"/bindings/replayed/e/orders/q/{queue}", {"routing_key": f"{queue}.#"})
    for key in [*["eu.books"] * 6, *["us.books"] * 4, *["jp.books"] * 2]:
        message = {"routing_key": key, "properties": {}, "payload": "secret", "payload_encoding": "string"}
        client.post("/exchanges/replayed/orders/publish", message)
    return client


def numbers(report: dict[str, Any]) -> dict[str, tuple[int, int, int, int]]:
    return {one["queue"]: (one["before"], one["lost"], one["gained"], one["after"]) for one in report["queues"]}


def test_rows_gained_and_lost_are_counted_and_explained(shop: Client) -> None:
    report = shop.post("/replay/replayed", {"change": WIDER}).json
    assert numbers(report) == {"eu": (6, 6, 4, 4), "us": (4, 0, 0, 4)}
    assert (report["messages"], report["cut"], report["unread_queues"]) == (12, None, 0)
    assert report["unroutable"] == {"before": {"no_binding": 2}, "after": {"no_binding": 8}, "change": 6}
    (eu,) = (one for one in report["queues"] if one["queue"] == "eu")
    directions = {one["direction"]: one for one in eu["examples"]}
    assert "[us.#]" in directions["gained"]["because"][0]
    assert directions["lost"]["message"]["routing_key"] == "eu.books"


def test_a_version_is_compared_with_what_became_of_messages_or_with_now(shop: Client) -> None:
    before = shop.get("/topology/versions?limit=1").json["newest"]
    try:
        shop.post("/apply/replayed", WIDER)
        now = {"version": before + 1, "compared_with": "now"}
        assert shop.post("/replay/replayed", now).json["changed"] == {"gained": 0, "lost": 0}
        assert shop.post("/replay/replayed", {"version": before + 1}).json["changed"] == {"gained": 4, "lost": 6}
        back = {"version": before, "compared_with": "now"}
        assert shop.post("/replay/replayed", back).json["changed"] == {"gained": 6, "lost": 4}
    finally:
        shop.post("/topology/rollback", {"to": before})


def test_only_the_newest_are_compared_and_the_report_says_so(shop: Client) -> None:
    report = shop.post("/replay/replayed", {"change": WIDER, "messages": 5}).json
    assert (report["messages"], report["cut"]) == (5, "messages")
    assert numbers(report) == {"us": (3, 0, 0, 3), "eu": (0, 0, 3, 3)}, "three to us and two to nobody"
    (stream,) = report["streams"]
    row = report["queues"][0]["examples"][0]["row"]
    batch = int(row.split(":")[-2])
    some = {"change": WIDER, "stream": stream, "first_batch": batch, "last_batch": batch}
    assert shop.post("/replay/replayed", some).json["messages"] == 1


def test_nobody_sees_messages_that_they_may_not_read(shop: Client, server: Server) -> None:
    """A change that would bring every message to a queue of one's own shows those alone that one may read."""
    shop.put("/users/peeper", {"password": "pw", "tags": "management"})
    shop.put("/permissions/replayed/peeper", {"configure": "", "write": "", "read": "^(us|mine)$"})
    peeper = server.client("peeper", "pw")
    everything = {
        "queues": [{"name": "mine"}],
        "bindings": [{"source": "orders", "destination": "mine", "routing_key": "#"}],
    }
    answer = peeper.post("/replay/replayed", {"change": everything})
    assert numbers(answer.json)["mine"] == (0, 0, 4, 4)
    assert answer.json["unread_queues"] == 1
    assert b"eu.books" not in answer.raw
    assert b"jp.books" not in answer.raw
    assert b"us.books" in answer.raw
    elsewhere = {"change": {"queues": [{"name": "x", "vhost": "/"}]}}
    assert peeper.post("/replay/replayed", elsewhere).status == 404


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "one of version and change"),
        ({"version": 1, "change": {}}, "one of version and change"),
        ({"version": 1, "first_batch": 1}, "say stream"),
        ({"version": 10**9}, "no topology version"),
        ({"version": 1}, "vhost"),
        ({"change": "queues:\n- nam: x"}, "line 2, column 3"),
        ({"change": {"delete": {"queues": ["nope"]}}}, "no queue 'nope'"),
        ({"version": 1, "mesages": 1}, "did you mean 'messages'"),
        ({"version": 1, "messages": 100_001}, "messages"),
    ],
)
def test_what_cannot_be_replayed_is_refused(shop: Client, body: dict[str, Any], said: str) -> None:
    answer = shop.post("/replay/replayed", body)
    assert answer.status in (400, 404)
    assert said in str(answer.json["reason"])


def test_what_only_a_journal_has_is_compared_and_redriven(shop: Client, server: Server) -> None:
    shop.put("/vhosts/journaled", {})
    shop.put("/exchanges/journaled/orders", {"type": "topic", "arguments": {"x-record-unroutable": False}})
    shop.put("/queues/journaled/eu", {})
    shop.post("/bindings/journaled/e/orders/q/eu", {"routing_key": "eu.#"})
    data = DataDir.open(server.settings.data)
    sent = [Message("orders", key) for key in ["eu.books"] * 3 + ["us.books"] * 2]
    route(data, TopologyStore(data), sent, stream="kept", vhost="journaled", journal=True)
    shop.delete("/queues/journaled/eu/contents")
    report = shop.post("/replay/journaled", {"change": WIDER}).json
    assert numbers(report) == {"eu": (3, 3, 2, 2)}
    assert (report["messages"], report["from_journals"]) == (5, 5)
    shop.post("/bindings/journaled/e/orders/q/eu", {"routing_key": "us.#"})
    assert shop.post("/unroutable/journaled/redrive", {}).json["redriven"] == 0
    dry = {"journal": True, "dry_run": True}
    assert shop.post("/unroutable/journaled/redrive", dry).json["queues"] == {"eu": 2}
    for redriven in (2, 0):
        assert shop.post("/unroutable/journaled/redrive", {"journal": True}).json["redriven"] == redriven
    assert shop.get("/unroutable/journaled").json["redriven"] == 2
