"""Checkpoints of Delta logs: written beside the commits, never by them.

A checkpoint lists every file of a table, so what it costs grows with the table; a commit must neither wait
for it nor fail with it. After a commit the table is handed to one thread of the process, which writes a
checkpoint when enough entries have gathered. Whatever goes wrong there is logged and harms nothing: the
log is whole without checkpoints, only slower to read, and the next commit hands it over again. A process that
ends writes first what was handed over: a thread that native code still runs on when the interpreter is taken
down brings the whole process down, with an exit code that belies what it has done.
"""

from __future__ import annotations

import atexit
import json
import logging
import queue
import threading
from typing import Final

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from bindery.store import faults
from bindery.store.places import at, delta_options

#: Entries after a checkpoint at which the next one is due: a reader reads that many small files at most …
ENTRIES: Final = 100
#: … or, of a table with many files, one for so many files, that the cost of a commit stays what it is …
_FILES_PER_ENTRY: Final = 20
#: … but never more than this.
MOST_ENTRIES: Final = 1_000
_LOGGER: Final = logging.getLogger(__name__)


def interval(actions: int) -> int:
    """Entries after which a checkpoint that lists so many actions is followed by the next."""
    return min(max(ENTRIES, actions // _FILES_PER_ENTRY), MOST_ENTRIES)


def is_due(path: str, version: int) -> bool:
    """Whether a table that is at that version wants a checkpoint."""
    try:
        recorded = at(path, "_delta_log", "_last_checkpoint").read()
        if recorded is None:
            return version >= ENTRIES
        last = json.loads(recorded)
        return version - int(last["version"]) >= interval(int(last.get("size") or 0))
    except (OSError, ValueError, KeyError, TypeError):
        return True  # a new one replaces what cannot be read


def write_checkpoint(path: str) -> bool:
    """Write a checkpoint of a table's newest version; False, and a line in the log, when that failed."""
    try:
        faults.reach("checkpoint.before", path)
        DeltaTable(path, storage_options=delta_options(path)).create_checkpoint()
        faults.reach("checkpoint.after", path)
    except (DeltaError, OSError, ValueError) as error:
        _LOGGER.warning("no checkpoint of %s: %s", path, str(error).strip().partition("\n")[0])
        return False
    return True


class _Writer:
    """The thread that writes checkpoints; started by the first table that is handed over."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        #: The newest version of each table that waits.
        self._versions: dict[str, int] = {}
        self._gate = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    def hand_over(self, path: str, version: int) -> None:
        """Have a checkpoint written if it is due; a table that waits already does not wait twice."""
        with self._gate:
            if self._closed:
                return
            if path not in self._versions:
                self._waiting.put(path)
            self._versions[path] = version
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="checkpoints", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Write what was handed over, and take no more."""
        with self._gate:
            self._closed = True
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()

    def _run(self) -> None:
        while (path := self._waiting.get()) is not None:
            with self._gate:
                version = self._versions.pop(path)
            try:
                if is_due(path, version):
                    write_checkpoint(path)
            except Exception:
                _LOGGER.exception("no checkpoint of %s", path)


_writer: Final = _Writer()
atexit.register(_writer.close)


def consider(path: str, version: int) -> None:
    """Called after the commit of a version: has a checkpoint written by and by, if it is time."""
    if version % (ENTRIES // 4) == 0:
        _writer.hand_over(path, version)
