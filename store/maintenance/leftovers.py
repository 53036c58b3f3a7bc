"""What processes that died left outside of tables: pins of streams that are no more, plans of redrives."""

from __future__ import annotations

from pathlib import Path

from bindery.store import effects
from bindery.store.maintenance.policy import Policy
from bindery.store.paths import DataDir, encode_name
from bindery.store.streams import epochs
from bindery.store.tables import exists


def leftovers(data: DataDir, policy: Policy, now_ms: int) -> list[Path]:
    """Folders and files that nobody needs any more: nothing in them is younger than the orphan age.

    The pins of the newest epoch of every stream stay. Those of redrives say nothing that their plans do not.
    """
    old_ms = now_ms - int(policy.orphan_age.total_seconds() * 1000)
    root = Path(data.root)
    found = [path for path in root.glob("redrives/*/*") if path.suffix in (".draft", ".done")]
    needed = _needed(data)
    found += [path for path in (root / "pins").glob("*") if path.name not in needed]
    found += [path for path in root.glob("pins/*/.*.tmp") if path.parent not in found]
    return [path for path in sorted(found) if _newest_ms(path) < old_ms]


def _needed(data: DataDir) -> set[str]:
    newest = {epoch.stream: epoch.app_id for epoch in epochs(data)} if exists(data.streams) else {}
    return {encode_name(app_id) for app_id in newest.values()}


def sweep(found: list[Path]) -> int:
    """Remove what was found; how many folders and files that were. Raises StorageFailed."""
    for path in found:
        if path.is_dir():
            effects.remove_folder(path)
        else:
            effects.remove(path)
    return len(found)


def _newest_ms(path: Path) -> int:
    """When a file, or anything in a folder, was changed last."""
    try:
        times = [path.stat().st_mtime_ns, *(inner.stat().st_mtime_ns for inner in path.rglob("*"))]
    except FileNotFoundError:
        times = [path.stat().st_mtime_ns] if path.exists() else [0]
    return max(times) // 1_000_000
