"""A stretch of a journal in reach of a flush: its messages with copies that wait, each decoded once.

Copies of thousands of queues are gathered out of the same messages, in any order. Where these take much memory they are
laid down in temporary files as Arrow has them, and mapped: what a flush of a gigabyte takes is then the system's page
cache. They are so in parts, since Arrow's offsets within a column have 32 bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.errors import StorageFailed
from bindery.router.message import JOURNAL_SCHEMA
from bindery.store import file_rows
from bindery.store.deferred.waiting import Marks, Places
from bindery.store.gathers import Gather, Gathers
from bindery.store.journal_files import NEVER, Journal, JournalFile, naming, without_queues

#: What the rows of a queue are made of.
_COLUMNS: Final = [name for name in JOURNAL_SCHEMA.names if name not in ("reason", "disposition", "detail", "bcc")]
_SCHEMA: Final = pa.schema([JOURNAL_SCHEMA.field(name) for name in _COLUMNS])


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bytes of what a flush does at a time.

    stretch  of the journal's files that become one commit of each queue, at least those of one batch
    memory   of messages that are held in memory; more are mapped from temporary files
    part     of messages out of which rows are gathered together
    file     of the rows of a queue that become one file, before they are encoded
    enough   of the copies of a queue, in the mean and as the journal's files hold them, to flush before it is time
    """

    stretch: int = 2 << 30
    memory: int = 128 << 20
    part: int = 1 << 30
    file: int = 256 << 20
    enough: int = 64 << 20


BOUNDS: Final = Bounds()


def stretches(files: Sequence[JournalFile], most: int) -> Iterator[list[JournalFile]]:
    """Files with every row of some consecutive batches, about `most` bytes at a time."""
    found: list[JournalFile] = []
    last = NEVER
    for file in files:
        if found and file.first > last and sum(one.size for one in found) + file.size > most:
            yield found
            found = []
        found.append(file)
        last = max(last, file.last)
    if found:
        yield found


@dataclass(frozen=True)
class _Part:
    """Some of the messages, and for which queues they are.

    gathers    how to gather rows of each column; `dictionaries` are the leaf columns that become dictionaries
    marks      what decides whether a copy still waits
    ids        the queues there are, ascending
    places     of the messages, those of a queue together and by their numbers; `ends` says where those of each end
    row_bytes  of a message, in the mean
    """

    gathers: Mapping[str, Gather]
    dictionaries: Sequence[str]
    marks: Marks
    ids: Places
    ends: Places
    places: npt.NDArray[np.int32]
    row_bytes: int

    @classmethod
    def of(cls, messages: _Messages, wanted: Places | None, *, alone: bool) -> _Part:
        """Do what is the same for every queue; `wanted` are the ids that count, None for all."""
        columns = messages.columns()
        routing = columns["routing"]
        marks = Marks.of_rows(routing)
        ids, places = marks.ids, marks.places.astype(np.int32)
        if wanted is not None:
            named = np.isin(ids, wanted)
            ids, places = ids[named], places[named]
        numbers = _numbers(routing)
        if numbers is not None:
            by_number = np.argsort(numbers[places], kind="stable")
            ids, places = ids[by_number], places[by_number]
        found, which = np.unique(ids, return_inverse=True)
        # numpy sorts short integers by counting
        order = np.argsort(which.astype(np.uint16) if len(found) <= 1 << 16 else which, kind="stable")
        # rows of several parts are put together: what is a dictionary must be so in each
        gathers = Gathers(repeats=alone)
        shown = {**columns, "routing": without_queues(routing)}
        made = {name: gathers.gather(array, name) for name, array in shown.items()}
        return cls(
            {name: gather for name, gather in made.items() if gather is not None},
            gathers.dictionaries,
            marks,
            found,
            np.cumsum(np.bincount(which, minlength=len(found))),
            places[order],
            max(1, messages.size // messages.rows),
        )

    def of_queue(self, queue_id: int, *, after: int, undeclared: int) -> npt.NDArray[np.int32]:
        """The places of the messages with a copy that waits for a queue."""
        number = int(np.searchsorted(self.ids, queue_id))
        if number == len(self.ids) or self.ids[number] != queue_id:
            return self.places[:0]
        begin = self.ends[number - 1] if number else 0
        return self.marks.kept(self.places[begin : self.ends[number]], after=after, undeclared=undeclared)

    def rows(self, places: npt.NDArray[np.int32]) -> pa.Table:
        """Messages as rows of a queue, without the columns that hold nothing."""
        at = pa.array(places)
        return pa.table({name: gather(at) for name, gather in self.gathers.items()})


class Tail:
    """The messages of a stretch for which somebody waits; use as a context, as they may lie in temporary files.

    ids      the queues that have copies in it, ascending
    through  the last of its batches

    `only` are the queues that count, None for all. Raises UnsupportedTable for a file of the journal that cannot be
    read, StorageFailed where there is no room for the temporary ones.
    """

    def __init__(self, journal: Journal, files: Sequence[JournalFile], only: Set[int] | None, bounds: Bounds) -> None:
        self._bounds = bounds
        self._wanted = None if only is None else np.array(sorted(only), np.int64)
        self._folder = ExitStack()
        self.through = NEVER
        try:
            found = self._read(journal, files)
            self._parts = [_Part.of(messages, self._wanted, alone=len(found) == 1) for messages in found]
        except BaseException:
            self._folder.close()
            raise
        self.ids: list[int] = sorted(set().union(*(part.ids.tolist() for part in self._parts)))

    def __enter__(self) -> Tail:
        return self

    def __exit__(self, *_: object) -> None:
        self._parts = []
        self._folder.close()

    def rows(self, queue_id: int, *, after: int, undeclared: int) -> Iterator[tuple[pa.Table, Sequence[str]]]:
        """The rows that a queue's table is to get, file by file, each in the order of the messages' numbers.

        They are of batches above `after` and were routed at topology versions above `undeclared`. With each file the
        leaf columns that are dictionaries.
        """
        most = self._bounds.file
        held: list[pa.Table] = []
        size = 0
        for part in self._parts:
            places = part.of_queue(queue_id, after=after, undeclared=undeclared)
            step = max(1, most // part.row_bytes)
            for begin in range(0, len(places), step):
                chosen = places[begin : begin + step]
                if len(self._parts) == 1:
                    yield part.rows(chosen), part.dictionaries
                    continue
                if held and size + len(chosen) * part.row_bytes > most:
                    yield _together(held), ()
                    held, size = [], 0
                held.append(part.rows(chosen))
                size += len(chosen) * part.row_bytes
        if held:
            yield _together(held), ()

    def _read(self, journal: Journal, files: Sequence[JournalFile]) -> list[_Messages]:
        found = [_Messages(self._folder, self._bounds)]
        for file in files:
            for batch in file_rows.batches(journal.log.path, file.path, JOURNAL_SCHEMA, columns=_COLUMNS):
                if not batch.num_rows:
                    continue
                routing = batch.column("routing")
                self.through = max(self.through, pc.max(pc.struct_field(routing, "batch_id")).as_py())
                kept = batch.filter(self._waited_for(pc.struct_field(routing, "deferred")))
                if kept.num_rows:
                    if not found[-1].has_room(kept):
                        found.append(_Messages(self._folder, self._bounds))
                    found[-1].add(kept)
        return [messages for messages in found if messages.rows]

    def _waited_for(self, deferred: pa.ListArray) -> pa.Array:
        """Which messages have copies for a queue that counts."""
        if self._wanted is None:
            return deferred.is_valid()
        return pa.array(naming(deferred, self._wanted))


class _Messages:
    """Messages of one part: in memory as long as they take little, then in a temporary file."""

    def __init__(self, folder: ExitStack, bounds: Bounds) -> None:
        self._folder = folder
        self._bounds = bounds
        self._batches: list[pa.RecordBatch] = []
        self._file: _Spilled | None = None
        self.rows = 0
        self.size = 0

    def has_room(self, batch: pa.RecordBatch) -> bool:
        """Whether another batch still belongs to this part."""
        return not self.size or self.size + batch.nbytes <= self._bounds.part

    def add(self, batch: pa.RecordBatch) -> None:
        """Take over a batch."""
        self.rows += batch.num_rows
        self.size += batch.nbytes
        self._batches.append(batch)
        if self._file is None and self.size > self._bounds.memory:
            self._file = self._folder.enter_context(_Spilled())
        if self._file is not None:
            for one in self._batches:
                self._file.add(one)
            self._batches = []

    def columns(self) -> Mapping[str, pa.Array]:
        """Each column in one piece, in memory or mapped; to be asked once."""
        if self._file is not None:
            return self._file.columns()
        whole = pa.Table.from_batches(self._batches, schema=_SCHEMA).combine_chunks()
        self._batches = []
        return {name: whole[name].chunk(0) for name in _COLUMNS}


class _Spilled:
    """Messages in a temporary folder of their own; the system's page cache holds what is looked at."""

    def __init__(self) -> None:
        with _temporary():
            self._folder = TemporaryDirectory(prefix="bindery-flush-")
            self._whole = Path(self._folder.name, "messages.arrow")
            self._writer = pa.ipc.new_file(str(self._whole), _SCHEMA)

    def __enter__(self) -> _Spilled:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError, pa.ArrowException):
            self._writer.close()
        self._folder.cleanup()

    def add(self, batch: pa.RecordBatch) -> None:
        """Write a batch behind the others."""
        with _temporary():
            self._writer.write_batch(batch)

    def columns(self) -> Mapping[str, pa.Array]:
        """Each column, mapped; beside them one column at a time is in memory."""
        with _temporary():
            self._writer.close()
            found = {}
            whole = _mapped(self._whole)
            for name in _COLUMNS:
                column = whole.select([name]).combine_chunks()
                path = self._whole.with_name(f"{name}.arrow")
                with pa.ipc.new_file(str(path), column.schema) as writer:
                    writer.write_table(column)
                found[name] = _mapped(path)[name].chunk(0)
            self._whole.unlink()
            return found


def _mapped(path: Path) -> pa.Table:
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


@contextmanager
def _temporary() -> Iterator[None]:
    """Raise StorageFailed where temporary files cannot be written."""
    try:
        yield
    except OSError as error:
        raise StorageFailed(
            f"cannot lay down what waits in a journal: {error}",
            where=gettempdir(),
            hint="it takes about as much room as these messages have in memory; TMPDIR says where",
        ) from error


def _together(tables: Sequence[pa.Table]) -> pa.Table:
    """Rows of several parts, by the numbers of the messages."""
    rows = pa.concat_tables(tables, promote_options="default").combine_chunks()
    numbers = _numbers(rows["routing"].chunk(0))
    return rows if numbers is None else rows.take(pa.array(np.argsort(numbers, kind="stable")))


def _numbers(routing: pa.StructArray) -> npt.NDArray[np.int64] | None:
    """What messages are sorted by, so that they come in the order of their numbers; None where they do."""
    batch, seq = (pc.struct_field(routing, name).to_numpy() for name in ("batch_id", "seq"))
    later = (batch[1:] > batch[:-1]) | ((batch[1:] == batch[:-1]) & (seq[1:] > seq[:-1]))
    if later.all():
        return None
    rank = np.empty(len(batch), np.int64)
    rank[np.lexsort([seq, batch])] = np.arange(len(batch))
    return rank
