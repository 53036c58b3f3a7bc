"""Publications compared: where the broker put each message, beside where it goes here.

A message is compared under every topology that there may have been when the broker routed it. Where they do not agree
about it the topology has moved, and it is counted apart: neither equal nor different. Messages that differ are kept by
class: the exchange, the queues that only the broker chose, and those that are only chosen here. Of each class one
message is kept and explained, and of classes a bounded number.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bindery.jobs.shadowing.look import Carried
from bindery.jobs.shadowing.publication import Publication
from bindery.jobs.shadowing.reasons import Reasons
from bindery.router.message import Message, to_batch

#: Classes that are kept apart, names that one of them shows on each side, queues that are counted one by one, and
#: reasons why messages cannot be compared.
CLASSES: Final = 100
NAMES: Final = 10
QUEUES: Final = 10_000
REASONS: Final = 20
#: Characters of an example that are shown.
EXAMPLE: Final = 2_000
_BATCH: Final = 2_000
_OTHER: Final = "for other reasons"

_Key = tuple[str, frozenset[str], frozenset[str]]


@dataclass(slots=True)
class Difference:
    """A class of messages that went elsewhere: how many, one of them, and what explains it, per queue."""

    exchange: str
    there: Sequence[str]
    here: Sequence[str]
    example: Mapping[str, Any]
    reasons: Mapping[str, Sequence[str]]
    further: int
    messages: int = 0

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data; `only_there` and `only_here` name queues, at most NAMES each."""
        return {
            "exchange": self.exchange,
            "messages": self.messages,
            "only_there": list(self.there),
            "only_here": list(self.here),
            "further_queues": self.further,
            "reasons": {queue: list(why) for queue, why in self.reasons.items()},
            "example": dict(self.example),
        }


@dataclass(slots=True)
class Tally:
    """What was compared so far.

    equal, differing   messages whose queues are those of the broker, or are not
    moved              messages about which the topology moved
    refused            messages that cannot be compared, by reason
    queues             queue -> copies in both, only there, only here
    beyond             messages of classes beyond those that are kept
    nodes              nodes whose publishers were seen
    """

    equal: int = 0
    differing: int = 0
    moved: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    queues: dict[str, list[int]] = field(default_factory=dict)
    beyond: int = 0
    nodes: set[str] = field(default_factory=set)
    _classes: dict[_Key, Difference] = field(default_factory=dict)

    @property
    def compared(self) -> int:
        """Messages that are equal or different."""
        return self.equal + self.differing

    @property
    def classes(self) -> list[Difference]:
        """The classes of messages that differ, the largest first."""
        return sorted(self._classes.values(), key=lambda one: -one.messages)

    def refuse(self, reason: str) -> None:
        """Count a message that cannot be compared."""
        known = reason in self.refused or len(self.refused) < REASONS
        self.refused[reason if known else _OTHER] += 1

    def compare(self, publications: Sequence[Publication], topologies: Sequence[Carried]) -> None:
        """Compare messages that the broker routed under some of these topologies, the newest last."""
        distinct = list({one.digest: one for one in topologies}.values())
        known = frozenset[str]().union(*(one.queues for one in distinct))
        lasting = known.intersection(*(one.queues for one in distinct))
        newest = topologies[-1]
        for start in range(0, len(publications), _BATCH):
            part = publications[start : start + _BATCH]
            batch, clock_ms = to_batch([one.message for one in part]), time.time_ns() // 1_000_000
            found = [one.explainer.reached(batch, clock_ms=clock_ms) for one in distinct]
            for row, one in enumerate(part):
                self.nodes.add(one.node)
                there = one.queues
                if one.message.exchange == "":
                    there &= known  # the default exchange names a queue whether there is one or not
                here = found[-1][row]
                if any(other[row] != here for other in found) or not there <= lasting:
                    self.moved += 1
                else:
                    self._count(one.message, there, here, newest)

    def _count(self, message: Message, there: frozenset[str], here: frozenset[str], carried: Carried) -> None:
        for names, place in ((there & here, 0), (there - here, 1), (here - there, 2)):
            for name in names:
                if name in self.queues or len(self.queues) < QUEUES:
                    self.queues.setdefault(name, [0, 0, 0])[place] += 1
        if there == here:
            self.equal += 1
            return
        self.differing += 1
        key = (message.exchange, there - here, here - there)
        if key not in self._classes:
            if len(self._classes) >= CLASSES:
                self.beyond += 1
                return
            self._classes[key] = _explained(message, *key[1:], carried)
        self._classes[key].messages += 1


def _explained(message: Message, there: frozenset[str], here: frozenset[str], carried: Carried) -> Difference:
    reasons = Reasons(message, carried)
    missed, gained = sorted(there)[:NAMES], sorted(here)[:NAMES]
    explained = {queue: reasons.not_here(queue) for queue in missed} | {queue: reasons.here(queue) for queue in gained}
    further = len(there) + len(here) - len(missed) - len(gained)
    return Difference(message.exchange, missed, gained, example_of(message), explained, further)


def example_of(message: Message) -> dict[str, Any]:
    """A message as JSON-ready data; of one that is too long to be shown what is longest is left out."""
    data = message.as_json()
    for section in ("application_properties", "properties", "message_annotations"):
        if len(str(data)) > EXAMPLE and section in data:
            data[section] = dict(_short(data[section]))
    return data


def _short(section: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for number, (name, value) in enumerate(section.items()):
        if number == NAMES:
            yield "…", f"and {len(section) - NAMES} further"
            return
        text = str(value)
        yield name, value if len(text) <= EXAMPLE // 20 else f"{text[: EXAMPLE // 20]}…"
