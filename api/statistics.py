"""What this process has published and handed out, per exchange and queue, since it started.

The broker's statistics are of its own process too. What streaming jobs move stands in the manifest.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

#: Counters of a queue, and of all of them; absent ones read as 0 where any is there.
_GET_COUNTERS: Final = (
    "ack",
    "deliver",
    "deliver_get",
    "deliver_no_ack",
    "get",
    "get_empty",
    "get_no_ack",
    "redeliver",
)
_PUBLISH_COUNTERS: Final = ("publish", "confirm", "return_unroutable", "drop_unroutable")
_DISK_COUNTERS: Final = ("disk_reads", "disk_writes")


def with_rates(counts: Mapping[str, int]) -> dict[str, Any]:
    """Counters as the broker shows them; rates are not measured and read 0."""
    out: dict[str, Any] = {}
    for name, count in counts.items():
        out[name] = count
        out[f"{name}_details"] = {"rate": 0.0}
    return out


Key = TypeVar("Key", str, tuple[str, str])


class Statistics:
    """Counters of one process; safe between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._exchanges: dict[tuple[str, str], Counter[str]] = {}
        self._queues: dict[tuple[str, str], Counter[str]] = {}
        self._vhosts: dict[str, Counter[str]] = {}

    def published(self, vhost: str, exchange: str, queues: Iterable[str], *, mandatory: bool = True) -> None:
        """Count a message that was published and the queues that it reached."""
        reached = list(queues)
        with self._lock:
            totals = self._vhosts.setdefault(vhost, Counter())
            totals.update(("publish", "confirm"))
            into = self._exchanges.setdefault((vhost, exchange), Counter())
            into["publish_in"] += 1
            into["publish_out"] += len(reached)
            if not reached:
                totals["return_unroutable" if mandatory else "drop_unroutable"] += 1
            for queue in reached:
                self._queues.setdefault((vhost, queue), Counter())["publish"] += 1

    def got(self, vhost: str, queue: str, *, messages: int, redelivered: int, acknowledged: bool) -> None:
        """Count a get: messages that it gave, how many of them again, and whether they were taken out."""
        with self._lock:
            for counter in (
                self._queues.setdefault((vhost, queue), Counter()),
                self._vhosts.setdefault(vhost, Counter()),
            ):
                counter["get_empty"] += messages == 0
                counter["get"] += messages
                counter["deliver_get"] += messages
                counter["redeliver"] += redelivered
                counter["ack"] += messages if acknowledged else 0

    def forget_vhost(self, vhost: str) -> None:
        """Drop the counters of a vhost that was deleted."""
        with self._lock:
            self._vhosts.pop(vhost, None)
            for counters in (self._exchanges, self._queues):
                for key in [key for key in counters if key[0] == vhost]:
                    del counters[key]

    def forget_exchange(self, vhost: str, name: str) -> None:
        """Drop the counters of an exchange that was deleted."""
        with self._lock:
            self._exchanges.pop((vhost, name), None)

    def forget_queue(self, vhost: str, name: str) -> None:
        """Drop the counters of a queue that was deleted."""
        with self._lock:
            self._queues.pop((vhost, name), None)

    def _copy(self, counters: dict[Key, Counter[str]], key: Key) -> Counter[str]:
        with self._lock:
            return Counter(counters.get(key, ()))

    def of_exchange(self, vhost: str, name: str) -> dict[str, Any]:
        """`message_stats` of an exchange; empty before its first message."""
        return with_rates(self._copy(self._exchanges, (vhost, name)))

    def of_queue(self, vhost: str, name: str) -> dict[str, Any]:
        """`message_stats` of a queue; empty before its first message or get."""
        if (vhost, name) not in self._queues:
            return {}
        counted = self._copy(self._queues, (vhost, name))
        names = (*_GET_COUNTERS, *(["publish"] if "publish" in counted else []))
        return with_rates({name: counted[name] for name in names})

    def of_vhost(self, vhost: str) -> dict[str, Any]:
        """`message_stats` of a vhost; empty before its first message or get."""
        counted = self._copy(self._vhosts, vhost)
        if not counted:
            return {}
        return with_rates({name: counted[name] for name in (*_GET_COUNTERS, *_PUBLISH_COUNTERS)})

    def of_all(self) -> dict[str, Any]:
        """`message_stats` of the overview; empty before the first message or get."""
        with self._lock:
            total = sum(self._vhosts.values(), Counter[str]())
            seen = bool(self._vhosts)
        if not seen:
            return {}
        return with_rates({name: total[name] for name in (*_GET_COUNTERS, *_PUBLISH_COUNTERS, *_DISK_COUNTERS)})
