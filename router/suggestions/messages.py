"""How a message would have to differ to come to a queue: one step after the other, from what explain says stops it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from bindery.router.columns import Ref
from bindery.router.exchanges.headers import Criteria
from bindery.router.explain import Cause, Explanation
from bindery.router.filters import Filter
from bindery.router.links import Links
from bindery.router.message import Message
from bindery.router.model import Binding, Divert
from bindery.router.spelling import nearest
from bindery.router.suggestions.keys import fitted
from bindery.router.suggestions.values import accepted, with_value
from bindery.router.values import Value

#: What a header is that has to be there, whatever its value.
_SOMETHING: Final = "any"


class Messages:
    """Steps from a message, under one topology, to one queue."""

    def __init__(self, links: Links, queue: str, clock_ms: int) -> None:
        self._links = links
        self._queue = links.queues[queue]
        self._clock_ms = clock_ms

    def steps(self, message: Message, explanation: Explanation) -> Iterator[Message]:
        """Messages that may come to the queue, or nearer to it; whether one does, routing says."""
        (answer,) = explanation.why_not
        for cause in answer.causes:
            yield from self._of_cause(cause, message, explanation)

    def _of_cause(self, cause: Cause, message: Message, explanation: Explanation) -> Iterator[Message]:
        match cause.kind:
            case "no-exchange":
                near = nearest(message.exchange, self._links.exchanges)
                if near:
                    yield replace(message, exchange=near)
                yield from self._published_where_it_leads(message)
            case "internal-exchange" | "nothing-leads-here" | "exchange-not-reached":
                yield from self._published_where_it_leads(message)
            case "queue-filter":
                yield from self._accepted(self._links.queue_filter(self._queue), message)
            case "filter":
                link = self._link(cause)
                if link is not None:
                    for found in self._links.filters(link).values():
                        message = next(self._accepted(found, message), message)
                    yield message
            case "key" | "headers":
                yield from self._matching(cause, message, explanation)

    def _published_where_it_leads(self, message: Message) -> Iterator[Message]:
        """The message as published to an exchange that leads to the queue, the default one last."""
        sources = dict.fromkeys(link.source for link in self._links.entering("queue", self._queue.name))
        for source in sources:
            if not self._links.exchanges[source].internal and source != message.exchange:
                key = message.routing_key if source else self._queue.name
                yield replace(message, exchange=source, routing_key=key)

    def _link(self, cause: Cause) -> Binding | Divert | None:
        named = cause.path[0]
        if named.kind == "divert":
            return self._links.topology.divert(self._links.vhost, named.name)
        return self._links.topology.bindings.get(named.id or 0)

    def _accepted(self, filter: Filter | None, message: Message) -> Iterator[Message]:
        found = None if filter is None else accepted(filter, message, clock_ms=self._clock_ms)
        if found is not None:
            yield found

    def _matching(self, cause: Cause, message: Message, explanation: Explanation) -> Iterator[Message]:
        if cause.path[0].source == "":
            yield replace(message, routing_key=self._queue.name)
            return
        link = self._link(cause)
        if not isinstance(link, Binding):
            return
        exchange_type = self._links.type_of(link)
        if exchange_type.reads_headers:
            yield from _with_headers(message, exchange_type.asked(link))
        elif self._links.exchanges[link.source].type == "topic":
            yield replace(message, routing_key=fitted(link.routing_key, message.routing_key))
        else:
            yield replace(message, routing_key=link.routing_key)


def _with_headers(message: Message, asked: Criteria) -> Iterator[Message]:
    """The message with the headers that are asked for, or with one of them where any will do."""
    wanted = [(name, value) for name, value in asked.compared.items() if isinstance(name, str)]
    for name, value in wanted if asked.form == "all" else wanted[:1]:
        held = message.application_properties
        there = name in held and (value is None or held[name] == value)
        changed = None if there else with_value(message, Ref("application_properties", name), _given(value))
        message = changed or message
    yield message


def _given(value: Value) -> Value:
    return _SOMETHING if value is None else value


def differs(before: Message, after: Message) -> dict[str, Any]:
    """The parts of a message's JSON form that replace those of another; a part that is gone is empty."""
    one, other = before.as_json(), after.as_json()
    return {key: other.get(key, {}) for key in (one | other) if one.get(key) != other.get(key)}


def said(before: Message, after: Message) -> str:
    """In words what a message would have to be instead of another."""
    parts = []
    if before.exchange != after.exchange:
        parts.append(f"published to {_exchange(after.exchange)} instead of {_exchange(before.exchange)}")
    if before.routing_key != after.routing_key:
        parts.append(_key(before.routing_key, after.routing_key))
    one, other = before.as_json(), after.as_json()
    for section in (one | other).keys() - {"exchange", "routing_key"}:
        held, wanted = one.get(section) or {}, other.get(section) or {}
        parts += _fields(held, wanted) if isinstance(wanted, dict) else [f"another {section}"]
    return ", ".join(parts)


def _exchange(name: str) -> str:
    return f"exchange {name!r}" if name else "the default exchange"


def _key(before: str, after: str) -> str:
    """Which word of a key is another one, where it is one; else the whole key."""
    one, other = before.split("."), after.split(".")
    differing = [place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b]
    if len(one) == len(other) > 1 and len(differing) == 1:
        place = differing[0]
        return f"word {place + 1} of the key {other[place]!r} instead of {one[place]!r}"
    return f"the key {after!r} instead of {before!r}"


def _fields(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    for name in before | after:
        if name not in after:
            yield f"no {name}"
        elif name not in before:
            yield f"{name} {json.dumps(after[name], ensure_ascii=False)}"
        elif before[name] != after[name]:
            stated = (json.dumps(value, ensure_ascii=False) for value in (after[name], before[name]))
            yield f"{name} {' instead of '.join(stated)}"
