"""Looking for messages on record: newest files first, so many rows at a time, and a way on from there.

A queue's rows and the unroutable ones of a vhost are looked at file by file, the file with the newest rows first;
within a file the newest row stands first. Journals are looked at like them, for messages that stand in no such table
any more. What is asked of rows is asked of Parquet where it can be. Files that were rewritten between two looks may
show a message twice; none is passed over that stood there all the time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.errors import InvalidInput, Stopped
from bindery.router.message import Message, from_batch
from bindery.router.model import Topology
from bindery.router.moments import iso
from bindery.store import file_rows, tables
from bindery.store.actions import AddFile
from bindery.store.deferred import LiveQueue, Waiting
from bindery.store.deferred.live import WaitingJournal
from bindery.store.journal_files import Journal, as_queue_rows, journals
from bindery.store.journal_only import JournalOnly
from bindery.store.paths import DataDir
from bindery.store.read import of_queue, unroutable_of
from bindery.store.statistics import stated_span
from bindery.store.topology import TopologyStore
from bindery.store.unroutable import Selection

#: Rows that one look takes, but for the last file, which is looked at whole.
MAX_ROWS: Final = 200_000
_ORDER: Final = ("routed_at", "batch_id", "seq")


@dataclass(frozen=True, slots=True)
class FoundMessage:
    """A row: its identity, where it stands (None: unroutable, with a reason), and the message.

    Of one that stands in no table that was looked into, `journal` is the stream whose journal has it, and `reached`
    are the queues that it had reached, of those that there are.
    """

    row: str
    queue: str | None
    reason: str | None
    routed_at: str
    message: Message
    journal: str | None = None
    reached: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """What one look has found; `looked_at` rows were asked, `on` leads on, and is None at the end."""

    messages: list[FoundMessage] = field(default_factory=list)
    looked_at: int = 0
    on: str | None = None


@dataclass(frozen=True, slots=True)
class _Place:
    """A file, in the order in which they are looked at; `given` rows of it were gone through before.

    It is of a queue's table, of the unroutable one (`queue` is None), or of the journal of a stream.
    """

    newest: int
    queue: str | None
    journal: str | None
    path: str
    given: int = 0

    @property
    def order(self) -> tuple[int, bool, bool, str, str]:
        # of the same age, what stands in tables comes before what only a journal has
        return self.newest, self.journal is None, self.queue is None, self.queue or self.journal or "", self.path

    def as_text(self) -> str:
        return json.dumps([self.newest, self.queue, self.journal, self.path, self.given], ensure_ascii=False)

    @classmethod
    def read(cls, text: str) -> _Place:
        """What `as_text` has written. Raises InvalidInput for anything else."""
        try:
            newest, queue, journal, path, given = json.loads(text)
        except (ValueError, TypeError):
            newest = queue = journal = path = given = None
        if (
            isinstance(newest, int)
            and isinstance(queue, str | None)
            and isinstance(journal, str | None)
            and isinstance(path, str)
            and isinstance(given, int)
        ):
            return cls(newest, queue, journal, path, given)
        raise InvalidInput("no search leads on from there", where="on", hint="take `on` of the answer before")


@dataclass(frozen=True, slots=True)
class _Source:
    """A file that is looked at, and what reads its rows."""

    place: _Place
    file: AddFile
    read: Callable[..., Iterator[pa.RecordBatch]]
    journal: Journal | None = None


def find(
    data: DataDir,
    vhost: str,
    queues: Iterable[str | None],
    selection: Selection,
    *,
    limit: int,
    on: str | None = None,
    may: Callable[[FoundMessage], bool] = lambda _: True,
    stop: Callable[[], bool] = lambda: False,
    topology: Topology | None = None,
    live: bool = True,
    anywhere: bool = False,
) -> Found:
    """Up to `limit` messages of some queues (None: the unroutable rows) that a selection chooses, and `may` lets by.

    What waits for queues in journals is looked at too, and what journals alone have any more of messages that were in
    these queues, or reached none; with `anywhere` of all messages. Not so with `live=False`. `on` is what an earlier
    look gave. `topology` is the newest, where it is at hand. Raises InvalidInput for another text, Stopped when `stop`
    says so.
    """
    begin = None if on is None else _Place.read(on)
    topology = topology or TopologyStore(data).load()
    # journals first: what is taken or flushed meanwhile is found in one of both
    kept = journals(data, vhost) if live else []
    waiting = [one for one in map(WaitingJournal.of, kept) if one.files]
    asked = frozenset(queues)
    standing = _standing(data, vhost, asked, Waiting.of(waiting, vhost, topology))
    only = JournalOnly(vhost, topology, asked, standing, anywhere, stop)
    sources = sorted(_sources(standing, kept), key=lambda one: one.place.order, reverse=True)
    found: list[FoundMessage] = []
    looked_at = 0
    for source in sources:
        place = source.place
        if begin is not None and place.order > begin.order:
            continue
        if stop():
            raise Stopped("the search was stopped", where="find")
        given = begin.given if begin is not None and place.order == begin.order else 0
        if looked_at + only.looked_at >= MAX_ROWS or len(found) == limit:
            return Found(found, looked_at + only.looked_at, replace(place, given=given).as_text())
        looked_at += source.file.rows or 0
        for number, one in _matching(source, selection, only, after=given):
            if not may(one):
                continue
            if len(found) == limit:
                return Found(found, looked_at + only.looked_at, replace(place, given=number).as_text())
            found.append(one)
    return Found(found, looked_at + only.looked_at)


def _standing(data: DataDir, vhost: str, queues: Iterable[str | None], waiting: Waiting) -> dict[str | None, LiveQueue]:
    """The tables of some queues that are there, each as it is now; None is that of the unroutable rows."""
    found = {}
    for queue in queues:
        if tables.exists(data.unroutable(vhost) if queue is None else data.queue(vhost, queue)):
            found[queue] = (
                unroutable_of(data, vhost) if queue is None else of_queue(data, vhost, queue, waiting=waiting)
            )
    return found


def _sources(standing: dict[str | None, LiveQueue], kept: Iterable[Journal]) -> Iterator[_Source]:
    for queue, table in standing.items():
        for file in table.files.values():
            newest = stated_span(table.log.path, file).last
            yield _Source(_Place(newest, queue, None, file.path), file, partial(table.batches, file.path))
    for journal in kept:
        path = journal.log.path
        for file in tables.files_of(journal.log).values():
            read = partial(file_rows.batches, path, file.path, tables.JOURNAL.schema)
            place = _Place(stated_span(path, file).last, None, journal.stream, file.path)
            yield _Source(place, file, read, journal)


def _matching(
    source: _Source, selection: Selection, only: JournalOnly, *, after: int
) -> Iterator[tuple[int, FoundMessage]]:
    """The chosen rows of a file beyond the first so many, each with its place among them, the newest first."""
    parts = []
    for batch in source.read(where=selection.where):
        if batch.num_rows:
            parts.append(batch.take(pa.array(selection.places(batch))))
    if not parts:
        return
    rows = pa.Table.from_batches(parts)
    numbers = {name: pc.struct_field(rows["routing"], name) for name in _ORDER[1:]}
    keys = pa.table({"routed_at": rows["routed_at"], **numbers})
    order = pc.sort_indices(keys, sort_keys=[(name, "descending") for name in _ORDER]).slice(after)
    journal, queue = source.journal, source.place.queue
    shown = None if journal is None else only.places(journal, rows.select(["routing", "reason"]).take(order))
    for number, place in enumerate(order.to_pylist()):
        if shown is not None and number not in shown:
            continue
        row = rows.slice(place, 1)
        (message,) = from_batch(row if journal is None else as_queue_rows(row))  # the latter have no bcc
        routing: dict[str, Any] = row["routing"][0].as_py()
        yield (
            after + number,
            FoundMessage(
                row=f"{routing['stream']}:{routing['batch_id']}:{routing['seq']}",
                queue=queue,
                reason=None if queue is not None else row["reason"][0].as_py(),
                routed_at=iso(row["routed_at"][0].as_py(), "milliseconds"),
                message=message,
                journal=None if journal is None else journal.stream,
                reached=() if journal is None else tuple(only.reached(routing["queues"])),
            ),
        )
