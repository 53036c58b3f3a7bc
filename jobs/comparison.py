"""What a replay counts: per queue the copies of both topologies, and the first messages that differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bindery.router.explain import Explainer, Explanation
from bindery.router.message import Message, to_batch
from bindery.router.model import Topology

#: Differing messages that are kept per queue and direction, and differences that are explained.
EXAMPLES: Final = 3
EXPLAINED: Final = 60


@dataclass(frozen=True, slots=True, order=True)
class Example:
    """A message that one topology brings to a queue and the other does not."""

    row: str
    topology_version: int
    clock_ms: int
    message: Mapping[str, Any] = field(compare=False)


@dataclass
class Comparison:
    """Counts over messages; copies are one per message and queue.

    before, after, unchanged, gained, lost   queue -> copies
    unroutable_before, unroutable_after      reason -> messages
    files_before, files_after                files that the copies fill: one per queue and writing task
    journaled                                messages that were taken from the journals of their streams
    unexplained                              queue rows that the topology of their time does not lead to their
                                             queue: the message had bcc keys, which queues do not keep
    """

    messages: int = 0
    journaled: int = 0
    before: Counter[str] = field(default_factory=Counter)
    after: Counter[str] = field(default_factory=Counter)
    unchanged: Counter[str] = field(default_factory=Counter)
    gained: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    unroutable_before: Counter[str] = field(default_factory=Counter)
    unroutable_after: Counter[str] = field(default_factory=Counter)
    files_before: int = 0
    files_after: int = 0
    unexplained: int = 0
    examples: dict[tuple[str, str], list[Example]] = field(default_factory=dict)

    def note(self, queue: str, direction: str, found: Iterable[Example]) -> None:
        """Keep the first examples of a difference."""
        kept = self.examples.setdefault((queue, direction), [])
        self.examples[queue, direction] = sorted([*kept, *found])[:EXAMPLES]

    def merge(self, data: Mapping[str, Any]) -> None:
        """Add what a task counted, as `as_result` gives it."""
        self.messages += data["messages"]
        self.journaled += data["journaled"]
        self.files_before += data["files_before"]
        self.files_after += data["files_after"]
        self.unexplained += data["unexplained"]
        for name in _COUNTERS:
            getattr(self, name).update(data[name])
        for queue, direction, found in data["examples"]:
            self.note(queue, direction, (Example(*one) for one in found))

    def as_result(self) -> dict[str, Any]:
        """Plain data for JSON, from a task to the driver."""
        return {
            "messages": self.messages,
            "journaled": self.journaled,
            "files_before": self.files_before,
            "files_after": self.files_after,
            "unexplained": self.unexplained,
            **{name: dict(getattr(self, name)) for name in _COUNTERS},
            "examples": [
                [queue, direction, [[one.row, one.topology_version, one.clock_ms, one.message] for one in found]]
                for (queue, direction), found in self.examples.items()
            ],
        }

    @property
    def queues(self) -> list[str]:
        """Every queue of either topology that got a copy, those that change most first."""
        names = self.before.keys() | self.after.keys()
        return sorted(names, key=lambda name: (-(self.gained[name] + self.lost[name]), name))


_COUNTERS: Final = (
    "before",
    "after",
    "unchanged",
    "gained",
    "lost",
    "unroutable_before",
    "unroutable_after",
)


class Reporter:
    """Explains the examples of a comparison and gives the whole as data."""

    def __init__(self, vhost: str, past: Mapping[int, Topology], proposed: Topology) -> None:
        self._vhost = vhost
        self._past = {version: Explainer(topology, vhost) for version, topology in past.items()}
        self._topologies = past
        self._proposed = Explainer(proposed, vhost)
        self._after = proposed

    def report(self, comparison: Comparison) -> dict[str, Any]:
        """The comparison as JSON-ready data, its examples explained (at most EXPLAINED of them)."""
        budget = EXPLAINED
        queues = []
        for name in comparison.queues:
            entry: dict[str, Any] = {"queue": name}
            entry |= {field: getattr(comparison, field)[name] for field in _COUNTERS[:5]}
            entry["examples"] = []
            for direction in ("gained", "lost"):
                for one in comparison.examples.get((name, direction), ()):
                    if budget:
                        budget -= 1
                        entry["examples"].append(self.example(name, direction, one))
            queues.append(entry)
        before, after = comparison.unroutable_before, comparison.unroutable_after
        return {
            "vhost": self._vhost,
            "messages": comparison.messages,
            "from_journals": comparison.journaled,
            "copies": {"before": comparison.before.total(), "after": comparison.after.total()},
            "changed": {"gained": comparison.gained.total(), "lost": comparison.lost.total()},
            "unroutable": {
                "before": dict(sorted(before.items())),
                "after": dict(sorted(after.items())),
                "change": after.total() - before.total(),
            },
            "files": {"before": comparison.files_before, "after": comparison.files_after},
            "unexplained_copies": comparison.unexplained,
            "queues": queues,
        }

    def example(self, queue: str, direction: str, one: Example) -> dict[str, Any]:
        """Why a message goes to a queue by one topology, and why not by the other."""
        gained = direction == "gained"
        past = self._past.get(one.topology_version)
        return {
            "direction": direction,
            "row": one.row,
            "message": dict(one.message),
            "because": self._brought(past if not gained else self._proposed, queue, one),
            "not_because": self._missed(past if gained else self._proposed, queue, one),
        }

    def _brought(self, explainer: Explainer | None, queue: str, one: Example) -> list[str]:
        """The links that bring a message to a queue."""
        explanation = self._explained(explainer, one, ())
        steps = () if explanation is None else (step for visit in explanation.visits for step in visit.steps)
        return [
            f"{step.link.kind} {'' if step.link.id is None else step.link.id} from {step.link.source!r} "
            f"[{step.link.routing_key or ''}]"
            for step in steps
            if step.verdict == "delivered" and step.link.destination == queue
        ]

    def _missed(self, explainer: Explainer | None, queue: str, one: Example) -> list[str]:
        """Why a topology does not bring a message to a queue."""
        topology = self._after if explainer is self._proposed else self._topologies.get(one.topology_version)
        if topology is not None and (self._vhost, queue) not in topology.queues:
            return [f"there is no queue {queue!r}"]
        explanation = self._explained(explainer, one, (queue,))
        return [] if explanation is None else [cause.message for cause in explanation.why_not[0].causes]

    @staticmethod
    def _explained(explainer: Explainer | None, one: Example, queues: tuple[str, ...]) -> Explanation | None:
        if explainer is None:
            return None
        batch = to_batch([Message.from_json(one.message)])
        (found,) = explainer.explain(batch, clock_ms=one.clock_ms, queues=queues)
        return found
