"""Appending to inboxes: requests that wait at the same time share a commit.

One thread per process appends, so that its requests never race each other for a version of a table. A request
is answered when its commit is durable; whoever is told of an error knows of their own records what it says
of the commit: none of them are stored, or (CommitUnknown) all or none.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from bindery.api import inbox
from bindery.store.grouping import GroupWorker
from bindery.store.paths import DataDir

#: Bytes of records from which on no more requests join a commit.
MAX_BYTES: Final = 64 * 2**20


@dataclass(slots=True)
class _Request:
    vhost: str
    records: pa.Table
    author: str
    future: Future[int] = field(default_factory=Future)


class InboxWriter(GroupWorker[_Request]):
    """Appends records to the inboxes of one data directory in the order of their arrival; safe between threads."""

    max_weight = MAX_BYTES

    def __init__(self, data: DataDir) -> None:
        self._data = data
        super().__init__("inbox", closed="the inboxes are closed")

    def append(self, vhost: str, records: pa.Table, *, author: str) -> Future[int]:
        """Queue records; the future gives the version of the inbox that holds them, or raises what `inbox.append` does.

        A future that is cancelled before its commit is begun stores nothing.
        """
        request = _Request(vhost, records, author)
        self._submit(request)
        return request.future

    def _weight(self, request: _Request) -> int:
        size: int = request.records.nbytes
        return size

    def _commit(self, group: list[_Request]) -> None:
        for vhost in dict.fromkeys(one.vhost for one in group):
            self._append(vhost, [one for one in group if one.vhost == vhost])

    def _append(self, vhost: str, group: list[_Request]) -> None:
        authors = ", ".join(dict.fromkeys(one.author for one in group))
        try:
            records = pa.concat_tables([one.records for one in group])
            version = inbox.append(self._data, vhost, records, author=authors)
        except BaseException as error:  # those who wait get whatever ended the commit
            for one in group:
                one.future.set_exception(error)
            return
        for one in group:
            one.future.set_result(version)
