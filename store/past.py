"""The log of a table as it was: at one version, or at one time."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from bindery.router.errors import NotFound, UnsupportedTable
from bindery.store.actions import actions_of
from bindery.store.log import TableLog, entry_of
from bindery.store.maintenance.listing import LogFiles


class LogAt(TableLog):
    """The log of a table up to a version, the newest one by default, with its files; for reading alone.

    Raises NotFound for a version that cannot be read (any more), UnsupportedTable for a missing or damaged log.
    """

    def __init__(self, path: str, version: int | None = None) -> None:
        self._last = version
        try:
            super().__init__(path, files=True)
        except UnsupportedTable:
            if version is None or LogFiles.of(path).entries[:1] in ((), (0,)):
                raise
            raise gone(path, f"version {version}") from None
        if version is not None and self.version != version:
            raise gone(path, f"version {version}")

    def _newest_checkpoint(self) -> int | None:
        if self._last is None:
            return super()._newest_checkpoint()
        return max((found for found in LogFiles.of(self.path).checkpoints if found <= self._last), default=None)

    def _entries(self, first: int, number: int) -> list[str]:
        left = number if self._last is None else min(number, self._last - first + 1)
        return super()._entries(first, left) if left > 0 else []


def gone(path: str, what: str) -> NotFound:
    """The error for a state of a table that cannot be read any more."""
    return NotFound(
        f"the table cannot be read as of {what}",
        where=path,
        hint="no version is older than the table, and old ones stay readable for its retention (docs/storage.md)",
    )


def committed_ms(path: str, version: int) -> int:
    """When a version was committed, in milliseconds since 1970, as its entry says."""
    return next((int(info.get("timestamp", 0)) for info in _actions(path, version, "commitInfo")), 0)


def transactions_of(path: str, version: int) -> dict[str, int]:
    """The transaction identifiers that a version sets."""
    return {one["appId"]: int(one["version"]) for one in _actions(path, version, "txn")}


def versions_of(path: str) -> tuple[int, ...]:
    """The versions of which the log still has the entries, ascending."""
    return LogFiles.of(path).entries


def version_at(path: str, moment_ms: int) -> int | None:
    """The newest version committed at or before a time; None for a time before the first one that the log still has."""
    versions = versions_of(path)
    place = bisect_right(versions, moment_ms, key=lambda version: committed_ms(path, version))
    return versions[place - 1] if place else None


def _actions(path: str, version: int, name: str) -> list[dict[str, Any]]:
    try:
        content = entry_of(path, version).read()
        if content is None:
            raise gone(path, f"version {version}")
        return [action[name] for action in actions_of(content.decode()) if name in action]
    except (OSError, ValueError, TypeError) as error:
        raise UnsupportedTable(f"cannot read entry {version} of {path}: {error}", where=path) from error
