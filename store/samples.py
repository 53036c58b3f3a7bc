"""Which recent messages stand in which queue, for comparing queues with each other, and which properties they have.

The newest batches of a vhost are looked at, the same for every queue; of a message only its identity is
read, or the names of its properties. A copy that was consumed since is not seen; one that waits for a deferred queue
is.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from bindery.router.analysis.observed import SeenNames
from bindery.router.model import Topology
from bindery.store.changed_copies import as_published
from bindery.store.deferred import Waiting
from bindery.store.deferred.live import WaitingJournal, tally_of
from bindery.store.journal_files import journals
from bindery.store.manifest import newest_batches
from bindery.store.paths import DataDir
from bindery.store.recorded import rows_of
from bindery.store.topology import TopologyStore

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
    if not batches:
        return {}
    topology = TopologyStore(data).load()
    copies = _copies(data, topology, vhost, batches)
    step = copies.total() // COPIES + 1
    place = {(batch["stream"], batch["batch_id"]): number for number, batch in enumerate(batches)}
    if not copies:
        return {}
    oldest = min(batch["clock"] for batch in batches)
    waiting = Waiting.look(data, vhost, topology)
    return {queue: _identities(data, vhost, queue, place, oldest, step, waiting) for queue in sorted(copies)}


def recent_names(data: DataDir, vhost: str) -> dict[str, SeenNames]:
    """By exchange that messages were published to, the application properties of recent rows: routed and unroutable.

    At most NAMED rows are looked at, an equal share of each table.
    """
    batches = _recent(data, vhost, RECORDS)
    if not batches:
        return {}
    topology = TopologyStore(data).load()
    queues = _copies(data, topology, vhost, batches)
    waiting = Waiting.look(data, vhost, topology)
    oldest = min(batch["clock"] for batch in batches)
    share = NAMED // (len(queues) + 1)
    rows: Counter[str] = Counter()
    names: dict[str, Counter[str]] = defaultdict(Counter)
    for queue in (None, *sorted(queues)):
        left = share
        where = pc.field("routed_at") >= oldest
        columns = ["exchange", "application_properties"]
        for read in rows_of(data, vhost, queue, where=where, columns=columns, waiting=waiting):
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


def _copies(data: DataDir, topology: Topology, vhost: str, batches: list[dict[str, Any]]) -> Counter[str]:
    """How many copies the batches brought to each queue: by the manifest, and of deferred queues by journals."""
    found: Counter[str] = Counter()
    streams: dict[str, list[int]] = defaultdict(list)
    for batch in batches:
        for table in batch["tables"]:
            if table["vhost"] == vhost and table["kind"] == "queue":
                found[table["name"]] += table["rows"]
            elif table["vhost"] == vhost and table["kind"] == "journal":
                streams[batch["stream"]].append(batch["batch_id"])
    names = {queue.id: name for (of, name), queue in topology.queues.items() if of == vhost and queue.id}
    for stream, numbers in streams.items():
        for journal in journals(data, vhost, stream):
            waiting = WaitingJournal.whole(journal)
            for file, _ in waiting.files:
                if file.first <= max(numbers) and file.last >= min(numbers):
                    tally = tally_of(waiting.path, file.path)
                    recent = np.isin(tally.batch, numbers)
                    for number, copies in zip(tally.ids[recent].tolist(), tally.copies[recent].tolist(), strict=True):
                        if number in names:
                            found[names[number]] += copies
    return +found


def _identities(
    data: DataDir,
    vhost: str,
    queue: str,
    place: dict[tuple[str, int], int],
    oldest: Any,
    step: int,
    waiting: Waiting,
) -> npt.NDArray[np.int64]:
    found = [np.zeros(0, np.int64)]
    where = pc.field("routed_at") >= oldest
    for batch in rows_of(data, vhost, queue, where=where, columns=["routing"], waiting=waiting):
        stream, batch_id, seq = (batch.column("routing").field(name) for name in ("stream", "batch_id", "seq"))
        numbers = seq.to_numpy()
        pairs = list(zip(stream.to_pylist(), batch_id.to_pylist(), strict=True))
        known = {pair: place.get(pair, -1) for pair in set(pairs)}
        batches = np.array([known[pair] for pair in pairs], np.int64)
        kept = (batches >= 0) & as_published(numbers) & (numbers % step == 0)
        found.append(batches[kept] * _BATCH_SPAN + numbers[kept])
    return np.concatenate(found)
