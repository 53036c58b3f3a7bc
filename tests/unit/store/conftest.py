"""A data directory, and small batches of rows for its queues, written as tasks write them."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from bindery.router.declarations import TopologyEditor
from bindery.router.message import QUEUE_SCHEMA
from bindery.router.model import Queue
from bindery.store import data_files, faults
from bindery.store.commit import BatchCommitter, BatchCounts, TableCommit, WrittenFile
from bindery.store.paths import DataDir
from bindery.store.places import at as place
from bindery.store.topology import TopologyStore

STREAM = "flights"


class Crash(Exception):
    """Stands for a process that dies between two steps."""


def crash() -> None:
    raise Crash


def at(point: str, effect: Callable[[], object], *, where: str = "", number: int = 1, times: int = 1) -> faults.Hook:
    """A hook that has an effect when a point is reached at such a path for the n-th time, and `times` in all.

    What the effect itself reaches does not count.
    """
    reached = 0
    busy = False

    def hook(name: str, path: str) -> None:
        nonlocal reached, busy
        if busy or name != point or where not in path:
            return
        reached += 1
        if number <= reached < number + times:
            busy = True
            try:
                effect()
            finally:
                busy = False

    return hook


class FailingDisk:
    """Fails at the n-th point that is reached, if there are so many; at "after" the effect was done.

    With `for_long` it fails from there on, whatever effect is tried.
    """

    def __init__(self, number: int, *, for_long: bool = False) -> None:
        self._left = number
        self._for_long = for_long
        self._gate = threading.Lock()
        self.failed = False

    def __call__(self, point: str, path: str) -> None:
        if not faults.is_effect(point):
            return
        with self._gate:
            self._left -= 1
            if self._left == 0:
                self.failed = True
            elif not (self.failed and self._for_long and point.endswith("before")):
                return
        raise OSError(errno.ENOSPC, "No space left on device", path)


def declare_queues(*names: str) -> Callable[[TopologyEditor], None]:
    def change(editor: TopologyEditor) -> None:
        for name in names:
            editor.declare_queue(Queue("/", name))

    return change


def queue_rows(
    batch_id: int, seqs: range, *, version: int, stream: str = STREAM, at: int = 0, **columns: Any
) -> pa.Table:
    """Rows routed so many seconds after the beginning of 2026."""
    rows = [
        {
            "exchange": "x",
            "routing_key": f"k{seq}",
            "routing": {
                "topology_version": version,
                "stream": stream,
                "batch_id": batch_id,
                "seq": seq,
                "bindings": [1],
            },
            "routed_at": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=at),
            **{name: value(seq) for name, value in columns.items()},
        }
        for seq in seqs
    ]
    return pa.Table.from_pylist(rows, schema=QUEUE_SCHEMA)


def written(data: DataDir, name: str, rows: pa.Table) -> WrittenFile:
    added = data_files.write_file(data.queue("/", name), rows)
    return WrittenFile("queue", "/", name, added.path, added.size, rows.num_rows, added.stats)


def deliver(
    data: DataDir,
    committer: BatchCommitter,
    batch_id: int,
    version: int,
    *names: str,
    rows: int = 3,
    **columns: Any,
) -> tuple[TableCommit, ...]:
    """One whole batch: `rows` messages, a copy of each in every named queue."""
    pin = committer.pin(batch_id, version, 1_000 + batch_id)
    routed = queue_rows(batch_id, range(rows), version=pin.topology_version, stream=committer.stream, **columns)
    files = [written(data, name, routed) for name in names]
    return committer.commit(batch_id, pin, files, BatchCounts(records=rows, copies=rows * len(names)))


def remove_data_files(table: str) -> None:
    """What a table's log says must do without what its files hold."""
    for name in place(table).files():
        if name.endswith(".parquet"):
            place(table, name).remove()


@pytest.fixture(params=["local", "s3"])
def root(request: pytest.FixtureRequest) -> str:
    """Where nothing is yet, on each kind of place; tests with the mark `local_only` are about file systems."""
    if request.param == "s3":
        return str(request.getfixturevalue("s3_root"))
    return f"{request.getfixturevalue('tmp_path')}/data"


@pytest.fixture
def data(root: str) -> DataDir:
    """A data directory on each kind of place."""
    return DataDir.open(root, create=True)


@pytest.fixture
def store(data: DataDir) -> TopologyStore:
    store = TopologyStore(data)
    store.create()
    return store
