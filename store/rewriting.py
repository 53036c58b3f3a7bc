"""Replacing files of a table in one commit, against writers that append meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from types import TracebackType
from typing import Any, Final

import pyarrow as pa

from bindery.router.errors import StorageFailed
from bindery.store.actions import Action, AddFile, RemoveFile, Transaction
from bindery.store.data_files import drop_unused, write_file
from bindery.store.log import TableLog


class Unchanged(Enum):
    """The type of UNCHANGED."""

    UNCHANGED = "unchanged"


#: What a rewrite says about a file that stays as it is.
UNCHANGED: Final = Unchanged.UNCHANGED
#: The rows that replace those of a file, by its path; None (or no rows) for a file that goes.
Rewrite = Callable[[str], pa.Table | Unchanged | None]


class Rewriting:
    """Rewrites files of a table; use as a context, and commit until a commit succeeds.

    A file never changes, so what was found out and written for it holds as long as the table has it: a
    lost race costs a look at the files that are new, and writers that only append cannot starve this
    one. Files that no commit took are removed at the end, unless nobody knows whether one did: a commit
    that ended in any other way than by its answer, by an interrupt for example, may have taken place.
    """

    def __init__(self, log: TableLog, rewrite: Rewrite, *, prefix: str) -> None:
        """`log` was opened with its files; `prefix` begins the names of new files."""
        self._log = log
        self._rewrite = rewrite
        self._prefix = prefix
        self._known: dict[str, AddFile | Unchanged | None] = {}
        self._taken: set[str] = set()
        self._in_doubt = False

    def __enter__(self) -> Rewriting:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._in_doubt:
            return
        written = {added.path for added in self._known.values() if isinstance(added, AddFile)}
        drop_unused(self._log.path, written - self._taken)

    def actions(self) -> list[Action]:
        """What replaces the files of the log's present version; the log is `refresh`ed by the caller."""
        files = self._log.files or {}
        found: list[Action] = []
        for path in files:
            if path not in self._known:
                self._known[path] = self._replacement(path)
            replacement = self._known[path]
            if isinstance(replacement, Unchanged):
                continue
            found.append(RemoveFile(path, files[path].size))
            if replacement is not None:
                found.append(replacement)
        return found

    def commit(
        self,
        *,
        transactions: Iterable[Transaction] = (),
        info: Mapping[str, Any] | None = None,
    ) -> int | None:
        """Commit the replacements for the log's present version; its new version, None for a lost race."""
        actions = self.actions()
        self._in_doubt = True
        try:
            version = self._log.commit(actions, transactions=transactions, info=info)
        except StorageFailed:
            self._in_doubt = False
            raise
        self._in_doubt = False
        if version is not None:
            self._taken = {action.path for action in actions if isinstance(action, AddFile)}
        return version

    def _replacement(self, path: str) -> AddFile | Unchanged | None:
        rows = self._rewrite(path)
        if rows is None or isinstance(rows, Unchanged):
            return rows
        return write_file(self._log.path, rows, prefix=self._prefix) if rows.num_rows else None
