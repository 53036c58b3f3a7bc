"""Old rows that a table need not have any more, taken out of it: whole files, in one commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bindery.store import tables
from bindery.store.actions import AddFile, RemoveFile, Transaction
from bindery.store.log import TableLog


def trim(
    log: TableLog,
    past: Callable[[], Sequence[AddFile]],
    mark: Callable[[Sequence[AddFile]], Sequence[Transaction]] = lambda _: (),
) -> int:
    """Remove the files that `past` says, of the log as it is then, in one commit; how many that were.

    `mark` gives what the commit records about them. The log has its files. Raises StorageFailed, CommitUnknown, and
    CommitConflict when every attempt lost its race.
    """
    for _ in tables.attempts(log.path):
        log.refresh()
        gone = past()
        if not gone:
            return 0
        info = {"operation": "DELETE", "operationParameters": {}, "bindery.change": "trim"}
        removed = [RemoveFile(file.path, file.size) for file in gone]
        if log.commit(removed, transactions=mark(gone), info=info) is not None:
            return len(gone)
    raise AssertionError("attempts() ends by raising")
