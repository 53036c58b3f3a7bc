"""Rows of single data files, read under the schema of their table.

A file that is missing or damaged is an error of the table and names the file; so is a disk that fails.
Nothing of pyarrow's or the operating system's own errors gets past this module.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bindery.router.errors import StorageFailed, UnsupportedTable
from bindery.store.places import Place, at

#: Rows that are looked at together.
BATCH_ROWS: Final = 65_536


@contextmanager
def reading(path: Place) -> Iterator[None]:
    """Raise UnsupportedTable for a file that is missing or damaged, StorageFailed when the disk refuses it."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        reason = str(error).partition("\n")[0]
        number = getattr(error, "errno", None)
        if number is not None and number != errno.ENOENT:
            raise StorageFailed(
                f"cannot read {path}: {reason}", where=str(path), hint="see to the disk or the store; then try again"
            ) from error
        what = "is missing" if isinstance(error, FileNotFoundError) else f"is damaged: {reason}"
        raise UnsupportedTable(
            f"the data file {path} {what}",
            where=str(path),
            hint="restore the file; until then its table cannot be read whole",
        ) from error


def batches(
    path: str,
    name: str,
    schema: pa.Schema,
    *,
    columns: Sequence[str] | None = None,
    where: pc.Expression | None = None,
    together: int = BATCH_ROWS,
) -> Iterator[pa.RecordBatch]:
    """The rows of a table's file, `together` at a time; columns that an older file does not have are null."""
    file = at(path, name)
    with reading(file), file.fragment() as fragment:
        names = None if columns is None else list(columns)
        yield from fragment.to_batches(
            schema=schema, columns=names, filter=where, batch_size=together, use_threads=False
        )


def read(path: str, name: str, schema: pa.Schema, *, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of a table's file."""
    names = schema.names if columns is None else list(columns)
    kept = pa.schema([schema.field(column) for column in names])
    return pa.Table.from_batches(list(batches(path, name, schema, columns=names)), schema=kept)


def read_as_it_is(path: str, name: str) -> pa.Table:
    """Everything that a file holds, also columns that only a newer schema knows, for writing it again."""
    file = at(path, name)
    with reading(file):
        return file.read_parquet()


def footer(path: str, name: str) -> pq.FileMetaData:
    """What the file says about itself."""
    file = at(path, name)
    with reading(file):
        return file.footer()
