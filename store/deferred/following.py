"""The journals of a data directory, followed by a process that is asked for counts of queues again and again."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from bindery.router.errors import UnsupportedTable
from bindery.store import tables
from bindery.store.actions import AddFile
from bindery.store.deferred.live import WaitingJournal
from bindery.store.journal_files import Journal, JournalFile, materialised_through
from bindery.store.paths import DataDir


@dataclass(frozen=True, slots=True)
class Look:
    """What a look at all journals has found: `versions` tells it from every other one."""

    versions: tuple[tuple[str, str, int], ...] = ()
    journals: Sequence[WaitingJournal] = ()


@dataclass(slots=True)
class _Followed:
    """A journal whose log is followed, and its files in which copies may wait."""

    journal: Journal
    version: int = -1
    known: dict[str, tuple[JournalFile, AddFile]] = field(default_factory=dict)
    found: WaitingJournal | None = None

    def look(self) -> WaitingJournal | None:
        """What waits at the log's version, None for nothing; what is stated about a file is read once."""
        log = self.journal.log
        if log.version != self.version:
            through = materialised_through(log)
            known = {
                name: self.known.get(name) or (JournalFile.of(file), file)
                for name, file in tables.files_of(log).items()
            }
            files = [pair for pair in known.values() if pair[0].waits and pair[0].last > through]
            self.known, self.version = known, log.version
            self.found = WaitingJournal(log.path, self.journal.stream, files) if files else None
        return self.found


class Journals:
    """The journals of a data directory; safe between threads. Without any a look costs that of a folder."""

    def __init__(self, data: DataDir) -> None:
        self._data = data
        self._gate = threading.Lock()
        self._followed: dict[str, _Followed] = {}

    def look(self) -> Look:
        """What waits in them now. Raises UnsupportedTable for a journal that cannot be read."""
        paths = self._data.journals()
        if not paths:
            return Look()
        with self._gate:
            self._followed = {path: one for path in paths if (one := self._follow(path)) is not None}
            found = [(one.journal.log, one.look()) for one in self._followed.values()]
            versions = tuple((log.path, log.state.table_id, log.version) for log, _ in found)
            return Look(versions, [one for _, one in found if one is not None])

    def _follow(self, path: str) -> _Followed | None:
        """A journal at its newest version; one that can be followed no further is read anew."""
        known = self._followed.get(path)
        if known is not None:
            try:
                known.journal.log.refresh()
            except UnsupportedTable:
                pass
            else:
                return known
        return _Followed(Journal.open(path)) if tables.exists(path) else None
