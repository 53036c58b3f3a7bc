"""Vacuum: files of tables that no version within the retention refers to.

Two kinds of file lie in a table's folder without being part of its newest version. *Removed* files were
taken out by a version: they go once the versions that had them are past the horizon. *Orphans* belong to no
version that is known: a batch that is being written, what a process that died left behind, or files that
were removed so long ago that the log has forgotten them. They go when they are older than any batch takes.

A writer that was stopped (not killed) for longer than that could still commit what it wrote. So orphans are
first renamed aside; then an empty commit ends every attempt to commit on an older version; and what the
table refers to by then gets its name back. Whoever comes later finds its file gone and says so
(`TableLog.commit`). Files aside are deleted after that, also those of a run that was interrupted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa

from bindery.router.errors import StorageFailed
from bindery.store import effects, tables
from bindery.store.log import TableLog
from bindery.store.maintenance.horizon import Horizon
from bindery.store.maintenance.listing import LogFiles
from bindery.store.places import Place, Stat, at

_ASIDE: Final = ".aside"
#: Milliseconds before any horizon.
_LONG_AGO: Final = -1
#: What the commit says that ends attempts on older versions; the last two for the history of the topology.
_FENCE: Final = {
    "operation": "VACUUM START",
    "bindery.change": "vacuum",
    "bindery.author": "bindery",
    "bindery.reason": "maintenance removes files that were never committed",
}


@dataclass(slots=True)
class Unneeded:
    """Files of a table that can go, relative to it, and how many bytes they have."""

    removed: list[str] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    aside: list[str] = field(default_factory=list)
    drafts: list[Place] = field(default_factory=list)
    bytes: int = 0

    @property
    def number(self) -> int:
        """How many files."""
        return len(self.removed) + len(self.orphans) + len(self.aside) + len(self.drafts)


def unneeded(log: TableLog, files: LogFiles, horizon: Horizon | None, orphan_age: timedelta, now_ms: int) -> Unneeded:
    """What can go from a table; `log` has its files and is at a version that `files` lists, or a later one."""
    found = Unneeded()
    old_ms = now_ms - int(orphan_age.total_seconds() * 1000)
    live = tables.files_of(log)
    candidates: dict[str, Stat] = {}
    folder = at(log.path)
    with effects.looking(folder):
        present = folder.files()
    for name, stat in present.items():
        if not name.endswith((".parquet", _ASIDE)):
            continue
        if name.endswith(_ASIDE):
            found.aside.append(name)
        elif name not in live and not name.startswith("."):
            candidates[name] = stat
    if candidates:
        _sort_out(found, candidates, _removals(files, horizon), horizon, old_ms)
        if horizon is None and found.orphans:
            found.orphans = _never_added(found.orphans, files)
    drafts = [(draft, files.modified[draft.name]) for draft in files.drafts]
    drafts += [(folder / name, stat.modified_ms) for name, stat in present.items() if _is_draft(name)]
    found.drafts = [draft for draft, modified_ms in drafts if modified_ms < old_ms]
    return found


def _sort_out(
    found: Unneeded,
    candidates: dict[str, Stat],
    removals: dict[str, int],
    horizon: Horizon | None,
    old_ms: int,
) -> None:
    for name, stat in candidates.items():
        removed_ms = removals.get(name)
        if removed_ms is None:
            if stat.modified_ms >= old_ms:
                continue
            found.orphans.append(name)
        elif horizon is None or removed_ms >= horizon.removed_since_ms:
            continue
        else:
            found.removed.append(name)
        found.bytes += stat.size


def vacuum(log: TableLog, found: Unneeded) -> int:
    """Delete what was found to be unneeded; how many files went. Raises StorageFailed, CommitUnknown."""
    folder = at(log.path)
    for draft in found.drafts:
        effects.remove(draft)
    for name in found.removed:
        effects.remove(folder / name)
    done = len(found.drafts) + len(found.removed)
    if found.orphans or found.aside:
        aside = [*found.aside, *(_put_aside(folder, name) for name in found.orphans)]
        _fence(log)
        for name in aside:
            original = name.removeprefix(".").removesuffix(_ASIDE)
            if original in tables.files_of(log):
                effects.rename(folder / name, folder / original)
            else:
                effects.remove(folder / name)
                done += 1
    return done


def _put_aside(folder: Place, name: str) -> str:
    aside = f".{name}{_ASIDE}"
    effects.rename(folder / name, folder / aside)
    return aside


def _fence(log: TableLog) -> None:
    """Commit nothing: whoever would commit on a version before this one loses the race and looks again."""
    for _ in tables.attempts(log.path):
        log.refresh()
        if log.commit((), info=_FENCE) is not None:
            return


def _never_added(names: list[str], files: LogFiles) -> list[str]:
    """Those of some files that no version ever had; none unless the log is there from its beginning."""
    if files.entries != tuple(range(len(files.entries))):
        return []
    added = {name for version in files.entries for name in _paths_in_entry(files.entry(version), "add")}
    return [name for name in names if name not in added]


def _removals(files: LogFiles, horizon: Horizon | None) -> dict[str, int]:
    """When each removed file that the log still knows was removed (ms); files that came back are not left out.

    `_LONG_AGO` stands for a removal that every version from the horizon on knows of: its entry says so, while
    checkpoints forget what was removed longer ago than the retention.
    """
    last = -1 if horizon is None else horizon.version
    past: dict[str, int] = {}
    for version in files.entries:
        if version <= last:
            past |= _paths_in_entry(files.entry(version), "remove")
    removals = dict.fromkeys(past, _LONG_AGO)
    newest = max(files.checkpoints, default=None)
    if newest is not None:
        for part in files.checkpoints[newest]:
            known = _removals_in_checkpoint(part)
            removals |= {name: then for name, then in known.items() if then > past.get(name, _LONG_AGO)}
    is_held = horizon is not None and bool(horizon.held)
    for version in files.entries:
        if version > last and (newest is None or version >= newest or is_held):
            removals |= _paths_in_entry(files.entry(version), "remove")
    return removals


def _removals_in_checkpoint(part: Place) -> dict[str, int]:
    try:
        with part.parquet() as file:
            if "remove" not in file.schema_arrow.names:
                return {}
            removed = file.read(columns=["remove.path", "remove.deletionTimestamp"])["remove"]
    except (OSError, pa.ArrowException) as error:
        raise StorageFailed(f"cannot read {part}: {error}", where=str(part)) from error
    return {unquote(one["path"]): int(one["deletionTimestamp"] or 0) for one in removed.drop_null().to_pylist()}


def _paths_in_entry(place: Place, action: str) -> dict[str, int]:
    """The files that an entry adds or removes, with the time that it states for their removal (ms)."""
    lines = (effects.read(place) or b"").decode().splitlines()
    found: dict[str, int] = {}
    for line in lines:
        if line.startswith(f'{{"{action}"'):
            content: dict[str, Any] = json.loads(line)[action]
            found[unquote(content["path"])] = int(content.get("deletionTimestamp") or 0)
    return found


def _is_draft(name: str) -> bool:
    return name.startswith(".") and name.endswith(".tmp")
