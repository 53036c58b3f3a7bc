"""What each batch of a stream is routed with, and whether the stream may go on at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pyspark import Broadcast

from bindery.jobs.checkpoint import Checkpoint
from bindery.jobs.control.bridge import check_bridge
from bindery.jobs.control.config import JobFile
from bindery.jobs.routers import Routers
from bindery.jobs.sources.planned import batch_clock
from bindery.jobs.splits import Splits
from bindery.router.canary import running_canary
from bindery.router.engine import Router
from bindery.router.errors import CheckpointMismatch, UnsupportedTable, UnusablePin
from bindery.router.freshness import Flags, deferred_queues
from bindery.router.model import Topology
from bindery.router.policies import Policies
from bindery.store.batches import BatchDriver, Begun
from bindery.store.commit import BatchCommitter, TableCommit
from bindery.store.deduplication import ensure_seen
from bindery.store.maintenance.journals import DEFAULT_AGE, Kept, keep_journal
from bindery.store.streams import StreamEpoch, reopen
from bindery.store.topology import TopologyStore


def check_fit(file: JobFile, topology: Topology) -> None:
    """Raise what makes a topology unfit for a job: no such vhost or exchange, or a bridge that closes a loop."""
    topology.vhost(file.job.vhost)
    check_bridge(file, topology)


class Planner:
    """Plans the batches of one run of a stream; `driver` drives them.

    `repin` pins batches anew that cannot be routed as pinned; `committed` is called with what each has committed.
    """

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
        committed: Callable[[Sequence[TableCommit]], object],
    ) -> None:
        self.driver = BatchDriver(committer, topologies, file.job.vhost, router=self._router, committed=committed)
        self._committer = committer
        self._file = file
        self._topologies = topologies
        self._checkpoint = checkpoint
        self._splits = splits
        self._routers = routers
        self._repin = repin
        self._epoch: StreamEpoch | None = None
        self._checked: Topology | None = None
        #: What is kept of the journal (None: nothing) as of a topology, and that topology with ids for all queues.
        self._kept: Kept | None = None
        self._asked: Topology | None = None
        self._numbered: Topology | None = None
        self._deferred: tuple[tuple[int, int], Flags] | None = None

    def begin(self, epoch: StreamEpoch, *, new_epoch: bool = False) -> None:
        """Check that the checkpoint and the tables belong together, before Spark starts.

        With `new_epoch` the stream goes on where they do not, under new batch numbers. Raises
        CheckpointMismatch, and UnsupportedTable for tables that are behind the manifest, or a table of the stream that
        is of another vhost.
        """
        if self._file.job.dedup is not None:
            ensure_seen(self._committer.data, epoch.stream, self._file.job.vhost)
        self._newest()
        progress = self._checkpoint.progress()
        newest = self._committer.newest_batch()
        recorded = None if newest is None or newest < epoch.first_batch else newest - epoch.first_batch
        try:
            progress.check(recorded, stream=epoch.stream, where=str(self._checkpoint.folder))
            if progress.pending is not None and progress.pending == recorded:
                self._committer.check_source(newest or 0, self._checkpoint.digest(progress.pending))
            self._committer.check_tables(since=epoch.first_batch)
        except (CheckpointMismatch, UnsupportedTable):
            if not new_epoch:
                raise
            epoch = reopen(self._committer.data, epoch)
        self._epoch = epoch
        if progress.pending is not None:
            self._split_again(epoch.batch_number(progress.pending))

    def _split_again(self, number: int) -> None:
        """Have Spark split the batch that was begun as it was split then."""
        try:
            pin = self._committer.known_pin(number)
        except UnusablePin:
            return  # said when the batch comes
        if pin is not None and pin.splits:
            self._splits.use(pin.splits)

    def begin_batch(self, batch_id: int) -> Begun[Broadcast[Router]]:
        """What Spark's batch is routed with; one that is new is pinned only once everything has been checked.

        Raises what makes the newest topology unfit, UnusablePin, CheckpointMismatch and Fenced.
        """
        assert self._epoch is not None  # noqa: S101  # begin() has set it
        number = self._epoch.batch_number(batch_id)
        source = self._checkpoint.digest(batch_id)
        clock_ms = batch_clock(str(self._checkpoint.folder), batch_id)
        try:
            return self._begun(number, source, clock_ms)
        except UnusablePin:
            if not self._repin:
                raise
            self._committer.release_pin(number)
            return self._begun(number, source, clock_ms)

    def deferred(self, batch: Begun[Broadcast[Router]]) -> Flags | None:
        """Which queues, by number, are deferred as the batch is pinned; None where none is."""
        pinned = (batch.topology.version, batch.pin.freshness)
        if self._deferred is None or self._deferred[0] != pinned:
            self._deferred = (pinned, deferred_queues(batch.topology, self._file.job.vhost, batch.pin.freshness))
        found = self._deferred[1]
        return found if found.any() else None

    def finished(self, *, enough: int | None = None) -> None:
        """A batch has ended; the next one may be split by the cores that there are now, into `enough` tasks."""
        self._splits.use_own(enough=enough)

    def _begun(self, number: int, source: str, clock_ms: int) -> Begun[Broadcast[Router]]:
        dedup = self._file.job.dedup
        begun = self.driver.begin(
            number,
            self._newest(),
            clock_ms,
            source=source,
            splits=self._splits.in_force,
            freshness=self._file.job.freshness,
            dedup=None if dedup is None else dedup.in_pin,
        )
        if begun.pin.dedup and dedup is None and begun.router is not None:
            reason = "repeats were to be left out, and the job has no `dedup` any more; give it back for this batch"
            raise self._committer.unusable(number, reason)
        return begun

    @property
    def keeps_journal(self) -> bool:
        """Whether the batch that was begun goes to the journal, too."""
        return self._kept is not None

    def _newest(self) -> Topology:
        """The newest topology; with a journal, whose rows name queues by their ids, one in which all have ids."""
        newest = self._topologies.load()
        if newest is not self._asked:
            self._asked, kept = newest, self._journal(newest)
            if kept is not None and kept != self._kept:
                job = self._file.job
                keep_journal(self._committer.data, job.stream, job.vhost, kept)
            self._kept = kept
        if self._kept is None:
            return newest
        if newest is not self._numbered:
            self._asked = self._numbered = self._topologies.give_queue_ids()
        return self._numbered

    def _journal(self, topology: Topology) -> Kept | None:
        """What is kept of the stream's journal: as the job says, or else the policy that applies to the stream."""
        job = self._file.job
        kept = None
        if "journal" in job.model_fields_set:
            kept = None if job.journal_options is None else job.journal_options.kept
        elif (stated := Policies(topology).journal(job.vhost, job.stream)) is not None:
            kept = Kept(DEFAULT_AGE if stated.age is None else stated.age, stated.bytes)
        if kept is None and deferred_queues(topology, job.vhost, job.freshness).any():
            kept = Kept()  # copies for deferred queues wait there
        return None if kept is None else replace(kept, freshness=job.freshness)

    def _router(self, topology: Topology) -> Broadcast[Router]:
        """The compiled topology, checked for this job; raises what makes it unfit."""
        if topology is not self._checked:
            check_fit(self._file, topology)
            canary = running_canary(topology, self._file.job.vhost)
            if canary is not None:
                check_fit(self._file, self._topologies.load(version=canary.version))
            self._checked = topology
        return self._routers.get(topology)
