"""Queues with many small batches, and a clock that a test can put forward."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bindery.store.commit import BatchCommitter
from bindery.store.maintenance import Policy
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from tests.unit.store.conftest import STREAM, declare_queues, deliver

#: A policy under which everything that is not part of the present goes.
NOTHING_OLD = Policy(retention=timedelta(0), shortest=timedelta(0), orphan_age=timedelta(0))


@dataclass
class Clock:
    """The time, in milliseconds, put forward by `ahead`."""

    ahead: timedelta = timedelta(0)

    def __call__(self) -> int:
        return time.time_ns() // 1_000_000 + int(self.ahead.total_seconds() * 1000)


@dataclass
class Stream:
    """A stream into the queues a and b."""

    data: DataDir
    version: int
    committer: BatchCommitter
    batches: int = 0

    def run(self, batches: int, *names: str, rows: int = 3, **columns: Any) -> None:
        for _ in range(batches):
            deliver(self.data, self.committer, self.batches, self.version, *(names or ("a", "b")), rows=rows, **columns)
            self.batches += 1


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def stream(data: DataDir, store: TopologyStore) -> Iterator[Stream]:
    version = store.edit(declare_queues("a", "b"), author="t").version
    with BatchCommitter(data, stream=STREAM, app_id=f"{STREAM}:1") as committer:
        yield Stream(data, version, committer)


def data_files_of(table: str) -> set[str]:
    return {path.name for path in Path(table).glob("*.parquet")}


def entries_of(table: str) -> list[int]:
    return sorted(int(path.stem) for path in Path(table, "_delta_log").glob("*.json"))
