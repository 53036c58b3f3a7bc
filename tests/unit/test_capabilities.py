"""Capabilities name exactly the filters that exist."""

from __future__ import annotations

import pytest

from bindery.router.capabilities import CAPABILITIES, PLACES, capabilities, of_exchange
from bindery.router.declarations import TopologyEditor
from bindery.router.filters.sets.descriptors import FILTER_TYPES
from bindery.router.message import Message
from bindery.router.model import EXCHANGE_TYPES, Binding, Divert, Exchange, Queue, Topology
from bindery.router.reference import NaiveRouter
from bindery.router.values import Table

#: Names of the product's own.
_UNSPECIFIED = {"cloudevents:sql-filter", "aws:eventbridge-filter", "aws:sns-filter"} | {
    "com.microsoft:sql-filter",
    "com.microsoft:correlation-filter",
}


def test_every_filter_of_a_specification_belongs_to_one_capability() -> None:
    """No specification has a descriptor or a capability for CloudEvents SQL, nor for what comes from AWS and Azure."""
    named = [symbol for symbols in CAPABILITIES.values() for symbol in symbols]
    assert sorted(named) == sorted({kind.symbol for kind in FILTER_TYPES} - _UNSPECIFIED)


@pytest.mark.parametrize("place", PLACES)
def test_all_seven_are_offered_everywhere(place: str) -> None:
    assert capabilities(place) == [  # type: ignore[arg-type]  # a place
        "APACHE.ORG:LEGACY_AMQP_EXCHANGE_FILTERS",
        "APACHE.ORG:NO_LOCAL",
        "APACHE.ORG:SELECTOR",
        "APACHE.ORG:JMS_FILTERS",
        "APACHE.ORG:LOGIC_FILTERS",
        "AMQP_FILTEX_PROP_V1_0",
        "AMQP_FILTEX_SQL_V1_0",
    ]


@pytest.mark.parametrize("kind", EXCHANGE_TYPES)
def test_a_source_on_an_exchange_gets_every_message(kind: str) -> None:
    """What docs/filter-sets.md says about each type: one binding, on a direct or hash exchange behind a divert."""
    editor = TopologyEditor(Topology.empty())
    editor.declare_exchange(Exchange("/", "x", kind))
    editor.declare_queue(Queue("/", "q"))
    bound_to = "x"
    if kind in ("direct", "x-consistent-hash", "x-modulus-hash"):
        bound_to = "x.all"
        editor.declare_exchange(Exchange("/", bound_to, "fanout"))
        editor.declare_divert(Divert(0, "/", "x.all", "x", bound_to))
    late = Table({"f": Table({"descriptor": "apache.org:selector-filter:string", "value": "late = TRUE"})})
    key = "#" if kind == "topic" else ""
    editor.bind(Binding(0, "/", bound_to, "q", "queue", key, Table({"x-filters": late})))
    naive = NaiveRouter(editor.topology, "/")
    for routing_key in ("", "a", "a.b", "#"):
        for is_late in (True, False):
            message = Message(exchange="x", routing_key=routing_key, application_properties=Table({"late": is_late}))
            assert naive.route(message).queues == (frozenset({"q"}) if is_late else frozenset())


def test_the_default_exchange_offers_nothing() -> None:
    assert of_exchange("") == []
    assert of_exchange("amq.direct") == capabilities("exchange")


def test_other_places_are_refused() -> None:
    with pytest.raises(ValueError, match="not a place"):
        capabilities("link")  # type: ignore[arg-type]  # on purpose
