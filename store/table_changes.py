"""What has happened to a table, and what it is made of, as its log says: nothing is scanned.

An entry of the log says what was committed (Delta transaction protocol, "Commit Provenance Information"); Bindery's own
name the change, and those of a batch its stream and number.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bindery.router.errors import UnsupportedTable
from bindery.store.actions import AddFile, TableState, actions_of, added_file
from bindery.store.log import entry_name
from bindery.store.past import versions_of
from bindery.store.places import at

#: Entries that are read together: on an object store each is a request.
_AT_ONCE: Final = 16
#: What is called by another name than the change that wrote it.
_OPERATIONS: Final = {"CREATE TABLE": "create", "OPTIMIZE": "compact", "VACUUM START": "vacuum", "WRITE": "write"}
#: Changes that maintenance makes.
MAINTENANCE: Final = frozenset({"compact", "vacuum"})


@dataclass(frozen=True, slots=True)
class TableChange:
    """A version of a table.

    committed_ms  when it was committed, milliseconds since 1970
    change        "append" for a batch, "get", "purge", "move", "compact" …; of another engine its operation
    stream        the stream of an appended batch, else None
    batch_id      the number of that batch, else None
    added         rows appended; None for a change that does more than append
    """

    version: int
    committed_ms: int
    change: str
    stream: str | None = None
    batch_id: int | None = None
    added: int | None = None


def newest_changes(path: str, count: int, *, before: int | None = None) -> list[TableChange]:
    """The newest `count` versions of which the log has the entries, newest first; `before` a version, those below it.

    Raises UnsupportedTable for a damaged entry.
    """
    known = [version for version in versions_of(path) if before is None or version < before]
    chosen = known[-count:] if count > 0 else []
    found: list[TableChange] = []
    folder = at(path, "_delta_log")
    for start in range(0, len(chosen), _AT_ONCE):
        versions = chosen[start : start + _AT_ONCE]
        try:
            contents = folder.read_on([entry_name(version) for version in versions])
            # cleaned up meanwhile: what is left are the newer ones
            found += [_change(version, content.decode()) for version, content in zip(versions, contents, strict=False)]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UnsupportedTable(f"cannot read the log of {path}: {error}", where=path) from error
    return found[::-1]


def _change(version: int, entry: str) -> TableChange:
    info: Mapping[str, Any] = {}
    added: int | None = 0
    for action in actions_of(entry, without=('{"remove"',)):
        info = action.get("commitInfo") or info
        if "add" in action and added is not None:
            rows = added_file(action["add"]).rows
            added = None if rows is None else added + rows
    named = info.get("bindery.change")
    stream, batch = info.get("bindery.stream"), info.get("bindery.batch")
    is_batch = named is None and stream is not None and isinstance(batch, int)
    operation = str(info.get("operation", "unknown"))
    change = named or ("append" if is_batch else _OPERATIONS.get(operation, operation.lower()))
    return TableChange(
        version,
        int(info.get("timestamp", 0)),
        str(change),
        str(stream) if is_batch else None,
        batch if is_batch else None,
        added if info.get("isBlindAppend") is True else None,
    )


@dataclass(frozen=True, slots=True)
class FileSizes:
    """The files of a version of a table: how many, and bytes: together, smallest, median, largest; 0 without any."""

    count: int
    bytes: int
    smallest: int
    median: int
    largest: int

    @classmethod
    def of(cls, files: Iterable[AddFile]) -> FileSizes:
        """The sizes of these files."""
        sizes = [file.size for file in files]
        if not sizes:
            return cls(0, 0, 0, 0, 0)
        return cls(len(sizes), sum(sizes), min(sizes), int(statistics.median(sizes)), max(sizes))


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table: its type as Spark SQL writes it, and what its comment says."""

    name: str
    type: str
    comment: str | None


def columns_of(state: TableState) -> list[TableColumn]:
    """The columns that a table states, in its order."""
    fields: Sequence[Mapping[str, Any]] = json.loads(state.schema_text)["fields"]
    return [TableColumn(one["name"], type_text(one["type"]), one.get("metadata", {}).get("comment")) for one in fields]


def type_text(stated: Any) -> str:
    """A type of a Delta schema ("Schema Serialization Format") as Spark SQL writes it: array<string>, map<…>, …"""
    if isinstance(stated, str):
        return {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}.get(stated, stated)
    match stated:
        case {"type": "array", "elementType": element}:
            return f"array<{type_text(element)}>"
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"map<{type_text(key)}, {type_text(value)}>"
        case {"type": "struct", "fields": members}:
            texts = (f"{one['name']}: {type_text(one['type'])}" for one in members)
            return f"struct<{', '.join(texts)}>"
    return str(stated)
