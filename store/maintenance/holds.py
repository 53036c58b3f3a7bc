"""Streams that read tables of this data directory, and from which version on they still need them.

A stream with a Delta source (a bridge reads a queue, a job reads an inbox) records in its checkpoint how
far it has planned. The newest batch may not be committed, and a replay of it reads what it read before: so
what counts is the batch before the newest, and one version less, for the first batch of a stream reads the
snapshot before the version that it records.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from bindery.store.paths import DataDir


@dataclass(frozen=True, slots=True)
class Hold:
    """A stream needs versions of a table from `version` on; it last moved at `moved_ms`."""

    stream: str
    table_id: str
    version: int
    moved_ms: int


@dataclass(frozen=True, slots=True)
class Holds:
    """The holds that count, and those of streams that have not moved for longer than the limit."""

    active: tuple[Hold, ...] = ()
    expired: tuple[Hold, ...] = ()


def find_holds(data: DataDir, limit: timedelta, now_ms: int) -> Holds:
    """The holds of every checkpoint below the data directory."""
    oldest = now_ms - int(limit.total_seconds() * 1000)
    found = [hold for folder in sorted(Path(data.root, "checkpoints").glob("*")) for hold in _of(folder)]
    active = tuple(hold for hold in found if hold.moved_ms >= oldest)
    return Holds(active, tuple(hold for hold in found if hold.moved_ms < oldest))


def _of(checkpoint: Path) -> Iterator[Hold]:
    """The holds of one checkpoint, the least version per table."""
    batches = [path for path in (checkpoint / "offsets").glob("*") if path.name.isdecimal()]
    batches.sort(key=lambda path: int(path.name))
    least: dict[str, int] = {}
    for path in batches[-2:]:
        for offset in _offsets(path):
            table, version = str(offset["reservoirId"]), int(offset["reservoirVersion"]) - 1
            least[table] = min(version, least.get(table, version))
    for table, version in least.items():
        yield Hold(checkpoint.name, table, version, batches[-1].stat().st_mtime_ns // 1_000_000)


def _offsets(path: Path) -> Iterator[dict[str, Any]]:
    """The offsets of Delta sources in a file of offsets, one JSON object a line."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return
    for line in lines:
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and {"reservoirId", "reservoirVersion"} <= found.keys():
            yield found
