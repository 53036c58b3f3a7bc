"""Why a message did not come to a queue: the ways that lead there, and where each of them ended.

Ways are followed backwards from the queue to the exchanges that the message visited. On each way the link
that leaves the last visited exchange is the one that was not taken, and what stopped it is the cause.
"""

from __future__ import annotations

import difflib
from collections import deque
from collections.abc import Iterator
from typing import Final, Literal

from bindery.router.explain.near import Miss, direct_miss, headers_miss, topic_miss
from bindery.router.explain.record import Cause, FilterVerdict, Link, Step, Visit, WhyNot
from bindery.router.explain.trace import RowTrace, Ways
from bindery.router.model import Topology
from bindery.router.policies import Policies

#: Causes that an answer lists, nearest first.
LISTED: Final = 5
#: Links that are looked at on the way back from a queue.
MAX_LINKS: Final = 20_000

#: How near a cause is: what was stopped last comes first.
_NEARNESS: Final = (
    "queue-filter",
    "filter",
    "exclusive-divert",
    "headers",
    "key",
    "alternate-not-used",
    "exchange-not-reached",
    "nothing-leads-here",
    "no-exchange",
    "internal-exchange",
)


class Inbound:
    """The links of a vhost by their destination."""

    def __init__(self, topology: Topology, ways: Ways) -> None:
        self._ways = ways
        self._diverts: dict[str, list[Link]] = {}
        self._alternates: dict[tuple[str, str], list[Link]] = {}
        vhost, policies = ways.vhost, Policies(topology)
        for divert in topology.diverts.values():
            if divert.vhost == vhost:
                self._diverts.setdefault(divert.destination, []).append(ways.divert(divert))
        for exchange in topology.exchanges.values():
            if exchange.vhost != vhost:
                continue
            named = (
                ("alternate-exchange", policies.alternate_exchange(exchange)),
                ("alternate-binding", exchange.alternate_binding),
            )
            for kind, target in named:
                if target is not None:
                    link = ways.alternate(kind, exchange.name, target)  # type: ignore[arg-type]  # the two kinds
                    self._alternates.setdefault((link.destination_type, target), []).append(link)

    def to(self, kind: Literal["queue", "exchange"], name: str) -> Iterator[Link]:
        """The links that lead to a queue or exchange; the default exchange's binding of a queue stands last."""
        ways = self._ways
        for binding in ways.topology.bindings_to(ways.vhost, kind, name):
            yield ways.binding(binding)
        if kind == "exchange":
            yield from self._diverts.get(name, ())
        yield from self._alternates.get((kind, name), ())
        if kind == "queue":
            yield ways.implicit(name)


def why_not(queue: str, trace: RowTrace, inbound: Inbound, *, reached: bool) -> WhyNot:
    """Why the message of a trace did not come to a queue; without causes when it did."""
    if reached:
        return WhyNot(queue, reached=True)
    causes = sorted(_causes(queue, trace, inbound), key=_order)
    return WhyNot(queue, reached=False, causes=tuple(causes[:LISTED]), further=max(0, len(causes) - LISTED))


def _order(cause: Cause) -> tuple[int, int, float, int]:
    share = cause.matched / cause.asked if cause.asked else 0.0
    # a way of one link is nearer than one over further exchanges
    return len(cause.path), _NEARNESS.index(cause.kind), -share, -cause.asked


def _causes(queue: str, trace: RowTrace, inbound: Inbound) -> Iterator[Cause]:
    refused = _not_accepted(trace)
    if refused is not None:
        yield refused
        return
    visits: dict[str, list[Visit]] = {}
    for visit in trace.visits:
        visits.setdefault(visit.exchange, []).append(visit)
    # the default exchange is a way for a message that was published to it, and for no other
    paths: deque[tuple[Link, ...]] = deque(
        (link,) for link in inbound.to("queue", queue) if link.source or "" in visits
    )
    if not paths:
        yield Cause(
            "nothing-leads-here",
            f"nothing leads to queue {queue!r} but the default exchange, and the message was published to "
            f"{trace.message.exchange!r}",
        )
    seen: set[str] = set()
    unvisited: list[tuple[Link, ...]] = []
    found = False
    for _ in range(MAX_LINKS):
        if not paths:
            break
        path = paths.popleft()
        source = path[0].source
        if source in visits:
            found = True
            for visit in visits[source]:
                yield _at(visit, path, trace)
        elif source not in seen:
            seen.add(source)
            further = list(inbound.to("exchange", source))
            paths.extend((link, *path) for link in further)
            if not further or all(link.source in seen for link in further):
                unvisited.append(path)
    for path in unvisited if not found else ():
        yield _never_there(path, trace.message.exchange)


def _not_accepted(trace: RowTrace) -> Cause | None:
    """Why a message was never evaluated at all, if so."""
    ways, name = trace.tracer.ways, trace.message.exchange
    if trace.visits:
        return None
    exchange = ways.topology.exchanges.get((ways.vhost, name))
    if exchange is not None:
        return Cause("internal-exchange", f"exchange {name!r} is internal: nobody may publish to it")
    known = [other for vhost, other in ways.topology.exchanges if vhost == ways.vhost]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return Cause("no-exchange", f"there is no exchange {name!r}{hint}")


def _never_there(path: tuple[Link, ...], published_to: str) -> Cause:
    source = path[0].source
    return Cause(
        "exchange-not-reached",
        f"the message was published to exchange {published_to!r}, from which nothing leads to exchange {source!r}",
        path,
    )


def _at(visit: Visit, path: tuple[Link, ...], trace: RowTrace) -> Cause:
    """What stopped the first link of a path at a visited exchange."""
    link = path[0]
    step = trace.step(visit, link)
    if step is not None and step.verdict in ("filter", "queue-filter"):
        failed = tuple(verdict for verdict in step.filters if verdict.result is not True)
        return Cause(step.verdict, _says(step, failed), path, visit.number, failed)
    if visit.not_evaluated or step is not None:
        return _diverted(visit, path)
    if link.kind in ("alternate-exchange", "alternate-binding"):
        return Cause(
            "alternate-not-used",
            f"exchange {link.source!r} led the message elsewhere, so its {link.kind} was not used",
            path,
            visit.number,
        )
    miss = _miss(visit, link, trace)
    kind: Literal["headers", "key"] = "headers" if visit.type == "headers" else "key"
    also = tuple(verdict for verdict in trace.filters_of(link) if verdict.result is not True)
    message = miss.message + (f"; its filter would not pass either: {_blame(also)}" if also else "")
    return Cause(kind, message, path, visit.number, also, matched=miss.matched, asked=miss.asked)


def _diverted(visit: Visit, path: tuple[Link, ...]) -> Cause:
    taker = next(step.link for step in visit.steps if step.link.exclusive and step.verdict == "forwarded")
    return Cause(
        "exclusive-divert",
        f"the exclusive divert {taker.name!r} took the message to exchange {taker.destination!r}",
        path,
        visit.number,
        divert=taker,
    )


def _miss(visit: Visit, link: Link, trace: RowTrace) -> Miss:
    ways = trace.tracer.ways
    if visit.type == "headers" and link.id:
        return headers_miss(ways.topology.bindings[link.id].arguments, trace.message.application_properties)
    compare = topic_miss if visit.type == "topic" else direct_miss
    return compare(link.routing_key or "", visit.keys)


def _says(step: Step, failed: tuple[FilterVerdict, ...]) -> str:
    link = step.link
    if step.verdict == "queue-filter":
        what = f"queue {link.destination!r}"
    else:
        what = f"divert {link.name!r}" if link.kind == "divert" else f"binding {link.id} [{link.routing_key}]"
    return f"{what}: {_blame(failed)}"


def _blame(failed: tuple[FilterVerdict, ...]) -> str:
    return "; ".join(culprit.message for verdict in failed for culprit in verdict.culprits)
