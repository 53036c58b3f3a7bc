"""Caps of filters by the global parameter `filter-limits`: of new filters, and of XPATH at every evaluation."""

from __future__ import annotations

from typing import Any

import pytest

from bindery.router.declarations import FILTER_LIMITS, TopologyEditor, filter_limits
from bindery.router.definitions import apply, export, parse_definitions
from bindery.router.engine import Router
from bindery.router.errors import FilterError, InvalidDeclaration
from bindery.router.explain import Explainer
from bindery.router.filters.sets import DEFAULT_SET_LIMITS
from bindery.router.message import Message, to_batch
from bindery.router.model import Binding, Divert, Queue, Setting, Topology
from bindery.router.model.objects import GLOBAL_PARAMETER
from bindery.router.reference import NaiveRouter
from bindery.router.values import Table, Value

LONG = "colour IN (" + ", ".join(f"'c{number}'" for number in range(1_000)) + ")"
XPATH = "XPATH '//late'"
LATE = Message(exchange="amq.fanout", body=b"<flight><late/></flight>")


def limits(**caps: Value) -> Setting:
    return Setting(GLOBAL_PARAMETER, "", FILTER_LIMITS, Table(caps))


def selecting(text: str, queue: str = "q") -> Binding:
    return Binding(0, "/", "amq.fanout", queue, "queue", "", Table({"x-filter-jms-selector": text}))


@pytest.fixture
def editor() -> TopologyEditor:
    editor = TopologyEditor(Topology.empty())
    editor.declare_queue(Queue("/", "q"))
    return editor


def routed(topology: Topology, message: Message) -> tuple[list[str], int]:
    """The queues that a message reaches, of which the slow reference knows the same; filters in trouble."""
    router = Router.compile(topology, "/")
    deliveries = router.route(to_batch([message]), clock_ms=0)
    queues = [router.queues[number] for number in deliveries.queue.tolist()]
    assert NaiveRouter(topology, "/").route(message, clock_ms=0).queues == frozenset(queues)
    return queues, int(deliveries.counts.trouble.sum())


def test_without_a_setting_the_caps_are_those_of_the_library(editor: TopologyEditor) -> None:
    assert filter_limits(editor.topology) == DEFAULT_SET_LIMITS
    with pytest.raises(FilterError, match="characters, more than 4096"):
        editor.bind(selecting(LONG))


def test_raised_caps_let_longer_filters_in_and_those_stay_when_they_are_lowered(editor: TopologyEditor) -> None:
    editor.put_setting(limits(characters=20_000, tokens=5_000))
    editor.bind(selecting(LONG))
    editor.declare_queue(Queue("/", "f", arguments=Table({"x-queue-filter": LONG})))
    editor.bind(Binding(0, "/", "amq.fanout", "f", "queue", ""))
    editor.declare_divert(Divert(0, "/", "d", "amq.fanout", "amq.direct", filter=LONG))
    editor.put_setting(limits(characters=10))
    message = Message(exchange="amq.fanout", application_properties=Table({"colour": "c999"}))
    assert routed(editor.topology, message) == (["f", "q"], 0)
    (explained,) = Explainer(editor.topology, "/").explain(to_batch([message]), clock_ms=0, queues=["q"])
    assert explained.queues == ("f", "q")
    with pytest.raises(FilterError, match="more than 10"):
        editor.bind(selecting("colour IN ('red')"))
    editor.delete_setting(GLOBAL_PARAMETER, "", FILTER_LIMITS)
    editor.bind(selecting("colour IN ('red')"))


@pytest.mark.parametrize(
    ("caps", "queues", "troubled"),
    [
        ({}, ["q"], 0),
        ({"xpath_document_bytes": 24}, ["q"], 0),
        ({"xpath_document_bytes": 23}, [], 1),
        ({"xpath_levels": 1}, [], 1),
        ({"xpath_nodes": 2}, [], 1),
        ({"xpath_steps": 1}, [], 1),
    ],
)
def test_what_xpath_may_cost_is_asked_at_every_evaluation(
    editor: TopologyEditor, caps: dict[str, Value], queues: list[str], troubled: int
) -> None:
    editor.declare_queue(Queue("/", "q", arguments=Table({"x-queue-filter": XPATH})), overwrite=True)
    editor.bind(Binding(0, "/", "amq.fanout", "q", "queue", ""))
    editor.put_setting(limits(**caps))
    assert routed(editor.topology, LATE) == (queues, troubled)


def test_caps_belong_to_the_topology_that_states_them(editor: TopologyEditor) -> None:
    small, large = TopologyEditor(editor.topology), TopologyEditor(editor.topology)
    for one in (small, large):
        one.declare_queue(Queue("/", "x", arguments=Table({"x-queue-filter": XPATH})))
        one.bind(Binding(0, "/", "amq.fanout", "x", "queue", ""))
    small.put_setting(limits(xpath_document_bytes=5))
    assert [routed(one.topology, LATE)[0] for one in (large, small, large)] == [["x"], [], ["x"]]


def test_caps_of_filter_sets_are_kept(editor: TopologyEditor) -> None:
    filters = {"f": {"descriptor": "apache.org:selector-filter:string", "value": "a = 1"}}
    two = {**filters, "g": filters["f"]}
    editor.put_setting(limits(set_filters=1, tokens=3))

    def bound(content: Any) -> Binding:
        return Binding(0, "/", "amq.fanout", "q", "queue", "", Table({"x-filters": _table(content)}))

    editor.bind(bound(filters))
    with pytest.raises(FilterError, match="more than 1 filters"):
        editor.bind(bound(two))
    longer = {"f": {"descriptor": "apache.org:selector-filter:string", "value": "a = 1 OR b = 2"}}
    with pytest.raises(FilterError, match="more than 3 tokens"):
        editor.bind(bound(longer))


def _table(content: dict[str, Any]) -> Table:
    return Table({name: _table(value) if isinstance(value, dict) else value for name, value in content.items()})


def test_a_document_brings_caps_and_filters_that_need_them(editor: TopologyEditor) -> None:
    editor.put_setting(limits(characters=20_000, tokens=5_000))
    editor.bind(selecting(LONG))
    document = export(editor.topology)
    another = TopologyEditor(Topology.empty())
    apply(parse_definitions(document), another)
    assert len(another.topology.bindings) == 1
    assert filter_limits(another.topology).text.tokens == 5_000


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (5, "a map of name to number"),
        (Table({"charakters": 5}), "unknown cap 'charakters'"),
        (Table({"tokens": "5"}), "tokens is '5'"),
        (Table({"tokens": True}), "tokens is True"),
        (Table({"tokens": 0}), "tokens is 0"),
        (Table({"depth": 101}), "depth is 101"),
    ],
)
def test_what_is_no_cap_is_refused(editor: TopologyEditor, value: Value, said: str) -> None:
    with pytest.raises(InvalidDeclaration, match=said):
        editor.put_setting(Setting(GLOBAL_PARAMETER, "", FILTER_LIMITS, value))
    assert filter_limits(editor.topology) == DEFAULT_SET_LIMITS
