"""How much the journals hold: rows, bytes and the time of the oldest row, by their logs alone.

Each log is read once and followed from then on, so that whoever asks again pays for what has changed.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from bindery.router.moments import iso
from bindery.store import tables
from bindery.store.journal_files import Journal
from bindery.store.log import TableLog
from bindery.store.maintenance.journals import Kept
from bindery.store.paths import DataDir
from bindery.store.statistics import stated_span

_SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class JournalSize:
    """A journal: its rows, bytes of its files, when the oldest row was routed (None: there is none), what is kept.

    `waiting` is when the first message was routed that may have copies for deferred queues which wait; None for none.
    """

    stream: str
    vhost: str
    rows: int
    bytes: int
    oldest: datetime | None
    kept: Kept
    waiting: datetime | None = None

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {
            "rows": self.rows,
            "bytes": self.bytes,
            "oldest_row_at": None if self.oldest is None else iso(self.oldest, "milliseconds"),
            "kept_seconds": self.kept.age // _SECOND,
            "kept_bytes": self.kept.bytes,
            "waiting_since": None if self.waiting is None else iso(self.waiting, "milliseconds"),
        }


class JournalSizes:
    """The sizes of a data directory's journals; safe between threads."""

    def __init__(self, data: DataDir) -> None:
        self._data = data
        self._lock = threading.Lock()
        #: Path -> its log, and what was made of it with the version of that.
        self._known: dict[str, tuple[TableLog, int, JournalSize]] = {}

    def of_all(self) -> dict[str, JournalSize]:
        """Stream -> its journal. Raises UnsupportedTable for a damaged one, StorageFailed."""
        with self._lock:
            paths = [path for path in self._data.journals() if tables.exists(path)]
            self._known = {path: self._followed(path) for path in paths}
            return {size.stream: size for _, _, size in self._known.values()}

    def _followed(self, path: str) -> tuple[TableLog, int, JournalSize]:
        known = self._known.get(path)
        if known is None:
            log = tables.open_log(path, tables.JOURNAL, files=True)
        else:
            log, version, size = known
            log.refresh()
            if log.version == version:
                return log, version, size
        return log, log.version, _size(log)


def _size(log: TableLog) -> JournalSize:
    stated, files = log.state.configuration, tables.files_of(log).values()
    waiting = Journal.of(log).waiting_since_ms
    oldest = min((stated_span(log.path, file).first for file in files), default=None)
    return JournalSize(
        stream=stated["bindery.name"],
        vhost=stated["bindery.vhost"],
        rows=tables.rows_in(log),
        bytes=sum(file.size for file in files),
        # a file that states no time may hold any
        oldest=None if oldest is None or oldest < 0 else datetime.fromtimestamp(oldest / 1_000_000, UTC),
        kept=Kept.of(stated),
        waiting=None if waiting is None else datetime.fromtimestamp(waiting / 1000, UTC),
    )
