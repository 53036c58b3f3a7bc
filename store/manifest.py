"""The manifest: one row per committed batch, a consistent read point over all tables."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from router.message import TIMESTAMP
from store import tables
from store.log import TableLog
from store.paths import DataDir

_COUNTS: Final = pa.map_(pa.string(), pa.int64())
MANIFEST: Final = tables.Kind(
    "manifest",
    pa.schema(
        [
            ("app_id", pa.string()),
            ("stream", pa.string()),
            ("batch_id", pa.int64()),
            ("topology_version", pa.int64()),
            ("clock", TIMESTAMP),
            ("committed_at", TIMESTAMP),
            (
                "tables",
                pa.list_(
                    pa.struct(
                        [
                            ("kind", pa.string()),
                            ("vhost", pa.string()),
                            ("name", pa.string()),
                            ("version", pa.int64()),
                            ("rows", pa.int64()),
                            ("retries", pa.int64()),
                            ("dropped", pa.int64()),
                        ]
                    )
                ),
            ),
            ("records", pa.int64()),
            ("copies", pa.int64()),
            (
                "exchanges",
                pa.list_(pa.struct([("vhost", pa.string()), ("name", pa.string()), ("records", pa.int64())])),
            ),
            ("bindings", pa.map_(pa.int32(), pa.int64())),
            ("unroutable", _COUNTS),
            ("filter_unknowns", _COUNTS),
            ("timings_ms", pa.map_(pa.string(), pa.float64())),
            ("source_digest", pa.string()),
        ]
    ),
    tables.retained(tables.RETENTION),
)
#: Files of the manifest, newest first, in which the rows of newest batches are looked for.
_NEWEST_FILES: Final = 64


@dataclass(frozen=True, slots=True)
class TableCommit:
    """One table's part of a batch: the version that holds it, rows appended, rows dropped.

    `retries` counts lost races. Rows are dropped when the queue was deleted after the batch was pinned.
    """

    kind: str
    vhost: str
    name: str
    version: int
    rows: int
    retries: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class BatchCounts:
    """What a batch counted while it was routed.

    records          messages read, unreadable ones included
    copies           rows for queues
    exchanges        (vhost, exchange) -> messages published to it
    bindings         id of a binding or divert -> messages that it matched
    unroutable       reason -> messages
    filter_unknowns  filter text -> evaluations that met run-time trouble
    timings_ms       stage -> milliseconds; the commit adds its own as "commit"
    """

    records: int = 0
    copies: int = 0
    exchanges: Mapping[tuple[str, str], int] = field(default_factory=dict)
    bindings: Mapping[int, int] = field(default_factory=dict)
    unroutable: Mapping[str, int] = field(default_factory=dict)
    filter_unknowns: Mapping[str, int] = field(default_factory=dict)
    timings_ms: Mapping[str, float] = field(default_factory=dict)


def open_manifest(data: DataDir) -> TableLog:
    """The log of the manifest table, which is created when missing and grows new columns."""
    log = tables.ensure_table(data.manifest, MANIFEST)
    tables.grow(log, MANIFEST)
    return log


def manifest_row(
    *,
    app_id: str,
    stream: str,
    batch_id: int,
    topology_version: int,
    clock: datetime,
    tables: Sequence[Mapping[str, Any]],
    counts: BatchCounts,
    commit_ms: float,
    source_digest: str,
) -> dict[str, Any]:
    """The row that ends a batch."""
    return {
        "app_id": app_id,
        "stream": stream,
        "batch_id": batch_id,
        "topology_version": topology_version,
        "clock": clock,
        "committed_at": datetime.now(UTC),
        "tables": list(tables),
        "records": counts.records,
        "copies": counts.copies,
        "exchanges": [
            {"vhost": vhost, "name": name, "records": number}
            for (vhost, name), number in sorted(counts.exchanges.items())
        ],
        "bindings": sorted(counts.bindings.items()),
        "unroutable": sorted(counts.unroutable.items()),
        "filter_unknowns": sorted(counts.filter_unknowns.items()),
        "timings_ms": [*counts.timings_ms.items(), ("commit", commit_ms)],
        "source_digest": source_digest or None,
    }


def read_manifest(data: DataDir, *, app_id: str | None = None, batch_id: int | None = None) -> list[dict[str, Any]]:
    """Manifest rows in the order of their commit time; none when there is no manifest yet."""
    if not tables.exists(data.manifest):
        return []
    table = tables.open_table(data.manifest, MANIFEST)
    conditions = [
        pc.field(name) == wanted for name, wanted in (("app_id", app_id), ("batch_id", batch_id)) if wanted is not None
    ]
    wanted = functools.reduce(operator.and_, conditions) if conditions else None
    dataset = table.to_pyarrow_dataset()
    rows: list[dict[str, Any]] = dataset.to_table(filter=wanted).to_pylist()
    return sorted(rows, key=lambda row: row["committed_at"])


def newest_rows(data: DataDir, *, app_id: str, since: int, count: int) -> list[dict[str, Any]]:
    """The rows of an app id's newest batches, `since` or later, newest first; looks at few files only."""
    log = tables.open_log(data.manifest, MANIFEST, files=True)
    files = sorted((log.files or {}).values(), key=lambda file: -file.modified_ms)
    wanted = (pc.field("app_id") == app_id) & (pc.field("batch_id") >= since)
    rows: list[dict[str, Any]] = []
    for file in files[:_NEWEST_FILES]:
        if len(rows) >= count:
            break
        part = ds.dataset(str(Path(log.path, file.path)), schema=MANIFEST.schema, format="parquet")
        rows += part.to_table(filter=wanted).to_pylist()
    return sorted(rows, key=lambda row: -row["batch_id"])[:count]


def knows_stream(data: DataDir, stream: str) -> bool:
    """Whether any batch of the stream is on record."""
    if not tables.exists(data.manifest):
        return False
    dataset = tables.open_table(data.manifest, MANIFEST).to_pyarrow_dataset()
    return bool(dataset.head(1, columns=["stream"], filter=pc.field("stream") == stream).num_rows)
