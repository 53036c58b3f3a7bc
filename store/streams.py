"""Which checkpoint each stream runs on: `DIR/streams`, one row per stream and epoch.

A stream that comes with another checkpoint than the one on record would repeat or skip batches: it is
refused unless a new epoch is asked for. Each epoch has a range of batch numbers of its own, so that
(stream, batch, number) names one message for ever. Drivers of one stream claim it by a Delta transaction
identifier in the same table: the newest claim owns the stream, and an older driver is fenced.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa

from bindery.router.errors import CheckpointMismatch, Refused
from bindery.router.message import TIMESTAMP
from bindery.store import data_files, file_rows, tables
from bindery.store.actions import Transaction
from bindery.store.log import TableLog
from bindery.store.manifest import knows_stream
from bindery.store.paths import DataDir

STREAMS: Final = tables.Kind(
    "streams",
    pa.schema(
        [
            ("stream", pa.string()),
            ("epoch", pa.int64()),
            ("checkpoint_id", pa.string()),
            ("app_id", pa.string()),
            ("registered_at", TIMESTAMP),
            ("first_batch", pa.int64()),
        ]
    ),
    tables.retained(tables.RETENTION),
)
#: Batches of one epoch at most: the n-th epoch of a stream numbers them from n times this.
EPOCH_BATCHES: Final = 1_000_000_000
#: Numbers stay below it: JSON readers that know doubles only are exact up to there.
_EXACT: Final = 2**53
_REGISTRATION: Final = "bindery.registration:"
_CLAIM: Final = "bindery.claim:"
_EPOCHS: Final = "bindery.epochs:"


@dataclass(frozen=True, slots=True)
class StreamEpoch:
    """One epoch of a stream: the checkpoint it ran on, and the number of its first batch.

    Epochs that an older version has registered all number from 0.
    """

    stream: str
    epoch: int
    checkpoint_id: str
    app_id: str
    registered_at: datetime
    first_batch: int = 0

    def batch_number(self, batch_id: int) -> int:
        """The number under which the checkpoint's batch is recorded; raises Refused at the end of the range."""
        if batch_id >= EPOCH_BATCHES:
            raise Refused(
                f"an epoch of a stream has {EPOCH_BATCHES:,} batches at most",
                where=self.app_id,
                hint="start the stream on a new checkpoint with --new-epoch",
            )
        return self.first_batch + batch_id


def first_batch_of(epoch: int, *, stream: str) -> int:
    """The number of the first batch of an epoch, counted from 0; raises Refused when there is none left."""
    if (epoch + 1) * EPOCH_BATCHES > _EXACT:
        raise Refused(f"stream {stream!r} has used up its {_EXACT // EPOCH_BATCHES:,} epochs", where=stream)
    return epoch * EPOCH_BATCHES


def register(data: DataDir, stream: str, checkpoint_id: str, *, new_epoch: bool = False) -> StreamEpoch:
    """Record that the stream runs on this checkpoint; gives the epoch, whose app id is "<stream>:<checkpoint id>".

    Raises CheckpointMismatch when another checkpoint is on record and no new epoch is asked for.
    """
    log = _open(data, files=True)
    for _ in tables.attempts(data.streams):
        tables.grow(log, STREAMS)  # moves on to the newest version, on which the rest is decided
        known = [epoch for epoch in _epochs(log) if epoch.stream == stream]
        if known and known[-1].checkpoint_id == checkpoint_id:
            return known[-1]
        if known and not new_epoch:
            last = known[-1]
            raise CheckpointMismatch(
                f"stream {stream!r} last ran on checkpoint {last.checkpoint_id!r}, this one is {checkpoint_id!r}",
                where=data.checkpoint(stream),
                hint="restore the checkpoint, or start with --new-epoch: records may then be routed again or skipped",
            )
        epoch = _add_epoch(log, len(known), stream, checkpoint_id)
        if epoch is not None:
            return epoch
    raise AssertionError("attempts() ends by raising")


def reopen(data: DataDir, last: StreamEpoch) -> StreamEpoch:
    """Go on with the checkpoint of a stream's last epoch under new batch numbers.

    For a checkpoint that is not what the tables were routed from. Raises CheckpointMismatch when the epoch
    is not the last one any more.
    """
    log = _open(data, files=True)
    for _ in tables.attempts(data.streams):
        tables.grow(log, STREAMS)
        known = [epoch for epoch in _epochs(log) if epoch.stream == last.stream]
        if not known or known[-1].epoch != last.epoch:
            raise CheckpointMismatch(f"stream {last.stream!r} was given another epoch meanwhile", where=data.streams)
        epoch = _add_epoch(log, len(known), last.stream, last.checkpoint_id)
        if epoch is not None:
            return epoch
    raise AssertionError("attempts() ends by raising")


def _add_epoch(log: TableLog, known: int, stream: str, checkpoint_id: str) -> StreamEpoch | None:
    """Commit the next epoch of a stream that has so many; None for a lost race."""
    app_id = f"{stream}:{checkpoint_id}"
    first = first_batch_of(known, stream=stream)
    epoch = StreamEpoch(stream, known + 1, checkpoint_id, app_id, datetime.now(UTC), first)
    added = data_files.write_file(log.path, pa.Table.from_pylist([asdict(epoch)], schema=STREAMS.schema))
    fence = Transaction(f"{_REGISTRATION}{stream}", epoch.epoch)
    if log.commit([added], transactions=[fence]) is not None:
        return epoch
    data_files.drop_unused(log.path, [added.path])
    return None


def epochs(data: DataDir) -> list[StreamEpoch]:
    """Every epoch of every stream, by stream and epoch."""
    return _epochs(_open(data, files=True))


def _epochs(log: TableLog) -> list[StreamEpoch]:
    rows = [row for name in tables.files_of(log) for row in file_rows.read(log.path, name, STREAMS.schema).to_pylist()]
    found = (StreamEpoch(**{**row, "first_batch": row["first_batch"] or 0}) for row in rows)
    return sorted(found, key=lambda row: (row.stream, row.epoch))


def next_epoch(data: DataDir, stream: str) -> int:
    """Take the next epoch of a stream that has no checkpoint; gives the number of its first batch.

    For committers that live as long as their process. The counter is a transaction identifier: nothing
    grows by being taken. The first epoch is left out where an older version has numbered from 0 each time.
    """
    key = f"{_EPOCHS}{stream}"
    log = _open(data)
    for _ in tables.attempts(data.streams):
        log.refresh()
        taken = log.transaction_version(key)
        if taken is None:
            taken = 1 if knows_stream(data, stream) else 0
        first = first_batch_of(taken, stream=stream)
        if log.commit((), transactions=[Transaction(key, taken + 1)]) is not None:
            return first
    raise AssertionError("attempts() ends by raising")


class Claim:
    """The right of one driver to commit for an app id; a later claim ends it."""

    def __init__(self, data: DataDir, app_id: str) -> None:
        self._key = f"{_CLAIM}{app_id}"
        self._log = _open(data)
        for _ in tables.attempts(data.streams):
            self._log.refresh()
            self.number = (self._log.transaction_version(self._key) or 0) + 1
            if self._log.commit((), transactions=[Transaction(self._key, self.number)]) is not None:
                return

    def holds(self) -> bool:
        """Whether no other driver has claimed the app id since."""
        self._log.refresh()
        return self._log.transaction_version(self._key) == self.number


def _open(data: DataDir, *, files: bool = False) -> TableLog:
    return tables.ensure_table(data.streams, STREAMS, files=files)
