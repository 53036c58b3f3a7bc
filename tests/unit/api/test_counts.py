"""Counts of queues: right after whatever happened to a table, for a look that costs what is new."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from bindery.api import counts as counts_module
from bindery.api.counts import Counts, Held
from bindery.router.errors import UnsupportedTable
from bindery.store import read
from bindery.store.commit import BatchCommitter
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from tests.unit.store.conftest import declare_queues, deliver, queue_rows


@pytest.fixture
def data(tmp_path: Path) -> DataDir:
    return DataDir.open(tmp_path / "data", create=True)


@pytest.fixture
def store(data: DataDir) -> TopologyStore:
    return TopologyStore(data)


@pytest.fixture
def counts(data: DataDir) -> Counts:
    return Counts(data)


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
        for entry in sorted(Path(data.queue("/", "q"), "_delta_log").glob("*.json"))[:-1]:
            entry.unlink()
        deliver(data, committer, 6, store.load().version, "q")
        assert counts.of("/", "q").messages == 21
    with pytest.raises(UnsupportedTable):
        Counts(data).of("/", "q")


def test_files_without_statistics_are_looked_into_once(data: DataDir, store: TopologyStore, counts: Counts) -> None:
    fill(data, store, "q", batches=0).close()
    path = data.queue("/", "q")
    write_deltalake(path, queue_rows(0, range(5), version=1), mode="append")
    for entry in Path(path, "_delta_log").glob("*1.json"):
        entry.write_text(entry.read_text().replace("numRecords", "unknown"))
    assert counts.of("/", "q").messages == 5
    for file in Path(path).glob("*.parquet"):
        file.unlink()
    write_deltalake(path, queue_rows(1, range(2), version=1), mode="append")
    assert counts.of("/", "q").messages == 7


def test_a_queue_that_went_and_came_back_is_counted_anew(data: DataDir, store: TopologyStore, counts: Counts) -> None:
    fill(data, store, "q").close()
    assert counts.of("/", "q").messages == 9
    shutil.rmtree(data.queue("/", "q"))
    assert counts.of("/", "q") == Held()
    store.edit(lambda e: e.delete_queue("/", "q"), author="t")
    version = store.edit(declare_queues("q"), author="t").version
    assert counts.of("/", "q").messages == 0
    with BatchCommitter(data, stream="s", app_id="s:2") as committer:
        deliver(data, committer, 0, version, "q")
    assert counts.of("/", "q").messages == 3
    # as many commits as before, in a table of that name that is another one
    shutil.rmtree(data.queue("/", "q"))
    store.edit(lambda e: e.delete_queue("/", "q"), author="t")
    version = store.edit(declare_queues("q"), author="t").version
    with BatchCommitter(data, stream="s", app_id="s:3") as committer:
        deliver(data, committer, 0, version, "q", rows=1)
    assert counts.of("/", "q").messages == 1


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
