"""What was sent, and what was said about it: the other side of the books."""

from __future__ import annotations

import random
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from bindery.router.message import Message
from bindery.router.values import Table

#: Exchanges to which messages go, and how often. Every one but "loose" is bound to the queue "all" for ever.
EXCHANGES: Final = {"flow": 11, "head": 4, "spread": 2, "loose": 3}
WORDS: Final = ("a", "b", "c", "d")
KINDS: Final = ("red", "green", "blue")


@dataclass(frozen=True, slots=True)
class Sent:
    """One message, told by its id."""

    id: str
    exchange: str
    key: str
    number: int
    kind: str

    @classmethod
    def random(cls, rng: random.Random, name: str) -> Sent:
        """A message with that id."""
        (exchange,) = rng.choices(list(EXCHANGES), list(EXCHANGES.values()))
        key = ".".join(rng.choice(WORDS) for _ in range(rng.randint(1, 3)))
        return cls(name, exchange, key, rng.randrange(1000), rng.choice(KINDS))

    @property
    def properties(self) -> dict[str, Any]:
        """Its application properties."""
        return {"id": self.id, "number": self.number, "kind": self.kind}

    @property
    def publication(self) -> dict[str, Any]:
        """The body of the request that publishes it."""
        return {
            "routing_key": self.key,
            "properties": {"headers": self.properties},
            "payload": self.id,
            "payload_encoding": "string",
        }

    @property
    def message(self) -> Message:
        """The message as the router reads it."""
        return Message(exchange=self.exchange, routing_key=self.key, application_properties=Table(self.properties))


@dataclass
class Ledger:
    """Everything sent in a run, by id; threads write to it.

    streamed  records put into the source of the job
    broken    records of the source that are no JSON
    published messages given to the service, whether it answered or not
    routed    id -> what the service answered, for messages that it did answer
    errors    answers that are neither success nor a refusal by rule: (what, status, text)
    """

    streamed: dict[str, Sent] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    published: dict[str, Sent] = field(default_factory=dict)
    routed: dict[str, bool] = field(default_factory=dict)
    errors: Counter[tuple[str, int, str]] = field(default_factory=Counter)
    changes: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def sent(self, name: str) -> Sent | None:
        """The message of that id."""
        return self.streamed.get(name) or self.published.get(name)
