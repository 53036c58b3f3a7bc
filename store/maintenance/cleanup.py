"""Log cleanup: entries and checkpoints that no version within the retention needs.

A version is read from the newest checkpoint at or below it and the entries after that. So everything below
the newest checkpoint that is at or below the horizon can go; the entry of that checkpoint's own version
stays, since committers take it as their anchor. Deletion goes upwards: whenever it stops, what is left is a
log with a gap below its oldest checkpoint, which the next run closes. A committer that was stopped
meanwhile finds the entry before its own gone and takes its commit back (`bindery.store.log`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from bindery.router.errors import StorageFailed
from bindery.store import effects
from bindery.store.checkpoints import write_checkpoint
from bindery.store.maintenance.horizon import Horizon
from bindery.store.maintenance.listing import LogFiles
from bindery.store.places import Place

#: Checkpoints that stay within the retention, about: the oldest, the newest two, others evenly between.
KEPT: Final = 8
#: Versions between checkpoints of a table whose versions stay readable for ever, at least.
SPACING: Final = 1_000
#: Entries which nobody needs that are reason for a checkpoint above them: one takes about the room of so many.
CROWD: Final = 10


@dataclass(frozen=True, slots=True)
class Superfluous:
    """Versions of entries and of checkpoints that can go, ascending; `base` is the oldest checkpoint that stays."""

    entries: tuple[int, ...] = ()
    checkpoints: tuple[int, ...] = ()
    base: int = -1


@dataclass(frozen=True, slots=True)
class Cleaned:
    """How many files log cleanup removed."""

    entries: int = 0
    checkpoints: int = 0


def superfluous(files: LogFiles, horizon: Horizon | None) -> Superfluous:
    """What no version within the horizon needs; None as the horizon keeps every version readable."""
    base = -1
    if horizon is not None:
        base = max((version for version in files.checkpoints if version <= horizon.version), default=-1)
    older = [version for version in files.checkpoints if version < base]
    kept = [version for version in files.checkpoints if version >= base]
    spacing = SPACING if horizon is None else 0
    return Superfluous(
        tuple(version for version in files.entries if version < base),
        (*older, *_thinned(kept, files.last_checkpoint, spacing)),
        base,
    )


def wants_checkpoint(files: LogFiles, horizon: Horizon | None) -> bool:
    """Whether entries that no version within the horizon needs stay only for want of a checkpoint above them.

    Checkpoints follow commits, one after every hundred or so: a table that is seldom committed to would keep a
    hundred entries, and be read through them, for months. What is written now lets them go once the horizon has
    come to it; a table that has a checkpoint above its horizon waits for that one.
    """
    if horizon is None or not files.entries:
        return False
    newest = max(files.checkpoints, default=-1)
    return horizon.version - max(newest, files.entries[0]) >= CROWD


def _thinned(checkpoints: list[int], recorded: int | None, spacing: int) -> list[int]:
    """Checkpoints too close to others; each lists the whole table, so that many of them grow as its square."""
    if len(checkpoints) <= 3:
        return []
    gap = max((checkpoints[-1] - checkpoints[0]) // KEPT, spacing)
    last = checkpoints[0]
    found: list[int] = []
    for version in checkpoints[1:-2]:
        if version - last < gap and version != recorded:
            found.append(version)
        else:
            last = version
    return found


def clean_log(files: LogFiles, horizon: Horizon | None) -> Cleaned:
    """Remove what no version within the horizon needs. Raises StorageFailed."""
    found = superfluous(files, horizon)
    if not found.entries and not found.checkpoints:
        return Cleaned()
    if found.base >= 0 and not _is_sound(files.checkpoints[found.base]):
        return Cleaned()
    if files.last_checkpoint not in files.checkpoints.keys() - set(found.checkpoints) and not write_checkpoint(
        str(files.folder.parent)
    ):
        return Cleaned()  # readers would look for the one on record
    entries, checkpoints = set(found.entries), set(found.checkpoints)
    for version in sorted(entries | checkpoints):
        if version in entries:
            effects.remove(files.entry(version))
        if version in checkpoints:
            for part in files.checkpoints[version]:
                effects.remove(part)
    return Cleaned(len(entries), len(checkpoints))


def _is_sound(parts: tuple[Place, ...]) -> bool:
    """Whether a checkpoint can be read, and is durable from now on: entries are about to rely on it."""
    stated = {"protocol": 0, "metaData": 0}
    try:
        for part in parts:
            with part.parquet() as file:
                rows = file.read(columns=["protocol.minReaderVersion", "metaData.id"])
            for name in stated:
                stated[name] += len(rows[name]) - rows[name].null_count
            effects.sync([part])
    except (OSError, pa.ArrowException, StorageFailed):
        return False
    return all(stated.values())
