"""What each batch of a stream is routed with, and whether the stream may go on at all."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark import Broadcast

from bindery.jobs.checkpoint import Checkpoint
from bindery.jobs.control.bridge import check_bridge
from bindery.jobs.control.config import JobFile
from bindery.jobs.routers import Routers
from bindery.jobs.sources.planned import batch_clock
from bindery.jobs.splits import Splits
from bindery.router.engine import Router
from bindery.router.errors import BinderyError, CheckpointMismatch, UnsupportedTable, UnusablePin
from bindery.router.model import Topology
from bindery.store.commit import BatchCommitter, Pin
from bindery.store.streams import StreamEpoch, reopen
from bindery.store.topology import TopologyStore


@dataclass(frozen=True, slots=True)
class Plan:
    """What a batch is routed with, and its number; without a router it has been committed before."""

    number: int
    pin: Pin
    topology: Topology
    router: Broadcast[Router] | None


def check_fit(file: JobFile, topology: Topology) -> None:
    """Raise what makes a topology unfit for a job: no such vhost or exchange, or a bridge that closes a loop."""
    topology.vhost(file.job.vhost)
    check_bridge(file, topology)


class Planner:
    """Plans the batches of one run of a stream. `repin` pins batches anew that cannot be routed as pinned."""

    def __init__(
        self,
        file: JobFile,
        topologies: TopologyStore,
        checkpoint: Checkpoint,
        committer: BatchCommitter,
        *,
        splits: Splits,
        routers: Routers,
        repin: bool = False,
    ) -> None:
        self.committer = committer
        self._file = file
        self._topologies = topologies
        self._checkpoint = checkpoint
        self._splits = splits
        self._routers = routers
        self._repin = repin
        self._epoch: StreamEpoch | None = None
        self._checked: Topology | None = None

    def begin(self, epoch: StreamEpoch, *, new_epoch: bool = False) -> None:
        """Check that the checkpoint and the tables belong together, before Spark starts.

        With `new_epoch` the stream goes on where they do not, under new batch numbers. Raises
        CheckpointMismatch, and UnsupportedTable for tables that are behind the manifest.
        """
        progress = self._checkpoint.progress()
        newest = self.committer.newest_batch()
        recorded = None if newest is None or newest < epoch.first_batch else newest - epoch.first_batch
        try:
            progress.check(recorded, stream=epoch.stream, where=str(self._checkpoint.folder))
            if progress.pending is not None and progress.pending == recorded:
                self.committer.check_source(newest or 0, self._checkpoint.digest(progress.pending))
            self.committer.check_tables(since=epoch.first_batch)
        except (CheckpointMismatch, UnsupportedTable):
            if not new_epoch:
                raise
            epoch = reopen(self.committer.data, epoch)
        self._epoch = epoch
        if progress.pending is not None:
            self._split_again(epoch.batch_number(progress.pending))

    def _split_again(self, number: int) -> None:
        """Have Spark split the batch that was begun as it was split then."""
        try:
            pin = self.committer.known_pin(number)
        except UnusablePin:
            return  # said when the batch comes
        if pin is not None and pin.splits:
            self._splits.use(pin.splits)

    def plan(self, batch_id: int) -> Plan:
        """What Spark's batch is routed with; one that is new is pinned only once everything has been checked.

        Raises what makes the newest topology unfit, UnusablePin, CheckpointMismatch and Fenced.
        """
        assert self._epoch is not None  # noqa: S101  # begin() has set it
        number = self._epoch.batch_number(batch_id)
        source = self._checkpoint.digest(batch_id)
        clock_ms = batch_clock(str(self._checkpoint.folder), batch_id)
        try:
            return self._pinned(number, source, clock_ms)
        except UnusablePin:
            if not self._repin:
                raise
            self.committer.release_pin(number)
            return self._pinned(number, source, clock_ms)

    def finished(self) -> None:
        """A batch has ended; the next one may be split by the cores that there are now."""
        self._splits.use_own()

    def _pinned(self, number: int, source: str, clock_ms: int) -> Plan:
        head = self._topologies.load()
        pin = self.committer.pin(
            number,
            head.version,
            clock_ms,
            source=source,
            splits=self._splits.in_force,
            check=lambda: self._router(head),
        )
        if pin.done:
            return Plan(number, pin, head, None)
        if pin.splits and pin.splits != self._splits.in_force:
            raise self.committer.unusable(number, "Spark has split it by other settings than at first")
        try:
            same = pin.topology_version == head.version
            topology = head if same else self._topologies.load(version=pin.topology_version)
            return Plan(number, pin, topology, self._router(topology))
        except BinderyError as error:
            reason = f"topology version {pin.topology_version}: {error.message}"
            raise self.committer.unusable(number, reason) from error

    def _router(self, topology: Topology) -> Broadcast[Router]:
        """The compiled topology, checked for this job; raises what makes it unfit."""
        if topology is not self._checked:
            check_fit(self._file, topology)
            self._checked = topology
        return self._routers.get(topology)
