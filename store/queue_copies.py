"""Copies of messages of one queue at another place of the vhost.

Into a queue all of them go in one commit, or none. There is no plan, since nothing but that queue changes: a copy that
was interrupted has been made whole, or not at all.

Those to an exchange may go to many queues: each portion of them has a plan, and arrives exactly once
(`bindery.store.carrying`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from bindery.router.errors import NotFound
from bindery.store import carrying, tables, transfer_plans
from bindery.store.carrying import Carrier, go_on
from bindery.store.data_files import Draft
from bindery.store.destinations import ToQueue, arrived
from bindery.store.paths import DataDir
from bindery.store.plan_files import next_number
from bindery.store.read import of_queue
from bindery.store.row_order import Chosen
from bindery.store.stream_names import COPIES
from bindery.store.topology import TopologyStore
from bindery.store.transfers import Transfer, Transferred, choose, queue_log, stream_of
from bindery.store.writer import BatchStamp

#: Rows that are in memory at once.
_PORTION: Final = 50_000


def _never() -> bool:
    return False


def copy_messages(
    data: DataDir,
    store: TopologyStore,
    transfer: Transfer,
    *,
    dry_run: bool = False,
    stop: Callable[[], bool] = _never,
) -> Transferred:
    """Copy the chosen messages; with `dry_run` only count them. `stop` is asked between portions for an exchange.

    Raises NotFound and InvalidInput for a transfer that cannot be. Of a copy into a queue: StorageFailed and
    CommitConflict when nothing was copied, CommitUnknown when a look at it has to tell. Of one to an exchange: the same
    and Stopped for a portion that is finished by the next transfer in the vhost, while earlier ones are copied.
    """
    topology = store.load()
    transfer.check(topology)
    done = Transferred()
    if not dry_run and not isinstance(transfer.to, ToQueue):
        done.finished = carrying.finish(data, store, transfer.vhost, stop=stop)
    clock_ms = time.time_ns() // 1_000_000
    entry = transfer.to.entry(topology, transfer.vhost, clock_ms)
    chosen = choose(of_queue(data, transfer.vhost, transfer.source), transfer, entry, transfer.limit)
    done.met(entry)
    if dry_run:
        done.messages = len(chosen.order)
        done.queues = transfer.to.reached(topology, transfer.vhost, clock_ms, chosen)
    elif chosen.order and isinstance(transfer.to, ToQueue):
        stream = stream_of(COPIES, transfer.vhost, transfer.source)
        stamp = BatchStamp(stream, next_number(), topology.version, clock_ms)
        _copy_into(data, transfer.vhost, transfer.to.name, chosen, stamp)
        done.messages = len(chosen.order)
        done.queues = Counter({transfer.to.name: done.messages})
        done.batches = (f"{stamp.stream}:{stamp.batch_id}",)
    else:
        carrier = Carrier(data, store, transfer.vhost, kind=transfer_plans.COPIES)
        for rows in chosen.portions(_PORTION):
            for _ in tables.attempts(data.queue(transfer.vhost, transfer.source)):
                go_on(stop)
                plan = carrier.plan(transfer.source, transfer.to, rows, version=topology.version, clock_ms=clock_ms)
                carried = carrier.carry_out(plan)
                if carried.claimed:
                    break  # otherwise a copy that began later was faster
            done.messages += carried.rows
            done.queues.update(carried.queues)
            done.batches = (*done.batches, plan.batch)
    return done


def _copy_into(data: DataDir, vhost: str, queue: str, chosen: Chosen, stamp: BatchStamp) -> None:
    """Append the chosen rows to a queue in one commit."""
    log = queue_log(data, vhost, queue)
    info = {"isBlindAppend": True, "bindery.change": "copy", "bindery.topologyVersion": stamp.topology_version}
    with Draft(log) as draft:
        first = 0
        for rows in chosen.portions(_PORTION):
            draft.write(arrived(rows, stamp, first=first))
            first += rows.num_rows
        for _ in tables.attempts(log.path):
            log.refresh()
            if tables.undeclared_since(log) >= stamp.topology_version:
                raise NotFound(f"queue {queue!r} was deleted meanwhile", where=log.path, hint="nothing was copied")
            if draft.commit(info=info) is not None:
                return
    raise AssertionError("attempts() ends by raising")
