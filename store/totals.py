"""Totals over all batches that the manifest records, whoever committed them, kept up to date incrementally.

The first look begins with what maintenance has kept (`bindery.store.kept_totals`), or reads the whole manifest once; a
later one reads the log of what was committed since, and the files that it names. Rewriting files without changing data
(compaction) counts nothing twice.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from bindery.store import file_rows, tables
from bindery.store.log import TableLog, entry_of
from bindery.store.manifest import MANIFEST, SUMMED
from bindery.store.places import at

_STREAM: Final = "stream"
_AT_ONCE: Final = 512
#: Canaries of a vhost, the newest, whose counts are kept apart.
CANARIES: Final = 8


@dataclass
class Totals:
    """What all batches together did.

    batches, records, copies   by stream
    committed                  stream -> when its last batch was committed, in seconds since 1970
    stages                     (stream, stage) -> seconds, and batches that had the stage
    unroutable                 (stream, reason) -> messages
    invalid                    (stream, kind) -> records that are no messages
    filter_unknowns            filter text -> evaluations that met run-time trouble
    filter_errors              filter text -> evaluations that failed because of a defect
    unparsable                 (stream, exchange or queue, vhost, name, reason) -> messages with an unreadable body
    requests                   (stream, kind) -> requests to an object store
    canary                     (vhost, `Canary.started`, what, queue or reason) -> what canaries count (docs/canary.md)
    canary_examples            the same -> a message for example
    exchanges                  (vhost, exchange) -> messages published to it
    bindings                   id of a binding or divert -> messages that it matched
    rows, dropped              (kind of table, vhost, name) -> rows appended; rows for a queue deleted meanwhile
    retries                    kind of table -> lost races of commits
    """

    batches: Counter[str] = field(default_factory=Counter)
    records: Counter[str] = field(default_factory=Counter)
    copies: Counter[str] = field(default_factory=Counter)
    committed: dict[str, float] = field(default_factory=dict)
    stages: dict[tuple[str, str], tuple[float, int]] = field(default_factory=dict)
    unroutable: Counter[tuple[str, str]] = field(default_factory=Counter)
    filter_unknowns: Counter[str] = field(default_factory=Counter)
    filter_errors: Counter[str] = field(default_factory=Counter)
    unparsable: Counter[tuple[str, str, str, str, str]] = field(default_factory=Counter)
    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    invalid: Counter[tuple[str, str]] = field(default_factory=Counter)
    canary: Counter[tuple[str, int, str, str]] = field(default_factory=Counter)
    canary_examples: dict[tuple[str, int, str, str], str] = field(default_factory=dict)
    exchanges: Counter[tuple[str, str]] = field(default_factory=Counter)
    bindings: Counter[int] = field(default_factory=Counter)
    rows: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    dropped: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    retries: Counter[str] = field(default_factory=Counter)

    def copy(self) -> Totals:
        """The same totals, to be added to."""
        return Totals(**{one.name: getattr(self, one.name).copy() for one in fields(self)})

    def unparsable_of(self, stream: str) -> list[dict[str, Any]]:
        """Messages of a stream whose bodies filters could not read, by object (kind, vhost, name) and reason."""
        return [
            {"kind": kind, "vhost": vhost, "name": name, "reason": reason, "messages": number}
            for (own, kind, vhost, name, reason), number in sorted(self.unparsable.items())
            if own == stream
        ]

    def add(self, rows: pa.Table) -> None:
        """Add rows of the manifest's schema, as many as there are, column by column."""
        stands_for = pc.fill_null(rows[SUMMED], 1)
        counted = rows.select(["stream", "records", "copies", "committed_at"]).append_column(SUMMED, stands_for)
        for one in _sums(counted, [_STREAM]):
            stream = one[_STREAM]
            self.batches[stream] += one[f"{SUMMED}_sum"]
            self.records[stream] += one["records_sum"]
            self.copies[stream] += one["copies_sum"]
            moment = one["committed_at_max"].timestamp()
            self.committed[stream] = max(moment, self.committed.get(stream, moment))
        for one in _sums(_flat(rows, "timings_ms"), [_STREAM, "key"]):
            seconds, number = self.stages.get((one[_STREAM], one["key"]), (0.0, 0))
            self.stages[one[_STREAM], one["key"]] = (seconds + one["value_sum"] / 1000, number + one["count"])
        for one in _sums(_flat(rows, "timed"), [_STREAM, "key"]):
            seconds, number = self.stages[one[_STREAM], one["key"]]
            self.stages[one[_STREAM], one["key"]] = (seconds, number + one["value_sum"] - one["count"])
        for one in _sums(_flat(rows, "unroutable"), [_STREAM, "key"]):
            self.unroutable[one[_STREAM], one["key"]] += one["value_sum"]
        for one in _sums(_flat(rows, "filter_unknowns"), ["key"]):
            self.filter_unknowns[one["key"]] += one["value_sum"]
        for one in _sums(_flat(rows, "filter_errors"), ["key"]):
            self.filter_errors[one["key"]] += one["value_sum"]
        place = [_STREAM, "kind", "vhost", "name", "reason"]
        for one in _sums(_flat(rows, "unparsable"), place):
            stream, kind, vhost, name, reason = (one[column] for column in place)
            self.unparsable[stream, kind, vhost, name, reason] += one["messages_sum"]
        counted = _flat(rows, "canary")
        parts = ["vhost", "started", "what", "name"]
        for one in _sums(counted, parts):
            vhost, started, what, name = (one[column] for column in parts)
            self.canary[vhost, started, what, name] += one["messages_sum"]
        for one in counted.filter(pc.is_valid(counted["example"])).to_pylist():
            vhost, started, what, name = (one[column] for column in parts)
            self.canary_examples[vhost, started, what, name] = one["example"]
        if len(counted):
            self._sum_up_canaries()
        for one in _sums(_flat(rows, "requests"), [_STREAM, "key"]):
            self.requests[one[_STREAM], one["key"]] += one["value_sum"]
        for one in _sums(_flat(rows, "invalid"), [_STREAM, "key"]):
            self.invalid[one[_STREAM], one["key"]] += one["value_sum"]
        for one in _sums(_flat(rows, "bindings"), ["key"]):
            self.bindings[one["key"]] += one["value_sum"]
        for one in _sums(_flat(rows, "exchanges"), ["vhost", "name"]):
            self.exchanges[one["vhost"], one["name"]] += one["records_sum"]
        for one in _sums(_flat(rows, "tables"), ["kind", "vhost", "name"]):
            key = (one["kind"], one["vhost"], one["name"])
            self.rows[key] += one["rows_sum"]
            self.dropped[key] += one["dropped_sum"] or 0
            self.retries[one["kind"]] += one["retries_sum"] or 0

    def _sum_up_canaries(self) -> None:
        """Keep what the newest canaries of a vhost counted; of older ones the sums of their messages, under -1."""
        begun: dict[str, set[int]] = {}
        for vhost, started, *_ in self.canary:
            begun.setdefault(vhost, set()).add(started)
        kept = {vhost: set(sorted(found)[-CANARIES:]) for vhost, found in begun.items()}
        for key, number in list(self.canary.items()):
            vhost, started, what, name = key
            if started < 0 or started in kept[vhost]:
                continue
            del self.canary[key]
            self.canary_examples.pop(key, None)
            if not name:
                self.canary[vhost, -1, what, name] += number


class ManifestTotals:
    """The totals of the manifest at that path; safe between threads.

    `kept` are those of one of its versions, from which the first look goes on. `files_read` counts manifest files that
    were read, for tests of how little a look costs.
    """

    def __init__(self, manifest: str, *, kept: tuple[int, Totals] | None = None) -> None:
        self._manifest = manifest
        self._lock = threading.Lock()
        self._log: TableLog | None = None
        self._version, self._totals = kept or (-1, Totals())
        self.files_read = 0

    @property
    def version(self) -> int:
        """The version of the manifest up to which was looked; -1 before that."""
        return self._version

    def totals(self) -> Totals:
        """The totals up to the newest batch, which do not change any more. Raises UnsupportedTable."""
        with self._lock:
            self._update()
            return self._totals

    def _update(self) -> None:
        if self._log is None:
            if not tables.exists(self._manifest):
                return
            self._log = tables.open_log(self._manifest, MANIFEST)
        self._log.refresh()
        newest = self._log.version
        if newest == self._version:
            return
        if self._version < 0:
            newest = self._read_whole()
        else:
            try:
                added = list(self._added(self._version + 1, newest))
            except FileNotFoundError:
                # compacted and vacuumed between two looks: the whole table has the same sums
                newest = self._read_whole()
            else:
                totals = self._totals.copy()
                for rows in added:
                    totals.add(rows)
                self._totals = totals
        self._version = newest

    def _read_whole(self) -> int:
        """Read every row; the version that was read."""
        log = tables.open_log(self._manifest, MANIFEST, files=True)
        files = tables.files_of(log)
        totals = Totals()
        waiting: list[pa.RecordBatch] = []
        # a file holds one row as a rule: many of them are added up at once
        for batch in (batch for name in files for batch in file_rows.batches(log.path, name, MANIFEST.schema)):
            waiting.append(batch)
            if len(waiting) == _AT_ONCE:
                totals.add(pa.Table.from_batches(waiting))
                waiting = []
        if waiting:
            totals.add(pa.Table.from_batches(waiting))
        self._totals = totals
        self.files_read += len(files)
        return log.version

    def _added(self, first: int, last: int) -> Iterator[pa.Table]:
        """The rows that versions added; a version that only rewrote rows has none."""
        folder = at(self._manifest)
        for version in range(first, last + 1):
            entry = entry_of(self._manifest, version).read()
            if entry is None:
                raise FileNotFoundError(f"entry {version} of {folder} is gone")
            for line in entry.decode().splitlines():
                add = json.loads(line).get("add")
                if add is not None and add["dataChange"]:
                    self.files_read += 1
                    yield (folder / unquote(add["path"])).read_parquet(MANIFEST.schema)


def _flat(rows: pa.Table, name: str) -> pa.Table:
    """A column of lists or maps as one row per element, beside the stream of its batch."""
    column = rows[name].combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    kind = column.type
    if pa.types.is_map(kind):
        entry = pa.struct([pa.field("key", kind.key_type, nullable=False), ("value", kind.item_type)])
        column = column.cast(pa.list_(entry))
    elements = pc.list_flatten(column)
    streams = rows[_STREAM].take(pc.list_parent_indices(column))
    names = [member.name for member in elements.type]
    return pa.Table.from_arrays([streams, *elements.flatten()], names=[_STREAM, *names])


def _sums(rows: pa.Table, keys: list[str]) -> list[dict[str, Any]]:
    """Rows grouped by keys: `count`, the sum of every number and the newest of every time."""
    wanted: list[Any] = [([], "count_all")]
    for column in rows.schema:
        if column.name in keys:
            continue
        if pa.types.is_timestamp(column.type):
            wanted.append((column.name, "max"))
        elif pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            wanted.append((column.name, "sum"))
    found: list[dict[str, Any]] = rows.group_by(keys).aggregate(wanted).to_pylist()
    return [{**one, "count": one["count_all"]} for one in found]
