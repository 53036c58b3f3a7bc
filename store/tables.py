"""Delta tables of Bindery: creating, opening, checking and emptying them.

Every table carries `bindery.format_version` and `bindery.kind`; tables that belong to a name carry it
too, since folder names may be shortened. All commits are compare-and-swap on the table version
(`commit` with no internal retries): what was checked against version n can only become version n + 1.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.schema import Field
from deltalake.transaction import AddAction, RemoveAction, Transaction

from router.errors import BinderyError, CommitConflict, UnsupportedTable
from router.message import MESSAGE_SCHEMA, QUEUE_SCHEMA, UNROUTABLE_SCHEMA
from store.paths import DataDir

FORMAT_VERSION: Final = 1
#: Reader and writer version of a table without any optional feature.
_MINIMAL_PROTOCOL: Final = (1, 2)
#: A commit and the refresh after it each cost 0.3 ms more per version since the last checkpoint, a
#: checkpoint 13 ms (measured): every tenth version is near the optimum.
CHECKPOINT_INTERVAL: Final = "10"
_FOREVER: Final = {
    "delta.enableExpiredLogCleanup": "false",
    "delta.logRetentionDuration": "interval 36500 days",
    "delta.deletedFileRetentionDuration": "interval 36500 days",
}
_A_MONTH: Final = {
    "delta.logRetentionDuration": "interval 30 days",
    "delta.deletedFileRetentionDuration": "interval 30 days",
}
#: Attempts before a lost race is reported; a lost attempt costs a few milliseconds.
ATTEMPTS: Final = 60
#: Transaction id in queue tables: the newest topology version at which the queue was seen undeclared.
_UNDECLARED: Final = "bindery.undeclared"


@dataclass(frozen=True)
class Kind:
    """What a kind of table looks like."""

    name: str
    schema: pa.Schema
    retention: Mapping[str, str]

    @cached_property
    def delta_schema(self) -> Schema:
        """The Delta schema derived from the Arrow one."""
        return Schema.from_arrow(self.schema)


QUEUE: Final = Kind("queue", QUEUE_SCHEMA, _A_MONTH)
UNROUTABLE: Final = Kind("unroutable", UNROUTABLE_SCHEMA, _A_MONTH)
INBOX: Final = Kind("inbox", MESSAGE_SCHEMA, _A_MONTH)


def keep_forever(name: str, schema: pa.Schema) -> Kind:
    """A kind of table whose log and files are never cleaned up."""
    return Kind(name, schema, _FOREVER)


def reason_of(error: BaseException) -> str:
    """The first line of a deltalake error; the rest is a native stack."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


def create_table(
    path: str,
    kind: Kind,
    *,
    vhost: str | None = None,
    name: str | None = None,
    transactions: Sequence[Transaction] = (),
) -> DeltaTable:
    """Create an empty table; when another process was faster, that table is opened instead."""
    properties = {
        "bindery.format_version": str(FORMAT_VERSION),
        "bindery.kind": kind.name,
        "delta.checkpointInterval": CHECKPOINT_INTERVAL,
        **kind.retention,
    }
    if vhost is not None:
        properties["bindery.vhost"] = vhost
    if name is not None:
        properties["bindery.name"] = name
    Path(path).mkdir(parents=True, exist_ok=True)
    try:
        return DeltaTable.create(
            path,
            kind.delta_schema,
            configuration=properties,
            raise_if_key_not_exists=False,
            commit_properties=CommitProperties(app_transactions=list(transactions)),
        )
    except DeltaError as error:
        if not DeltaTable.is_deltatable(path):
            raise UnsupportedTable(f"cannot create the table {path}: {reason_of(error)}", where=path) from error
    return open_table(path, kind, vhost=vhost, name=name)


def open_table(
    path: str,
    kind: Kind,
    *,
    vhost: str | None = None,
    name: str | None = None,
    version: int | None = None,
) -> DeltaTable:
    """Open and check a table; raises UnsupportedTable naming the path when it is missing or damaged."""
    try:
        table = DeltaTable(path, version=version)
    except TableNotFoundError:
        raise UnsupportedTable(
            f"no {kind.name} table at {path}", where=path, hint="it was removed, or this is another data directory"
        ) from None
    except (DeltaError, ValueError, OSError) as error:
        at = "" if version is None else f" at version {version}"
        raise UnsupportedTable(
            f"cannot read the {kind.name} table {path}{at}: {reason_of(error)}",
            where=path,
            hint="its log is damaged or incomplete; restore _delta_log",
        ) from error
    check_table(table, path, kind, vhost=vhost, name=name)
    return table


def exists(path: str) -> bool:
    """Whether a Delta table stands at that path."""
    return Path(path, "_delta_log").is_dir() and DeltaTable.is_deltatable(path)


def refresh(table: DeltaTable, path: str) -> None:
    """Bring a handle to the newest version."""
    try:
        table.update_incremental()
    except (DeltaError, OSError) as error:
        raise UnsupportedTable(f"cannot read the table {path}: {reason_of(error)}", where=path) from error


def check_table(table: DeltaTable, path: str, kind: Kind, *, vhost: str | None = None, name: str | None = None) -> None:
    """Raise UnsupportedTable unless this version of Bindery may read and write the table.

    Refused: another kind or name, a newer format, table features beyond the minimal protocol (row
    tracking, clustering, deletion vectors … would be broken by commits that do not know them), and
    columns of another type. Columns that only a newer schema has must be nullable, and are ignored.
    """
    properties = table.metadata().configuration
    found = properties.get("bindery.format_version")
    if found is None or not found.isdecimal():
        raise UnsupportedTable(f"{path} is no Bindery table", where=path, hint="property bindery.format_version")
    if int(found) > FORMAT_VERSION:
        raise UnsupportedTable(
            f"{path} has format version {found}; this is version {FORMAT_VERSION}",
            where=path,
            hint="upgrade Bindery",
        )
    for what, expected in (("kind", kind.name), ("vhost", vhost), ("name", name)):
        stated = properties.get(f"bindery.{what}")
        if expected is not None and stated != expected:
            raise UnsupportedTable(
                f"{path} states {what} {stated!r}, expected {expected!r}",
                where=path,
                hint="two names may share a folder on a file system that ignores case",
            )
    protocol = table.protocol()
    if (protocol.min_reader_version, protocol.min_writer_version) > _MINIMAL_PROTOCOL or (
        protocol.min_writer_version > _MINIMAL_PROTOCOL[1]
    ):
        features = sorted({*(protocol.reader_features or ()), *(protocol.writer_features or ())})
        raise UnsupportedTable(
            f"{path} uses Delta protocol {protocol.min_reader_version}/{protocol.min_writer_version}"
            + (f" with {', '.join(features)}" if features else ""),
            where=path,
            hint="Bindery writes tables of protocol 1/2 without table features; copy the data into a new table",
        )
    if table.schema() != kind.delta_schema:
        _check_schema(table, path, kind)


def _check_schema(table: DeltaTable, path: str, kind: Kind) -> None:
    present = {field.name: field for field in table.schema().fields}
    for field in kind.delta_schema.fields:
        other = present.pop(field.name, None)
        if other is None:
            if not field.nullable:
                raise UnsupportedTable(f"{path} has no column {field.name!r}", where=path)
        elif other.type != field.type:
            raise UnsupportedTable(f"{path}: column {field.name!r} is {other.type}, expected {field.type}", where=path)
    required = [name for name, field in present.items() if not field.nullable]
    if required:
        raise UnsupportedTable(f"{path}: column {required[0]!r} is unknown and not nullable", where=path)


def grow(table: DeltaTable, kind: Kind) -> bool:
    """Add the nullable columns that the table does not have yet; True when there were any."""
    present = {field.name for field in table.schema().fields}
    missing: list[Field] = [field for field in kind.delta_schema.fields if field.name not in present]
    if missing:
        table.alter.add_columns(missing)
    return bool(missing)


def commit(
    table: DeltaTable,
    actions: Sequence[AddAction | RemoveAction],
    schema: Schema,
    *,
    transactions: Sequence[Transaction] = (),
    info: Mapping[str, Any] | None = None,
) -> int | None:
    """Commit on top of exactly the version that the handle holds; the new version, None for a lost race.

    The handle stays where it was: `refresh` it before its next use. A failure that is no lost race
    raises BinderyError.
    """
    base = table.version()
    try:
        table.create_write_transaction(
            list(actions),
            "append",
            schema,
            commit_properties=CommitProperties(
                custom_metadata=dict(info or {}), max_commit_retries=0, app_transactions=list(transactions)
            ),
        )
    except DeltaError as error:
        refresh(table, path_of(table))
        if table.version() == base:
            path = path_of(table)
            raise BinderyError(f"cannot commit to {path}: {reason_of(error)}", where=path) from error
        return None
    return base + 1


def path_of(table: DeltaTable) -> str:
    """The folder of a local table."""
    return table.table_uri.removeprefix("file://").rstrip("/")


def back_off(attempt: int) -> None:
    """Wait a little before the next attempt, unlike the neighbour's wait."""
    time.sleep(min(0.002 * (attempt + 1), 0.05) * (0.5 + os.urandom(1)[0] / 255))


def conflict(path: str) -> CommitConflict:
    """The error of a commit that lost every race."""
    return CommitConflict(
        f"{ATTEMPTS} attempts to commit to {path} lost the race", where=path, hint="many writers; try again"
    )


def write_file(path: str, rows: pa.Table, *, prefix: str = "part") -> AddAction:
    """Write one Parquet file into a table's folder; its AddAction, not committed yet."""
    name = f"{prefix}-{uuid.uuid4().hex}.parquet"
    target = Path(path, name)
    pq.write_table(rows, target, compression="zstd")
    return add_action(name, target.stat().st_size, rows.num_rows)


def add_action(name: str, size: int, rows: int, stats: str | None = None) -> AddAction:
    """The action that adds a file of that many bytes and rows."""
    return AddAction(name, size, {}, time.time_ns() // 1_000_000, True, stats or json.dumps({"numRecords": rows}))


def remove_action(name: str, size: int) -> RemoveAction:
    """The action that removes a file."""
    return RemoveAction(name, True, time.time_ns() // 1_000_000, size, {})


def files_of(table: DeltaTable) -> dict[str, tuple[int, int]]:
    """File name -> (bytes, rows) of the handle's version."""
    added = pa.table(table.get_add_actions(flatten=False)).select(["path", "size_bytes", "num_records"])
    return {row["path"]: (row["size_bytes"], row["num_records"]) for row in added.to_pylist()}


def ensure_queue_table(data: DataDir, vhost: str, name: str, *, undeclared_at: int = -1) -> None:
    """Make the queue's table exist, and be empty of rows routed at topology version `undeclared_at` or before.

    Called before the topology commit that declares the queue; `undeclared_at` is the version at which
    the queue was seen undeclared, so that whatever the table still holds belongs to an earlier queue
    of that name. Idempotent, and safe against a concurrent declaration that was faster.
    """
    path = data.queue(vhost, name)
    if not exists(path):
        fence = Transaction(_UNDECLARED, undeclared_at)
        table = create_table(path, QUEUE, vhost=vhost, name=name, transactions=[fence])
        if undeclared_since(table) == undeclared_at:
            return
    clear_queue_table(data, vhost, name, undeclared_at=undeclared_at)


def clear_queue_table(data: DataDir, vhost: str, name: str, *, undeclared_at: int) -> None:
    """Remove, in one commit, every row routed at topology version `undeclared_at` or before.

    That is everything but rows for a queue of that name that has been declared since. The table
    remembers the version: batches pinned to it or to an earlier one append nothing any more
    (`undeclared_since`). A queue is only ever declared on top of a version at which it was undeclared
    and its table cleared, so whoever comes late with an earlier version has nothing to do.
    """
    path = data.queue(vhost, name)
    for attempt in range(ATTEMPTS):
        table = open_table(path, QUEUE, vhost=vhost, name=name)
        if undeclared_since(table) >= undeclared_at:
            return
        actions: list[AddAction | RemoveAction] = []
        for file, (size, _) in files_of(table).items():
            newer = _routed_after(Path(path, file), undeclared_at)
            kept = pc.sum(newer, min_count=0).as_py()
            if kept and kept == len(newer):
                continue
            actions.append(remove_action(file, size))
            if kept:
                actions.append(write_file(path, pq.read_table(Path(path, file), partitioning=None).filter(newer)))
        done = commit(
            table,
            actions,
            QUEUE.delta_schema,
            transactions=[Transaction(_UNDECLARED, undeclared_at)],
            info={"bindery.change": "clear", "bindery.topologyVersion": undeclared_at},
        )
        if done is not None:
            return
        drop_unused(path, [action.path for action in actions if isinstance(action, AddAction)])
        back_off(attempt)
    raise conflict(path)


def _routed_after(path: Path, version: int) -> pa.ChunkedArray:
    """Which rows of a file were routed at a topology version above `version`."""
    with pq.ParquetFile(path) as file:
        routing = file.read(columns=["routing.topology_version"])["routing"]
    return pc.fill_null(pc.greater(pc.struct_field(routing, "topology_version"), version), False)


def undeclared_since(table: DeltaTable) -> int:
    """The newest topology version at which the table's queue was seen undeclared; -1 for none."""
    version = table.transaction_version(_UNDECLARED)
    return -1 if version is None else version


def ensure_unroutable_table(data: DataDir, vhost: str) -> DeltaTable:
    """The vhost's unroutable table, created when missing."""
    return _ensure(data.unroutable(vhost), UNROUTABLE, vhost)


def ensure_inbox_table(data: DataDir, vhost: str) -> DeltaTable:
    """The vhost's inbox table, created when missing."""
    return _ensure(data.inbox(vhost), INBOX, vhost)


def _ensure(path: str, kind: Kind, vhost: str) -> DeltaTable:
    return open_table(path, kind, vhost=vhost) if exists(path) else create_table(path, kind, vhost=vhost)


def count_rows(data: DataDir, vhost: str, name: str) -> int:
    """Rows in a queue's table, from the statistics of its log; nothing is scanned."""
    return rows_in(open_table(data.queue(vhost, name), QUEUE, vhost=vhost, name=name))


def rows_in(table: DeltaTable) -> int:
    """Rows in the handle's version; files without statistics are counted by their Parquet footers."""
    counts = files_of(table)
    known = sum(rows for _, rows in counts.values() if rows is not None)
    return known + sum(_footer_rows(table, name) for name, (_, rows) in counts.items() if rows is None)


def _footer_rows(table: DeltaTable, name: str) -> int:
    rows: int = pq.read_metadata(Path(path_of(table), name)).num_rows
    return rows


def drop_unused(path: str, names: Iterable[str]) -> None:
    """Delete files of an attempt that was not committed; what stays behind is left to VACUUM."""
    for name in names:
        Path(path, name).unlink(missing_ok=True)
