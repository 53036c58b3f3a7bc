"""Appending to inboxes: requests that wait at the same time share a commit.

One thread per process appends, so that its requests never race each other for a version of a table. A request
is answered when its commit is durable; whoever is told of an error knows of their own records what it says
of the commit: none of them are stored, or (CommitUnknown) all or none.
"""

from __future__ import annotations

import queue
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from bindery.api import inbox
from bindery.router.errors import BinderyError
from bindery.store.paths import DataDir

#: Requests that share one commit at most, and bytes of records from which on no more join them.
MAX_GROUP: Final = 512
MAX_BYTES: Final = 64 * 2**20


@dataclass(slots=True)
class _Request:
    vhost: str
    records: pa.Table
    author: str
    future: Future[int] = field(default_factory=Future)


class InboxWriter:
    """Appends records to the inboxes of one data directory in the order of their arrival; safe between threads."""

    def __init__(self, data: DataDir) -> None:
        self._data = data
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._gate = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="inbox", daemon=True)
        self._thread.start()

    def append(self, vhost: str, records: pa.Table, *, author: str) -> Future[int]:
        """Queue records; the future gives the version of the inbox that holds them, or raises what `inbox.append` does.

        A future that is cancelled before its commit is begun stores nothing.
        """
        request = _Request(vhost, records, author)
        with self._gate:
            if self._closed:
                raise BinderyError("the inboxes are closed", hint="the service is stopping")
            self._requests.put(request)
        return request.future

    def close(self) -> None:
        """Append what is queued, then stop."""
        with self._gate:
            if not self._closed:
                self._closed = True
                self._requests.put(None)
        self._thread.join()

    def _run(self) -> None:
        open_for_more = True
        while open_for_more:
            first = self._requests.get()
            if first is None:
                return
            group, size = [first], first.records.nbytes
            while len(group) < MAX_GROUP and size < MAX_BYTES:
                try:
                    following = self._requests.get_nowait()
                except queue.Empty:
                    break
                if following is None:
                    open_for_more = False
                    break
                group.append(following)
                size += following.records.nbytes
            # a request cancelled while it waited is left out; the others can no longer be cancelled
            accepted = [one for one in group if one.future.set_running_or_notify_cancel()]
            for vhost in dict.fromkeys(one.vhost for one in accepted):
                self._commit(vhost, [one for one in accepted if one.vhost == vhost])

    def _commit(self, vhost: str, group: list[_Request]) -> None:
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
