"""Why a filter is not true: the smallest sub-expressions that decided it, with the values that they read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bindery.router.explain.record import Culprit, CulpritKind, FilterVerdict, Read
from bindery.router.filters import Filter, evaluate
from bindery.router.filters.ast import And, Not, Or
from bindery.router.filters.patterns.nodes import AnyElement
from bindery.router.filters.sets.nodes import Accepts
from bindery.router.filters.trace import Trace, trace
from bindery.router.links import Link, Links
from bindery.router.message import Message
from bindery.router.model import QUEUE_FILTER, Queue
from bindery.router.values import encode, shown, type_name

#: Culprits that one filter names.
LISTED: Final = 5


class Judge:
    """Judges the filters that one message met, with the reference evaluator."""

    def __init__(self, message: Message, clock_ms: int, *, detailed: bool = False) -> None:
        """`detailed`: with the value of every part of each filter."""
        self._message = message
        self._clock_ms = clock_ms
        self._detailed = detailed

    def link(self, links: Links, link: Link) -> tuple[FilterVerdict, ...]:
        """The filters on a link, in the order in which they are judged."""
        return tuple(self.verdict(found, name) for name, found in links.filters(link).items())

    def queue(self, links: Links, queue: Queue) -> tuple[FilterVerdict, ...]:
        """The filter of a queue; none when it has none."""
        found = links.queue_filter(queue)
        return () if found is None else (self.verdict(found, QUEUE_FILTER),)

    def verdict(self, filter: Filter, argument: str) -> FilterVerdict:  # what it is
        """One filter's result and, unless it is true, what decided it."""
        result = evaluate(filter, self._message, clock_ms=self._clock_ms)
        culprits: tuple[Culprit, ...] = ()
        tree = None
        if result is not True or self._detailed:
            tree = trace(filter, self._message, clock_ms=self._clock_ms)
        if tree is not None and result is not True:
            blamed = {item.text: item for item in _blamed(tree, True)}
            culprits = tuple(_culprit(item) for item in list(blamed.values())[:LISTED])
        shown_tree = tree if self._detailed else None
        return FilterVerdict(argument, filter.dialect, filter.text, result, culprits, shown_tree)


def _blamed(item: Trace, wanted: bool) -> Iterator[Trace]:
    """The sub-conditions that would have to change for the condition to be `wanted`."""
    match item.node:
        case And() | Or() if item.parts:
            failing = [part for part in item.parts if part.value is not wanted]
            if isinstance(item.node, And) is wanted:
                # what is plainly wrong says more than what is only unknown
                failing = [part for part in failing if part.value is not None] or failing
            for part in failing:
                yield from _blamed(part, wanted)
        case Not():
            yield from _blamed(item.parts[0], not wanted)
        case AnyElement() if len(item.parts) == 1:
            yield from _blamed(item.parts[0], wanted)
        case Accepts() if wanted or item.parts[0].value is True:
            yield from _blamed(item.parts[0], wanted)
        case _:
            yield item


def _culprit(item: Trace) -> Culprit:
    reads = tuple(Read(name, encode(value), type_name(value)) for name, value in item.reads)
    held = [f"{name} is {shown(value)}" for name, value in item.reads if value is not None]
    message = f"{item.text} is {item.shown}" + (f" because {item.why}" if item.cause else "")
    kind: CulpritKind = item.cause or ("true" if item.value is True else "false")
    truth = item.value if isinstance(item.value, bool) else None
    return Culprit(item.text, truth, kind, message + (f": {' and '.join(held)}" if held else ""), reads)
