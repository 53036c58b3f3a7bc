"""Rows of journals for whoever looks for messages: the newest first, and no further back than is asked for.

A journal is as long as its stream's history. So a search that states no time ends after `MOST_ROWS` rows, and says how
far it has looked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from bindery.store import file_rows, tables
from bindery.store.actions import AddFile
from bindery.store.journal_files import journals
from bindery.store.paths import DataDir
from bindery.store.statistics import may_hold, stated_span

#: Rows that a search without a time looks through, and then the rest of the file that it is at.
MOST_ROWS: Final = 2_000_000
_MICROSECONDS: Final = 1_000_000
#: The last second that has a date.
_LAST: Final = 253_402_300_799 * _MICROSECONDS


@dataclass(slots=True)
class Looked:
    """How far journals were looked through: `rows` of them, and back to when if there are older ones (None: all)."""

    rows: int = 0
    back_to: datetime | None = None


@dataclass(frozen=True, slots=True)
class Position:
    """What rows are asked for by columns alone: `where` holds for them, and looks at these columns of the table."""

    where: pc.Expression
    columns: Sequence[str]


def rows_of_batch(
    data: DataDir, vhost: str, stream: str, batch_id: int, where: pc.Expression
) -> Iterator[pa.RecordBatch]:
    """The rows of one batch in a stream's journal that meet a condition; nothing where it is not of the vhost."""
    for path, file in _files(data, vhost, stream):
        if may_hold(file, batch_id):
            yield from _rows(path, file, where)


def newest_rows(
    data: DataDir,
    vhost: str,
    looked: Looked,
    *,
    since: datetime | None = None,
    position: Position | None = None,
    most: int = MOST_ROWS,
) -> Iterator[pa.RecordBatch]:
    """The rows of the vhost's journals, newest files first: those since a time, or about the newest `most`.

    `looked` says at any moment how far that was. A file none of whose rows is at the position is not read whole.
    """
    files = [(stated_span(path, file).last, path, file) for path, file in _files(data, vhost)]
    oldest = None if since is None else int(since.timestamp() * _MICROSECONDS)
    recent = None if since is None else pc.field("routed_at") >= pa.scalar(since, pa.timestamp("us", "UTC"))
    for newest, path, file in sorted(files, key=lambda one: (one[0], one[1], one[2].path), reverse=True):
        if oldest is not None and newest < oldest:
            return
        if oldest is None and looked.rows >= most:
            # a file that states nothing may be of any time
            looked.back_to = min(datetime.now(UTC), datetime.fromtimestamp(min(newest, _LAST) / _MICROSECONDS, UTC))
            return
        looked.rows += file.rows or 0
        if position is None:
            yield from _rows(path, file, recent)
        elif any(True for _ in _rows(path, file, position.where, position.columns)):
            yield from _rows(path, file, position.where if recent is None else position.where & recent)


def _files(data: DataDir, vhost: str, stream: str | None = None) -> Iterator[tuple[str, AddFile]]:
    """The files of the journals of a vhost, or of that of one stream, each with the path of its table."""
    for journal in journals(data, vhost, stream):
        yield from ((journal.log.path, file) for file in tables.files_of(journal.log).values())


def _rows(
    path: str, file: AddFile, where: pc.Expression | None, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    for batch in file_rows.batches(path, file.path, tables.JOURNAL.schema, columns=columns, where=where):
        if batch.num_rows:
            yield batch
