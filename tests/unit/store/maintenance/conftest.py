"""Queues with many small batches, and a clock that a test can put forward."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from bindery.store import log
from bindery.store.commit import BatchCommitter
from bindery.store.maintenance import Policy
from bindery.store.paths import DataDir
from bindery.store.places import Place, Stat
from bindery.store.places import at as place
from bindery.store.places.remote import RemotePlace
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
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    # a log on an object store is trusted by the real time
    monkeypatch.setattr(log, "TRUSTED_SECONDS", 0.0)
    return Clock()


@pytest.fixture
def stream(data: DataDir, store: TopologyStore) -> Iterator[Stream]:
    version = store.edit(declare_queues("a", "b"), author="t").version
    with BatchCommitter(data, stream=STREAM, app_id=f"{STREAM}:1") as committer:
        yield Stream(data, version, committer)


@pytest.fixture
def dated(monkeypatch: pytest.MonkeyPatch) -> Callable[[Place, float], None]:
    """Makes a file look made then, in seconds since 1970; the time of an object is the store's, so looks at it lie."""
    told: dict[str, int] = {}
    as_stat = RemotePlace._as_stat

    def look(self: RemotePlace, found: Any) -> Stat:
        stat = as_stat(self, found)
        return replace(stat, modified_ms=told.get(found["path"], stat.modified_ms))

    def date(file: Place, moment: float) -> None:
        if isinstance(file, RemotePlace):
            told[file._key] = int(moment * 1000)
        else:
            os.utime(str(file), (moment, moment))

    monkeypatch.setattr(RemotePlace, "_as_stat", look)
    return date


@pytest.fixture
def age(dated: Callable[[Place, float], None]) -> Callable[[Place, float], None]:
    """Makes a file look so many days old."""
    return lambda file, days: dated(file, time.time() - days * 86_400)


def data_files_of(table: str) -> set[str]:
    return {name for name in place(table).files() if name.endswith(".parquet")}


def entries_of(table: str) -> list[int]:
    return sorted(int(name[:20]) for name in place(table, "_delta_log").files() if name.endswith(".json"))
