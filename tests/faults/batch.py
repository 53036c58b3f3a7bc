"""A batch of the stream, as a model: its messages and the queues that it is for."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.faults.processes import STREAM

#: Messages of a batch that reach every queue.
MESSAGES = 3
#: Every queue is bound to it.
BOUND = "amq.fanout"


@dataclass
class Batch:
    """A batch of the stream until it has ended: the queues, with their incarnations, that it is for.

    `trimmed` once maintenance may have taken its rows out of the journal: all that is there is old.
    """

    number: int
    clock_ms: int
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
