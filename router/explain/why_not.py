"""Why a message did not come to a queue: the ways that lead there, and where each of them ended.

Ways are followed backwards from the queue to the exchanges that the message visited. On each way the link
that leaves the last visited exchange is the one that was not taken, and what stopped it is the cause.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, Literal

from bindery.router.explain.record import Cause, FilterVerdict, Step, Visit, WhyNot
from bindery.router.explain.record import Link as Named
from bindery.router.explain.trace import RowTrace
from bindery.router.links import Alternate, Link
from bindery.router.model import Binding
from bindery.router.spelling import did_you_mean, nearest

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
    "hash",
    "alternate-not-used",
    "exchange-not-reached",
    "nothing-leads-here",
    "no-exchange",
    "internal-exchange",
)

_Path = tuple[Link, ...]


def why_not(queue: str, trace: RowTrace, *, reached: bool) -> WhyNot:
    """Why the message of a trace did not come to a queue; without causes when it did."""
    if reached:
        return WhyNot(queue, reached=True)
    causes = sorted(_causes(queue, trace), key=_order)
    return WhyNot(queue, reached=False, causes=tuple(causes[:LISTED]), further=max(0, len(causes) - LISTED))


def _order(cause: Cause) -> tuple[int, int, float, int]:
    share = cause.matched / cause.asked if cause.asked else 0.0
    # a way of one link is nearer than one over further exchanges
    return len(cause.path), _NEARNESS.index(cause.kind), -share, -cause.asked


def _causes(queue: str, trace: RowTrace) -> Iterator[Cause]:
    refused = _not_accepted(trace)
    if refused is not None:
        yield refused
        return
    visits: dict[str, list[Visit]] = {}
    for visit in trace.visits:
        visits.setdefault(visit.exchange, []).append(visit)
    links = trace.tracer.links
    # the default exchange is a way for a message that was published to it, and for no other
    paths: deque[_Path] = deque((link,) for link in links.entering("queue", queue) if link.source or "" in visits)
    if not paths:
        yield Cause(
            "nothing-leads-here",
            f"nothing leads to queue {queue!r} but the default exchange, and the message was published to "
            f"{trace.message.exchange!r}",
        )
    seen: set[str] = set()
    unvisited: list[_Path] = []
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
            further = links.entering("exchange", source)
            paths.extend((link, *path) for link in further)
            if not further or all(link.source in seen for link in further):
                unvisited.append(path)
    for path in unvisited if not found else ():
        yield _never_there(path, trace.message.exchange)


def _not_accepted(trace: RowTrace) -> Cause | None:
    """Why a message was never evaluated at all, if so."""
    exchanges, name = trace.tracer.links.exchanges, trace.message.exchange
    if trace.visits:
        return None
    if name in exchanges:
        return Cause("internal-exchange", f"exchange {name!r} is internal: nobody may publish to it")
    near = nearest(name, exchanges)
    hint = did_you_mean(near, before="; ")
    return Cause("no-exchange", f"there is no exchange {name!r}{hint}")


def _never_there(path: _Path, published_to: str) -> Cause:
    source = path[0].source
    return Cause(
        "exchange-not-reached",
        f"the message was published to exchange {published_to!r}, from which nothing leads to exchange {source!r}",
        _named(path),
    )


def _at(visit: Visit, path: _Path, trace: RowTrace) -> Cause:
    """What stopped the first link of a path at a visited exchange."""
    link, named = path[0], _named(path)
    step = trace.step(visit, link)
    if step is not None and step.verdict in ("filter", "queue-filter"):
        failed = tuple(verdict for verdict in step.filters if verdict.result is not True)
        return Cause(step.verdict, _says(step, failed), named, visit.number, failed)
    if visit.not_evaluated or step is not None:
        return _diverted(visit, named)
    if isinstance(link, Alternate):
        return Cause(
            "alternate-not-used",
            f"exchange {link.source!r} led the message elsewhere, so its {link.kind} was not used",
            named,
            visit.number,
        )
    assert isinstance(link, Binding)  # noqa: S101  # every divert is a step
    exchange_type = trace.tracer.links.type_of(link)
    miss = exchange_type.miss(link, visit.keys, trace.message_at(visit))
    assert miss is not None  # noqa: S101  # what matches is a step
    kind: Literal["headers", "hash", "key"] = (
        "headers" if exchange_type.reads_headers else "hash" if exchange_type.reads_hash else "key"
    )
    also = tuple(verdict for verdict in trace.filters_of(link, visit) if verdict.result is not True)
    message = miss.message + (f"; its filter would not pass either: {_blame(also)}" if also else "")
    return Cause(kind, message, named, visit.number, also, matched=miss.matched, asked=miss.asked)


def _diverted(visit: Visit, path: tuple[Named, ...]) -> Cause:
    taker = next(step.link for step in visit.steps if step.link.exclusive and step.verdict == "forwarded")
    return Cause(
        "exclusive-divert",
        f"the exclusive divert {taker.name!r} took the message to exchange {taker.destination!r}",
        path,
        visit.number,
        divert=taker,
    )


def _named(path: _Path) -> tuple[Named, ...]:
    return tuple(map(Named.of, path))


def _says(step: Step, failed: tuple[FilterVerdict, ...]) -> str:
    link = step.link
    if step.verdict == "queue-filter":
        what = f"queue {link.destination!r}"
    else:
        what = f"divert {link.name!r}" if link.kind == "divert" else f"binding {link.id} [{link.routing_key}]"
    return f"{what}: {_blame(failed)}"


def _blame(failed: tuple[FilterVerdict, ...]) -> str:
    return "; ".join(culprit.message for verdict in failed for culprit in verdict.culprits)
