"""What maintenance costs a stream: batches into 100 queues, committed with it and without (`make bench-maintenance`).

The files of a batch are made beforehand, so that what is measured is committing and maintaining alone.
Printed: processor time per batch of both, files and bytes of logs that are left, and the time of one whole pass
over everything that the run without maintenance has left behind.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from benchmarks import workload
from benchmarks.scratch import scratch
from bindery.router.declarations import TopologyEditor
from bindery.router.engine import Router
from bindery.router.model import Binding, Exchange, Queue
from bindery.store.commit import BatchCommitter, BatchCounts, WrittenFile
from bindery.store.maintenance import Policy, Upkeep, maintain
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from bindery.store.writer import BatchStamp, QueueWriter

QUEUES = 100
MESSAGES = 20


@dataclass
class Run:
    """A data directory, and the batch that is committed to it again and again."""

    data: DataDir
    router: Router
    batch: pa.RecordBatch

    @classmethod
    def prepare(cls, folder: Path) -> Run:
        data = DataDir.open(folder, create=True)
        topology = TopologyStore(data).edit(_declare, author="bench").topology
        messages = workload.messages(MESSAGES, seed=1).combine_chunks().to_batches()[0]
        batch = workload.sent_to("bench", messages, pa.array(np.arange(MESSAGES)))
        return cls(data, Router.compile(topology, "/"), batch)

    def write(self, number: int) -> list[WrittenFile]:
        stamp = BatchStamp("bench", number, self.router.version, time.time_ns() // 1_000_000)
        writer = QueueWriter(self.data, vhost="/", queues=self.router.queues, stamp=stamp)
        writer.add(self.batch, self.router.route(self.batch, clock_ms=stamp.clock_ms))
        return writer.close()

    def commit(self, batches: int, upkeep: Upkeep | None) -> float:
        """Commit the batches; the processor seconds that went into writing their files."""
        writing = 0.0
        with BatchCommitter(self.data, stream="bench", app_id="bench:1") as committer:
            for number in range(batches):
                begun = time.thread_time()
                files = self.write(number)
                writing += time.thread_time() - begun
                pin = committer.pin(number, self.router.version, time.time_ns() // 1_000_000)
                done = committer.commit(number, pin, files, BatchCounts(records=MESSAGES, copies=MESSAGES * QUEUES))
                if upkeep is not None:
                    upkeep.committed(done)
        return writing


def _declare(editor: TopologyEditor) -> None:
    editor.declare_exchange(Exchange("/", "bench", "fanout"))
    for number in range(QUEUES):
        editor.declare_queue(Queue("/", f"queue{number:03}"))
        editor.bind(Binding(0, "/", "bench", f"queue{number:03}"))


def _measured(run: Run, batches: int, upkeep: Upkeep | None) -> float:
    """Processor milliseconds per batch, without those of writing its files."""
    begun = time.process_time()
    writing = run.commit(batches, upkeep)
    if upkeep is not None:
        upkeep.close()
    return (time.process_time() - begun - writing) * 1000 / batches


def _left(data: DataDir) -> tuple[int, int]:
    """Files, and bytes of logs."""
    paths = [path for path in Path(data.root).rglob("*") if path.is_file()]
    return len(paths), sum(path.stat().st_size for path in paths if path.parent.name == "_delta_log")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="What maintenance costs a stream.")
    parser.add_argument("--batches", type=int, default=320)
    parser.add_argument("--retention", type=int, default=5, help="seconds that old versions and files are kept")
    options = parser.parse_args(arguments)
    policy = Policy(retention=timedelta(seconds=options.retention))
    table = Table("", "processor ms/batch", "files", "log MiB", title=f"{QUEUES} queues, {options.batches} batches")
    for column in table.columns[1:]:
        column.justify = "right"
    with scratch() as folder:
        for name, maintained in (("without", False), ("with maintenance", True)):
            run = Run.prepare(folder / name.partition(" ")[0])
            cost = _measured(run, options.batches, Upkeep(run.data, policy) if maintained else None)
            files, log_bytes = _left(run.data)
            table.add_row(name, f"{cost:,.0f}", f"{files:,}", f"{log_bytes / 2**20:,.1f}")
        data = DataDir.open(folder / "without")
        begun = time.process_time()
        maintain(data, policy)
        seconds = time.process_time() - begun
        files, log_bytes = _left(data)
        table.add_row(f"after one pass ({seconds:,.1f} s)", "", f"{files:,}", f"{log_bytes / 2**20:,.1f}")
        Console(width=120).print(table)


if __name__ == "__main__":
    main()
