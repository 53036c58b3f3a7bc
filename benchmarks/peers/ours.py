"""What Bindery does with the messages of a case: into tables, exactly once, or in memory."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.bench_route import JOB, STAGES
from benchmarks.peers.cases import BATCH, Case
from bindery.jobs.control.config import parse_job
from bindery.jobs.report import BatchReport
from bindery.jobs.route import RouteJob
from bindery.jobs.session import build_session
from bindery.router.declarations import TopologyEditor
from bindery.router.engine import Router
from bindery.router.model import DEFAULT_VHOST
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore

_LEAST_SECONDS: Final = 1.0
#: Files of messages, and so tasks of a batch: one for each core, as Spark would cut them by itself.
FILES: Final = len(os.sched_getaffinity(0))
#: Form -> what a job file says more.
FORMS: Final = {"tables": "", "deferred": "freshness: 3600\n"}


@dataclass
class Ours:
    """Bindery over a case, with the seconds of one round and the copies that it made."""

    case: Case
    messages: pa.Table
    folder: Path
    _streams: itertools.count[int] = field(default_factory=itertools.count)

    @cached_property
    def counts(self) -> dict[str, int]:
        return self.case.counts(self.messages)

    @cached_property
    def _router(self) -> Router:
        return Router.compile(self.case.topology, DEFAULT_VHOST)

    @cached_property
    def _batches(self) -> list[pa.RecordBatch]:
        found: list[pa.RecordBatch] = self.messages.combine_chunks().to_batches(max_chunksize=BATCH)
        return found

    @cached_property
    def source(self) -> Path:
        """The messages as the Parquet files that jobs read."""
        folder = self.folder / "source"
        folder.mkdir()
        part = -(-self.messages.num_rows // FILES)
        for number in range(FILES):
            pq.write_table(self.messages.slice(number * part, part), folder / f"{number}.parquet")
        return folder

    @cached_property
    def _data(self) -> DataDir:
        data = DataDir.open(self.folder / "data", create=True)
        TopologyStore(data).edit(self._declare, author="bench")
        return data

    def _declare(self, editor: TopologyEditor) -> None:
        for exchange in self.case.exchanges():
            editor.declare_exchange(exchange)
        for queue in self.case.topology.in_vhost(DEFAULT_VHOST)[1]:
            editor.declare_queue(queue)
        for binding in self.case.bindings():
            editor.bind(binding)

    def in_memory(self) -> tuple[float, int]:
        """Routed by one thread: which rows each queue gets, without writing them; the mean of a second's repetitions.

        Peers take seconds: what else the machine does would meet them and miss a few milliseconds.
        """
        started, times = time.perf_counter(), 0
        while not times or time.perf_counter() - started < _LEAST_SECONDS:
            copies = sum(len(self._router.route(batch, clock_ms=0).rows) for batch in self._batches)
            times += 1
        return (time.perf_counter() - started) / times, copies

    def durable(self, spark: SparkSession, form: str) -> tuple[float, int]:
        """A micro-batch of the streaming job, from its pin to its last commit, into the tables of its queues.

        It is the second of two: Spark ends workers that had nothing to do while a peer was measured, and a stream
        that runs has them.
        """
        self._batch(spark, form)
        return self._batch(spark, form)

    def _batch(self, spark: SparkSession, form: str) -> tuple[float, int]:
        reports: list[BatchReport] = []
        stream = f"bench-{form}-{next(self._streams)}"
        file = parse_job(JOB.format(stream=stream, path=self.source) + FORMS[form])
        RouteJob(spark, self._data, file, report=reports.append).run()
        (report,) = reports
        return sum(report.seconds[stage] for stage in STAGES), report.copies


@dataclass
class Session:
    """A Spark session that starts when it is first asked for."""

    folder: Path
    _spark: SparkSession | None = None

    def __call__(self) -> SparkSession:
        if self._spark is None:
            settings = {"spark.sql.files.minPartitionNum": str(FILES), "spark.driver.memory": "2g"}
            self._spark = build_session("bench", settings=settings, log_file=self.folder / "spark.log")
        return self._spark

    def stop(self) -> None:
        if self._spark is not None:
            self._spark.stop()


Spark = Callable[[], SparkSession]
