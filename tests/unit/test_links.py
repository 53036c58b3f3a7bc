"""The links of a vhost against a slow reading of the same topology, object by object."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bindery.router.declarations import TopologyEditor, binding_filters
from bindery.router.errors import NotFound
from bindery.router.filters import parse
from bindery.router.filters.sets import DEFAULT_SET_LIMITS, FilterSetLimits
from bindery.router.links import Link, Links, replacement_key
from bindery.router.model import Binding, Divert, Exchange, Queue, Topology, Vhost
from bindery.router.policies import Policy
from bindery.router.values import Table
from tests.unit.engine.topologies import EXCHANGES, mazes, topologies

policies = st.builds(
    Policy,
    st.sampled_from(["/", "v"]),
    st.sampled_from(["p", "q", "r"]),
    st.sampled_from(["", "A", "^B$", "[CD]"]),
    st.sampled_from([*EXCHANGES, "missing", ""]).map(lambda name: Table({"alternate-exchange": name}))
    | st.just(Table({"max-length": 1})),
    st.sampled_from(["all", "exchanges", "queues"]),
    st.integers(0, 2),
)


@st.composite
def wired(draw: st.DrawFn) -> Topology:
    """A topology with policies and a second vhost, from which some exchanges or queues may be missing."""
    editor = TopologyEditor(draw(topologies() | mazes()))
    editor.declare_vhost(Vhost("v"))
    editor.declare_exchange(Exchange("v", "A", "fanout"))
    editor.declare_queue(Queue("v", "p"))
    editor.bind(Binding(0, "v", "A", "p"))
    editor.declare_divert(Divert(0, "v", "d", "A", "A"))
    for policy in draw(st.lists(policies, max_size=4)):
        editor.put_setting(policy.setting())
    lost = draw(st.sets(st.sampled_from([*EXCHANGES, "p", "q"]), max_size=2))
    return Topology.of(
        one for one in editor.topology.objects() if not (isinstance(one, Exchange | Queue) and one.name in lost)
    )


def obvious(topology: Topology, vhost: str) -> Iterator[tuple[object, ...]]:
    """Every link: kind, id, ends, replacement key, filters."""
    exchanges = {one.name: one for one in topology.exchanges.values() if one.vhost == vhost}
    queues = {one.name: one for one in topology.queues.values() if one.vhost == vhost}
    for queue in queues:
        yield "binding", 0, "", "queue", queue, None, ()
    for binding in topology.bindings.values():
        ends = queues if binding.destination_type == "queue" else exchanges
        if binding.vhost == vhost and binding.source in exchanges and binding.destination in ends:
            owner = key = None
            if binding.destination_type == "queue":
                owner = queues[binding.destination].arguments.get("x-owner-connection")
            else:
                key = binding.arguments.get("x-replacement-routing-key")
            there = reading(topology, exchanges[binding.source])
            filters = binding_filters(binding, owner=owner, limits=there)  # type: ignore[arg-type]  # a text
            named = [name for name in ("x-filter-jms-selector", "x-filters") if name in binding.arguments]
            stated = tuple(zip(named, filters, strict=True))
            yield "binding", binding.id, binding.source, binding.destination_type, binding.destination, key, stated
    for divert in topology.diverts.values():
        if divert.vhost == vhost and {divert.source, divert.destination} <= exchanges.keys():
            limits = reading(topology, exchanges[divert.source]).text
            stated = (("filter", parse(divert.filter, "artemis", limits=limits)),) if divert.filter else ()
            yield "divert", divert.id, divert.source, "exchange", divert.destination, divert.routing_key, stated
    for name, exchange in exchanges.items():
        target = alternate_exchange(topology, exchange)
        if target and target in exchanges:
            yield "alternate-exchange", None, name, "exchange", target, None, ()
        table = exchange.arguments.get("alternate-binding")
        target = table["destination"] if isinstance(table, Table) else None
        if target and target in exchanges:
            yield "alternate-binding", None, name, "exchange", target, None, ()
        elif target and target in queues:
            yield "alternate-binding", None, name, "queue", target, None, ()


def reading(topology: Topology, exchange: Exchange) -> FilterSetLimits:
    """How the filters at an exchange are read: under its compatibility mode, or else that of its vhost."""
    mode = exchange.arguments.get("x-compat", topology.vhosts[exchange.vhost].compat)
    compat = None if mode == "specification" else mode
    return replace(DEFAULT_SET_LIMITS, text=replace(DEFAULT_SET_LIMITS.text, compat=compat))  # type: ignore[arg-type]


def alternate_exchange(topology: Topology, exchange: Exchange) -> object:
    if "alternate-exchange" in exchange.arguments:
        return exchange.arguments["alternate-exchange"]
    found = [
        (-one.value["priority"], one.name, one.value["definition"])  # type: ignore[index,operator,call-overload]
        for one in topology.settings.values()
        if one.kind == "policy"
        and one.vhost == exchange.vhost
        and one.value["apply-to"] in ("all", "exchanges")  # type: ignore[index,call-overload]
        and re.search(one.value["pattern"], exchange.name)  # type: ignore[index,call-overload]
    ]
    return min(found, key=lambda one: one[:2])[2].get("alternate-exchange") if found else None


def shape(links: Links, link: Link) -> tuple[object, ...]:
    kind = "binding" if isinstance(link, Binding) else "divert" if isinstance(link, Divert) else link.kind
    end = (link.source, link.destination_type, link.destination)
    return kind, getattr(link, "id", None), *end, replacement_key(link), tuple(links.filters(link).items())


@given(wired())
@settings(max_examples=200)
def test_the_links_are_those_that_an_obvious_reading_finds(topology: Topology) -> None:
    for vhost in topology.vhosts:
        links = Links(topology, vhost)
        expected = sorted(obvious(topology, vhost), key=repr)
        leaving = {name: links.leaving(name) for name in links.exchanges}
        assert sorted((shape(links, one) for each in leaving.values() for one in each), key=repr) == expected
        assert all(one.source == name for name, each in leaving.items() for one in each)
        ends = [("queue", name) for name in links.queues] + [("exchange", name) for name in links.exchanges]
        entering = {end: links.entering(*end) for end in ends}  # type: ignore[arg-type]  # the two kinds
        assert sorted((shape(links, one) for each in entering.values() for one in each), key=repr) == expected
        assert all((one.destination_type, one.destination) == end for end, each in entering.items() for one in each)


@given(wired())
@settings(max_examples=50)
def test_the_lists_of_each_kind_agree(topology: Topology) -> None:
    for vhost in topology.vhosts:
        links = Links(topology, vhost)
        listed = [link for name in links.exchanges for link in links.leaving(name)]
        bindings = [one for one in listed if isinstance(one, Binding) and one.id]
        assert links.bindings == sorted(bindings, key=lambda binding: binding.id)
        diverts = [one for one in listed if isinstance(one, Divert)]
        assert links.diverts == sorted(diverts, key=lambda divert: divert.id)
        assert diverts == [one for name in links.exchanges for one in links.diverts_from(name)]
        alternates = [one for one in listed if not isinstance(one, Binding | Divert)]
        assert alternates == [one for one in links.alternates.values() if one.destination_type is not None]
        assert all((one.source, one.kind) == key for key, one in links.alternates.items())


def test_what_does_not_exist_has_no_links() -> None:
    links = Links(Topology.empty(), "/")
    assert links.leaving("missing") == links.entering("queue", "missing") == links.entering("exchange", "") == []
    with pytest.raises(NotFound):
        Links(Topology.empty(), "missing")
