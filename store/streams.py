"""Which checkpoint each stream runs on: `DIR/streams`, one row per stream and epoch.

A stream that comes with another checkpoint than the one on record would repeat or skip batches: it is
refused unless a new epoch is asked for. Drivers of one stream claim it by a Delta transaction
identifier in the same table: the newest claim owns the stream, and an older driver is fenced.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from router.errors import CheckpointMismatch
from router.message import TIMESTAMP
from store import data_files, tables
from store.log import TableLog, Transaction
from store.paths import DataDir

STREAMS: Final = tables.keep_forever(
    "streams",
    pa.schema(
        [
            ("stream", pa.string()),
            ("epoch", pa.int64()),
            ("checkpoint_id", pa.string()),
            ("app_id", pa.string()),
            ("registered_at", TIMESTAMP),
        ]
    ),
)
_REGISTRATION: Final = "bindery.registration:"
_CLAIM: Final = "bindery.claim:"


@dataclass(frozen=True, slots=True)
class StreamEpoch:
    """One epoch of a stream: the checkpoint it ran on."""

    stream: str
    epoch: int
    checkpoint_id: str
    app_id: str
    registered_at: datetime


def register(data: DataDir, stream: str, checkpoint_id: str, *, new_epoch: bool = False) -> str:
    """Record that the stream runs on this checkpoint; gives its app id, "<stream>:<checkpoint id>".

    Raises CheckpointMismatch when another checkpoint is on record and no new epoch is asked for.
    """
    app_id = f"{stream}:{checkpoint_id}"
    log = _open(data, files=True)
    for _ in tables.attempts(data.streams):
        log.refresh()
        known = [epoch for epoch in _epochs(log) if epoch.stream == stream]
        if known and known[-1].checkpoint_id == checkpoint_id:
            return app_id
        if known and not new_epoch:
            last = known[-1]
            raise CheckpointMismatch(
                f"stream {stream!r} last ran on checkpoint {last.checkpoint_id!r}, this one is {checkpoint_id!r}",
                where=data.checkpoint(stream),
                hint="restore the checkpoint, or start with --new-epoch: records may then be routed again or skipped",
            )
        epoch = len(known) + 1
        row: Mapping[str, Any] = {
            "stream": stream,
            "epoch": epoch,
            "checkpoint_id": checkpoint_id,
            "app_id": app_id,
            "registered_at": datetime.now(UTC),
        }
        added = data_files.write_file(data.streams, pa.Table.from_pylist([row], schema=STREAMS.schema))
        fence = Transaction(f"{_REGISTRATION}{stream}", epoch)
        if log.commit([added], transactions=[fence]) is not None:
            return app_id
        data_files.drop_unused(data.streams, [added.path])
    raise AssertionError("attempts() ends by raising")


def epochs(data: DataDir) -> list[StreamEpoch]:
    """Every epoch of every stream, by stream and epoch."""
    return _epochs(_open(data, files=True))


def _epochs(log: TableLog) -> list[StreamEpoch]:
    files = [Path(log.path, name) for name in tables.files_of(log)]
    rows = [row for file in files for row in pq.read_table(file, schema=STREAMS.schema).to_pylist()]
    return sorted((StreamEpoch(**row) for row in rows), key=lambda row: (row.stream, row.epoch))


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
