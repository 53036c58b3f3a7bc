"""A published message is in all of its queues or in none, once, whatever the disk does meanwhile."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from bindery.api import publisher as publisher_module
from bindery.api.publisher import Publisher
from bindery.router.declarations import TopologyEditor
from bindery.router.errors import BinderyError, CommitUnknown, StorageFailed
from bindery.router.message import Message
from bindery.router.model import Binding, Queue
from bindery.store import faults, log
from bindery.store.manifest import read_manifest
from bindery.store.paths import DataDir
from bindery.store.places import at as place
from bindery.store.read import read_queue
from bindery.store.topology import TopologyStore
from tests.unit.store.conftest import FailingDisk

QUEUES = ("a", "b", "c")


def declare(editor: TopologyEditor) -> None:
    for name in QUEUES:
        editor.declare_queue(Queue("/", name))
        editor.bind(Binding(0, "/", "amq.fanout", name))


@contextmanager
def service(root: str) -> Iterator[tuple[DataDir, Publisher]]:
    """A data directory with three queues, and a publisher that has published once."""
    data = DataDir.open(root, create=True)
    store = TopologyStore(data)
    store.edit(declare, author="t")
    publisher = Publisher(data, store.load, app_id="api:0123456789abcdef")
    try:
        assert publish(publisher, "first") == QUEUES
        yield data, publisher
    finally:
        publisher.close()


def publish(publisher: Publisher, key: str, exchange: str = "amq.fanout") -> tuple[str, ...]:
    return publisher.publish("/", Message(exchange=exchange, routing_key=key)).result(60)


def held(data: DataDir) -> dict[str, list[str]]:
    return {name: read_queue(data, name)["routing_key"].to_pylist() for name in QUEUES}


def in_all(*keys: str) -> dict[str, list[str]]:
    return {name: list(keys) for name in QUEUES}


@pytest.mark.long
@pytest.mark.parametrize("for_long", [False, True])
def test_a_message_is_in_all_queues_or_in_none_whatever_fails(root: str, for_long: bool) -> None:
    outcomes = set()
    number, failed = 0, True
    while failed:
        number += 1
        with service(f"{root}/{number}") as (data, publisher):
            disk = FailingDisk(number, for_long=for_long)
            with faults.installed(disk):
                try:
                    assert publish(publisher, "second") == QUEUES
                    outcome = "all"
                except CommitUnknown:
                    outcome = "later"
                    with pytest.raises(StorageFailed, match="earlier batch"):
                        publish(publisher, "too early")
                except StorageFailed:
                    outcome = "none"
                    assert held(data) == in_all("first")
            assert publish(publisher, "third") == QUEUES
            arrived = ("first", "third") if outcome == "none" else ("first", "second", "third")
            assert held(data) == in_all(*arrived)
            assert len(read_manifest(data)) == len(arrived)
            outcomes.add(outcome)
            failed = disk.failed
    # one failure alone is made good while the client waits
    assert outcomes == ({"all", "none", "later"} if for_long else {"all", "none"})
    assert number > 10


def full_for(wanted: str, part: str) -> Callable[[str, str], None]:
    def fail(point: str, path: str) -> None:
        if point == wanted and part in path:
            raise OSError(errno.ENOSPC, "No space left on device", path)

    return fail


def until(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(6_000):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("did not happen")


def test_a_batch_is_completed_while_nothing_is_published(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher_module, "RETRY", 0.01)
    with service(root) as (data, publisher):
        with (
            faults.installed(full_for("put.before", "/queues/~2F/b/_delta_log")),
            pytest.raises(CommitUnknown, match="some of its queues"),
        ):
            publish(publisher, "second")
        until(lambda: held(data) == in_all("first", "second"))


def test_a_batch_is_completed_when_the_service_stops(root: str) -> None:
    with service(root) as (data, publisher):
        with faults.installed(full_for("put.before", "/manifest/_delta_log")), pytest.raises(CommitUnknown):
            publish(publisher, "second")
        publisher.close()
        assert held(data) == in_all("first", "second")
        assert len(read_manifest(data)) == 2


def test_a_batch_that_stays_unfinished_is_named_when_the_service_stops(
    root: str, caplog: pytest.LogCaptureFixture
) -> None:
    with service(root) as (_, publisher), faults.installed(full_for("put.before", "/queues/~2F/b/_delta_log")):
        with pytest.raises(CommitUnknown):
            publish(publisher, "second")
        publisher.close()
    (record,) = [one for one in caplog.records if one.levelname == "ERROR"]
    assert "to the queues a, b, c" in record.getMessage()


def damage(data: DataDir, name: str) -> None:
    log = place(data.queue("/", name), "_delta_log")
    for entry in log.files():
        (log / entry).remove()


def test_a_damaged_queue_is_noticed_before_any_queue_has_the_message(root: str) -> None:
    data = DataDir.open(root, create=True)
    store = TopologyStore(data)
    store.edit(declare, author="t")
    damage(data, "b")
    publisher = Publisher(data, store.load, app_id="api:0")
    try:
        with pytest.raises(BinderyError, match="queues/~2F/b"):
            publish(publisher, "first")
        assert read_queue(data, "a").num_rows == 0
        assert publish(publisher, "c", exchange="") == ("c",)
    finally:
        publisher.close()
    assert [name for name in place(data.queue("/", "a")).files() if name.endswith(".parquet")] == []


def test_a_batch_that_can_never_be_completed_is_given_up_with_a_word(
    root: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "TRUSTED_SECONDS", 0.0)  # as if the last look at the log were long ago
    with service(root) as (data, publisher):
        damage(data, "b")  # unnoticed until it is committed to: its log is being followed
        with pytest.raises(CommitUnknown):
            publish(publisher, "second")
        assert "is in some of them and not in others" in caplog.text
        assert publish(publisher, "c", exchange="") == ("c",)
        files = {name: read_queue(data, name)["routing_key"].to_pylist() for name in ("a", "c")}
        assert files == {"a": ["first", "second"], "c": ["first", "second", "c"]}
