"""A queue as it is now: the rows of its table, and those that wait for it in journals.

Where nothing waits, nothing is paid but a look at the logs of journals, and where there is no journal, nothing at all.
Of a file of a journal that holds deferred copies the marks are read, once by each process as long as they are kept.

The order of looks makes it exact, without any lock: the journals first, then the log of the queue's table. What the
table lacks of the batches that the journals had ended with then is in those journals, since a flush only ever moves
rows from there; and the table has all batches up to the one that it records.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.message import JOURNAL_SCHEMA, QUEUE_SCHEMA
from bindery.router.model import Queue, Topology
from bindery.store import file_rows, tables
from bindery.store.actions import AddFile
from bindery.store.deferred.waiting import Marks, Places, flushed_through, flushes
from bindery.store.journal_files import NEVER, Journal, JournalFile, as_queue_rows, journals, trimmed_through
from bindery.store.log import TableLog
from bindery.store.paths import DataDir
from bindery.store.places import at
from bindery.store.topology import TopologyStore

#: Bytes of marks and of tallies that a process keeps.
_MARKS_BYTES: Final = 64 << 20
_TALLY_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows of a journal wait for a queue: those for its id, of batches above `after` up to `through`.

    They were routed at topology versions above `undeclared`; None is no bound.
    """

    queue_id: int
    after: int
    through: int | None
    undeclared: int


@dataclass(frozen=True, slots=True)
class TailFile:
    """The rows of a journal's file that wait for one queue.

    `file` says of them what the log of a queue's table says of its files; its path is the address of the journal's.
    `places` are theirs in the journal's file, ascending, and `wanted` says which rows of the journal these are.
    """

    journal: str
    name: str
    file: AddFile
    places: Places
    wanted: Wanted

    def batches(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: pc.Expression | None = None,
        together: int = file_rows.BATCH_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        """The rows, of columns of QUEUE_SCHEMA, in the order of the file; as `file_rows.batches` gives a table's."""
        names = QUEUE_SCHEMA.names if columns is None else list(columns)
        read = names if where is None or _is_about(where, names) else QUEUE_SCHEMA.names
        for found in self._taken(read, together):
            rows = as_queue_rows(pa.Table.from_batches([found]))
            if where is not None:
                rows = rows.filter(where).select(names)
            yield rows

    def _taken(self, names: Sequence[str], together: int) -> Iterator[pa.RecordBatch]:
        place = at(self.journal, self.name)
        with file_rows.reading(place), place.fragment() as whole:
            groups, places = _within([one.num_rows for one in whole.row_groups], self.places)
            # a fragment that is made of some row groups has them in any order
            fragment = whole.subset(row_group_ids=groups)
            start = 0
            for batch in fragment.to_batches(
                schema=JOURNAL_SCHEMA, columns=list(names), batch_size=together, use_threads=False
            ):
                first, last = np.searchsorted(places, (start, start + batch.num_rows))
                if last > first:
                    yield batch.take(pa.array(places[first:last] - start))
                start += batch.num_rows


#: The files that hold rows which wait for a queue, by the address of each.
Tail = Mapping[str, TailFile]


@dataclass(frozen=True, slots=True)
class LiveQueue:
    """The log of a queue's table, with its files, and what waits for the queue.

    The unroutable messages of a vhost, which have another `schema`, are read as a queue for which nothing waits.
    """

    log: TableLog
    tail: Tail = field(default_factory=dict)
    schema: pa.Schema = QUEUE_SCHEMA

    @property
    def files(self) -> dict[str, AddFile]:
        """The files of both; those of journals have the rows that wait."""
        return {**tables.files_of(self.log), **{name: one.file for name, one in self.tail.items()}}

    @property
    def waiting(self) -> int:
        """Rows that wait."""
        return sum(len(one.places) for one in self.tail.values())

    @property
    def rows(self) -> int:
        """Rows of both."""
        return tables.rows_in(self.log) + self.waiting

    def batches(
        self, name: str, *, columns: Sequence[str] | None = None, where: pc.Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one of the files."""
        if name in self.tail:
            return self.tail[name].batches(columns=columns, where=where)
        return file_rows.batches(self.log.path, name, self.schema, columns=columns, where=where)


@dataclass(frozen=True, slots=True)
class WaitingJournal:
    """A journal at one moment: the files in which something waits, or may, and what the log says of them.

    It has not kept all rows of batches up to `trimmed`.
    """

    path: str
    stream: str
    files: Sequence[tuple[JournalFile, AddFile]]
    trimmed: int = NEVER

    @classmethod
    def of(cls, journal: Journal) -> WaitingJournal:
        """What may wait in a journal."""
        stated = tables.files_of(journal.log)
        return cls(journal.log.path, journal.stream, [(one, stated[one.path]) for one in journal.waiting()])

    @classmethod
    def whole(cls, journal: Journal) -> WaitingJournal:
        """What may wait in a journal, or may have waited before."""
        found = ((JournalFile.of(file), file) for file in tables.files_of(journal.log).values())
        files = [pair for pair in found if pair[0].waits]
        return cls(journal.log.path, journal.stream, files, trimmed_through(journal.log))


def waiting_journals(data: DataDir, vhost: str) -> list[WaitingJournal]:
    """The journals of a vhost's streams in which something waits, or may. Raises UnsupportedTable for a damaged one."""
    found = (WaitingJournal.of(journal) for journal in journals(data, vhost))
    return [one for one in found if one.files]


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits in the journals of a vhost, as it was before the logs of queues are read."""

    journals: Sequence[WaitingJournal] = ()
    queue_of: Callable[[str], Queue | None] = lambda _: None

    @classmethod
    def look(cls, data: DataDir, vhost: str, topology: Topology | None = None) -> Waiting:
        """Look at the journals, and where something waits at the newest topology, unless it is at hand.

        Raises UnsupportedTable for a journal that cannot be read.
        """
        journals = waiting_journals(data, vhost)
        return cls.of(journals, vhost, topology or TopologyStore(data).load()) if journals else cls()

    @classmethod
    def of(cls, journals: Sequence[WaitingJournal], vhost: str, topology: Topology) -> Waiting:
        """What such journals hold for the queues of a topology."""
        return cls(journals, lambda name: topology.queues.get((vhost, name)))

    @classmethod
    def look_for(cls, data: DataDir, vhost: str, name: str) -> Waiting:
        """As `look`, for whoever reads one queue: of the topology only that is decoded."""
        journals = waiting_journals(data, vhost)
        if not journals:
            return cls()
        queue = TopologyStore(data).queue_of(vhost, name)
        return cls(journals, {name: queue}.get)

    def queue(self, name: str, log: TableLog) -> LiveQueue:
        """A queue, the log of whose table has been read since, with its files."""
        queue = self.queue_of(name)
        return LiveQueue(log) if queue is None else LiveQueue(log, tail_of(self.journals, log, queue.id))


def tail_of(
    journals: Iterable[WaitingJournal],
    log: TableLog,
    queue_id: int,
    through: Callable[[str], int | None] = lambda _: None,
) -> Tail:
    """What waits for a queue, by the log of its table; of each stream up to the batch `through`, where that is one.

    The journals have been looked at before the log was.
    """
    undeclared = tables.undeclared_since(log)
    found: dict[str, TailFile] = {}
    for journal in journals:
        wanted = Wanted(queue_id, flushed_through(log, journal.stream), through(journal.stream), undeclared)
        last = wanted.through
        for one, stated in journal.files:
            if one.last <= wanted.after or (last is not None and one.first > last):
                continue
            places = marks_of(journal.path, one.path).of(
                queue_id, after=wanted.after, undeclared=undeclared, through=last
            )
            if len(places):
                address = f"{journal.path}/{one.path}"
                file = replace(stated, path=address, rows=len(places))
                found[address] = TailFile(journal.path, one.path, file, places, wanted)
    return found


# -- counting -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tally:
    """How many copies of a journal's file wait for each queue: one place for each queue, batch and topology version."""

    ids: Places
    batch: Places
    topology: Places
    copies: Places

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""
        return self.ids.nbytes + self.batch.nbytes + self.topology.nbytes + self.copies.nbytes

    @classmethod
    def of(cls, marks: Marks) -> Tally:
        """Count those of a file."""
        columns = [marks.batch[marks.places], marks.topology[marks.places], marks.ids]
        order = np.lexsort(columns)
        columns = [column[order] for column in columns]
        if not len(order):
            return cls(columns[2], columns[0], columns[1], np.zeros(0, np.int64))
        other = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
        begins = np.concatenate([[0], np.flatnonzero(other) + 1])
        copies = np.diff(np.concatenate([begins, [len(order)]]))
        batch, topology, ids = (column[begins] for column in columns)
        return cls(ids, batch, topology, copies)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a queue's table has come, as its log says.

    flushed     the batch of each stream up to which it has every deferred copy
    undeclared  the newest topology version at which the queue was seen undeclared
    """

    flushed: Mapping[str, int] = field(default_factory=dict)
    undeclared: int = -1

    @classmethod
    def of(cls, log: TableLog) -> Progress:
        """What a log says."""
        return cls(flushes(log), tables.undeclared_since(log))


def waiting_counts(journals: Iterable[WaitingJournal], queues: Mapping[int, Progress]) -> dict[int, int]:
    """How many copies wait for queues, by id; none for those for which none does.

    The journals have been looked at before the logs were that `queues` tell of.
    """
    size = max(queues, default=-1) + 1
    total = np.zeros(size, np.int64)
    wanted = np.zeros(size, np.bool_)
    wanted[list(queues)] = True
    undeclared = np.full(size, -1, np.int64)
    undeclared[list(queues)] = [one.undeclared for one in queues.values()]
    for journal in journals:
        after = np.full(size, -1, np.int64)
        after[list(queues)] = [one.flushed.get(journal.stream, -1) for one in queues.values()]
        least = int(after[wanted].min(initial=(1 << 63) - 1))
        for one, _ in journal.files:
            if one.last <= least:
                continue
            tally = tally_of(journal.path, one.path)
            known = np.flatnonzero(tally.ids < size)
            ids = tally.ids[known]
            kept = wanted[ids] & (tally.batch[known] > after[ids]) & (tally.topology[known] > undeclared[ids])
            np.add.at(total, ids[kept], tally.copies[known[kept]])
    return {int(place): int(total[place]) for place in np.flatnonzero(total)}


# -- what is kept ---------------------------------------------------------------------------------------


_T = TypeVar("_T", Marks, Tally)


class _Kept(Generic[_T]):
    """What was found in files of journals, which never change; as much as a number of bytes, the latest."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._bytes = 0
        self._found: OrderedDict[tuple[str, str], _T] = OrderedDict()
        self._gate = threading.Lock()

    def get(self, path: str, name: str, find: Callable[[], _T]) -> _T:
        """What is kept of a file, or else found in it."""
        key = (path, name)
        with self._gate:
            kept = self._found.get(key)
            if kept is not None:
                self._found.move_to_end(key)
                return kept
        found = find()
        with self._gate:
            if key not in self._found:
                self._found[key] = found
                self._bytes += found.nbytes
            while self._bytes > self._most:
                _, gone = self._found.popitem(last=False)
                self._bytes -= gone.nbytes
        return found


_MARKS: Final[_Kept[Marks]] = _Kept(_MARKS_BYTES)
_TALLIES: Final[_Kept[Tally]] = _Kept(_TALLY_BYTES)


def marks_of(path: str, name: str) -> Marks:
    """The marks of a journal's file. Raises UnsupportedTable for one that is missing or damaged."""
    return _MARKS.get(path, name, lambda: Marks.read(path, name))


def tally_of(path: str, name: str) -> Tally:
    """The tally of a journal's file. Raises UnsupportedTable for one that is missing or damaged."""
    return _TALLIES.get(path, name, lambda: Tally.of(Marks.read(path, name)))


def _is_about(where: pc.Expression, names: Sequence[str]) -> bool:
    """Whether a condition looks at these columns alone."""
    try:
        pa.schema([QUEUE_SCHEMA.field(name) for name in names]).empty_table().filter(where)
    except (pa.ArrowException, KeyError):
        return False
    return True


def _within(rows: Sequence[int], places: Places) -> tuple[list[int], Places]:
    """The row groups, of that many rows each, in which places of a file are, and the places in these groups alone."""
    ends = np.cumsum(rows)
    groups, of = np.unique(np.searchsorted(ends, places, side="right"), return_inverse=True)
    sizes = np.array(rows)[groups]
    before = np.cumsum(sizes) - sizes
    return groups.tolist(), places - (ends[groups] - sizes)[of] + before[of]
