"""Copies of messages of one queue into another one of the vhost: all of them in one commit, or none.

There is no plan, since nothing but the target changes: a copy that was interrupted has been made whole, or not at all.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from bindery.router.errors import NotFound
from bindery.store import tables
from bindery.store.data_files import Draft
from bindery.store.paths import DataDir
from bindery.store.plan_files import next_number
from bindery.store.row_order import Chosen
from bindery.store.stream_names import COPIES
from bindery.store.topology import TopologyStore
from bindery.store.transfers import Transfer, Transferred, arrived, choose, queue_log, stream_of
from bindery.store.writer import BatchStamp

#: Rows that are in memory at once.
_PORTION: Final = 50_000


def copy_messages(data: DataDir, store: TopologyStore, transfer: Transfer, *, dry_run: bool = False) -> Transferred:
    """Copy the chosen messages; with `dry_run` only count them.

    Raises NotFound and InvalidInput for a transfer that cannot be; StorageFailed and CommitConflict when nothing was
    copied, CommitUnknown when a look at the target has to tell.
    """
    topology = store.load()
    transfer.check(topology)
    choice = choose(queue_log(data, transfer.vhost, transfer.source), transfer, topology, transfer.limit)
    done = Transferred(choice.rows, choice.refused)
    if dry_run or not choice.rows:
        return done
    stamp = BatchStamp(
        stream_of(COPIES, transfer.vhost, transfer.source),
        next_number(),
        topology.version,
        time.time_ns() // 1_000_000,
    )
    log = queue_log(data, transfer.vhost, transfer.target)
    info = {"isBlindAppend": True, "bindery.change": "copy", "bindery.topologyVersion": topology.version}
    with Draft(log) as draft:
        first = 0
        for rows in _portions(choice.chosen):
            draft.write(arrived(rows, stamp, first=first))
            first += rows.num_rows
        for _ in tables.attempts(log.path):
            log.refresh()
            if tables.undeclared_since(log) >= topology.version:
                raise NotFound(
                    f"queue {transfer.target!r} was deleted meanwhile", where=log.path, hint="nothing was copied"
                )
            if draft.commit(info=info) is not None:
                done.batches = (f"{stamp.stream}:{stamp.batch_id}",)
                return done
    raise AssertionError("attempts() ends by raising")


def _portions(chosen: Chosen) -> Iterator[pa.Table]:
    """The chosen rows in row order, some at a time."""
    for start in range(0, len(chosen.order), _PORTION):
        order = chosen.order[start : start + _PORTION]
        positions: dict[str, list[int]] = {}
        for file, row in order:
            positions.setdefault(file, []).append(row)
        yield Chosen(chosen.path, order, positions).rows()
