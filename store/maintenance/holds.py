"""Streams that read tables of this data directory, and from which version on they still need them.

A stream with a Delta source (a bridge reads a queue, a job reads an inbox) records in its checkpoint how
far it has planned. The newest batch may not be committed, and a replay of it reads what it read before: so
what counts is the batch before the newest, and one version less, for the first batch of a stream reads the
snapshot before the version that it records. A forwarder states the version that it sends next.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from bindery.store import effects
from bindery.store.forwarding import recorded
from bindery.store.paths import DataDir
from bindery.store.places import Place, at


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
    """The holds of every checkpoint below the data directory, and of every forwarder."""
    oldest = now_ms - int(limit.total_seconds() * 1000)
    checkpoints = at(data.root, "checkpoints")
    with effects.looking(checkpoints):
        found = [hold for name in checkpoints.folders() for hold in _of(checkpoints / name)]
    found += [
        Hold(f"forward {one.name}", one.position.table_id, max(0, one.position.version - 1), one.moved_ms)
        for one in recorded(data)
    ]
    active = tuple(hold for hold in found if hold.moved_ms >= oldest)
    return Holds(active, tuple(hold for hold in found if hold.moved_ms < oldest))


def _of(checkpoint: Place) -> Iterator[Hold]:
    """The holds of one checkpoint, the least version per table."""
    folder = checkpoint / "offsets"
    files = folder.files()
    batches = sorted((name for name in files if name.isdecimal()), key=int)
    least: dict[str, int] = {}
    for name in batches[-2:]:
        for offset in _offsets(folder / name):
            table, version = str(offset["reservoirId"]), int(offset["reservoirVersion"]) - 1
            least[table] = min(version, least.get(table, version))
    for table, version in least.items():
        yield Hold(checkpoint.name, table, version, files[batches[-1]].modified_ms)


def _offsets(place: Place) -> Iterator[dict[str, Any]]:
    """The offsets of Delta sources in a file of offsets; none in one that cannot be read."""
    try:
        text = (place.read() or b"").decode()
    except (OSError, UnicodeDecodeError):
        return
    yield from delta_offsets(text)


def delta_offsets(text: str) -> Iterator[dict[str, Any]]:
    """The offsets of Delta sources in what Spark has planned for a batch, one JSON object a line."""
    for line in text.splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and {"reservoirId", "reservoirVersion"} <= found.keys():
            yield found
