"""A data directory with a topology and an inbox of files, and what a test looks at afterwards."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from bindery.jobs.control.config import parse_job
from bindery.jobs.report import BatchReport
from bindery.jobs.route import RouteJob
from bindery.router.declarations import TopologyEditor
from bindery.router.message import Message, to_batch
from bindery.router.model import Binding, Queue
from bindery.store.manifest import read_manifest
from bindery.store.paths import DataDir
from bindery.store.tables import count_rows
from bindery.store.topology import TopologyStore


@dataclass
class Installation:
    """One data directory with one inbox."""

    spark: SparkSession
    root: Path
    reports: list[BatchReport] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.inbox = self.root / "inbox"
        self.inbox.mkdir()
        self.data = DataDir.open(self.root / "data", create=True)
        self.topology = TopologyStore(self.data)
        self.topology.create()
        self._placed = 0

    def edit(self, change: Callable[[TopologyEditor], object]) -> None:
        self.topology.edit(change, author="test")

    def queue(self, name: str, *, source: str = "amq.topic", key: str = "#", **arguments: Any) -> None:
        """Declare a queue and bind it."""

        def declare(editor: TopologyEditor) -> None:
            from bindery.router.values import Table

            editor.declare_queue(Queue("/", name))
            editor.bind(Binding(0, "/", source, name, routing_key=key, arguments=Table(arguments)))

        self.edit(declare)

    def publish(self, messages: Sequence[Message], *, file: str) -> None:
        """Put canonical messages into the inbox as one Parquet file."""
        self.write_parquet(pa.Table.from_batches([to_batch(messages)]), file=file)

    def write_parquet(self, table: pa.Table, *, file: str) -> None:
        draft = self.inbox / f".{file}"
        pq.write_table(table, draft)
        self._place(draft, file)

    def write_lines(self, *lines: str, file: str) -> None:
        draft = self.inbox / f".{file}"
        draft.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        self._place(draft, file)

    def _place(self, draft: Path, file: str) -> None:
        """Give a file its name, and a time after that of the one before: Spark reads them by milliseconds."""
        self._placed = max(time.time_ns(), self._placed + 1_000_000)
        os.utime(draft, ns=(self._placed, self._placed))
        draft.rename(self.inbox / file)

    def job(self, text: str = "", *, report: Callable[[BatchReport], None] | None = None) -> RouteJob:
        """A job of the stream "s" over the inbox; `text` replaces the default job file."""
        text = text or "stream: s\nsource: {format: parquet, path: INBOX}\ntrigger: available-now\n"

        def note(batch: BatchReport) -> None:
            self.reports.append(batch)
            if report is not None:
                report(batch)

        return RouteJob(self.spark, self.data, parse_job(text.replace("INBOX", str(self.inbox))), report=note)

    def route(self, text: str = "", **options: Any) -> list[BatchReport]:
        """Run the job until the inbox is exhausted; the reports of this run."""
        before = len(self.reports)
        self.job(text).run(**options)
        return self.reports[before:]

    def counts(self) -> dict[str, int]:
        """Rows by queue of the vhost "/"."""
        return {queue.name: count_rows(self.data, "/", queue.name) for queue in self.topology.load().in_vhost("/")[1]}

    def rows(self, queue: str) -> list[dict[str, Any]]:
        return self.table(queue).to_pylist()

    def table(self, queue: str) -> pa.Table:
        """What a queue holds."""
        return DeltaTable(self.data.queue("/", queue)).to_pyarrow_table()

    def journal(self) -> list[dict[str, Any]]:
        """The journal of the stream."""
        return DeltaTable(self.data.journal("s")).to_pyarrow_table().to_pylist()

    def files(self, queue: str) -> dict[int, int]:
        """How many files each batch has written for a queue."""
        read = (pq.read_table(file) for file in DeltaTable(self.data.queue("/", queue)).file_uris())
        return dict(Counter(file["routing"][0].as_py()["batch_id"] for file in read))

    def unroutable(self) -> list[dict[str, Any]]:
        path = self.data.unroutable("/")
        return DeltaTable(path).to_pyarrow_table().to_pylist() if DeltaTable.is_deltatable(path) else []

    def manifest(self) -> list[dict[str, Any]]:
        return read_manifest(self.data)

    @property
    def checkpoint(self) -> Path:
        return Path(self.data.checkpoint("s"))

    def forget_last_batch(self) -> None:
        """Make Spark run its last batch again: it records a batch as done in this file."""
        commits = self.checkpoint / "commits"
        last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink(missing_ok=True)


def as_json(**columns: Any) -> str:
    return json.dumps(columns)
