"""How the streams of a data directory stand: what each has done, what it does, and what is wrong.

Reads what is on record, and nothing of it while it changes: the manifest, the newest pins, the logs of journals, and
the records of jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from bindery.router.canary import Canary, running_canaries
from bindery.router.error_text import counted
from bindery.router.errors import UnusablePin
from bindery.router.model import DEFAULT_VHOST, Topology
from bindery.router.moments import iso
from bindery.store import effects, tables
from bindery.store.canaries import comparison
from bindery.store.deferred import allowed_ms
from bindery.store.jobs import Found, JobRegistry
from bindery.store.journal_sizes import JournalSize, JournalSizes
from bindery.store.kept_totals import manifest_totals
from bindery.store.log import TableLog
from bindery.store.manifest import TASK_STAGE
from bindery.store.newest import NewestBatches
from bindery.store.paths import DataDir
from bindery.store.pins import Pin, Pins
from bindery.store.places import at
from bindery.store.streams import StreamEpoch, epochs
from bindery.store.topology import TopologyStore
from bindery.store.totals import Totals

#: A batch that was begun so long ago, and is not committed, is worth a word where nobody is known to be at it.
_UNFINISHED: Final = timedelta(minutes=1)
#: … and by how much copies for deferred queues may be late.
_LATE: Final = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of a stream: times in UTC, `milliseconds` by stage, `unroutable` messages by reason.

    unparsable  messages whose bodies filters could not read, as the manifest counts them
    """

    number: int
    topology_version: int
    begun_at: datetime
    committed_at: datetime
    records: int
    copies: int
    unroutable: dict[str, int]
    unparsable: list[dict[str, Any]]
    milliseconds: dict[str, float]

    @property
    def duration(self) -> timedelta:
        """How long it took; what single tasks did is within the time of all of them, where that was measured."""
        spent = self.milliseconds
        own = (stage for stage in spent if "tasks" not in spent or not stage.startswith(TASK_STAGE))
        return timedelta(milliseconds=sum(spent[stage] for stage in own))

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {
            "batch_id": self.number,
            "topology_version": self.topology_version,
            "begun_at": iso(self.begun_at),
            "committed_at": iso(self.committed_at),
            "records": self.records,
            "copies": self.copies,
            "unroutable": self.unroutable,
            "unparsable": self.unparsable,
            "duration_ms": round(self.duration / timedelta(milliseconds=1), 1),
            "milliseconds": {stage: round(spent, 1) for stage, spent in self.milliseconds.items()},
        }


@dataclass(frozen=True, slots=True)
class StreamState:
    """One stream.

    batches, records, copies, reasons, unparsable   of all its time: `reasons` why messages reached no queue,
                                                    `unparsable` bodies that filters could not read
    committed_at                                    when it last committed a batch
    newest                                          its newest batches, the last one first; those whose rows were merged
                                                    with very many later ones of others are left out
    begun                                           number of a batch that is pinned and not committed, and since when
    journal                                         how much its journal holds, where it keeps one
    job                                             the job of that stream, where one was submitted
    """

    stream: str
    batches: int = 0
    records: int = 0
    copies: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    unparsable: list[dict[str, Any]] = field(default_factory=list)
    committed_at: datetime | None = None
    newest: tuple[Batch, ...] = ()
    begun: tuple[int, datetime] | None = None
    job: Found | None = None
    journal: JournalSize | None = None
    #: How long copies may wait in it for deferred queues.
    allowed: timedelta = timedelta(0)

    def late(self, now: datetime) -> timedelta:
        """By how much the oldest copy for a deferred queue is late; nothing where none is."""
        waiting = None if self.journal is None else self.journal.waiting
        return timedelta(0) if waiting is None else max(timedelta(0), now - waiting - self.allowed)

    @property
    def last(self) -> Batch | None:
        """Its last batch."""
        return self.newest[0] if self.newest else None

    @property
    def unroutable(self) -> int:
        """How many messages reached no queue."""
        return sum(self.reasons.values())

    @property
    def state(self) -> str:
        """The state of its job; of a stream without one, nobody here knows whether it runs."""
        return "no job" if self.job is None else self.job.state

    def as_data(self, now: datetime) -> dict[str, Any]:
        """JSON-ready data; times in ISO 8601, `age_seconds` since the last commit."""
        last, progress = self.last, _progress(self.job)
        waiting = progress.get("waiting") if self.job is not None and self.job.alive else None
        return {
            "stream": self.stream,
            "vhost": None if self.job is None else self.job.record.document.get("vhost", DEFAULT_VHOST),
            "state": self.state,
            "batches": self.batches,
            "records": self.records,
            "copies": self.copies,
            "unroutable": self.unroutable,
            "reasons": self.reasons,
            "unparsable": self.unparsable,
            "committed_at": None if self.committed_at is None else iso(self.committed_at),
            "age_seconds": None if self.committed_at is None else round((now - self.committed_at).total_seconds(), 3),
            "lag": progress.get("lag"),
            "rows_per_second": progress.get("rows_per_second"),
            "waiting": None
            if waiting is None
            else {"since": iso(datetime.fromtimestamp(waiting["since"], UTC)), "reason": waiting["reason"]},
            "last_batch": None if last is None else last.as_data(),
            "begun": None if self.begun is None else {"batch_id": self.begun[0], "since": iso(self.begun[1])},
            "journal": None
            if self.journal is None
            else self.journal.as_data() | {"late_seconds": round(self.late(now).total_seconds(), 3)},
            "wrong": list(self.wrong(now)),
        }

    def wrong(self, now: datetime) -> Iterator[str]:
        """What an operator should look at, one sentence each."""
        if self.job is not None:
            error = self.job.error
            if error is not None:
                hint = error.get("hint")
                yield f"its job failed: {error['message']}" + (f" ({hint})" if hint else "")
            waiting = _progress(self.job).get("waiting")
            if self.job.alive and waiting:
                yield f"its job waits since {iso(datetime.fromtimestamp(waiting['since'], UTC))}: {waiting['reason']}"
        works = self.job is not None and self.job.alive
        if self.begun is not None and not works and now - self.begun[1] >= _UNFINISHED:
            yield (
                f"batch {self.begun[0]} was begun at {iso(self.begun[1])} and is not committed: "
                "start the stream again, it completes the batch"
            )
        if self.last is not None and self.last.unroutable:
            reasons = ", ".join(f"{reason} {number:,}" for reason, number in sorted(self.last.unroutable.items()))
            yield (
                f"{sum(self.last.unroutable.values()):,} of {self.last.records:,} records of the last batch reached "
                f"no queue: {reasons}"
            )
        if (late := self.late(now)) > _LATE:
            yield (
                f"copies for deferred queues are late by {late // timedelta(seconds=1):,} s: see that its job runs, or "
                "run `bindery materialise`"
            )
        for one in [] if self.last is None else self.last.unparsable:
            yield (
                f"filters of {one['kind']} {one['name']!r} could not read {counted(one['messages'], 'body', 'bodies')} "
                f"of the last batch: {one['reason']}"
            )


@dataclass(frozen=True, slots=True)
class Overview:
    """A data directory: its topology, its streams by name, and canaries that run with what they have compared."""

    root: str
    topology_version: int
    exchanges: int
    queues: int
    bindings: int
    streams: list[StreamState] = field(default_factory=list)
    canaries: list[dict[str, Any]] = field(default_factory=list)

    def as_data(self, now: datetime) -> dict[str, Any]:
        """JSON-ready data."""
        return {
            "data": self.root,
            "topology": {
                "version": self.topology_version,
                "exchanges": self.exchanges,
                "queues": self.queues,
                "bindings": self.bindings,
            },
            "streams": [one.as_data(now) for one in self.streams],
            "canaries": self.canaries,
        }


def overview(
    data: DataDir,
    topology: Topology | None = None,
    totals: Totals | None = None,
    newest: NewestBatches | None = None,
    journals: JournalSizes | None = None,
) -> Overview:
    """How a data directory stands; whoever follows its topology, manifest and journals has what they say at hand.

    Raises UnsupportedTable for tables of a newer version or damaged records.
    """
    topology = TopologyStore(data).load() if topology is None else topology
    known = {one.stream: one for one in epochs(data)}  # the newest epoch of each, as they are in order
    jobs = {one.record.stream: one for one in JobRegistry(data).all()}
    totals = manifest_totals(data).totals() if totals is None else totals
    batches = (NewestBatches(data, each=1) if newest is None else newest).of(totals.batches)
    kept = (JournalSizes(data) if journals is None else journals).of_all()
    manifest = TableLog(data.manifest) if tables.exists(data.manifest) else None
    return Overview(
        data.root,
        topology.version,
        len(topology.exchanges),
        len(topology.queues),
        len(topology.bindings),
        [
            _stream(
                name,
                totals,
                batches.get(name, ()),
                begun=None if name not in known else _begun(data, known[name], manifest),
                job=jobs.get(name),
                journal=kept.get(name),
                topology=topology,
            )
            for name in sorted({*known, *jobs, *totals.batches})
        ],
        [_canary(one, totals) for one in sorted(running_canaries(topology), key=lambda one: one.vhost)],
    )


def _canary(canary: Canary, totals: Totals) -> dict[str, Any]:
    found = comparison(totals, canary)
    stated = {name: getattr(canary, name) for name in ("vhost", "version", "share", "deliver")}
    return stated | {name: found[name] for name in ("messages", "differing")}


def _stream(
    name: str,
    totals: Totals,
    newest: Iterable[dict[str, Any]],
    *,
    begun: tuple[int, datetime] | None,
    job: Found | None,
    journal: JournalSize | None,
    topology: Topology,
) -> StreamState:
    committed = totals.committed.get(name)
    waits = journal is not None and journal.waiting is not None
    allowed = allowed_ms(topology, journal.vhost, journal.kept.freshness) if journal is not None and waits else 0
    return StreamState(
        name,
        batches=totals.batches[name],
        records=totals.records[name],
        copies=totals.copies[name],
        reasons={reason: number for (stream, reason), number in totals.unroutable.items() if stream == name},
        unparsable=totals.unparsable_of(name),
        committed_at=None if committed is None else datetime.fromtimestamp(committed, UTC),
        newest=tuple(_batch(row) for row in newest),
        begun=begun,
        job=job,
        journal=journal,
        allowed=timedelta(milliseconds=allowed),
    )


def _batch(row: dict[str, Any]) -> Batch:
    return Batch(
        row["batch_id"],
        row["topology_version"],
        row["clock"],
        row["committed_at"],
        row["records"],
        row["copies"],
        dict(row["unroutable"] or ()),
        list(row["unparsable"] or ()),
        dict(row["timings_ms"] or ()),
    )


def _begun(data: DataDir, epoch: StreamEpoch, manifest: TableLog | None) -> tuple[int, datetime] | None:
    """The batch that is pinned and not on record as committed, and its clock."""
    ended = None if manifest is None else manifest.transaction_version(epoch.app_id)
    folder = at(data.pins(epoch.app_id))
    with effects.looking(folder):
        newest = max(folder.numbers(".json"), default=None) if folder.is_folder() else None
    if newest is None or (ended is not None and newest <= ended):
        return None
    pin = _pin(data, epoch, newest)
    return None if pin is None else (newest, datetime.fromtimestamp(pin.clock_ms / 1000, UTC))


def _pin(data: DataDir, epoch: StreamEpoch, number: int) -> Pin | None:
    """A pin, None where it is damaged or was removed meanwhile: its stream says so when it starts."""
    try:
        return Pins(data, stream=epoch.stream, app_id=epoch.app_id).read(number)
    except UnusablePin:
        return None


def _progress(job: Found | None) -> dict[str, Any]:
    return {} if job is None or job.status is None else dict(job.status.progress or {})
