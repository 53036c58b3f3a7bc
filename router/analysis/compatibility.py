"""Where a compatibility mode decides: bindings, diverts and queue filters that take a message in one reading alone.

For each link messages are made up that a switch may concern: those that its keys, header criteria and filters ask for,
with values that some broker takes for equal. They are routed under the specification and under the mode. A finding has
such a message; what has none is not reported, which is no proof that the mode changes nothing.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from bindery.router.analysis.finding import Report, Subject, subject_of
from bindery.router.columns import Ref
from bindery.router.compat import mode_named, switches_of
from bindery.router.engine import Deliveries, Router
from bindery.router.equality import equality_under
from bindery.router.errors import FilterError
from bindery.router.exchanges.headers import Criteria
from bindery.router.filters import Filter
from bindery.router.filters.ast import Field, Literal, walk
from bindery.router.links import Links
from bindery.router.message import Message, to_batch
from bindery.router.model import Binding, Divert, Queue, Topology
from bindery.router.suggestions.keys import fitted
from bindery.router.suggestions.values import accepted, with_value
from bindery.router.values import Table, Timestamp, Value

#: Messages that are made up for one link, those of one batch, and those of one vhost and mode.
_PER_LINK: Final = 400
_BATCH: Final = 20_000
_MOST: Final = 200_000
#: Fields of a filter of which values are combined.
_FIELDS: Final = 4
Link = Binding | Divert | Queue


@dataclass(frozen=True, slots=True)
class _Readings:
    """One vhost in two readings."""

    mode: str
    plain: Links
    under: Links


def check(topology: Topology, vhost: str, mode: str, report: Report) -> None:
    """Report the links of a vhost of which the outcome depends on a mode: under it, and by the specification.

    Exchanges and queues that state a mode of their own keep it in both. Raises NotFound, and InvalidDeclaration for a
    mode that is none.
    """
    mode_named(mode)
    topology.vhost(vhost)
    unreadable = dict(_unreadable(topology, vhost, mode))
    for subject, why in unreadable.items():
        report.add("BT191", subject, f"cannot be read under {mode}: {why}")
    kept = _without(topology, unreadable)
    readings = _Readings(mode, Links(_read(kept, vhost, None), vhost), Links(_read(kept, vhost, mode), vhost))
    routers = [Router.compile(links.topology, vhost) for links in (readings.plain, readings.under)]
    known: set[Subject] = set()
    made_up = _made_up(readings)
    for batch in _batches(itertools.islice(made_up, _MOST)):
        for subject, said in _differing(batch, routers, mode):
            if subject not in known:
                known.add(subject)
                report.add("BT190", subject, said)
    if next(made_up, None) is not None:
        said = f"what depends on {mode} was looked for with {_MOST:,} messages; there are more to try"
        report.add("BT199", subject_of(topology.vhosts[vhost]), said)


def _read(topology: Topology, vhost: str, mode: str | None) -> Topology:
    """The topology under a mode. Messages may be published to every exchange: what is internal is reached by others."""
    read: dict[str, Any] = {
        "vhosts": {**topology.vhosts, vhost: replace(topology.vhosts[vhost], compat=mode)},
        "exchanges": {key: replace(exchange, internal=False) for key, exchange in topology.exchanges.items()},
    }
    return replace(topology, **read)


def _unreadable(topology: Topology, vhost: str, mode: str) -> Iterator[tuple[Subject, str]]:
    """Links with a filter that the language of a mode does not have."""
    links = Links(_read(topology, vhost, mode), vhost)
    for link in _links(links):
        try:
            _filters(links, link)
        except FilterError as error:
            yield subject_of(link), error.message


def _links(links: Links) -> list[Link]:
    return [*links.bindings, *links.diverts, *links.queues.values()]


def _filters(links: Links, link: Link) -> list[Filter]:
    if isinstance(link, Queue):
        own = links.queue_filter(link)
        return [] if own is None else [own]
    return list(links.filters(link).values())


def _without(topology: Topology, gone: Iterable[Subject]) -> Topology:
    """The topology without links that cannot be read; queues lose their filter."""
    known = set(gone)
    if not known:
        return topology
    objects = []
    for item in topology.objects():
        if isinstance(item, Binding | Divert) and subject_of(item) in known:
            continue
        if isinstance(item, Queue) and subject_of(item) in known:
            arguments = {name: value for name, value in item.arguments.items() if name != "x-queue-filter"}
            item = replace(item, arguments=Table(arguments))  # noqa: PLW2901  # the same queue
        objects.append(item)
    return Topology.of(objects, version=topology.version)


# -- routing them -------------------------------------------------------------------------------------------


def _batches(made_up: Iterable[tuple[Link, Message]]) -> Iterator[list[tuple[Link, Message]]]:
    found = iter(made_up)
    while batch := list(itertools.islice(found, _BATCH)):
        yield batch


def _differing(batch: list[tuple[Link, Message]], routers: list[Router], mode: str) -> Iterator[tuple[Subject, str]]:
    """The links for which a message of the batch goes elsewhere, and which."""
    rows = to_batch([message for _, message in batch])
    plain, under = (_outcomes(router, router.route(rows, clock_ms=0)) for router in routers)
    for (link, message), (queues, ids), (queues_there, ids_there) in zip(batch, plain, under, strict=True):
        # of a binding or divert its own part must differ: another link may be what decides
        decides = isinstance(link, Queue) or (link.id in ids) != (link.id in ids_there)
        if queues != queues_there and decides:
            goes, there = _goes(queues), _goes(queues_there)
            yield subject_of(link), f"{_shown(message)} {there} under {mode}, {goes} by the specification"


def _outcomes(router: Router, found: Deliveries) -> list[tuple[frozenset[str], frozenset[int]]]:
    lineages = found.lineage.to_pylist()
    queues: list[set[str]] = [set() for _ in lineages]
    for number in found.queue.tolist():
        for row in found.rows_of(number).tolist():
            queues[row].add(router.queues[number])
    return [(frozenset(names), frozenset(ids)) for names, ids in zip(queues, lineages, strict=True)]


def _goes(queues: frozenset[str]) -> str:
    return f"goes to {', '.join(sorted(queues))}" if queues else "goes to no queue"


def _shown(message: Message) -> str:
    return json.dumps(message.as_json(), ensure_ascii=False, sort_keys=True)


# -- messages that are made up ------------------------------------------------------------------------------


def _made_up(readings: _Readings) -> Iterator[tuple[Link, Message]]:
    links = readings.plain
    for link in _links(links):
        filters = _filters(links, link)
        if not filters and not (isinstance(link, Binding) and _asks(readings, link)):
            continue
        bases = list(itertools.islice(_bases(readings, link), _PER_LINK))
        seen = (message for base in bases[:2] for message in _around(base, filters)) if filters else iter(bases)
        yield from ((link, message) for message in itertools.islice(seen, _PER_LINK))


def _asks(readings: _Readings, binding: Binding) -> bool:
    """Whether the match of a binding may depend on a mode."""
    kind = readings.plain.exchanges[binding.source].type
    return kind == "headers" or (kind == "topic" and any(name.startswith("topic-") for name in _switches(readings)))


def _switches(readings: _Readings) -> frozenset[str]:
    return switches_of(readings.mode)


def _bases(readings: _Readings, link: Link) -> Iterator[Message]:
    """Messages that meet a link but for its filters, or nearly do."""
    links = readings.plain
    if isinstance(link, Queue):
        yield Message(exchange="", routing_key=link.name)
        return
    if isinstance(link, Divert):
        yield Message(exchange=link.source)
        return
    plain = Message(exchange=link.source, routing_key=link.routing_key)
    match links.exchanges[link.source].type:
        case "topic":
            for key in _keys(link.routing_key):
                yield replace(plain, routing_key=key)
        case "headers":
            yield from _headers(readings, link, replace(plain, routing_key=""))
        case _:
            yield plain


def _keys(pattern: str) -> Iterator[str]:
    """Keys near a pattern, with and without empty words at the end."""
    key = fitted(pattern, "a")
    yield from dict.fromkeys((key, f"{key}.", key.rstrip("."), f"{key}..", "", "."))


def _headers(readings: _Readings, binding: Binding, plain: Message) -> Iterator[Message]:
    """Messages with the headers that a binding asks for, each in turn with a value that may be equal, too."""
    asked: Criteria = readings.plain.type_of(binding).asked(binding)
    equality = equality_under(_switches(readings))
    named = {name: value for name, value in asked.compared.items() if isinstance(name, str)}
    held: dict[str, Value] = {name: 1 if value is None else value for name, value in named.items()}
    yield replace(plain, application_properties=Table(held))
    yield plain
    for name, value in named.items():
        for other in (*equality.alike(value), *_turned(value), 5):
            yield replace(plain, application_properties=Table({**held, name: other}))
            yield replace(plain, application_properties=Table({name: other}))
    for name in held:
        yield replace(plain, application_properties=Table({key: one for key, one in held.items() if key != name}))


def _turned(value: Value) -> Iterator[Value]:
    """A map with its entries the other way round, and an empty one for an empty list."""
    if isinstance(value, Table):
        yield Table(dict(reversed(list(value.items())))) if value else ()
    if value == ():
        yield Table()


def _around(base: Message, filters: list[Filter]) -> Iterator[Message]:
    """Messages with values that the constants of filters suggest, those that they all but accept first."""
    fitting = base
    for one in filters:
        fitting = accepted(one, fitting, clock_ms=0) or fitting
    yield fitting
    nodes = [node for one in filters for node in walk(one.expression)]
    refs = list(dict.fromkeys(node.ref for node in nodes if isinstance(node, Field)))
    values: list[Value] = list(_near(node.value for node in nodes if isinstance(node, Literal)))
    for ref in refs:
        yield from _with(fitting, {ref: values})
    if len(refs) > 1:
        yield from _with(base, dict.fromkeys(refs[:_FIELDS], values))


def _with(message: Message, values: dict[Ref, list[Value]]) -> Iterator[Message]:
    for chosen in itertools.product(*values.values()):
        changed: Message | None = message
        for ref, value in zip(values, chosen, strict=True):
            changed = None if changed is None else with_value(changed, ref, value)
        if changed is not None:
            yield changed


def _near(constants: Iterable[Value]) -> Iterator[Value]:
    """No value, values of every family, and those that constants are, in families that brokers mix."""
    found: dict[str, Value] = {}
    always: tuple[Value, ...] = (None, 5, "x", True, False)
    for value in always:
        found.setdefault(repr(value), value)
    for value in constants:
        for near in _families(value):
            found.setdefault(repr(near), near)
    yield from found.values()


def _families(value: Value) -> Iterator[Value]:
    yield value
    match value:
        case bool():
            yield not value
        case int():
            yield from (value + 1, float(value), Timestamp(value)) if abs(value) < 2**53 else ()
            yield 2 * value + 1 if abs(value) < 2**53 else 1
        case float() if value.is_integer() and abs(value) < 2**53:
            yield int(value)
        case float() if (2 * value).is_integer() and abs(value) < 2**53:
            yield int(2 * value)
        case str():
            yield value.encode("utf-8", "surrogatepass")
        case bytes():
            yield value.decode("utf-8", "replace")
