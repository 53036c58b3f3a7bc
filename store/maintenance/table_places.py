"""The tables of a data directory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bindery.store import tables
from bindery.store.log import TableLog, is_table
from bindery.store.manifest import MANIFEST
from bindery.store.paths import DataDir
from bindery.store.places import at
from bindery.store.streams import STREAMS
from bindery.store.topology import TOPOLOGY

#: Statistics that compaction keeps, by kind of table: files are skipped by them.
_ROUTED: Final = (
    ("routed_at",),
    ("routing", "topology_version"),
    ("routing", "batch_id"),
    ("routing", "seq"),
)
_STATISTICS: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    tables.QUEUE.name: _ROUTED,
    tables.UNROUTABLE.name: _ROUTED,
    tables.JOURNAL.name: (*_ROUTED, ("routing", "deferred")),
    tables.DEDUP.name: _ROUTED,
    MANIFEST.name: (("app_id",), ("stream",), ("batch_id",), ("committed_at",)),
}
#: Rows of a merged file at most, by kind of table: whoever looks for the newest batches reads whole files.
_MOST_ROWS: Final = {MANIFEST.name: 4_096}

#: Milliseconds of which the rows of merged files are at most, by kind of table: files go as a whole once they are old.
_APART_MS: Final = {tables.JOURNAL.name: 86_400_000, tables.DEDUP.name: 3_600_000}


@dataclass(frozen=True, slots=True)
class TablePlace:
    """Where a table is, and what it is to be."""

    kind: tables.Kind
    path: str
    name: str

    @property
    def is_forever(self) -> bool:
        """Whether every version stays readable for all time: the topology's, by contract."""
        return self.kind is TOPOLOGY

    @property
    def statistics(self) -> tuple[tuple[str, ...], ...]:
        """The columns whose least and greatest values every file states."""
        return _STATISTICS.get(self.kind.name, ())

    @property
    def most_rows(self) -> int | None:
        """Rows that a merged file has at most; None where bytes alone count."""
        return _MOST_ROWS.get(self.kind.name)

    @property
    def apart_ms(self) -> int:
        """Files of different spans of so many milliseconds, since 1970 (UTC), stay apart; 0 where none do."""
        return _APART_MS.get(self.kind.name, 0)

    def open(self) -> TableLog:
        """The table's log with its files, checked; raises UnsupportedTable."""
        return tables.open_log(self.path, self.kind, files=True)


def table_places(data: DataDir) -> Iterator[TablePlace]:
    """Every table of a data directory, those of the directory itself first."""
    for kind, path in ((TOPOLOGY, data.topology), (STREAMS, data.streams), (MANIFEST, data.manifest)):
        if is_table(path):
            yield TablePlace(kind, path, kind.name)
    for kind, found in (
        *((tables.QUEUE, path) for path in data.queue_tables()),
        *((tables.UNROUTABLE, path) for path in data.vhost_tables("unroutable")),
        *((tables.JOURNAL, path) for path in data.journals()),
        *((tables.DEDUP, path) for path in data.dedups()),
        *((tables.INBOX, path) for path in data.vhost_tables("inbox")),
    ):
        if is_table(found):
            yield place_of(data, kind, found)


def place_of(data: DataDir, kind: tables.Kind, path: str) -> TablePlace:
    """The place of one table whose path is known."""
    return TablePlace(kind, path, at(path).below(at(data.root)))
