"""What lies in the log folder of a table."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bindery.store import effects
from bindery.store.log import entry_name
from bindery.store.places import Place, at

_ENTRY: Final = re.compile(r"(\d{20})\.json")
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
#: Names under which something is written before it gets its own: ours, deltalake's, Spark's.
_DRAFT: Final = re.compile(r"\..*\.tmp|.*#\d+|_commit_.*\.tmp|\..*\.crc")


@dataclass(frozen=True, slots=True)
class LogFiles:
    """The files of a log: versions of entries ascending, whole checkpoints by version, drafts.

    `last_checkpoint` is the version on record, None for none or an unreadable record; `modified` says when each file
    was made (ms).
    """

    folder: Place
    entries: tuple[int, ...]
    checkpoints: dict[int, tuple[Place, ...]]
    drafts: tuple[Place, ...]
    last_checkpoint: int | None
    modified: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, table: str) -> LogFiles:
        """List the log of a table. Raises StorageFailed."""
        folder = at(table, "_delta_log")
        entries: list[int] = []
        parts: dict[int, list[tuple[str, int]]] = {}
        drafts: list[Place] = []
        with effects.looking(folder):
            found = folder.files()
        for name in found:
            if match := _ENTRY.fullmatch(name):
                entries.append(int(match[1]))
            elif match := _CHECKPOINT.fullmatch(name):
                parts.setdefault(int(match[1]), []).append((name, int(match[3] or 1)))
            elif _DRAFT.fullmatch(name):
                drafts.append(folder / name)
        whole = {
            version: tuple(folder / name for name, _ in sorted(named))
            for version, named in sorted(parts.items())
            if len(named) >= named[0][1]
        }
        modified = {name: stat.modified_ms for name, stat in found.items()}
        return cls(folder, tuple(sorted(entries)), whole, tuple(drafts), _recorded(folder), modified)

    def entry(self, version: int) -> Place:
        """The path of an entry."""
        return self.folder / entry_name(version)

    def modified_ms(self, version: int) -> int:
        """When an entry was made, in milliseconds since 1970; 0 for one that is not there."""
        return self.modified.get(entry_name(version), 0)

    def version_at(self, moment_ms: int) -> int | None:
        """The newest version made at or before a time; None when all are newer."""
        place = bisect_right(self.entries, moment_ms, key=self.modified_ms)
        return self.entries[place - 1] if place else None


def _recorded(folder: Place) -> int | None:
    try:
        found: Any = json.loads((folder / "_last_checkpoint").read() or b"")
        return int(found["version"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
