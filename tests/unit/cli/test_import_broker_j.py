"""`bindery import --from broker-j`: virtual hosts of Qpid Broker-J, and that they route as there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bindery.router.errors import DefinitionsRefused
from bindery.router.importers import KINDS
from bindery.router.importers.settling import Settled, settle
from bindery.router.message import Message
from bindery.router.model import Topology
from bindery.router.reference import NaiveRouter

_HOST: dict[str, Any] = {"name": "shop", "type": "BDB", "modelVersion": "9.0", "id": "1"}


def carried(document: dict[str, Any] | bytes, *, vhost: str | None = None) -> Settled:
    raw = document if isinstance(document, bytes) else json.dumps(document).encode()
    return settle(KINDS["broker-j"].read("config.json", raw), Topology.empty(), vhost=vhost)


def outcomes(settled: Settled) -> dict[str, str]:
    return {f"{item.kind} {item.name}": item.outcome.value for item in settled.objects}


def queues(settled: Settled, exchange: str, key: str = "", vhost: str = "shop", **properties: Any) -> set[str]:
    message = Message.from_json(
        {"exchange": exchange, "routing_key": key, "application_properties": properties},
    )
    return set(NaiveRouter(settled.topology, vhost).route(message).queues)


def host(kind: str, *bindings: dict[str, Any], **exchange: Any) -> dict[str, Any]:
    names = {binding["destination"] for binding in bindings} | {"rest"}
    return {
        **_HOST,
        "exchanges": [{"name": "e", "type": kind, "durableBindings": list(bindings), **exchange}],
        "queues": [{"name": name, "type": "standard"} for name in sorted(names)],
    }


def binding(destination: str, key: str = "", **arguments: Any) -> dict[str, Any]:
    return {"destination": destination, "bindingKey": key, "arguments": arguments}


def test_selectors_act_on_bindings_of_every_type() -> None:  # §4.6.3.1
    for kind, key in (("direct", "ship"), ("topic", "ship.#"), ("fanout", ""), ("headers", "")):
        settled = carried(host(kind, binding("north", key, **{"x-filter-jms-selector": "area in ('Forties')"})))
        assert settled.faithful
        assert queues(settled, "e", "ship", area="Forties") == {"north"}
        assert queues(settled, "e", "ship", area="Dover") == set()


def test_the_alternate_gets_what_reaches_no_queue_and_the_rest_is_discarded_or_rejected() -> None:  # §4.6.4
    shipped = binding("north", "ship", **{"x-filter-jms-selector": "speed > 7"})
    settled = carried(host("direct", shipped, alternateBinding={"destination": "rest", "attributes": {}}))
    assert settled.faithful
    assert queues(settled, "e", "ship", speed=8) == {"north"}
    assert queues(settled, "e", "ship", speed=1) == queues(settled, "e", "other") == {"rest"}
    for behaviour, disposition in (("REJECT", "rejected"), ("DISCARD", "discarded")):
        settled = carried(host("direct", unroutableMessageBehaviour=behaviour))
        assert settled.faithful
        routed = NaiveRouter(settled.topology, "shop").route(Message("e", "x"))
        assert routed.disposition == disposition


def test_a_destination_is_a_queue_before_it_is_an_exchange_and_keys_are_replaced_on_the_way() -> None:
    document = host("topic", binding("next", "a.#", **{"x-replacement-routing-key": "b"}))
    document["queues"] = [{"name": "q"}]
    document["exchanges"].append({"name": "next", "type": "direct", "durableBindings": [binding("q", "b")]})
    assert queues(carried(document), "e", "a.x") == {"q"}
    document["queues"].append({"name": "next"})
    assert queues(carried(document), "e", "a.x") == {"next"}


@pytest.mark.parametrize(
    ("arguments", "properties", "matches"),
    [
        ({"x-match": "all", "a": "1", "b": ""}, {"a": "1", "b": "any"}, True),  # "" asks for presence
        ({"x-match": "all", "a": "1", "b": ""}, {"a": "1"}, False),
        ({"x-match": "any", "a": "1", "b": None}, {"b": 3}, True),
        ({"x-match": "any", "a": "1", "b": None}, {"c": 3}, False),
        ({"x-match": "any"}, {}, True),  # no criteria: everything
        ({"X-Match": "ANY", "a": "1", "b": "2"}, {"b": "2"}, True),
        ({"x-match": "any-with-x", "a": "1", "b": "2"}, {"b": "2"}, False),  # no form there: all
        ({"X-other": "1", "a": "1"}, {"a": "1"}, True),
        ({}, {}, True),
    ],
)
def test_headers_match_as_there(arguments: dict[str, Any], properties: dict[str, Any], matches: bool) -> None:
    settled = carried(host("headers", binding("q", **arguments)))
    assert (queues(settled, "e", **properties) == {"q"}) is matches


def test_numbers_of_headers_are_a_difference() -> None:
    settled = carried(host("headers", binding("q", a=5)))
    assert outcomes(settled)["binding e -> q, key ''"] == "different"


def test_of_two_bindings_of_a_key_and_destination_the_later_one_counts() -> None:
    first, second = binding("q", "k", **{"x-filter-jms-selector": "a = 1"}), binding("q", "k")
    settled = carried(host("direct", first, second))
    assert queues(settled, "e", "k", a=2) == {"q"}
    assert [item.outcome for item in settled.objects if item.kind == "binding"] == ["not carried over", "exact"]
    settled = carried(host("direct", second, first))
    assert queues(settled, "e", "k", a=2) == set()


def test_a_selector_that_is_none_leaves_its_binding_out_where_the_broker_lets_nothing_pass() -> None:
    settled = carried(host("direct", binding("q", "k", **{"x-filter-jms-selector": "a ="})))
    assert outcomes(settled)["binding e -> q, key 'k'"] == "not carried over"
    assert queues(settled, "e", "k", a=1) == set()


def test_queues_take_their_limits_and_say_what_differs() -> None:
    queue = {
        "name": "q",
        "type": "lvq",
        "lvqKey": "symbol",
        "maximumMessageTtl": "60000",
        "overflowPolicy": "RING",
        "maximumQueueDepthMessages": 10,
        "maximumDeliveryAttempts": 3,
        "expiryPolicy": "ROUTE_TO_ALTERNATE",
        "alternateBinding": {"destination": "dead"},
        "defaultFilters": {"x-filter-jms-selector": {"x-filter-jms-selector": ["a = 1"]}},
        "alertRepeatGap": 3,
        "wat": 1,
    }
    settled = carried({**_HOST, "queues": [queue, {"name": "dead"}, {"name": "plain", "maximumDeliveryAttempts": 0}]})
    (item,) = [item for item in settled.objects if item.name == "q"]
    assert dict(settled.topology.queues["shop", "q"].arguments) == {
        "x-last-value-key": "symbol",
        "x-message-ttl": 60_000,
        "x-max-length": 10,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dead",
    }
    weights = {note.key: note.weight.value for note in item.notes}
    assert weights["wat"] == "unknown" and weights["alertRepeatGap"] == "no effect"
    assert {"defaultFilters", "maximumDeliveryAttempts", "alternateBinding", "type"} <= weights.keys()
    assert outcomes(settled)["queue plain"] == "exact"


def test_a_broker_is_its_virtual_host_nodes_and_what_is_not_carried_over() -> None:
    inner = json.dumps({"type": "BDB", "exchanges": [{"name": "e", "type": "fanout"}]})
    document = f"""/* a licence: "quoted" */
    {{"name": "${{broker.name}}", "modelVersion": "9.0", // of 9.2
      "ports": [{{"name": "AMQP", "port": "${{qpid.amqp_port}}"}}],
      "virtualhostnodes": [{{"name": "default", "virtualHostInitialConfiguration": {json.dumps(inner)}}},
                           {{"name": "var", "virtualHostInitialConfiguration": "${{x}}"}},
                           {{"name": "far", "type": "JSON"}}]}}""".encode()
    settled = carried(document)
    assert outcomes(settled) == {
        "broker ${broker.name}": "exact",
        "port AMQP": "not carried over",
        "virtual host node default": "exact",
        "virtual host default": "exact",
        "exchange e": "exact",
        "virtual host node var": "not carried over",
        "virtual host node far": "not carried over",
    }
    assert ("default", "e") in settled.topology.exchanges
    assert ("/", "e") in carried(document, vhost="/").topology.exchanges


def test_predeclared_exchanges_take_bindings_but_no_alternate_and_an_example_says_so() -> None:
    document = {
        **_HOST,
        "exchanges": [{"name": "amq.direct", "type": "direct", "alternateBinding": {"destination": "rest"}}],
        "queues": [{"name": "rest"}],
    }
    (example,) = [
        note["example"] for item in carried(document).as_data() for note in item["notes"] if "example" in note
    ]
    assert (example["there"], example["here"]) == (["rest"], [])
    document["exchanges"] = [{"name": "amq.topic", "type": "topic", "durableBindings": [binding("rest", "a.*")]}]
    assert queues(carried(document), "amq.topic", "a.b") == {"rest"}


def test_names_with_variables_and_unknown_keys_are_reported() -> None:
    settled = carried(
        {**_HOST, "wat": 1, "queues": [{"name": "${env}.q"}], "exchanges": [{"name": "e", "type": "fanout", "x": 1}]}
    )
    assert outcomes(settled) == {
        "virtual host shop": "different",
        "exchange e": "different",
        "queue ${env}.q": "not carried over",
    }


@pytest.mark.parametrize("raw", [b"{}", b"[]", b'{"queues": 3}', b'{"exchanges": [1]}', b"\xff", b"{", b""])
def test_what_is_no_configuration_is_refused(raw: bytes) -> None:
    with pytest.raises(DefinitionsRefused):
        carried(raw)


def test_what_has_a_variable_in_its_name_is_left_out_and_not_declared() -> None:
    document = {**_HOST, "queues": [{"name": "${q}"}, {"name": "r"}], "exchanges": [{"name": "${e}", "type": "direct"}]}
    settled = carried(document)
    assert outcomes(settled) == {
        "virtual host shop": "exact",
        "exchange ${e}": "not carried over",
        "queue ${q}": "not carried over",
        "queue r": "exact",
    }
    assert set(settled.topology.queues) == {("shop", "r")}
    assert ("shop", "${e}") not in settled.topology.exchanges


def test_an_alternate_that_is_not_there_is_told_of() -> None:
    settled = carried(host("direct", alternateBinding={"destination": "nowhere"}))
    assert outcomes(settled)["exchange e"] == "different"
    assert not settled.topology.exchanges["shop", "e"].arguments
    document = {**_HOST, "queues": [{"name": "q"}, {"name": "q", "maximumMessageTtl": 5}]}
    assert [item.outcome.value for item in carried(document).objects][1:] == ["not carried over", "different"]
