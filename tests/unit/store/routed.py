"""Messages routed into the tables of a data directory as a job does it, without Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from bindery.router.freshness import deferred_queues
from bindery.router.message import SENT_SCHEMA, SOURCE, Message, to_batch
from bindery.store.batches import compiled
from bindery.store.commit import BatchCommitter, BatchCounts
from bindery.store.paths import DataDir
from bindery.store.routed_counts import RoutedCounts
from bindery.store.topology import TopologyStore
from bindery.store.writer import BATCH_SCHEMA, BatchStamp, QueueWriter


def route(
    data: DataDir,
    store: TopologyStore,
    messages: Sequence[Message],
    *,
    batch_id: int = 0,
    stream: str = "flights",
    vhost: str = "/",
    clock_ms: int | None = None,
    app_id: str | None = None,
    journal: bool = False,
    version: int | None = None,
    freshness: int = 0,
    meanwhile: Callable[[], object] | None = None,
) -> None:
    """One batch of a stream: routed under the newest topology, or another, and committed, with a journal or without.

    With `freshness`, the job's, or a queue's own, queues are deferred; then there is a journal. `meanwhile` is called
    before the batch is committed.
    """
    topology = store.load(version=version)
    router = compiled(topology, vhost, store)
    batch = to_batch(messages)
    rows = batch.num_rows
    sources = pa.array([{"file": "flights.csv", "row_index": n} for n in range(rows)], SOURCE)
    batch = pa.RecordBatch.from_arrays([*batch.columns, sources, pa.array(np.arange(rows))], schema=BATCH_SCHEMA)
    with BatchCommitter(data, stream=stream, app_id=app_id or f"{stream}:c") as committer:
        clock = time.time_ns() // 1_000_000 if clock_ms is None else clock_ms
        pin = committer.pin(batch_id, topology.version, clock)
        deliveries = router.route(batch, clock_ms=pin.clock_ms)
        stamp = BatchStamp(stream, batch_id, pin.topology_version, pin.clock_ms)
        deferred = deferred_queues(topology, vhost, freshness)
        writer = QueueWriter(
            data,
            vhost=vhost,
            queues=router.queues,
            stamp=stamp,
            journal=router.queue_ids if journal or deferred.any() else None,
            deferred=deferred if deferred.any() else None,
        )
        writer.add(batch, deliveries)
        files = writer.close()
        if meanwhile is not None:
            meanwhile()
        counted = RoutedCounts()
        counted.add(batch, deliveries)
        canary = counted.in_manifest(topology, vhost, batch=f"{stream}:{batch_id}").canary
        committer.commit(batch_id, pin, files, BatchCounts(records=rows, copies=len(deliveries.rows), canary=canary))


def refuse(data: DataDir, store: TopologyStore, rows: Sequence[dict[str, Any]], *, batch_id: int = 0) -> None:
    """One batch of the stream "s" whose records are no messages; each row has `detail`, and `raw` and `source`."""
    count = len(rows)
    with BatchCommitter(data, stream="s", app_id="s:c") as committer:
        pin = committer.pin(batch_id, store.load().version, 1_800_000_000_000 + batch_id)
        stamp = BatchStamp("s", batch_id, pin.topology_version, pin.clock_ms)
        writer = QueueWriter(data, vhost="/", queues=(), stamp=stamp)
        sent = [pa.nulls(count, member.type) for member in SENT_SCHEMA]
        sources = pa.array([row.get("source") for row in rows], SOURCE)
        writer.add_refused(
            pa.RecordBatch.from_arrays([*sent, sources, pa.array(np.arange(count))], schema=BATCH_SCHEMA),
            reason=pa.array([row.get("reason", "invalid_record") for row in rows]),
            detail=pa.array([row["detail"] for row in rows]),
            raw=pa.array([row.get("raw") for row in rows], pa.binary()),
        )
        committer.commit(batch_id, pin, writer.close(), BatchCounts(records=count))
