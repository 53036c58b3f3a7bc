"""How many messages queues hold: from the statistics of their Delta logs, looked up once per version.

A queue's count is remembered with the time its log folder last changed. A folder that changed a moment
ago is looked at again: two commits within one tick of the file system's clock look alike.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from store import tables
from store.paths import DataDir

#: Age, in nanoseconds, from which on a folder's time stamp is trusted.
_SETTLED_NS: Final = 100_000_000
_FIRST_VERSION: Final = "00000000000000000000.json"
_WORKERS: Final = 4
#: Tables from which on they are opened by several threads.
_MANY: Final = 16


@dataclass(frozen=True, slots=True)
class Held:
    """What a queue holds: messages, bytes of its files, and when it last changed (seconds since 1970)."""

    messages: int = 0
    size: int = 0
    changed: float = 0.0


class Counts:
    """Message counts of the queues of one data directory; safe between threads."""

    def __init__(self, data: DataDir) -> None:
        self._data = data
        self._known: dict[tuple[str, str], tuple[int, Held]] = {}

    def of(self, vhost: str, name: str) -> Held:
        """What one queue holds now; raises UnsupportedTable for a damaged table."""
        path = self._data.queue(vhost, name)
        folder = Path(path, "_delta_log")
        try:
            changed = folder.stat().st_mtime_ns
        except FileNotFoundError:
            return Held()  # deleted with its folder while a list was made
        known = self._known.get((vhost, name))
        if known is not None and known[0] == changed:
            return known[1]
        if [entry.name for entry in folder.iterdir()] == [_FIRST_VERSION]:
            held = Held(changed=changed / 1e9)  # tables are created empty
        else:
            log = tables.open_log(path, tables.QUEUE, vhost=vhost, name=name, files=True)
            held = Held(tables.rows_in(log), sum(file.size for file in tables.files_of(log).values()), changed / 1e9)
        if time.time_ns() - changed > _SETTLED_NS:
            self._known[vhost, name] = (changed, held)
        return held

    def of_many(self, queues: Iterable[tuple[str, str]]) -> list[Held]:
        """What each of the queues holds, in order."""
        wanted = list(queues)
        if len(wanted) < _MANY:
            return [self.of(*key) for key in wanted]
        with ThreadPoolExecutor(_WORKERS, "counts") as pool:
            return list(pool.map(lambda key: self.of(*key), wanted))
