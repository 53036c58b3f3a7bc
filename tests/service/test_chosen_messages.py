"""Messages that a consumer's filter chooses, over REST: count, browse, get, delete, move, copy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from bindery.store import faults, queue_use
from bindery.store.destinations import ToQueue
from bindery.store.moves import Mover
from bindery.store.transfers import Transfer
from tests.service.conftest import Server
from tests.service.http import Answer, Client, segment
from tests.unit.store.conftest import Crash, at, crash

pytestmark = pytest.mark.service

NAME = "chosen/1"
AT = segment(NAME)
QUEUES = ("q", "other")


@pytest.fixture(autouse=True)
def vhost(client: Client) -> Iterator[None]:
    """Queue q with four messages whose header n is 0 to 3, and an empty one."""
    client.delete(f"/vhosts/{AT}")
    assert client.put(f"/vhosts/{AT}").status == 201
    for name in QUEUES:
        assert client.put(f"/queues/{AT}/{name}", {"durable": True}).status == 201
    for n in range(4):
        body = {
            "routing_key": "q",
            "payload": f"m{n}",
            "payload_encoding": "string",
            "properties": {"headers": {"n": n}},
        }
        assert client.post(f"/exchanges/{AT}/amq.default/publish", body).json["routed"]
    yield
    client.delete(f"/vhosts/{AT}")


def ask(client: Client, operation: str, body: dict[str, Any], queue: str = "q") -> Answer:
    return client.post(f"/queues/{AT}/{queue}/{operation}", body)


def done(client: Client, operation: str, body: dict[str, Any]) -> Any:
    answer = ask(client, operation, body)
    assert answer.status == 200, answer.raw
    return answer.json


def payloads(client: Client, queue: str, **body: Any) -> list[str]:
    answer = ask(client, "browse", body, queue)
    assert answer.status == 200, answer.raw
    return [item["payload"] for item in answer.json]


def test_a_filter_is_judged_part_by_part_on_the_messages_of_a_queue(client: Client) -> None:
    tried = {"filter": "n > 1 AND m IS NULL", "vhost": NAME, "queue": "q", "limit": 3}
    found = client.post("/filters", tried).json
    assert [one["result"] for one in found["messages"]] == ["false", "false", "true"]
    assert found["messages"][2]["message"]["application_properties"] == {"n": 2}
    assert [part["text"] for part in found["messages"][0]["trace"]["parts"]] == ["n > 1", "m IS NULL"]
    assert found["seen"] == [{"name": "n", "families": {"number": 4}}]
    assert (found["normal_form"], found["properties"]) == (
        "n > 1 AND m IS NULL",
        ["application_properties.n", "application_properties.m"],
    )
    alone = client.post("/filters", {"filter": {"f": {"descriptor": "amqp:sql-filter", "value": "n > 1"}}}).json
    assert (alone["messages"], alone["seen"]) == ([], [])
    for body, said in (
        ({}, "a filter is needed"),
        ({**tried, "queue": "none"}, "no queue 'none'"),
        ({**tried, "filter": "n >"}, "a value is missing"),
        ({**tried, "limit": 101}, "limit"),
        ({**tried, "filtr": "n > 1"}, "filtr"),
    ):
        refused = client.post("/filters", body)
        assert refused.status in (400, 404), body
        assert said in str(refused.json["reason"]), refused.raw
    assert client.post("/filters", {**tried, "filter": "n >"}).json["filter"]["offset"] == 3
    assert done(client, "count", {}) == {"messages": 4, "waiting": 0}


def test_a_filter_chooses_what_is_counted_and_browsed(client: Client) -> None:
    assert done(client, "count", {}) == {"messages": 4, "waiting": 0}
    assert done(client, "count", {"filter": "n > 1"}) == {"messages": 2, "waiting": 0}
    assert payloads(client, "q") == ["m0", "m1", "m2", "m3"]
    assert payloads(client, "q", filter="n > 0", limit=2) == ["m1", "m2"]
    first = done(client, "browse", {"limit": 1, "encoding": "base64", "truncate": 1})[0]
    assert (first["payload"], first["message_count"], first["redelivered"]) == ("bQ==", 3, False)
    filters = {"s": {"descriptor": "apache.org:selector-filter:string", "value": "n = 2"}}
    assert done(client, "count", {"filter": filters}) == {"messages": 1, "waiting": 0}


def test_a_filter_looks_into_bodies_as_the_queue_or_the_request_says(client: Client) -> None:
    assert client.put(f"/queues/{AT}/j", {"arguments": {"x-payload": "json"}}).status == 201
    for n in range(3):
        body = {"routing_key": "j", "payload": f'{{"n": {n}}}', "payload_encoding": "string", "properties": {}}
        assert client.post(f"/exchanges/{AT}/amq.default/publish", body).json["routed"]
    assert ask(client, "count", {"filter": "body.n > 0"}, "j").json == {"messages": 2, "waiting": 0}
    assert done(client, "count", {"filter": "body LIKE 'm%'", "payload": "text"}) == {"messages": 4, "waiting": 0}
    for operation, more in (("count", {}), ("browse", {}), ("delete", {}), ("copy", {"to": "other"})):
        refused = ask(client, operation, {**more, "filter": "body.n > 0"})
        assert (refused.status, "payload in REST" in refused.json["filter"]["hint"]) == (400, True)
    wrong = ask(client, "count", {"filter": "body = 'x'", "payload": "text"}, "j")
    assert (wrong.status, "are json, not text" in wrong.json["reason"]) == (400, True)
    assert ask(client, "move", {"to": "other", "filter": "body.n = 1"}, "j").json["moved"] == 1
    got = {"count": 5, "ackmode": "ack_requeue_false", "encoding": "auto", "filter": "body.n > 0"}
    assert [item["payload"] for item in ask(client, "get", got, "j").json] == ['{"n": 2}']


def test_a_get_takes_what_its_filter_accepts(client: Client) -> None:
    body = {"count": 5, "ackmode": "ack_requeue_false", "encoding": "auto", "filter": "n > 1"}
    assert [item["payload"] for item in done(client, "get", body)] == ["m2", "m3"]
    assert payloads(client, "q") == ["m0", "m1"]
    answer = ask(client, "get", {**body, "filtr": "n = 0"})
    assert (answer.status, "did you mean 'filter'?" in answer.json["reason"]) == (400, True)
    assert payloads(client, "q") == ["m0", "m1"]


def test_what_to_delete_has_to_be_said(client: Client) -> None:
    for body in ({}, {"all": True, "filter": "n = 1"}, {"filtr": "n = 1"}, {"all": "perhaps"}):
        assert ask(client, "delete", body).status == 400
    assert done(client, "count", {}) == {"messages": 4, "waiting": 0}
    assert done(client, "delete", {"filter": "n = 1"}) == {"deleted": 1}
    assert done(client, "delete", {"all": True}) == {"deleted": 3}
    assert client.get(f"/queues/{AT}/q").json["messages"] == 0


def test_messages_are_moved_and_copied(client: Client) -> None:
    assert done(client, "move", {"to": "other", "filter": "n > 1", "dry_run": True})["moved"] == 2
    assert done(client, "copy", {"to": "other", "limit": 1, "dry_run": True})["copied"] == 1
    assert payloads(client, "other") == []
    assert done(client, "copy", {"to": "other", "limit": 1})["copied"] == 1
    moved = done(client, "move", {"to": "other", "filter": "n > 1"})
    assert (moved["moved"], moved["refused"], moved["finished"], len(moved["batches"])) == (2, 0, 0, 1)
    assert payloads(client, "other") == ["m0", "m2", "m3"]
    assert payloads(client, "q") == ["m0", "m1"]
    assert [client.get(f"/queues/{AT}/{name}").json["messages"] for name in QUEUES] == [2, 3]


def test_an_interrupted_move_is_finished_and_told(server: Server, client: Client) -> None:
    plane = server.app.state.plane
    with faults.installed(at("move.claimed", crash)), pytest.raises(Crash):
        Mover(plane.data, plane.topologies, NAME).move(Transfer(NAME, "q", ToQueue("other"), limit=1))
    assert done(client, "move", {"to": "other", "filter": "n = 3"})["finished"] == 1
    assert payloads(client, "other") == ["m0", "m3"]


@pytest.mark.parametrize("operation", ["count", "browse", "delete", "move", "copy"])
def test_a_wrong_filter_is_shown_with_its_place(client: Client, operation: str) -> None:
    to = {"to": "other"} if operation in ("move", "copy") else {}
    answer = ask(client, operation, {**to, "filter": "n >"})
    assert answer.status == 400
    assert answer.json["filter"]["offset"] == 3
    assert ask(client, operation, {**to, "filter": "n > 1", "dialect": "nonsense"}).status == 400
    unknown = ask(client, operation, {**to, "fliter": "n > 1"})
    assert (unknown.status, unknown.json["reason"]) == (400, "unknown key 'fliter': did you mean 'filter'?")
    assert ask(client, operation, to, queue="nowhere").status == 404
    assert payloads(client, "q") == ["m0", "m1", "m2", "m3"]


@pytest.mark.parametrize("operation", ["move", "copy"])
@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"to": "q"}, 400),
        ({"to": "nowhere"}, 404),
        ({"to": "other", "limit": 0}, 400),
        ({"exchange": "nowhere"}, 404),
        ({"exchange": "amq.topic", "to": "other"}, 400),
        ({"to": "other", "routing_key": "k"}, 400),
        ({"exchange": "amq.topic", "routing_key": ["k"]}, 400),
    ],
)
def test_a_transfer_that_cannot_be_is_refused(
    client: Client, operation: str, body: dict[str, Any], status: int
) -> None:
    assert ask(client, operation, body).status == status
    assert payloads(client, "q") == ["m0", "m1", "m2", "m3"]


@pytest.mark.parametrize("operation", ["move", "copy"])
def test_a_transfer_needs_reading_here_and_writing_there(server: Server, client: Client, operation: str) -> None:
    client.put("/users/mover", {"password": "pw", "tags": "management"})
    mover = server.client("mover", "pw")
    for write, read, status in (("^q$", "^q$", 401), ("^other$", "^other$", 401), ("^other$", "^q$", 200)):
        client.put(f"/permissions/{AT}/mover", {"configure": "^$", "write": write, "read": read})
        assert ask(mover, operation, {"to": "other", "limit": 1}).status == status
    client.delete("/users/mover")


def test_messages_are_moved_and_copied_to_an_exchange(client: Client) -> None:
    client.post(f"/bindings/{AT}/e/amq.topic/q/other", {"routing_key": "again.#"})
    again = {"exchange": "amq.topic", "routing_key": "again", "filter": "n < 2"}
    counted = {"queues": {"other": 2}, "refused": 0, "unroutable": {}, "finished": 0}
    assert done(client, "move", {**again, "dry_run": True}) == {"moved": 2, **counted, "batches": []}
    assert {**done(client, "copy", again), "batches": []} == {"copied": 2, **counted, "batches": []}
    assert {**done(client, "move", again), "batches": []} == {"moved": 2, **counted, "batches": []}
    assert payloads(client, "other") == ["m0", "m1", "m0", "m1"]
    # under their own key, which nothing is bound with
    assert done(client, "move", {"exchange": "amq.topic"})["unroutable"] == {"no_binding": 2}
    assert payloads(client, "q") == ["m2", "m3"]
    assert done(client, "move", {"exchange": "amq.default", "routing_key": "other"})["queues"] == {"other": 2}


@pytest.mark.parametrize("operation", ["move", "copy"])
def test_a_transfer_to_an_exchange_is_publishing(server: Server, client: Client, operation: str) -> None:
    client.put("/users/mover", {"password": "pw", "tags": "management"})
    client.post(f"/bindings/{AT}/e/amq.topic/q/other", {"routing_key": "#"})
    mover = server.client("mover", "pw")
    body = {"exchange": "amq.topic", "limit": 1}
    for write, status in (("^q$", 401), (r"^amq\.topic$", 200)):
        client.put(f"/permissions/{AT}/mover", {"configure": "^$", "write": write, "read": "^q$"})
        assert ask(mover, operation, body).status == status
    client.put(f"/topic-permissions/{AT}/mover", {"exchange": "amq.topic", "write": "^mine", "read": ".*"})
    # which keys the messages have is not asked
    for key, status in (({}, 401), ({"routing_key": "q"}, 401), ({"routing_key": "mine.x"}, 200)):
        assert ask(mover, operation, {**body, **key}).status == status
    client.delete("/users/mover")


def test_whoever_declares_gets_or_browses_a_queue_uses_it(server: Server, client: Client) -> None:
    """RabbitMQ's guide "TTL": a queue that expires is used by consumers, by a get, and by being declared again."""
    data = server.app.state.plane.data
    declared = {"durable": True, "arguments": {"x-expires": 1_000_000}}
    assert client.put(f"/queues/{AT}/e", declared).status == 201

    def uses(answer: Callable[[], Answer]) -> tuple[int, bool]:
        found = queue_use.recorded(data, NAME, "e")
        assert found.use is not None
        before = replace(found.use, used_ms=time.time_ns() // 1_000_000 - 2 * found.use.grain_ms)
        assert queue_use.record(data, NAME, "e", before, found)
        status = answer().status
        return status, queue_use.recorded(data, NAME, "e").use != before

    got = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    assert uses(lambda: client.put(f"/queues/{AT}/e", declared)) == (204, True)
    assert uses(lambda: client.post(f"/queues/{AT}/e/get", got)) == (200, True)
    assert uses(lambda: ask(client, "browse", {}, "e")) == (200, True)
    assert uses(lambda: client.put(f"/queues/{AT}/e", {"durable": False})) == (400, False)
    assert uses(lambda: client.get(f"/queues/{AT}/e")) == (200, False)
    assert uses(lambda: client.delete(f"/queues/{AT}/e/contents")) == (204, False)
