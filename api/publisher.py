"""Publishing over HTTP: messages that wait at the same time are routed and committed as one batch.

One thread per process drives the same engine and commit protocol as a streaming job, under an app id that
no other process can have, and numbers its batches in an epoch of its own. A request is answered when its
batch is durable.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from router.engine import REASONS, Deliveries, Router
from router.errors import BinderyError
from router.message import MESSAGE_SCHEMA, SOURCE, Message, to_batch
from router.model import Topology
from store.commit import BatchCommitter, BatchCounts, TableCommit
from store.paths import DataDir
from store.streams import EPOCH_BATCHES, next_epoch
from store.writer import BATCH_SCHEMA, SEQ, BatchStamp, QueueWriter

STREAM: Final = "api"
#: Messages, and bytes of bodies, that share one batch at most.
MAX_MESSAGES: Final = 1_024
MAX_BYTES: Final = 32 * 2**20


@dataclass(slots=True)
class _Request:
    vhost: str
    message: Message
    future: Future[tuple[str, ...]] = field(default_factory=Future)


class Publisher:
    """Publishes messages in the order of their arrival; safe between threads.

    `committed` is called with what each batch committed, on the publisher's thread.
    """

    def __init__(
        self,
        data: DataDir,
        topology: Callable[[], Topology],
        *,
        app_id: str,
        committed: Callable[[Sequence[TableCommit]], None] = lambda _: None,
    ) -> None:
        self._data = data
        self._committed = committed
        self._topology = topology
        self._app_id = app_id
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._routers: dict[str, Router] = {}
        self._numbers = iter(range(0))
        self._gate = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="publish", daemon=True)
        self._thread.start()

    @cached_property
    def _committer(self) -> BatchCommitter:
        return BatchCommitter(self._data, stream=STREAM, app_id=self._app_id, workers=4, claim=False)

    def publish(self, vhost: str, message: Message) -> Future[tuple[str, ...]]:
        """Queue a message; the future gives the queues that hold a copy once they durably do."""
        request = _Request(vhost, message)
        with self._gate:
            if self._closed:
                raise BinderyError("publishing has ended", hint="the service is stopping")
            self._requests.put(request)
        return request.future

    def close(self) -> None:
        """Publish what is queued, then stop."""
        with self._gate:
            if not self._closed:
                self._closed = True
                self._requests.put(None)
        self._thread.join()
        if "_committer" in self.__dict__:
            self._committer.close()

    def _run(self) -> None:
        following = self._requests.get()
        while following is not None:
            group, left = self._gather(following)
            for vhost in dict.fromkeys(request.vhost for request in group):
                self._publish(vhost, [request for request in group if request.vhost == vhost])
            following = left[0] if left else self._requests.get()

    def _gather(self, first: _Request) -> tuple[list[_Request], list[_Request | None]]:
        """The requests that are waiting, up to the bounds of a batch, and what was taken but is no part of it."""
        group, size = [first], len(first.message.body or b"")
        while len(group) < MAX_MESSAGES:
            try:
                request = self._requests.get_nowait()
            except queue.Empty:
                break
            size += 0 if request is None else len(request.message.body or b"")
            if request is None or size > MAX_BYTES:
                return group, [request]
            group.append(request)
        return group, []

    def _publish(self, vhost: str, group: list[_Request]) -> None:
        waiting = [request for request in group if request.future.set_running_or_notify_cancel()]
        if not waiting:
            return
        try:
            reached = self._commit(vhost, [request.message for request in waiting])
        except BaseException as error:  # the threads that wait get whatever ended the batch
            for request in waiting:
                request.future.set_exception(error)
            return
        for request, queues in zip(waiting, reached, strict=True):
            request.future.set_result(queues)

    def _commit(self, vhost: str, messages: Sequence[Message]) -> list[tuple[str, ...]]:
        router = self._router(vhost)
        number = self._next_number()
        clock_ms = time.time_ns() // 1_000_000
        pin = self._committer.pin(number, router.version, clock_ms)
        batch = numbered(to_batch(messages))
        deliveries = router.route(batch, clock_ms=clock_ms)
        stamp = BatchStamp(STREAM, number, router.version, clock_ms)
        writer = QueueWriter(
            self._data, vhost=vhost, queues=router.queues, stamp=stamp, attempt=self._app_id.rpartition(":")[2][:8]
        )
        writer.add(batch, deliveries)
        done = self._committer.commit(number, pin, writer.close(), _counts(vhost, messages, deliveries))
        self._committed(done.tables)
        reached: list[list[str]] = [[] for _ in messages]
        for queue_number in deliveries.queue.tolist():
            for row in deliveries.rows_of(queue_number).tolist():
                reached[row].append(router.queues[queue_number])
        return [tuple(queues) for queues in reached]

    def _next_number(self) -> int:
        """The number of the next batch; no other batch of the stream ever has it."""
        number = next(self._numbers, None)
        if number is None:
            first = next_epoch(self._data, STREAM)
            self._numbers = iter(range(first, first + EPOCH_BATCHES))
            number = next(self._numbers)
        return number

    def _router(self, vhost: str) -> Router:
        topology = self._topology()
        router = self._routers.get(vhost)
        if router is None or router.version != topology.version:
            router = self._routers[vhost] = Router.compile(topology, vhost)
        return router


def numbered(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch of messages with the columns that routed batches carry: no source, and its own numbers."""
    source = pa.nulls(batch.num_rows, SOURCE)
    numbers = pa.array(np.arange(batch.num_rows, dtype=np.int64))
    columns = {name: batch.column(name) for name in MESSAGE_SCHEMA.names}
    return pa.RecordBatch.from_arrays(
        [{**columns, "source": source, SEQ: numbers}[name] for name in BATCH_SCHEMA.names], schema=BATCH_SCHEMA
    )


def _counts(vhost: str, messages: Sequence[Message], deliveries: Deliveries) -> BatchCounts:
    counts = deliveries.counts
    reasons = {REASONS[number]: hits for number, hits in enumerate(counts.reasons.tolist()) if hits}
    return BatchCounts(
        records=len(messages),
        copies=len(deliveries.rows),
        exchanges=Counter((vhost, message.exchange) for message in messages),
        bindings=dict(zip(counts.ids.tolist(), counts.hits.tolist(), strict=True)),
        unroutable=reasons,
    )
