"""Group commit: concurrent changes of the topology share one Delta commit."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from bindery.router.declarations import TopologyEditor
from bindery.router.model import ObjectKey
from bindery.store.grouping import GroupWorker
from bindery.store.topology import Edit, TopologyStore

T = TypeVar("T")


@dataclass
class _Request:
    change: Callable[[TopologyEditor], Any]
    author: str
    reason: str
    future: Future[Any] = field(default_factory=Future)


class GroupCommitter(GroupWorker[_Request]):
    """Commits changes from many threads in the order of their arrival, as many at once as are waiting.

    A request is answered when its commit is durable. A change that raises fails alone: its neighbours
    are committed as if it had not been there.
    """

    def __init__(self, store: TopologyStore) -> None:
        self._store = store
        super().__init__("topology-commit", closed="the topology is closed to changes")

    def submit(self, change: Callable[[TopologyEditor], T], author: str, reason: str = "") -> Future[Edit[T]]:
        """Queue a change; the future gives what TopologyStore.edit gives, or raises what it raises."""
        request = _Request(change, author, reason)
        self._submit(request)
        return request.future

    def __enter__(self) -> GroupCommitter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _commit(self, group: list[_Request]) -> None:
        outcome = _Outcome()
        authors = ", ".join(dict.fromkeys(request.author for request in group))
        reasons = "; ".join(dict.fromkeys(request.reason for request in group if request.reason))
        try:
            edit = self._store.edit(
                lambda editor: outcome.apply(group, editor), author=authors, reason=reasons, authors=outcome.authors
            )
        except BaseException as error:  # the threads that wait get whatever ended the commit
            for request in group:
                request.future.set_exception(outcome.errors.get(id(request), error))
            return
        for request in group:
            if id(request) in outcome.errors:
                request.future.set_exception(outcome.errors[id(request)])
            else:
                request.future.set_result(replace(edit, result=outcome.results[id(request)]))


class _Outcome:
    """What each request of a group gave in the attempt that is committed."""

    def __init__(self) -> None:
        self.results: dict[int, Any] = {}
        self.errors: dict[int, BaseException] = {}
        #: Who changed an object last.
        self.authors: dict[ObjectKey, str] = {}

    def apply(self, group: list[_Request], editor: TopologyEditor) -> None:
        """Apply the group to the editor in order, leaving out the requests that raise.

        One that raises after it has changed something leaves the editor spoiled: the group then starts
        over on a fresh one without it, whose changes are taken over at the end.
        """
        spoilers: set[int] = set()
        attempt = TopologyEditor(editor.topology)
        while not self._attempt(group, spoilers, attempt):
            attempt = TopologyEditor(editor.topology)
        editor.replay(attempt.changes)
        editor.dropped |= attempt.dropped

    def _attempt(self, group: list[_Request], spoilers: set[int], editor: TopologyEditor) -> bool:
        self.results.clear()
        self.authors.clear()
        self.errors = {key: error for key, error in self.errors.items() if key in spoilers}
        changes = editor.changes
        for request in group:
            if id(request) in spoilers:
                continue
            own = editor.changes = {}
            try:
                self.results[id(request)] = request.change(editor)
            except Exception as error:  # handed to the thread that asked
                self.errors[id(request)] = error
                if own:
                    spoilers.add(id(request))
                    return False
            else:
                changes |= own
                self.authors |= dict.fromkeys(own, request.author)
        editor.changes = changes
        return True
