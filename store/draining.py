"""What drains append: messages to a vhost's inbox, and those that no record can hold to its unroutable table.

Each table remembers, as a transaction identifier of the commit that has the rows, how far a drain has come in it: for
a stream the offset of the last message, so that no message is appended twice; for a queue, whose messages have no
number, the version that the commit made, so that the rows of the last commit are found again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from bindery.router.errors import Fenced, UnsupportedTable
from bindery.store import file_rows, tables
from bindery.store.actions import Transaction
from bindery.store.data_files import Draft
from bindery.store.log import TableLog
from bindery.store.paths import DataDir, encode_name
from bindery.store.streams import Claim
from bindery.store.topology import TOPOLOGY

#: In a commit of an inbox: the version of the unroutable table, by its address, that has what was refused before it.
AFTER: Final = "bindery.after"


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows for one table in the order of their messages; `offsets`, of a stream, has one for each row, ascending."""

    table: pa.Table
    offsets: Sequence[int] | None = None

    def after(self, offset: int | None) -> pa.Table:
        """The rows of messages that come after an offset."""
        if offset is None or self.offsets is None:
            return self.table
        return self.table.slice(bisect_right(self.offsets, offset))


class DrainLog:
    """The appends of one drain, which its newest claim alone may make; not safe between threads.

    `app_id` names the drain and what it drains.
    """

    def __init__(self, data: DataDir, vhost: str, app_id: str) -> None:
        """Claim the drain. Raises UnsupportedTable for an inbox that must not be written."""
        self.app_id = app_id
        self._data = data
        self._vhost = vhost
        self._claim = Claim(data, app_id)
        self._inbox = tables.ensure_inbox_table(data, vhost)
        tables.grow(self._inbox, tables.INBOX)
        self._unroutable: TableLog | None = None
        self._after: dict[str, int] = {}

    @property
    def claim(self) -> int:
        """The number of this drain's claim: no other run of the drain has it."""
        return self._claim.number

    @property
    def position(self) -> int | None:
        """The offset, of a queue the version, that the newest commit has recorded; None before the first."""
        self._inbox.refresh()
        return self._inbox.transaction_version(self.app_id)

    def append(self, rows: Rows, upto: int | None = None) -> None:
        """Append rows to the inbox in one commit; of a stream, `upto` is the offset that it has come to.

        Rows of offsets that are recorded already are left out. Raises Fenced when the drain has a newer claim,
        CommitConflict, CommitUnknown and StorageFailed as every commit does.
        """
        self._append(self._inbox, rows, upto, {AFTER: self._after} if self._after else {})
        self._after = {}

    def topology_version(self) -> int | None:
        """The topology version that is current; None where there is no topology."""
        path = self._data.topology
        return tables.open_log(path, TOPOLOGY).version if tables.exists(path) else None

    def append_refused(self, rows: Rows, upto: int | None = None, *, topology_version: int | None = None) -> None:
        """Append rows of the unroutable schema to the unroutable table, as `append` does to the inbox.

        `topology_version` is the one that the rows name.
        """
        if self._unroutable is None:
            self._unroutable = tables.ensure_unroutable_table(self._data, self._vhost)
            tables.grow(self._unroutable, tables.UNROUTABLE)
        said = {} if topology_version is None else {"bindery.topologyVersion": topology_version}
        self._append(self._unroutable, rows, upto, said)
        self._after = {f"unroutable/{encode_name(self._vhost)}": self._unroutable.version}

    def last_rows(self) -> pa.Table | None:
        """The rows of a queue's last commit; None when there is none, or its version cannot be read any more."""
        version = self.position
        if version is None:
            return None
        path = self._inbox.path
        try:
            before, after = (
                pa.table(table.get_add_actions())["path"].to_pylist()
                for number in (version - 1, version)
                for table in [tables.open_table(path, tables.INBOX, vhost=self._vhost, version=number)]
            )
            added = [file_rows.read_as_it_is(path, name) for name in after if name not in before]
        except (UnsupportedTable, pa.ArrowException, OSError):
            return None
        return pa.concat_tables(added, promote_options="permissive") if added else None

    def _append(self, log: TableLog, rows: Rows, upto: int | None, said: Mapping[str, Any]) -> None:
        recorded = self._recorded(log)
        if upto is not None and recorded is not None and recorded >= upto:
            return
        table = rows.after(recorded)
        info = {"isBlindAppend": True, "bindery.drain": self.app_id, **said}
        with Draft(log) as draft:
            if table.num_rows:
                draft.write(table)
            for _ in tables.attempts(log.path):
                if self._recorded(log) != recorded:
                    break
                number = log.version + 1 if upto is None else upto
                if draft.commit(transactions=[Transaction(self.app_id, number)], info=info) is not None:
                    return
        self._append(log, rows, upto, said)  # an older drain was in the middle of its last commit

    def _recorded(self, log: TableLog) -> int | None:
        """What the table's newest version has recorded; raises Fenced unless this drain owns it."""
        if not self._claim.holds():
            raise Fenced(
                "another drain of this name was started after this one",
                where=self.app_id,
                hint="one drain per name; this one stops, and what it had not committed goes to the other",
            )
        log.refresh()
        return log.transaction_version(self.app_id)
