"""Pages of a queue's rows, for looking at: at a version or a point, in row order or from the newest on.

A page goes on behind a row, not after a number of rows: whatever was taken or appended meanwhile, no row is shown twice
or passed over. Files that cannot hold a row of it are not opened, and of bodies only beginnings are kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bindery.analytics.point import At, LeftOut, ReadPoint, TableAt
from bindery.router.errors import InvalidInput, NotFound, Stopped, UnsupportedTable
from bindery.router.filters import Filter
from bindery.router.message import MESSAGE_SCHEMA, QUEUE_SCHEMA
from bindery.router.model import Topology
from bindery.store import file_rows, past, tables
from bindery.store.actions import AddFile
from bindery.store.deferred import Waiting
from bindery.store.past import LogAt
from bindery.store.paths import DataDir
from bindery.store.places import at as place_at
from bindery.store.read import RowId, Rows, accepted_rows
from bindery.store.recorded import parse_row
from bindery.store.row_order import first_rows
from bindery.store.statistics import stated_span

#: Rows whose bodies are in memory together.
_TOGETHER: Final = 64
_NEVER: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a row stands in row order: when it was routed (microseconds since 1970), and which message it is."""

    moment: int
    row: RowId

    def __str__(self) -> str:
        return f"{self.moment}:{self.row.stream}:{self.row.batch_id}:{self.row.seq}"

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """What `str` gave. Raises InvalidInput for anything else."""
        moment, separator, row = text.partition(":")
        digits = moment.removeprefix("-")
        if not (separator and digits.isascii() and digits.isdecimal() and len(digits) < 20):
            raise InvalidInput(f"{text[:80]!r} is no place of a row", where="after", hint="take it from another page")
        return cls(int(moment), parse_row(row))


@dataclass(frozen=True, slots=True)
class RowPage:
    """Rows of a queue, and where the pages before and behind them begin (None: there is none).

    rows         of QUEUE_SCHEMA; `body` has its first bytes
    body_bytes   how long each body is; None for a message without one
    places       where each row stands
    held         rows of the queue at that version, filter or not; `waiting` of them are not in its table yet
    """

    rows: pa.Table
    body_bytes: tuple[int | None, ...]
    places: tuple[Cursor, ...]
    held: int
    previous: Cursor | None
    next: Cursor | None
    waiting: int = 0


def queue_at(
    data: DataDir,
    vhost: str,
    name: str,
    *,
    version: int | None = None,
    at: At | None = None,
    live: bool = True,
    topology: Topology | None = None,
) -> tuple[TableAt, ReadPoint | None]:
    """The table of a queue now, at a version of its own, or at a point, which is given too.

    Now shows what is in the table and waits for it, also of batches under way, as consumers see it; a version is the
    table alone, and so is whatever is not wanted `live`. `topology` is the newest, where it is at hand. Raises
    InvalidInput for both or for what is no point, NotFound for a version or point that cannot be read (any more).
    """
    if version is not None and at is not None:
        raise InvalidInput("table_version and at exclude each other", where="at", hint="state one of them")
    if at is not None:
        point = replace(ReadPoint.of(data, at), live=live)
        return point.queue(vhost, name), point
    path = data.queue(vhost, name)
    if not tables.exists(path):
        raise NotFound(f"queue {name!r} in vhost {vhost!r} has no table", where=path)
    if version is not None:
        _check_there(path, version)
    waiting = Waiting.look(data, vhost, topology) if live and version is None else Waiting()
    log = LogAt(path, version)
    tables.check_table(log.state, path, tables.QUEUE, vhost=vhost, name=name)
    found = waiting.queue(name, log)
    return TableAt(path, log.state.table_id, log.version, tuple(found.files.values()), tail=found.tail), None


def _check_there(path: str, version: int) -> None:
    known = past.versions_of(path)
    if known and not known[0] <= version <= known[-1]:
        raise NotFound(
            f"the table has no version {version} that can be read: versions {known[0]} to {known[-1]} are there; "
            "older ones go after its retention",
            where="table_version",
        )


def page_of(
    table: TableAt,
    *,
    limit: int,
    condition: Filter | None = None,
    newest: bool = False,
    after: Cursor | None = None,
    before: Cursor | None = None,
    preview: int,
    stop: Callable[[], bool] = lambda: False,
) -> RowPage:
    """`limit` rows that the condition accepts: the first ones, those after a place or those before one.

    The order is row order, or with `newest` the other way round. `preview` is how many bytes of a body are kept. `stop`
    is asked between portions of rows; raises Stopped when it says so, InvalidInput for both places, NotFound where a
    file of an older version has been removed.
    """
    if after is not None and before is not None:
        raise InvalidInput("after and before exclude each other", where="after", hint="state one of them")
    backwards = before is not None
    bound = before if backwards else after
    reverse = newest != backwards

    def accepted(batch: pa.RecordBatch) -> Rows:
        if stop():
            raise Stopped("the look was stopped", where="rows")
        mask = accepted_rows(batch, condition) & _seen(batch, table.left_out)
        return mask if bound is None else mask & _behind(batch, bound, reverse=reverse)

    files = {file.path: file for file in table.files if bound is None or _reaches(table.path, file, bound, reverse)}
    columns = MESSAGE_SCHEMA.names if condition is not None else ()
    with _of_the_past(table):
        chosen = first_rows(table.path, files, limit + 1, accepted, columns, newest=reverse, elsewhere=table.tail)
        more = len(chosen.order) > limit
        order = chosen.order[:limit][::-1] if backwards else chosen.order[:limit]
        rows, sizes = _beginnings(table, order, preview)
        held = sum(_rows_in(table.path, file) for file in table.files)
    places = tuple(_places(rows))
    return RowPage(
        rows,
        sizes,
        places,
        held,
        previous=places[0] if places and (more if backwards else bound is not None) else None,
        next=places[-1] if places and (more or backwards) else None,
        waiting=table.waiting,
    )


def row_of(table: TableAt, row: RowId, preview: int) -> RowPage:
    """The row of an identity, the first one where old data has several. Raises NotFound when the table has none."""
    files = {file.path: file for file in table.files if _may_hold(file, row)}
    with _of_the_past(table):
        chosen = first_rows(
            table.path,
            files,
            1,
            lambda batch: _identical(batch, row) & _seen(batch, table.left_out),
            elsewhere=table.tail,
        )
        rows, sizes = _beginnings(table, chosen.order, preview)
    if not rows.num_rows:
        raise NotFound(
            f"the queue has no row {row.stream}:{row.batch_id}:{row.seq} there: it was taken, or is of another queue",
            where="row",
        )
    return RowPage(rows, sizes, tuple(_places(rows)), held=1, previous=None, next=None)


def holds(table: TableAt, row: RowId) -> bool:
    """Whether a table has a row of that identity."""
    for file in table.files:
        if _may_hold(file, row):
            for batch in table.batches(file.path, QUEUE_SCHEMA, columns=["routing"]):
                if _identical(batch, row).any():
                    return True
    return False


@contextmanager
def _of_the_past(table: TableAt) -> Iterator[None]:
    """Raise NotFound for a file that has been removed, which ends an old version and not the table."""
    try:
        yield
    except UnsupportedTable as error:
        if error.where is not None and error.where.startswith(table.path):
            known = past.versions_of(table.path)
            if known and table.version < known[-1] and place_at(error.where).stat() is None:
                raise NotFound(
                    f"version {table.version} of the table cannot be read any more: its files were removed after the "
                    "table's retention",
                    where="table_version",
                ) from None
        raise


def _beginnings(
    table: TableAt, order: Sequence[tuple[str, int]], preview: int
) -> tuple[pa.Table, tuple[int | None, ...]]:
    """The chosen rows in their order with the first bytes of their bodies, and how long those are."""
    found: dict[tuple[str, int], tuple[pa.RecordBatch, int | None]] = {}
    wanted: dict[str, list[int]] = {}
    for file, row in order:
        wanted.setdefault(file, []).append(row)
    for file, rows in wanted.items():
        left, start = sorted(rows), 0
        for batch in table.batches(file, QUEUE_SCHEMA, together=_TOGETHER):
            here = [row for row in left if start <= row < start + batch.num_rows]
            for row in here:
                one = batch.slice(row - start, 1)
                body = one.column("body")[0].as_buffer()
                kept = None if body is None else body.slice(0, min(preview, body.size)).to_pybytes()
                cut = one.set_column(
                    one.schema.get_field_index("body"), QUEUE_SCHEMA.field("body"), pa.array([kept], pa.binary())
                )
                # a slice would hold the bodies of its neighbours
                whole = pa.RecordBatch.from_arrays(
                    [column.take(pa.array([0])) for column in cut.columns], cut.schema.names
                )
                found[file, row] = (whole, None if body is None else body.size)
            left = left[len(here) :]
            start += batch.num_rows
            if not left:
                break
    if not order:
        return QUEUE_SCHEMA.empty_table(), ()
    batches = [found[place][0].cast(QUEUE_SCHEMA) for place in order]
    return pa.Table.from_batches(batches), tuple(found[place][1] for place in order)


def _places(rows: pa.Table) -> Iterator[Cursor]:
    times = pc.fill_null(rows["routed_at"].cast(pa.int64()), _NEVER).to_pylist()
    for moment, routing in zip(times, rows["routing"].to_pylist(), strict=True):
        yield Cursor(moment, RowId(routing["stream"], routing["batch_id"], routing["seq"]))


def _identity(batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array, pa.Array]:
    routing = batch.column("routing")
    stream, batch_id, seq = (pc.struct_field(routing, name) for name in ("stream", "batch_id", "seq"))
    return stream, batch_id, seq


def _identical(batch: pa.RecordBatch, row: RowId) -> Rows:
    stream, batch_id, seq = _identity(batch)
    same = pc.and_(pc.equal(stream, row.stream), pc.and_(pc.equal(batch_id, row.batch_id), pc.equal(seq, row.seq)))
    return _as_mask(same)


def _behind(batch: pa.RecordBatch, bound: Cursor, *, reverse: bool) -> Rows:
    """Which rows stand behind a place, in row order or in the other one."""
    further = pc.less if reverse else pc.greater
    stream, batch_id, seq = _identity(batch)
    # a row without a time is the last in either order
    times = pc.fill_null(batch.column("routed_at").cast(pa.int64()), -_NEVER if reverse else _NEVER)
    mask = np.zeros(batch.num_rows, np.bool_)
    same = np.ones(batch.num_rows, np.bool_)
    row = bound.row
    for values, limit in ((times, bound.moment), (stream, row.stream), (batch_id, row.batch_id), (seq, row.seq)):
        mask |= same & _as_mask(further(values, limit))
        same &= _as_mask(pc.equal(values, limit))
    return mask


def _seen(batch: pa.RecordBatch, left_out: Sequence[LeftOut]) -> Rows:
    mask = np.ones(batch.num_rows, np.bool_)
    if left_out:
        streams, batch_ids, _ = _identity(batch)
        for one in left_out:
            hidden = pc.and_(pc.greater(batch_ids, one.after), pc.less_equal(batch_ids, one.last))
            mask &= ~_as_mask(pc.and_(pc.equal(streams, one.stream), hidden))
    return mask


def _as_mask(found: pa.Array) -> Rows:
    mask: Rows = pc.fill_null(found, False).to_numpy(zero_copy_only=False)
    return mask


def _reaches(path: str, file: AddFile, bound: Cursor, reverse: bool) -> bool:
    """Whether a file may hold a row behind a place."""
    span = stated_span(path, file)
    return span.first <= bound.moment if reverse else span.last >= bound.moment


def _may_hold(file: AddFile, row: RowId) -> bool:
    """Whether a file may hold a row of that identity, by the bounds that the log states."""
    try:
        stats: Mapping[str, Any] = json.loads(file.stats or "{}")
        low, high = (stats[name]["routing"] for name in ("minValues", "maxValues"))
        within: bool = low["batch_id"] <= row.batch_id <= high["batch_id"] and low["seq"] <= row.seq <= high["seq"]
    except (ValueError, KeyError, TypeError):
        return True
    return within


def _rows_in(path: str, file: AddFile) -> int:
    return file_rows.footer(path, file.path).num_rows if file.rows is None else file.rows
