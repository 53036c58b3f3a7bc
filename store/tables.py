"""Delta tables of Bindery: creating, opening, checking and emptying them.

Every table carries `bindery.format_version` and `bindery.kind`; tables that belong to a name carry it
too, since folder names may be shortened. All commits are compare-and-swap on the table version
(`bindery.store.log`): what was checked against version n can only become version n + 1.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.schema import Field

from bindery.router.errors import CommitConflict, UnsupportedTable
from bindery.router.message import (
    JOURNAL_SCHEMA,
    MESSAGE_SCHEMA,
    QUEUE_SCHEMA,
    ROUTING,
    TIMESTAMP,
    UNROUTABLE_SCHEMA,
)
from bindery.store import checkpoints, file_rows
from bindery.store.actions import AddFile, TableState, Transaction
from bindery.store.descriptions import columns_of, description_of
from bindery.store.log import TableLog, create_log, is_table
from bindery.store.paths import DataDir
from bindery.store.places import Place, at, delta_options
from bindery.store.rewriting import UNCHANGED, Rewriting, Unchanged

FORMAT_VERSION: Final = 1
#: Reader and writer version of a table without any optional feature.
_MINIMAL_PROTOCOL: Final = (1, 2)
#: How long old versions of a table stay readable where nothing else is said.
RETENTION: Final = "interval 7 days"
#: Attempts before a lost race is reported; one costs well under a millisecond, most of it is waiting.
ATTEMPTS: Final = 200
#: Transaction id in queue tables: the newest topology version at which the queue was seen undeclared.
_UNDECLARED: Final = "bindery.undeclared"


@dataclass(frozen=True)
class Kind:
    """What a kind of table looks like."""

    name: str
    schema: pa.Schema
    properties: Mapping[str, str]

    @cached_property
    def delta_schema(self) -> Schema:
        """The Delta schema derived from the Arrow one; its columns carry comments.

        Members of structs carry none: a type with comments is another type to versions before there were any.
        """
        return Schema([self.commented(field) for field in Schema.from_arrow(self.schema).fields])

    def commented(self, field: Field) -> Field:
        """A column with what is said about it; one that has a comment, or of which nothing is said, as it is."""
        text = columns_of(self.name).get(field.name)
        if text is None or "comment" in field.metadata:
            return field
        return Field(field.name, field.type, nullable=field.nullable, metadata={**field.metadata, "comment": text})

    def is_in(self, state: TableState) -> bool:
        """Whether a table has all of these columns."""
        return state.column_names.issuperset(self.schema.names)


def retained(interval: str) -> Mapping[str, str]:
    """The properties of a table whose old versions stay readable for that long.

    Other engines keep removed files as long. The log is cleaned up by Bindery's maintenance alone, which
    knows what reads from further back.
    """
    return {
        "delta.enableExpiredLogCleanup": "false",
        "delta.logRetentionDuration": interval,
        "delta.deletedFileRetentionDuration": interval,
    }


#: The columns of routed rows whose least and greatest values every file states. They stand behind the 32
#: columns that Spark looks at where nothing is said (deltalake looks at no others).
_SKIPPED_BY: Final = {
    "delta.dataSkippingStatsColumns": "routed_at,routing.topology_version,routing.batch_id,routing.seq"
}

QUEUE: Final = Kind("queue", QUEUE_SCHEMA, {**retained(RETENTION), **_SKIPPED_BY})
UNROUTABLE: Final = Kind("unroutable", UNROUTABLE_SCHEMA, {**retained(RETENTION), **_SKIPPED_BY})
#: Old versions stay readable for a day: the rows themselves are the history, and are kept as long as is asked for.
JOURNAL: Final = Kind("journal", JOURNAL_SCHEMA, {**retained("interval 1 days"), **_SKIPPED_BY})
#: Rows are the state of a stream: what is past the window is needed by nobody.
DEDUP: Final = Kind(
    "dedup",
    pa.schema(
        [
            ("key_high", pa.int64()),
            ("key_low", pa.int64()),
            ("routing", pa.struct([ROUTING.field(name) for name in ("topology_version", "stream", "batch_id", "seq")])),
            ("routed_at", TIMESTAMP),
        ]
    ),
    {**retained("interval 1 days"), **_SKIPPED_BY},
)
INBOX: Final = Kind("inbox", MESSAGE_SCHEMA, retained(RETENTION))


def keep_forever(name: str, schema: pa.Schema) -> Kind:
    """A kind of table of which every version stays readable for ever."""
    return Kind(name, schema, retained("interval 36500 days"))


def reason_of(error: BaseException) -> str:
    """The first line of a deltalake error; the rest is a native stack."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


# -- creating and opening -------------------------------------------------------------------------------


def create_table(
    path: str,
    kind: Kind,
    *,
    vhost: str | None = None,
    name: str | None = None,
    transactions: Sequence[Transaction] = (),
    files: bool = False,
) -> TableLog:
    """Create an empty table; when another process was faster, that table is opened instead.

    Raises StorageFailed, and UnsupportedTable for a table of another kind or name.
    """
    make_table(path, kind, vhost=vhost, name=name, transactions=transactions)
    return open_log(path, kind, vhost=vhost, name=name, files=files)


def make_table(
    path: str,
    kind: Kind,
    *,
    vhost: str | None = None,
    name: str | None = None,
    transactions: Sequence[Transaction] = (),
    files: Sequence[AddFile] = (),
) -> bool:
    """Create a table with these files; False when another process was faster. Raises StorageFailed, CommitUnknown."""
    properties = {
        "bindery.format_version": str(FORMAT_VERSION),
        "bindery.kind": kind.name,
        "delta.checkpointInterval": str(checkpoints.ENTRIES),
        **kind.properties,
    }
    if vhost is not None:
        properties["bindery.vhost"] = vhost
    if name is not None:
        properties["bindery.name"] = name
    return create_log(
        path,
        kind.delta_schema,
        properties,
        name=kind.name if name is None else name,
        description=description_of(kind.name, vhost=vhost, name=name),
        transactions=transactions,
        actions=files,
    )


def open_log(
    path: str, kind: Kind, *, vhost: str | None = None, name: str | None = None, files: bool = False
) -> TableLog:
    """The log of a table, for committing; checked.

    Raises UnsupportedTable naming the path when the table is missing, damaged or not what is expected.
    """
    log = TableLog(path, files=files)
    check_table(log.state, path, kind, vhost=vhost, name=name)
    return log


def open_table(
    path: str,
    kind: Kind,
    *,
    vhost: str | None = None,
    name: str | None = None,
    version: int | None = None,
) -> DeltaTable:
    """A table for reading, at its newest version or another one; checked.

    Raises UnsupportedTable naming the path when it is missing or damaged.
    """
    try:
        table = DeltaTable(path, version=version, storage_options=delta_options(path))
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
    check_table(TableState.of(table), path, kind, vhost=vhost, name=name)
    return table


def exists(path: str) -> bool:
    """Whether a Delta table stands at that path."""
    return is_table(path)


def check_table(state: TableState, path: str, kind: Kind, *, vhost: str | None = None, name: str | None = None) -> None:
    """Raise UnsupportedTable unless this version of Bindery may read and write the table.

    Refused: another kind or name, a newer format, table features beyond the minimal protocol (row
    tracking, clustering, deletion vectors … would be broken by commits that do not know them), and
    columns of another type. Columns that only a newer schema has must be nullable, and are ignored.
    """
    properties = state.configuration
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
    if (state.min_reader_version, state.min_writer_version) > _MINIMAL_PROTOCOL or (
        state.min_writer_version > _MINIMAL_PROTOCOL[1]
    ):
        raise UnsupportedTable(
            f"{path} uses Delta protocol {state.min_reader_version}/{state.min_writer_version}"
            + (f" with {', '.join(state.features)}" if state.features else ""),
            where=path,
            hint="Bindery writes tables of protocol 1/2 without table features; copy the data into a new table",
        )
    if state.schema != kind.delta_schema:  # of older tables too, which have no comments
        _check_schema(state.schema, path, kind)


def _check_schema(schema: Schema, path: str, kind: Kind) -> None:
    present = {field.name: field for field in schema.fields}
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


def grow(log: TableLog, kind: Kind) -> bool:
    """Add the nullable columns that the table does not have yet; True when there were any.

    With them comes what an older table does not say about itself: to say that alone would be a change of the table's
    metadata, for which other engines give up their transactions and streams.
    Raises CommitConflict when every attempt lost its race.
    """
    for _ in attempts(log.path):
        log.refresh()
        fields = list(log.state.schema.fields)
        present = {field.name for field in fields}
        missing: list[Field] = [field for field in kind.delta_schema.fields if field.name not in present]
        if not missing:
            return False
        vhost, name = (log.state.configuration.get(f"bindery.{what}") for what in ("vhost", "name"))
        state = replace(
            log.state,
            schema_text=Schema([*map(kind.commented, fields), *missing]).to_json(),
            name=log.state.name or name or kind.name,
            description=log.state.description or description_of(kind.name, vhost=vhost, name=name),
        )
        if log.commit((), state=state, info={"operation": "ADD COLUMN"}) is not None:
            return True
    raise AssertionError("attempts() ends by raising")


# -- committing -----------------------------------------------------------------------------------------


def attempts(path: str) -> Iterator[int]:
    """Numbers of attempts to commit to a table, with a pause before each but the first.

    Raises CommitConflict after the last.
    """
    for attempt in range(ATTEMPTS):
        if attempt:
            # unlike the neighbour's pause
            time.sleep(min(0.002 * attempt, 0.05) * (0.5 + os.urandom(1)[0] / 255))
        yield attempt
    raise CommitConflict(
        f"{ATTEMPTS} attempts to commit to {path} lost the race", where=path, hint="many writers; try again"
    )


# -- queue tables ---------------------------------------------------------------------------------------


def ensure_queue_table(data: DataDir, vhost: str, name: str, *, undeclared_at: int = -1) -> None:
    """Make the queue's table exist, and be empty of rows routed at topology version `undeclared_at` or before.

    Called before the topology commit that declares the queue; `undeclared_at` is the version at which
    the queue was seen undeclared, so that whatever the table still holds belongs to an earlier queue
    of that name. Idempotent, and safe against a concurrent declaration that was faster.
    """
    path = data.queue(vhost, name)
    if not exists(path):
        fence = Transaction(_UNDECLARED, undeclared_at)
        log = create_table(path, QUEUE, vhost=vhost, name=name, transactions=[fence])
        if undeclared_since(log) == undeclared_at:
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

    def newer_rows(file: str) -> pa.Table | Unchanged | None:
        oldest, newest = _routed_between(files_of(log)[file].stats)
        if newest is not None and newest <= undeclared_at:
            return None  # without a look at the file, which may be missing
        if oldest is not None and oldest > undeclared_at:
            return UNCHANGED
        newer = _routed_after(at(path, file), undeclared_at)
        kept = pc.sum(newer, min_count=0).as_py()
        if kept and kept == len(newer):
            return UNCHANGED
        return file_rows.read_as_it_is(path, file).filter(newer) if kept else None

    log = open_log(path, QUEUE, vhost=vhost, name=name, files=True)
    with Rewriting(log, newer_rows, prefix="clear") as rewriting:
        for _ in attempts(path):
            log.refresh()
            if undeclared_since(log) >= undeclared_at:
                return
            done = rewriting.commit(
                transactions=[Transaction(_UNDECLARED, undeclared_at)],
                info={"bindery.change": "clear", "bindery.topologyVersion": undeclared_at},
            )
            if done is not None:
                return


def _routed_between(stats: str) -> tuple[int | None, int | None]:
    """The oldest and the newest topology version of a file's rows, as far as its statistics state them."""
    try:
        stated = json.loads(stats or "{}")
        return tuple(stated[bound]["routing"]["topology_version"] for bound in ("minValues", "maxValues"))
    except (ValueError, KeyError, TypeError):
        return None, None


def _routed_after(place: Place, version: int) -> pa.ChunkedArray:
    """Which rows of a file were routed at a topology version above `version`."""
    with file_rows.reading(place), place.parquet() as file:
        routing = file.read(columns=["routing.topology_version"])["routing"]
    return pc.fill_null(pc.greater(pc.struct_field(routing, "topology_version"), version), False)


def undeclared(version: int) -> Transaction:
    """What a table remembers of a queue that was seen undeclared at a topology version."""
    return Transaction(_UNDECLARED, version)


def undeclared_since(log: TableLog | DeltaTable) -> int:
    """The newest topology version at which the table's queue was seen undeclared; -1 for none."""
    version = log.transaction_version(_UNDECLARED)
    return -1 if version is None else version


def ensure_unroutable_table(data: DataDir, vhost: str, *, files: bool = False) -> TableLog:
    """The vhost's unroutable table, created when missing."""
    return ensure_table(data.unroutable(vhost), UNROUTABLE, vhost, files=files)


def ensure_journal_table(data: DataDir, stream: str, vhost: str) -> TableLog:
    """The journal of a stream, created when missing. Raises UnsupportedTable when it is of another vhost."""
    return ensure_table(data.journal(stream), JOURNAL, vhost, stream)


def ensure_inbox_table(data: DataDir, vhost: str) -> TableLog:
    """The vhost's inbox table, created when missing."""
    return ensure_table(data.inbox(vhost), INBOX, vhost)


def ensure_table(
    path: str, kind: Kind, vhost: str | None = None, name: str | None = None, *, files: bool = False
) -> TableLog:
    """The log of a table, created when missing."""
    opened = open_log if exists(path) else create_table
    return opened(path, kind, vhost=vhost, name=name, files=files)


# -- counting -------------------------------------------------------------------------------------------


def count_rows(data: DataDir, vhost: str, name: str) -> int:
    """Rows in a queue's table, from the statistics of its log; nothing is scanned."""
    return rows_in(open_log(data.queue(vhost, name), QUEUE, vhost=vhost, name=name, files=True))


def rows_in(log: TableLog) -> int:
    """Rows in the version of a log with files; those of files without statistics are read once, and noted."""
    files = files_of(log)
    for file in [file for file in files.values() if file.rows is None]:
        files[file.path] = replace(file, rows=_footer_rows(log, file.path))
    return sum(file.rows or 0 for file in files.values())


def files_of(log: TableLog) -> dict[str, AddFile]:
    """The files of a log that was opened with them, by path."""
    if log.files is None:
        raise ValueError(f"the log of {log.path} was opened without its files")
    return log.files


def _footer_rows(log: TableLog, name: str) -> int:
    rows: int = file_rows.footer(log.path, name).num_rows
    return rows
