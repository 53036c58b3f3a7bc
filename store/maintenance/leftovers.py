"""What processes that died left outside of tables: pins of streams that are no more, drafts of plans."""

from __future__ import annotations

from bindery.store import effects, plan_files
from bindery.store.maintenance.policy import Policy
from bindery.store.paths import DataDir, encode_name
from bindery.store.places import Place, at
from bindery.store.streams import epochs
from bindery.store.tables import exists


def leftovers(data: DataDir, policy: Policy, now_ms: int) -> list[Place]:
    """Drafts of plans and pins, and folders of pins, that nobody needs: nothing of them is younger than the orphan age.

    The pins of the newest epoch of every stream stay. Those of plans say nothing that the plans do not.
    """
    old_ms = now_ms - int(policy.orphan_age.total_seconds() * 1000)
    needed = _needed(data)
    newest: dict[Place, int] = {}
    for folder in (*plan_files.FOLDERS, "pins"):
        for place, modified_ms in _within(at(data.root, folder)):
            if place.name.startswith(".") and place.suffix == ".tmp":
                newest[place] = modified_ms
            elif folder == "pins" and place.parent.name not in needed:
                newest[place.parent] = max(modified_ms, newest.get(place.parent, 0))
    return sorted(place for place, modified_ms in newest.items() if modified_ms < old_ms)


def _within(folder: Place) -> list[tuple[Place, int]]:
    """The files below a folder, each with when it was made (ms)."""
    with effects.looking(folder):
        return [(folder / name, stat.modified_ms) for name, stat in folder.within().items()]


def _needed(data: DataDir) -> set[str]:
    newest = {epoch.stream: epoch.app_id for epoch in epochs(data)} if exists(data.streams) else {}
    return {encode_name(app_id) for app_id in newest.values()}


def sweep(found: list[Place]) -> int:
    """Remove what was found; how many files and folders that were. Raises StorageFailed."""
    for place in found:
        if place.suffix == ".tmp":
            effects.remove(place)
        else:
            effects.remove_folder(place)
    return len(found)
