"""A service that changes the topology for long, or meets a disk that hangs, answers everybody else meanwhile."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from bindery.api.counts import Counts
from bindery.store import effects, faults
from bindery.store.access import AccessStore
from bindery.store.jobs import JobRegistry
from bindery.store.log import TableLog
from bindery.store.topology import TopologyStore
from bindery.store.totals import ManifestTotals
from tests.service.conftest import PASSWORD, USER, Server
from tests.service.http import Answer

pytestmark = pytest.mark.service

#: What looks at the disk, or waits for it: (owner, names).
LOOKS: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (TableLog, ("__init__", "refresh", "commit")),
    (TopologyStore, ("load", "create", "edit", "history", "version", "rollback")),
    (AccessStore, ("__init__", "load", "edit")),
    (JobRegistry, ("all", "get", "start", "request_stop", "forget")),
    (Counts, ("of", "of_many")),
    (ManifestTotals, ("totals",)),
    (effects, ("put_new", "replace", "append_line", "write_parquet", "make_folder", "rename", "remove")),
)


def test_no_operation_looks_at_the_disk_on_the_event_loop(alone: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    found: set[str] = set()
    calls: list[str] = []

    def watched(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def watching(*args: Any, **options: Any) -> Any:
            calls.append(name)
            try:
                asyncio.get_running_loop()
            except RuntimeError:
                pass
            else:
                found.add(name)
            return method(*args, **options)

        return watching

    for owner, names in LOOKS:
        for name in names:
            monkeypatch.setattr(owner, name, watched(f"{owner.__name__}.{name}", getattr(owner, name)))
    client = alone.client()
    given = {"vhost": "%2F", "name": "n", "queue": "n", "exchange": "amq.topic", "source": "amq.topic", "user": USER}
    asked = 0
    for path, methods in alone.app.openapi()["paths"].items():
        if not path.startswith("/api/"):
            continue
        for method, operation in methods.items():
            at = re.sub(r"{(\w+)}", lambda match: given.get(match[1], "e"), path.removeprefix("/api"))
            content = next(iter(operation.get("requestBody", {}).get("content", {}).values()), {})
            client.call(method.upper(), at, content.get("example"))
            asked += 1
    assert asked > 100
    assert len(set(calls)) > 12
    assert found == set()


class Hanging:
    """A disk that hangs below a folder until it is released, at the end of the block at the latest."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.reached, self.release = threading.Event(), threading.Event()

    def __call__(self, point: str, path: str) -> None:
        if path.startswith(self._folder):
            self.reached.set()
            assert self.release.wait(120)

    def __enter__(self) -> Hanging:
        return self

    def __exit__(self, *_: object) -> None:
        self.release.set()


def test_everybody_else_is_answered_while_an_import_is_made(alone: Server) -> None:
    client = alone.client()
    many = [{"name": f"e{n}", "vhost": "/", "type": "topic", "durable": True} for n in range(2_000)]
    document = {"exchanges": many}
    assert client.put("/users/second", {"password": "second password", "tags": "administrator"}).status == 201
    second = alone.client("second", "second password")
    before = client.get("/overview").json["topology_version"]
    disk = Hanging(alone.app.state.plane.data.topology)
    form = b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n{"queues": []}\r\n--b--\r\n'
    questions: list[Callable[[], Answer]] = [
        lambda: client.post("/definitions?dry_run=1", document),
        lambda: client.post("/definitions/%2F?dry_run=1", {"exchanges": many[:1]}),
        lambda: client.call(
            "POST", "/definitions?dry_run=1", raw=form, headers={"content-type": "multipart/form-data; boundary=b"}
        ),
        lambda: client.post("/topology/diff", document),
        *(lambda path=path: client.get(path) for path in GETS),  # type: ignore[misc]
        lambda: second.get("/whoami"),
        lambda: alone.client(USER, "wrong").get("/whoami"),
        lambda: client.put("/users/third", {"password": PASSWORD, "tags": ""}),
        lambda: client.call("PUT", "/exchanges/%2F/bad", raw=b"{"),
    ]
    assert len(questions) >= 20
    with ThreadPoolExecutor(len(questions) + 1) as pool, disk, faults.installed(disk):
        importing = pool.submit(client.post, "/definitions", document)
        assert disk.reached.wait(60)
        pending = [pool.submit(question) for question in questions]
        answers = [future.result(60) for future in pending]
        assert not importing.done()
        assert client.get("/overview").json["topology_version"] == before
        disk.release.set()
        assert importing.result(60).status == 204
    assert [answer.status for answer in answers if answer.status >= 500] == []
    assert client.get("/overview").json["topology_version"] == before + 1
    assert client.get("/exchanges/%2F/e7").status == 200


#: One of each kind of answer.
GETS = [
    "/overview",
    "/whoami",
    "/users",
    "/permissions",
    "/vhosts",
    "/exchanges",
    "/queues",
    "/bindings",
    "/policies",
    "/parameters",
    "/definitions",
    "/topology/versions",
    "/topology/versions/1",
    "/jobs",
    "/nodes",
]


def test_a_disk_that_hangs_below_the_users_leaves_the_rest_alone(alone: Server) -> None:
    client = alone.client()
    disk = Hanging(alone.app.state.plane.data.access)
    with ThreadPoolExecutor(1) as pool, disk, faults.installed(disk):
        changing = pool.submit(client.put, "/users/slow", {"password": "slow password", "tags": ""})
        assert disk.reached.wait(60)
        assert client.get("/overview").status == 200
        assert client.put("/queues/%2F/q", {}).status == 201
        assert client.post("/exchanges/%2F/amq.default/publish", PUBLISHED).json == {"routed": True}
        assert not changing.done()
        disk.release.set()
        assert changing.result(60).status == 201


PUBLISHED = {"routing_key": "q", "properties": {}, "payload": "x", "payload_encoding": "string"}
