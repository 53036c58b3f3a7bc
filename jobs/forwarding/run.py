"""Following a queue's table and sending what was appended to it, version by version, file by file.

A position is recorded only when everything before it is acknowledged. Whatever ends this process, the next one
sends again what lies behind the position on record: nothing is lost, and some records may be there twice.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from bindery.jobs.behind import up_to_date
from bindery.jobs.control.forward import Forward
from bindery.jobs.forwarding.kafka import Topic
from bindery.jobs.forwarding.records import COLUMNS, records
from bindery.router.errors import NotFound, Stopped, UnsupportedTable
from bindery.router.message import QUEUE_SCHEMA
from bindery.store import file_rows
from bindery.store.forwarding import Forwarding, Position, QueueLog, has_position
from bindery.store.paths import DataDir
from bindery.store.queue_use import note_use
from bindery.store.topology import TopologyStore

#: Rows and bytes of bodies after which a position is recorded, at a file's end.
_ROWS: Final = 50_000
_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a forwarder has come since it started.

    rows     rows that were acknowledged
    refused  rows that the topic has refused, and that were left out
    behind   versions of the table that are not forwarded whole
    trouble  what keeps it from sending, None for nothing
    """

    rows: int = 0
    refused: int = 0
    behind: int = 0
    trouble: str | None = None


class Forwarder:
    """Forwards one queue, from the position of its name on; `start_over` forgets that position.

    `wanted` has its secrets. Raises InvalidInput for a setting that the client does not take.
    """

    def __init__(self, data: DataDir, wanted: Forward, *, start_over: bool = False) -> None:
        self._data = data
        self._stopping = threading.Event()
        self._wanted = wanted
        self._target = target = wanted.forward
        self._topic = Topic(
            target.bootstrap_servers,
            target.topic,
            target.options,
            stopping=self._stopping.is_set,
            patient=wanted.poll is not None,
            skip_refused=target.skip_refused,
        )
        self._start_over = start_over
        self._store = TopologyStore(data)
        self._rows = self._behind = 0

    def run(self) -> None:
        """Forward what is there, and what comes, as the trigger says, until a stop.

        What waits for a deferred queue at the start is there: its table gets it first.

        Raises NotFound for a queue or topic that is not there (any more), Fenced when another forwarder of the
        name has started, Refused for a position that cannot be gone on with, and what `Topic` raises.
        """
        try:
            self._run()
        except Stopped:
            pass
        finally:
            self._topic.close()

    def _run(self) -> None:
        gone = self._gone()
        if gone is not None and not has_position(self._data, self._wanted.stream):
            raise gone
        self._topic.check()
        up_to_date(
            self._data, self._store, self._wanted.vhost, self._target.queue, follows=self._wanted.poll is not None
        )
        log = QueueLog(self._data, self._wanted.vhost, self._target.queue)
        right = Forwarding(self._data, self._wanted.stream, start_over=self._start_over)
        if right.position is None:
            right.move(log.earliest() if self._target.begin == "earliest" else log.latest())
        while True:
            self._note_use()
            self._pass(log, right)
            if gone is not None:
                raise gone
            if self._wanted.poll is None or self._stopping.wait(self._wanted.poll):
                return
            # before the log: what reached the queue before it was deleted is forwarded yet
            gone = self._gone()
            log.refresh()

    def stop(self) -> None:
        """End soon; from any thread or signal handler."""
        self._stopping.set()

    def progress(self) -> Progress:
        """How far it has come; from any thread."""
        topic = self._topic
        return Progress(self._rows - topic.refused, topic.refused, self._behind, topic.trouble)

    def _pass(self, log: QueueLog, right: Forwarding) -> None:
        """Forward every version that has been seen, or until a stop."""
        assert right.position is not None  # noqa: S101  # moved there before the first pass
        position = right.position
        log.check(position)
        self._behind = log.version + 1 - position.version
        self._topic.idle()
        if position.version > log.version:
            return
        right.check()
        rows = size = passed = 0

        def settle() -> None:
            nonlocal rows, size, passed
            self._topic.settle()
            self._note_use()
            if position != right.position:
                right.move(position, rows=passed)
            self._rows += rows
            self._behind = log.version + 1 - position.version
            rows = size = passed = 0

        while position.version <= log.version and not self._stopping.is_set():
            for file in log.files(position)[position.file :]:
                for batch in self._batches(log, position, file):
                    size += self._topic.send(records(batch, key=self._target.key))
                    rows += batch.num_rows
                    if self._stopping.is_set():
                        settle()
                        return
                position = replace(position, file=position.file + 1)
                passed = rows
                if rows >= _ROWS or size >= _BYTES:
                    settle()
            position = Position(position.table_id, position.version + 1)
        settle()

    def _note_use(self) -> None:
        note_use(self._data, self._wanted.vhost, self._target.queue)

    def _batches(self, log: QueueLog, position: Position, file: str) -> Iterator[pa.RecordBatch]:
        try:
            yield from file_rows.batches(log.path, file, QUEUE_SCHEMA, columns=COLUMNS)
        except UnsupportedTable as error:
            raise log.behind(position, error.message) from error

    def _gone(self) -> NotFound | None:
        """The error of a queue that is not declared (any more)."""
        try:
            self._store.load().queue(self._wanted.vhost, self._target.queue)
        except NotFound as error:
            error.hint = "what it had received is forwarded; declared again, it goes on from there"
            return error
        return None
