"""What a stream has routed within a window, on record: `DIR/dedup/<stream>`, one row for each key that came first.

A batch is judged by what batches before it have recorded, never by itself or by later ones, and the time that counts is
that of its pin: so it is judged alike however often it is repeated. A window is measured from the message that was
routed, which those that repeat it do not prolong.

Rows are committed after every other table of their batch (`bindery.store.commit`): a key on record is that of a message
whose copies are in their queues, whatever becomes of the driver. Time never goes back in the table: a batch whose clock
is behind that of an earlier one counts as of the same time, so that what is older than the window at one batch is so at
every later one, and may be removed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.errors import UnsupportedTable
from bindery.router.message import TIMESTAMP
from bindery.store import data_files, file_rows, tables
from bindery.store.actions import AddFile
from bindery.store.commit import WrittenFile
from bindery.store.log import TableLog
from bindery.store.paths import DataDir
from bindery.store.seen_keys import Keys, SeenKeys, Verdict
from bindery.store.statistics import stated_span
from bindery.store.writer import BatchStamp

_WINDOW: Final = "bindery.dedup.window"


class SeenTable:
    """The keys that a stream has on record, for the one who drives it."""

    def __init__(self, data: DataDir, stream: str, vhost: str) -> None:
        self._data = data
        self._stream = stream
        self._vhost = vhost
        self._seen = SeenKeys()
        #: What `_seen` is of: the batch before which it ends, and the window (ms).
        self._of: tuple[int, int] | None = None
        #: When each batch was routed, ascending, as far as it counts.
        self._clocks: dict[int, int] = {}
        #: The clock by which keys were forgotten: one that comes before it may ask for them.
        self._forgot_ms = -(1 << 63)
        self._stated_ms: int | None = None
        self._verdict: Verdict | None = None

    def judge(self, stamp: BatchStamp, window_ms: int, arrived: Keys) -> Verdict:
        """Which messages of a batch, in the order in which they arrived, repeat one within the window.

        Raises UnsupportedTable for a table that cannot be read, or is of another vhost.
        """
        if self._stated_ms != window_ms:
            keep_window(self._data, self._stream, self._vhost, window_ms)
            self._stated_ms = window_ms
        # a batch without a new key is not on record, and its clock is none that later ones are measured by
        if self._of != (stamp.batch_id, window_ms) or self._clock_ms(stamp) < self._forgot_ms:
            self._read(stamp, window_ms)
        self._forgot_ms = self._clock_ms(stamp)
        oldest_ms = self._forgot_ms - window_ms
        for batch in [batch for batch, clock_ms in self._clocks.items() if clock_ms <= oldest_ms]:
            del self._clocks[batch]
        self._seen.forget_before(min(self._clocks, default=stamp.batch_id))
        self._verdict = self._seen.judge(arrived, stamp.batch_id)
        return self._verdict

    def write(self, stamp: BatchStamp) -> list[WrittenFile]:
        """Write the keys that came for the first time in the batch that was judged last, uncommitted."""
        assert self._verdict is not None  # noqa: S101  # judge() comes before
        fresh = self._verdict.fresh
        if not len(fresh):
            return []
        path = self._data.dedup(self._stream)
        added = data_files.write_file(path, _rows(fresh, stamp, self._clock_ms(stamp)))
        return [
            WrittenFile("dedup", self._vhost, self._stream, added.path, added.size, len(fresh), added.stats),
        ]

    def committed(self, stamp: BatchStamp) -> None:
        """The batch that was judged last has ended: what it had first is known to the next one."""
        assert self._verdict is not None  # noqa: S101  # judge() comes before
        assert self._of is not None  # noqa: S101
        if len(self._verdict.fresh):
            self._clocks[stamp.batch_id] = self._clock_ms(stamp)
            self._seen.add(self._verdict.fresh, stamp.batch_id)
        self._of = (stamp.batch_id + 1, self._of[1])
        self._verdict = None

    def _clock_ms(self, stamp: BatchStamp) -> int:
        """The time of a batch: its clock, or that of an earlier batch which was ahead of it."""
        return max([stamp.clock_ms, *list(self._clocks.values())[-1:]])

    def _read(self, stamp: BatchStamp, window_ms: int) -> None:
        """Read what batches before this one have recorded within the window, and no older files."""
        self._seen, self._of, self._clocks = SeenKeys(), (stamp.batch_id, window_ms), {}
        path = self._data.dedup(self._stream)
        log = tables.open_log(path, tables.DEDUP, vhost=self._vhost, name=self._stream, files=True)
        oldest_us = (stamp.clock_ms - window_ms) * 1000
        before = pc.field("routing", "batch_id") < stamp.batch_id
        clocks: dict[int, int] = {}
        for name, file in tables.files_of(log).items():
            if stated_span(path, file).last <= oldest_us:
                continue
            for rows in file_rows.batches(path, name, tables.DEDUP.schema, where=before):
                batch, seq = (pc.struct_field(rows["routing"], member).to_numpy() for member in ("batch_id", "seq"))
                self._seen.add(Keys(rows["key_high"].to_numpy(), rows["key_low"].to_numpy(), seq), batch)
                batches, places = np.unique(batch, return_index=True)
                clocks_us = rows["routed_at"].cast(pa.int64()).take(pa.array(places)).to_pylist()
                clocks |= {one: us // 1000 for one, us in zip(batches.tolist(), clocks_us, strict=True)}
        self._clocks = dict(sorted(clocks.items()))


def _rows(keys: Keys, stamp: BatchStamp, clock_ms: int) -> pa.Table:
    """Keys as rows of the table."""
    count = len(keys)
    columns: dict[str, Any] = {
        "key_high": pa.array(keys.high),
        "key_low": pa.array(keys.low),
        "routing": pa.StructArray.from_arrays(
            [
                pa.array(np.full(count, stamp.topology_version)),
                pa.array([stamp.stream] * count, pa.string()),
                pa.array(np.full(count, stamp.batch_id)),
                pa.array(keys.seq),
            ],
            fields=list(tables.DEDUP.schema.field("routing").type),
        ),
        "routed_at": pa.array(np.full(count, clock_ms * 1000)).view(TIMESTAMP),
    }
    return pa.table(columns, schema=tables.DEDUP.schema)


def ensure_seen(data: DataDir, stream: str, vhost: str) -> TableLog:
    """The table of a stream, created when missing.

    Raises UnsupportedTable for a stream that has one for another vhost: what was routed there is not routed here.
    """
    try:
        return tables.ensure_table(data.dedup(stream), tables.DEDUP, vhost, stream)
    except UnsupportedTable as error:
        error.hint = "it is of one vhost: route the other one by a stream of another name, or without `dedup`"
        raise


def keep_window(data: DataDir, stream: str, vhost: str, window_ms: int) -> None:
    """Make the table of a stream exist, and say how long its rows are needed, for whoever maintains it.

    Raises UnsupportedTable as `ensure_seen` does.
    """
    log = ensure_seen(data, stream, vhost)
    stated = {_WINDOW: str(window_ms)}
    for _ in tables.attempts(log.path):
        log.refresh()
        if stated.items() <= log.state.configuration.items():
            return
        state = replace(log.state, configuration={**log.state.configuration, **stated})
        if log.commit((), state=state, info={"operation": "SET TBLPROPERTIES"}) is not None:
            return


def past_window(log: TableLog) -> list[AddFile]:
    """The files of the table that no batch to come can ask for: older than the window at the newest row.

    The log has its files. None is, where the table does not state its window.
    """
    stated = log.state.configuration.get(_WINDOW, "")
    if not stated.isdecimal():
        return []
    spans = [(stated_span(log.path, file), file) for file in tables.files_of(log).values()]
    newest_us = max((span.first for span, _ in spans), default=0)
    return [file for span, file in spans if span.last <= newest_us - int(stated) * 1000]
