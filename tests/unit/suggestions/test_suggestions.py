"""Suggestions: each one, tried, brings the message to the queue; the smallest stands first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bindery.router.declarations import TopologyEditor
from bindery.router.engine import Router
from bindery.router.errors import NotFound
from bindery.router.message import Message
from bindery.router.model import DEFAULT_VHOST, Topology
from bindery.router.proposal import propose
from bindery.router.reference import NaiveRouter, topic_matches
from bindery.router.suggestions import Suggestions, suggest
from bindery.router.suggestions.keys import fitted, widened
from bindery.router.values import Table
from tests.unit.analysis.build import Broker
from tests.unit.engine.test_against_reference import outcomes
from tests.unit.engine.topologies import keys, maze_messages, mazes, messages, topologies

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
SELECTOR = "x-filter-jms-selector"


def of(broker: Broker, message: dict[str, Any], queue: str = "q") -> Suggestions:
    return suggest(broker.topology, "/", Message.from_json({"exchange": "x", **message}), queue, clock_ms=0)


def with_parts(message: Message, differs: dict[str, Any]) -> Message:
    return Message.from_json(message.as_json() | differs)


def without_alternates(topology: Topology) -> Topology:
    editor = TopologyEditor(topology)
    for exchange in topology.exchanges.values():
        plain = {name: value for name, value in exchange.arguments.items() if not name.startswith("alternate-")}
        if len(plain) < len(exchange.arguments):
            editor.declare_exchange(replace(exchange, arguments=Table(plain)), overwrite=True)
    return editor.topology


@given(topologies() | mazes(), messages | maze_messages, st.data())
@settings(suppress_health_check=QUIET, deadline=None, max_examples=60)
def test_every_suggestion_brings_the_message_to_the_queue(
    topology: Topology, message: Message, data: st.DataObject
) -> None:
    """By the reference as by the engine; a change takes the message from no queue but those of an alternate."""
    queue = data.draw(st.sampled_from(sorted(name for _, name in topology.queues)))
    before = NaiveRouter(topology, DEFAULT_VHOST).route(message).queues
    kept = NaiveRouter(without_alternates(topology), DEFAULT_VHOST).route(message).queues
    found = suggest(topology, DEFAULT_VHOST, message, queue, clock_ms=0)
    assert found.reached == (queue in before)
    assert not (found.reached and (found.changes or found.messages))
    for change in found.changes:
        changed = propose(topology, DEFAULT_VHOST, change.change)
        after = NaiveRouter(changed, DEFAULT_VHOST).route(message).queues
        assert outcomes(Router.compile(changed, DEFAULT_VHOST), [message])[0].queues == after
        assert {queue, *change.gained} == after - before
        assert set(change.lost) == before - after
        assert not kept - after
        assert change.objects == sum(len(listed) for section in change.change.values() for listed in section.values())
        assert change.says
    sizes = [change.objects for change in found.changes]
    assert sizes == sorted(sizes)
    for other in found.messages:
        after = NaiveRouter(topology, DEFAULT_VHOST).route(with_parts(message, other.differs)).queues
        assert {queue, *other.gained} == after - before
        assert set(other.lost) == before - after
        assert other.says


@given(keys, keys)
@settings(deadline=None)
def test_a_key_and_a_pattern_meet(pattern: str, key: str) -> None:
    wide = widened(pattern, key)
    assert topic_matches(wide, key)
    assert not topic_matches(pattern, key) or wide.count("#") <= pattern.count("#")
    assert topic_matches(wide, fitted(pattern, key)) or "#" in key or "*" in key


@pytest.mark.parametrize(
    ("pattern", "key", "wide", "fits"),
    [
        ("flight.*.late", "flight.UA.ontime", "flight.*.*", "flight.UA.late"),
        ("eu.books", "us.books", "*.books", "eu.books"),
        ("a.b", "a.b.c", "a.b.#", "a.b"),
        ("a.b.c", "a.c", "a.#.c", "a.b.c"),
        ("#.late", "flight.ontime", "*.#", "flight.late"),
        ("a.*", "a", "a.#", "a.any"),
        ("", "a", "#", ""),
        ("a.b", "a.b", "a.b", "a.b"),
    ],
)
def test_as_few_words_change_as_can_be(pattern: str, key: str, wide: str, fits: str) -> None:
    assert (widened(pattern, key), fitted(pattern, key)) == (wide, fits)


def test_long_keys_cost_no_more_than_short_ones() -> None:
    assert widened(".".join("a" * 2_000), ".".join("b" * 100)) == "#"
    assert fitted(".".join("a" * 2_000), ".".join("b" * 100)) == ".".join("a" * 2_000)


@pytest.mark.parametrize(
    ("kind", "message", "binding"),
    [
        ("direct", {"routing_key": "k"}, {"routing_key": "k"}),
        ("topic", {"routing_key": "a.b"}, {"routing_key": "a.b"}),
        ("fanout", {"routing_key": "a.b"}, {"routing_key": ""}),
        (
            "headers",
            {"application_properties": {"n": 5, "x-n": 1}},
            {"arguments": {"x-match": "all", "n": 5}},
        ),
    ],
)
def test_the_smallest_change_is_a_binding_for_messages_like_it(
    kind: str, message: dict[str, Any], binding: dict[str, Any]
) -> None:
    first = of(Broker().exchange("x", kind).queues("q"), message).changes[0]
    assert (first.objects, first.gained, first.lost) == (1, (), ())
    (added,) = first.change["add"]["bindings"]
    assert added == {
        "source": "x", "destination": "q", "destination_type": "queue", "vhost": "/", "routing_key": "",
        "arguments": {}, **binding,
    }  # fmt: skip


def _selectors(found: Suggestions) -> list[str | None]:
    """The selectors of bindings that take the place of others."""
    replaced = [one.change for one in found.changes if "delete" in one.change]
    return [one["add"]["bindings"][0]["arguments"].get(SELECTOR) for one in replaced]


@pytest.mark.parametrize(
    ("selector", "properties", "wider"),
    [
        ("price > 20", {"price": 9}, ["price >= 9", None]),
        ("20 < price", {"price": 9}, ["price >= 9", None]),
        ("region = 'EU'", {"region": "US"}, ["region IN ('EU', 'US')", None]),
        ("n = 1", {"n": 2}, ["n = 1 OR n = 2", None]),
        ("region IN ('EU', 'UK')", {"region": "US"}, ["region IN ('EU', 'UK', 'US')", None]),
        ("n BETWEEN 1 AND 5", {"n": 9}, ["n BETWEEN 1 AND 9", None]),
        ("name LIKE 'a%'", {"name": "b"}, ["name LIKE 'a%' OR name = 'b'", None]),
        ("price > 20", {}, ["price > 20 OR price IS NULL", None]),
        ("price > 20 AND paid", {"price": 30, "paid": False}, ["price > 20", None]),
        ("price > 20 AND NOT wet", {"price": 9, "wet": True}, ["price >= 9", None]),
        ("price > 20 AND a = b", {"price": 9, "a": 1, "b": 1}, ["price >= 9 AND a = b", "a = b", None]),
        ("NOT (a OR b)", {"a": True}, [None]),
    ],
)
def test_a_filter_is_made_as_wide_as_the_message(
    selector: str, properties: dict[str, Any], wider: list[str | None]
) -> None:
    broker = Broker().exchange("x", "topic").queues("q")
    broker.bind("x", "q", "#", {SELECTOR: selector})
    assert _selectors(of(broker, {"application_properties": properties})) == wider


def test_what_the_message_would_have_to_be() -> None:
    broker = Broker().exchange("x", "topic").queues("q")
    broker.bind("x", "q", "*.music", {SELECTOR: "price > 20 AND region = 'EU' AND NOT wet AND name LIKE 'a_%c'"})
    stated = {"price": 9, "region": "US", "wet": True, "kept": 1}
    (found,) = of(broker, {"routing_key": "eu.books", "application_properties": stated}).messages
    assert found.says == (
        "word 2 of the key 'music' instead of 'books', price 21 instead of 9, region \"EU\" instead of \"US\", "
        'wet false instead of true, name "axc"'
    )
    assert found.differs == {
        "routing_key": "eu.music",
        "application_properties": {"kept": 1, "price": 21, "region": "EU", "wet": False, "name": "axc"},
    }


def test_a_way_on_which_several_things_fail_is_mended_step_by_step() -> None:
    broker = Broker().exchange("x", "topic").exchange("y", "headers")
    broker.queues("q", x_queue_filter="size < 5").queues("other")
    broker.bind("x", "y", "eu.#")
    broker.bind("y", "q", "", {"region": "EU"})
    broker.bind("x", "other", "#")
    found = of(broker, {"routing_key": "us.a", "application_properties": {"size": 9, "region": "EU"}})
    says = [change.says for change in found.changes]
    assert says[0] == (
        "exchange 'x' is bound to queue 'q' by the key 'us.a'; in the filter of queue 'q' size <= 9 instead of size < 5"
    )
    assert any("has the key '*.#' instead of 'eu.#'" in one for one in says)
    assert found.messages[0].differs == {
        "routing_key": "eu.a", "application_properties": {"region": "EU", "size": 4},
    }  # fmt: skip


def test_criteria_members_diverts_and_exchanges_that_stand_in_the_way() -> None:
    headers = Broker().exchange("x", "headers").queues("q")
    headers.bind("x", "q", "", {"x-match": "all", "a": 1, "b": 2})
    headers.bind("x", "q", "", {"x-match": "any", "c": 1, "d": 2})
    found = of(headers, {"application_properties": {"a": 1, "d": 5}})
    assert "binding 1 [] of 'x' to queue 'q' asks for a 1 instead of a 1, b 2" in found.changes[-2].says
    assert "asks for c 1, d instead of c 1, d 2" in found.changes[-1].says

    members = Broker().exchange("x", "fanout").queues("q")
    members.bind("x", "q", "", {"x-filters": {
        "one": {"descriptor": "apache.org:selector-filter:string", "value": "a = 1"},
        "two": {"descriptor": "apache.org:selector-filter:string", "value": "b = 1"},
    }})  # fmt: skip
    found = of(members, {"application_properties": {"a": 1}})
    assert any("'two' of its filter set goes" in one.says for one in found.changes)
    assert found.messages[0].differs == {"application_properties": {"a": 1, "b": 1}}

    diverted = Broker().exchange("x", "fanout").exchange("y", "fanout").queues("q")
    diverted.bind("x", "q")
    diverted.divert("away", "x", "y", exclusive=True)
    assert "divert 'away' is no longer exclusive" in {one.says for one in of(diverted, {}).changes}

    internal = Broker().exchange("x", "fanout", internal=True).queues("q")
    internal.bind("x", "q")
    assert [one.says for one in of(internal, {}).changes] == ["exchange 'x' is no longer internal"]

    found = of(Broker().exchange("events", "topic").queues("q"), {"exchange": "event", "routing_key": "a"})
    assert found.changes[0].says.startswith(
        "there is a direct exchange 'event'; exchange 'event' is bound to queue 'q'"
    )
    assert found.messages[0].differs == {"exchange": "", "routing_key": "q"}


def test_what_only_an_alternate_took_may_go_elsewhere() -> None:
    broker = Broker().exchange("rest", "fanout").exchange("x", "topic", alternate_exchange="rest").queues("q", "lost")
    broker.bind("x", "q", "a.#")
    broker.bind("rest", "lost")
    found = of(broker, {"routing_key": "b"})
    assert [(one.objects, one.lost) for one in found.changes] == [(1, ()), (1, ("lost",)), (2, ("lost",))]


def test_a_queue_that_is_reached_or_does_not_exist() -> None:
    broker = Broker().exchange("x", "fanout").queues("q")
    broker.bind("x", "q")
    assert of(broker, {}) == Suggestions("q", reached=True)
    with pytest.raises(NotFound):
        of(broker, {}, "missing")
