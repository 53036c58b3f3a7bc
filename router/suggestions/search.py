"""The search for suggestions: steps are tried, the smallest first, each by routing the message."""

from __future__ import annotations

import heapq
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from bindery.router.errors import BinderyError
from bindery.router.explain import Explainer, Explanation
from bindery.router.links import Links
from bindery.router.message import Message, to_batch
from bindery.router.model import ALTERNATE_BINDING, ALTERNATE_EXCHANGE, Topology
from bindery.router.proposal import propose
from bindery.router.suggestions.changes import Changes
from bindery.router.suggestions.edits import Edits
from bindery.router.suggestions.messages import Messages, differs, said

#: Suggestions of each kind.
LISTED: Final = 6
#: Steps that one suggestion may take, and messages that are tried.
_STEPS: Final = 4
_MESSAGES: Final = 60
#: Changes that are tried: so many, and fewer where a topology takes long to compile.
_CHANGES: Final = 60
_BINDINGS_COMPILED: Final = 200_000
_FEWEST_CHANGES: Final = 6


@dataclass(frozen=True, slots=True)
class SuggestedChange:
    """A change of the topology that brings the message to the queue, and takes it from none that it should reach.

    `change` is a document as `bindery apply` takes it, `objects` is how many objects it deletes, adds and alters;
    `gained` are other queues that the message reaches with it. `lost` are queues to which an alternate alone led it:
    that is for messages which reach nothing else (Broker-J §4.6.4).
    """

    says: str
    change: dict[str, Any]
    objects: int
    gained: tuple[str, ...]
    lost: tuple[str, ...]

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {
            "says": self.says,
            "change": self.change,
            "objects": self.objects,
            "gained": list(self.gained),
            "lost": list(self.lost),
        }


@dataclass(frozen=True, slots=True)
class SuggestedMessage:
    """Another message, which comes to the queue: `differs` has the parts of its JSON form that differ.

    `gained` and `lost` are other queues that it reaches and the given one does not, and the other way round.
    """

    says: str
    differs: dict[str, Any]
    gained: tuple[str, ...]
    lost: tuple[str, ...]

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {
            "says": self.says,
            "differs": self.differs,
            "gained": list(self.gained),
            "lost": list(self.lost),
        }


@dataclass(frozen=True, slots=True)
class Suggestions:
    """What would bring a message to a queue, the smallest first; nothing where it comes there as it is."""

    queue: str
    reached: bool
    changes: tuple[SuggestedChange, ...] = ()
    messages: tuple[SuggestedMessage, ...] = ()

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {
            "queue": self.queue,
            "reached": self.reached,
            "changes": [one.as_data() for one in self.changes],
            "messages": [one.as_data() for one in self.messages],
        }


def suggest(topology: Topology, vhost: str, message: Message, queue: str, *, clock_ms: int) -> Suggestions:
    """What would bring a message to a queue of a vhost; raises NotFound for a queue that does not exist.

    The work is bounded: what takes more than a few steps, or cannot be written down as text, is not found.
    """
    explainer = Explainer(topology, vhost)
    explained = _explained(explainer, message, queue, clock_ms)
    if explained.why_not[0].reached:
        return Suggestions(queue, reached=True)
    before = frozenset(explained.queues)
    changes = list(itertools.islice(_changes(topology, vhost, message, queue, clock_ms, explained), LISTED))
    return Suggestions(
        queue,
        reached=False,
        changes=tuple(sorted(changes, key=lambda one: (one.objects, bool(one.lost)))),
        messages=tuple(itertools.islice(_messages(explainer, topology, message, queue, clock_ms, before), LISTED)),
    )


def _explained(explainer: Explainer, message: Message, queue: str, clock_ms: int) -> Explanation:
    (explained,) = explainer.explain(to_batch([message]), clock_ms=clock_ms, queues=[queue])
    return explained


@dataclass(order=True, slots=True)
class _Trial:
    """A change that waits for its trial, in the order in which trials are made."""

    objects: int
    breadth: int
    number: int
    edits: Edits = field(compare=False)
    says: tuple[str, ...] = field(compare=False)


def _changes(
    topology: Topology, vhost: str, message: Message, queue: str, clock_ms: int, first: Explanation
) -> Iterator[SuggestedChange]:
    before, kept = frozenset(first.queues), _without_alternates(first)
    waiting: list[_Trial] = []
    known: set[str] = set()
    found: list[Edits] = []
    numbers = itertools.count()

    def further(trial: _Trial, tried: Topology, explained: Explanation) -> None:
        if len(trial.says) == _STEPS:
            return
        steps = Changes(tried, vhost, trial.edits, message, queue, clock_ms).steps(explained)
        for step in steps:
            stated = json.dumps(step.edits.as_change(), sort_keys=True)
            if stated not in known:
                known.add(stated)
                breadth = trial.breadth + step.breadth
                one = _Trial(step.edits.objects, breadth, next(numbers), step.edits, (*trial.says, step.says))
                heapq.heappush(waiting, one)

    further(_Trial(0, 0, 0, Edits(), ()), topology, first)
    tries = max(_FEWEST_CHANGES, min(_CHANGES, _BINDINGS_COMPILED // (len(topology.bindings) + 1)))
    for _ in range(tries):
        if not waiting:
            return
        trial = heapq.heappop(waiting)
        if any(smaller.within(trial.edits) for smaller in found):
            continue  # a part of it does
        change = trial.edits.as_change()
        try:
            tried = propose(topology, vhost, change)
        except BinderyError:  # a name too long, an exchange that goes with its last binding …
            continue
        explained = _explained(Explainer(tried, vhost), message, queue, clock_ms)
        after = frozenset(explained.queues)
        if queue not in after:
            further(trial, tried, explained)
        elif kept <= after:
            found.append(trial.edits)
            gained, lost = tuple(sorted(after - before - {queue})), tuple(sorted(before - after))
            yield SuggestedChange("; ".join(trial.says), change, trial.objects, gained, lost)


def _without_alternates(explanation: Explanation) -> frozenset[str]:
    """The queues that a message reached otherwise than by an alternate."""
    reached: set[str] = set()
    # a visit is led to by one before it, or by itself in a circle: until nothing is new
    visits, before = {1}, -1
    while before != len(visits):
        before = len(visits)
        for visit in explanation.visits:
            for step in visit.steps if visit.number in visits else ():
                if step.link.kind in (ALTERNATE_EXCHANGE, ALTERNATE_BINDING):
                    continue
                if step.verdict == "delivered":
                    reached.add(step.link.destination)
                elif step.visit is not None:
                    visits.add(step.visit)
    return frozenset(reached)


def _messages(
    explainer: Explainer, topology: Topology, message: Message, queue: str, clock_ms: int, before: frozenset[str]
) -> Iterator[SuggestedMessage]:
    other = Messages(Links(topology, explainer.router.vhost), queue, clock_ms)
    waiting = [(0, message)]
    known = {_identity(message)}
    tried = 0
    while waiting and tried < _MESSAGES:
        steps, one = waiting.pop(0)
        tried += 1
        explained = _explained(explainer, one, queue, clock_ms)
        after = frozenset(explained.queues)
        if queue in after:
            gained, lost = tuple(sorted(after - before - {queue})), tuple(sorted(before - after))
            yield SuggestedMessage(said(message, one), differs(message, one), gained, lost)
        elif steps < _STEPS:
            for changed in other.steps(one, explained):
                if (identity := _identity(changed)) not in known:
                    known.add(identity)
                    waiting.append((steps + 1, changed))


def _identity(message: Message) -> str:
    return json.dumps(message.as_json(), sort_keys=True)
