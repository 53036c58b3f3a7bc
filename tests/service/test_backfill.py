"""A queue backfilled over REST."""

from __future__ import annotations

import pytest

from bindery.router.message import Message
from bindery.store.commit import BatchCommitter
from tests.service.conftest import Server
from tests.service.http import Client
from tests.unit.store.routed import route

pytestmark = pytest.mark.service


def test_a_queue_gets_what_journals_have_for_it(server: Server, client: Client) -> None:
    plane = server.app.state.plane
    assert client.put("/vhosts/past").status == 201
    assert client.put("/queues/past/new", {"durable": True}).status == 201
    answer = client.post("/queues/past/new/backfill", {})
    assert (answer.status, answer.json["reason"]) == (404, "vhost 'past' has no journal"), answer.raw
    sent = [Message("amq.topic", f"k{n}") for n in range(3)]
    route(plane.data, plane.topologies, sent, stream="past", vhost="past", journal=True, clock_ms=1_700_000_000_000)
    older = plane.topologies.load().version
    with BatchCommitter(plane.data, stream="past", app_id="past:c") as driver:
        driver.pin(1, older, 1_700_000_000_001)
    assert client.post("/bindings/past/e/amq.topic/q/new", {"routing_key": "#"}).status == 201
    chosen = {"filter": "missing IS NULL", "until": "2024-01-01"}
    expected = {
        "queue": "new",
        "topology_version": plane.topologies.load().version,
        "rows": 3,
        "first": "2023-11-14T22:13:20.000Z",
        "last": "2023-11-14T22:13:20.000Z",
        "streams": [{"stream": "past", "messages": 3, "rows": 3, "journal_from": "2023-11-14T22:13:20.000Z"}],
        "under_way": [{"stream": "past", "batch_id": 1, "topology_version": older}],
        "finished": 0,
    }
    assert client.post("/queues/past/new/backfill", {"dry_run": True}).json == expected
    assert client.get("/queues/past/new").json["messages"] == 0
    assert client.post("/queues/past/new/backfill", chosen).json == expected
    assert client.get("/queues/past/new").json["messages"] == 3
    assert client.post("/queues/past/new/backfill").json["rows"] == 0
    for body in ({"dry_run": True}, {}):
        redriven = client.post("/unroutable/past/redrive", body).json
        assert (redriven["redriven"], redriven["copies"], redriven["backfilled"]) == (3, 0, {"new": 3})
    assert client.get("/queues/past/new").json["messages"] == 3
    for wrong, reason in (
        ({"since": "soon"}, "since is no ISO 8601 time"),
        ({"filtre": "a = 1"}, "filtre"),
        ({"filter": "a ="}, "ends too early"),
        ({"stream": "none"}, "no journal of stream 'none'"),
    ):
        answer = client.post("/queues/past/new/backfill", wrong)
        assert answer.status in (400, 404)
        assert reason in answer.json["reason"], answer.raw
    assert client.post("/queues/past/none/backfill", {}).status == 404
    assert client.delete("/vhosts/past").status == 204
