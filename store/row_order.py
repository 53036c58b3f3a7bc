"""Row order of queues, and the first rows in it.

Row order is that of routing: batch clock, stream, batch, number in the batch. Files say when their rows
were routed, so the first rows are found in the files that begin first: reading ends as soon as no unread
file can hold an earlier row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.message import QUEUE_SCHEMA, TIMESTAMP
from bindery.store import file_rows
from bindery.store.actions import AddFile
from bindery.store.statistics import Span, stated_span

#: Columns in which the order of a row stands.
ORDER_COLUMNS: Final = ("routing", "routed_at")
_ORDER: Final = ("routed_at", "stream", "batch_id", "seq")
_NEVER: Final = (1 << 63) - 1
_SORTED: Final = [(name, "ascending") for name in _ORDER]

Rows = npt.NDArray[np.bool_]


class Rowed(Protocol):
    """Rows that do not stand in a file of the queue's table, but are read as if they did."""

    def batches(self, *, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows, of columns of QUEUE_SCHEMA, always in the same order."""


#: Files of no table, by path: their rows.
Elsewhere = Mapping[str, Rowed]
_NOWHERE: Final[Elsewhere] = MappingProxyType({})


def in_order(rows: pa.Table) -> pa.Array:
    """The places of rows in row order."""
    return pc.sort_indices(_keys(rows), sort_keys=_SORTED)


def _keys(rows: pa.Table) -> pa.Table:
    routing = rows["routing"].combine_chunks()
    keys = [rows["routed_at"], *(pc.struct_field(routing, name) for name in _ORDER[1:])]
    return pa.table(dict(zip(_ORDER, keys, strict=True)))


@dataclass(frozen=True, slots=True)
class Chosen:
    """Rows chosen in row order, as (file, row) pairs, and per file; `elsewhere` has files that are not the table's."""

    path: str
    order: tuple[tuple[str, int], ...]
    positions: Mapping[str, list[int]]
    elsewhere: Elsewhere = field(default_factory=dict)

    def rows(self) -> pa.Table:
        """The chosen rows in row order."""
        parts: list[pa.Table] = []
        place: dict[tuple[str, int], int] = {}
        for file, rows in self.positions.items():
            for row in rows:
                place[file, row] = len(place)
            parts.append(self._read(file).take(pa.array(rows)))
        if not parts:
            return QUEUE_SCHEMA.empty_table()
        return pa.concat_tables(parts).take(pa.array([place[at] for at in self.order]))

    def _read(self, file: str) -> pa.Table:
        if file in self.elsewhere:
            return pa.Table.from_batches(list(self.elsewhere[file].batches()), schema=QUEUE_SCHEMA)
        return file_rows.read(self.path, file, QUEUE_SCHEMA)

    def portions(self, rows: int) -> Iterator[pa.Table]:
        """The chosen rows in row order, so many at a time."""
        for start in range(0, len(self.order), rows):
            order = self.order[start : start + rows]
            positions: dict[str, list[int]] = {}
            for file, row in order:
                positions.setdefault(file, []).append(row)
            yield Chosen(self.path, order, positions, self.elsewhere).rows()


def first_rows(
    path: str,
    files: Mapping[str, AddFile],
    limit: int | None,
    accepted: Callable[[pa.RecordBatch], Rows],
    columns: Sequence[str] = (),
    *,
    newest: bool = False,
    without: Mapping[str, Rows] = MappingProxyType({}),
    elsewhere: Elsewhere = _NOWHERE,
) -> Chosen:
    """The first `limit` rows (None: all) that are accepted, of those files of a queue table.

    Only `columns`, which `accepted` needs, and those that the order needs are read. With `newest` the order is the
    other way round, and these are the last rows, the last one first. `without` has, of some files, the rows that are
    left out, and `elsewhere` those files that are not in the table's folder.
    """
    begins = dict.fromkeys(files, 0)
    if limit is not None:
        begins = {name: _begin(stated_span(path, file), newest) for name, file in files.items()} if limit > 0 else {}
    names = sorted(begins, key=begins.__getitem__)
    wanted = list(dict.fromkeys([*ORDER_COLUMNS, *columns]))
    found = [_CANDIDATES.empty_table()]
    times = _times(found[0], newest)
    for number, name in enumerate(names):
        if limit is not None and len(times) >= limit and np.partition(times, limit - 1)[limit - 1] < begins[name]:
            break
        if name in elsewhere:
            batches = elsewhere[name].batches(columns=wanted)
        else:
            batches = file_rows.batches(path, name, QUEUE_SCHEMA, columns=wanted)
        new = list(_candidates(batches, number, accepted, without.get(name)))
        found += new
        if limit is not None:
            times = np.concatenate([times, *(_times(rows, newest) for rows in new)])
            if len(times) > 2 * limit + file_rows.BATCH_ROWS:
                found = [_sorted(found, limit, newest)]
                times = _times(found[0], newest)
    chosen = _sorted(found, limit, newest)
    order = tuple(
        (names[number], row) for number, row in zip(chosen["file"].to_pylist(), chosen["row"].to_pylist(), strict=True)
    )
    positions: dict[str, list[int]] = {}
    for name, row in order:
        positions.setdefault(name, []).append(row)
    return Chosen(path, order, positions, elsewhere)


#: Candidates: what orders a row, the number of its file and its place in it.
_CANDIDATES: Final = pa.schema(
    [
        ("routed_at", TIMESTAMP),
        ("stream", pa.string()),
        ("batch_id", pa.int64()),
        ("seq", pa.int64()),
        ("file", pa.int64()),
        ("row", pa.int64()),
    ]
)


def _candidates(
    batches: Iterator[pa.RecordBatch],
    number: int,
    accepted: Callable[[pa.RecordBatch], Rows],
    without: Rows | None,
) -> Iterator[pa.Table]:
    start = 0
    for batch in batches:
        mask = accepted(batch)
        if without is not None:
            mask = mask & ~without[start : start + batch.num_rows]
        keys = _keys(pa.Table.from_batches([batch]).select(ORDER_COLUMNS).filter(pa.array(mask)))
        rows = start + np.flatnonzero(mask)
        yield keys.append_column("file", pa.array(np.full(len(rows), number))).append_column("row", pa.array(rows))
        start += batch.num_rows


def _sorted(found: Sequence[pa.Table], limit: int | None, newest: bool) -> pa.Table:
    rows = pa.concat_tables(found)
    order = [(name, "descending") for name in _ORDER] if newest else _SORTED
    return rows.take(pc.sort_indices(rows, sort_keys=order)[:limit])


def _begin(span: Span, newest: bool) -> int:
    """A number that none of the file's rows has a smaller one than, as `_times` numbers them."""
    return -span.last if newest else span.first


def _times(candidates: pa.Table, newest: bool) -> npt.NDArray[np.int64]:
    """When rows were routed, in microseconds since 1970, negative from the newest on; without a time they are last."""
    since = candidates["routed_at"].cast(pa.int64())
    times: npt.NDArray[np.int64] = pc.fill_null(pc.negate(since) if newest else since, _NEVER).to_numpy()
    return times
