"""Batches of a stream without Spark: routed as a job with one task does it, and committed as its driver does."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from bindery.jobs.task import Folding, Held, RouteTask
from bindery.router.engine import Router
from bindery.router.freshness import Flags
from bindery.router.model import Topology
from bindery.store.batches import BatchDriver, Routed
from bindery.store.commit import WrittenFile
from bindery.store.paths import DataDir
from bindery.store.routed_counts import RoutedCounts

#: Bytes of messages that the task gathers before it writes files.
BUFFER_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Committed:
    """What a batch brought: messages, their copies, files, and bytes of those of the journal."""

    messages: int
    copies: int
    files: int
    journal_bytes: int


@dataclass(frozen=True, slots=True)
class OneTask:
    """Routes the batches of a stream into the vhost "/" and, if told, its journal; `deferred` queues by it alone."""

    data: DataDir
    driver: BatchDriver[Router]
    fold: Folding
    deferred: Flags | None = None
    journal: bool = True

    def batch(self, number: int, topology: Topology, clock_ms: int, messages: pa.RecordBatch) -> Committed:
        """Route and commit one batch, which nobody has begun before."""
        begun = self.driver.begin(number, topology, clock_ms)
        assert begun.router is not None  # noqa: S101  # no batch is begun twice
        router = Held(begun.router)
        task = RouteTask(
            self.data, "/", begun.stamp, self.fold, router, BUFFER_BYTES, journal=self.journal, deferred=self.deferred
        )
        done = task.route(iter([messages]))
        counts = RoutedCounts()
        counts.merge(done["counts"])
        files = [WrittenFile(**file) for file in done["files"]]
        self.driver.commit(begun, Routed(files, counts))
        noted = sum(file.size for file in files if file.kind == "journal")
        return Committed(counts.records, counts.copies, len(files), noted)


def resident() -> int:
    """Bytes of memory that the process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
