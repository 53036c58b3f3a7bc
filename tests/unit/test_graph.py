"""The graph of a vhost: what it shows, what it leaves out, and that it is the topology's own links."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindery.router.declarations import TopologyEditor
from bindery.router.errors import NotFound
from bindery.router.graph import Edge, graph_around, whole_graph
from bindery.router.links import Links
from bindery.router.model import Binding, Divert, Exchange, Queue, Topology
from bindery.router.values import Table


def made(change: Callable[[TopologyEditor], object]) -> Topology:
    editor = TopologyEditor(Topology.empty())
    change(editor)
    return editor.topology


def shop(editor: TopologyEditor) -> None:
    editor.declare_exchange(Exchange("/", "others", "fanout"))
    editor.declare_exchange(Exchange("/", "orders", "topic", arguments=Table({"alternate-exchange": "others"})))
    for name in ("a", "b", "alone"):
        editor.declare_queue(Queue("/", name))
    for number, key in enumerate(("x.#", "y.#", "z.#", "1.#", "2.#", "3.#")):
        arguments = Table({"x-filter-jms-selector": "p > 1"} if number < 2 else {})
        editor.bind(Binding(0, "/", "orders", "a", "queue", key, arguments))
    editor.bind(Binding(0, "/", "others", "b", "queue", ""))
    editor.declare_divert(Divert(0, "/", "aside", "orders", "others", filter="p > 2"))


def test_links_between_the_same_two_are_one_edge_of_each_kind() -> None:
    graph = whole_graph(made(shop), "/", limit=10)
    assert graph.exchanges == [("orders", "topic"), ("others", "fanout")]
    assert graph.queues == ["a", "alone", "b"]
    assert sorted(graph.edges, key=lambda edge: (edge.source, edge.kind)) == [
        Edge("alternate-exchange", "orders", ("exchange", "others"), 1, 0, [""]),
        Edge("binding", "orders", ("queue", "a"), 6, 2, ["x.#", "y.#", "z.#", "1.#", "2.#"]),
        Edge("divert", "orders", ("exchange", "others"), 1, 1, ["aside"]),
        Edge("binding", "others", ("queue", "b"), 1, 0, [""]),
    ]
    assert (graph.total, graph.beyond) == (5, 0)


def test_a_vhost_with_more_objects_than_wanted_is_only_counted() -> None:
    topology = made(shop)
    assert whole_graph(topology, "/", limit=5).queues == ["a", "alone", "b"]
    crowded = whole_graph(topology, "/", limit=4)
    assert (crowded.exchanges, crowded.queues, crowded.edges, crowded.total) == ([], [], [], 5)


def test_predeclared_exchanges_are_shown_where_they_lead_somewhere() -> None:
    def change(editor: TopologyEditor) -> None:
        editor.declare_queue(Queue("/", "q"))
        editor.bind(Binding(0, "/", "amq.topic", "q", "queue", "k"))

    assert whole_graph(made(change), "/", limit=3).exchanges == [("amq.topic", "topic")]


def test_what_does_not_exist_has_no_graph() -> None:
    topology = made(shop)
    with pytest.raises(NotFound, match="vhost"):
        whole_graph(topology, "none", limit=5)
    with pytest.raises(NotFound, match="no queue 'orders'"):
        graph_around(topology, "/", ("queue", "orders"), hops=1, limit=5)


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    exchanges = [f"e{n}" for n in range(draw(st.integers(1, 5)))]
    queues = [f"q{n}" for n in range(draw(st.integers(0, 4)))]
    ends = [("exchange", name) for name in exchanges] + [("queue", name) for name in queues]
    bound = draw(
        st.lists(st.tuples(st.sampled_from(exchanges), st.sampled_from(ends), st.sampled_from("xy")), max_size=12)
    )

    def change(editor: TopologyEditor) -> None:
        for name in exchanges:
            editor.declare_exchange(Exchange("/", name, "direct"))
        for name in queues:
            editor.declare_queue(Queue("/", name))
        for source, (kind, destination), key in bound:
            editor.bind(Binding(0, "/", source, destination, kind, key))  # type: ignore[arg-type]

    return made(change)


@given(topologies(), st.integers(1, 3), st.integers(1, 8), st.data())
def test_what_lies_around_an_object_is_what_is_within_so_many_links(
    topology: Topology, hops: int, limit: int, data: st.DataObject
) -> None:
    links = Links(topology, "/")
    pairs = {(("exchange", one.source), (one.destination_type, one.destination)) for one in links.bindings}
    everything = [("exchange", name) for name in links.exchanges if name.startswith("e")]
    everything += [("queue", name) for name in links.queues]
    start = data.draw(st.sampled_from(everything))
    near = {start}
    for _ in range(hops):
        near |= {b for a, b in pairs if a in near} | {a for a, b in pairs if b in near}
    graph = graph_around(topology, "/", start, hops=hops, limit=limit)  # type: ignore[arg-type]
    shown = {("exchange", name) for name, _ in graph.exchanges} | {("queue", name) for name in graph.queues}
    assert start in shown <= near
    assert len(shown) == min(limit, len(near))
    assert {(("exchange", one.source), one.destination) for one in graph.edges} == {
        (a, b) for a, b in pairs if a in shown and b in shown
    }
    next_to = {b for a, b in pairs if a in shown} | {a for a, b in pairs if b in shown}
    assert graph.beyond == len(next_to - shown)
