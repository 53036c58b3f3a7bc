"""Compaction: small files of a table merged into larger ones, beside whoever appends, takes or redrives.

A merge reads files that never change, so what was written stays right as long as the table has all of them:
a commit that lost its race against an append is tried again as it is. When one of the files is gone (a
message was taken from it, it was merged by another maintainer), the merge is thrown away and planned anew.
Its commits change no data, and say so: streams that read the table do not see them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from bindery.router.errors import StorageFailed
from bindery.store import tables
from bindery.store.actions import Action, AddFile, RemoveFile, Transaction
from bindery.store.data_files import drop_unused
from bindery.store.log import TableLog
from bindery.store.maintenance.merging import merge
from bindery.store.maintenance.policy import Policy
from bindery.store.maintenance.table_places import TablePlace
from bindery.store.maintenance.tiers import merges

#: Rounds of planning of one call; a round takes the orders of size one up.
_ROUNDS: Final = 12


@dataclass(slots=True)
class Compacted:
    """What compaction did to a table: files that went and came, bytes read, merges thrown away."""

    removed: int = 0
    added: int = 0
    bytes: int = 0
    dropped: int = 0


def compact(place: TablePlace, log: TableLog, policy: Policy) -> Compacted:
    """Merge what has gathered in a table; `log` has its files and is left at the newest version.

    Raises StorageFailed, CommitUnknown, and CommitConflict when every attempt lost its race.
    """
    done = Compacted()
    log.refresh()
    for _ in range(_ROUNDS):
        planned = merges(tables.files_of(log).values(), policy, place.most_rows, apart_ms=place.apart_ms)
        if not planned:
            break
        for group in planned:
            _merge(place, log, group, policy, done)
    return done


def _merge(place: TablePlace, log: TableLog, group: Sequence[AddFile], policy: Policy, done: Compacted) -> None:
    schema = pa.schema(log.state.schema.to_arrow())
    try:
        added = merge(log.path, group, schema, statistics=place.statistics, target_bytes=policy.target_bytes)
    except FileNotFoundError:
        log.refresh()
        if _holds(log, group):
            raise
        done.dropped += 1
        return
    if replace_files(log, group, added):
        done.removed += len(group)
        done.added += len(added)
        done.bytes += sum(file.size for file in group)
    else:
        done.dropped += 1


def replace_files(
    log: TableLog,
    group: Sequence[AddFile],
    added: Sequence[AddFile],
    *,
    change: str = "compact",
    transactions: Sequence[Transaction] = (),
) -> bool:
    """Commit new files in place of others, without a change of data.

    False, and the new files are removed, when the table has not all of the others any more. Raises
    StorageFailed, CommitUnknown, and CommitConflict when every attempt lost its race.
    """
    actions: list[Action] = [
        *(RemoveFile(file.path, file.size, data_change=False) for file in group),
        *(replace(file, data_change=False) for file in added),
    ]
    info = {"operation": "OPTIMIZE", "operationParameters": {}, "bindery.change": change}
    unused = True
    try:
        for _ in tables.attempts(log.path):
            log.refresh()
            if not _holds(log, group):
                return False
            unused = False  # also when this is interrupted: nobody knows then
            if log.commit(actions, transactions=transactions, info=info) is not None:
                return True
            unused = True
    except StorageFailed:
        unused = True
        raise
    finally:
        if unused:
            drop_unused(log.path, [file.path for file in added])
    raise AssertionError("attempts() ends by raising")


def _holds(log: TableLog, group: Sequence[AddFile]) -> bool:
    files = tables.files_of(log)
    return all(file.path in files for file in group)
