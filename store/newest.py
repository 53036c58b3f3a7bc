"""The newest batches of each stream, followed: what was read once is not read again, however often somebody looks.

The manifest's history costs nothing here: of each stream a bounded number of its newest files is opened, and of files
that hold several streams those whose rows are among the newest.
"""

from __future__ import annotations

import itertools
import threading
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

from bindery.store import tables
from bindery.store.log import TableLog
from bindery.store.manifest import MANIFEST, newest_batches, newest_files
from bindery.store.paths import DataDir

#: Rows of the manifest, newest first, among which the batches of each stream are looked for.
_NEWEST_ROWS: Final = 1_024
_COLUMNS: Final = (
    "stream",
    "batch_id",
    "topology_version",
    "clock",
    "records",
    "copies",
    "unroutable",
    "unparsable",
    "timings_ms",
)


class NewestBatches:
    """The newest batches of each stream of a data directory, at most `each`; safe between threads.

    `files_read` counts manifest files that were opened, for tests of how little a look costs.
    """

    def __init__(self, data: DataDir, *, each: int) -> None:
        self._data = data
        self._each = each
        self._lock = threading.Lock()
        self._log: TableLog | None = None
        self._version = -1
        #: Rows of files that were opened; a file never changes.
        self._kept: dict[str, list[dict[str, Any]]] = {}
        self._found: dict[str, list[dict[str, Any]]] = {}
        self.files_read = 0

    def of(self, batches: Mapping[str, int]) -> dict[str, list[dict[str, Any]]]:
        """Rows of the manifest by stream, the newest first; `batches` says how many each stream has in all.

        Raises UnsupportedTable.
        """
        with self._lock:
            if self._log is None:
                if not tables.exists(self._data.manifest):
                    return {}
                self._log = tables.open_log(self._data.manifest, MANIFEST, files=True)
            else:
                self._log.refresh()
            if self._log.version != self._version:
                self._found = self._look(self._log, batches)
                self._version = self._log.version
            return self._found

    def _look(self, log: TableLog, batches: Mapping[str, int]) -> dict[str, list[dict[str, Any]]]:
        missing = {stream: min(number, self._each) for stream, number in batches.items() if number}
        found: dict[str, list[dict[str, Any]]] = defaultdict(list)
        files = newest_files(tables.files_of(log).values(), each=self._each)
        present = {file.path for file in files}
        self._kept = {path: rows for path, rows in self._kept.items() if path in present}
        opened = len(self._kept)
        rows = newest_batches(self._data, columns=_COLUMNS, files=files, kept=self._kept, most=_NEWEST_ROWS)
        for row in itertools.islice(rows, _NEWEST_ROWS):
            stream = row["stream"]
            # of streams that have begun since their batches were counted there is one at least
            if missing.setdefault(stream, 1):
                found[stream].append(row)
                missing[stream] -= 1
            if not any(missing.values()):
                break
        self.files_read += len(self._kept) - opened
        return dict(found)
