"""What can be read at a point, by name: queues, unroutable messages, batches, and the topology as tables."""

from __future__ import annotations

import json
from collections.abc import Callable

import pyarrow as pa

from bindery.analytics.flat import MAX_COLUMNS, FlatColumn, flat_columns
from bindery.analytics.point import ReadPoint, TableAt
from bindery.analytics.rows import Rows
from bindery.analytics.seen import seen_in
from bindery.router.filters import Filter
from bindery.router.message import JOURNAL_SCHEMA, QUEUE_SCHEMA, TIMESTAMP, UNROUTABLE_SCHEMA
from bindery.router.model import Sequence
from bindery.store.history import read_history
from bindery.store.manifest import MANIFEST
from bindery.store.objects import to_rows

#: Says something to whoever asked, beside the result.
Notice = Callable[[str], None]
#: Objects of the topology that are tables of their own, with their columns.
OBJECTS = {
    "exchanges": ("vhost", "name", "type", "durable", "auto_delete", "internal", "arguments"),
    "queues": ("vhost", "name", "id", "durable", "auto_delete", "arguments"),
    "bindings": ("vhost", "id", "source", "destination", "destination_type", "routing_key", "arguments"),
}
_VERSIONS = pa.schema(
    [
        ("version", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("author", pa.string()),
        ("reason", pa.string()),
        ("counts", pa.string()),
        ("changes", pa.string()),
    ]
)


def silent(_: str) -> None:
    """Nobody is told."""


def queue_rows(
    point: ReadPoint,
    vhost: str,
    name: str,
    *,
    flat: bool = True,
    notice: Notice = silent,
    condition: Filter | None = None,
    since: int | None = None,
) -> Rows:
    """The rows of a queue, flattened unless that is not wanted. Raises NotFound for no queue, UnsupportedTable."""
    table = point.queue(vhost, name)
    columns = _columns(table, QUEUE_SCHEMA, name, notice) if flat else []
    return Rows(table, QUEUE_SCHEMA, columns, condition=condition, since=since)


def queue_columns(point: ReadPoint, vhost: str, name: str, *, notice: Notice = silent) -> list[FlatColumn]:
    """The flat columns of a queue. Raises NotFound for no queue, UnsupportedTable."""
    return _columns(point.queue(vhost, name), QUEUE_SCHEMA, name, notice)


def unroutable_rows(point: ReadPoint, vhost: str, *, notice: Notice = silent) -> Rows | pa.Table:
    """The unroutable messages of a vhost, flattened."""
    table = point.unroutable(vhost)
    if table is None:
        flat = flat_columns({})
        return pa.schema([*UNROUTABLE_SCHEMA, *(pa.field(one.name, one.type) for one in flat)]).empty_table()
    return Rows(table, UNROUTABLE_SCHEMA, _columns(table, UNROUTABLE_SCHEMA, "unroutable", notice))


def journal_rows(
    point: ReadPoint,
    stream: str,
    path: str,
    *,
    flat: bool = True,
    notice: Notice = silent,
    condition: Filter | None = None,
    since: int | None = None,
) -> Rows:
    """The messages of a stream's journal, flattened unless that is not wanted."""
    table = point.journal(path)
    columns = _columns(table, JOURNAL_SCHEMA, f"journal of {stream}", notice) if flat else []
    return Rows(table, JOURNAL_SCHEMA, columns, condition=condition, since=since)


def journal_columns(point: ReadPoint, stream: str, path: str, *, notice: Notice = silent) -> list[FlatColumn]:
    """The flat columns of a stream's journal."""
    return _columns(point.journal(path), JOURNAL_SCHEMA, f"journal of {stream}", notice)


def unroutable_columns(point: ReadPoint, vhost: str, *, notice: Notice = silent) -> list[FlatColumn]:
    """The flat columns of a vhost's unroutable messages, also where there are none yet."""
    table = point.unroutable(vhost)
    return flat_columns({}) if table is None else _columns(table, UNROUTABLE_SCHEMA, "unroutable", notice)


def batch_rows(point: ReadPoint) -> Rows | pa.Table:
    """The rows of the manifest."""
    table = point.batches()
    return MANIFEST.schema.empty_table() if table is None else Rows(table, MANIFEST.schema)


def object_rows(point: ReadPoint) -> pa.Table:
    """What the topology table holds: one row for each object that was declared."""
    objects = [item for item in point.topology.objects() if not isinstance(item, Sequence)]
    return to_rows(objects).drop_columns(["author"])


def objects_named(point: ReadPoint, name: str) -> pa.Table:
    """One of OBJECTS with its columns; predeclared exchanges are there, too."""
    return to_rows(getattr(point.topology, name).values()).select(list(OBJECTS[name]))


def version_rows(point: ReadPoint) -> pa.Table:
    """The versions of the topology, newest first; one small file is read for each."""
    rows = [
        {
            "version": one.version,
            "timestamp": one.timestamp,
            "author": one.author,
            "reason": one.reason,
            "counts": json.dumps(one.as_data()["counts"], ensure_ascii=False),
            "changes": json.dumps(one.as_data()["changes"], ensure_ascii=False),
        }
        for one in read_history(point.data.topology, point.topology.version)
    ]
    return pa.Table.from_pylist(rows, schema=_VERSIONS)


def _columns(table: TableAt, schema: pa.Schema, label: str, notice: Notice) -> list[FlatColumn]:
    """The flat columns of a table; what is to be said about them is said of the `label`."""
    seen = seen_in(table, schema)
    columns = flat_columns(seen)
    for one in columns:
        if one.widened is not None:
            notice(f"{label}: {one.widened}")
    headers = sum(ref.section == "application_properties" for ref in seen)
    if headers > MAX_COLUMNS:
        notice(
            f"{label}: {headers:,} names of headers: {MAX_COLUMNS:,} have columns, "
            "application_properties holds them all"
        )
    return columns
