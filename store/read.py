"""Reading queue tables as a consumer: with a filter, in row order, with or without taking the rows.

A consumer's filter selects what is read, the other rows stay. Row order is that of routing: batch
clock, stream, batch, number in the batch; together these identify a row of one queue.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from router.columns import BatchView
from router.errors import InvalidInput, NotFound
from router.filters import Filter, FilterGroups, parse
from router.filters.sets import parse_filter_set
from router.message import HEADER, MESSAGE_SCHEMA, QUEUE_SCHEMA
from store import data_files, tables
from store.log import AddFile, RemoveFile, TableLog
from store.paths import DataDir

#: Rows that are filtered at once.
BATCH_ROWS: Final = 65_536
#: What orders and identifies the rows of a queue.
_ORDER: Final = ("routed_at", "stream", "batch_id", "seq")
_ORDER_COLUMNS: Final = ("routing", "routed_at")
#: What a consumer's filter may be: text in a dialect, a filter set in JSON form, or an already parsed one.
ConsumerFilter = str | Mapping[str, Any] | Filter

Rows = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, order=True)
class RowId:
    """Which message a row is a copy of; unique within one queue."""

    stream: str
    batch_id: int
    seq: int


def consumer_filter(
    filter: ConsumerFilter | None,
    *,
    dialect: str = "jms",
    connection: str | None = None,
) -> Filter | None:
    """The parsed filter of a consumer: text in `dialect`, or a filter set (no-local compares with `connection`).

    Raises FilterError with position and hint.
    """
    if filter is None or isinstance(filter, Filter):
        return filter
    if isinstance(filter, str):
        return parse(filter, dialect)
    if isinstance(filter, Mapping):
        return parse_filter_set(filter, owner=connection)
    raise InvalidInput(f"a filter is text or a filter set, not {type(filter).__name__}", where="filter")


def read_queue(
    data: str | Path | DataDir,
    queue: str,
    *,
    vhost: str = "/",
    filter: ConsumerFilter | None = None,
    dialect: str = "jms",
    version: int | None = None,
    columns: Sequence[str] | None = None,
    connection: str | None = None,
) -> pa.Table:
    """The rows of a queue in row order, as a table of the queue columns or of those named.

    `filter` is a consumer's: text in `dialect` (jms, apache-selector, artemis, amqp-sql) or a filter set;
    `connection` is the reader's, for no-local; `version` reads the Delta table as it was. Raises
    NotFound for a queue or column that does not exist and FilterError for a bad filter.

    >>> late = read_queue("data", "delays", filter="dep_delay > 60")  # doctest: +SKIP
    """
    source = _open(data, queue, vhost, version)
    condition = consumer_filter(filter, dialect=dialect, connection=connection)
    wanted = _columns(columns)
    read = set(wanted) | set(_ORDER_COLUMNS) | (set(MESSAGE_SCHEMA.names) if condition is not None else set())
    names = [name for name in QUEUE_SCHEMA.names if name in read]
    found = []
    for file in source.files:
        for batch in _batches(source.path, file, names):
            found.append(pa.Table.from_batches([batch]).filter(pa.array(_accepted(batch, condition))))
    schema = pa.schema([QUEUE_SCHEMA.field(name) for name in names])
    rows = pa.concat_tables(found) if found else schema.empty_table()
    return rows.take(_order(rows)).select(wanted)


def browse(
    data: DataDir,
    queue: str,
    *,
    vhost: str = "/",
    limit: int | None = None,
    condition: Filter | None = None,
) -> pa.Table:
    """The first `limit` rows that the condition accepts, in row order; nothing is changed."""
    source = _open(data, queue, vhost, None)
    return _first(source, limit, condition).rows(source)


@dataclass(frozen=True, slots=True)
class Taken:
    """Rows taken from a queue, and how many the queue held before, filter or not."""

    rows: pa.Table
    held: int


def take(
    data: DataDir,
    queue: str,
    *,
    vhost: str = "/",
    limit: int | None = None,
    condition: Filter | None = None,
    requeue: bool = False,
) -> Taken:
    """The first `limit` rows in row order, removed from the queue in one commit; all or none.

    With `requeue` they stay, with a delivery more in header.delivery_count. The rows are as they were
    before. Two consumers never take the same row: each commit holds for exactly the version that was
    read. Raises CommitConflict when every attempt lost its race.
    """
    for _ in tables.attempts(data.queue(vhost, queue)):
        source = _open(data, queue, vhost, None)
        chosen = _first(source, limit, condition)
        held = source.rows
        if not chosen.positions:
            return Taken(QUEUE_SCHEMA.empty_table(), held)
        rows = chosen.rows(source)
        masks = {file: chosen.mask(file, source) for file in chosen.positions}
        if _commit(source, masks, "requeue" if requeue else "get", redeliver=requeue):
            return Taken(rows, held)
    raise AssertionError("attempts() ends by raising")


def delete_rows(data: DataDir, queue: str, rows: Iterable[RowId], *, vhost: str = "/") -> int:
    """Delete the rows with those identities in one commit; gives how many of them were still there."""
    wanted = set(rows)
    for _ in tables.attempts(data.queue(vhost, queue)):
        source = _open(data, queue, vhost, None)
        masks = {}
        for file in source.files:
            mask = np.array([row in wanted for row in _identities(source.path, file)], np.bool_)
            if mask.any():
                masks[file] = mask
        if not masks or _commit(source, masks, "delete"):
            return int(sum(mask.sum() for mask in masks.values()))
    raise AssertionError("attempts() ends by raising")


def delete_matching(data: DataDir, queue: str, condition: Filter | None, *, vhost: str = "/") -> int:
    """Delete every row that the condition accepts (None: all of them) in one commit; gives how many."""
    masks: Mapping[str, Rows | None]
    for _ in tables.attempts(data.queue(vhost, queue)):
        source = _open(data, queue, vhost, None)
        if condition is None:
            deleted = source.rows
            masks = dict.fromkeys(source.files)
        else:
            selected = {file: _accepted_in(source.path, file, condition) for file in source.files}
            deleted = int(sum(mask.sum() for mask in selected.values()))
            masks = {file: mask for file, mask in selected.items() if mask.any()}
        if not masks or _commit(source, masks, "purge" if condition is None else "delete"):
            return deleted
    raise AssertionError("attempts() ends by raising")


def row_ids(rows: pa.Table) -> list[RowId]:
    """The identities of rows that carry their `routing` column."""
    routing = rows["routing"].combine_chunks()
    parts = [pc.struct_field(routing, name).to_pylist() for name in ("stream", "batch_id", "seq")]
    return [RowId(*part) for part in zip(*parts, strict=True)]


# -- files of one version -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Source:
    """One version of a queue table: its files with their sizes; `log` is that of the newest version."""

    path: str
    files: Mapping[str, int]
    log: TableLog | None = None

    @property
    def rows(self) -> int:
        """How many rows the newest version has."""
        return 0 if self.log is None else tables.rows_in(self.log)


def _open(data: str | Path | DataDir, queue: str, vhost: str, version: int | None) -> _Source:
    directory = data if isinstance(data, DataDir) else DataDir.open(data)
    path = directory.queue(vhost, queue)
    if not tables.exists(path):
        raise NotFound(f"no queue {queue!r} in vhost {vhost!r}", where=path)
    if version is None:
        log = tables.open_log(path, tables.QUEUE, vhost=vhost, name=queue, files=True)
        return _Source(path, {name: file.size for name, file in tables.files_of(log).items()}, log)
    table = tables.open_table(path, tables.QUEUE, vhost=vhost, name=queue, version=version)
    files = pa.table(table.get_add_actions()).select(["path", "size_bytes"]).to_pydict()
    return _Source(path, dict(zip(files["path"], files["size_bytes"], strict=True)))


def _columns(columns: Sequence[str] | None) -> list[str]:
    if columns is None:
        return list(QUEUE_SCHEMA.names)
    for name in columns:
        if name not in QUEUE_SCHEMA.names:
            raise NotFound(f"queue tables have no column {name!r}", where="columns", hint=", ".join(QUEUE_SCHEMA.names))
    return list(columns)


def _batches(path: str, file: str, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of one file; columns that an older file does not have are null."""
    dataset = ds.dataset(str(Path(path, file)), schema=QUEUE_SCHEMA, format="parquet")
    yield from dataset.to_batches(columns=columns, batch_size=BATCH_ROWS, use_threads=False)


def _table(path: str, file: str, columns: Sequence[str] | None = None) -> pa.Table:
    names = QUEUE_SCHEMA.names if columns is None else columns
    schema = pa.schema([QUEUE_SCHEMA.field(name) for name in names])
    return pa.Table.from_batches(list(_batches(path, file, list(names))), schema=schema)


def _accepted(batch: pa.RecordBatch, condition: Filter | None) -> Rows:
    """Which rows the condition accepts; all of them without one."""
    mask = np.full(batch.num_rows, condition is None)
    if batch.num_rows and condition is not None:
        view = BatchView(batch.select(MESSAGE_SCHEMA.names), clock_ms=time.time_ns() // 1_000_000)
        rows = np.arange(batch.num_rows, dtype=np.int64)
        chosen = FilterGroups([[condition]]).select(view, rows, np.zeros(batch.num_rows, np.int32))
        mask[chosen.pair] = True
    return mask


def _accepted_in(path: str, file: str, condition: Filter) -> Rows:
    masks = [_accepted(batch, condition) for batch in _batches(path, file, MESSAGE_SCHEMA.names)]
    return np.concatenate(masks) if masks else np.zeros(0, np.bool_)


def _identities(path: str, file: str) -> list[RowId]:
    return row_ids(_table(path, file, ["routing"]))


def _order_keys(rows: pa.Table) -> pa.Table:
    routing = rows["routing"].combine_chunks()
    keys = [rows["routed_at"], *(pc.struct_field(routing, name) for name in _ORDER[1:])]
    return pa.table(dict(zip(_ORDER, keys, strict=True)))


def _order(rows: pa.Table) -> pa.Array:
    return pc.sort_indices(_order_keys(rows), sort_keys=[(name, "ascending") for name in _ORDER])


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Rows chosen in row order, as (file, row) pairs, and per file."""

    order: tuple[tuple[str, int], ...]
    positions: Mapping[str, list[int]]

    def rows(self, source: _Source) -> pa.Table:
        """The chosen rows in row order."""
        parts: list[pa.Table] = []
        place: dict[tuple[str, int], int] = {}
        for file, rows in self.positions.items():
            for row in rows:
                place[file, row] = len(place)
            parts.append(_table(source.path, file).take(pa.array(rows)))
        if not parts:
            return QUEUE_SCHEMA.empty_table()
        return pa.concat_tables(parts).take(pa.array([place[at] for at in self.order]))

    def mask(self, file: str, source: _Source) -> Rows:
        """Which rows of a file are chosen."""
        counted = sum(batch.num_rows for batch in _batches(source.path, file, ["routed_at"]))
        mask = np.zeros(counted, np.bool_)
        mask[self.positions[file]] = True
        return mask


def _first(source: _Source, limit: int | None, condition: Filter | None) -> _Chosen:
    """The first rows in row order; only the columns that order and the filter need are read."""
    columns = [*_ORDER_COLUMNS, *(MESSAGE_SCHEMA.names if condition is not None else ())]
    keys, places = [], []
    for number, file in enumerate(source.files):
        start = 0
        for batch in _batches(source.path, file, columns):
            mask = _accepted(batch, condition)
            found = pa.Table.from_batches([batch]).select(_ORDER_COLUMNS).filter(pa.array(mask))
            rows = start + np.flatnonzero(mask)
            keys.append(_order_keys(found))
            places.append(np.stack([np.full(len(rows), number), rows], axis=1))
            start += batch.num_rows
    if not keys:
        return _Chosen((), {})
    order = pc.sort_indices(pa.concat_tables(keys), sort_keys=[(name, "ascending") for name in _ORDER])
    chosen = np.concatenate(places)[np.asarray(order)[:limit]]
    names = list(source.files)
    positions: dict[str, list[int]] = {}
    for number, row in chosen.tolist():
        positions.setdefault(names[number], []).append(row)
    return _Chosen(tuple((names[number], row) for number, row in chosen.tolist()), positions)


def _commit(source: _Source, masks: Mapping[str, Rows | None], change: str, *, redeliver: bool = False) -> bool:
    """Rewrite files without the masked rows (a None mask: drop the file); False for a lost race."""
    actions: list[AddFile | RemoveFile] = []
    for file, mask in masks.items():
        actions.append(RemoveFile(file, source.files[file]))
        if mask is None:
            continue
        # with every column of the file, also those that only a newer schema knows
        rows = pq.read_table(Path(source.path, file), partitioning=None)
        if redeliver:
            # a file in which no message has a header has no such column
            kept = _redelivered(rows, _table(source.path, file, ["header"])["header"].combine_chunks(), mask)
        else:
            kept = rows.filter(pa.array(~mask))
        if kept.num_rows:
            actions.append(data_files.write_file(source.path, kept, prefix=change))
    assert source.log is not None  # noqa: S101  # only the newest version is ever changed
    done = source.log.commit(actions, info={"bindery.change": change})
    if done is None:
        added = [action.path for action in actions if isinstance(action, AddFile)]
        data_files.drop_unused(source.path, added)
    return done is not None


def _redelivered(rows: pa.Table, header: pa.StructArray, mask: Rows) -> pa.Table:
    """The rows, whose headers are given, with one delivery more where the mask says so."""
    fields = dict(zip((field.name for field in HEADER), header.flatten(), strict=True))
    count = pc.fill_null(fields["delivery_count"], 0)
    chosen = pa.array(mask)
    fields["delivery_count"] = pc.if_else(chosen, pc.add(count, 1), fields["delivery_count"])
    absent = pc.and_(header.is_null(), pc.invert(chosen))
    rebuilt = pa.StructArray.from_arrays(list(fields.values()), fields=list(HEADER), mask=absent)
    place = rows.schema.get_field_index("header")
    return rows.append_column("header", rebuilt) if place < 0 else rows.set_column(place, "header", rebuilt)
