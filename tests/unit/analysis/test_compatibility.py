"""`bindery lint --compat`: what depends on a mode, each finding with a message that was routed in both readings."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindery.router.analysis import Report, analyse
from bindery.router.compat import MODES
from bindery.router.engine import Router
from bindery.router.errors import InvalidDeclaration
from bindery.router.message import Message, to_batch
from bindery.router.model import DEFAULT_VHOST, Topology, Vhost
from tests.examples import examples
from tests.unit.analysis.build import Broker
from tests.unit.engine.topologies import topologies


def findings(topology: Topology, mode: str) -> dict[str, list[str]]:
    """What depends on a mode: codes -> the names of what it is about."""
    found: dict[str, list[str]] = {}
    for one in _report(topology, mode).findings:
        found.setdefault(one.code, []).append(one.subject.name)
    return found


def _report(topology: Topology, mode: str) -> Report:
    report = analyse(topology, modes=[mode])
    report.narrow(["BT190", "BT191"], [])
    return report


def test_a_headers_binding_with_a_number_depends_on_both_modes_of_rabbitmq() -> None:
    broker = Broker().exchange("x", "headers").queues("q")
    broker.bind("x", "q", arguments={"level": 5})
    for mode in ("rabbitmq-3", "rabbitmq-4"):
        assert findings(broker.topology, mode) == {"BT190": ["x -> q []"]}
    assert findings(broker.topology, "broker-j-9") == {}


@pytest.mark.parametrize(
    ("arguments", "modes"),
    [
        ({"name": "a"}, {"rabbitmq-3", "rabbitmq-4"}),
        ({"name": ""}, {"rabbitmq-3", "rabbitmq-4", "broker-j-9"}),
        ({"flag": True}, set()),
        ({"here": None}, set()),
        ({"x-match": "any"}, {"broker-j-9"}),
        ({"x-match": "any-with-x", "a": True, "x-b": True}, {"broker-j-9"}),
        ({"at": {"timestamp": 5000}}, {"rabbitmq-3", "rabbitmq-4"}),
        ({"parts": {"map": {"k": 1, "l": 2}}}, {"rabbitmq-3", "rabbitmq-4"}),
        ({"parts": []}, {"rabbitmq-3", "rabbitmq-4"}),
    ],
)
def test_what_a_headers_binding_depends_on(arguments: dict[str, object], modes: set[str]) -> None:
    broker = Broker().exchange("x", "headers").queues("q")
    broker.bind("x", "q", arguments=arguments)
    assert {mode for mode in MODES if findings(broker.topology, mode)} == modes


def test_keys_filters_diverts_and_queues_are_looked_at() -> None:
    broker = Broker().exchange("t", "topic").exchange("d", "direct").exchange("i", "fanout", internal=True)
    broker.queues("plain", "other").queues("filtered", **{"x-queue-filter": "price / 2 = 3.5"})
    broker.bind("t", "plain", "a.b")
    broker.bind("d", "plain", "k", {"x-filter-jms-selector": "colour <> 'red' AND price > 3"})
    broker.bind("i", "other", "", {"x-filter-jms-selector": "NOT (a > 1 AND b > 2)"})
    broker.divert("away", "d", "t", filter="size = limit", routing_key="a.b")
    assert findings(broker.topology, "broker-j-9") == {
        "BT190": ["d -> plain [k]", "i -> other []", "t -> plain [a.b]", "away", "filtered"]
    }
    assert findings(broker.topology, "artemis-2") == {"BT190": ["d -> plain [k]", "away", "filtered"]}
    assert findings(broker.topology, "rabbitmq-3") == {}


def test_a_filter_that_the_mode_does_not_have_is_named_and_keeps_nothing_else_away() -> None:
    broker = (
        Broker().queues("q", **{"x-queue-filter": "NOT price > 5"}).queues("p", **{"x-queue-filter": "a / 2 = 3.5"})
    )
    assert findings(broker.topology, "artemis-2") == {"BT191": ["q"], "BT190": ["p"]}


def test_an_exchange_with_a_mode_of_its_own_does_not_depend_on_another() -> None:
    broker = Broker().exchange("x", "headers", **{"x-compat": "specification"}).queues("q")
    broker.bind("x", "q", arguments={"level": 5})
    assert findings(broker.topology, "rabbitmq-3") == {}


def test_a_binding_that_another_one_hides_is_not_reported() -> None:
    broker = Broker().exchange("x", "headers").queues("q")
    broker.bind("x", "q", arguments={"level": 5})
    broker.bind("x", "q", arguments={"x-match": "all"})
    assert findings(broker.topology, "rabbitmq-3") == {}


def test_a_mode_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidDeclaration):
        analyse(Topology.empty(), modes=["rabbitmq"])


_SAID = re.compile(r"(?s)(\{.*\}) goes to (.*) under (\S+), goes to (.*) by the specification")


@given(topologies(), st.sampled_from(sorted(MODES)))
@examples(40)
def test_each_finding_has_a_message_that_goes_elsewhere(topology: Topology, mode: str) -> None:
    """Routed anew, in the topology as it is: where its exchange is internal nothing can be published there."""
    for one in _report(topology, mode).findings:
        if one.code != "BT190":
            continue
        said = _SAID.fullmatch(one.message)
        assert said is not None, one.message
        raw, there, named, here = said.groups()
        message = Message.from_json(json.loads(raw))
        if topology.exchanges[DEFAULT_VHOST, message.exchange].internal:
            continue
        assert named == mode
        assert _queues(topology, None, message) == here
        assert _queues(topology, mode, message) == there


def _queues(topology: Topology, mode: str | None, message: Message) -> str:
    objects = [Vhost(item.name, compat=mode) if isinstance(item, Vhost) else item for item in topology.objects()]
    router = Router.compile(Topology.of(objects), DEFAULT_VHOST)
    found = router.route(to_batch([message]), clock_ms=0)
    return ", ".join(sorted(router.queues[number] for number in found.queue.tolist())) or "no queue"
