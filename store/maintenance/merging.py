"""Several Parquet files as one: rows and their order, columns and types stay, memory is bounded.

Rows travel in groups of at most `GROUP_BYTES` (or one row, when a row is larger), whatever the sizes of
the files; so much is held twice, as it was read and as it is encoded.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bindery.store import effects
from bindery.store.actions import AddFile
from bindery.store.data_files import add_file, drop_unused
from bindery.store.places import Place, at

#: Bytes of rows in memory that make a row group.
GROUP_BYTES: Final = 16 << 20
#: Rows of a row group at most: readers skip by groups.
GROUP_ROWS: Final = 1 << 17

_Path = tuple[str, ...]


def merge(
    folder: str,
    sources: Sequence[AddFile],
    schema: pa.Schema,
    *,
    statistics: Sequence[_Path] = (),
    target_bytes: int,
) -> list[AddFile]:
    """Write the rows of the sources, in their order, to new files of the folder; nothing is committed.

    `schema` is the table's; columns that none of the sources has stay absent. Raises StorageFailed, and
    FileNotFoundError when a source is gone. What was written by then is removed.
    """
    opened = _Sources([at(folder, source.path) for source in sources], schema)
    return write_groups(folder, _groups(opened), opened.schema, statistics=statistics, target_bytes=target_bytes)


def write_groups(
    folder: str,
    groups: Iterable[pa.Table],
    schema: pa.Schema,
    *,
    statistics: Sequence[_Path] = (),
    target_bytes: int,
) -> list[AddFile]:
    """Write row groups to new files of a table's folder, each of about the target size; nothing is committed.

    Raises StorageFailed, and what reading the groups raises. What was written by then is removed.
    """
    written: list[AddFile] = []
    output: _Output | None = None
    try:
        for rows in groups:
            output = output or _Output(folder, schema, statistics)
            output.write(rows)
            if output.size >= target_bytes:
                written.append(output.finish())
                output = None
        if output is not None:
            written.append(output.finish())
    except BaseException:
        if output is not None:
            output.discard()
        drop_unused(folder, [added.path for added in written])
        raise
    return written


class _Sources:
    """The files that are merged; `schema` has the columns that one of them has at least."""

    def __init__(self, places: Sequence[Place], schema: pa.Schema) -> None:
        self._files = [(place, place.footer()) for place in places]
        present = {name for _, metadata in self._files for name in metadata.schema.to_arrow_schema().names}
        self.schema = pa.schema([field for field in schema if field.name in present])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows of all files as batches of the schema, each of about a group's bytes at most."""
        for place, metadata in self._files:
            with place.parquet(metadata=metadata) as file:
                names = [name for name in file.schema_arrow.names if name in self.schema.names]
                for batch in _batches(file, names):
                    yield self._fitted(batch)

    def _fitted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.schema.equals(self.schema):
            return batch
        present = set(batch.schema.names)
        columns = [
            batch.column(field.name).cast(field.type) if field.name in present else pa.nulls(batch.num_rows, field.type)
            for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _batches(file: pq.ParquetFile, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    metadata = file.metadata
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    if sum(group.total_byte_size for group in groups) <= GROUP_BYTES // 4:
        # at once: a batch costs a multiple of its few rows
        yield from file.read(columns=names, use_threads=False).to_batches()
        return
    for number, group in enumerate(groups):
        each = max(1, group.total_byte_size // max(1, group.num_rows))
        at_once = max(1, min(GROUP_ROWS, GROUP_BYTES // each))
        yield from file.iter_batches(at_once, row_groups=[number], columns=names, use_threads=False)


def _groups(sources: _Sources) -> Iterator[pa.Table]:
    """The rows in row groups."""
    waiting: list[pa.RecordBatch] = []
    size = rows = 0
    for batch in sources.batches():
        if waiting and (size + batch.nbytes > GROUP_BYTES or rows + batch.num_rows > GROUP_ROWS):
            yield pa.Table.from_batches(waiting)
            waiting, size, rows = [], 0, 0
        waiting.append(batch)
        size += batch.nbytes
        rows += batch.num_rows
    if rows:
        yield pa.Table.from_batches(waiting)


class _Output:
    """One new file, and the least and greatest values of its rows."""

    def __init__(self, folder: str, schema: pa.Schema, statistics: Sequence[_Path]) -> None:
        self._name = f"compact-{uuid.uuid4().hex}.parquet"
        self._bounds = {path: _Bounds() for path in statistics if path[0] in schema.names}
        self._draft = effects.ParquetDraft(at(folder, self._name), schema, compression="zstd", store_schema=False)

    @property
    def size(self) -> int:
        return self._draft.size

    def write(self, rows: pa.Table) -> None:
        for path, bounds in self._bounds.items():
            bounds.extend(_leaf(rows, path))
        self._draft.write(rows.combine_chunks())

    def finish(self) -> AddFile:
        rows = self._draft.rows
        return add_file(self._name, self._draft.finish(), rows, _stated(rows, self._bounds))

    def discard(self) -> None:
        self._draft.discard()


class _Bounds:
    """Least and greatest value, and nulls, of a column."""

    def __init__(self) -> None:
        self.low: Any = None
        self.high: Any = None
        self.nulls = 0

    def extend(self, values: pa.ChunkedArray) -> None:
        self.nulls += values.null_count
        if pa.types.is_list(values.type):
            return  # Delta states bounds of primitive columns
        low, high = (bound.as_py() for bound in pc.min_max(values).values())
        if low is not None:
            self.low = low if self.low is None else min(self.low, low)
            self.high = high if self.high is None else max(self.high, high)


def _leaf(rows: pa.Table, path: _Path) -> pa.ChunkedArray:
    column = rows[path[0]]
    for name in path[1:]:
        column = pc.struct_field(column, name)
    return column


def _stated(rows: int, bounds: dict[_Path, _Bounds]) -> str:
    """Statistics as Delta states them."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for path, found in bounds.items():
        _put(nulls, path, found.nulls)
        if found.low is not None:
            _put(low, path, _value(found.low))
            _put(high, path, _value(found.high, above=True))
    stated: dict[str, Any] = {"numRecords": rows}
    if nulls:
        stated |= {"minValues": low, "maxValues": high, "nullCount": nulls}
    return json.dumps(stated, separators=(",", ":"))


def _put(into: dict[str, Any], path: _Path, value: Any) -> None:
    for name in path[:-1]:
        into = into.setdefault(name, {})
    into[path[-1]] = value


def _value(value: Any, *, above: bool = False) -> Any:
    """Times in whole milliseconds, the greatest rounded up: statistics bound the values."""
    if not isinstance(value, datetime):
        return value
    moment = value.astimezone(UTC)
    if above and moment.microsecond % 1000:
        moment += timedelta(milliseconds=1)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
