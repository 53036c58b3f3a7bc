"""One thread that takes the requests of many, so that those that wait at the same time share a commit."""

from __future__ import annotations

import atexit
import queue
import threading
from abc import ABC, abstractmethod
from concurrent.futures import Future
from typing import Any, Final, Generic, Protocol, TypeVar

from bindery.router.errors import BinderyError

#: Requests that share one commit at most.
MAX_GROUP: Final = 512


class Request(Protocol):
    """What is asked of a worker; `future` gets the answer."""

    future: Future[Any]


R = TypeVar("R", bound=Request)


class Worker(ABC, Generic[R]):
    """A thread that takes requests in the order of their arrival, until it is closed, or the interpreter ends.

    `closed` is what a request is told that comes later. The thread starts at the end of the construction: what
    `_run` needs is there before.
    """

    def __init__(self, name: str, *, closed: str) -> None:
        self._requests: queue.SimpleQueue[R | None] = queue.SimpleQueue()
        self._gate = threading.Lock()
        self._closed = False
        self._refusal = closed
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        # native code on a thread must not outlive the interpreter
        atexit.register(self.close)

    def _submit(self, request: R) -> None:
        """Queue a request; raises BinderyError when the worker is closed."""
        with self._gate:
            if self._closed:
                raise BinderyError(self._refusal, hint="the service is stopping")
            self._requests.put(request)

    def close(self) -> None:
        """Carry out what is queued, then stop."""
        with self._gate:
            if not self._closed:
                self._closed = True
                self._requests.put(None)
        self._thread.join()
        atexit.unregister(self.close)

    @abstractmethod
    def _run(self) -> None:
        """Take requests until there is None in their place."""


class GroupWorker(Worker[R]):
    """A worker that carries out together what waits at the same time: MAX_GROUP requests at most.

    No more requests join a group once their weights come to `max_weight`.
    """

    max_weight: float = float("inf")

    def _run(self) -> None:
        open_for_more = True
        while open_for_more:
            first = self._requests.get()
            if first is None:
                return
            group, weight = [first], self._weight(first)
            while len(group) < MAX_GROUP and weight < self.max_weight:
                try:
                    following = self._requests.get_nowait()
                except queue.Empty:
                    break
                if following is None:
                    open_for_more = False
                    break
                group.append(following)
                weight += self._weight(following)
            # a request cancelled while it waited is left out; the others can no longer be cancelled
            accepted = [one for one in group if one.future.set_running_or_notify_cancel()]
            if accepted:
                self._commit(accepted)

    def _weight(self, request: R) -> int:
        """What a request adds to its group."""
        return 0

    @abstractmethod
    def _commit(self, group: list[R]) -> None:
        """Carry out requests, one at least, and answer each of them; raises nothing."""
