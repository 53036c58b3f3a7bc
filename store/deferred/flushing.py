"""Copies moved from the journal of a stream into the tables of their queues, each exactly once.

The tail of the journal is read once, in pieces of whole batches that fit into memory, and each piece is written for all
queues: one file and one commit per queue that has copies in it. The commit records the last batch of the piece as the
transaction `flush_id(stream)`, and takes place only while the table still says what was read when the rows were chosen:
how far it has come, and at which version its queue was undeclared. So a second flusher, a driver that was killed at any
step and a queue that is deleted or declared again meanwhile change nothing: whoever comes asks the table.

When every queue has a piece, the journal records it as MATERIALISED: nothing that waits is older. That is for those who
look and for maintenance, never for the decision what to move.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.errors import BinderyError
from bindery.router.message import JOURNAL_SCHEMA
from bindery.router.model import Queue
from bindery.store import effects, faults, file_rows, tables
from bindery.store.actions import AddFile, Transaction
from bindery.store.data_files import Draft, add_file, drop_unused
from bindery.store.deferred.waiting import Marks, Places, flush_id, flushed_through, waiting_rows
from bindery.store.gathers import Gathers
from bindery.store.journal_files import (
    MATERIALISED,
    NEVER,
    Journal,
    JournalFile,
    journals,
    materialised_through,
    without_queues,
)
from bindery.store.log import TableLog
from bindery.store.paths import DataDir
from bindery.store.places import at
from bindery.store.statistics import statistics_of
from bindery.store.topology import TopologyStore
from bindery.store.writer import stream_mark

#: Bytes of a journal's files that are in memory at once; their rows take a few times as much.
PIECE_BYTES: Final = 64 << 20
#: Queues whose files are written, made durable and committed together.
_TOGETHER: Final = 32
#: Commits that are under way at once.
_WORKERS: Final = 4
#: What decides whether a copy still waits: how far the table has come, and since when its queue was undeclared.
_Guard = tuple[int, int]


@dataclass
class Flushed:
    """What a flush did.

    queues   the names of those whose tables got rows, once for each commit
    copies   these rows; `bytes` of files
    through  the batch of the stream up to which every queue that took part has its copies, but for those that failed
    failed   id of a queue whose table could not be written -> why
    """

    stream: str
    vhost: str
    queues: list[str] = field(default_factory=list)
    copies: int = 0
    bytes: int = 0
    through: int = NEVER
    failed: dict[int, str] = field(default_factory=dict)


def materialise(
    data: DataDir,
    topologies: TopologyStore,
    journal: Journal,
    *,
    only: Set[int] | None = None,
    after: int = NEVER,
    piece_bytes: int = PIECE_BYTES,
    between: Callable[[float], bool] = lambda _: True,
) -> Flushed:
    """Move what waits in a journal, of batches above `after`, to the tables of the queues, or only of those ids.

    `between` is called after each group of queues with the part of the work that is done; it may take its time, and
    gives False to stop there. A queue whose table cannot be written is told of and harms no other.
    Raises UnsupportedTable for a journal that cannot be read, and StorageFailed.
    """
    done = Flushed(journal.stream, journal.vhost, through=max(after, materialised_through(journal.log)))
    pieces = list(_pieces(journal.waiting(after), piece_bytes))
    for number, files in enumerate(pieces):
        piece = _Piece.read(journal, files)
        queues = {one.id: one for one in topologies.load().queues.values() if one.vhost == journal.vhost}
        if only is not None:
            queues = {queue_id: queue for queue_id, queue in queues.items() if queue_id in only}
        parts = (number / len(pieces), (number + 1) / len(pieces))
        if not _flush(data, piece, queues, done, between, parts):
            return done
        done.through = max(done.through, piece.through)
    return done


def materialise_queue(data: DataDir, topologies: TopologyStore, vhost: str, name: str) -> int:
    """Give a queue's table every copy that waits for it now; how many that were. None does for one not declared.

    Raises what reading the journals and committing to the table raise: then it has those of some journals, or all.
    """
    waiting = [one for one in journals(data, vhost) if one.waiting()]
    if not waiting:
        return 0
    queue = topologies.load().queues.get((vhost, name))
    return 0 if queue is None else sum(_catch_up(data, journal, queue) for journal in waiting)


def record_materialised(journal: Journal, through: int) -> None:
    """Have the journal state that nothing waits of batches up to one; what it states never goes back."""
    log = journal.log
    for _ in tables.attempts(log.path):
        log.refresh()
        if materialised_through(log) >= through:
            return
        info = {"operation": "MATERIALISE", "operationParameters": {}, "bindery.batch": through}
        if log.commit((), transactions=[Transaction(MATERIALISED, through)], info=info) is not None:
            return


# -- one queue ------------------------------------------------------------------------------------------


def _catch_up(data: DataDir, journal: Journal, queue: Queue) -> int:
    """Move all that waits in a journal for one queue."""
    path = data.queue(queue.vhost, queue.name)
    while True:
        log = tables.open_log(path, tables.QUEUE, vhost=queue.vhost, name=queue.name)
        guard = _guard(log, journal.stream)
        batches = list(waiting_rows(journal, log, queue.id))
        if not batches:
            return 0
        rows = pa.Table.from_batches(batches)
        routing = rows["routing"].combine_chunks()
        order = np.lexsort([pc.struct_field(routing, name).to_numpy() for name in ("seq", "batch_id")])
        rows = rows.take(pa.array(order))
        empty = [name for name in rows.column_names if rows[name].null_count == rows.num_rows]
        rows = rows.drop_columns(empty)
        through = pc.max(pc.struct_field(routing, "batch_id")).as_py()
        with Draft(log) as draft:
            draft.write(rows)
            if _commit(draft, log, guard, journal.stream, through):
                return int(rows.num_rows)


# -- many queues ----------------------------------------------------------------------------------------


def _pieces(files: Sequence[JournalFile], most: int) -> Iterator[list[JournalFile]]:
    """Files with every row of some consecutive batches, about `most` bytes at a time."""
    piece: list[JournalFile] = []
    last = NEVER
    for file in files:
        if piece and file.first > last and sum(one.size for one in piece) + file.size > most:
            yield piece
            piece = []
        piece.append(file)
        last = max(last, file.last)
    if piece:
        yield piece


@dataclass(frozen=True)
class _Piece:
    """Messages of a stretch of a journal that have copies which wait, in the order of their numbers.

    marks   of which queues, the places in ascending order for each
    order   places in `marks.ids` so that those of one queue stand together
    ids     the queues there are, ascending; `ends` says where each one's places end
    through the last of its batches
    """

    rows: Mapping[str, pa.Array]
    marks: Marks
    order: Places
    ids: Places
    ends: Places
    through: int

    @classmethod
    def read(cls, journal: Journal, files: Sequence[JournalFile]) -> _Piece:
        """What the files hold."""
        names = [name for name in JOURNAL_SCHEMA.names if name not in ("reason", "disposition", "detail", "bcc")]
        kept = []
        through = NEVER
        for file in files:
            for batch in file_rows.batches(journal.log.path, file.path, JOURNAL_SCHEMA, columns=names):
                if batch.num_rows:
                    routing = batch.column("routing")
                    through = max(through, pc.max(pc.struct_field(routing, "batch_id")).as_py())
                    kept.append(batch.filter(pc.struct_field(routing, "deferred").is_valid()))
        schema = pa.schema([JOURNAL_SCHEMA.field(name) for name in names])
        rows = pa.Table.from_batches(kept, schema=schema).combine_chunks()
        order = _by_number(rows)
        if order is not None:
            rows = rows.take(order)
        columns = {name: rows[name].combine_chunks() for name in names}
        marks = Marks.of_rows(columns["routing"])
        together = np.argsort(marks.ids, kind="stable")
        ids, counts = np.unique(marks.ids, return_counts=True)
        return cls(columns, marks, together, ids, np.cumsum(counts), through)

    def of(self, number: int, guard: _Guard) -> Places:
        """The places of the messages with a copy for the queue of that place in `ids`."""
        begin = self.ends[number - 1] if number else 0
        places = self.marks.places[self.order[begin : self.ends[number]]]
        return self.marks.kept(places, after=guard[0], undeclared=guard[1])


@dataclass(frozen=True, slots=True)
class _Written:
    """A file that a queue's table is to get, if the table still says what it said when the rows were chosen."""

    log: TableLog
    guard: _Guard
    added: AddFile


class _Writer:
    """Writes the rows of a piece for queues; what is the same for every copy is done once."""

    def __init__(self, piece: _Piece, stream: str) -> None:
        self._stream = stream
        self._piece = piece
        gathers = Gathers()
        columns = {**piece.rows, "routing": without_queues(piece.rows["routing"])}
        found = {name: gathers.gather(array, name) for name, array in columns.items()}
        self._gathers = {name: gather for name, gather in found.items() if gather is not None}
        self._dictionaries = gathers.dictionaries

    def write(self, files: effects.ParquetFiles, log: TableLog, guard: _Guard, places: Places) -> _Written:
        """Write the file of one queue; durable once `files` are."""
        rows = pa.array(places.astype(np.int32))
        table = pa.table({name: gather(rows) for name, gather in self._gathers.items()})
        name = f"flush-{stream_mark(self._stream)}-{self._piece.through}-{secrets.token_hex(8)}.parquet"
        size = files.write(
            at(log.path, name),
            table,
            compression="snappy",
            use_dictionary=self._dictionaries,
            column_encoding={
                "routing.seq": "DELTA_BINARY_PACKED",
                "routing.bindings.list.element": "DELTA_BINARY_PACKED",
            },
            store_schema=False,
        )
        return _Written(log, guard, add_file(name, size, table.num_rows, statistics_of(table)))


def _flush(
    data: DataDir,
    piece: _Piece,
    queues: Mapping[int, Queue],
    done: Flushed,
    between: Callable[[float], bool],
    parts: tuple[float, float],
) -> bool:
    """Give each of the queues what a piece has for it; False when `between` has stopped it."""
    numbers = [number for number, queue_id in enumerate(piece.ids.tolist()) if queue_id in queues]
    writer = _Writer(piece, done.stream)
    with ThreadPoolExecutor(_WORKERS, "flush") as pool:
        for begin in range(0, len(numbers), _TOGETHER):
            group = numbers[begin : begin + _TOGETHER]
            _flush_group(
                data, piece, [(number, queues[int(piece.ids[number])]) for number in group], writer, done, pool
            )
            part = min(1.0, (begin + _TOGETHER) / len(numbers))
            if not between(parts[0] + (parts[1] - parts[0]) * part):
                return False
    return True


def _flush_group(
    data: DataDir,
    piece: _Piece,
    group: Sequence[tuple[int, Queue]],
    writer: _Writer,
    done: Flushed,
    pool: ThreadPoolExecutor,
) -> None:
    """Write the files of some queues, make them durable, and commit each; where a table was faster, once more."""
    stream = done.stream
    files = effects.ParquetFiles()
    written: list[tuple[Queue, _Written]] = []
    again = list(group)
    while again:
        for number, queue in again:
            try:
                log = tables.open_log(
                    data.queue(queue.vhost, queue.name), tables.QUEUE, vhost=queue.vhost, name=queue.name
                )
                guard = _guard(log, stream)
                places = piece.of(number, guard)
                if len(places):
                    written.append((queue, writer.write(files, log, guard, places)))
            except BinderyError as error:
                done.failed[queue.id] = f"{queue.name}: {error.message}"
        try:
            files.finish()
        except BaseException:
            for _, one in written:
                drop_unused(one.log.path, [one.added.path])
            raise
        outcomes = list(pool.map(lambda one: _outcome(one[1], stream, piece.through), written))
        beaten = set()
        for (queue, one), outcome in zip(written, outcomes, strict=True):
            if outcome is None:
                done.queues.append(queue.name)
                done.copies += one.added.rows or 0
                done.bytes += one.added.size
            elif outcome:
                done.failed[queue.id] = f"{queue.name}: {outcome}"
            else:
                beaten.add(queue.id)
        again = [(number, queue) for number, queue in again if queue.id in beaten]
        written = []


def _outcome(written: _Written, stream: str, through: int) -> str | None:
    """None for a file that was committed, "" where the table has changed, else why it could not be committed."""
    try:
        with Draft(written.log) as draft:
            draft.take(written.added)
            return None if _commit(draft, written.log, written.guard, stream, through) else ""
    except BinderyError as error:
        return error.message


def _commit(draft: Draft, log: TableLog, guard: _Guard, stream: str, through: int) -> bool:
    """Commit what was written to its table; False when that says something else than when the rows were chosen.

    Raises StorageFailed, CommitUnknown (the file stays: it may count), and CommitConflict when every attempt lost.
    """
    for _ in tables.attempts(log.path):
        log.refresh()
        if _guard(log, stream) != guard:
            return False
        faults.reach("flush.appending", log.path)
        version = draft.commit(
            transactions=[Transaction(flush_id(stream), through)],
            info={
                "isBlindAppend": True,
                "bindery.stream": stream,
                "bindery.batch": through,
                "bindery.change": "flush",
            },
        )
        if version is not None:
            faults.reach("flush.appended", log.path)
            return True
    raise AssertionError("attempts() ends by raising")


def _guard(log: TableLog, stream: str) -> _Guard:
    return flushed_through(log, stream), tables.undeclared_since(log)


def _by_number(rows: pa.Table) -> pa.Array | None:
    """The order of the messages' numbers; None when they have it."""
    if not rows.num_rows:
        return None
    routing = rows["routing"].combine_chunks()
    batch, seq = (pc.struct_field(routing, name).to_numpy() for name in ("batch_id", "seq"))
    later = (batch[1:] > batch[:-1]) | ((batch[1:] == batch[:-1]) & (seq[1:] > seq[:-1]))
    return None if later.all() else pa.array(np.lexsort([seq, batch]))
