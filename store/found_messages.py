"""Looking for messages on record: newest files first, so many rows at a time, and a way on from there.

A queue's rows and the unroutable ones of a vhost are looked at file by file, the file with the newest rows first;
within a file the newest row stands first. What is asked of rows is asked of Parquet where it can be. Files that were
rewritten between two looks may show a message twice; none is passed over that stood there all the time.
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
from bindery.store import tables
from bindery.store.actions import AddFile
from bindery.store.deferred import Waiting
from bindery.store.paths import DataDir
from bindery.store.read import of_queue, unroutable_of
from bindery.store.statistics import stated_span
from bindery.store.unroutable import Selection

#: Rows that one look takes, but for the last file, which is looked at whole.
MAX_ROWS: Final = 200_000
_ORDER: Final = ("routed_at", "batch_id", "seq")


@dataclass(frozen=True, slots=True)
class FoundMessage:
    """A row: its identity, where it stands (None: unroutable, with a reason), and the message."""

    row: str
    queue: str | None
    reason: str | None
    routed_at: str
    message: Message


@dataclass(frozen=True, slots=True)
class Found:
    """What one look has found; `looked_at` rows were asked, `on` leads on, and is None at the end."""

    messages: list[FoundMessage] = field(default_factory=list)
    looked_at: int = 0
    on: str | None = None


@dataclass(frozen=True, slots=True)
class _Place:
    """A file, in the order in which they are looked at; `given` rows of it were found before."""

    newest: int
    queue: str | None
    path: str
    given: int = 0

    @property
    def order(self) -> tuple[int, bool, str, str]:
        return self.newest, self.queue is None, self.queue or "", self.path

    def as_text(self) -> str:
        return json.dumps([self.newest, self.queue, self.path, self.given], ensure_ascii=False)


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
) -> Found:
    """Up to `limit` messages of some queues (None: the unroutable rows) that a selection chooses, and `may` lets by.

    `on` is what an earlier look gave. What waits for queues in journals is looked at too, but for `live=False`.
    `topology` is the newest, where it is at hand. Raises InvalidInput for another text, Stopped when `stop` says so.
    """
    begin = None if on is None else _read(on)
    files = sorted(_files(data, vhost, queues, topology, live=live), key=lambda one: one[0].order, reverse=True)
    found: list[FoundMessage] = []
    looked_at = 0
    for place, file, read in files:
        if begin is not None and place.order > begin.order:
            continue
        if stop():
            raise Stopped("the search was stopped", where="find")
        given = begin.given if begin is not None and place.order == begin.order else 0
        if looked_at >= MAX_ROWS or len(found) == limit:
            return Found(found, looked_at, replace(place, given=given).as_text())
        looked_at += file.rows or 0
        passed = 0
        for one in _matching(read(where=selection.where), place.queue, selection):
            passed += 1
            if passed <= given or not may(one):
                continue
            if len(found) == limit:
                return Found(found, looked_at, replace(place, given=passed - 1).as_text())
            found.append(one)
    return Found(found, looked_at)


def _read(text: str) -> _Place:
    try:
        newest, queue, path, given = json.loads(text)
    except (ValueError, TypeError):
        newest = queue = path = given = None
    if not (
        isinstance(newest, int) and isinstance(queue, str | None) and isinstance(path, str) and isinstance(given, int)
    ):
        raise InvalidInput("no search leads on from there", where="on", hint="take `on` of the answer before")
    return _Place(newest, queue, path, given)


#: What reads the rows of a file; it takes `where`.
_Read = Callable[..., Iterator[pa.RecordBatch]]


def _files(
    data: DataDir, vhost: str, queues: Iterable[str | None], topology: Topology | None, *, live: bool
) -> Iterator[tuple[_Place, AddFile, _Read]]:
    waiting = Waiting.look(data, vhost, topology) if live else Waiting()
    for queue in queues:
        path = data.unroutable(vhost) if queue is None else data.queue(vhost, queue)
        if tables.exists(path):
            found = unroutable_of(data, vhost) if queue is None else of_queue(data, vhost, queue, waiting=waiting)
            for file in found.files.values():
                read = partial(found.batches, file.path)
                yield _Place(stated_span(path, file).last, queue, file.path), file, read


def _matching(batches: Iterable[pa.RecordBatch], queue: str | None, selection: Selection) -> Iterator[FoundMessage]:
    """The chosen rows of a file, the newest first."""
    parts = []
    for batch in batches:
        if batch.num_rows:
            parts.append(batch.take(pa.array(selection.places(batch))))
    if not parts:
        return
    rows = pa.Table.from_batches(parts)
    numbers = {name: pc.struct_field(rows["routing"], name) for name in _ORDER[1:]}
    keys = pa.table({"routed_at": rows["routed_at"], **numbers})
    order = pc.sort_indices(keys, sort_keys=[(name, "descending") for name in _ORDER])
    for place in order.to_pylist():
        row = rows.slice(place, 1)
        (message,) = from_batch(row)
        routing: dict[str, Any] = row["routing"][0].as_py()
        yield FoundMessage(
            row=f"{routing['stream']}:{routing['batch_id']}:{routing['seq']}",
            queue=queue,
            reason=None if queue is not None else row["reason"][0].as_py(),
            routed_at=iso(row["routed_at"][0].as_py(), "milliseconds"),
            message=message,
        )
