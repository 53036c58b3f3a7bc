"""Actions of a Delta log: files that come and go, transactions, and what a table says about itself.

Delta transaction protocol, "Actions": an entry is JSON text, one action a line.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

from deltalake import DeltaTable, Schema

#: Key of a commit's own token in its commitInfo.
TOKEN: Final = "bindery.token"  # noqa: S105  # the name of a key, no secret
_SAFE: Final = "/-_.~"


class Transaction(NamedTuple):
    """A transaction identifier: how far an application has come in this table."""

    app_id: str
    version: int


@dataclass(frozen=True, slots=True)
class AddFile:
    """A file of the table: path relative to it, bytes, rows, Delta's statistics as JSON text.

    `modified_ms` is since 1970; `data_change` is False for a file that only holds what others held.
    """

    path: str
    size: int
    rows: int | None
    stats: str
    modified_ms: int
    data_change: bool = True

    def as_action(self) -> dict[str, Any]:
        """The action as it stands in an entry."""
        content = {
            "path": quote(self.path, safe=_SAFE),
            "partitionValues": {},
            "size": self.size,
            "modificationTime": self.modified_ms,
            "dataChange": self.data_change,
        }
        return {"add": content | ({"stats": self.stats} if self.stats else {})}


@dataclass(frozen=True, slots=True)
class RemoveFile:
    """A file that the table no longer has."""

    path: str
    size: int
    data_change: bool = True

    def as_action(self) -> dict[str, Any]:
        """The action as it stands in an entry."""
        return {
            "remove": {
                "path": quote(self.path, safe=_SAFE),
                "deletionTimestamp": time.time_ns() // 1_000_000,
                "dataChange": self.data_change,
                "extendedFileMetadata": True,
                "partitionValues": {},
                "size": self.size,
            }
        }


Action = AddFile | RemoveFile


@lru_cache(maxsize=64)  # thousands of tables have the same one
def _schema(text: str) -> Schema:
    return Schema.from_json(text)


@dataclass(frozen=True)
class TableState:
    """What a table says about itself: id, properties, protocol, schema, and for people a name and a description."""

    table_id: str
    configuration: Mapping[str, str]
    min_reader_version: int
    min_writer_version: int
    features: tuple[str, ...]
    schema_text: str = field(repr=False)
    name: str | None = None
    description: str | None = None

    @cached_property
    def column_names(self) -> frozenset[str]:
        """The names of the columns."""
        return frozenset(field.name for field in self.schema.fields)

    @cached_property
    def schema(self) -> Schema:
        """The Delta schema."""
        return _schema(self.schema_text)

    @classmethod
    def of(cls, table: DeltaTable) -> TableState:
        """The state of a table opened by deltalake."""
        metadata, protocol = table.metadata(), table.protocol()
        features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
        return cls(
            str(metadata.id),
            metadata.configuration,
            protocol.min_reader_version,
            protocol.min_writer_version,
            tuple(sorted(features)),
            table.schema().to_json(),
            metadata.name,
            metadata.description,
        )


def rows_stated(stats: str | None) -> int | None:
    """The number of rows that a file's statistics state; None when they do not."""
    try:
        found = json.loads(stats or "{}").get("numRecords")
    except ValueError:
        return None
    return None if found is None else int(found)


def added_file(content: Mapping[str, Any]) -> AddFile:
    """The file of an add action."""
    stats = content.get("stats") or ""
    return AddFile(
        unquote(content["path"]),
        int(content["size"]),
        rows_stated(stats),
        stats,
        int(content.get("modificationTime") or 0),
    )


def actions_of(entry: str, *, without: tuple[str, ...] = ()) -> Iterable[dict[str, Any]]:
    """The actions of an entry, one a line; a damaged one raises ValueError."""
    for line in entry.splitlines():
        if line and not (without and line.startswith(without)):
            yield json.loads(line)


def entry_text(
    actions: Sequence[Action],
    transactions: Iterable[Transaction],
    info: Mapping[str, Any] | None,
    token: str,
    state: TableState | None,
    *,
    create: bool = False,
) -> str:
    """An entry with its commit's token; `state` where it changes, and with `create` the protocol as well."""
    now = time.time_ns() // 1_000_000
    stated = {
        "timestamp": now,
        "operation": "WRITE",
        "operationParameters": {"mode": "ErrorIfExists" if create else "Append"},
        "engineInfo": "bindery",
        **(info or {}),
        TOKEN: token,
    }
    lines: list[dict[str, Any]] = [{"commitInfo": stated}]
    if create and state is not None:
        versions = {"minReaderVersion": state.min_reader_version, "minWriterVersion": state.min_writer_version}
        lines.append({"protocol": versions})
    if state is not None:
        lines.append({"metaData": _metadata(state, now)})
    lines += [action.as_action() for action in actions]
    lines += [{"txn": {"appId": one.app_id, "version": one.version, "lastUpdated": now}} for one in transactions]
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


def _metadata(state: TableState, now: int) -> dict[str, Any]:
    return {
        "id": state.table_id,
        "name": state.name,
        "description": state.description,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": state.schema_text,
        "partitionColumns": [],
        "createdTime": now,
        "configuration": dict(state.configuration),
    }
