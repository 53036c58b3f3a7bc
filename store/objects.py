"""Topology objects as rows of the topology table, and back.

Arguments keep the typed union of the message schema, so that analysts can query them and no type is
lost; the JSON value of a setting is kept as text.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.errors import InvalidInput
from bindery.router.message import VALUE_MAP, value_from_row, value_row
from bindery.router.model import NO_QUEUE_ID, TRANSFORM, Binding, Divert, Exchange, Object, Queue, Setting, Vhost
from bindery.router.values import Table, from_nested_text, to_nested_text

ROW_SCHEMA: Final = pa.schema(
    [
        ("kind", pa.string()),
        ("vhost", pa.string()),
        ("name", pa.string()),
        ("id", pa.int32()),
        ("source", pa.string()),
        ("destination", pa.string()),
        ("destination_type", pa.string()),
        ("routing_key", pa.string()),
        ("arguments", VALUE_MAP),
        ("type", pa.string()),
        ("durable", pa.bool_()),
        ("auto_delete", pa.bool_()),
        ("internal", pa.bool_()),
        ("exclusive", pa.bool_()),
        ("filter", pa.string()),
        ("description", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("default_queue_type", pa.string()),
        ("tracing", pa.bool_()),
        ("compat", pa.string()),
        ("value", pa.string()),
        ("author", pa.string()),
    ]
)
#: Times as integers of microseconds: every 64-bit timestamp survives, which Python's datetime cannot hold.
_ARGUMENTS_READ: Final = pa.map_(
    pa.string(),
    pa.struct([(m.name, pa.int64() if pa.types.is_timestamp(m.type) else m.type) for m in VALUE_MAP.item_type]),
)
#: Kinds of rows whose columns are the fields of the object; every other kind is a setting.
_PLAIN: Final[Mapping[str, tuple[type, tuple[str, ...]]]] = {
    "vhost": (Vhost, ("name", "description", "tags", "default_queue_type", "tracing", "compat")),
    "exchange": (Exchange, ("vhost", "name", "type", "durable", "auto_delete", "internal", "arguments")),
    "queue": (Queue, ("vhost", "name", "durable", "auto_delete", "arguments", "id")),
    "binding": (
        Binding,
        ("id", "vhost", "source", "destination", "destination_type", "routing_key", "arguments"),
    ),
    "divert": (
        Divert,
        ("id", "vhost", "name", "source", "destination", "filter", "exclusive", "routing_key"),
    ),
}
_KIND_OF: Final = {kind: name for name, (kind, _) in _PLAIN.items()}
_NO_ARGUMENTS: Final = Table()


def to_rows(objects: Iterable[Object], authors: Iterable[str | None] = itertools.repeat(None)) -> pa.Table:
    """Objects as rows of ROW_SCHEMA, in order, each with who changed it last."""
    rows = [{**_row(item), "author": author} for item, author in zip(objects, authors, strict=False)]
    columns = [pa.array([row.get(column.name) for row in rows], column.type) for column in ROW_SCHEMA]
    return pa.Table.from_arrays(columns, schema=ROW_SCHEMA)


def from_rows(rows: pa.Table) -> list[Object]:
    """The objects behind rows, in order; raises InvalidInput naming the row that is corrupt."""
    columns: dict[str, list[Any]] = {}
    for column in ROW_SCHEMA:
        if column.name not in rows.column_names:
            columns[column.name] = [None] * rows.num_rows
        elif column.name == "arguments":
            columns[column.name] = pc.cast(rows[column.name], _ARGUMENTS_READ).to_pylist()
        else:
            columns[column.name] = rows[column.name].to_pylist()
    objects: list[Object] = []
    for number, kind in enumerate(columns["kind"]):
        try:
            objects.append(_object(kind, columns, number))
        except (InvalidInput, TypeError, ValueError) as error:
            named = ", ".join(f"{c} {columns[c][number]!r}" for c in ("kind", "vhost", "name", "id"))
            raise InvalidInput(f"corrupt row ({named}): {error}", where="topology row") from error
    return objects


def _row(item: Object) -> dict[str, Any]:
    if isinstance(item, Setting):
        return {"kind": item.kind, "vhost": item.vhost, "name": item.name, "value": to_nested_text(item.value)}
    kind = _KIND_OF[type(item)]
    row: dict[str, Any] = {"kind": kind}
    for field in _PLAIN[kind][1]:
        content = getattr(item, field)
        row[field] = [(key, value_row(value)) for key, value in content.items()] if field == "arguments" else content
    if row.get("id") == NO_QUEUE_ID and kind == "queue":
        row["id"] = None
    if isinstance(item, Divert) and item.transform:
        row["arguments"] = [(TRANSFORM, value_row(item.transform))]
    return row


_TEXTS: Final = frozenset(
    ("vhost", "name", "source", "destination", "destination_type", "type", "filter", "description")
)
_FLAGS: Final = frozenset(("durable", "auto_delete", "internal", "exclusive", "tracing"))
#: What a stored column becomes in the object.
_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "arguments": lambda content: (
        Table({key: value_from_row(value) for key, value in content}) if content else _NO_ARGUMENTS
    ),
    "tags": lambda content: tuple(content or ()),
    "id": lambda content: NO_QUEUE_ID if content is None else content,
}


def _object(kind: str, columns: Mapping[str, list[Any]], number: int) -> Object:
    if kind not in _PLAIN:
        for name in ("kind", "vhost", "name", "value"):
            if columns[name][number] is None:
                raise InvalidInput(f"no {name}", where="topology row")
        return Setting(
            kind, columns["vhost"][number], columns["name"][number], from_nested_text(columns["value"][number])
        )
    factory, fields = _PLAIN[kind]
    content = {}
    for field in fields:
        value = columns[field][number]
        if value is None and (field in _TEXTS or field in _FLAGS or (field == "id" and kind != "queue")):
            raise InvalidInput(f"no {field}", where="topology row")
        read = _READERS.get(field)
        content[field] = value if read is None else read(value)
    if kind == "divert":
        content["transform"] = _READERS["arguments"](columns["arguments"][number]).get(TRANSFORM, "")
    item: Object = factory(**content)
    return item
