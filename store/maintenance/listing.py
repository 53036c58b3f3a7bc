"""What lies in the log folder of a table."""

from __future__ import annotations

import json
import os
import re
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bindery.router.errors import StorageFailed

_ENTRY: Final = re.compile(r"(\d{20})\.json")
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
#: Names under which something is written before it gets its own: ours, deltalake's, Spark's.
_DRAFT: Final = re.compile(r"\..*\.tmp|.*#\d+|_commit_.*\.tmp|\..*\.crc")


@dataclass(frozen=True, slots=True)
class LogFiles:
    """The files of a log: versions of entries ascending, whole checkpoints by version, drafts.

    `last_checkpoint` is the version on record, None for none or an unreadable record.
    """

    folder: Path
    entries: tuple[int, ...]
    checkpoints: dict[int, tuple[Path, ...]]
    drafts: tuple[Path, ...]
    last_checkpoint: int | None

    @classmethod
    def of(cls, table: str) -> LogFiles:
        """List the log of a table. Raises StorageFailed."""
        folder = Path(table, "_delta_log")
        entries: list[int] = []
        parts: dict[int, list[tuple[str, int]]] = {}
        drafts: list[Path] = []
        try:
            with os.scandir(folder) as found:
                names = [file.name for file in found]
        except OSError as error:
            raise StorageFailed(f"cannot list {folder}: {error.strerror}", where=table) from error
        for name in names:
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
        return cls(folder, tuple(sorted(entries)), whole, tuple(drafts), _recorded(folder))

    def entry(self, version: int) -> Path:
        """The path of an entry."""
        return self.folder / f"{version:020}.json"

    def modified_ms(self, version: int) -> int:
        """When an entry was made, in milliseconds since 1970; 0 for one that is gone."""
        try:
            return self.entry(version).stat().st_mtime_ns // 1_000_000
        except FileNotFoundError:
            return 0

    def version_at(self, moment_ms: int) -> int | None:
        """The newest version made at or before a time; None when all are newer. Looks at a few entries."""
        place = bisect_right(self.entries, moment_ms, key=self.modified_ms)
        return self.entries[place - 1] if place else None


def _recorded(folder: Path) -> int | None:
    try:
        found: Any = json.loads((folder / "_last_checkpoint").read_bytes())
        return int(found["version"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
