"""Batches, driven: the one order of steps in which everything that routes gets its copies into tables.

A streaming job, the publisher, a redrive and a move differ in where a batch comes from and where its files are written.
What makes a batch happen once is the same for all, and is the order of these steps:

1. **Pin** (`begin`). Before anything is routed: an attempt that follows a crash must route the same, or tables that
   the first attempt reached and those that the second one reaches would hold different batches under one number.
   The topology is compiled before the pin is written: what is unfit for the batch leaves no pin that could never
   be honoured. A batch that the manifest knows ends here.
2. **Route and write**, by whoever owns the batch: in Spark's tasks, or here (`write_copies`). Files are durable under
   their names when this step ends, for the next one makes them count. Until then no table refers to them: what a
   crash leaves is waste, never rows.
3. **Commit** (`commit`): each table once, under the batch's number, then the manifest. The manifest is last because
   its row says that no table is missing; until it is there the batch is begun anew and skips the tables that have it.
   Pins of older batches go after it: before it a replay may ask for them.
4. **Tell** who looks after the tables: last, since nothing depends on it.

A batch that fails in its commit is resumed (`resume`) with the files that it has, or begun again under its number;
if it `is_nowhere` it may also be given up, and its files dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

import pyarrow as pa

from bindery.router.canary import running_canary
from bindery.router.engine import CanaryRouter, Deliveries, Router
from bindery.router.errors import BinderyError
from bindery.router.model import Topology
from bindery.store import tables
from bindery.store.commit import BatchCommitter, Pin, TableCommit, WrittenFile
from bindery.store.log import TableLog
from bindery.store.paths import DataDir
from bindery.store.routed_counts import RoutedCounts
from bindery.store.topology import TopologyStore
from bindery.store.writer import BatchStamp, QueueWriter

#: A compiled topology, in the form in which it reaches those who route.
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Begun(Generic[R]):
    """A pinned batch, and what it is routed with; without a router it has been committed whole before."""

    stream: str
    number: int
    pin: Pin
    topology: Topology
    router: R | None

    @property
    def stamp(self) -> BatchStamp:
        """What its rows are stamped with."""
        return BatchStamp(self.stream, self.number, self.pin.topology_version, self.pin.clock_ms)


@dataclass(frozen=True, slots=True)
class Routed:
    """What routing a batch gave: durable files to which nothing refers yet, counts, and milliseconds by stage."""

    files: Sequence[WrittenFile]
    counts: RoutedCounts
    timings_ms: Mapping[str, float] = field(default_factory=dict)


class BatchDriver(Generic[R]):
    """Drives the batches of one stream in one vhost; see the module for the order of its steps.

    router     compiles a topology for those who route, and raises what makes it unfit; asked for each batch
    committed  called with what each batch committed
    """

    def __init__(
        self,
        committer: BatchCommitter,
        topologies: TopologyStore,
        vhost: str,
        *,
        router: Callable[[Topology], R],
        committed: Callable[[Sequence[TableCommit]], object] = lambda _: None,
    ) -> None:
        self.committer: Final = committer
        self._vhost = vhost
        self._router = router
        self._topologies = topologies
        self._committed = committed

    def begin(
        self,
        number: int,
        topology: Topology,
        clock_ms: int,
        *,
        source: str = "",
        splits: Mapping[str, str] | None = None,
        freshness: int = 0,
        dedup: Mapping[str, str] | None = None,
    ) -> Begun[R]:
        """Pin a batch to this topology and clock, unless it is pinned already, and see to its router.

        How repeats are known is that of its pin: whoever routes it goes by that.

        Raises what BatchCommitter.pin does; UnusablePin, too, for a batch that cannot be routed as it is pinned:
        Spark has split it otherwise since, or its topology is gone or no longer fit.
        """
        pin = self.committer.pin(
            number,
            topology.version,
            clock_ms,
            source=source,
            splits=splits,
            freshness=freshness,
            dedup=dedup,
            check=lambda: self._router(topology),
        )
        if pin.done:
            return Begun(self.committer.stream, number, pin, topology, None)
        if pin.splits and pin.splits != splits:
            raise self.committer.unusable(number, "Spark has split it by other settings than at first")
        try:
            if pin.topology_version != topology.version:
                topology = self._topologies.load(version=pin.topology_version)
            return Begun(self.committer.stream, number, pin, topology, self._router(topology))
        except BinderyError as error:
            reason = f"topology version {pin.topology_version}: {error.message}"
            raise self.committer.unusable(number, reason) from error

    def commit(
        self,
        batch: Begun[R],
        routed: Routed,
        *,
        check: Callable[[str, TableLog], object] = lambda _queue, _log: None,
    ) -> Sequence[TableCommit]:
        """Commit what was written, and tell; tables that have the batch are skipped. Raises what the committer does."""
        canary = running_canary(batch.topology, self._vhost)
        counts = routed.counts.in_manifest(
            batch.topology,
            self._vhost,
            routed.timings_ms,
            batch=f"{batch.stream}:{batch.number}",
            candidate=None if canary is None else self._topologies.load(version=canary.version),
        )
        committed = self.committer.commit(batch.number, batch.pin, routed.files, counts, check=check)
        self._committed(committed)
        return committed

    def resume(self, batch: Begun[R], routed: Routed) -> None:
        """Commit what is missing of a batch whose commit has failed, with the files that it has.

        Pinned again first: that sees whether only the answer was lost, of a batch that has ended.
        """
        pin = self.committer.pin(batch.number, batch.pin.topology_version, batch.pin.clock_ms)
        if not pin.done:
            self.commit(batch, routed)

    def is_nowhere(self, batch: Begun[R], routed: Routed) -> bool:
        """Whether certainly no table, the manifest included, has any of a batch."""
        data = self.committer.data
        paths = {data.routed(file.kind, file.vhost, file.name) for file in routed.files}
        try:
            recorded = [
                TableLog(path).transaction_version(self.committer.app_id)
                for path in (*paths, data.manifest)
                if tables.exists(path)
            ]
        except (BinderyError, OSError):
            return False
        return all(number is None or number < batch.number for number in recorded)


def compiled(topology: Topology, vhost: str, topologies: TopologyStore) -> Router:
    """What the messages of a stream are routed by: a vhost compiled, with the candidate of its canary beside it.

    Raises NotFound when the vhost, or the version of the candidate, is not there.
    """
    canary = running_canary(topology, vhost)
    if canary is None:
        return Router.compile(topology, vhost)
    return CanaryRouter.beside(topology, topologies.load(version=canary.version), canary)


class RouterOf:
    """Compiles topologies for one vhost, for routing here; the newest one is kept.

    With `topologies` the canary of the vhost has its part; without, all goes by the topology that is given.
    """

    def __init__(self, vhost: str, topologies: TopologyStore | None = None) -> None:
        self._vhost = vhost
        self._topologies = topologies
        self._newest: Router | None = None

    def __call__(self, topology: Topology) -> Router:
        """The topology compiled. Raises NotFound when the vhost is not there."""
        if self._newest is None or self._newest.version != topology.version:
            self._newest = (
                Router.compile(topology, self._vhost)
                if self._topologies is None
                else compiled(topology, self._vhost, self._topologies)
            )
        return self._newest


def write_copies(
    data: DataDir, batch: Begun[Router], messages: pa.RecordBatch, deliveries: Deliveries, *, attempt: str
) -> Routed:
    """Write the copies of a batch (BATCH_SCHEMA) that was routed here; whatever is raised leaves no file behind."""
    assert batch.router is not None  # noqa: S101  # a batch that has ended is not routed
    router = batch.router
    writer = QueueWriter(data, vhost=router.vhost, queues=router.queues, stamp=batch.stamp, attempt=attempt)
    try:
        writer.add(messages, deliveries)
        files = writer.close()
    except Exception:
        writer.discard()
        raise
    counts = RoutedCounts()
    counts.add(messages, deliveries)
    return Routed(files, counts)
