"""Reading queue tables as a consumer: with a filter, in row order, with or without taking the rows.

A consumer's filter selects what is read, the other rows stay. Row order is that of routing: batch
clock, stream, batch, number in the batch; together these identify a row of one queue.

What waits for a deferred queue in journals is read with the rows of its table (`bindery.store.deferred.live`), but for
`live=False`. Whoever takes or deletes rows has it moved into the table first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.columns import BatchView
from bindery.router.errors import NotFound
from bindery.router.filters import Filter, FilterGroups
from bindery.router.message import HEADER, MESSAGE_SCHEMA, QUEUE_SCHEMA, UNROUTABLE_SCHEMA
from bindery.router.model import Queue
from bindery.store import file_rows, tables
from bindery.store.consumer_filters import ConsumerFilter, queue_filter
from bindery.store.deferred import LiveQueue, Waiting, materialise_queue
from bindery.store.deferred.following import Journals
from bindery.store.deferred.live import Progress, waiting_counts
from bindery.store.log import TableLog
from bindery.store.paths import DataDir
from bindery.store.queue_use import note_use
from bindery.store.rewriting import UNCHANGED, Rewriting, Unchanged
from bindery.store.row_bag import Places, RowBag, RowSearch
from bindery.store.row_order import ORDER_COLUMNS, Chosen, first_rows, in_order
from bindery.store.topology import TopologyStore

Rows = npt.NDArray[np.bool_]
_MESSAGE: Final[Sequence[str]] = MESSAGE_SCHEMA.names


@dataclass(frozen=True, slots=True, order=True)
class RowId:
    """Which message a row is a copy of; unique within one queue."""

    stream: str
    batch_id: int
    seq: int


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
    payload: str | None = None,
    live: bool = True,
) -> pa.Table:
    """The rows of a queue in row order, as a table of the queue columns or of those named.

    `filter` is a consumer's: text in `dialect` (`bindery.router.filters.DIALECTS`) or a filter set;
    `connection` is the reader's, for no-local, `payload` what bodies are where the queue does not declare it;
    `version` reads the Delta table as it was. Of a deferred queue what waits in journals is read too, but where there
    is a `version`, or `live` is False: then it is the table alone. Raises NotFound for a queue or column that does not
    exist, FilterError for a bad filter, and InvalidInput for a payload that is none or not that of the queue.

    >>> late = read_queue("data", "delays", filter="dep_delay > 60")  # doctest: +SKIP
    """
    directory = data if isinstance(data, DataDir) else DataDir.open(data)
    files = _files(directory, queue, vhost, version, live=live)
    condition = queue_filter(
        directory, queue, filter, vhost=vhost, dialect=dialect, connection=connection, payload=payload
    )
    wanted = _columns(columns)
    read = set(wanted) | set(ORDER_COLUMNS) | (set(MESSAGE_SCHEMA.names) if condition is not None else set())
    names = [name for name in QUEUE_SCHEMA.names if name in read]
    found = []
    for file in files:
        for batch in file(columns=names):
            found.append(pa.Table.from_batches([batch]).filter(pa.array(accepted_rows(batch, condition))))
    schema = pa.schema([QUEUE_SCHEMA.field(name) for name in names])
    rows = pa.concat_tables(found) if found else schema.empty_table()
    return rows.take(in_order(rows)).select(wanted)


def count(data: DataDir, queue: str, *, vhost: str = "/", condition: Filter | None = None, live: bool = True) -> int:
    """How many rows the condition accepts; without one nothing is read but logs, and marks of what waits."""
    return counted(data, queue, vhost=vhost, condition=condition, live=live).rows


@dataclass(frozen=True, slots=True)
class Counted:
    """Rows of a queue, and how many of them wait for its table."""

    rows: int
    waiting: int


def counted(
    data: DataDir, queue: str, *, vhost: str = "/", condition: Filter | None = None, live: bool = True
) -> Counted:
    """What `count` gives, and how many of these rows wait."""
    found = of_queue(data, vhost, queue, live=live)
    if condition is None:
        return Counted(found.rows, found.waiting)
    rows = {name: int(_mask(found.batches(name, columns=_MESSAGE), condition).sum()) for name in found.files}
    return Counted(sum(rows.values()), sum(rows[name] for name in found.tail))


def count_queues(data: DataDir, queues: Sequence[Queue], *, live: bool = True) -> list[Counted]:
    """The rows of each of some queues; nothing is read but logs, and what journals tell of files in which rows wait."""
    found = Journals(data).look().journals if live else ()
    if not found:
        return [Counted(tables.count_rows(data, queue.vhost, queue.name), 0) for queue in queues]
    rows, told = {}, {}
    for queue in queues:
        log = _newest(data, queue.name, queue.vhost)
        rows[queue.id], told[queue.id] = tables.rows_in(log), Progress.of(log)
    waiting = waiting_counts(found, told)
    return [Counted(rows[one.id] + waiting.get(one.id, 0), waiting.get(one.id, 0)) for one in queues]


@dataclass(frozen=True, slots=True)
class Taken:
    """Rows that a queue gave, and how many it held before, filter or not; `waiting` of them for its table."""

    rows: pa.Table
    held: int
    waiting: int = 0


def browse(
    data: DataDir,
    queue: str,
    *,
    vhost: str = "/",
    limit: int | None = None,
    condition: Filter | None = None,
    live: bool = True,
) -> pa.Table:
    """The first `limit` rows that the condition accepts, in row order; nothing is changed."""
    return look(data, queue, vhost=vhost, limit=limit, condition=condition, live=live).rows


def look(
    data: DataDir,
    queue: str,
    *,
    vhost: str = "/",
    limit: int | None = None,
    condition: Filter | None = None,
    live: bool = True,
) -> Taken:
    """What `browse` gives, and how many rows the queue holds."""
    note_use(data, vhost, queue)
    found = of_queue(data, vhost, queue, live=live)
    return Taken(_first(found, limit, condition).rows(), found.rows, found.waiting)


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
    before. Two consumers never take the same row: a commit that removes a file holds only while the table
    has it. Raises CommitConflict when every attempt lost its race; when it raises CommitUnknown, the rows
    were taken or not, and a look at the queue will tell.
    """
    note_use(data, vhost, queue)
    log = _all_in_table(data, queue, vhost)
    attempts = tables.attempts(log.path)
    change = "requeue" if requeue else "get"
    while True:
        # The queue is taken from as it is read here, and what is appended before the commit counts as appended
        # after it: nobody else took the rows meanwhile, since their files are there still.
        chosen = _first(LiveQueue(log), limit, condition)
        held = tables.rows_in(log)
        if not chosen.positions:
            return Taken(QUEUE_SCHEMA.empty_table(), held)
        rows = chosen.rows()

        def without(file: str, chosen: Chosen = chosen) -> pa.Table | Unchanged:
            positions = chosen.positions.get(file)
            return UNCHANGED if positions is None else rewritten(log.path, file, positions, redeliver=requeue)

        with Rewriting(log, without, prefix=change) as rewriting:
            for _ in attempts:
                if not chosen.positions.keys() <= tables.files_of(log).keys():
                    break  # somebody else has taken rows, or they stand in other files now
                if rewriting.commit(info={"bindery.change": change}) is not None:
                    return Taken(rows, held)
                log.refresh()


def delete_rows(data: DataDir, queue: str, rows: pa.Table, *, vhost: str = "/") -> int:
    """Delete rows that were read before, in one commit; gives how many of them were still there.

    `rows` has the columns `routing` and `routed_at` at least. A row is the same if it is equal in every
    column that is given, but for the header, which counts deliveries; of several such rows as many are
    deleted as were given. Raises InvalidInput without those columns.
    """
    bag = RowBag(rows.select([name for name in rows.column_names if name != "header"]))
    note_use(data, vhost, queue)
    log = _all_in_table(data, queue, vhost)
    found = RowSearch(log, bag, QUEUE_SCHEMA)

    def without(file: str) -> pa.Table | Unchanged:
        return rewritten(log.path, file, found.places[file]) if file in found.places else UNCHANGED

    attempts = tables.attempts(log.path)
    while True:
        with Rewriting(log, without, prefix="delete") as rewriting:
            for _ in attempts:
                if not found.places:
                    return 0
                if rewriting.commit(info={"bindery.change": "delete"}) is not None:
                    return sum(map(len, found.places.values()))
                log.refresh()
                if not found.update():
                    break


def delete_matching(data: DataDir, queue: str, condition: Filter | None, *, vhost: str = "/") -> int:
    """Delete every row that the condition accepts (None: all of them) in one commit; gives how many."""
    log = _all_in_table(data, queue, vhost)
    chosen: dict[str, int] = {}

    def others(file: str) -> pa.Table | Unchanged | None:
        if condition is None:
            return None
        mask = _mask(file_rows.batches(log.path, file, QUEUE_SCHEMA, columns=_MESSAGE), condition)
        chosen[file] = int(mask.sum())
        if not chosen[file]:
            return UNCHANGED
        return None if mask.all() else rewritten(log.path, file, np.flatnonzero(mask))

    change = "purge" if condition is None else "delete"
    with Rewriting(log, others, prefix=change) as rewriting:
        for _ in tables.attempts(log.path):
            if not rewriting.actions():
                return 0
            held = tables.rows_in(log) if condition is None else 0
            deleted = held or sum(chosen.get(name, 0) for name in tables.files_of(log))
            if rewriting.commit(info={"bindery.change": change}) is not None:
                return deleted
            log.refresh()
    raise AssertionError("attempts() ends by raising")


def row_ids(rows: pa.Table) -> list[RowId]:
    """The identities of rows that carry their `routing` column."""
    routing = rows["routing"].combine_chunks()
    parts = [pc.struct_field(routing, name).to_pylist() for name in ("stream", "batch_id", "seq")]
    return [RowId(*part) for part in zip(*parts, strict=True)]


# -- files of one version -----------------------------------------------------------------------------


def _newest(data: DataDir, queue: str, vhost: str) -> TableLog:
    """The log of a queue's table, with its files."""
    path = _existing(data, queue, vhost)
    return tables.open_log(path, tables.QUEUE, vhost=vhost, name=queue, files=True)


def _existing(data: DataDir, queue: str, vhost: str) -> str:
    path = data.queue(vhost, queue)
    if not tables.exists(path):
        raise NotFound(f"no queue {queue!r} in vhost {vhost!r}", where=path)
    return path


def of_queue(data: DataDir, vhost: str, queue: str, *, live: bool = True, waiting: Waiting | None = None) -> LiveQueue:
    """The files of a queue: of its table, and of what waits for it, unless the table alone is wanted.

    `waiting` is what a look at the journals has found, for whoever reads several queues.
    """
    if not live:
        return LiveQueue(_newest(data, queue, vhost))
    looked = waiting or Waiting.look_for(data, vhost, queue)
    return looked.queue(queue, _newest(data, queue, vhost))


def unroutable_of(data: DataDir, vhost: str) -> LiveQueue:
    """The files of a vhost's unroutable messages. Raises UnsupportedTable."""
    log = tables.open_log(data.unroutable(vhost), tables.UNROUTABLE, vhost=vhost, files=True)
    return LiveQueue(log, schema=UNROUTABLE_SCHEMA)


def _all_in_table(data: DataDir, queue: str, vhost: str) -> TableLog:
    """The log of a queue's table, which has got what waited for the queue."""
    _existing(data, queue, vhost)
    materialise_queue(data, TopologyStore(data), vhost, queue)
    return _newest(data, queue, vhost)


def _files(
    data: DataDir, queue: str, vhost: str, version: int | None, *, live: bool
) -> list[Callable[..., Iterator[pa.RecordBatch]]]:
    """What reads a queue's files, one for each: it takes `columns`."""
    if version is None:
        found = of_queue(data, vhost, queue, live=live)
        return [partial(found.batches, file) for file in found.files]
    table = tables.open_table(_existing(data, queue, vhost), tables.QUEUE, vhost=vhost, name=queue, version=version)
    path = data.queue(vhost, queue)
    files: list[str] = pa.table(table.get_add_actions())["path"].to_pylist()
    return [partial(file_rows.batches, path, file, QUEUE_SCHEMA) for file in files]


def _columns(columns: Sequence[str] | None) -> list[str]:
    if columns is None:
        return list(QUEUE_SCHEMA.names)
    for name in columns:
        if name not in QUEUE_SCHEMA.names:
            raise NotFound(f"queue tables have no column {name!r}", where="columns", hint=", ".join(QUEUE_SCHEMA.names))
    return list(columns)


def accepted_rows(batch: pa.RecordBatch, condition: Filter | None) -> Rows:
    """Which rows the condition accepts; all of them without one."""
    mask = np.full(batch.num_rows, condition is None)
    if batch.num_rows and condition is not None:
        view = BatchView(batch.select(MESSAGE_SCHEMA.names), clock_ms=time.time_ns() // 1_000_000)
        rows = np.arange(batch.num_rows, dtype=np.int64)
        chosen = FilterGroups([[condition]]).select(view, rows, np.zeros(batch.num_rows, np.int32))
        mask[chosen.pair] = True
    return mask


def _mask(batches: Iterable[pa.RecordBatch], condition: Filter) -> Rows:
    masks = [accepted_rows(batch, condition) for batch in batches]
    return np.concatenate(masks) if masks else np.zeros(0, np.bool_)


def _first(queue: LiveQueue, limit: int | None, condition: Filter | None) -> Chosen:
    columns = _MESSAGE if condition is not None else ()
    return first_rows(
        queue.log.path,
        queue.files,
        limit,
        lambda batch: accepted_rows(batch, condition),
        columns,
        elsewhere=queue.tail,
    )


def rewritten(path: str, file: str, places: Sequence[int] | Places, *, redeliver: bool = False) -> pa.Table:
    """The rows of a file without those at the places, or with one delivery more there."""
    # with every column of the file, also those that only a newer schema knows
    rows = file_rows.read_as_it_is(path, file)
    mask = np.zeros(rows.num_rows, np.bool_)
    mask[places] = True
    if not redeliver:
        return rows.filter(pa.array(~mask))
    # a file in which no message has a header has no such column
    header = file_rows.read(path, file, QUEUE_SCHEMA, columns=["header"])["header"].combine_chunks()
    return _redelivered(rows, header, mask)


def _redelivered(rows: pa.Table, header: pa.StructArray, mask: Rows) -> pa.Table:
    """The rows, whose headers are given, with one delivery more where the mask says so."""
    chosen = pa.array(mask)
    rebuilt = with_deliveries(
        header,
        lambda count: pc.if_else(chosen, pc.add(pc.fill_null(count, 0), 1), count),
        absent=pc.and_(header.is_null(), pc.invert(chosen)),
    )
    place = rows.schema.get_field_index("header")
    return rows.append_column("header", rebuilt) if place < 0 else rows.set_column(place, "header", rebuilt)


def with_deliveries(
    header: pa.StructArray, counted: Callable[[pa.Array], pa.Array], *, absent: pa.Array
) -> pa.StructArray:
    """Headers with other counts of deliveries, made from those that they have; `absent` tells which there are not."""
    fields = dict(zip((field.name for field in HEADER), header.flatten(), strict=True))
    fields["delivery_count"] = counted(fields["delivery_count"])
    return pa.StructArray.from_arrays(list(fields.values()), fields=list(HEADER), mask=absent)
