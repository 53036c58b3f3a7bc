"""The manifest: one row per committed batch, a consistent read point over all tables."""

from __future__ import annotations

import functools
import heapq
import itertools
import json
import operator
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.message import TIMESTAMP
from bindery.store import data_files, file_rows, tables
from bindery.store.actions import AddFile
from bindery.store.log import TableLog
from bindery.store.paths import DataDir

#: How stages begin that tasks went through side by side: sums over tasks, within the time of the stage "tasks".
TASK_STAGE: Final = "task "
_COMMITTED: Final = "committed_at"
_EVERY: Final = pc.scalar(True)
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
            ("filter_errors", _COUNTS),
            ("timings_ms", pa.map_(pa.string(), pa.float64())),
            ("source_digest", pa.string()),
            # of rows that stand for many batches, made by maintenance (store.maintenance.summaries)
            ("batches", pa.int64()),
            ("timed", _COUNTS),
            ("requests", _COUNTS),
            ("invalid", _COUNTS),
            (
                "unparsable",
                pa.list_(
                    pa.struct(
                        [
                            ("kind", pa.string()),
                            ("vhost", pa.string()),
                            ("name", pa.string()),
                            ("reason", pa.string()),
                            ("messages", pa.int64()),
                        ]
                    )
                ),
            ),
            (
                "canary",
                pa.list_(
                    pa.struct(
                        [
                            ("vhost", pa.string()),
                            ("started", pa.int64()),
                            ("what", pa.string()),
                            ("name", pa.string()),
                            ("messages", pa.int64()),
                            ("example", pa.string()),
                        ]
                    )
                ),
            ),
        ]
    ),
    tables.retained(tables.RETENTION),
)
#: How many batches a row stands for; null in the row of a batch.
SUMMED: Final = "batches"
#: Characters of a text to which other writers cut its bounds.
_CUT: Final = 32
#: Rows of the manifest, newest first, among which the newest batches of an app id are looked for.
_NEWEST_ROWS: Final = 1_024


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


#: What canaries counted, and a message for example, as in `BatchCounts`.
CanaryCounts = Mapping[tuple[str, int, str, str], tuple[int, str | None]]


@dataclass(frozen=True, slots=True)
class BatchCounts:
    """What a batch counted while it was routed.

    records          messages read, unreadable ones included
    copies           rows for queues
    exchanges        (vhost, exchange) -> messages published to it
    bindings         id of a binding or divert -> messages that it matched
    unroutable       reason -> messages
    filter_unknowns  filter text -> evaluations that met run-time trouble
    filter_errors    filter text -> evaluations that failed because of a defect; null in rows of older versions
    timings_ms       stage -> milliseconds; the commit adds its own as "commit"
    invalid          kind (store.problems) -> records that are no messages; null in rows of older versions
    requests         kind -> requests to an object store, of the tasks, and of the driver since the batch before
    unparsable       ("exchange" or "queue", vhost, name, reason) -> messages whose bodies filters there could not read
                     (docs/filters.md, "The body"); null in rows of older versions
    canary           (vhost, `Canary.started`, what, queue or reason) -> what a canary counted (docs/canary.md), and a
                     message for example; `what` is a member of `bindery.router.engine.Compared`
    """

    records: int = 0
    copies: int = 0
    exchanges: Mapping[tuple[str, str], int] = field(default_factory=dict)
    bindings: Mapping[int, int] = field(default_factory=dict)
    unroutable: Mapping[str, int] = field(default_factory=dict)
    filter_unknowns: Mapping[str, int] = field(default_factory=dict)
    filter_errors: Mapping[str, int] = field(default_factory=dict)
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    requests: Mapping[str, int] = field(default_factory=dict)
    invalid: Mapping[str, int] = field(default_factory=dict)
    unparsable: Mapping[tuple[str, str, str, str], int] = field(default_factory=dict)
    canary: CanaryCounts = field(default_factory=dict)


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
    source_digest: str = "",
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
        "filter_errors": sorted(counts.filter_errors.items()),
        "timings_ms": [*counts.timings_ms.items(), ("commit", commit_ms)],
        "source_digest": source_digest or None,
        "requests": sorted(counts.requests.items()),
        "invalid": sorted(counts.invalid.items()),
        "unparsable": unparsable_rows(counts.unparsable),
        "canary": canary_rows(counts.canary),
    }


def unparsable_rows(counted: Mapping[tuple[str, str, str, str], int]) -> list[dict[str, Any]]:
    """Bodies that could not be read, as in `BatchCounts`, as the column `unparsable` holds them."""
    return [
        {"kind": kind, "vhost": vhost, "name": name, "reason": reason, "messages": number}
        for (kind, vhost, name, reason), number in sorted(counted.items())
    ]


def canary_rows(counted: CanaryCounts) -> list[dict[str, Any]]:
    """What canaries counted as the column `canary` holds it."""
    return [
        {"vhost": vhost, "started": started, "what": what, "name": name, "messages": number, "example": example}
        for (vhost, started, what, name), (number, example) in sorted(counted.items())
    ]


def write_rows(data: DataDir, rows: Sequence[Mapping[str, Any]]) -> AddFile:
    """Write rows into the manifest's folder, uncommitted, with the statistics by which readers pass files over."""
    added = data_files.write_file(data.manifest, pa.Table.from_pylist(list(rows), schema=MANIFEST.schema))
    return replace(added, stats=_stats(rows))


def _stats(rows: Sequence[Mapping[str, Any]]) -> str:
    """Delta's statistics of manifest rows: bounds of whose they are, their batches and their commit times."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    for name in ("app_id", "stream", "batch_id", _COMMITTED):
        values = [row[name] for row in rows]
        low[name], high[name] = min(values), max(values)
    # Delta states times in milliseconds: the bounds must enclose what they bound
    low[_COMMITTED] = _milliseconds(low[_COMMITTED])
    high[_COMMITTED] = _milliseconds(high[_COMMITTED] + timedelta(milliseconds=1))
    return json.dumps(
        {"numRecords": len(rows), "minValues": low, "maxValues": high, "nullCount": dict.fromkeys(low, 0)},
        separators=(",", ":"),
    )


def _milliseconds(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def read_manifest(
    data: DataDir, *, app_id: str | None = None, stream: str | None = None, batch_id: int | None = None
) -> list[dict[str, Any]]:
    """Manifest rows in the order of their commit time; none when there is no manifest yet.

    Files whose statistics say that they hold none of the wanted rows are not opened. Raises
    UnsupportedTable for a damaged manifest.
    """
    wanted = {
        name: value
        for name, value in (("app_id", app_id), ("stream", stream), ("batch_id", batch_id))
        if value is not None
    }
    filters = functools.reduce(operator.and_, (pc.field(name) == value for name, value in wanted.items()), _EVERY)
    rows = [
        row
        for file in _files(data)
        if _may_hold(file, wanted)
        for row in _read_file(data, file, filters, MANIFEST.schema)
    ]
    return sorted(rows, key=lambda row: row[_COMMITTED])


def newest_batches(
    data: DataDir,
    *,
    columns: Sequence[str] | None = None,
    files: Iterable[AddFile] | None = None,
    kept: MutableMapping[str, list[dict[str, Any]]] | None = None,
    most: int | None = None,
) -> Iterator[dict[str, Any]]:
    """Manifest rows, the newest commit first; `columns` beside the commit time, all of them by default.

    `files` are those of an older version of the table, or some of them, where that is meant. Rows of a file that is in
    `kept`, by its path, are not read again, and those that are read are put there: the newest `most` of each file, for
    whoever takes no more.
    A file is opened when all of what is newer has been taken: whoever stops early has read little, however
    long the manifest is, and however its rows are spread over files.
    """
    names = MANIFEST.schema.names if columns is None else dict.fromkeys([*columns, _COMMITTED, SUMMED])
    schema = pa.schema([MANIFEST.schema.field(name) for name in names])
    # (minus the newest commit time, order of arrival, rows or file)
    waiting: list[tuple[float, int, dict[str, Any] | AddFile]] = []
    number = itertools.count()
    for file in _files(data) if files is None else files:
        waiting.append((-_newest_commit(file), next(number), file))
    heapq.heapify(waiting)
    while waiting:
        _, _, first = heapq.heappop(waiting)
        if isinstance(first, AddFile):
            rows = None if kept is None else kept.get(first.path)
            if rows is None:
                every = _read_file(data, first, _EVERY, schema)
                rows = sorted(every, key=lambda row: row[_COMMITTED], reverse=True)[:most]
                if kept is not None:
                    kept[first.path] = rows
            for row in rows:
                heapq.heappush(waiting, (-row[_COMMITTED].timestamp(), next(number), row))
        else:
            yield first


def _files(data: DataDir) -> Iterable[AddFile]:
    if not tables.exists(data.manifest):
        return ()
    return tables.files_of(tables.open_log(data.manifest, MANIFEST, files=True)).values()


def newest_files(files: Iterable[AddFile], *, each: int) -> list[AddFile]:
    """The files that may have the newest batches of a stream: of those that have one stream alone its newest `each`."""
    mixed: list[AddFile] = []
    alone: dict[str, list[AddFile]] = {}
    for file in files:
        low, high = (bounds.get("stream") for bounds in _bounds(file))
        # a bound that other writers cut short stands for many streams
        if low is None or low != high or len(low) >= _CUT:
            mixed.append(file)
        else:
            alone.setdefault(low, []).append(file)
    return [*mixed, *(file for own in alone.values() for file in heapq.nlargest(each, own, key=_newest_commit))]


def _bounds(file: AddFile) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The least and the greatest values of a file's columns, as far as they are stated."""
    try:
        stated = json.loads(file.stats or "{}")
    except ValueError:
        return {}, {}
    return stated.get("minValues") or {}, stated.get("maxValues") or {}


def _may_hold(file: AddFile, wanted: Mapping[str, Any]) -> bool:
    low, high = _bounds(file)
    # a bound of text may be cut short by other writers: as a prefix it is low enough, but not high enough
    return all(
        name not in low or name not in high or low[name] <= value <= high[name] for name, value in wanted.items()
    )


def _newest_commit(file: AddFile) -> float:
    """No row of the file was committed later; seconds since 1970. What states nothing was written after its rows."""
    try:
        return datetime.fromisoformat(_bounds(file)[1][_COMMITTED]).timestamp() + 0.001
    except (KeyError, TypeError, ValueError):
        return file.modified_ms / 1000 + 0.001


def _read_file(data: DataDir, file: AddFile, wanted: pc.Expression, schema: pa.Schema) -> list[dict[str, Any]]:
    rows = file_rows.batches(data.manifest, file.path, schema, where=wanted)
    found: list[dict[str, Any]] = [row for batch in rows for row in batch.to_pylist()]
    return [row for row in found if row.pop(SUMMED, None) is None]


def newest_rows(data: DataDir, *, app_id: str, since: int, count: int) -> list[dict[str, Any]]:
    """The rows of an app id's newest batches, `since` or later, newest first; looks at a bounded number of rows."""
    found: list[dict[str, Any]] = []
    for row in itertools.islice(newest_batches(data), _NEWEST_ROWS):
        if row["app_id"] == app_id and row["batch_id"] >= since:
            found.append(row)
            if len(found) == count:
                break
    return found


def knows_stream(data: DataDir, stream: str) -> bool:
    """Whether any batch of the stream is on record."""
    wanted, where = {"stream": stream}, pc.field("stream") == stream
    schema = pa.schema([MANIFEST.schema.field("stream")])
    return any(
        batch.num_rows
        for file in _files(data)
        if _may_hold(file, wanted)
        for batch in file_rows.batches(data.manifest, file.path, schema, where=where)
    )
