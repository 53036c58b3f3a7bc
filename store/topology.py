"""The topology table: one row per object, its Delta version is the topology version.

A change is one commit: rows of new and changed objects go to a small new file, files that hold a row
that changed or went are rewritten without it, and files of one order of size are merged when there are
many, all in the same commit. So every Delta version is one whole state, a declaration costs a few
small files whatever the size of the topology, and any engine can query the table or travel in time.

The commit is a compare-and-swap on the Delta version: a change that was validated against version n
becomes version n + 1 or is validated again. The next lineage ids are kept as Delta transaction
identifiers, which travel with the version too.

A candidate of a canary (`bindery.router.canary`) is a version, too, that was never in force: the commit after it is
the present again, with a setting that names it. Between the two, and after a crash there for as long as nobody
changes anything, the newest version is a candidate, which says so (transaction identifier `bindery.candidate`):
whoever asks for the newest topology gets the one that it stands on.

Readers and the writer of a process share nothing but the newest state, which never changes: it is
replaced as a whole. So nobody who reads waits for a change that is being made, however long it takes.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from bindery.router.canary import canary_key, running_canaries, running_canary
from bindery.router.declarations import TopologyEditor
from bindery.router.errors import BinderyError, InvalidInput, NotFound, UnsupportedTable
from bindery.router.model import NO_QUEUE_ID, Object, ObjectKey, Queue, Sequence, Topology, object_key
from bindery.router.model.objects import CANARY_KIND
from bindery.router.queue_limits import LimitsOf
from bindery.store import data_files, faults, file_rows, queue_use, tables
from bindery.store.actions import RemoveFile, Transaction
from bindery.store.candidates import carried_over, changes_of
from bindery.store.history import (
    ObjectChange,
    VersionInfo,
    changes_back,
    changes_between,
    commit_info,
    read_history,
    read_version,
    version_at,
)
from bindery.store.log import TableLog
from bindery.store.objects import ROW_SCHEMA, from_rows, to_rows
from bindery.store.paths import DataDir
from bindery.store.places import at

__all__ = ["Edit", "ObjectChange", "TopologyStore", "VersionInfo"]

T = TypeVar("T")

_LOGGER: Final = logging.getLogger(__name__)

TOPOLOGY: Final = tables.keep_forever("topology", ROW_SCHEMA)
_NEXT_ID: Final = "bindery.next-id"
_NEXT_QUEUE_ID: Final = "bindery.next-queue-id"
#: What a candidate stands on: one more than the version that is in force; 0 for every other version.
_CANDIDATE: Final = "bindery.candidate"
#: Rows of one file; bounds what a change of one row rewrites.
FILE_ROWS: Final = 8192
#: Files of one order of size that are merged by the commit that meets them.
MERGE_FILES: Final = 16
#: Rows of a file up to which what was written is kept to be merged: there are a few dozen such files at most.
_KEPT_ROWS: Final = 256
#: Topologies of older versions that are kept in memory.
_REMEMBERED: Final = 8
_WORKERS: Final = 8


@dataclass(frozen=True, slots=True)
class Edit(Generic[T]):
    """What an edit gave: the result of the change, the state and the version that hold it."""

    result: T
    topology: Topology
    version: int


@dataclass(frozen=True, slots=True)
class _File:
    """A file of the table: bytes, and the authors of its rows by key, in the order of the rows.

    `content` are the rows themselves where this process wrote a small file: it will soon merge it with others.
    """

    size: int
    rows: Mapping[ObjectKey, str | None]
    content: pa.Table | None = None


@dataclass(frozen=True, slots=True)
class _Head:
    """The state of the newest version, with the files that hold its rows; never changed once it is there.

    `present` is the topology that is in force: that state, unless it is a candidate.
    """

    topology: Topology
    files: Mapping[str, _File]
    present: Topology

    @property
    def version(self) -> int:
        return self.topology.version

    def author(self, key: ObjectKey) -> str | None:
        """Who made the last change to an object."""
        return next((file.rows[key] for file in self.files.values() if key in file.rows), None)


def _refuse_gap(path: str) -> None:
    """A log whose second entry is lost looks like a table that nobody has come to yet; it must not be filled anew."""
    entries = (at(path) / "_delta_log").numbers(".json")
    if 1 not in entries and max(entries, default=0) > 1:
        raise UnsupportedTable(
            "entry 1 of the log is missing",
            where=path,
            hint="the log of the topology table is kept whole; restore the file from a backup",
        )


class TopologyStore:
    """The topology of one data directory; safe to share between threads."""

    def __init__(self, data: DataDir) -> None:
        self.data = data
        #: Held while a change is made: one at a time, so that a process does not race itself.
        self._changing = threading.RLock()
        self._committed: TableLog | None = None
        #: Held while the log is looked at; nobody writes anything meanwhile.
        self._looking = threading.Lock()
        self._seen: TableLog | None = None
        self._head: _Head | None = None
        self._older: OrderedDict[int, Topology] = OrderedDict()

    # -- reading ------------------------------------------------------------------------------------

    def load(self, *, version: int | None = None, at: datetime | None = None) -> Topology:
        """The newest topology, or the one of a version or time. Treat it as read-only: it is shared.

        Everything that was committed before the call is in it, by whatever process. Costs a look at the log
        when nothing has changed, and waits for no change that is being made. Raises UnsupportedTable for a
        missing or damaged table and NotFound for a version or time that does not exist.
        """
        head = self._look()
        newest = head.present
        if at is not None:
            version = version_at(self.data.topology, newest.version, at)
            version = version if version == newest.version else self._in_force_at(version)
        if version is None or version == newest.version:
            return newest
        return self._older_version(version, head.version)

    def queue_of(self, vhost: str, name: str) -> Queue | None:
        """A queue of the newest topology, None for one that is not declared; raises UnsupportedTable as `load` does.

        Where the topology has not been loaded yet only the rows of this queue are decoded.
        """
        with self._looking:
            loaded = self._head is not None
        if loaded or not tables.exists(self.data.topology):
            return self.load().queues.get((vhost, name))
        log = tables.open_log(self.data.topology, TOPOLOGY, files=True)
        if _stands_on(log) is not None:
            return self.load().queues.get((vhost, name))
        where = (pc.field("kind") == "queue") & (pc.field("vhost") == vhost) & (pc.field("name") == name)
        for file in tables.files_of(log):
            for batch in file_rows.batches(log.path, file, ROW_SCHEMA, where=where):
                for item, _ in self._objects(file, pa.Table.from_batches([batch])):
                    if isinstance(item, Queue):
                        return item
        return None

    def create(self) -> Topology:
        """Create the topology table with the vhost "/" unless it is there; the newest topology."""
        with self._changing:
            if self._committed is None:
                self._committed = tables.ensure_table(self.data.topology, TOPOLOGY)
            log = self._committed
            log.refresh()
            if log.version == 0:
                _refuse_gap(self.data.topology)
            while log.transaction_version(_NEXT_ID) is None:
                first = Topology.empty()
                objects = [item for item in first.objects() if not isinstance(item, Sequence)]
                rows = to_rows(objects, itertools.repeat("bindery"))
                info = commit_info("bindery", "initial topology", {}, first)
                with data_files.Draft(log) as draft:
                    draft.write(rows)
                    if draft.commit(transactions=_of_sequence(first.sequence), info=info) is None:
                        log.refresh()
        return self._look().present

    def history(self, *, before: int | None = None, limit: int | None = None) -> list[VersionInfo]:
        """Versions, newest first, from the commit log: those before a version, `limit` at most."""
        newest = self.load().version
        return read_history(self.data.topology, newest if before is None else min(before - 1, newest), limit=limit)

    def version(self, number: int) -> VersionInfo:
        """One version; raises NotFound for one that does not exist."""
        newest = self._look().version
        if not 0 <= number <= newest:
            raise NotFound(f"no topology version {number}", where="version", hint=f"0 to {newest}")
        return read_version(self.data.topology, number)

    def author(self, key: ObjectKey) -> str | None:
        """Who made the last change to an object of the newest topology known to this process."""
        return None if self._head is None else self._head.author(key)

    def diff(self, a: int, b: int) -> list[ObjectChange]:
        """What leads from version a to version b."""
        return changes_between(self.load(version=a), self.load(version=b))

    # -- changing -----------------------------------------------------------------------------------

    def edit(
        self,
        change: Callable[[TopologyEditor], T],
        *,
        author: str,
        reason: str = "",
        authors: Mapping[ObjectKey, str] = MappingProxyType({}),
        candidates: Mapping[str, Topology] = MappingProxyType({}),
    ) -> Edit[T]:
        """Apply a change in one commit; an edit that changes nothing commits nothing.

        `change` gets an editor over the newest state; what it raises goes to the caller and nothing is
        changed. When another process was faster it runs again on the new state. Tables of declared
        queues exist before the commit; those of deleted ones are emptied after it.
        `authors`, looked at after the change, names who changed an object where it was not `author`. `candidates`,
        looked at then, too, are topologies by vhost that the change gives a canary to; those of other canaries are
        carried over (`bindery.store.candidates`), each in a commit before that of the change.
        Raises CommitConflict when every one of a bounded number of attempts lost its race.
        """
        with self._changing:
            if self._committed is None:
                self.create()
            log = self._committed
            assert log is not None  # noqa: S101  # for the type checker; create() opens it
            for _ in tables.attempts(self.data.topology):
                log.refresh()
                head = self._look()
                if head.version != log.version:
                    continue  # another process was faster than the two looks
                present = head.present
                editor = TopologyEditor(present)
                given = object_key(head.topology.sequence)
                if head.topology is not present:
                    # ids that an abandoned candidate was given are never given again
                    editor.replay({given: head.topology.sequence})
                result = change(editor)
                changes = {key: item for key, item in editor.changes.items() if present.get(key) != item}
                recreated = [
                    (vhost, name)
                    for kind, vhost, name in editor.dropped
                    if kind == "queue" and (vhost, name) in present.queues.keys() & editor.topology.queues.keys()
                ]
                if not changes.keys() - {given} and not recreated:
                    return Edit(result, present, present.version)
                below = self._with_candidates(log, head, editor, candidates, author)
                if below is None:
                    continue
                deleted = [key[1:] for key, item in changes.items() if key[0] == "queue" and item is None]
                changes |= {key: item for key, item in editor.changes.items() if present.get(key) != item}
                info = commit_info(author, reason, changes, present)

                def author_of(key: ObjectKey, own: AbstractSet[ObjectKey] = changes.keys(), head: _Head = head) -> Any:
                    # what a candidate alone has changed is as it was
                    return authors.get(key, author) if key in own else head.author(key)

                if self._commit(log, below, editor.topology, changes, author_of, info):
                    self._clear(deleted, editor.topology.version)
                    self._clear(recreated, head.version)
                    self._begin_use(present, editor.topology, changes.values())
                    return Edit(result, editor.topology, editor.topology.version)
            raise AssertionError("attempts() ends by raising")

    def rollback(
        self, to: int, *, author: str, check: Callable[[Topology, list[ObjectChange]], None] | None = None
    ) -> Edit[list[ObjectChange]]:
        """Make the state of an older version the newest one, ids included, as a new version.

        Lineage ids given out since are not given out again. A queue that comes back is empty; one that is there
        keeps its rows, and so its id. `check` sees the present state and what would change, and raises to refuse it.
        """
        target = self.load(version=to)

        def change(editor: TopologyEditor) -> list[ObjectChange]:
            found = changes_back(editor.topology, target)
            if check is not None:
                check(editor.topology, found)
            editor.replay({one.key: one.after for one in found})
            editor.give_queue_ids()  # to those that come back from before there were any
            return found

        return self.edit(change, author=author, reason=f"rollback to version {to}")

    def give_queue_ids(self) -> Topology:
        """The newest topology, in which each queue has an id: a commit of its own gives one to those without.

        Whatever names queues by their ids calls this first: only an id that is on record names the same queue for ever.
        """
        topology = self.load()
        if all(queue.id != NO_QUEUE_ID for queue in topology.queues.values()):
            return topology
        return self.edit(TopologyEditor.give_queue_ids, author="bindery", reason="ids of queues").topology

    # -- the newest state ---------------------------------------------------------------------------

    def _look(self) -> _Head:
        """The newest state, after a look at the log."""
        if self._seen is None and self.data.create and not tables.exists(self.data.topology):
            self.create()
        head = self._newest()
        if head.version == 0 and self.data.create:
            self.create()  # whoever made the table has not come to the first vhost yet, or died before
            head = self._newest()
        return head

    def _newest(self) -> _Head:
        with self._looking:
            if self._seen is None:
                self._seen = tables.open_log(self.data.topology, TOPOLOGY, files=True)
            log = self._seen
            log.refresh()
            head = self._head
            if head is None or head.version != log.version:
                tables.check_table(log.state, self.data.topology, TOPOLOGY)
                head = self._head = self._advance(head, log)
            return head

    def _in_force_at(self, version: int) -> int:
        """The version that was in force when one was the newest: itself, unless it is a candidate."""
        found = _stands_on(tables.open_table(self.data.topology, TOPOLOGY, version=version))
        return version if found is None else found

    def _advance(self, head: _Head | None, log: TableLog) -> _Head:
        """The head of the log's version; only files that the last head did not know are read."""
        files = tables.files_of(log)
        known: Mapping[str, _File] = {} if head is None else head.files
        read = {name: self._read(name) for name in files if name not in known}
        if head is None:
            objects = [item for items in read.values() for item, _ in items]
            topology = Topology.of([*objects, _sequence(log)], version=log.version)
        else:
            changes: dict[ObjectKey, Object | None] = {
                key: None for name, file in known.items() if name not in files for key in file.rows
            }
            changes |= {object_key(item): item for items in read.values() for item, _ in items}
            editor = TopologyEditor(head.topology)
            editor.replay({**changes, ("sequence", "", ""): _sequence(log)})
            topology = editor.topology
            topology.version = log.version
        added = {
            name: _File(files[name].size, {object_key(item): author for item, author in items})
            for name, items in read.items()
        }
        stands_on = _stands_on(log)
        if stands_on is None:
            present = topology
        elif head is not None and head.present.version == stands_on:
            present = head.present
        else:
            present = self._read_version(stands_on)
        return _Head(topology, {name: known.get(name) or added[name] for name in files}, present)

    def _show(self, head: _Head) -> None:
        """What was committed is the newest state, unless somebody who looked has seen a newer one."""
        with self._looking:
            if self._head is None or self._head.version < head.version:
                self._head = head

    def _older_version(self, version: int, newest: int) -> Topology:
        if not 0 <= version <= newest:
            raise NotFound(f"no topology version {version}", where="version", hint=f"0 to {newest}")
        found = self._older.get(version)
        if found is None:
            found = self._read_version(version)
        with self._looking:
            self._older[version] = found
            self._older.move_to_end(version)
            if len(self._older) > _REMEMBERED:
                self._older.popitem(last=False)
        return found

    def _read_version(self, version: int) -> Topology:
        table = tables.open_table(self.data.topology, TOPOLOGY, version=version)
        names = pa.table(table.get_add_actions())["path"].to_pylist()
        objects = [item for name in names for item, _ in self._read(name)]
        seeded = table.transaction_version(_NEXT_ID) is not None
        found = Topology.of([*objects, _sequence(table)], version=version) if seeded else Topology.empty()
        found.version = version
        return found

    def _read(self, name: str) -> list[tuple[Object, str | None]]:
        """The objects of one file, each with its author."""
        path = at(self.data.topology, name)
        try:
            return self._objects(name, path.read_parquet(ROW_SCHEMA))
        except (OSError, pa.ArrowException) as error:
            raise UnsupportedTable(
                f"cannot read {path}: {tables.reason_of(error)}",
                where=self.data.topology,
                hint="a file of the topology table is missing or damaged; the table is never vacuumed",
            ) from error

    def _objects(self, name: str, rows: pa.Table) -> list[tuple[Object, str | None]]:
        """The objects of rows of a file, each with its author."""
        try:
            return list(zip(from_rows(rows), rows["author"].to_pylist(), strict=True))
        except InvalidInput as error:
            path = at(self.data.topology, name)
            raise UnsupportedTable(f"{path}: {error.message}", where=self.data.topology) from error

    # -- one commit ---------------------------------------------------------------------------------

    def _commit(
        self,
        log: TableLog,
        head: _Head,
        topology: Topology,
        changes: Mapping[ObjectKey, Object | None],
        author_of: Callable[[ObjectKey], str | None],
        info: Mapping[str, Any],
        *,
        candidate: bool = False,
    ) -> _Head | None:
        """Write and commit, on top of the head; None when another process was faster.

        `changes` lead to `topology` from what is in force, which a candidate leaves so.
        """
        faults.reach("edit.begun", log.path)
        if head.topology is not head.present:
            between = {one.key: one.after for one in changes_between(head.topology, topology)}
            changes = between | {object_key(topology.sequence): topology.sequence}
        known = head.topology.queues.keys() | head.present.queues.keys()
        declared = [
            item for item in changes.values() if isinstance(item, Queue) and (item.vhost, item.name) not in known
        ]
        _each(lambda q: tables.ensure_queue_table(self.data, q.vhost, q.name, undeclared_at=head.version), declared)
        faults.reach("edit.queues", log.path)
        with data_files.Draft(log) as draft:
            rewritten, added = self._rewrite(draft, head, changes, author_of)
            faults.reach("edit.files", log.path)
            done = draft.commit(
                [RemoveFile(name, head.files[name].size) for name in rewritten],
                transactions=[
                    *_of_sequence(topology.sequence),
                    *_of_candidate(log, head.present if candidate else None),
                ],
                info=info,
            )
        if done is None:
            return None
        faults.reach("edit.committed", log.path)
        topology.version = done
        kept = {name: file for name, file in head.files.items() if name not in rewritten}
        found = _Head(topology, kept | added, head.present if candidate else topology)
        self._show(found)
        return found

    def _with_candidates(
        self, log: TableLog, head: _Head, editor: TopologyEditor, given: Mapping[str, Topology], author: str
    ) -> _Head | None:
        """What the change is to be committed on: the head, or a candidate that is committed here.

        The editor's canaries name their candidates then. None when another process was faster.
        """
        present, after = head.present, editor.topology
        touched = {key[1] for key in editor.changes if key[0] not in ("sequence", CANARY_KIND)}
        found: dict[str, tuple[Topology, tuple[ObjectKey, ...]]] = {vhost: (one, ()) for vhost, one in given.items()}
        for canary in running_canaries(after):
            if (
                canary.vhost in touched - found.keys()
                and present.settings.get(canary.key) == after.settings[canary.key]
            ):
                before = self.load(version=canary.version)
                found[canary.vhost] = carried_over(present, before, after, canary.vhost)
        if not found:
            return head
        changes = [one for vhost, (topology, _) in found.items() for one in changes_of(after, topology, vhost)]
        stage = TopologyEditor(after)
        stage.replay({one.key: one.after for one in changes} | {canary_key(vhost): None for vhost in found})
        reason = "candidate of the canary in " + ", ".join(f"vhost {vhost!r}" for vhost in sorted(found))
        info = commit_info(author, reason, {one.key: one.after for one in changes}, after)
        to_candidate = {**editor.changes, **stage.changes}
        to_candidate = {key: item for key, item in to_candidate.items() if present.get(key) != item}
        below = self._commit(log, head, stage.topology, to_candidate, lambda _: author, info, candidate=True)
        if below is None:
            return None
        for vhost, (_, conflicts) in found.items():
            own = running_canary(editor.topology, vhost)
            assert own is not None  # noqa: S101  # it was found there, or the change gave it
            known = dict.fromkeys((*own.conflicts, *conflicts))
            started = below.version if own.started < 0 else own.started
            named = replace(own, version=below.version, started=started, conflicts=tuple(known))
            editor.replay({named.key: named.as_setting()})
        return below

    def _rewrite(
        self,
        draft: data_files.Draft,
        head: _Head,
        changes: Mapping[ObjectKey, Object | None],
        author_of: Callable[[ObjectKey], str | None],
    ) -> tuple[list[str], dict[str, _File]]:
        """Files to remove, and the files that take their place, written."""
        changed = changes.keys()
        rewritten = [name for name, file in head.files.items() if not changed.isdisjoint(file.rows.keys())]
        new = [item for item in changes.values() if item is not None and not isinstance(item, Sequence)]
        rewritten = sorted([*rewritten, *_to_merge(head, rewritten)])
        parts: list[pa.Table] = []
        authors: dict[ObjectKey, str | None] = {}
        for name in rewritten:
            rows, part = head.files[name].rows, head.files[name].content
            remaining = {key: by for key, by in rows.items() if key not in changes}
            if remaining:
                if part is None:
                    part = at(self.data.topology, name).read_parquet(ROW_SCHEMA)
                if len(remaining) < len(rows):
                    part = part.filter(pa.array([key in remaining for key in rows]))
                parts.append(part)
                authors |= remaining
        by = {key: author_of(key) for key in map(object_key, new)}
        content = pa.concat_tables([*parts, to_rows(new, by.values())])
        authors |= by
        rest = iter(authors.items())
        added = {}
        for start in range(0, len(authors), FILE_ROWS):
            written = draft.write(content.slice(start, FILE_ROWS))
            small = content.combine_chunks() if len(authors) <= min(_KEPT_ROWS, FILE_ROWS) else None
            added[written.path] = _File(written.size, dict(itertools.islice(rest, FILE_ROWS)), small)
        return rewritten, added

    def _clear(self, queues: list[tuple[str, str]], undeclared_at: int) -> None:
        """Empty the tables of queues that are gone already, as far as that can be done.

        Whoever declares one again clears what is left, or is refused: no error is worth reporting a change
        as failed that was made.
        """

        def clear(queue: tuple[str, str]) -> None:
            try:
                tables.clear_queue_table(self.data, *queue, undeclared_at=undeclared_at)
            except (BinderyError, OSError, pa.ArrowException) as error:
                _LOGGER.warning("queue %r of vhost %r was deleted, but its table is as it was: %s", *queue[::-1], error)

        _each(clear, queues)

    def _begin_use(self, before: Topology, topology: Topology, changed: Iterable[Object | None]) -> None:
        """Note of queues that have just been declared, and that expire, that they are used from now on.

        Maintenance does it for one where that fails, from its next pass on.
        """
        declared = [item for item in changed if isinstance(item, Queue) and _id_of(before, item) != item.id]
        if not declared:
            return
        expires_ms = LimitsOf(topology).expires_ms
        expiries = {queue.id: found for queue in declared if (found := expires_ms(queue)) is not None}
        moment = time.time_ns() // 1_000_000

        def begin(queue: Queue) -> None:
            try:
                found = queue_use.recorded(self.data, queue.vhost, queue.name)
                use = queue_use.Use(queue.id, moment, queue_use.grain(expiries[queue.id]))
                queue_use.record(self.data, queue.vhost, queue.name, use, found)
            except (BinderyError, OSError) as error:
                _LOGGER.warning("queue %r of vhost %r expires from a later time on: %s", queue.name, queue.vhost, error)

        _each(begin, [queue for queue in declared if queue.id in expiries])


def _id_of(topology: Topology, queue: Queue) -> int | None:
    """The id of the queue of that name; None where there is none."""
    present = topology.queues.get((queue.vhost, queue.name))
    return None if present is None else present.id


def _each(work: Callable[[Any], None], items: list[Any]) -> None:
    if len(items) <= 1:
        for item in items:
            work(item)
        return
    with ThreadPoolExecutor(_WORKERS, "tables") as pool:
        for _ in pool.map(work, items):
            pass


def _stands_on(table: TableLog | DeltaTable) -> int | None:
    """The version that is in force where the table's is a candidate; None where it is in force itself."""
    return (table.transaction_version(_CANDIDATE) or 0) - 1 if table.transaction_version(_CANDIDATE) else None


def _of_candidate(log: TableLog, present: Topology | None) -> list[Transaction]:
    """What a commit says of whether it is a candidate; nothing where that was never asked."""
    if present is not None:
        return [Transaction(_CANDIDATE, present.version + 1)]
    return [Transaction(_CANDIDATE, 0)] if log.transaction_version(_CANDIDATE) else []


def _sequence(table: TableLog | DeltaTable) -> Sequence:
    return Sequence(table.transaction_version(_NEXT_ID) or 1, table.transaction_version(_NEXT_QUEUE_ID) or 1)


def _of_sequence(sequence: Sequence) -> list[Transaction]:
    return [Transaction(_NEXT_ID, sequence.next_id), Transaction(_NEXT_QUEUE_ID, sequence.next_queue_id)]


def _order(rows: int) -> int:
    """The order of size of a file: 0 below 16 rows, 1 below 256, 2 below 4,096, 3 for full files."""
    return 3 if rows >= FILE_ROWS // 2 else (max(rows, 1).bit_length() - 1) // 4


def _to_merge(head: _Head, rewritten: list[str]) -> list[str]:
    """Small files that this commit merges with its own: those of an order that has grown full."""
    orders: dict[int, list[str]] = {}
    for name, file in head.files.items():
        if name not in rewritten:
            orders.setdefault(_order(len(file.rows)), []).append(name)
    return [name for order in range(3) if len(found := orders.get(order, [])) + 1 >= MERGE_FILES for name in found]
