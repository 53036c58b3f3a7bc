"""Which messages of a journal a queue has had: from its stream, from a redrive, from an earlier backfill.

None of it is told by the queue's table alone, from which rows may have been consumed since. The journal names the
queues that a batch reached, an unroutable row the redrive that took it, and the record of a backfill what that brought:
what it asked for and its topology leads to the queue.

A backfill and a redrive that meet at a message settle it by the log of the queue's table, which records the newest of
each: a backfill leaves out what redrives had brought by then, a redrive what backfills had
(`bindery.store.backfilled`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.engine import Router
from bindery.router.errors import NotFound, Refused
from bindery.router.filters import Filter
from bindery.router.message import MESSAGE_SCHEMA
from bindery.router.model import Topology
from bindery.store import file_rows, tables
from bindery.store.backfill_records import Scope, Stretch
from bindery.store.consumer_filters import queue_filter
from bindery.store.journal_files import naming
from bindery.store.manifest import read_manifest
from bindery.store.paths import DataDir
from bindery.store.recorded import accepted, rows_of
from bindery.store.statistics import batches_stated
from bindery.store.topology import TopologyStore
from bindery.store.transfers import queue_log

Mask = npt.NDArray[np.bool_]

#: Topologies that are kept compiled.
_KEPT: Final = 4


class Reach:
    """Tells which messages reach a queue, under any version of the topology."""

    def __init__(self, store: TopologyStore, vhost: str, queue: str) -> None:
        self._store = store
        self._vhost = vhost
        self._queue = queue
        self._routers: dict[int, Router | None] = {}

    def route(self, batch: pa.RecordBatch, version: int, *, clock_ms: int | None = None) -> tuple[Mask, pa.ListArray]:
        """Which rows of a batch reach it, and what matched each on its way; by the clock of the batch, unless told."""
        router = self._router(version)
        clock = batch.column("routed_at")[0].cast(pa.int64()).as_py() // 1000 if clock_ms is None else clock_ms
        reached = np.zeros(batch.num_rows, np.bool_)
        if router is None or self._queue not in router.queues:
            empty = pa.array(np.zeros(batch.num_rows + 1, np.int32))
            return reached, pa.ListArray.from_arrays(empty, pa.array([], pa.int32()))
        deliveries = router.route(batch.select(MESSAGE_SCHEMA.names), clock_ms=clock)
        if deliveries.forms is not None:
            # a version of its own may have sent it changed copies: `refuse_backfill` knows the newest and the journals
            changed = deliveries.written >= batch.num_rows
            queues = np.repeat(deliveries.queue, np.diff(deliveries.offsets))[changed]
            if (queues == router.queues.index(self._queue)).any():
                raise Refused(
                    f"topology version {version} changes messages on their way to queue {self._queue!r}",
                    where="queue",
                    hint="what is brought out of journals is as it was published",
                )
        reached[deliveries.rows_of(router.queues.index(self._queue))] = True
        return reached, deliveries.lineage

    def _router(self, version: int) -> Router | None:
        """The compiled topology; None where the vhost is not in it."""
        if version not in self._routers:
            while len(self._routers) >= _KEPT:
                self._routers.pop(next(iter(self._routers)))
            try:
                self._routers[version] = Router.compile(self._store.load(version=version), self._vhost)
            except NotFound:
                self._routers[version] = None
        return self._routers[version]


class Delivered:
    """What a queue has had of the batches of a stretch; `earlier` are the stretches before it.

    Without `table` what its table has does not count.
    """

    def __init__(
        self,
        data: DataDir,
        store: TopologyStore,
        vhost: str,
        queue: str,
        stretch: Stretch,
        earlier: Sequence[Stretch],
        reach: Reach,
        *,
        table: bool = True,
    ) -> None:
        self._table = table
        self._data = data
        self._store = store
        self._vhost = vhost
        self._queue = queue
        self._stretch = stretch
        self._reach = reach
        self._earlier = [
            (one, self._condition(one))
            for one in earlier
            if one.stream == stretch.stream and one.through > stretch.after and one.after < stretch.through
        ]
        self._clocks: dict[str, int | None] = {}

    def _condition(self, stretch: Stretch) -> Filter | None:
        topology: Topology = self._store.load(version=stretch.topology_version)
        return queue_filter(
            self._data,
            self._queue,
            stretch.filter,
            vhost=self._vhost,
            dialect=stretch.dialect,
            payload=stretch.payload,
            topology=topology,
        )

    @staticmethod
    def asked(batch: pa.RecordBatch, scope: Scope, condition: Filter | None) -> Mask:
        """Which rows of a batch a scope asks for; `condition` is its filter.

        None of those that were routed by its topology or a later one: what they reach is their stream's affair.
        """
        versions = batch.column("routing").field("topology_version").to_numpy()
        wanted: Mask = versions < scope.topology_version
        moments = batch.column("routed_at").cast(pa.int64()).to_numpy()
        if scope.since is not None:
            wanted &= moments >= scope.since
        if scope.until is not None:
            wanted &= moments < scope.until
        if condition is not None:
            meets = np.zeros(batch.num_rows, np.bool_)
            meets[accepted(batch, condition)] = True
            wanted &= meets
        return wanted

    def by_stream(self, batch: pa.RecordBatch) -> Mask:
        """Which rows of a journal their stream has delivered to the queue, or owes it."""
        return naming(batch.column("routing").field("queues"), self._stretch.queue_id)

    def before(self, batch: pa.RecordBatch, meant: Mask) -> Mask:
        """Which rows of one batch (of those that are `meant`, at least) were delivered otherwise, or are there."""
        found = np.zeros(batch.num_rows, np.bool_)
        if not meant.any():
            return found
        number = batch.column("routing").field("batch_id")[0].as_py()
        for stretch, condition in self._earlier:
            if stretch.after < number <= stretch.through:
                asked = self.asked(batch, stretch, condition)
                if (asked & meant).any():
                    found |= asked & self._reach.route(batch, stretch.topology_version)[0]
        seqs = batch.column("routing").field("seq").to_numpy()
        found |= np.isin(seqs, self.present.get(number, _NONE))
        redriven = self._redriven.get(number, {})
        for redrive in set(redriven.values()):
            version, name = redrive
            taken = np.isin(seqs, [seq for seq, one in redriven.items() if one == redrive])
            found |= taken & self._reach.route(batch, version, clock_ms=self._clock(name))[0]
        return found

    @cached_property
    def present(self) -> dict[int, npt.NDArray[np.int64]]:
        """The numbers of the messages that the table has, by batch."""
        if not self._table:
            return {}
        log = queue_log(self._data, self._vhost, self._queue)
        parts: dict[int, list[npt.NDArray[np.int64]]] = {}
        for name, file in tables.files_of(log).items():
            first, last = batches_stated(file)
            if last <= self._stretch.after or first > self._stretch.through:
                continue
            for rows in file_rows.batches(log.path, name, tables.QUEUE.schema, columns=["routing"], where=self._where):
                numbers, seqs = (rows.column("routing").field(one).to_numpy() for one in ("batch_id", "seq"))
                for number in np.unique(numbers).tolist():
                    parts.setdefault(number, []).append(seqs[numbers == number])
        return {number: np.concatenate(part) for number, part in parts.items()}

    @cached_property
    def _redriven(self) -> dict[int, dict[int, tuple[int, str]]]:
        """Of the messages that were redriven the topology version and the batch of the redrive, by batch and number.

        Those of redrives that the queue's table had when the stretch was carried out.
        """
        found: dict[int, dict[int, tuple[int, str]]] = {}
        where = self._where & pc.field("redriven").is_valid()
        for rows in rows_of(self._data, self._vhost, None, where=where, columns=["routing", "redriven"]):
            for row in rows.to_pylist():
                routing, mark = row["routing"], row["redriven"]
                newest = self._stretch.redriven
                if newest is None or int(mark["batch"].rpartition(":")[2]) <= newest:
                    of_batch = found.setdefault(routing["batch_id"], {})
                    of_batch[routing["seq"]] = (mark["topology_version"], mark["batch"])
        return found

    @property
    def _where(self) -> pc.Expression:
        stretch = self._stretch
        number = pc.field("routing", "batch_id")
        return (
            (pc.field("routing", "stream") == stretch.stream) & (number > stretch.after) & (number <= stretch.through)
        )

    def _clock(self, batch: str) -> int | None:
        """The clock of a redrive's batch; None when it is not on record any more."""
        if batch not in self._clocks:
            stream, _, number = batch.rpartition(":")
            rows: list[dict[str, Any]] = read_manifest(self._data, app_id=stream, batch_id=int(number))
            self._clocks[batch] = int(rows[0]["clock"].timestamp() * 1000) if rows else None
        return self._clocks[batch]


_NONE: Final = np.zeros(0, np.int64)
