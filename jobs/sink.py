"""`writeStream.format("bindery")`: a streaming query of a user's own, routed into the queues of a data directory.

The steps are those of `bindery.store.batches`, in the processes that Spark has for a data source of Python's: tasks pin
the batch (the first of them decides), route and write; a process at the driver commits. A batch that runs again finds
its pin, and commits what the first attempt has written whose commit had begun (`bindery.store.attempts`).
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NoReturn

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from bindery.jobs.checkpoint import Checkpoint
from bindery.jobs.control.config import DEFAULT_RECORD_BYTES
from bindery.jobs.messages import MessageFold, message_fold
from bindery.jobs.shipping import OtherCode, fingerprint
from bindery.jobs.task import Held, RouteTask
from bindery.router.engine import Router
from bindery.router.errors import CheckpointMismatch, InvalidInput, Refused
from bindery.router.model import DEFAULT_VHOST
from bindery.router.spelling import did_you_mean, nearest
from bindery.store.attempts import Attempts
from bindery.store.batches import BatchDriver, Routed, RouterOf
from bindery.store.commit import BatchCommitter, WrittenFile
from bindery.store.manifest import TASK_STAGE, read_manifest
from bindery.store.paths import DataDir
from bindery.store.pins import Pin, Pins
from bindery.store.places import at
from bindery.store.routed_counts import RoutedCounts
from bindery.store.stream_names import why_no_job
from bindery.store.streams import StreamEpoch, register
from bindery.store.topology import TopologyStore
from bindery.store.writer import DEFAULT_BUFFER_BYTES, NUMBERS_PER_TASK, BatchStamp

#: Under what Spark tells tasks the query and the batch that they belong to.
_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"
#: Tasks of one batch: numbers of messages stay below 2^53.
_TASKS: Final = 2**53 // NUMBERS_PER_TASK - 1
_OPTIONS: Final = ("data", "stream", "vhost", "newEpoch")
#: What Spark hands through of its own.
_SPARKS: Final = ("checkpointlocation", "queryname")
_OTHER_CHECKPOINT: Final = "restore the checkpoint that belongs to the tables, or begin a new one with newEpoch"


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """What `option` has said; `checkpoint` is "" where Spark's configuration says it."""

    data: DataDir
    stream: str
    vhost: str
    new_epoch: bool
    checkpoint: str

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SinkOptions:
        """Check options, whose case does not matter. Raises InvalidInput."""
        stated = {name.lower(): value for name, value in options.items()}
        for name in stated:
            if name not in (*_SPARKS, *map(str.lower, _OPTIONS)):
                near = nearest(name, map(str.lower, _OPTIONS))
                meant = next((one for one in _OPTIONS if one.lower() == near), None)
                raise InvalidInput(
                    f"format bindery: unknown option {name!r}",
                    where=name,
                    hint=did_you_mean(meant, then="options: " + ", ".join(_OPTIONS)),
                )
        for name in ("data", "stream"):
            if not stated.get(name):
                raise InvalidInput(f"format bindery: the option {name!r} is missing", where=name)
        reserved = why_no_job(stated["stream"])
        if reserved is not None:
            raise InvalidInput(
                f"format bindery: stream is {stated['stream']!r}, and {reserved}",
                where="stream",
                hint="give it another name",
            )
        address = stated["data"]
        if not address.startswith("/") and "://" not in address:
            raise InvalidInput(
                f"format bindery: data is {address!r}, and Spark's processes run in other folders",
                where="data",
                hint="give an absolute path or a URL: bindery.open(…).path",
            )
        new_epoch = stated.get("newepoch", "false").lower()
        if new_epoch not in ("true", "false"):
            raise InvalidInput(f"format bindery: newEpoch is {new_epoch!r}", where="newEpoch", hint="true or false")
        data, vhost = DataDir.open(address), stated.get("vhost", DEFAULT_VHOST)
        return cls(data, stated["stream"], vhost, new_epoch == "true", stated.get("checkpointlocation", ""))


@dataclass(frozen=True, slots=True)
class Part(WriterCommitMessage):
    """What a task has written: the batch that it is of, and the result of `RouteTask.route` as JSON."""

    epoch: StreamEpoch
    number: int
    pin: Pin
    result: str


class BinderySource(DataSource):
    """The format `bindery`: a sink of streaming queries."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "bindery"

    def streamWriter(self, schema: StructType, overwrite: bool) -> Sink:  # noqa: N802  # Spark's name
        """The writer of one micro-batch. Raises InvalidInput for options and columns that are not known."""
        if overwrite:
            raise InvalidInput("format bindery: queues are appended to", where="outputMode", hint="outputMode append")
        return Sink(SinkOptions.of(self.options), message_fold(schema, DEFAULT_RECORD_BYTES), fingerprint())

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Refused: without the number of a batch nobody could tell a second attempt from other rows."""
        _refuse("a sink of streaming queries alone", "read with readStream and trigger(availableNow=True)")

    def reader(self, schema: StructType) -> NoReturn:
        """Refused: queues are read otherwise."""
        _refuse("a sink alone", "bindery.open(DIR).queue(NAME).spark() reads a queue")


def _refuse(what: str, hint: str) -> NoReturn:
    raise InvalidInput(f"format bindery is {what}", where="format", hint=hint)


@dataclass(frozen=True, slots=True)
class Sink(DataSourceStreamArrowWriter):
    """Writes and commits one micro-batch; `code` is the Bindery of the driver."""

    options: SinkOptions
    fold: MessageFold
    code: str

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Part:
        """Route the rows of one task; files that nothing refers to yet. Raises what keeps the batch from its pin."""
        if fingerprint() != self.code:
            raise OtherCode(
                f"an executor has Bindery {fingerprint()}, the driver has Bindery {self.code}", where="executors"
            )
        context = TaskContext.get()
        query, batch = (None, None) if context is None else map(context.getLocalProperty, (_QUERY, _BATCH))
        if context is None or query is None or batch is None:
            raise Refused("format bindery is for micro-batches of a streaming query", where="trigger")
        if context.partitionId() >= _TASKS:
            raise InvalidInput(f"a batch has {_TASKS:,} tasks at most", where="partitions", hint="coalesce the query")
        options = self.options
        epoch = _epoch(options.data, options.stream, query, options.new_epoch)
        number = epoch.batch_number(int(batch))
        store, routers = _topologies(options.data, options.vhost)
        pin = _pinned(options, epoch, number, store, routers)
        task = RouteTask(
            options.data,
            options.vhost,
            BatchStamp(options.stream, number, pin.topology_version, pin.clock_ms),
            self.fold,
            Held(routers(store.load(version=pin.topology_version))),
            DEFAULT_BUFFER_BYTES,
        )
        result = task.route(iterator, partition=context.partitionId(), attempt=context.taskAttemptId())
        return Part(epoch, number, pin, json.dumps(result))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's
        """Commit the batch; one that was committed before is left alone. Raises what `BatchDriver` does."""
        parts = [message for message in messages if isinstance(message, Part)]
        options, first = self.options, parts[0]
        data, app_id = options.data, first.epoch.app_id
        attempts, store = Attempts(data, app_id), TopologyStore(data)
        source = _plan_of(options.checkpoint, batchId)
        with BatchCommitter(data, stream=options.stream, app_id=app_id, claim=False) as committer:
            _check_order(committer, first, source)
            driver = BatchDriver(committer, store, options.vhost, router=lambda topology: topology)
            begun = driver.begin(first.number, store.load(version=first.pin.topology_version), first.pin.clock_ms)
            if begun.router is not None:
                begun = replace(begun, pin=replace(begun.pin, source=source))
                own = [part.result for part in parts]
                recorded = attempts.first(first.number, own)
                if recorded != own and _is_gone(data, recorded) and driver.is_nowhere(begun, _routed(recorded)):
                    attempts.forget(first.number)
                    recorded = attempts.first(first.number, own)
                driver.commit(begun, _routed(recorded))
        attempts.forget(first.number)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's
        """Nothing: Spark calls it for a commit that has failed, too, and files of that may be in tables.

        What no table refers to is removed by maintenance.
        """


@functools.cache
def _epoch(data: DataDir, stream: str, query: str, new_epoch: bool) -> StreamEpoch:
    """The epoch of a checkpoint, whose id is that of Spark's query; kept by a worker. Raises CheckpointMismatch."""
    try:
        return register(data, stream, query, new_epoch=new_epoch)
    except CheckpointMismatch as error:
        error.hint = 'restore the checkpoint, or set option("newEpoch", "true"): records may then be routed again'
        raise


@functools.cache
def _topologies(data: DataDir, vhost: str) -> tuple[TopologyStore, RouterOf]:
    """The topologies of a data directory, and the newest one that was compiled; kept by a worker."""
    store = TopologyStore(data)
    return store, RouterOf(vhost, store)


def _pinned(options: SinkOptions, epoch: StreamEpoch, number: int, store: TopologyStore, routers: RouterOf) -> Pin:
    """What the batch is routed with, as the first of its tasks to come here has recorded it.

    The topology is compiled before: what is unfit leaves no pin.
    """
    pins = Pins(options.data, stream=options.stream, app_id=epoch.app_id)
    pin = pins.read(number)
    if pin is None:
        newest: Router = routers(store.load())
        pin = pins.write(number, Pin(newest.version, time.time_ns() // 1_000_000))
    return pin


def _is_gone(data: DataDir, results: Sequence[str]) -> bool:
    """Whether a file of an attempt is not there: maintenance takes what waits for a day for left behind."""
    places = [at(data.routed(file.kind, file.vhost, file.name), file.path) for file in _routed(results).files]
    return any(place.stat() is None for place in places)


def _routed(results: Sequence[str]) -> Routed:
    found = [json.loads(result) for result in results]
    counts, timings = RoutedCounts(), dict[str, float]()
    for result in found:
        counts.merge(result["counts"])
        for stage, spent in result["seconds"].items():
            name = TASK_STAGE + stage
            timings[name] = timings.get(name, 0.0) + spent * 1000
    return Routed([WrittenFile(**file) for result in found for file in result["files"]], counts, timings)


def _check_order(committer: BatchCommitter, part: Part, source: str) -> None:
    """Raise CheckpointMismatch for a batch that is not the next one, nor the newest one again."""
    newest = committer.newest_batch()
    if newest is None or newest < part.epoch.first_batch or part.number == newest + 1:
        return
    if part.number == newest:
        rows = read_manifest(committer.data, app_id=committer.app_id, batch_id=newest)
        if all(not source or row["source_digest"] in ("", None, source) for row in rows):
            return
        what = f"batch {newest} is committed, and what the checkpoint gives under this number is something else"
    else:
        what = f"the checkpoint is at batch {part.number}, and the newest one in the tables is {newest}"
    raise CheckpointMismatch(f"stream {committer.stream!r}: {what}", where=committer.app_id, hint=_OTHER_CHECKPOINT)


def _plan_of(checkpoint: str, batch_id: int) -> str:
    """The digest of Spark's plan of a batch; "" where the checkpoint is not stated, or in a place of Spark's alone."""
    folder = checkpoint.removeprefix("file://") if checkpoint.startswith("file:///") else checkpoint
    folder = "s3://" + folder.removeprefix("s3a://") if folder.startswith("s3a://") else folder
    if not folder.startswith(("/", "s3://")):
        return ""
    return Checkpoint(folder).digest(batch_id)
