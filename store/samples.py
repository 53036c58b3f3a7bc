"""Which recent messages stand in which queue, for comparing queues with each other, and which properties they have.

The newest batches of a vhost are looked at, the same for every queue; of a message only its identity is
read, or the names of its properties. A copy that was consumed since is not seen.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from bindery.router.analysis.observed import SeenNames
from bindery.store.manifest import newest_batches
from bindery.store.paths import DataDir
from bindery.store.recorded import rows_of

#: Records, newest first, whose batches are looked at, and batches at most.
RECORDS: Final = 50_000
BATCHES: Final = 200
#: Batches of whatever vhosts that are passed in search of those.
PASSED: Final = 2_000
#: Copies that are read; beyond it every n-th message is looked at.
COPIES: Final = 2_000_000
#: Rows whose properties are looked at.
NAMED: Final = 100_000
#: Numbers within a batch stay below it (a partition numbers from its own multiple of 2**40).
_BATCH_SPAN: Final = 1 << 52


def recent_messages(data: DataDir, vhost: str, *, records: int = RECORDS) -> dict[str, npt.NDArray[np.int64]]:
    """By queue, numbers of the recent messages that it holds; the same number is the same message."""
    batches = _recent(data, vhost, records)
    copies = sum(table["rows"] for batch in batches for table in _queues(batch, vhost))
    step = copies // COPIES + 1
    place = {(batch["stream"], batch["batch_id"]): number for number, batch in enumerate(batches)}
    queues = {table["name"] for batch in batches for table in _queues(batch, vhost)}
    if not queues:
        return {}
    oldest = min(batch["clock"] for batch in batches)
    return {queue: _identities(data, vhost, queue, place, oldest, step) for queue in sorted(queues)}


def recent_names(data: DataDir, vhost: str) -> dict[str, SeenNames]:
    """By exchange that messages were published to, the application properties of recent rows: routed and unroutable.

    At most NAMED rows are looked at, an equal share of each table.
    """
    batches = _recent(data, vhost, RECORDS)
    queues = {table["name"] for batch in batches for table in _queues(batch, vhost)}
    if not batches:
        return {}
    oldest = min(batch["clock"] for batch in batches)
    share = NAMED // (len(queues) + 1)
    rows: Counter[str] = Counter()
    names: dict[str, Counter[str]] = defaultdict(Counter)
    for queue in (None, *sorted(queues)):
        left = share
        where = pc.field("routed_at") >= oldest
        for read in rows_of(data, vhost, queue, where=where, columns=["exchange", "application_properties"]):
            batch = read.slice(0, left)
            published, properties = batch.column("exchange"), batch.column("application_properties")
            for exchange in published.unique().to_pylist():
                chosen = properties.filter(pc.equal(published, exchange))
                rows[exchange] += len(chosen)
                # a name stands in a map once
                names[exchange].update({one["values"]: one["counts"] for one in chosen.keys.value_counts().to_pylist()})
            left -= batch.num_rows
            if left <= 0:
                break
    return {exchange: SeenNames(count, names[exchange]) for exchange, count in rows.items()}


def _recent(data: DataDir, vhost: str, records: int) -> list[dict[str, Any]]:
    chosen: list[dict[str, Any]] = []
    seen = 0
    newest = newest_batches(data, columns=("stream", "batch_id", "clock", "records", "tables"))
    for batch in itertools.islice(newest, PASSED):
        if seen >= records or len(chosen) == BATCHES:
            break
        if any(table["vhost"] == vhost for table in batch["tables"]):
            chosen.append(batch)
            seen += batch["records"]
    return chosen


def _queues(batch: dict[str, Any], vhost: str) -> list[dict[str, Any]]:
    return [table for table in batch["tables"] if table["kind"] == "queue" and table["vhost"] == vhost]


def _identities(
    data: DataDir, vhost: str, queue: str, place: dict[tuple[str, int], int], oldest: Any, step: int
) -> npt.NDArray[np.int64]:
    found = [np.zeros(0, np.int64)]
    for batch in rows_of(data, vhost, queue, where=pc.field("routed_at") >= oldest, columns=["routing"]):
        stream, batch_id, seq = (batch.column("routing").field(name) for name in ("stream", "batch_id", "seq"))
        numbers = seq.to_numpy()
        pairs = list(zip(stream.to_pylist(), batch_id.to_pylist(), strict=True))
        known = {pair: place.get(pair, -1) for pair in set(pairs)}
        batches = np.array([known[pair] for pair in pairs], np.int64)
        kept = (batches >= 0) & (numbers % step == 0)
        found.append(batches[kept] * _BATCH_SPAN + numbers[kept])
    return np.concatenate(found)
