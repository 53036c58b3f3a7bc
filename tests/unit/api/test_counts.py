"""Counts of queues: right after whatever happened to a table, for a look that costs what is new."""

from __future__ import annotations

import os
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from bindery.api import counts as counts_module
from bindery.api.counts import MAX_AGE, Counts, Held
from bindery.router.errors import UnsupportedTable
from bindery.router.message import Message
from bindery.router.model import Queue
from bindery.store import read
from bindery.store.commit import BatchCommitter
from bindery.store.paths import DataDir
from bindery.store.places import LocalPlace
from bindery.store.places import at as place
from bindery.store.rebuild import Rebuilder
from bindery.store.topology import TopologyStore
from tests.unit.store.conftest import declare_queues, deliver, queue_rows, remove_data_files
from tests.unit.store.routed import route


@pytest.fixture
def store(data: DataDir) -> TopologyStore:
    return TopologyStore(data)


class Clock:
    """Seconds that pass when a test says so."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def counts(data: DataDir, clock: Clock) -> Counts:
    return Counts(data, clock=clock)


def settle(data: DataDir, clock: Clock) -> None:
    """As if the last commits were of a second ago; on an object store, of as long ago as totals may lag behind."""
    if place(data.root).is_remote:
        clock.now += MAX_AGE
    for table in (data.topology, data.manifest):
        log = place(table, "_delta_log")
        if isinstance(log, LocalPlace) and log.exists():
            then = time.time() - 1
            os.utime(log.path, (then, then))


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each log folder was looked at."""
    found: Counter[str] = Counter()
    stat = os.stat

    def counting(path: Any, **options: Any) -> os.stat_result:
        named = Path(path) if isinstance(path, str) else None
        if named is not None and named.name == "_delta_log":
            found["queue" if "queues" in named.parts else named.parent.name] += 1
        return stat(path, **options)

    monkeypatch.setattr(os, "stat", counting)
    return found


def fill(data: DataDir, store: TopologyStore, *names: str, batches: int = 3) -> BatchCommitter:
    version = store.edit(declare_queues(*names), author="t").version
    committer = BatchCommitter(data, stream="s", app_id="s:1")
    for batch in range(batches):
        deliver(data, committer, batch, version, *names)
    return committer


def size_of(data: DataDir, name: str) -> int:
    return sum(pa.table(DeltaTable(data.queue("/", name)).get_add_actions())["size_bytes"].to_pylist())


def test_a_count_follows_the_queue(data: DataDir, store: TopologyStore, counts: Counts) -> None:
    with fill(data, store, "q", batches=0) as committer:
        assert counts.of("/", "q").messages == 0
        for batch in range(5):
            deliver(data, committer, batch, store.load().version, "q")
            held = counts.of("/", "q")
            assert (held.messages, held.size) == (3 * batch + 3, size_of(data, "q"))
    read.take(data, "q", limit=4)
    assert counts.of("/", "q").messages == 11
    DeltaTable(data.queue("/", "q")).optimize.compact()
    assert (counts.of("/", "q").messages, counts.of("/", "q").size) == (11, size_of(data, "q"))
    assert counts.of_many([("/", "q")] * 20) == [counts.of("/", "q")] * 20
    assert counts.of("/", "none") == Held()


@pytest.mark.local_only
def test_while_no_folder_changes_no_queue_of_many_is_looked_at(
    data: DataDir, store: TopologyStore, counts: Counts, clock: Clock, looked: Counter[str]
) -> None:
    store.edit(lambda e: [e.declare_queue(Queue("/", f"q{n}")) for n in range(3)], author="t")
    settle(data, clock)
    looked.clear()
    many = [("/", f"q{number}") for number in range(1_000)]
    counts.of_many(many)
    assert looked["queue"] == 1_000
    for _ in range(3):
        looked.clear()
        assert [held.messages for held in counts.of_many(many)] == [0] * 1_000
        assert looked["queue"] == 0
        assert counts.messages_in(store.load()) == {"/": 0}
        assert looked["queue"] <= 3
        assert looked["manifest"] + looked["topology"] <= 4
    clock.now += MAX_AGE
    counts.of_many(many)
    assert looked["queue"] >= 1_000


def test_totals_follow_whoever_commits(data: DataDir, store: TopologyStore, counts: Counts, clock: Clock) -> None:
    names = [f"q{number}" for number in range(20)]

    def total() -> int:
        """The total, which the list bears out."""
        found = counts.messages_in(store.load()).get("/", 0)
        assert sum(held.messages for held in counts.of_many(("/", name) for name in names)) == found
        return found

    assert counts.messages_in(store.load()) == {}
    with fill(data, store, *names, batches=1) as committer:
        settle(data, clock)
        assert total() == 60
        deliver(data, committer, 1, store.load().version, "q3", rows=5)
        assert total() == (60 if place(data.root).is_remote else 65)  # a batch, while its commit is young
        settle(data, clock)
        assert total() == 65
    store.edit(lambda e: e.delete_queue("/", "q3"), author="t")
    settle(data, clock)
    assert total() == 57  # a topology
    read.take(data, "q4", limit=1)
    assert total() == 57  # whoever takes in another process, for a while
    clock.now += MAX_AGE
    assert total() == 56
    read.take(data, "q5", limit=1)
    counts.changed()
    assert total() == 55  # this process
    assert counts.of("/", "q5").messages == 2  # one queue alone is always looked at


def test_many_queues_are_handed_to_threads_in_shares(counts: Counts, monkeypatch: pytest.MonkeyPatch) -> None:
    handed: list[object] = []
    submit = ThreadPoolExecutor.submit
    monkeypatch.setattr(ThreadPoolExecutor, "submit", lambda *a, **k: handed.append(a) or submit(*a, **k))
    wanted = [("/", f"q{number}") for number in range(1_000)]
    assert counts.of_many(wanted) == [Held()] * 1_000
    assert len(handed) <= 4


def test_a_look_reads_only_what_was_committed_since(data: DataDir, store: TopologyStore, counts: Counts) -> None:
    with fill(data, store, "q", batches=6) as committer:
        assert counts.of("/", "q").messages == 18
        log = place(data.queue("/", "q"), "_delta_log")
        for name in sorted(name for name in log.files() if name.endswith(".json"))[:-1]:
            (log / name).remove()
        deliver(data, committer, 6, store.load().version, "q")
        assert counts.of("/", "q").messages == 21
    with pytest.raises(UnsupportedTable):
        Counts(data).of("/", "q")


def test_files_without_statistics_are_looked_into_once(data: DataDir, store: TopologyStore, counts: Counts) -> None:
    fill(data, store, "q", batches=0).close()
    path = data.queue("/", "q")
    write_deltalake(path, queue_rows(0, range(5), version=1), mode="append")
    entry = place(path, "_delta_log", f"{1:020}.json")
    entry.replace((entry.read() or b"").replace(b"numRecords", b"unknown"))
    assert counts.of("/", "q").messages == 5
    remove_data_files(path)
    write_deltalake(path, queue_rows(1, range(2), version=1), mode="append")
    assert counts.of("/", "q").messages == 7


def test_a_queue_that_went_and_came_back_is_counted_anew(data: DataDir, store: TopologyStore, counts: Counts) -> None:
    fill(data, store, "q").close()
    assert counts.of("/", "q").messages == 9
    place(data.queue("/", "q")).remove_folder()
    assert counts.of("/", "q") == Held()
    store.edit(lambda e: e.delete_queue("/", "q"), author="t")
    version = store.edit(declare_queues("q"), author="t").version
    assert counts.of("/", "q").messages == 0
    with BatchCommitter(data, stream="s", app_id="s:2") as committer:
        deliver(data, committer, 0, version, "q")
    assert counts.of("/", "q").messages == 3
    # as many commits as before, in a table of that name that is another one
    place(data.queue("/", "q")).remove_folder()
    store.edit(lambda e: e.delete_queue("/", "q"), author="t")
    version = store.edit(declare_queues("q"), author="t").version
    with BatchCommitter(data, stream="s", app_id="s:3") as committer:
        deliver(data, committer, 0, version, "q", rows=1)
    assert counts.of("/", "q").messages == 1


@pytest.mark.local_only
def test_a_table_that_was_rebuilt_begins_with_rows(data: DataDir, store: TopologyStore, counts: Counts) -> None:
    store.edit(declare_queues("q"), author="t")
    route(data, store, [Message("", "q")] * 3, journal=True)
    place(data.queue("/", "q")).remove_folder()
    assert Rebuilder(data, store, "/").rebuild("q").rows == 3
    assert counts.of("/", "q").messages == 3


def test_what_is_remembered_is_bounded_and_stays_right(
    data: DataDir, store: TopologyStore, counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts_module, "MAX_FILES", 7)
    monkeypatch.setattr(counts_module, "MAX_QUEUES", 4)
    names = [f"q{number}" for number in range(6)]
    with fill(data, store, *names) as committer:
        for batch in range(3, 6):
            for number, name in enumerate(names):
                assert counts.of("/", name).messages == 3 * batch, (batch, number)
                assert counts.files <= 7
            deliver(data, committer, batch, store.load().version, *names)
        with ThreadPoolExecutor(4) as pool:
            for held in pool.map(lambda _: [counts.of("/", name).messages for name in names], range(20)):
                assert held == [18] * 6
    assert counts.files <= 7
