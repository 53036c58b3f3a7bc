"""Parquet files in the folders of tables, to which no version refers yet."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from router.errors import StorageFailed
from store import effects
from store.log import AddFile


def write_file(path: str, rows: pa.Table, *, prefix: str = "part") -> AddFile:
    """Write one Parquet file into a table's folder; what adds it, not committed yet. Raises StorageFailed."""
    name = f"{prefix}-{uuid.uuid4().hex}.parquet"
    size = effects.write_parquet(Path(path, name), rows, compression="zstd")
    return add_file(name, size, rows.num_rows)


def add_file(name: str, size: int, rows: int, stats: str | None = None) -> AddFile:
    """What adds a file of that many bytes and rows."""
    return AddFile(name, size, rows, stats or json.dumps({"numRecords": rows}), time.time_ns() // 1_000_000)


def drop_unused(path: str, names: Iterable[str]) -> None:
    """Delete files that certainly no version refers to; what stays behind is left to maintenance."""
    for name in names:
        try:
            effects.remove(Path(path, name))
        except StorageFailed:
            return
