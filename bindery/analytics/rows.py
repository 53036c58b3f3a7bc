"""The rows of a table at a point, read as they are asked for: some columns, some rows.

DuckDB asks a dataset of pyarrow for a scan with the columns and the condition that a query needs. `Rows` is such a
dataset: it reads the stored columns that those need, leaves out batches that had not ended, flattens, and hands on what
meets the condition, batch by batch.
"""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from bindery.analytics.flat import FlatColumn, flattened
from bindery.analytics.point import LeftOut, TableAt
from bindery.router.errors import NotFound
from bindery.router.filters import Filter
from bindery.router.message import MESSAGE_SCHEMA
from bindery.store.actions import AddFile
from bindery.store.read import accepted_rows
from bindery.store.statistics import stated_span


class Rows(ds.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """Rows of a table of a stored schema at a point, with its flat columns behind the stored ones.

    `condition` is a consumer's filter; `since` the oldest time of routing, in microseconds since 1970. `error` is what
    ended a scan: those who scan wrap it beyond recognition. `connection` is kept as long as the rows are.
    """

    def __init__(
        self,
        table: TableAt,
        schema: pa.Schema,
        flat: Sequence[FlatColumn] = (),
        *,
        condition: Filter | None = None,
        since: int | None = None,
    ) -> None:
        # the base class has no instances of its own, and is not initialised
        self.table = table
        self.stored = schema
        self.flat = {column.name: column for column in flat}
        self.condition = condition
        self.since = since
        self.error: Exception | None = None
        self.connection: Any = None
        self._schema = pa.schema([*schema, *(pa.field(column.name, column.type) for column in flat)])

    @property
    def schema(self) -> pa.Schema:
        """The stored columns, then the flat ones."""
        return self._schema

    def scanner(self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **_: Any) -> Scan:
        """A scan of some columns and of the rows that meet a condition."""
        return Scan(self, self._schema.names if columns is None else list(columns), filter)

    def check(self, columns: Sequence[str] | None) -> None:
        """Raise NotFound for a column that there is not."""
        for name in columns or ():
            if name not in self._schema.names:
                raise NotFound(f"there is no column {name!r}", where="columns", hint=", ".join(self._schema.names[:50]))

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows, in the order of the files. Raises NotFound for a column that there is not."""
        self.check(columns)
        return self.scanner(columns).to_reader().read_all()


class Scan:
    """What reads columns of the rows that meet a condition, as pyarrow's scanners do."""

    def __init__(self, rows: Rows, columns: Sequence[str], wanted: pc.Expression | None) -> None:
        self._rows = rows
        self._columns = columns
        self._wanted = wanted
        self.projected_schema = pa.schema([rows.schema.field(name) for name in columns])

    def to_reader(self) -> pa.RecordBatchReader:
        """The batches, read as they are taken."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self._noted())

    def _noted(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._batches()
        except Exception as error:
            self._rows.error = error
            raise

    def _batches(self) -> Iterator[pa.RecordBatch]:
        rows = self._rows
        names = [*self._columns, *_named(self._wanted, rows.schema)]
        flat = [rows.flat[name] for name in dict.fromkeys(names) if name in rows.flat]
        needed = {name for name in names if name not in rows.flat} | {column.ref.section for column in flat}
        if rows.condition is not None:
            needed |= set(MESSAGE_SCHEMA.names)
        stored = [name for name in rows.stored.names if name in needed]
        pushed = self._wanted if self._wanted is not None and _applies(self._wanted, rows.stored) else None
        for file in rows.table.files:
            if rows.since is not None and stated_span(rows.table.path, file).last < rows.since:
                continue
            where = _and(pushed, *(_left_out(one) for one in rows.table.left_out if _may_hold(file, one)))
            if rows.since is not None:
                where = _and(where, pc.field("routed_at") >= pa.scalar(rows.since, pa.timestamp("us", "UTC")))
            for found in rows.table.batches(file.path, rows.stored, columns=stored, where=where):
                if not found.num_rows:
                    continue
                accepted = None if rows.condition is None else pa.array(accepted_rows(found, rows.condition))
                batch = found if accepted is None else found.filter(accepted)
                columns = dict(zip(batch.schema.names, batch.columns, strict=True))
                columns |= zip((column.name for column in flat), flattened(batch, flat), strict=True)
                if self._wanted is not None and pushed is None:
                    present = [name for name in rows.schema.names if name in columns]
                    whole = pa.record_batch([columns[name] for name in present], names=present).filter(self._wanted)
                    columns = dict(zip(present, whole.columns, strict=True))
                yield pa.record_batch([columns[name] for name in self._columns], schema=self.projected_schema)


def _named(wanted: pc.Expression | None, schema: pa.Schema) -> list[str]:
    """The columns that a condition looks at: among those that it names when it is written out, those it needs."""
    if wanted is None:
        return []
    text = str(wanted)
    found = [name for name in schema.names if name in text]
    for name in list(found):
        others = [one for one in found if one != name]
        if _applies(wanted, pa.schema([schema.field(one) for one in others])):
            found = others
    return found


def _applies(wanted: pc.Expression, schema: pa.Schema) -> bool:
    """Whether a condition looks at these columns alone."""
    try:
        schema.empty_table().filter(wanted)
    except (pa.ArrowException, KeyError):
        return False
    return True


def _and(*conditions: pc.Expression | None) -> pc.Expression | None:
    stated = [one for one in conditions if one is not None]
    return functools.reduce(operator.and_, stated) if stated else None


def _left_out(batches: LeftOut) -> pc.Expression:
    number = pc.field("routing", "batch_id")
    held = (pc.field("routing", "stream") == batches.stream) & (number > batches.after) & (number <= batches.last)
    return ~pc.coalesce(held, pc.scalar(False))


def _may_hold(file: AddFile, batches: LeftOut) -> bool:
    """Whether a file may have rows of those batches, by the numbers that its statistics state."""
    try:
        stated = json.loads(file.stats or "{}")
        low, high = (stated[bound]["routing"]["batch_id"] for bound in ("minValues", "maxValues"))
        return bool(low <= batches.last and high > batches.after)
    except (ValueError, KeyError, TypeError):
        return True


def microseconds(moment: datetime) -> int:
    """A time as routing states it."""
    return int(moment.timestamp() * 1_000_000)
