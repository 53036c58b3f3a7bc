"""The streaming job: records of a source through the exchanges of a vhost into queue tables.

Runs as `bindery route` or under `spark-submit` (docs/jobs.md). Per micro-batch: pin the topology
version and the clock, route and write in the executors, commit each touched table once.
"""

from __future__ import annotations

import argparse
import logging
import re
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from bindery.jobs.behind import up_to_date
from bindery.jobs.checkpoint import Checkpoint
from bindery.jobs.control.config import AVAILABLE_NOW, JobFile, QueueSource, load_job
from bindery.jobs.control.connectors import connectors_of
from bindery.jobs.control.dedup import DedupOptions
from bindery.jobs.control.logs import about, format_of_environment, set_up
from bindery.jobs.deduplication import Deduplication, check_key, with_blocks
from bindery.jobs.intake import ARROW_RECORDS, Batch, intake
from bindery.jobs.java import java_is_gone, java_needed
from bindery.jobs.mapping import mapped
from bindery.jobs.plain_files import NotPlain, PlainFiles, plain
from bindery.jobs.plan import Planner, check_fit
from bindery.jobs.report import BatchReport, Totals
from bindery.jobs.routers import Routers
from bindery.jobs.session import build_session, configure
from bindery.jobs.shipping import results, shipped
from bindery.jobs.sources import SOURCES
from bindery.jobs.splits import Joined, Splits, enough_tasks
from bindery.jobs.task import GROUP_BYTES, NOT_PLAIN, RESULT_SCHEMA, RouteTask
from bindery.router.error_text import render_error
from bindery.router.errors import BinderyError
from bindery.store import effects
from bindery.store.batches import Routed
from bindery.store.commit import BatchCommitter, WrittenFile
from bindery.store.deferred import Flushing, any_waiting
from bindery.store.maintenance import Upkeep
from bindery.store.maintenance.options import MaintenanceOptions
from bindery.store.manifest import TASK_STAGE
from bindery.store.paths import DataDir
from bindery.store.places import hadoop_address, requests
from bindery.store.queue_use import note_use
from bindery.store.routed_counts import RoutedCounts
from bindery.store.streams import StreamEpoch, register
from bindery.store.topology import TopologyStore
from bindery.store.writer import drop_written

_LOGGER: Final = logging.getLogger("bindery.jobs")
#: Seconds between two looks at a running query.
_POLL: Final = 1
#: How Spark says that a file of its checkpoint is there already.
_WRITTEN_BY_ANOTHER: Final = "CONCURRENT_STREAM_LOG_UPDATE"
#: Times in a row that a query is started again after that without a batch between.
_STARTED_AGAIN: Final = 3
_PYTHON_ERROR: Final = re.compile(r"^[\w.]*(?:Error|Exception|Interrupt|Exit)(?:: .*)?$", re.MULTILINE)
#: Records per Arrow batch until their mean size is known.
_FIRST_BATCH_RECORDS: Final = 4096


class StreamFailed(BinderyError):
    """The streaming query ended with an error that is not Bindery's own."""

    code = "stream_failed"


class RouteJob:
    """One stream: prepared once, then run until the source is exhausted or `stop` is called.

    Construction validates the job against the source and the topology, and writes nothing. `report` is
    called after each micro-batch, on Spark's thread.
    """

    def __init__(
        self,
        spark: SparkSession,
        data: DataDir,
        file: JobFile,
        *,
        report: Callable[[BatchReport], None] | None = None,
    ) -> None:
        self.spark = spark
        self.data = data
        self.job = file.job
        self._report = report or (lambda _report: None)
        self._topologies = TopologyStore(data)
        self._file = file
        check_fit(file, self._topologies.load())
        configure(spark)
        records = SOURCES[self.job.source.format](spark, data, self.job.source, file)
        self._deduplication: Deduplication | None = None
        if self.job.dedup is not None:
            records = with_blocks(records)
            self._deduplication = Deduplication(data, self.job.stream, self.job.vhost)
        projection, self._fold = mapped(records, file)
        check_key(file, self._fold)
        stop = getattr(self.job.source, "unreadable_files", "record") == "stop"
        self._explained = records.explained
        # what finds repeats reads the records, too, and knows parts of files by where Spark says that they begin
        self._plain = None if self.job.dedup is not None else plain(spark, records, projection, self._fold)
        place = data.checkpoint(self.job.stream)
        self._intake = intake(spark, records, projection, place, stop_at_unreadable=stop, plain=self._plain)
        self._planner: Planner | None = None
        self._batch_records = min(_FIRST_BATCH_RECORDS, self.job.max_batch_records)
        #: Tasks that the last batch needed, None for as many as there may be.
        self._enough: int | None = None
        self._joined = Joined()
        self._error: BaseException | None = None
        #: Batches that this process routed, those that were committed before left out.
        self._routed = 0
        #: Requests of this process up to the last batch.
        self._asked = Counter(requests())
        self._stopping = threading.Event()
        self._between_batches = threading.Lock()
        self._upkeep: Upkeep | None = None
        self._flushing: Flushing | None = None

    def run(self, *, available_now: bool = False, new_epoch: bool = False, repin: bool = False) -> None:
        """Run the stream; returns when the source is exhausted (available-now) or after `stop`.

        With `repin` a batch that was begun, of which nothing was committed and which can no longer be routed
        as its pin says, is pinned anew. Raises CheckpointMismatch, Fenced, UnusablePin and what else Bindery
        itself finds; OtherCode, JavaEnded when Spark's process is gone, StreamFailed otherwise.
        """
        with about(stream=self.job.stream), java_needed(f"stream {self.job.stream!r}"):
            self._run(available_now=available_now, new_epoch=new_epoch, repin=repin)

    def _run(self, *, available_now: bool, new_epoch: bool, repin: bool) -> None:
        stream = self.job.stream
        checkpoint = Checkpoint(self.data.checkpoint(stream))
        epoch = self._registered(checkpoint, new_epoch=new_epoch)
        now = available_now or self.job.trigger == AVAILABLE_NOW
        with (
            self._maintained(now) as upkeep,
            closing(Splits(self.spark)) as splits,
            closing(Routers(self.spark, self.job.vhost, self._topologies)) as routers,
            BatchCommitter(self.data, stream=stream, app_id=epoch.app_id) as committer,
        ):
            planner = self._planner = Planner(
                self._file,
                self._topologies,
                checkpoint,
                committer,
                splits=splits,
                routers=routers,
                repin=repin,
                committed=(lambda _: None) if upkeep is None else upkeep.committed,
            )
            self._upkeep = upkeep
            planner.begin(epoch, new_epoch=new_epoch)
            if any_waiting(self.data, stream):
                self._flush()
            source = self.job.source
            if isinstance(source, QueueSource):
                up_to_date(self.data, self._topologies, source.vhost or self.job.vhost, source.queue, follows=not now)
            writer = self._intake.stream.writeStream.queryName(stream)
            writer = writer.option("checkpointLocation", hadoop_address(str(checkpoint.folder)))
            trigger: dict[str, Any] = {"availableNow": True} if now else {"processingTime": self.job.trigger}
            try:
                self._query(writer.foreachBatch(self._route_batch).trigger(**trigger), committer)
                if now and self._flushing is not None and not self._stopping.is_set():
                    self._flushing.finish()  # nobody may come to do so later
                if upkeep is not None and not self._stopping.is_set():
                    upkeep.drain()  # the source is exhausted: nobody waits for the end
            except (PySparkException, Py4JError) as error:
                if java_is_gone():
                    raise
                committer.check_owner()  # Spark may notice the other driver first, by the files of its checkpoint
                known = self._explained(str(error))
                raise known or StreamFailed(_stream_reason(error), where=f"stream {stream!r}") from error
            finally:
                if self._flushing is not None:
                    self._flushing.close()

    def _flush(self) -> Flushing:
        """Whoever materialises the deferred queues of the stream; begins with the first copy that waits."""
        if self._flushing is None:
            job = self.job
            told = (lambda _: None) if self._upkeep is None else self._upkeep.flushed
            self._flushing = Flushing(self.data, job.stream, job.vhost, freshness=job.freshness, flushed=told)
        return self._flushing

    def _registered(self, checkpoint: Checkpoint, *, new_epoch: bool) -> StreamEpoch:
        fresh = not checkpoint.folder.exists()
        try:
            return register(self.data, self.job.stream, checkpoint.id(), new_epoch=new_epoch)
        except BinderyError:
            if fresh:
                effects.remove_folder(checkpoint.folder)
            raise

    def _maintained(self, available_now: bool) -> AbstractContextManager[Upkeep | None]:
        """The maintenance of a stream that runs unattended; a job that ends by itself has it on request."""
        asked = self.job.maintenance
        if asked is False or (asked is None and available_now):
            return nullcontext()
        return Upkeep(self.data, asked.policy if isinstance(asked, MaintenanceOptions) else None)

    def stop(self) -> None:
        """End after the batch that is running; safe to call from a signal handler."""
        self._stopping.set()

    def _query(self, writer: DataStreamWriter, committer: BatchCommitter) -> None:
        """Run the query to its end, again where another driver wrote to its checkpoint.

        A driver that lost the stream records in Spark's checkpoint what it was about before it asks whose the stream
        is; Spark ends the query that finds the record there. It is of a batch that is committed, or of one that
        nobody began, and the stream goes on from there.
        """
        ended = 0
        while True:
            routed = self._routed
            try:
                return self._await(writer.start())
            except StreamingQueryException as error:
                if _WRITTEN_BY_ANOTHER not in str(error):
                    raise
                committer.check_owner()
                ended = 1 if self._routed > routed else ended + 1
                if ended > _STARTED_AGAIN:
                    raise
                _LOGGER.warning(
                    "a driver that no longer holds the stream wrote to its checkpoint; the stream goes on from there"
                )

    def _await(self, query: StreamingQuery) -> None:
        try:
            self._note_use()
            while not query.awaitTermination(_POLL):
                self._note_use()
                if self._stopping.is_set():
                    with self._between_batches:
                        pass  # a batch that is running ends first
                    query.stop()
        except StreamingQueryException:
            if self._error is None and not self._stopping.is_set():
                raise
        finally:
            if query.isActive:
                query.stop()
        if self._error is not None:
            raise self._error

    def _note_use(self) -> None:
        """A job that reads a queue is a consumer of it, also while nothing comes."""
        if isinstance(self.job.source, QueueSource):
            note_use(self.data, self.job.source.vhost or self.job.vhost, self.job.source.queue)

    def _route_batch(self, frame: DataFrame, batch_id: int) -> None:
        # on a thread of Spark's
        with self._between_batches, about(stream=self.job.stream, batch=batch_id):
            if self._error is not None or self._stopping.is_set():
                raise _Stopped  # keeps Spark from recording the batch as done
            try:
                assert self._planner is not None  # noqa: S101  # run() has made it
                report = self._route(frame, batch_id, self._planner)
                self._routed += not report.replayed
                self._report(report)
                self._planner.finished(enough=self._enough)
            except BaseException as error:
                self._error = error
                raise

    def _route(self, frame: DataFrame, batch_id: int, planner: Planner) -> BatchReport:
        """Route and commit one micro-batch; one that was committed before is left alone."""
        started = time.perf_counter()
        begun = planner.begin_batch(batch_id)
        number, version = begun.number, begun.pin.topology_version
        if begun.router is None:
            return BatchReport(number, version, 0, 0, 0, {}, replayed=True)
        prepared = time.perf_counter()
        batch = self._intake.batch(frame, batch_id)
        deferred = planner.deferred(begun)
        task = RouteTask(
            self.data,
            self.job.vhost,
            begun.stamp,
            self._fold,
            begun.router,
            self.job.task_buffer_bytes,
            batch.numbers,
            journal=planner.keeps_journal or deferred is not None,
            deferred=deferred,
        )
        options = DedupOptions.of_pin(begun.pin.dedup)
        outcomes = self._run_tasks(batch, task, options)
        routed = time.perf_counter()
        counts = RoutedCounts()
        seconds: dict[str, float] = {"prepare": prepared - started, "tasks": routed - prepared}
        for result in outcomes:
            counts.merge(result["counts"])
            for stage, spent in result["seconds"].items():
                name = TASK_STAGE + stage
                seconds[name] = seconds.get(name, 0.0) + spent
        if counts.records:
            mean = max(1, counts.bytes // counts.records)
            self._batch_records = min(max(1, GROUP_BYTES // mean), self.job.max_batch_records)
        files = [WrittenFile(**file) for result in outcomes for file in result["files"]]
        if files:
            self._enough = enough_tasks(counts.records, files)
            self._joined.learn(counts.records, self._enough)
        # a job without it has no batch that was begun with it (jobs.plan)
        deduplication = None if options is None else self._deduplication
        if deduplication is not None:
            files += deduplication.write(begun.stamp)
        asked = Counter(requests())
        counts.requests += asked - self._asked
        self._asked = asked
        planner.driver.commit(begun, Routed(files, counts, {name: spent * 1000 for name, spent in seconds.items()}))
        if deduplication is not None:
            deduplication.committed(begun.stamp)
        seconds["commit"] = time.perf_counter() - routed
        if deferred is not None:
            noted = sum(file.size for file in files if file.kind == "journal")
            self._flush().committed(noted, counts.copies / max(1, counts.records))
        return BatchReport(
            number,
            version,
            counts.records,
            counts.copies,
            counts.unroutable.total(),
            seconds,
            counts.requests,
            reasons=counts.unroutable,
            problems=counts.problems,
            unparsable=counts.unparsable,
        )

    def _run_tasks(self, batch: Batch, task: RouteTask, options: DedupOptions | None) -> list[dict[str, Any]]:
        """What the tasks of a batch give, and the driver for what was left out of it.

        With `options` what repeats a message is found first, and not routed.
        """
        batch.session.conf.set(ARROW_RECORDS, str(self._batch_records))
        joined = None
        if batch.numbers is not None and getattr(self.job.source, "min_partitions", None) is None:
            joined = self._joined.tasks(batch.numbers.end)

        def routed(read: DataFrame, reader: PlainFiles | None) -> list[Row]:
            if reader is not None and self._plain is not None:
                rows = read.mapInArrow(shipped(replace(task, reader=reader, fold=self._plain.fold)), RESULT_SCHEMA)
                return self._plainly(rows.collect())
            frame = read if joined is None else read.coalesce(joined)
            if options is None or self._deduplication is None:
                return frame.mapInArrow(shipped(task), RESULT_SCHEMA).collect()
            repeats, spent["keys"] = self._deduplication.repeats(options, task.stamp, frame, self._fold, task.numbers)
            shared = self.spark.sparkContext.broadcast(repeats)
            try:
                return frame.mapInArrow(shipped(replace(task, repeats=shared)), RESULT_SCHEMA).collect()
            finally:
                shared.destroy()

        spent: dict[str, float] = {}
        rows, left_out = batch.rows(routed, clock_ms=task.stamp.clock_ms)
        found = list(results(rows))
        if spent:
            found.append({"files": [], "counts": {}, "seconds": spent})
        return [*found, task.refuse(left_out)] if left_out else found

    def _plainly(self, rows: list[Row]) -> list[Row]:
        """What tasks gave that read files themselves; raises NotPlain, and leaves nothing, where one could not."""
        found = list(results(rows))
        reason = next((result[NOT_PLAIN] for result in found if NOT_PLAIN in result), None)
        if reason is None:
            return rows
        drop_written(self.data, (WrittenFile(**file) for result in found for file in result.get("files", ())))
        raise NotPlain(reason)


class _Stopped(Exception):
    """Raised inside Spark's callback to end a query without recording the batch."""


def _stream_reason(error: Exception) -> str:
    """The line of a streaming error that says what happened, without plan and stack.

    Of an error in a worker that is the last line of its Python traceback.
    """
    text = str(error)
    in_python = _PYTHON_ERROR.findall(text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return in_python[-1] if in_python else lines[0] if lines else type(error).__name__


def main(arguments: Sequence[str] | None = None) -> int:
    """`spark-submit … jobs/route.py --config job.yaml --data DIR`; see `bindery route --help`."""
    parser = argparse.ArgumentParser(prog="route.py", description=main.__doc__)
    parser.add_argument("--config", required=True, help="the job file")
    parser.add_argument("--data", required=True, help="the data directory")
    parser.add_argument("--available-now", action="store_true", help="end when what is there has been routed")
    parser.add_argument("--new-epoch", action="store_true", help="accept another checkpoint than the last one")
    parser.add_argument("--repin", action="store_true", help="pin a batch anew that cannot be routed as it is pinned")
    parser.add_argument("--fail-on-unroutable", action="store_true", help="exit with 1 when a record reached no queue")
    options = parser.parse_args(arguments)
    totals = Totals()
    try:
        form = format_of_environment()
        set_up(form)
        file = load_job(options.config)
        data = DataDir.open(options.data)
        needs = connectors_of(file, data)
        spark = build_session(f"bindery {file.job.stream}", needs=needs)
        with java_needed(f"stream {file.job.stream!r}"):
            job = RouteJob(spark, data, file, report=_reporter(totals, form))
        stop_on_signals(job)
        try:
            job.run(available_now=options.available_now, new_epoch=options.new_epoch, repin=options.repin)
        finally:
            if totals.batches:
                sys.stderr.write(totals.summary + "\n")
    except BinderyError as error:
        sys.stderr.write(render_error(error) + "\n")
        return error.exit_code
    return 1 if options.fail_on_unroutable and totals.lost else 0


def stop_on_signals(job: RouteJob) -> None:
    """SIGINT and SIGTERM end the job after the batch that is running."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: job.stop())


def _reporter(totals: Totals, form: str) -> Callable[[BatchReport], None]:
    """Counts batches, and prints or logs each."""

    def report(batch: BatchReport) -> None:
        totals.add(batch)
        if form == "text":
            sys.stdout.write(f"batch {batch.batch_id}: {_outcome(batch)}\n")
            sys.stdout.flush()
        else:
            _LOGGER.info("%s", _outcome(batch), extra={"batch": batch.batch_id})

    return report


def _outcome(report: BatchReport) -> str:
    return "was committed before" if report.replayed else f"{report.records} records, {report.copies} copies"


if __name__ == "__main__":
    sys.exit(main())
