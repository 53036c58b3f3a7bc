"""The topology table: one row per object, its Delta version is the topology version.

A change is one commit: rows of new and changed objects go to a small new file, files that hold a row
that changed or went are rewritten without it, and files of one order of size are merged when there are
many, all in the same commit. So every Delta version is one whole state, a declaration costs a few
small files whatever the size of the topology, and any engine can query the table or travel in time.

The commit is a compare-and-swap on the Delta version: a change that was validated against version n
becomes version n + 1 or is validated again. The next lineage id is kept as a Delta transaction
identifier, which travels with the version too.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from router.errors import InvalidInput, NotFound, UnsupportedTable
from router.model import Object, ObjectKey, Queue, Sequence, Topology, TopologyEditor, object_key
from store import data_files, tables
from store.group_commit import GroupCommitter
from store.history import (
    ObjectChange,
    VersionInfo,
    changes_between,
    commit_info,
    read_history,
    read_version,
    version_at,
)
from store.log import AddFile, RemoveFile, TableLog, Transaction
from store.objects import ROW_SCHEMA, from_rows, to_rows
from store.paths import DataDir

__all__ = ["Edit", "GroupCommitter", "ObjectChange", "TopologyStore", "VersionInfo"]

T = TypeVar("T")

TOPOLOGY: Final = tables.keep_forever("topology", ROW_SCHEMA)
_NEXT_ID: Final = "bindery.next-id"
#: Rows of one file; bounds what a change of one row rewrites.
FILE_ROWS: Final = 8192
#: Files of one order of size that are merged by the commit that meets them.
MERGE_FILES: Final = 16
#: Topologies of older versions that are kept in memory.
_REMEMBERED: Final = 8
_WORKERS: Final = 8


@dataclass(frozen=True, slots=True)
class Edit(Generic[T]):
    """What an edit gave: the result of the change, the state and the version that hold it."""

    result: T
    topology: Topology
    version: int


@dataclass
class _Head:
    """The newest state known to this process, with the file that holds each row."""

    topology: Topology
    files: dict[str, list[ObjectKey]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    place: dict[ObjectKey, str] = field(default_factory=dict)
    authors: dict[ObjectKey, str | None] = field(default_factory=dict)


class TopologyStore:
    """The topology of one data directory; safe to share between threads.

    `fault` is called with the name of each step of a commit, for tests that stop between two steps.
    """

    def __init__(self, data: DataDir, *, fault: Callable[[str], None] | None = None) -> None:
        self.data = data
        self._fault = fault or (lambda _step: None)
        self._lock = threading.RLock()
        self._log: TableLog | None = None
        self._head: _Head | None = None
        self._older: OrderedDict[int, Topology] = OrderedDict()

    # -- reading ------------------------------------------------------------------------------------

    def load(self, *, version: int | None = None, at: datetime | None = None) -> Topology:
        """The newest topology, or the one of a version or time. Treat it as read-only: it is shared.

        Costs a look at the log when nothing has changed. Raises UnsupportedTable for a missing or
        damaged table and NotFound for a version or time that does not exist.
        """
        with self._lock:
            head = self._refresh()
            if at is not None:
                version = version_at(self.data.topology, head.topology.version, at)
            if version is None or version == head.topology.version:
                return head.topology
            return self._older_version(version)

    def create(self) -> Topology:
        """Create the topology table with the vhost "/" unless it is there; the newest topology."""
        with self._lock:
            if self._log is None:
                self._log = tables.ensure_table(self.data.topology, TOPOLOGY, files=True)
            log = self._log
            log.refresh()
            while log.transaction_version(_NEXT_ID) is None:
                first = Topology.empty()
                rows = to_rows((item for item in first.objects() if not isinstance(item, Sequence)), author="bindery")
                added = data_files.write_file(self.data.topology, rows)
                info = commit_info("bindery", "initial topology", {}, first)
                if log.commit([added], transactions=[Transaction(_NEXT_ID, first.next_id)], info=info) is None:
                    data_files.drop_unused(self.data.topology, [added.path])
                    log.refresh()
            return self._refresh().topology

    def history(self, *, before: int | None = None, limit: int | None = None) -> list[VersionInfo]:
        """Versions, newest first, from the commit log: those before a version, `limit` at most."""
        newest = self.load().version
        return read_history(self.data.topology, newest if before is None else min(before - 1, newest), limit=limit)

    def version(self, number: int) -> VersionInfo:
        """One version; raises NotFound for one that does not exist."""
        newest = self.load().version
        if not 0 <= number <= newest:
            raise NotFound(f"no topology version {number}", where="version", hint=f"0 to {newest}")
        return read_version(self.data.topology, number)

    def author(self, key: ObjectKey) -> str | None:
        """Who made the last change to an object of the newest topology known to this process.

        Changes of several authors that shared a commit name them all.
        """
        head = self._head
        return None if head is None else head.authors.get(key)

    def diff(self, a: int, b: int) -> list[ObjectChange]:
        """What leads from version a to version b."""
        return changes_between(self.load(version=a), self.load(version=b))

    # -- changing -----------------------------------------------------------------------------------

    def edit(self, change: Callable[[TopologyEditor], T], *, author: str, reason: str = "") -> Edit[T]:
        """Apply a change in one commit; an edit that changes nothing commits nothing.

        `change` gets an editor over the newest state; what it raises goes to the caller and nothing is
        changed. When another process was faster it runs again on the new state. Tables of declared
        queues exist before the commit; those of deleted ones are emptied after it.
        Raises CommitConflict when every one of a bounded number of attempts lost its race.
        """
        with self._lock:
            if self._head is None:
                self.create()
            for _ in tables.attempts(self.data.topology):
                head = self._refresh()
                editor = head.topology.edit()
                result = change(editor)
                changes = {key: item for key, item in editor.changes.items() if head.topology.get(key) != item}
                recreated = [
                    (vhost, name)
                    for kind, vhost, name in editor.dropped
                    if kind == "queue" and (vhost, name) in head.topology.queues.keys() & editor.topology.queues.keys()
                ]
                if not changes and not recreated:
                    return Edit(result, head.topology, head.topology.version)
                base = head.topology.version
                if self._commit(head, editor.topology, changes, author, reason):
                    deleted = [key[1:] for key, item in changes.items() if key[0] == "queue" and item is None]
                    self._clear(deleted, base + 1)
                    self._clear(recreated, base)
                    return Edit(result, head.topology, head.topology.version)
            raise AssertionError("attempts() ends by raising")

    def rollback(
        self, to: int, *, author: str, check: Callable[[Topology, list[ObjectChange]], None] | None = None
    ) -> Edit[list[ObjectChange]]:
        """Make the state of an older version the newest one, ids included, as a new version.

        Lineage ids given out since are not given out again; a queue that comes back is empty. `check` sees
        the present state and what would change, and raises to refuse it.
        """
        target = self.load(version=to)

        def change(editor: TopologyEditor) -> list[ObjectChange]:
            found = changes_between(editor.topology, target)
            if check is not None:
                check(editor.topology, found)
            editor.replay({one.key: one.after for one in found})
            return found

        return self.edit(change, author=author, reason=f"rollback to version {to}")

    # -- the newest state ---------------------------------------------------------------------------

    def _open(self) -> TableLog:
        if self._log is None:
            if self.data.create and not tables.exists(self.data.topology):
                self.create()
            else:
                self._log = tables.open_log(self.data.topology, TOPOLOGY, files=True)
        assert self._log is not None  # noqa: S101  # for the type checker; both branches set it
        return self._log

    def _refresh(self) -> _Head:
        log = self._open()
        log.refresh()
        head = self._head
        if head is None or head.topology.version != log.version:
            tables.check_table(log.state, self.data.topology, TOPOLOGY)
            head = self._head = self._advance(head, log)
        return head

    def _advance(self, head: _Head | None, log: TableLog) -> _Head:
        """The head of the log's version; only files that the last head did not know are read."""
        files = tables.files_of(log)
        known: Mapping[str, list[ObjectKey]] = {} if head is None else head.files
        added = [name for name in files if name not in known]
        read = {name: self._read(name) for name in added}
        if head is None:
            objects = [item for name in added for item, _ in read[name]]
            topology = Topology.of([*objects, _sequence(log)], version=log.version)
            head = _Head(topology)
        else:
            changes: dict[ObjectKey, Object | None] = {
                key: None for name, keys in known.items() if name not in files for key in keys
            }
            changes |= {object_key(item): item for items in read.values() for item, _ in items}
            editor = head.topology.edit()
            editor.replay({**changes, ("sequence", "", ""): _sequence(log)})
            editor.topology.version = log.version
            head = _Head(editor.topology, dict(head.files), dict(head.sizes), dict(head.place), dict(head.authors))
            for name in [name for name in head.files if name not in files]:
                _forget(head, name)
        for name, items in read.items():
            _remember(head, name, files[name].size, [object_key(item) for item, _ in items])
            head.authors.update((object_key(item), author) for item, author in items)
        return head

    def _older_version(self, version: int) -> Topology:
        found = self._older.get(version)
        if found is None:
            newest = self._open().version
            if not 0 <= version <= newest:
                raise NotFound(f"no topology version {version}", where="version", hint=f"0 to {newest}")
            table = tables.open_table(self.data.topology, TOPOLOGY, version=version)
            names = pa.table(table.get_add_actions())["path"].to_pylist()
            objects = [item for name in names for item, _ in self._read(name)]
            seeded = table.transaction_version(_NEXT_ID) is not None
            found = Topology.of([*objects, _sequence(table)], version=version) if seeded else Topology.empty()
            found.version = version
            self._older[version] = found
            if len(self._older) > _REMEMBERED:
                self._older.popitem(last=False)
        self._older.move_to_end(version)
        return found

    def _read(self, name: str) -> list[tuple[Object, str | None]]:
        """The objects of one file, each with its author."""
        path = Path(self.data.topology, name)
        try:
            rows = pq.read_table(path, schema=ROW_SCHEMA)
            return list(zip(from_rows(rows), rows["author"].to_pylist(), strict=True))
        except InvalidInput as error:
            raise UnsupportedTable(f"{path}: {error.message}", where=self.data.topology) from error
        except (OSError, pa.ArrowException) as error:
            raise UnsupportedTable(
                f"cannot read {path}: {tables.reason_of(error)}",
                where=self.data.topology,
                hint="a file of the topology table is missing or damaged; the table is never vacuumed",
            ) from error

    # -- one commit ---------------------------------------------------------------------------------

    def _commit(
        self,
        head: _Head,
        topology: Topology,
        changes: Mapping[ObjectKey, Object | None],
        author: str,
        reason: str,
    ) -> bool:
        """Write and commit; False when another process was faster. Moves `head` on success."""
        self._fault("start")
        known = head.topology.queues
        declared = [
            item for item in changes.values() if isinstance(item, Queue) and (item.vhost, item.name) not in known
        ]
        base = head.topology.version
        _each(lambda q: tables.ensure_queue_table(self.data, q.vhost, q.name, undeclared_at=base), declared)
        self._fault("queues")
        rewritten, files = self._rewrite(head, changes, author)
        self._fault("files")
        done = self._open().commit(
            [*(added for added, _ in files), *(RemoveFile(name, head.sizes[name]) for name in sorted(rewritten))],
            transactions=[Transaction(_NEXT_ID, topology.next_id)],
            info=commit_info(author, reason, changes, head.topology),
        )
        if done is None:
            data_files.drop_unused(self.data.topology, [added.path for added, _ in files])
            return False
        self._fault("committed")
        topology.version = done
        for name in rewritten:
            _forget(head, name)
        for added, keys in files:
            _remember(head, added.path, added.size, keys)
        for key, item in changes.items():
            if item is None:
                head.authors.pop(key, None)
            else:
                head.authors[key] = author
        head.topology = topology
        return True

    def _rewrite(
        self, head: _Head, changes: Mapping[ObjectKey, Object | None], author: str
    ) -> tuple[set[str], list[tuple[AddFile, list[ObjectKey]]]]:
        """Files to remove, and files to add with the keys of their rows."""
        rewritten = {head.place[key] for key in changes if key in head.place}
        new = [item for item in changes.values() if item is not None and not isinstance(item, Sequence)]
        kept_keys = [key for name in sorted(rewritten) for key in head.files[name] if key not in changes]
        for merged in _to_merge(head, rewritten, len(kept_keys) + len(new)):
            rewritten.add(merged)
            kept_keys += head.files[merged]
        rows = pa.concat_tables([*self._kept(head, kept_keys), to_rows(new, author=author)])
        keys = [*kept_keys, *map(object_key, new)]
        if not keys:
            return rewritten, []
        return rewritten, [
            (
                data_files.write_file(self.data.topology, rows.slice(start, FILE_ROWS)),
                keys[start : start + FILE_ROWS],
            )
            for start in range(0, len(keys), FILE_ROWS)
        ]

    def _kept(self, head: _Head, keys: list[ObjectKey]) -> list[pa.Table]:
        """The rows of the keys, which come grouped by file and in the order of each file."""
        by_file: dict[str, list[ObjectKey]] = {}
        for key in keys:
            by_file.setdefault(head.place[key], []).append(key)
        found = []
        for name, wanted in by_file.items():
            rows = pq.read_table(Path(self.data.topology, name), schema=ROW_SCHEMA)
            if len(wanted) < len(head.files[name]):
                keep = set(wanted)
                rows = rows.filter(pa.array([key in keep for key in head.files[name]]))
            found.append(rows)
        return found

    def _clear(self, queues: list[tuple[str, str]], undeclared_at: int) -> None:
        _each(lambda q: tables.clear_queue_table(self.data, *q, undeclared_at=undeclared_at), queues)


def _each(work: Callable[[Any], None], items: list[Any]) -> None:
    if len(items) <= 1:
        for item in items:
            work(item)
        return
    with ThreadPoolExecutor(_WORKERS, "tables") as pool:
        for _ in pool.map(work, items):
            pass


def _sequence(table: TableLog | DeltaTable) -> Sequence:
    return Sequence(table.transaction_version(_NEXT_ID) or 1)


def _remember(head: _Head, name: str, size: int, keys: list[ObjectKey]) -> None:
    head.files[name] = keys
    head.sizes[name] = size
    for key in keys:
        head.place[key] = name


def _forget(head: _Head, name: str) -> None:
    for key in head.files.pop(name):
        if head.place.get(key) == name:
            del head.place[key]
    del head.sizes[name]


def _order(rows: int) -> int:
    """The order of size of a file: 0 below 16 rows, 1 below 256, 2 below 4,096, 3 for full files."""
    return 3 if rows >= FILE_ROWS // 2 else (max(rows, 1).bit_length() - 1) // 4


def _to_merge(head: _Head, rewritten: set[str], rows: int) -> list[str]:
    """Small files that this commit merges with its own: those of an order that has grown full, upwards."""
    orders: dict[int, list[str]] = {}
    for name, keys in head.files.items():
        if name not in rewritten:
            orders.setdefault(_order(len(keys)), []).append(name)
    merged: list[str] = []
    for order in range(3):
        if len(orders.get(order, ())) + 1 < MERGE_FILES:
            continue
        merged += orders[order]
        rows += sum(len(head.files[name]) for name in orders[order])
    return sorted(merged)
