"""Messages are pasted, found, tried against a change and brought to a queue, and the change is applied, over HTTP."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from bindery.router.message import Message
from bindery.store import found_messages
from tests.service.conftest import Server
from tests.service.http import Answer, Client, segment
from tests.unit.store.routed import route

pytestmark = pytest.mark.service

_numbers = itertools.count(1)
SELECTOR = "x-filter-jms-selector"


class Shop:
    """A vhost with a topic exchange, and a queue whose binding has a filter."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.client = server.client()
        self.vhost = f"trying/{next(_numbers)}"
        v = segment(self.vhost)
        for method, path, body in (
            ("PUT", f"/vhosts/{v}", None),
            ("PUT", f"/permissions/{v}/guest", dict.fromkeys(("configure", "write", "read"), ".*")),
            ("PUT", f"/exchanges/{v}/orders", {"type": "topic", "durable": True}),
            ("PUT", f"/queues/{v}/dear", {"durable": True}),
            ("PUT", f"/queues/{v}/all", {"durable": True}),
            (
                "POST",
                f"/bindings/{v}/e/orders/q/dear",
                {"routing_key": "eu.#", "arguments": {SELECTOR: "price > 20 AND region = 'EU'"}},
            ),
            ("POST", f"/bindings/{v}/e/orders/q/all", {"routing_key": "eu.#"}),
        ):
            assert self.client.call(method, path, body).status < 300, path
        self.v = v

    def post(self, path: str, body: dict[str, Any], client: Client | None = None) -> Answer:
        return (client or self.client).post(path, {"vhost": self.vhost, **body})

    def done(self, path: str, body: dict[str, Any]) -> Any:
        answer = self.post(path, body)
        assert answer.status == 200, answer.raw
        return answer.json

    def user(self, name: str, **permissions: str) -> Client:
        self.client.put(f"/users/{name}", {"password": "pw", "tags": "management"})
        granted = {"configure": "^$", "write": "^$", "read": "^$", **permissions}
        assert self.client.put(f"/permissions/{self.v}/{name}", granted).status < 300
        return self.server.client(name, "pw")

    def publish(self, key: str, message_id: str, **headers: Any) -> None:
        body = {
            "routing_key": key,
            "properties": {"headers": headers, "message_id": message_id},
            "payload": "p" * 3_000,
            "payload_encoding": "string",
        }
        assert self.client.post(f"/exchanges/{self.v}/orders/publish", body).status == 200


@pytest.fixture
def shop(server: Server) -> Iterator[Shop]:
    found = Shop(server)
    yield found
    found.client.delete(f"/vhosts/{found.v}")


MESSAGE = {"exchange": "orders", "routing_key": "eu.books", "application_properties": {"price": 9, "region": "EU"}}


def test_a_message_is_pasted_in_either_form(shop: Shop) -> None:
    record = (
        '{"exchange": "orders", "routing_key": "eu.books", "application_properties": {"price": 30, "region": "EU"}}'
    )
    found = shop.done("/route", {"text": record})
    assert (found["results"][0]["queues"], found["message"]["routing_key"]) == (["all", "dear"], "eu.books")
    published = """{
      "exchange": "orders", "routing_key": "eu.books", "payload": "hi", "payload_encoding": "string",
      "properties": {"headers": {"price": 30, "region": "EU"}, "message_id": "m1"}
    }"""
    found = shop.done("/route", {"text": published})
    assert found["results"][0]["queues"] == ["all", "dear"]
    assert found["message"]["properties"] == {"message_id": "m1"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"exchange": "orders",\n  "routing_key": }', "line 2, column 18: not JSON: Expecting value"),
        (
            '{"routing_kye": "a"}',
            "line 1, column 2: routing_kye: unknown key 'routing_kye' (did you mean 'routing_key'?",
        ),
        (
            '{"routing_key": "a", "payload": "",\n "properties": {"headres": {}}}',
            "line 2, column 17: properties.headres: unknown key 'headres' (did you mean 'headers'?)",
        ),
        ('{"application_properties":\n {"a": {"timestamp": "x"}}}', "line 2"),
        ('{"payload": "", "routing_key": 5}', "line 1, column 32: routing_key: routing_key is no string"),
        ("exchange: orders", "a message is a JSON object"),
        ('{"exchange": "a", "exchange": "b"}', "the key 'exchange' stands twice"),
    ],
)
def test_what_is_wrong_with_a_pasted_message_is_said_with_its_place(shop: Shop, text: str, says: str) -> None:
    answer = shop.post("/route", {"text": text})
    assert answer.status == 400, answer.raw
    assert says in answer.json["reason"]


def test_a_change_is_tried_and_says_what_it_gains_and_loses(shop: Shop) -> None:
    change = {
        "delete": {"bindings": [{"source": "orders", "destination": "all", "routing_key": "eu.#"}]},
        "add": {"bindings": [{"source": "orders", "destination": "dear", "routing_key": "eu.books"}]},
    }
    (result,) = shop.done("/route", {"message": MESSAGE, "proposal": change})["results"]
    assert (result["queues"], result["gained"], result["lost"]) == (["dear"], ["dear"], ["all"])
    text = "add:\n  bindings:\n    - {source: orders, destination: dear, routing_key: eu.books}\n"
    (result,) = shop.done("/route", {"message": MESSAGE, "proposal": text})["results"]
    assert (result["gained"], result["lost"]) == (["dear"], [])
    assert shop.done("/route", {"message": MESSAGE})["results"][0]["queues"] == ["all"], "nothing was written"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"ad": {}, "change": {}}, "unknown key 'ad' (did you mean 'add'?"),
        ({"add": {"queues": [{"name": "q", "durabel": True}]}}, "unknown key 'durabel' (did you mean 'durable'?"),
        ("add:\n  queues:\n    - {nmae: q}\n", "line 3, column 8: unknown key 'nmae'"),
        ("add: [", "line 1"),
        ({"change": {"queues": [{"name": "missing"}]}}, "queue 'missing' is not there"),
        ({"add": {"queues": [{"name": "q", "arguments": {"x-queue-filter": "a ="}}]}}, "a value is missing after '='"),
    ],
)
def test_a_change_that_cannot_be_made_is_refused_in_words(shop: Shop, change: Any, says: str) -> None:
    answer = shop.post("/route", {"message": {}, "proposal": change})
    assert answer.status == 400, answer.raw
    assert says in answer.json["reason"], answer.json["reason"]


def test_a_suggestion_is_tried_planned_and_applied(shop: Shop) -> None:
    found = shop.done("/route", {"message": MESSAGE, "reach": "dear"})["suggestions"]
    assert found["messages"][0]["differs"]["application_properties"]["price"] == 21
    moved = next(one for one in found["changes"] if "price >= 9" in one["says"])
    assert moved["objects"] == 2
    plan = shop.client.post(f"/plan/{shop.v}", moved["change"]).json
    assert [one["change"] for one in plan["changes"]] == ["deleted", "created"]
    assert shop.client.post(f"/apply/{shop.v}?expected={plan['base']}", moved["change"]).status == 200
    assert shop.done("/route", {"message": MESSAGE})["results"][0]["queues"] == ["all", "dear"]


def test_every_part_of_a_filter_and_every_binding_that_was_missed(shop: Shop) -> None:
    (result,) = shop.done("/route", {"message": MESSAGE, "queues": ["dear"], "detailed": True})["results"]
    (verdict,) = result["why_not"][0]["causes"][0]["filters"]
    assert [(part["text"], part["value"]) for part in verdict["tree"]["parts"]] == [
        ("price > 20", "false"), ("region = 'EU'", "true"),
    ]  # fmt: skip
    elsewhere = MESSAGE | {"routing_key": "us.books"}
    (result,) = shop.done("/route", {"message": elsewhere, "detailed": True})["results"]
    missed = result["visits"][0]["missed"]
    assert {one["destination"] for one in missed} == {"dear", "all"}
    assert missed[0]["message"] == "word 1 of key 'us.books' is 'us', 'eu.#' wants 'eu'"
    (result,) = shop.done("/route", {"message": elsewhere})["results"]
    assert "missed" not in result["visits"][0]


def test_messages_are_found_by_what_they_hold(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(6):
        shop.publish("eu.books" if number % 2 else "us.books", f"m{number}", price=number)
    found = shop.done("/find", {"filter": "price >= 2"})
    assert [one["message"]["application_properties"]["price"] for one in found["messages"]] == [5, 4, 3, 2]
    assert [(one["queue"], one["reason"]) for one in found["messages"]] == [("all", None), (None, "no_binding")] * 2
    assert (found["on"], found["looked_at"]) == (None, 6)
    first = found["messages"][0]
    assert (first["body_bytes"], len(first["message"]["body"]["binary"])) == (3_000, 4_000)
    assert shop.done("/route", {"row": first["row"]})["message"]["properties"] == {"message_id": "m5"}

    (one,) = shop.done("/find", {"message_id": "m3"})["messages"]
    assert (one["queue"], one["row"]) == ("all", found["messages"][2]["row"])
    assert shop.done("/find", {"message_id": "m3", "filter": "price > 3"})["messages"] == []
    keyed = shop.done("/find", {"key": "us.*", "unroutable": True})["messages"]
    assert [one["message"]["routing_key"] for one in keyed] == ["us.books"] * 3
    assert len(shop.done("/find", {"queue": "all", "exchange": "orders"})["messages"]) == 3

    for rows in (10**6, 1):  # pages that end by their length, and by the rows that were looked at
        monkeypatch.setattr(found_messages, "MAX_ROWS", rows)
        seen, on = [], None
        while True:
            page = shop.done("/find", {"limit": 4, **({"on": on} if on else {})})
            seen += [one["message"]["properties"]["message_id"] for one in page["messages"]]
            on = page["on"]
            if on is None:
                break
        assert seen == [f"m{number}" for number in reversed(range(6))]
    for body in ({"limit": 101}, {"on": "x"}, {"on": "[1]"}, {"queue": "all", "unroutable": True}, {"filter": "a ="}):
        assert shop.post("/find", body).status == 400, body


def test_what_was_consumed_is_found_in_the_journal(shop: Shop) -> None:
    plane = shop.server.app.state.plane
    sent = [
        Message("orders", "eu.books", bcc=("x",), properties={"message_id": message_id}) for message_id in ("k0", "k1")
    ]
    name = f"kept-{shop.v}"
    route(plane.data, plane.topologies, sent, stream=name, vhost=shop.vhost, journal=True)
    taken = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    assert len(shop.client.post(f"/queues/{shop.v}/all/get", taken).json) == 1
    found = shop.done("/find", {})["messages"]
    assert [(one["row"], one["queue"], one["journal"], one["reached"]) for one in found] == [
        (f"{name}:0:1", "all", None, []),
        (f"{name}:0:0", None, name, ["all"]),
    ]
    assert "bcc" not in found[1]["message"]
    assert [one["journal"] for one in shop.done("/find", {"queue": "all"})["messages"]] == [None, name]
    assert len(shop.done("/find", {"live": False})["messages"]) == 1
    for read, found_where in (("^all$", [(None, [])]), ("^orders$", [(name, [])] * 2), ("^$", [])):
        messages = shop.post("/find", {}, shop.user("reader", read=read)).json["messages"]
        assert [(one["journal"], one["reached"]) for one in messages] == found_where
    shop.client.delete("/users/reader")


def test_nobody_finds_what_they_may_not_read(shop: Shop) -> None:
    shop.publish("eu.books", "seen", price=30, region="EU")
    shop.publish("us.books", "lost")
    for read, places in (("^dear$", {"dear"}), ("^orders$", {None}), ("^$", set()), (".*", {"dear", "all", None})):
        user = shop.user("reader", read=read)
        answer = shop.post("/find", {}, user)
        assert {one["queue"] for one in answer.json["messages"]} == places
    assert shop.post("/find", {"queue": "dear"}, shop.user("reader")).status == 401
    shop.client.delete("/users/reader")
