"""Properties that filters ask for and no recent message has, though one has a name like it.

A binding or divert sees what was published to its source, and to every exchange that leads there; a filter of a queue
what came by the exchanges that lead to the queue. So names are known by the exchange that messages were published to.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

from bindery.router.analysis.finding import Report, subject_of
from bindery.router.analysis.verdicts import Read, Verdicts
from bindery.router.filters.ast import Field, Node, walk
from bindery.router.links import Link, Links
from bindery.router.model import Binding, Divert, Queue
from bindery.router.spelling import alike
from bindery.router.transforms import Remove, Rename, Transformation


@dataclass(frozen=True, slots=True)
class SeenNames:
    """How many rows were looked at, and how many of them have each application property."""

    rows: int = 0
    names: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, parts: Iterable[SeenNames]) -> SeenNames:
        """What several parts are together."""
        names: Counter[str] = Counter()
        rows = 0
        for part in parts:
            names.update(part.names)
            rows += part.rows
        return cls(rows, names)


def check(links: Links, verdicts: Verdicts, report: Report, seen: Mapping[str, SeenNames]) -> None:
    """BT175: one finding for each such name of each filter."""
    names = _Names(links, seen)
    for binding in links.bindings:
        _remark(binding, verdicts.of_binding(binding), names.at((binding.source,)), report)
    for divert in links.diverts:
        _remark(divert, verdicts.of_divert(divert), names.at((divert.source,)), report)
    for queue in links.queues.values():
        read = verdicts.of_queue(queue)
        if read.filters:
            _remark(queue, read, names.at(names.sources_of(queue.name)), report)


def _remark(item: Binding | Divert | Queue, read: Read, seen: SeenNames, report: Report) -> None:
    if not read.filters:
        return
    for said in misspelt_names(read.conditions, seen):
        report.add("BT175", subject_of(item), said)


def misspelt_names(conditions: Iterable[Node], seen: SeenNames) -> Iterator[str]:
    """Of each property that is asked for and that no row has, what it was meant to be, where a name is like it."""
    for name in dict.fromkeys(chain.from_iterable(map(_asked, conditions))):
        close = None if name in seen.names else _closest(name, seen.names)
        if close is not None:
            meant = f"did you mean {close} ({seen.names[close]:,} have it)?"
            yield f"none of {seen.rows:,} sampled rows has {name}: {meant}"


def _asked(condition: Node) -> Iterator[str]:
    for node in walk(condition):
        if isinstance(node, Field) and node.ref.section == "application_properties" and node.ref.name is not None:
            yield node.ref.name


def _closest(name: str, known: Mapping[str, int]) -> str | None:
    for other in known:
        if other.lower() == name.lower():
            return other
    return alike(name, known)


def _given(transformation: Transformation) -> Iterator[str]:
    """The application properties that a transformation may give a message."""
    for one in transformation.statements:
        target = one.to if isinstance(one, Rename) else one.target
        if target.section == "application_properties" and not isinstance(one, Remove):
            yield target.name


class _Names:
    """What was seen of messages that can come to an exchange."""

    def __init__(self, links: Links, seen: Mapping[str, SeenNames]) -> None:
        self._seen = seen
        self._known: dict[tuple[str, ...], SeenNames] = {}
        self._before: dict[str, set[str]] = defaultdict(set)
        self._to_queue: dict[str, set[str]] = defaultdict(set)
        changing: list[Link] = [*links.bindings, *links.diverts]
        for link in chain[Link](changing, links.alternates.values()):
            towards = self._to_queue if link.destination_type == "queue" else self._before
            towards[link.destination].add(link.source)
        #: Properties that transformations give messages on their way.
        self._made = dict.fromkeys(
            chain.from_iterable(map(_given, filter(None, map(links.transformation, changing)))), 0
        )

    def sources_of(self, queue: str) -> tuple[str, ...]:
        """The exchanges that lead to a queue, the default exchange among them."""
        return ("", *sorted(self._to_queue[queue]))

    def at(self, exchanges: tuple[str, ...]) -> SeenNames:
        """What was seen of messages that can come to any of those exchanges."""
        found = self._known.get(exchanges)
        if found is None:
            reached, waiting = set(exchanges), list(exchanges)
            while waiting:
                for before in self._before[waiting.pop()] - reached:
                    reached.add(before)
                    waiting.append(before)
            found = SeenNames.of(self._seen[exchange] for exchange in reached & self._seen.keys())
            if self._made:
                found = SeenNames(found.rows, {**self._made, **found.names})
            self._known[exchanges] = found
        return found
