"""Unroutable messages that only a journal has: put back into the unroutable table, from which they are redriven.

An exchange with `x-record-unroutable: false` has its messages counted only, and whoever cleans up the unroutable table
deletes rows of it; the journal of the stream has the message and why it reached no queue. A message that has a row in
the table, with the mark of a redrive or without, is not put back: so the table stays the one record of what was
redriven, and a message that is put back is redriven as often as every other one, once.

The rows are appended in one commit on top of a version of the table that was seen not to have them; whoever loses the
race looks again. Rows of a batch that has not ended are left alone: the batch may be about to append them itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.message import REDRIVEN, UNROUTABLE_SCHEMA
from bindery.store import file_rows, tables
from bindery.store.actions import AddFile
from bindery.store.data_files import Draft
from bindery.store.journal_files import journals, without_queues
from bindery.store.log import TableLog
from bindery.store.manifest import MANIFEST
from bindery.store.paths import DataDir
from bindery.store.row_bag import KEY, RowBag, row_keys
from bindery.store.statistics import Span, stated_span
from bindery.store.unroutable import Selection, may_be_routed_again

#: What tells whether a row of a journal reached no queue.
_ASKED: Final = ("reason", "disposition", "exchange", "routed_at")


class MissingRows:
    """The unroutable messages of a vhost that journals have and its unroutable table has not."""

    def __init__(self, data: DataDir, vhost: str) -> None:
        self._data = data
        self._vhost = vhost
        self._journals = [journal.log for journal in journals(data, vhost)]
        path = data.unroutable(vhost)
        self._log = tables.open_log(path, tables.UNROUTABLE, vhost=vhost, files=True) if tables.exists(path) else None
        # after the journals: what it has ended is in every table by now
        self._ended = tables.open_log(data.manifest, MANIFEST) if tables.exists(data.manifest) else None
        #: Files of the table that were looked into -> the keys of their rows.
        self._keys: dict[str, pa.ChunkedArray] = {}

    def chosen(self, selection: Selection) -> Iterator[pa.Table]:
        """Those of a selection as rows of the unroutable table, at most a file of a journal at once."""
        for log in self._journals:
            under_way = self._under_way(log)
            for file in tables.files_of(log).values():
                found = self._of_file(log, file, selection, under_way)
                if found.num_rows:
                    yield found

    def put_back(self, rows: pa.Table) -> int:
        """Append the rows that the table does not have; how many that were.

        Raises StorageFailed, CommitUnknown, and CommitConflict when every attempt lost its race.
        """
        if self._log is None:
            self._log = tables.ensure_unroutable_table(self._data, self._vhost, files=True)
        tables.grow(self._log, tables.UNROUTABLE)
        for _ in tables.attempts(self._log.path):
            self._log.refresh()
            missing = self._not_in_table(rows)
            if not missing.num_rows:
                return 0
            with Draft(self._log) as draft:
                draft.write(missing)
                if draft.commit(info={"operation": "WRITE", "bindery.change": "put back"}) is not None:
                    return int(missing.num_rows)
        raise AssertionError("attempts() ends by raising")

    def _under_way(self, log: TableLog) -> list[int]:
        """Batches that a journal has and that have not ended: the newest one of a driver, perhaps."""
        return [
            newest
            for app_id, newest in log.transactions.items()
            if not app_id.startswith("bindery.") and self._last_ended(app_id) < newest
        ]

    def _last_ended(self, app_id: str) -> int:
        ended = None if self._ended is None else self._ended.transaction_version(app_id)
        return -1 if ended is None else ended

    def _of_file(self, log: TableLog, file: AddFile, selection: Selection, under_way: list[int]) -> pa.Table:
        nothing = UNROUTABLE_SCHEMA.empty_table()
        if not _meets(stated_span(log.path, file), selection):
            return nothing
        wanted = pc.field("reason").is_valid() & ~pc.field("routing", "batch_id").isin(under_way)
        if selection.where is not None:
            wanted &= selection.where
        schema = tables.JOURNAL.schema
        columns = [*_ASKED, "routing"]
        asked = file_rows.batches(log.path, file.path, schema, columns=columns, where=wanted)
        if not any(one.num_rows for one in asked):
            return nothing
        found = []
        for batch in file_rows.batches(log.path, file.path, schema, where=wanted):
            rows = as_unroutable(pa.Table.from_batches([batch.take(pa.array(selection.places(batch)))]))
            found.append(rows.filter(may_be_routed_again(rows)))
        return self._not_in_table(pa.concat_tables(found)) if found else nothing

    def _not_in_table(self, rows: pa.Table) -> pa.Table:
        if not rows.num_rows or self._log is None:
            return rows
        bag = RowBag(rows.select(KEY))
        keys = row_keys(rows)
        missing = pa.array([True] * rows.num_rows)
        for file in tables.files_of(self._log).values():
            if not bag.may_hold(self._log.path, file):
                continue
            held = self._keys.get(file.path)
            if held is None:
                held = row_keys(file_rows.read(self._log.path, file.path, UNROUTABLE_SCHEMA, columns=KEY))
                self._keys[file.path] = held
            missing = pc.and_(missing, pc.invert(pc.is_in(keys, value_set=held)))
        return rows.filter(missing)


def as_unroutable(rows: pa.Table) -> pa.Table:
    """Rows of a journal as the unroutable table has them."""
    columns = {name: rows[name] for name in rows.column_names}
    columns |= {
        "routing": without_queues(rows["routing"].combine_chunks()),
        "raw": pa.nulls(rows.num_rows, pa.binary()),
        "redriven": pa.nulls(rows.num_rows, REDRIVEN),
    }
    return pa.table({name: columns[name] for name in UNROUTABLE_SCHEMA.names}).cast(UNROUTABLE_SCHEMA)


def _meets(span: Span, selection: Selection) -> bool:
    """Whether a file may have rows of a selection by their time."""
    since, until = (
        None if one is None else int(one.timestamp() * 1_000_000) for one in (selection.since, selection.until)
    )
    return (since is None or span.last >= since) and (until is None or span.first < until)
