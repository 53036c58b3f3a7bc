"""The exchanges of a vhost as a graph: what can lead a message from one to the next.

Links that can never be taken (a filter that is never true, "any of nothing", a source whose exclusive divert takes
everything) are known and left out.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain

from bindery.router.analysis.finding import Subject, subject_of
from bindery.router.analysis.verdicts import Verdicts
from bindery.router.links import Alternate, Link, Links
from bindery.router.model import ALTERNATE_EXCHANGE, Binding, Divert


def subject_of_link(link: Link) -> Subject:
    """The subject that stands for a link: of an alternate, the exchange that names it."""
    return Subject("exchange", link.vhost, link.source) if isinstance(link, Alternate) else subject_of(link)


class Graph:
    """Live links of one vhost, what is reached along them, and where they run in circles."""

    def __init__(self, links: Links, verdicts: Verdicts) -> None:
        self.links = links
        self.verdicts = verdicts

    @cached_property
    def takers(self) -> dict[str, Divert]:
        """By source, an exclusive divert that takes every message."""
        return {
            divert.source: divert
            for divert in reversed(self.links.diverts)
            if divert.exclusive and self.verdicts.divert(divert) is True
        }

    def is_live(self, link: Link) -> bool:
        """Whether some message at the source can take the link."""
        match link:
            case Alternate():
                unused = link.kind == ALTERNATE_EXCHANGE and link.source in self.served
                return link.destination_type is not None and not unused
            case Divert():
                return self.verdicts.divert(link) is not False and (link.exclusive or link.source not in self.takers)
        kind = self.links.type_of(link)
        return (
            link.source not in self.takers
            and self.verdicts.binding(link) is not False
            and not kind.never(kind.asked(link))
        )

    def always_matches(self, binding: Binding) -> bool:
        """Whether every message at the source takes the binding."""
        kind = self.links.type_of(binding)
        return self.verdicts.binding(binding) is True and kind.always(kind.asked(binding))

    @cached_property
    def served(self) -> dict[str, Binding | Divert]:
        """By source, a binding or exclusive divert that every message takes: no alternate-exchange there."""
        found: dict[str, Binding | Divert] = dict(self.takers)
        for binding in self.links.bindings:
            if binding.source not in found and self.always_matches(binding):
                found[binding.source] = binding
        return found

    @cached_property
    def live(self) -> dict[str, list[Link]]:
        """Live links by source exchange."""
        found: dict[str, list[Link]] = defaultdict(list)
        every: Iterable[Link] = chain[Link](self.links.bindings, self.links.diverts, self.links.alternates.values())
        for link in every:
            if self.is_live(link):
                found[link.source].append(link)
        return found

    @cached_property
    def reached(self) -> set[str]:
        """Exchanges that some message can come to: published there, or led there."""
        published = (name for name, exchange in self.links.exchanges.items() if not exchange.internal)
        return self._closure(published, self._successors)

    @cached_property
    def reached_queues(self) -> set[str]:
        """Queues that a live link from a reached exchange leads to."""
        links = chain.from_iterable(self.live.get(name, ()) for name in self.reached)
        return {link.destination for link in links if link.destination_type == "queue"}

    @cached_property
    def delivering(self) -> set[str]:
        """Exchanges from which some queue can be reached."""
        into: dict[str, list[str]] = defaultdict(list)
        seeds: set[str] = set()
        for link in chain.from_iterable(self.live.values()):
            if link.destination_type == "queue":
                seeds.add(link.source)
            else:
                into[link.destination].append(link.source)
        return self._closure(seeds, into)

    @cached_property
    def _successors(self) -> dict[str, list[str]]:
        return {
            source: [link.destination for link in links if link.destination_type == "exchange"]
            for source, links in self.live.items()
        }

    @staticmethod
    def _closure(start: Iterable[str], successors: Mapping[str, list[str]]) -> set[str]:
        seen = set(start)
        pending = list(seen)
        while pending:
            for target in successors.get(pending.pop(), ()):
                if target not in seen:
                    seen.add(target)
                    pending.append(target)
        return seen

    def circles(self) -> Iterator[list[Link]]:
        """One circle per strongly connected part and kind of link in it, as its links in order."""
        part = _components(self._successors)
        inner: dict[int, list[Link]] = defaultdict(list)
        for link in chain.from_iterable(self.live.values()):
            if link.destination_type == "exchange" and part[link.source] == part[link.destination]:
                inner[part[link.source]].append(link)
        for links in inner.values():
            successors: dict[str, list[Link]] = defaultdict(list)
            for link in links:
                successors[link.source].append(link)
            first_of_kind = {type(link): link for link in reversed(links)}
            for link in first_of_kind.values():
                yield [link, *_path(successors, link.destination, link.source)]


def _path(successors: Mapping[str, list[Link]], start: str, goal: str) -> list[Link]:
    """The shortest way from one exchange to another of the same part."""
    came: dict[str, Link | None] = {start: None}
    pending = deque([start])
    while goal not in came:
        for link in successors[pending.popleft()]:
            if link.destination not in came:
                came[link.destination] = link
                pending.append(link.destination)
    steps: list[Link] = []
    last = came[goal]
    while last is not None:
        steps.append(last)
        last = came[last.source]
    return steps[::-1]


def _components(successors: Mapping[str, list[str]]) -> dict[str, int]:
    """The number of the strongly connected part of each exchange (Tarjan, without recursion)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    part: dict[str, int] = {}
    open_ones: list[str] = []
    for root in successors:
        if root in order:
            continue
        order[root] = low[root] = len(order)
        open_ones.append(root)
        work = [(root, iter(successors[root]))]
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in order:
                    order[target] = low[target] = len(order)
                    open_ones.append(target)
                    work.append((target, iter(successors.get(target, ()))))
                    break
                if target not in part:
                    low[node] = min(low[node], order[target])
            else:
                work.pop()
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[node])
                if low[node] == order[node]:
                    while True:
                        member = open_ones.pop()
                        part[member] = order[node]
                        if member == node:
                            break
    return part
