"""Parquet files in the folders of tables, to which no version refers yet."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

import pyarrow as pa

from bindery.router.errors import StorageFailed
from bindery.store import effects
from bindery.store.actions import AddFile, RemoveFile, Transaction
from bindery.store.log import TableLog
from bindery.store.places import at
from bindery.store.statistics import statistics_of


class Draft:
    """New files of a table and the commit that adds them; use as a context.

    Files to which certainly no version refers are removed at the end: those of a lost race, of a commit that
    failed, and those written before something else went wrong.
    """

    def __init__(self, log: TableLog) -> None:
        self._log = log
        self._files: list[AddFile] = []
        self._unused = True

    def __enter__(self) -> Draft:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._unused:
            drop_unused(self._log.path, [file.path for file in self._files])

    def write(self, rows: pa.Table) -> AddFile:
        """Write one more file. Raises StorageFailed."""
        added = write_file(self._log.path, rows)
        self.take(added)
        return added

    def take(self, added: AddFile) -> None:
        """Take over a file that was written into the table's folder."""
        self._files.append(added)

    def commit(
        self,
        removed: Iterable[RemoveFile] = (),
        *,
        transactions: Iterable[Transaction] = (),
        info: Mapping[str, Any] | None = None,
    ) -> int | None:
        """Commit the files on top of the log's version; gives, and raises, what TableLog.commit does."""
        self._unused = False
        try:
            version = self._log.commit([*self._files, *removed], transactions=transactions, info=info)
        except StorageFailed:
            self._unused = True
            raise
        self._unused = version is None
        return version


def write_file(path: str, rows: pa.Table, *, prefix: str = "part") -> AddFile:
    """Write one Parquet file into a table's folder; what adds it, not committed yet. Raises StorageFailed.

    Its name tells who reads it that it may hold rows of any batch (`bindery.store.routed_files`).
    """
    name = f"{prefix}-{uuid.uuid4().hex}.parquet"
    size = effects.write_parquet(at(path, name), rows, compression="zstd")
    return add_file(name, size, rows.num_rows, statistics_of(rows))


def add_file(name: str, size: int, rows: int, stats: str | None = None) -> AddFile:
    """What adds a file of that many bytes and rows."""
    return AddFile(name, size, rows, stats or json.dumps({"numRecords": rows}), time.time_ns() // 1_000_000)


def found_file(path: str, name: str, rows: int, stats: str | None = None) -> AddFile:
    """What adds a file of a table's folder that a task wrote. Raises StorageFailed when it is not there (any more)."""
    place = at(path, name)
    with effects.looking(place):
        found = place.stat()
    if found is None:
        raise StorageFailed(
            f"{name} is not in {path}",
            where=path,
            hint="files that wait for their commit for a day are taken for left behind; the batch can be tried again",
        )
    stated = stats or json.dumps({"numRecords": rows})
    return AddFile(name, found.size, rows, stated, found.modified_ms)


def drop_unused(path: str, names: Iterable[str]) -> None:
    """Delete files that certainly no version refers to; what stays behind is left to maintenance."""
    for name in names:
        try:
            effects.remove(at(path, name))
        except StorageFailed:
            return
