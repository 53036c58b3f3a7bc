"""The commit protocol: one batch of routed files into many Delta tables, exactly once.

`pin` records (app id, batch id) -> (topology version, batch clock) durably, and a replay gets the first record
back. `commit` appends the files of each table in one Delta commit that also records (app id, batch id) as a
transaction identifier: a table that has recorded the batch is skipped. One manifest row ends the batch. Why these
come in this order, and after what, is in `bindery.store.batches`.

Commits are compare-and-swap on each table's version: what was checked holds when it is committed.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Final, Literal

from bindery.router.errors import CheckpointMismatch, Fenced, InvalidInput, Refused, UnsupportedTable, UnusablePin
from bindery.store import data_files, faults, tables
from bindery.store.actions import AddFile, Transaction
from bindery.store.log import CHECKED_AFTER_MS, TableLog
from bindery.store.manifest import (
    BatchCounts,
    TableCommit,
    manifest_row,
    newest_rows,
    open_manifest,
    read_manifest,
    write_rows,
)
from bindery.store.paths import DataDir
from bindery.store.pins import Pin, Pins
from bindery.store.places import at
from bindery.store.streams import Claim

__all__ = ["BatchCommitter", "BatchCounts", "Pin", "TableCommit", "WrittenFile"]

#: Tables that take rows, by the kind of a written file.
_KINDS: Final[Mapping[str, tables.Kind]] = {
    "queue": tables.QUEUE,
    "unroutable": tables.UNROUTABLE,
    "journal": tables.JOURNAL,
    "dedup": tables.DEDUP,
}
#: Kinds whose rows say that their batch is in all other tables.
_LAST: Final = "dedup"
#: Batches, newest first, whose tables are compared with the manifest at the start of a driver.
_COMPARED: Final = 10
#: What to do about a checkpoint that the tables are ahead of.
OLDER_CHECKPOINT: Final = (
    "restore the newest checkpoint; or start with --new-epoch: what the source gives from this checkpoint on is then "
    "routed again"
)


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A Parquet file that a task has written into a table's folder; `path` is relative to the table.

    `name` is the queue's, the stream's for a table of a stream, "" for an unroutable table; `size` in bytes; `stats`
    is Delta's statistics JSON (at least {"numRecords": rows}), "" for that minimum.
    """

    kind: Literal["queue", "unroutable", "journal", "dedup"]
    vhost: str
    name: str
    path: str
    size: int
    rows: int
    stats: str = ""


@dataclass
class _Target:
    """The files of one table."""

    kind: str
    vhost: str
    name: str
    files: list[WrittenFile] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


class BatchCommitter:
    """Commits the batches of one stream; one instance per driver, kept for its lifetime.

    `claim` takes the stream over: the newest driver of an app id owns it and an older one gets Fenced
    at its next pin or commit. Without it (an app id that no other process can have) the batch ids
    alone protect.
    """

    def __init__(
        self,
        data: DataDir,
        *,
        stream: str,
        app_id: str,
        workers: int = 8,
        claim: bool = True,
    ) -> None:
        self.data = data
        self.stream = stream
        self.app_id = app_id
        self._is_remote = at(data.root).is_remote
        self._lock = threading.Lock()
        self._logs: dict[str, TableLog] = {}
        self._pool = ThreadPoolExecutor(workers, "commit")
        self._claim = Claim(data, app_id) if claim else None
        self._manifest = open_manifest(data)
        self._pins = Pins(data, stream=stream, app_id=app_id)

    def close(self) -> None:
        """Stop the thread pool and forget the logs."""
        self._pool.shutdown()
        self._logs.clear()

    def __enter__(self) -> BatchCommitter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check_owner(self) -> None:
        """Raise Fenced when another driver has claimed the stream since."""
        with self._lock:
            self._check_claim()

    # -- pinning ------------------------------------------------------------------------------------

    def newest_batch(self) -> int | None:
        """The newest batch that is committed whole; None when there is none."""
        with self._lock:
            self._manifest.refresh()
            return self._manifest.transaction_version(self.app_id)

    def known_pin(self, batch_id: int) -> Pin | None:
        """What the batch is pinned to, or was routed with; None when that is not on record.

        Raises UnusablePin for a damaged record of a batch that is not committed whole.
        """
        return self._known_pin(batch_id, self.newest_batch())

    def _known_pin(self, batch_id: int, newest: int | None) -> Pin | None:
        if newest is None or newest < batch_id:
            return self._pins.read(batch_id)
        try:
            pin = self._pins.read(batch_id)
        except UnusablePin:
            pin = None
        if pin is not None:
            return replace(pin, done=True)
        for row in read_manifest(self.data, app_id=self.app_id, batch_id=batch_id):
            clock_ms = int(row["clock"].timestamp() * 1000)
            return Pin(row["topology_version"], clock_ms, done=True, source=row.get("source_digest") or "")
        return None

    def check_source(self, batch_id: int, source: str) -> None:
        """Raise CheckpointMismatch when a batch that is committed read something else than is read now."""
        pin = self.known_pin(batch_id)
        if pin is not None and pin.source and source and pin.source != source:
            raise CheckpointMismatch(
                f"batch {batch_id} of stream {self.stream!r} is committed, and what the checkpoint gives under this "
                "number is something else",
                where=self.app_id,
                hint=OLDER_CHECKPOINT,
            )

    def pin(
        self,
        batch_id: int,
        topology_version: int,
        clock_ms: int,
        *,
        source: str = "",
        splits: Mapping[str, str] | None = None,
        freshness: int = 0,
        dedup: Mapping[str, str] | None = None,
        check: Callable[[], object] | None = None,
    ) -> Pin:
        """Record durably what the batch is routed with; a replay gets the first record back.

        `check` is called before a batch is pinned for the first time; what it raises leaves no pin behind.
        Raises Fenced when another driver has claimed the stream; UnusablePin for a damaged record, or one
        of a batch that read something else; CheckpointMismatch when such a batch is committed already.
        """
        wanted = Pin(
            topology_version,
            clock_ms,
            source=source,
            splits=dict(splits or {}),
            freshness=freshness,
            dedup=dict(dedup or {}),
        )
        with self._lock:
            self._check_claim()
        newest = self.newest_batch()
        pin = self._known_pin(batch_id, newest)
        if newest is not None and newest >= batch_id:
            self.check_source(batch_id, source)
            return pin or replace(wanted, done=True)
        if pin is None:
            if check is not None:
                check()
            pin = self._pins.write(batch_id, wanted)
        if pin.source and source and pin.source != source:
            raise self._pins.unusable(batch_id, "the checkpoint has planned the batch anew since")
        faults.reach("batch.pinned", self.data.pins(self.app_id))
        return pin

    def unusable(self, batch_id: int, reason: str) -> UnusablePin:
        """The error of a batch that can no longer be routed with what its pin says."""
        return self._pins.unusable(batch_id, reason)

    def release_pin(self, batch_id: int) -> None:
        """Forget what a batch was to be routed with, so that it is pinned anew.

        Raises Refused, naming the tables, when any has recorded the batch: the rest of it must be routed
        alike. Opens the tables of the stream and every queue and unroutable table, since a pin does not say where its
        batch leads.
        """
        with self._lock:
            self._check_claim()
            paths = sorted(
                path
                for path in (
                    *self.data.queue_tables(),
                    *self.data.vhost_tables("unroutable"),
                    self.data.journal(self.stream),
                    self.data.dedup(self.stream),
                )
                if tables.exists(path)
            )
            newest = self._pool.map(lambda path: TableLog(path).transaction_version(self.app_id), paths)
            recorded = [
                path for path, batch in zip(paths, newest, strict=True) if batch is not None and batch >= batch_id
            ]
            if recorded:
                more = f" and {len(recorded) - 3} more" if len(recorded) > 3 else ""
                raise Refused(
                    f"batch {batch_id} of stream {self.stream!r} cannot be pinned again: it was committed to "
                    f"{', '.join(recorded[:3])}{more}, and the rest must be routed alike",
                    where=self.app_id,
                    hint="restore what its pin names; or give the batch up: remove the checkpoint, start with "
                    "--new-epoch, and decide what the source is to read again",
                )
            self._pins.remove(batch_id)

    def check_tables(self, *, since: int) -> None:
        """Compare the tables with what the manifest says of the newest batches, `since` or later.

        Raises UnsupportedTable for a table that is behind: the newest entries of its log are missing. Tables
        of queues that were undeclared since, and folders that are gone as a whole, are left alone.
        """
        expected: dict[str, tuple[int, int]] = {}
        for row in newest_rows(self.data, app_id=self.app_id, since=since, count=_COMPARED):
            for one in row["tables"]:
                path = self.data.routed(one["kind"], one["vhost"], one["name"])
                expected.setdefault(path, (one["version"], row["topology_version"]))

        def compare(path: str) -> None:
            version, topology_version = expected[path]
            if not tables.exists(path):
                return
            log = TableLog(path)
            if log.version < version and tables.undeclared_since(log) < topology_version:
                raise UnsupportedTable(
                    f"{path} is at version {log.version}, and the manifest has seen version {version}",
                    where=path,
                    hint="restore the newest files of its _delta_log, which hold rows that are missing now; or start "
                    "with --new-epoch to go on without them",
                )

        list(self._pool.map(compare, expected))

    # -- committing ---------------------------------------------------------------------------------

    def commit(
        self,
        batch_id: int,
        pin: Pin,
        files: Sequence[WrittenFile],
        counts: BatchCounts,
        *,
        check: Callable[[str, TableLog], object] = lambda _queue, _log: None,
    ) -> tuple[TableCommit, ...]:
        """Append every file to its table and end the batch with its manifest row; what each table got, in order.

        A table that has recorded the batch before is skipped. One that is not known yet is opened before any
        is committed to: nothing of the batch is there when it is missing or damaged. Rows for a queue that
        was deleted after the pinned version are not appended but counted as dropped. What the stream knows repeats by
        comes after all others: else a key might be known of a message that is in no queue. Raises Fenced when another
        driver has committed for this stream, CommitConflict when every attempt lost its race, UnsupportedTable
        for a table that must not be written; what was committed by then is skipped by the replay. `check` is called
        with the name of a queue and its log at the version that a commit to it is to follow; what it raises stops the
        batch likewise.
        """
        with self._lock:
            started = time.monotonic()
            self._check_claim()
            targets: dict[tuple[str, str, str], _Target] = {}
            for file in files:
                key = (file.kind, file.vhost, file.name)
                targets.setdefault(key, _Target(*key)).files.append(file)
            in_order = [targets[key] for key in sorted(targets)]
            unknown = [target for target in in_order if self._path(target) not in self._logs]
            for opened in [self._pool.submit(self._log, target) for target in unknown]:
                opened.result()
            first = [target for target in in_order if target.kind != _LAST]
            last = [target for target in in_order if target.kind == _LAST]
            appended = [self._append_all(some, pin, batch_id, check) for some in (first, last)]
            committed = (*appended[0], *appended[1])
            faults.reach("batch.in_tables", self.data.root)
            self._end(batch_id, pin, committed, counts, (time.monotonic() - started) * 1000)
            faults.reach("batch.in_manifest", self.data.manifest)
            self._pins.remove_older(batch_id)
            return committed

    def _append_all(
        self, targets: Sequence[_Target], pin: Pin, batch_id: int, check: Callable[[str, TableLog], object]
    ) -> list[TableCommit]:
        """What `_append` does, of several tables at once; the first error once all have been tried."""
        pending = [self._pool.submit(self._append_whole, target, pin, batch_id, check) for target in targets]
        errors = [error for future in pending if (error := future.exception()) is not None]
        if errors:
            raise errors[0]
        return [future.result() for future in pending]

    def _path(self, target: _Target) -> str:
        return self.data.routed(target.kind, target.vhost, target.name)

    def _append_whole(
        self, target: _Target, pin: Pin, batch_id: int, check: Callable[[str, TableLog], object]
    ) -> TableCommit:
        """What `_append` does; a log of which an error leaves nothing certain is read anew the next time."""
        try:
            return self._append(target, pin, batch_id, check)
        except BaseException:
            self._logs.pop(self._path(target), None)
            raise

    def _append(
        self, target: _Target, pin: Pin, batch_id: int, check: Callable[[str, TableLog], object]
    ) -> TableCommit:
        path = self._path(target)
        committed = functools.partial(TableCommit, target.kind, target.vhost, target.name)
        for attempt in tables.attempts(path):
            # where a look is a request, the first attempt is made on what is known: it loses its race against whatever
            # was committed since
            log = self._log(target, refresh=attempt > 0 or not self._is_remote)
            recorded = log.transaction_version(self.app_id)
            if recorded is not None and recorded >= batch_id:
                if attempt:
                    raise self._fenced(f"batch {batch_id} was committed to {path} meanwhile")
                return committed(log.version, target.rows)
            if target.kind == "queue" and tables.undeclared_since(log) >= pin.topology_version:
                return committed(log.version, 0, attempt, dropped=target.rows)
            if target.kind == "queue":
                check(target.name, log)
            faults.reach("batch.appending", path)
            version = log.commit(
                [self._added(path, file, pin) for file in target.files],
                transactions=[Transaction(self.app_id, batch_id)],
                info={
                    "isBlindAppend": True,
                    "bindery.stream": self.stream,
                    "bindery.batch": batch_id,
                    "bindery.topologyVersion": pin.topology_version,
                },
            )
            if version is not None:
                faults.reach("batch.appended", path)
                return committed(version, target.rows, attempt)
        raise AssertionError("attempts() ends by raising")

    def _added(self, path: str, file: WrittenFile, pin: Pin) -> AddFile:
        """What adds a file of a task; objects of a batch that has just begun are not looked at once more."""
        now_ms = time.time_ns() // 1_000_000
        if self._is_remote and now_ms - pin.clock_ms < CHECKED_AFTER_MS:
            return data_files.add_file(file.path, file.size, file.rows, file.stats)
        return data_files.found_file(path, file.path, file.rows, file.stats)

    def _log(self, target: _Target, *, refresh: bool = True) -> TableLog:
        """The table's log, checked, at its newest version; without `refresh`, as it was known a moment ago.

        Logs are kept, since opening one reads a checkpoint.
        """
        kind = _KINDS.get(target.kind)
        if kind is None:
            raise InvalidInput(f"a written file is of kind {target.kind!r}", where="commit", hint=", ".join(_KINDS))
        path, name = self._path(target), target.name or None
        log = self._logs.get(path)
        if log is None:
            if kind is tables.UNROUTABLE:
                log = tables.ensure_unroutable_table(self.data, target.vhost)
            elif kind is tables.JOURNAL:
                log = tables.ensure_journal_table(self.data, target.name, target.vhost)
            elif kind is tables.DEDUP:
                log = tables.ensure_table(path, kind, target.vhost, name)
            else:
                log = tables.open_log(path, kind, vhost=target.vhost, name=name)
            self._logs[path] = log
        elif not refresh and not log.may_be_below():
            return log
        state = log.state
        log.refresh()
        if log.state is not state:
            tables.check_table(log.state, path, kind, vhost=target.vhost, name=name)
        if not kind.is_in(log.state):
            tables.grow(log, kind)
        return log

    def _end(
        self, batch_id: int, pin: Pin, committed: Sequence[TableCommit], counts: BatchCounts, elapsed: float
    ) -> None:
        row = manifest_row(
            app_id=self.app_id,
            stream=self.stream,
            batch_id=batch_id,
            topology_version=pin.topology_version,
            clock=datetime.fromtimestamp(pin.clock_ms / 1000, UTC),
            tables=[asdict(one) for one in committed],
            counts=counts,
            commit_ms=elapsed,
            source_digest=pin.source,
        )
        added = write_rows(self.data, [row])
        for _ in tables.attempts(self.data.manifest):
            self._manifest.refresh()
            recorded = self._manifest.transaction_version(self.app_id)
            if recorded is not None and recorded >= batch_id:
                data_files.drop_unused(self.data.manifest, [added.path])
                raise self._fenced(f"batch {batch_id} was ended by another driver")
            version = self._manifest.commit(
                [added],
                transactions=[Transaction(self.app_id, batch_id)],
                info={"isBlindAppend": True, "bindery.stream": self.stream, "bindery.batch": batch_id},
            )
            if version is not None:
                return
        raise AssertionError("attempts() ends by raising")

    def _check_claim(self) -> None:
        if self._claim is not None and not self._claim.holds():
            raise self._fenced("it was claimed after this driver started")

    def _fenced(self, what: str) -> Fenced:
        return Fenced(
            f"another driver owns stream {self.stream!r}: {what}",
            where=self.app_id,
            hint="one driver per stream; this one stops and has left nothing half committed",
        )
