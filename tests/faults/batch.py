"""A batch of the stream, as a model: its messages and the queues that it is for."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np

from bindery.store.seen_keys import Keys
from tests.faults.processes import STREAM

#: Messages of a batch that reach every queue.
MESSAGES = 3
#: Every queue is bound to it.
BOUND = "amq.fanout"

#: The window of the stream, and the batches that lie in it beside the newest; they come a second apart.
WINDOW_MS = 2_500
BATCHES_WITHIN = 3
#: The key that every batch has, beside two of one of its own.
_EVERY = 7


def firsts(number: int) -> list[int]:
    """The messages of a batch whose keys come for the first time, or again after the window."""
    return [1] if number % BATCHES_WITHIN else [0, 1]


@dataclass
class Batch:
    """A batch of the stream until it has ended: the queues, with their incarnations, that it is for.

    Copies for those that are `deferred` wait. `trimmed` once maintenance may have taken its rows out of the journal:
    all that is there is old.
    """

    number: int
    clock_ms: int
    deferred: frozenset[str] = frozenset()
    version: int | None = None
    targets: dict[str, int] = field(default_factory=dict)
    trimmed: bool = False

    @property
    def messages(self) -> list[str]:
        """The messages that reach every queue, in order."""
        return [f"{self.number}.{seq}" for seq in range(MESSAGES)]

    @property
    def lost(self) -> str:
        """The message that reaches none."""
        return f"{self.number}.{MESSAGES}"

    @property
    def keys(self) -> Keys:
        """The keys of its messages."""
        keys = np.array([_EVERY, -self.number - 1, -self.number - 1])
        return Keys(keys, keys, np.arange(MESSAGES))

    @property
    def repeats(self) -> list[int]:
        """The messages that repeat one."""
        return [seq for seq in range(MESSAGES) if seq not in firsts(self.number)]

    def rows(self, names: list[tuple[int, str]], version: int) -> list[dict[str, Any]]:
        """The rows of its messages: number and routing key of each."""
        return [
            {
                "exchange": BOUND,
                "routing_key": key,
                "routing": {
                    "topology_version": version,
                    "stream": STREAM,
                    "batch_id": self.number,
                    "seq": seq,
                    "bindings": [1],
                },
                "routed_at": datetime.fromtimestamp(self.clock_ms / 1000, UTC),
            }
            for seq, key in names
        ]
