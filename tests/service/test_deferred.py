"""Deferred queues over REST: counted and shown with what waits, and all in the table for whoever takes or empties."""

from __future__ import annotations

from typing import Any

import pytest

from bindery.router.message import Message
from bindery.router.values import Table
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from tests.service.conftest import Server
from tests.service.http import Client, segment
from tests.unit.store.routed import route

pytestmark = pytest.mark.service

NAME = "deferred/1"
AT = segment(NAME)
LATE = f"/queues/{AT}/late"
GET = {"count": 2, "ackmode": "ack_requeue_false", "encoding": "auto"}


def publish(server: Server, batch: int, *numbers: int) -> None:
    data = DataDir.open(server.settings.data)
    sent = [Message("", "late", cc=("now",), application_properties=Table({"n": n}), body=b"%d" % n) for n in numbers]
    route(data, TopologyStore(data), sent, batch_id=batch, stream="deferred-1", vhost=NAME)


@pytest.fixture
def late(alone: Server) -> Client:
    """A deferred queue and an immediate one, each with three messages of a stream."""
    client = alone.client()
    assert client.put(f"/vhosts/{AT}").status == 201
    assert client.put(LATE, {"arguments": {"x-freshness": 60}}).status == 201
    assert client.put(f"/queues/{AT}/now", {}).status == 201
    publish(alone, 0, 0, 1, 2)
    return client


def test_a_deferred_queue_is_as_fresh_as_an_immediate_one(alone: Server, late: Client) -> None:
    def counts() -> dict[str, tuple[int, int]]:
        listed = late.get(f"/queues/{AT}").json
        one = {name: late.get(f"/queues/{AT}/{name}").json for name in ("late", "now")}
        assert {item["name"]: item["messages"] for item in listed} == {n: item["messages"] for n, item in one.items()}
        return {name: (item["messages"], item["waiting"]) for name, item in one.items()}

    def ask(operation: str, **body: Any) -> Any:
        answer = late.post(f"{LATE}/{operation}", body)
        assert answer.status == 200, answer.raw
        return answer.json

    assert counts() == {"late": (3, 3), "now": (3, 0)}
    assert late.get(f"/vhosts/{AT}").json["messages"] == 6
    assert late.get("/status").json["held"]["waiting"] == 3
    assert ask("count") == {"messages": 3, "waiting": 3}
    assert ask("count", filter="n > 0", live=False) == {"messages": 0, "waiting": 0}
    assert [one["payload"] for one in ask("browse", filter="n > 0")] == ["1", "2"]
    page = ask("rows", newest=True, limit=2)
    assert (page["held"], page["waiting"], [row["row"] for row in page["rows"]]) == (
        3,
        3,
        ["deferred-1:0:2", "deferred-1:0:1"],
    )
    assert ask("rows", live=False)["rows"] == []
    row = late.get(f"/queues/{AT}/now/rows/{segment('deferred-1:0:1')}").json
    assert row["queues"] == ["late"]
    found = late.post("/find", {"vhost": NAME, "queue": "late", "filter": "n = 1"}).json
    assert [one["row"] for one in found["messages"]] == ["deferred-1:0:1"]
    # taking one and emptying are about all of it, and nothing comes later
    got = late.post(f"{LATE}/get", GET).json
    assert [(one["payload"], one["message_count"]) for one in got] == [("0", 2), ("1", 1)]
    assert counts()["late"] == (1, 0)
    publish(alone, 1, 3)
    assert counts()["late"] == (2, 1)
    moved = late.post(f"{LATE}/move", {"to": "now", "filter": "n = 3"}).json
    assert moved["moved"] == 1
    publish(alone, 2, 4)
    assert late.delete(f"{LATE}/contents").status == 204
    assert counts() == {"late": (0, 0), "now": (6, 0)}
    publish(alone, 3, 5)
    refused = late.delete(f"{LATE}?if-empty=true")
    assert (refused.status, counts()["late"]) == (400, (1, 1))
