"""The table of a queue rebuilt over REST."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bindery.router.message import Message
from tests.service.conftest import Server
from tests.service.http import Client
from tests.unit.store.routed import route

pytestmark = pytest.mark.service


def test_a_table_that_is_lost_or_damaged_is_made_again(server: Server, client: Client) -> None:
    plane = server.app.state.plane
    assert client.put("/vhosts/lost").status == 201
    assert client.put("/queues/lost/q", {"durable": True}).status == 201
    sent = [Message("", "q", body=b"%d" % n) for n in range(3)]
    route(plane.data, plane.topologies, sent, stream="lost", vhost="lost", journal=True, clock_ms=1_700_000_000_000)
    whole = client.post("/queues/lost/q/rebuild", {}).json
    assert (whole["was"], whole["rows"]) == ("whole", 0)

    table = Path(plane.data.queue("lost", "q"))
    (file,) = table.glob("*.parquet")
    file.unlink()
    damaged = client.post("/queues/lost/q/rebuild", {"dry_run": True}).json
    assert (damaged["was"], damaged["files"], damaged["rows"], damaged["again"]) == ("files", [file.name], 3, 0)
    assert client.post("/queues/lost/q/rebuild", {}).json == damaged
    assert client.post("/queues/lost/q/count", {}).json["messages"] == 3

    shutil.rmtree(table / "_delta_log")
    client.put("/users/maker", {"password": "pw", "tags": "management"})
    maker = server.client("maker", "pw")
    for configure, status in (("^$", 401), (".*", 200)):
        client.put("/permissions/lost/maker", {"configure": configure, "write": ".*", "read": ".*"})
        assert maker.post("/queues/lost/q/rebuild", {"dry_run": True}).status == status
    expected = {
        "queue": "q",
        "was": "lost",
        "files": [],
        "rows": 3,
        "first": "2023-11-14T22:13:20.000Z",
        "last": "2023-11-14T22:13:20.000Z",
        "streams": {"lost": 3},
        "not_covered": {},
        "again": None,
        "under_way": [],
        "aside": None,
    }
    assert maker.post("/queues/lost/q/rebuild", {}).json == expected
    (aside,) = (table.parents[2] / "lost").glob("*/*")
    assert aside.name.startswith("q-")
    assert client.get("/queues/lost/q").json["messages"] == 3
    assert [one["payload"] for one in client.post("/queues/lost/q/browse", {}).json] == ["0", "1", "2"]
    shutil.rmtree(table / "_delta_log")
    assert Path(client.post("/queues/lost/q/rebuild", {}).json["aside"]).parent == aside.parent

    for wrong, status in (({"dryrun": True}, 400), ({"filter": "a = 1"}, 400)):
        assert client.post("/queues/lost/q/rebuild", wrong).status == status
    assert client.post("/queues/lost/none/rebuild", {}).status == 404
    client.delete("/users/maker")
    assert client.delete("/vhosts/lost").status == 204
