"""Filters of consumers: of whoever reads a queue, chooses among unroutable rows, or looks for a message.

They are no part of a topology. What bodies are for them the queue or exchange declares (`x-payload`), or whoever
states the filter says it (docs/filters.md, "The body").
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bindery.router.columns import Ref
from bindery.router.declarations import stated_payload
from bindery.router.errors import InvalidInput
from bindery.router.filters import Filter, parse
from bindery.router.filters.ast import Compare, Field, Literal, Rules
from bindery.router.filters.limits import Payload
from bindery.router.filters.sets import DEFAULT_SET_LIMITS, parse_filter_set
from bindery.router.filters.sets.groups import conjunction
from bindery.router.model import Topology
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore

#: What a consumer's filter may be: text in a dialect, a filter set in JSON form, or an already parsed one.
ConsumerFilter = str | Mapping[str, Any] | Filter


def consumer_filter(
    filter: ConsumerFilter | None,
    *,
    dialect: str = "jms",
    connection: str | None = None,
    payload: Payload | None = None,
) -> Filter | None:
    """The parsed filter of a consumer: text in `dialect`, or a filter set (no-local compares with `connection`).

    `payload` is what the bodies are that it looks into. Raises FilterError with position and hint.
    """
    limits = DEFAULT_SET_LIMITS if payload is None else _reading(payload)
    if filter is None or isinstance(filter, Filter):
        return filter
    if isinstance(filter, str):
        return parse(filter, dialect, limits=limits.text)
    if isinstance(filter, Mapping):
        return parse_filter_set(filter, owner=connection, limits=limits)
    raise InvalidInput(f"a filter is text or a filter set, not {type(filter).__name__}", where="filter")


def queue_filter(
    data: DataDir,
    queue: str,
    filter: ConsumerFilter | None,
    *,
    vhost: str = "/",
    dialect: str = "jms",
    connection: str | None = None,
    payload: str | None = None,
    topology: Topology | None = None,
) -> Filter | None:
    """The parsed filter of a consumer of a queue; bodies are what the queue declares, or else `payload`.

    `topology` is the newest one unless another is given. Raises FilterError, and InvalidInput for a payload that is
    none or that the queue contradicts.
    """
    found = queue_payload(data, queue, filter, vhost=vhost, payload=payload, topology=topology)
    return consumer_filter(filter, dialect=dialect, connection=connection, payload=found)


def queue_payload(
    data: DataDir,
    queue: str,
    filter: ConsumerFilter | None,
    *,
    vhost: str,
    payload: str | None,
    topology: Topology | None = None,
) -> Payload | None:
    """What the bodies of a queue are for a consumer's filter; see `queue_filter`."""
    if not _may_look_into_bodies(filter, payload):
        return None
    known = TopologyStore(data).load() if topology is None else topology
    return stated_payload(known, known.queues.get((vhost, queue)), payload)


def exchange_payload(
    topology: Topology,
    exchange: str | None,
    filter: ConsumerFilter | None,
    *,
    vhost: str,
    payload: str | None,
) -> Payload | None:
    """What bodies are for a filter of messages published to an exchange, or to any of them (None).

    Raises InvalidInput as `queue_filter` does.
    """
    if not _may_look_into_bodies(filter, payload):
        return None
    holder = None if exchange is None else topology.exchanges.get((vhost, exchange))
    return stated_payload(topology, holder, payload)


def with_message_id(condition: Filter | None, message_id: str | None) -> Filter | None:
    """A filter, and the message id, as text, as a condition more."""
    if message_id is None:
        return condition
    equal = Compare("=", Field(Ref("properties", "message_id")), Literal(message_id), Rules())
    if condition is None:
        return Filter.of(equal, text=f"message id {message_id}", dialect="jms")
    both = conjunction([equal, condition.expression])
    return Filter.of(both, text=f"message id {message_id}; {condition.text}", dialect=condition.dialect)


def _reading(payload: Payload) -> Any:
    return replace(DEFAULT_SET_LIMITS, text=replace(DEFAULT_SET_LIMITS.text, payload=payload))


def _may_look_into_bodies(filter: ConsumerFilter | None, payload: str | None) -> bool:
    """Whether it matters what bodies are: for most filters no topology needs to be read."""
    if payload is not None or filter is None or isinstance(filter, Filter):
        return payload is not None
    return "body" in (filter if isinstance(filter, str) else json.dumps(filter, default=str))
