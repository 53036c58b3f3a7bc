"""Copies moved from the journal of a stream into the tables of their queues, each exactly once.

The tail of the journal is read once (`bindery.store.deferred.tail`) and written for all queues: one commit per queue
that has copies in it, of one file unless they are very many. The commit records the last batch of the tail as the
transaction `flush_id(stream)`, and takes place only while the table still says what was read when the rows were chosen:
how far it has come, and at which version its queue was undeclared. So a second flusher, a driver that was killed at any
step and a queue that is deleted or declared again meanwhile change nothing: whoever comes asks the table.

When every queue has what waited, the journal records it as MATERIALISED: nothing that waits is older. That is for those
who look and for maintenance, never for the decision what to move.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.errors import BinderyError
from bindery.router.model import Queue
from bindery.store import effects, faults, tables
from bindery.store.actions import AddFile, Transaction
from bindery.store.data_files import Draft, add_file, drop_unused
from bindery.store.deferred.tail import BOUNDS, Bounds, Tail, stretches
from bindery.store.deferred.waiting import flush_id, flushed_through, waiting_rows
from bindery.store.journal_files import MATERIALISED, NEVER, Journal, journals, materialised_through
from bindery.store.log import TableLog
from bindery.store.paths import DataDir
from bindery.store.places import at
from bindery.store.statistics import statistics_of
from bindery.store.topology import TopologyStore
from bindery.store.writer import stream_mark

#: Queues whose files are written, made durable and committed together.
_TOGETHER: Final = 32
#: Commits that are under way at once.
_WORKERS: Final = 4
_DELTA_ENCODED: Final = {
    "routing.seq": "DELTA_BINARY_PACKED",
    "routing.bindings.list.element": "DELTA_BINARY_PACKED",
}
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
    bounds: Bounds = BOUNDS,
    between: Callable[[float], bool] = lambda _: True,
) -> Flushed:
    """Move what waits in a journal, of batches above `after`, to the tables of the queues, or only of those ids.

    `between` is called after each group of queues with the part of the work that is done; it may take its time, and
    gives False to stop there. A queue whose table cannot be written is told of and harms no other.
    Raises UnsupportedTable for a journal that cannot be read, and StorageFailed.
    """
    done = Flushed(journal.stream, journal.vhost, through=max(after, materialised_through(journal.log)))
    waiting = list(stretches(journal.waiting(after), bounds.stretch))
    for number, files in enumerate(waiting):
        with Tail(journal, files, only, bounds) as tail:
            queues = {one.id: one for one in topologies.load().queues.values() if one.vhost == journal.vhost}
            parts = (number / len(waiting), (number + 1) / len(waiting))
            if not _flush(data, tail, queues, done, between, parts):
                return done
            done.through = max(done.through, tail.through)
    return done


def materialise_queue(data: DataDir, topologies: TopologyStore, vhost: str, name: str) -> int:
    """Give a queue's table every copy that waits for it now; how many that were. None does for one not declared.

    Raises what reading the journals and committing to the table raise: then it has those of some journals, or all.
    """
    waiting = [one for one in journals(data, vhost) if one.waiting()]
    if not waiting:
        return 0
    queue = topologies.queue_of(vhost, name)
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


@dataclass(frozen=True, slots=True)
class _Written:
    """Files that a queue's table is to get, if the table still says what it said when the rows were chosen."""

    queue: Queue
    log: TableLog
    guard: _Guard
    added: Sequence[AddFile]


def _flush(
    data: DataDir,
    tail: Tail,
    queues: Mapping[int, Queue],
    done: Flushed,
    between: Callable[[float], bool],
    parts: tuple[float, float],
) -> bool:
    """Give each of the queues what a stretch has for it; False when `between` has stopped it."""
    # a table that could not be written lacks what an earlier stretch had for it: it gets nothing that is later
    ids = [queue_id for queue_id in tail.ids if queue_id in queues and queue_id not in done.failed]
    with ThreadPoolExecutor(_WORKERS, "flush") as pool:
        for begin in range(0, len(ids), _TOGETHER):
            group = [queues[queue_id] for queue_id in ids[begin : begin + _TOGETHER]]
            while group:
                group = _flush_group(data, tail, group, done, pool)
            part = min(1.0, (begin + _TOGETHER) / len(ids))
            if not between(parts[0] + (parts[1] - parts[0]) * part):
                return False
    return True


def _flush_group(
    data: DataDir, tail: Tail, group: Sequence[Queue], done: Flushed, pool: ThreadPoolExecutor
) -> list[Queue]:
    """Write the files of some queues, make them durable, and commit each; those whose tables have changed meanwhile."""
    files = effects.ParquetFiles()
    written: list[_Written] = []
    try:
        for queue in group:
            try:
                found = _write(data, tail, queue, done.stream, files)
            except BinderyError as error:
                done.failed[queue.id] = f"{queue.name}: {error.message}"
            else:
                if found.added:
                    written.append(found)
        files.finish()
    except BaseException:
        files.discard()
        for one in written:
            drop_unused(one.log.path, [added.path for added in one.added])
        raise
    beaten = []
    for one, outcome in zip(
        written, pool.map(lambda one: _outcome(one, done.stream, tail.through), written), strict=True
    ):
        if outcome is None:
            done.queues.append(one.queue.name)
            done.copies += sum(added.rows or 0 for added in one.added)
            done.bytes += sum(added.size for added in one.added)
        elif outcome:
            done.failed[one.queue.id] = f"{one.queue.name}: {outcome}"
        else:
            beaten.append(one.queue)
    return beaten


def _write(data: DataDir, tail: Tail, queue: Queue, stream: str, files: effects.ParquetFiles) -> _Written:
    """Write the files of one queue; durable once `files` are. Raises UnsupportedTable and StorageFailed."""
    log = tables.open_log(data.queue(queue.vhost, queue.name), tables.QUEUE, vhost=queue.vhost, name=queue.name)
    guard = _guard(log, stream)
    added: list[AddFile] = []
    try:
        for rows, dictionaries in tail.rows(queue.id, after=guard[0], undeclared=guard[1]):
            name = f"flush-{stream_mark(stream)}-{tail.through}-{secrets.token_hex(8)}.parquet"
            size = files.write(
                at(log.path, name),
                rows,
                compression="snappy",
                use_dictionary=dictionaries,
                column_encoding=_DELTA_ENCODED,
                store_schema=False,
            )
            added.append(add_file(name, size, rows.num_rows, statistics_of(rows)))
    except BaseException:
        files.forget(at(log.path, one.path) for one in added)
        drop_unused(log.path, [one.path for one in added])
        raise
    return _Written(queue, log, guard, added)


def _outcome(written: _Written, stream: str, through: int) -> str | None:
    """None for files that were committed, "" where the table has changed, else why they could not be committed."""
    try:
        with Draft(written.log) as draft:
            for added in written.added:
                draft.take(added)
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
