"""A point at which all tables are read: of every batch they hold all rows or none.

A point is a version of the manifest: the batches that have ended by it are seen, in every table, and no others. Each
table is read at a version that holds those batches, and the rows of batches that had not ended are left out by the
identity that they carry. So there is such a point at every row of the manifest, however the commits of several streams
interleave; what consumers have taken is gone from each queue as of the point's time.

Copies of a deferred queue are in its table, or wait in the journals of streams, which keep rows for longer than old
versions of themselves: so what waited at a point is found in a journal as it is now.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.errors import InvalidInput, NotFound
from bindery.router.model import Topology
from bindery.router.moments import in_utc
from bindery.router.spelling import did_you_mean, nearest
from bindery.store import file_rows, past, tables
from bindery.store.actions import AddFile
from bindery.store.deferred.live import Tail, WaitingJournal, tail_of
from bindery.store.deferred.waiting import flushed_through, flushes
from bindery.store.journal_files import journals as journals_in
from bindery.store.manifest import MANIFEST, newest_batches, read_manifest
from bindery.store.past import LogAt
from bindery.store.paths import DataDir
from bindery.store.stream_names import OF_PLANS, claimed_stream
from bindery.store.topology import TopologyStore

#: What a point may be given as: "STREAM:BATCH", a batch's number alone, or a time (ISO text without zone is UTC).
At = str | int | datetime

_BATCH: Final = re.compile(r"(.+):([0-9]{1,19})", re.DOTALL)
#: Clocks of machines that commit differ by so much at most; object stores refuse requests beyond that.
_CLOCKS: Final = timedelta(minutes=15)
#: Rows of the manifest that are looked at for versions which a clock that was behind hides.
_NAMED: Final = 1_024


class LeftOut(NamedTuple):
    """Batches of a stream whose rows are not seen: those above `after`, up to `last`."""

    stream: str
    after: int
    last: int


@dataclass(frozen=True, slots=True)
class TableAt:
    """A table at a point: its path, id and files, and the batches of which its rows are not seen.

    Of a queue, `tail` has those of the files that are of journals, by path: there its rows are that wait.
    """

    path: str
    table_id: str
    version: int
    files: tuple[AddFile, ...]
    left_out: tuple[LeftOut, ...] = ()
    tail: Tail = field(default_factory=dict)

    @property
    def waiting(self) -> int:
        """Rows that wait."""
        return sum(len(one.places) for one in self.tail.values())

    def batches(
        self,
        name: str,
        schema: pa.Schema,
        *,
        columns: Sequence[str] | None = None,
        where: pc.Expression | None = None,
        together: int = file_rows.BATCH_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one of the files, as `file_rows.batches` gives them."""
        if name in self.tail:
            return self.tail[name].batches(columns=columns, where=where, together=together)
        return file_rows.batches(self.path, name, schema, columns=columns, where=where, together=together)


@dataclass(frozen=True, slots=True)
class ReadPoint:
    """A point of a data directory.

    manifest  the version of the manifest, None where nothing has been routed yet
    moment    milliseconds since 1970; None for now
    ended     app id -> its newest batch that is seen
    named     path of a table -> a version that the point holds at least
    live      whether queues are seen with what waits for them in journals, or their tables alone
    """

    data: DataDir
    topology: Topology
    manifest: int | None
    moment: int | None
    ended: Mapping[str, int]
    named: Mapping[str, int] = field(default_factory=dict)
    live: bool = True
    _journals: dict[str, list[WaitingJournal]] = field(default_factory=dict)

    @classmethod
    def of(cls, data: DataDir, at: At | None = None) -> ReadPoint:
        """The newest point, that of a batch's end, or the newest one by a time.

        Raises InvalidInput for what is no point, NotFound for one that is not on record or cannot be read any more.
        """
        store = TopologyStore(data)
        if at is None:
            # before the topology and the tables: what the manifest has ended is in them, then
            log = LogAt(data.manifest) if tables.exists(data.manifest) else None
            version, ended = (None, {}) if log is None else (log.version, _batches(log))
            return cls(data, store.load(), version, None, ended)
        asked = _asked(at)
        if not tables.exists(data.manifest):
            raise NotFound("nothing has been routed yet", where="at")
        if isinstance(asked, datetime):
            moment = int(asked.timestamp() * 1000)
            found = past.version_at(data.manifest, moment)
            if found is None:
                raise past.gone(data.manifest, asked.isoformat())
            topology = store.load(at=asked)
        else:
            row = _row_of(data, *asked)
            found = _end_of(data, row)
            moment = past.committed_ms(data.manifest, found)
            topology = store.load(at=datetime.fromtimestamp(moment / 1000, UTC))
            if topology.version < row["topology_version"]:
                topology = store.load(version=row["topology_version"])
        log = LogAt(data.manifest, found)
        return cls(data, topology, found, moment, _batches(log), _named(data, log, moment))

    def queue(self, vhost: str, name: str) -> TableAt:
        """The table of a queue. Raises NotFound for a queue that the topology did not have at the point."""
        require_queue(self.topology, vhost, name)
        path = self.data.queue(vhost, name)
        journals = self._waiting(vhost) if self.live else []
        if not journals:
            return self._table(path, tables.QUEUE, vhost, name)
        log = LogAt(path, self._version(path))
        table = self._at(log, tables.QUEUE, vhost, name)
        if self.moment is not None:
            self._check_kept(journals, log)
        tail = tail_of(journals, log, self.topology.queues[vhost, name].id, self._ended_of)
        return replace(table, files=(*table.files, *(one.file for one in tail.values())), tail=tail)

    def _waiting(self, vhost: str) -> list[WaitingJournal]:
        """The journals of a vhost, looked at before any queue is, with what waits, or of the past, may have waited."""
        found = self._journals.get(vhost)
        if found is None:
            of = WaitingJournal.of if self.moment is None else WaitingJournal.whole
            looked = (of(journal) for journal in journals_in(self.data, vhost))
            found = self._journals[vhost] = [one for one in looked if one.files]
        return found

    def _ended_of(self, stream: str) -> int:
        """The newest batch of a stream that is seen; -1 for none."""
        return max((batch for app_id, batch in self.ended.items() if _stream_of(app_id) == stream), default=-1)

    def _check_kept(self, journals: Sequence[WaitingJournal], log: LogAt) -> None:
        """Raise NotFound where a journal has not kept what waited for a queue at the point.

        What has come into the table since waited then, if it is of a batch that had ended.
        """
        newest = flushes(LogAt(log.path))
        for one in journals:
            after = flushed_through(log, one.stream)
            lost = min(one.trimmed, newest.get(one.stream, -1), self._ended_of(one.stream))
            if lost > after:
                raise past.gone(one.path, f"the batch {one.stream}:{after + 1}")

    def unroutable(self, vhost: str) -> TableAt | None:
        """The table of a vhost's unroutable messages; None where there was none yet."""
        path = self.data.unroutable(vhost)
        return self._table(path, tables.UNROUTABLE, vhost, None) if tables.exists(path) else None

    def journal(self, path: str) -> TableAt:
        """A journal, whose path is known."""
        return self._table(path, tables.JOURNAL, None, None)

    def batches(self) -> TableAt | None:
        """The manifest itself; None where nothing has been routed yet."""
        return None if self.manifest is None else _table_at(LogAt(self.data.manifest, self.manifest), MANIFEST)

    def _table(self, path: str, kind: tables.Kind, vhost: str | None, name: str | None) -> TableAt:
        return self._at(LogAt(path, self._version(path)), kind, vhost, name)

    def _at(self, log: LogAt, kind: tables.Kind, vhost: str | None, name: str | None) -> TableAt:
        return replace(_table_at(log, kind, vhost, name), left_out=tuple(self._left_out(log)))

    def _version(self, path: str) -> int | None:
        if self.moment is None:
            return None
        found = past.version_at(path, self.moment)
        named = self.named.get(path)
        if found is None and named is None:
            first = next(iter(past.versions_of(path)), 0)
            if first:
                raise past.gone(path, datetime.fromtimestamp(self.moment / 1000, UTC).isoformat())
            return 0  # it is made before its queue is declared, by whatever clock
        return max(version for version in (found, named) if version is not None)

    def _left_out(self, log: LogAt) -> Iterator[LeftOut]:
        for app_id, newest in _batches(log).items():
            stream = _stream_of(app_id)
            after = self.ended.get(app_id)
            if after is None:
                # the numbers of an app id begin above those of every earlier one of its stream
                others = (one for other, one in self.ended.items() if _stream_of(other) == stream and one < newest)
                after = max(others, default=-1)
            if newest > after:
                yield LeftOut(stream, after, newest)
        for stream, newest in flushes(log).items():
            after = self._ended_of(stream)
            if newest > after:
                yield LeftOut(stream, after, newest)


def journals_of(data: DataDir) -> dict[str, str]:
    """The streams that keep a journal, or have kept one, each with the path of its table."""
    logs = (LogAt(path) for path in data.journals() if tables.exists(path))
    return {log.state.configuration["bindery.name"]: log.path for log in logs}


def require_queue(topology: Topology, vhost: str, name: str) -> None:
    """Raise NotFound for no such vhost, or no such queue in it; it names the queue that was meant, probably."""
    topology.vhost(vhost)
    if (vhost, name) not in topology.queues:
        # here and not in the topology: over REST the names of others' queues are nobody's business
        meant = nearest(name, [other for where, other in topology.queues if where == vhost])
        hint = did_you_mean(meant) or None
        raise NotFound(f"no queue {name!r} in vhost {vhost!r}", where="queue", hint=hint)


def _table_at(log: LogAt, kind: tables.Kind, vhost: str | None = None, name: str | None = None) -> TableAt:
    tables.check_table(log.state, log.path, kind, vhost=vhost, name=name)
    return TableAt(log.path, log.state.table_id, log.version, tuple(tables.files_of(log).values()))


def _batches(log: LogAt) -> dict[str, int]:
    """App id -> batch, of the transaction identifiers of a table that stand for batches."""
    return {
        app_id: number
        for app_id, number in log.transactions.items()
        if not app_id.startswith("bindery.") and claimed_stream(app_id) is None
    }


def _stream_of(app_id: str) -> str:
    return app_id if app_id.startswith(OF_PLANS) else app_id.rpartition(":")[0]


def _asked(at: At) -> datetime | tuple[str | None, int]:
    """A time, or a stream (None: whichever there is) and the number of a batch."""
    if isinstance(at, datetime):
        return in_utc(at)
    if isinstance(at, int):
        return None, at
    if at.isascii() and at.isdecimal():
        return None, int(at)
    try:
        return _asked(datetime.fromisoformat(at))
    except ValueError:
        found = _BATCH.fullmatch(at)
    if found is None:
        raise InvalidInput(f"{at[:80]!r} is no point", where="at", hint="STREAM:BATCH, a batch's number, or a time")
    return found[1], int(found[2])


def _row_of(data: DataDir, stream: str | None, number: int) -> dict[str, Any]:
    rows = read_manifest(data, stream=stream, batch_id=number)
    streams = sorted({row["stream"] for row in rows})
    shown = f"{number}" if stream is None else f"{stream}:{number}"
    if not rows:
        raise NotFound(
            f"no batch {shown!r} in the manifest", where="at", hint="a batch is there once it has ended, for 30 days"
        )
    if len(streams) > 1:
        raise InvalidInput(
            f"several streams have a batch {number}",
            where="at",
            hint="one of " + ", ".join(f"{one}:{number}" for one in streams),
        )
    return rows[0]


def _end_of(data: DataDir, row: Mapping[str, Any]) -> int:
    """The version of the manifest that has a row first; the row states a time shortly before its commit."""
    path, app_id, number = data.manifest, row["app_id"], row["batch_id"]
    begun = past.version_at(path, int(row["committed_at"].timestamp() * 1000) - 1)
    for version in past.versions_of(path):
        if (begun is None or version >= begun) and past.transactions_of(path, version).get(app_id) == number:
            return version
    raise past.gone(path, f"the batch {row['stream']}:{number}")


def _named(data: DataDir, log: LogAt, moment: int) -> dict[str, int]:
    """Versions of tables that the newest rows of the manifest name, for clocks that differ."""
    found: dict[str, int] = {}
    oldest = datetime.fromtimestamp(moment / 1000, UTC) - _CLOCKS
    rows = newest_batches(data, columns=["tables"], files=tables.files_of(log).values())
    for row in itertools.takewhile(lambda row: row["committed_at"] >= oldest, itertools.islice(rows, _NAMED)):
        for one in row["tables"] or ():
            path = data.routed(one["kind"], one["vhost"], one["name"])
            found[path] = max(one["version"], found.get(path, -1))
    return found
