"""Publishing over HTTP: messages that wait at the same time are routed and committed as one batch.

One thread per process drives the same engine and commit protocol as a streaming job, under an app id that
no other process can have, and numbers its batches in an epoch of its own. A request is answered when its
batch is durable.

A batch that failed is known not to be in any table, or it is completed before anything else is published:
at once, else whenever something is to be published and from time to time. Only a batch that can never be
completed is given up, with an error in the log.
"""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from bindery.router.engine import Router
from bindery.router.errors import BinderyError, CommitUnknown, Refused, StorageFailed
from bindery.router.message import SENT_SCHEMA, SOURCE, Message, to_batch
from bindery.router.model import Topology
from bindery.store.batches import BatchDriver, Begun, Routed, RouterOf, write_copies
from bindery.store.commit import BatchCommitter, TableCommit
from bindery.store.grouping import Worker
from bindery.store.paths import DataDir
from bindery.store.streams import EPOCH_BATCHES, next_epoch
from bindery.store.topology import TopologyStore
from bindery.store.writer import BATCH_SCHEMA, SEQ, drop_written

_LOGGER: Final = logging.getLogger("bindery.api")
STREAM: Final = "api"
#: Messages, and bytes of bodies, that share one batch at most.
MAX_MESSAGES: Final = 1_024
MAX_BYTES: Final = 32 * 2**20
#: Seconds between attempts to complete a batch while nothing is published.
RETRY: Final = 1.0
#: Seconds for which it is tried: files that wait for longer than a day are taken for left behind.
_PATIENCE: Final = 12 * 3600.0


@dataclass(slots=True)
class _Request:
    vhost: str
    message: Message
    future: Future[tuple[str, ...]] = field(default_factory=Future)


@dataclass(frozen=True, slots=True)
class _Batch:
    """A batch whose files are written, and who commits it; `since` is when it was tried first."""

    vhost: str
    driver: BatchDriver[Router]
    begun: Begun[Router]
    routed: Routed
    since: float = field(default_factory=time.monotonic)


class Publisher(Worker[_Request]):
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
        self._drivers: dict[str, BatchDriver[Router]] = {}
        self._numbers = iter(range(0))
        self._unfinished: _Batch | None = None
        super().__init__("publish", closed="publishing has ended")

    @cached_property
    def _committer(self) -> BatchCommitter:
        return BatchCommitter(self._data, stream=STREAM, app_id=self._app_id, workers=4, claim=False)

    def publish(self, vhost: str, message: Message) -> Future[tuple[str, ...]]:
        """Queue a message; the future gives the queues that hold a copy once they durably do.

        It raises CommitUnknown for a message that some queues may hold already: the others get theirs when
        the storage answers. After every other error nobody holds it.
        """
        request = _Request(vhost, message)
        self._submit(request)
        return request.future

    def close(self) -> None:
        """Publish what is queued, then stop."""
        super().close()
        if "_committer" in self.__dict__:
            self._committer.close()

    def _run(self) -> None:
        following = self._next()
        while following is not None:
            group, left = self._gather(following)
            for vhost in dict.fromkeys(request.vhost for request in group):
                self._publish(vhost, [request for request in group if request.vhost == vhost])
            following = left[0] if left else self._next()
        self._try_to_complete()
        if self._unfinished is not None:
            self._give_up(self._unfinished, "the service has stopped")

    def _next(self) -> _Request | None:
        """The next request, None at the end; meanwhile a batch that is not finished is tried again."""
        while self._unfinished is not None:
            try:
                return self._requests.get(timeout=RETRY)
            except queue.Empty:
                self._try_to_complete()
        return self._requests.get()

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
            self._complete_earlier()
            reached = self._commit(vhost, [request.message for request in waiting])
        except BaseException as error:  # the threads that wait get whatever ended the batch
            for request in waiting:
                request.future.set_exception(error)
            return
        for request, queues in zip(waiting, reached, strict=True):
            request.future.set_result(queues)

    def _commit(self, vhost: str, messages: Sequence[Message]) -> list[tuple[str, ...]]:
        topology = self._topology()
        topology.vhost(vhost)  # one that is gone takes no number
        number = self._next_number()
        driver = self._driver(vhost)
        begun = driver.begin(number, topology, time.time_ns() // 1_000_000)
        router = begun.router
        assert router is not None  # noqa: S101  # nobody has committed a number that was never taken
        batch = numbered(to_batch(messages))
        deliveries = router.route(batch, clock_ms=begun.pin.clock_ms)
        attempt = self._app_id.rpartition(":")[2][:8]
        self._finish(_Batch(vhost, driver, begun, write_copies(self._data, begun, batch, deliveries, attempt=attempt)))
        reached: list[list[str]] = [[] for _ in messages]
        for queue_number in deliveries.queue.tolist():
            for row in deliveries.rows_of(queue_number).tolist():
                reached[row].append(router.queues[queue_number])
        return [tuple(dict.fromkeys(queues)) for queues in reached]  # one that got several forms is named once

    # -- batches that fail --------------------------------------------------------------------------

    def _finish(self, batch: _Batch) -> None:
        """Commit a batch; after an error it is in every table, in none, or unfinished (CommitUnknown)."""
        try:
            batch.driver.commit(batch.begun, batch.routed)
        except Exception as error:
            if batch.driver.is_nowhere(batch.begun, batch.routed):
                drop_written(self._data, batch.routed.files)
                if isinstance(error, CommitUnknown):
                    raise StorageFailed(f"nothing was published: {error.message}", where=error.where) from error
                raise
            self._unfinished = batch
            try:
                self._complete()  # often only an answer was lost
            except Exception as again:
                raise CommitUnknown(
                    f"the message is in some of its queues and not yet in others: {_said(again)}",
                    hint="those get it before anything else is published; published again it arrives twice",
                ) from again

    def _complete(self) -> None:
        """Finish the batch that is not finished, under its number and with its files; given up if refused for good."""
        batch = self._unfinished
        if batch is None:
            return
        try:
            batch.driver.resume(batch.begun, batch.routed)
        except Exception as error:
            if isinstance(error, Refused) or time.monotonic() - batch.since > _PATIENCE:
                self._unfinished = None
                self._give_up(batch, _said(error))
            raise
        self._unfinished = None

    def _complete_earlier(self) -> None:
        """Finish an earlier batch; raises StorageFailed when that has to be waited for."""
        try:
            self._complete()
        except Exception as error:
            if self._unfinished is not None:
                raise StorageFailed(
                    f"an earlier batch has to be completed first: {_said(error)}",
                    hint="nothing was published; try again",
                ) from error

    def _try_to_complete(self) -> None:
        try:
            self._complete()
        except Exception as error:  # it stays unfinished, or was given up with a word
            _LOGGER.debug("not completed: %s", _said(error))

    def _give_up(self, batch: _Batch, reason: str) -> None:
        queues = ", ".join(sorted({file.name for file in batch.routed.files if file.kind == "queue"}))
        _LOGGER.error(
            "batch %d, published in vhost %r to the queues %s, is in some of them and not in others: %s",
            batch.begun.number,
            batch.vhost,
            queues,
            reason,
        )

    # -- routing ------------------------------------------------------------------------------------

    def _next_number(self) -> int:
        """The number of the next batch; no other batch of the stream ever has it."""
        number = next(self._numbers, None)
        if number is None:
            first = next_epoch(self._data, STREAM)
            self._numbers = iter(range(first, first + EPOCH_BATCHES))
            number = next(self._numbers)
        return number

    def _driver(self, vhost: str) -> BatchDriver[Router]:
        """Who drives the batches of a vhost, all of them numbered in one row."""
        driver = self._drivers.get(vhost)
        if driver is None:
            topologies = TopologyStore(self._data)
            router = RouterOf(vhost, topologies)
            driver = BatchDriver(self._committer, topologies, vhost, router=router, committed=self._committed)
            self._drivers[vhost] = driver
        return driver


def _said(error: Exception) -> str:
    return error.message if isinstance(error, BinderyError) else f"{type(error).__name__}: {error}"


def numbered(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch of messages with the columns that routed batches carry: no source, and its own numbers."""
    source = pa.nulls(batch.num_rows, SOURCE)
    numbers = pa.array(np.arange(batch.num_rows, dtype=np.int64))
    columns = {name: batch.column(name) for name in SENT_SCHEMA.names}
    return pa.RecordBatch.from_arrays(
        [{**columns, "source": source, SEQ: numbers}[name] for name in BATCH_SCHEMA.names], schema=BATCH_SCHEMA
    )
