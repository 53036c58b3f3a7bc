"""What a client is told when the disk fails: never that nothing happened when something did."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bindery.api.errors import refusal_of
from bindery.router.errors import CommitUnknown
from bindery.store import faults
from tests.service.conftest import Server

pytestmark = pytest.mark.service

ALL = {"configure": ".*", "write": ".*", "read": ".*"}


@contextmanager
def failing(wanted: str, below: str) -> Iterator[list[str]]:
    """The disk refuses an effect below a folder; at "after" it was done and only its answer is lost."""
    met: list[str] = []

    def fail(point: str, path: str) -> None:
        if point == wanted and path.startswith(below):
            met.append(path)
            raise OSError(errno.ENOSPC, "No space left on device")

    with faults.installed(fail):
        yield met


@pytest.mark.parametrize("point", ["put.before", "write.before"])
def test_a_change_that_a_full_disk_refused_was_not_made_and_can_be_asked_for_again(alone: Server, point: str) -> None:
    client = alone.client()
    before = client.get("/overview").json["topology_version"]
    with failing(point, alone.app.state.plane.data.topology):
        answer = client.put("/queues/%2F/q", {})
        assert (answer.status, answer.json["error"]) == (507, "insufficient_storage")
        assert "No space left on device" in answer.json["reason"]
        assert client.get("/queues/%2F/q").status == 404
        assert client.get("/overview").json["topology_version"] == before
    assert client.put("/queues/%2F/q", {}).status == 201


def test_a_change_whose_answer_was_lost_was_made(alone: Server) -> None:
    client = alone.client()
    with failing("put.after", alone.app.state.plane.data.topology) as met:
        assert client.put("/queues/%2F/q", {}).status == 201
    assert met
    assert client.put("/queues/%2F/q", {}).status == 204


def test_a_change_that_nobody_can_tell_of_is_reported_as_such() -> None:
    answer = refusal_of(CommitUnknown("whether it took place cannot be read", hint="look"))
    assert (answer.status, answer.error) == (503, "commit_unknown")
    assert answer.reason == "whether it took place cannot be read (look)"
    assert "retry-after" not in answer.headers


def test_users_are_stored_or_refused(alone: Server) -> None:
    client = alone.client()
    access = alone.app.state.plane.data.access
    with failing("replace.before", access):
        assert client.put("/users/ann", {"password": "a password", "tags": ""}).status == 507
        assert client.get("/users/ann").status == 404
    with failing("replace.after", access) as met:
        assert client.put("/users/ann", {"password": "a password", "tags": ""}).status == 201
    assert met
    assert client.get("/users/ann").status == 200


def test_who_creates_a_vhost_and_gets_no_permission_in_it_asks_again(alone: Server) -> None:
    client = alone.client()
    with failing("replace.before", alone.app.state.plane.data.access):
        assert client.put("/vhosts/v").status == 507
    assert client.put("/vhosts/v").status == 204
    assert client.get("/permissions/v/guest").status == 200


def test_permissions_of_a_deleted_vhost_do_not_come_back_with_another_of_its_name(alone: Server) -> None:
    client = alone.client()
    assert client.put("/vhosts/v").status == 201
    assert client.put("/users/ann", {"password": "a password", "tags": "management"}).status == 201
    assert client.put("/permissions/v/ann", ALL).status == 201
    with failing("replace.before", alone.app.state.plane.data.access):
        assert client.delete("/vhosts/v").status == 204
        assert client.delete("/vhosts/v").status == 404
        assert client.put("/vhosts/v").status == 507
        assert client.get("/vhosts/v").status == 404
    assert client.post("/definitions", {"vhosts": [{"name": "v"}]}).status == 204
    assert client.get("/vhosts/v").status == 200
    assert client.get("/permissions/v/ann").status == 404


def test_a_queue_whose_folder_was_removed_is_purged_deleted_and_declared_again(alone: Server) -> None:
    client = alone.client()
    data = alone.app.state.plane.data
    assert client.put("/vhosts/v").status == 201
    for vhost in ("v", "%2F"):
        assert client.put(f"/queues/{vhost}/q", {}).status == 201
        shutil.rmtree(data.queue("v" if vhost == "v" else "/", "q"))
    assert client.get("/queues/%2F/q").json["messages"] == 0
    assert client.delete("/queues/%2F/q/contents").status == 204
    assert client.delete("/queues/%2F/q?if-empty=true").status == 204
    assert client.delete("/vhosts/v").status == 204
    assert client.put("/queues/%2F/q", {}).status == 201
    published = {"routing_key": "q", "properties": {}, "payload": "x", "payload_encoding": "string"}
    assert client.post("/exchanges/%2F/amq.default/publish", published).json == {"routed": True}
    assert client.get("/queues/%2F/q").json["messages"] == 1
