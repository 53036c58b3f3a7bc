"""Records of requests that wait together are stored together, each once, or each request is told that they are not."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from bindery.api import inbox
from bindery.api.inbox_writer import InboxWriter
from bindery.router.errors import BinderyError, CommitUnknown, StorageFailed, UnsupportedTable
from bindery.router.message import Message, to_batch
from bindery.store import faults
from bindery.store.paths import DataDir
from bindery.store.places import at as place
from tests.unit.store.conftest import FailingDisk

CLIENTS = 64


@pytest.fixture
def writer(data: DataDir) -> Iterator[InboxWriter]:
    made = InboxWriter(data)
    yield made
    made.close()


def records(*keys: str) -> pa.Table:
    return pa.Table.from_batches([to_batch([Message(exchange="x", routing_key=key) for key in keys])])


def stored(data: DataDir, vhost: str = "/") -> Counter[str]:
    return Counter(DeltaTable(data.inbox(vhost)).to_pyarrow_table()["routing_key"].to_pylist())


@contextmanager
def held_back(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Appends wait until the end of the context; gives the vhosts of those that were made."""
    gate, made, append = threading.Event(), [], inbox.append

    def wait(data: DataDir, vhost: str, rows: pa.Table, *, author: str) -> int:
        assert gate.wait(60)
        made.append(vhost)
        return append(data, vhost, rows, author=author)

    monkeypatch.setattr(inbox, "append", wait)
    try:
        yield made
    finally:
        gate.set()


def together(writer: InboxWriter, *keys: str, vhost: str = "/") -> list[Future[int]]:
    return [writer.append(vhost, records(key), author=f"user {key}") for key in keys]


def test_requests_that_wait_together_share_a_commit(
    data: DataDir, writer: InboxWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [f"k{number}" for number in range(CLIENTS)]
    with held_back(monkeypatch) as made:
        asked = together(writer, *keys) + together(writer, *keys, vhost="other")
    versions = [one.result(60) for one in asked]
    assert stored(data) == stored(data, "other") == Counter(keys)
    assert made.count("/") <= 2, "the first request goes alone, the others wait for it"
    assert made.count("other") == 1
    assert versions == sorted(versions[:CLIENTS]) + versions[CLIENTS:]
    (info, *_) = DeltaTable(data.inbox("other")).history(1)
    assert info["bindery.author"] == ", ".join(f"user {key}" for key in keys)


def test_many_clients_store_each_record_once_with_fewer_commits(data: DataDir, writer: InboxWriter) -> None:
    answers: list[tuple[str, int]] = []

    def client(name: int) -> None:
        for number in range(4):
            key = f"{name}.{number}"
            answers.append((key, writer.append("/", records(key), author="t").result(60)))

    threads = [threading.Thread(target=client, args=(name,)) for name in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stored(data) == Counter(key for key, _ in answers)
    assert len(answers) == 4 * CLIENTS
    assert len({version for _, version in answers}) < len(answers)
    assert DeltaTable(data.inbox("/")).version() == max(version for _, version in answers)


@pytest.mark.parametrize("for_long", [False, True])
def test_every_request_of_a_commit_is_told_the_truth_whatever_fails(
    root: str, monkeypatch: pytest.MonkeyPatch, for_long: bool
) -> None:
    """The disk fails at each of its effects in turn, before it or after it: then only the answer is lost."""
    outcomes = set()
    number, failed = 0, True
    while failed:
        number += 1
        data = DataDir.open(f"{root}/{number}", create=True)
        writer = InboxWriter(data)
        writer.append("/", records("first"), author="t").result(60)
        disk = FailingDisk(number, for_long=for_long)
        with faults.installed(disk):
            with monkeypatch.context() as patched, held_back(patched):
                asked = together(writer, "a", "b", "c")
            errors = [one.exception(60) for one in asked]
        writer.append("/", records("last"), author="t").result(60)
        writer.close()
        there = stored(data)
        for key, error in zip("abc", errors, strict=True):
            outcomes.add(type(error))
            if not isinstance(error, CommitUnknown):
                assert there[key] == (error is None), f"{key} at {number}: {error!r}"
        assert there["first"] == there["last"] == 1
        assert max(there.values()) == 1
        failed = disk.failed
    assert {type(None), StorageFailed} <= outcomes <= {type(None), StorageFailed, CommitUnknown}
    assert number > 4


def test_a_damaged_inbox_fails_alone(data: DataDir, writer: InboxWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    writer.append("/", records("first"), author="t").result(60)
    place(data.inbox("/"), "_delta_log", f"{1:020}.json").replace(b"{")
    with held_back(monkeypatch):
        (damaged,), (sound,) = together(writer, "a"), together(writer, "b", vhost="other")
    with pytest.raises(UnsupportedTable):
        damaged.result(60)
    sound.result(60)
    assert stored(data, "other") == Counter(["b"])


def test_a_request_that_nobody_waits_for_any_more_is_left_out(
    data: DataDir, writer: InboxWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    with held_back(monkeypatch):
        first, second, third = together(writer, "a", "b", "c")
        cancelled = third.cancel()
    first.result(60)
    assert cancelled
    writer.close()
    assert stored(data) == Counter(["a", "b"])
    assert second.done()
    with pytest.raises(BinderyError):
        writer.append("/", records("d"), author="t")
