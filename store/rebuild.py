"""Rebuild: the table of a queue that is lost or damaged is made again from journals.

**A lost table** (its folder or its log is gone or cannot be read) is made anew in one step: the first entry of its log
has the rows and, as transaction identifiers, how far every stream had come by the manifest, which is read before the
journals are. So a batch that has ended is in the table, or was never for it; one that is replayed is skipped; one that
is under way is appended by its own driver, which finds the identifier of the batch before. A batch whose driver had
appended to the lost table and ended after that look is in neither: batches that were under way are watched until they
have ended, and what the table lacks of them is appended. What is left of the old folder is kept in `DIR/lost`.

**Lost files** of a table whose log is whole are replaced in one commit by what journals have between their bounds and
no other file of the table has.

Journals say what was delivered, not what was taken since: rows that consumers had taken come again. What came without
a journal (by REST, redrives, moves, copies, streams without one) and what a journal no longer has cannot be made again:
the manifest says how much it was.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.errors import Refused, UnsupportedTable
from bindery.router.model import Queue
from bindery.router.moments import iso
from bindery.store import data_files, effects, faults, file_rows, tables
from bindery.store.actions import AddFile, RemoveFile, Transaction
from bindery.store.backfill_records import BACKFILLED
from bindery.store.deferred.waiting import flush_id, flushed_through, flushes
from bindery.store.delivered import Mask
from bindery.store.given_rows import Given, by_stream
from bindery.store.journal_files import journals
from bindery.store.log import TableLog
from bindery.store.manifest import MANIFEST, read_manifest
from bindery.store.past import transactions_of
from bindery.store.paths import DataDir, encode_name
from bindery.store.places import at
from bindery.store.statistics import batches_stated, stated, stated_span
from bindery.store.topology import TopologyStore
from bindery.store.transfers import queue_log

LOST: Final = "lost"
#: Seconds from one look at a batch that is under way to the next.
_PAUSE: Final = 0.2
_ALWAYS: Final = (-(1 << 63), (1 << 63) - 1)

#: Stream, batch and number of a message.
Identity = tuple[str, int, int]


class _Bounds(NamedTuple):
    """Between which batches, numbers in them, and times (microseconds since 1970) the rows of a file are."""

    batches: tuple[int, int]
    seqs: tuple[int, int]
    routed: tuple[int, int]


@dataclass(slots=True)
class Rebuilt:
    """What a rebuild did, or would do.

    was          "whole", "lost" (the table) or "files" (some files of it)
    files        the files that were lost
    rows         made again; `first` and `last` of them were routed then (microseconds since 1970)
    streams      rows made again, by stream
    not_covered  rows that the manifest knows of and nothing has any more, by the stream that brought them
    again        of lost files: rows beyond those that they had, which somebody has taken before; None where that is
                 not known
    under_way    batches that had not ended ("<app id>:<number>"): their drivers bring what is in them
    aside        where the old folder is
    """

    queue: str
    was: str = "whole"
    files: tuple[str, ...] = ()
    rows: int = 0
    first: int | None = None
    last: int | None = None
    streams: Counter[str] = field(default_factory=Counter)
    not_covered: Counter[str] = field(default_factory=Counter)
    again: int | None = None
    under_way: tuple[str, ...] = ()
    aside: str | None = None

    def add(self, rows: pa.Table) -> None:
        """Count rows."""
        moments = rows["routed_at"].cast(pa.int64()).to_numpy()
        self.rows += rows.num_rows
        self.first = min(filter(None, (self.first, int(moments.min()))))
        self.last = max(filter(None, (self.last, int(moments.max()))))
        for one in pc.value_counts(pc.struct_field(rows["routing"], "stream")).to_pylist():
            self.streams[one["values"]] += one["counts"]

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {
            "queue": self.queue,
            "was": self.was,
            "files": list(self.files),
            "rows": self.rows,
            "first": _text(self.first),
            "last": _text(self.last),
            "streams": dict(sorted(self.streams.items())),
            "not_covered": dict(sorted(self.not_covered.items())),
            "again": self.again,
            "under_way": list(self.under_way),
            "aside": self.aside,
        }


class Rebuilder:
    """Rebuilds the tables of the queues of one vhost."""

    def __init__(self, data: DataDir, store: TopologyStore, vhost: str) -> None:
        self._data = data
        self._store = store
        self._vhost = vhost

    def rebuild(self, queue: str, *, dry_run: bool = False, wait: float = 10.0) -> Rebuilt:
        """Make again what is lost of a queue's table; nothing for a table that is whole.

        Batches that are under way are watched for `wait` seconds. With `dry_run` nothing is written. Raises NotFound
        for a queue that is not there, Refused for one that no journal can name, StorageFailed.
        """
        topology = self._store.load()
        topology.vhost(self._vhost)
        declared = topology.queue(self._vhost, queue)
        if not declared.id:
            raise Refused(
                f"queue {queue!r} has no id yet: no journal names it",
                where=f"queue {queue!r}",
                hint="it gets one when a stream with a journal begins a batch; older messages cannot be made again",
            )
        path = self._data.queue(self._vhost, queue)
        try:
            log = queue_log(self._data, self._vhost, queue) if tables.exists(path) else None
        except UnsupportedTable:
            log = None
        work = _Work(self._data, self._store, declared)
        return work.whole(dry_run=dry_run, wait=wait) if log is None else work.files(log, dry_run=dry_run)


class _Work:
    """The rebuild of one queue."""

    def __init__(self, data: DataDir, store: TopologyStore, queue: Queue) -> None:
        self._data = data
        self._store = store
        self._queue = queue
        self._path = data.queue(queue.vhost, queue.name)
        self._given = Given(data, store, queue)

    # -- a lost table ---------------------------------------------------------------------------------

    def whole(self, *, dry_run: bool, wait: float) -> Rebuilt:
        """Make the table anew."""
        done = Rebuilt(self._queue.name, "lost")
        if not dry_run:
            done.aside = self._put_aside()
            faults.reach("rebuild.aside", self._path)
        ended = self._ended()  # nobody appends to the old table any more
        waiting = {app_id: number for app_id, number in self._begun() if number > ended.get(app_id, -1)}
        undeclared_at = self._undeclared_at()
        done.not_covered = self._uncovered(undeclared_at)
        if dry_run:
            for rows in self._given.rows(by_stream(ended), undeclared=undeclared_at):
                done.add(rows)
            done.under_way = tuple(f"{app_id}:{number}" for app_id, number in waiting.items())
            return done
        effects.make_folder(at(self._path))
        files: list[AddFile] = []
        made = False
        try:
            for rows in self._given.rows(by_stream(ended), undeclared=undeclared_at):
                files.append(data_files.write_file(self._path, rows))
                done.add(rows)
            newest = self._given.newest_stretch
            restored = [
                *(Transaction(app_id, number) for app_id, number in ended.items()),
                *(Transaction(flush_id(stream), number) for stream, number in by_stream(ended).items()),
                tables.undeclared(undeclared_at),
                *([Transaction(BACKFILLED, newest)] if newest else []),
            ]
            made = tables.make_table(
                self._path,
                tables.QUEUE,
                vhost=self._queue.vhost,
                name=self._queue.name,
                transactions=restored,
                files=files,
            )
        finally:
            if not made:
                self._drop(files)
        if not made:
            raise Refused(
                f"somebody else has made the table of queue {self._queue.name!r} meanwhile",
                where=self._path,
                hint="look at it, and rebuild again if it is another rebuild that was interrupted",
            )
        faults.reach("rebuild.made", self._path)
        done.under_way = self._watch(waiting, done, wait)
        return done

    def _drop(self, files: Iterable[AddFile]) -> None:
        """Remove files of a table that was not made, unless that cannot be told."""
        if tables.exists(self._path):
            held = tables.files_of(TableLog(self._path, files=True))
            files = [file for file in files if file.path not in held]
        data_files.drop_unused(self._path, [file.path for file in files])

    def _put_aside(self) -> str | None:
        """Move what is left of the table out of the way; where it is then."""
        folder = at(self._path)
        if not folder.is_folder() or not (folder.files() or folder.folders()):
            return None
        if folder.is_remote:
            if not any(name.endswith(".json") for name in (folder / "_delta_log").files()):
                return None  # files without a log are nobody's
            raise Refused(
                f"the log of {self._path} cannot be read",
                where=self._path,
                hint="an object store has no folders to rename: move its objects elsewhere, then rebuild",
            )
        number = time.time_ns() // 1_000_000
        aside = at(self._data.root, LOST, encode_name(self._queue.vhost)) / f"{folder.name}-{number}"
        effects.make_folder(aside.parent)
        effects.rename(folder, aside)
        return str(aside)

    def _watch(self, waiting: Mapping[str, int], done: Rebuilt, wait: float) -> tuple[str, ...]:
        """Append what the table lacks of batches that have ended meanwhile; the others, after `wait` seconds."""
        left = dict(waiting)
        deadline = time.monotonic() + wait
        while True:
            ended = self._ended()
            for app_id, number in waiting.items():
                if app_id in left and ended.get(app_id, -1) >= number:
                    self._append(app_id, left.pop(app_id), done)
            if not left or time.monotonic() >= deadline:
                return tuple(f"{app_id}:{number}" for app_id, number in left.items())
            time.sleep(_PAUSE)

    def _append(self, app_id: str, number: int, done: Rebuilt) -> None:
        """Append the rows of a batch that has ended, unless its driver has appended them to the new table."""
        stream = app_id.rpartition(":")[0]
        log = queue_log(self._data, self._queue.vhost, self._queue.name)
        once = Transaction(f"bindery.rebuilt:{app_id}", number)
        with data_files.Draft(log) as draft:
            found = list(self._given.rows({stream: number}, after=number - 1, **self._had(log)))
            for rows in found:
                draft.write(rows)
            for _ in tables.attempts(self._path):
                log.refresh()
                own = any(transactions_of(self._path, one).get(app_id) == number for one in range(1, log.version + 1))
                if own or log.transaction_version(once.app_id) == number or not found:
                    return
                brought = [once]
                if (log.transaction_version(app_id) or -1) < number:
                    brought.append(Transaction(app_id, number))
                info = {"isBlindAppend": True, "bindery.change": "rebuild"}
                if draft.commit(transactions=brought, info=info) is not None:
                    break
        for rows in found:
            done.add(rows)

    # -- lost files -----------------------------------------------------------------------------------

    def files(self, log: TableLog, *, dry_run: bool) -> Rebuilt:
        """Replace the files of the table that cannot be read."""
        for _ in tables.attempts(self._path):
            log.refresh()
            lost = [file for file in tables.files_of(log).values() if not self._is_readable(file)]
            done = Rebuilt(self._queue.name)
            if not lost:
                return done
            done.was, done.files = "files", tuple(sorted(file.path for file in lost))
            bounds = [_bounds(self._path, file) for file in lost]
            held = self._held(log, lost, bounds)
            newest = log.transaction_version(BACKFILLED) or 0
            numbers = [file.rows for file in lost]
            with data_files.Draft(log) as draft:
                for rows in self._given.rows(_come(log), stretches=newest, **self._had(log)):
                    wanted = _within(rows, bounds) & ~_known(rows, held)
                    kept = rows.filter(pa.array(wanted))
                    if kept.num_rows:
                        done.add(kept)
                        if not dry_run:
                            draft.write(kept)
                counts = [rows for rows in numbers if rows is not None]
                if len(counts) == len(numbers):
                    done.again = max(0, done.rows - sum(counts))
                    if sum(counts) > done.rows:
                        done.not_covered["of lost files"] = sum(counts) - done.rows
                gone = [RemoveFile(file.path, file.size) for file in lost]
                if dry_run or draft.commit(gone, info={"bindery.change": "rebuild"}) is not None:
                    return done
        raise AssertionError("attempts() ends by raising")

    def _had(self, log: TableLog) -> dict[str, Any]:
        """What the table says of rows that journals have: since when they are its own, and what it was flushed of."""
        return {
            "undeclared": tables.undeclared_since(log),
            "flushed": lambda stream: flushed_through(log, stream),
        }

    def _is_readable(self, file: AddFile) -> bool:
        try:
            for _ in file_rows.batches(self._path, file.path, tables.QUEUE.schema):
                pass
        except UnsupportedTable:
            return False
        return True

    def _held(self, log: TableLog, lost: Iterable[AddFile], bounds: Sequence[_Bounds]) -> set[Identity]:
        """The identities that the other files of the table have, of those that may meet the bounds."""
        gone = {file.path for file in lost}
        found: set[Identity] = set()
        for name, file in tables.files_of(log).items():
            first, last = batches_stated(file)
            if name not in gone and any(first <= one.batches[1] and one.batches[0] <= last for one in bounds):
                for rows in file_rows.batches(self._path, name, tables.QUEUE.schema, columns=["routing"]):
                    found.update(_identities(rows))
        return found

    # -- what there is to know ------------------------------------------------------------------------

    def _ended(self) -> dict[str, int]:
        """The newest batch of each app id that has ended."""
        if not tables.exists(self._data.manifest):
            return {}
        return {
            app_id: number
            for app_id, number in tables.open_log(self._data.manifest, MANIFEST).transactions.items()
            if not app_id.startswith("bindery.")
        }

    def _begun(self) -> Iterator[tuple[str, int]]:
        """The newest batch that each app id of a stream with a journal has pinned."""
        for journal in journals(self._data, self._queue.vhost):
            for app_id in journal.log.transactions:
                numbers = at(self._data.pins(app_id)).numbers(".json")
                if numbers:
                    yield app_id, max(numbers)

    def _undeclared_at(self) -> int:
        """The newest topology version without the queue."""
        absent, present = 0, self._store.load().version
        while present - absent > 1:
            middle = (absent + present) // 2
            there = self._store.load(version=middle).queues.get((self._queue.vhost, self._queue.name))
            if there is not None and there.id in (0, self._queue.id):
                present = middle
            else:
                absent = middle
        return absent

    def _uncovered(self, undeclared_at: int) -> Counter[str]:
        """Rows that the manifest says the queue got and no journal has, by stream."""
        first = {one.stream: one.first_batch for one in journals(self._data, self._queue.vhost)}
        found: Counter[str] = Counter()
        for row in read_manifest(self._data):
            if row["topology_version"] <= undeclared_at:
                continue
            oldest = first.get(row["stream"])
            if oldest is not None and row["batch_id"] >= oldest:
                continue
            for one in row["tables"]:
                if (one["kind"], one["vhost"], one["name"]) == ("queue", self._queue.vhost, self._queue.name):
                    found[row["stream"]] += one["rows"]
        return +found


def _come(log: TableLog) -> dict[str, int]:
    """How far each stream has come in a table: by its own commits, or by flushes of what was deferred."""
    found = by_stream(
        {app_id: number for app_id, number in log.transactions.items() if not app_id.startswith("bindery.")}
    )
    for stream, number in flushes(log).items():
        found[stream] = max(number, found.get(stream, -1))
    return found


def _bounds(path: str, file: AddFile) -> _Bounds:
    """The bounds of a lost file, as far as the log states them."""
    batches, seqs = (stated(file, member) or _ALWAYS for member in ("batch_id", "seq"))
    try:
        return _Bounds(batches, seqs, stated_span(path, file))
    except UnsupportedTable:  # neither the log says it nor the file
        return _Bounds(batches, seqs, _ALWAYS)


def _within(rows: pa.Table, bounds: Iterable[_Bounds]) -> Mask:
    """Which rows lie within any of the bounds."""
    columns = [pc.struct_field(rows["routing"], member).to_numpy() for member in ("batch_id", "seq")]
    columns.append(rows["routed_at"].cast(pa.int64()).to_numpy())
    found = np.zeros(rows.num_rows, np.bool_)
    for one in bounds:
        inside = [(first <= column) & (column <= last) for column, (first, last) in zip(columns, one, strict=True)]
        found |= np.logical_and.reduce(inside)
    return found


def _known(rows: pa.Table, held: set[Identity]) -> Mask:
    """Which rows have one of the identities."""
    return np.fromiter((one in held for one in _identities(rows)), np.bool_, rows.num_rows)


def _identities(rows: pa.Table | pa.RecordBatch) -> Iterator[Identity]:
    """The identities of rows."""
    names = ("stream", "batch_id", "seq")
    return zip(*(pc.struct_field(rows["routing"], name).to_pylist() for name in names), strict=True)


def _text(moment: int | None) -> str | None:
    return None if moment is None else iso(datetime.fromtimestamp(moment / 1_000_000, UTC), "milliseconds")
