"""Exchanges, queues, bindings, diverts, vhosts, policies: what the recorded calls do not show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.service.conftest import Server
from tests.service.http import Client, segment

pytestmark = pytest.mark.service

NAME = "topo logy/%2F"
AT = segment(NAME)


@pytest.fixture(autouse=True)
def vhost(client: Client) -> Iterator[None]:
    client.delete(f"/vhosts/{AT}")
    assert client.put(f"/vhosts/{AT}").status == 201
    yield
    client.delete(f"/vhosts/{AT}")


def version(client: Client) -> int:
    number: int = client.get("/overview").json["topology_version"]
    return number


@pytest.mark.parametrize("name", ["a/b", "..", ".", "50%2F", "a b+c", "~", "ü✓", "x" * 255, "a?b#c", "a\nb"])
def test_any_name_round_trips(client: Client, name: str) -> None:
    at = segment(name)
    assert client.put(f"/queues/{AT}/{at}").status == 201
    assert client.get(f"/queues/{AT}/{at}").json["name"] == name
    assert [item["name"] for item in client.get(f"/queues/{AT}?columns=name").json] == [name]
    assert client.post(f"/bindings/{AT}/e/amq.topic/q/{at}", {"routing_key": name}).status == 201
    (bound,) = client.get(f"/bindings/{AT}/e/amq.topic/q/{at}").json
    key = segment(bound["properties_key"])
    assert client.get(f"/bindings/{AT}/e/amq.topic/q/{at}/{key}").json == bound
    assert client.delete(f"/bindings/{AT}/e/amq.topic/q/{at}/{key}").status == 204
    assert client.delete(f"/queues/{AT}/{at}").status == 204


def test_the_location_of_a_binding_leads_to_it(client: Client) -> None:
    client.put(f"/queues/{AT}/a%2Fq")
    answer = client.post(f"/bindings/{AT}/e/amq.match/q/a%2Fq", {"routing_key": "x/y", "arguments": {"n": 1}})
    location = answer.headers["location"]
    assert client.get(f"/bindings/{AT}/e/amq.match/q/{location}").json["arguments"] == {"n": 1}


@pytest.mark.parametrize("encode", [str, segment])
def test_a_binding_with_arguments_is_removed_by_its_listed_key(client: Client, encode: Callable[[str], str]) -> None:
    """Ansible puts the listed key into the address as it stands, the browser console encodes it."""
    client.put(f"/queues/{AT}/q")
    client.post(f"/bindings/{AT}/e/amq.topic/q/q", {"routing_key": "#", "arguments": {"x": 1}})
    client.post(f"/bindings/{AT}/e/amq.topic/q/q", {"routing_key": "#"})
    kept, bound = sorted(client.get(f"/bindings/{AT}/e/amq.topic/q/q").json, key=lambda item: len(item["arguments"]))
    assert client.delete(f"/bindings/{AT}/e/amq.topic/q/q/{encode(bound['properties_key'])}").status == 204
    assert client.get(f"/bindings/{AT}/e/amq.topic/q/q").json == [kept]


def test_the_default_exchange_may_be_an_empty_segment(client: Client) -> None:
    client.put(f"/queues/{AT}/q")
    body = {"routing_key": "q", "payload": "m", "payload_encoding": "string", "properties": {}}
    assert client.post(f"/exchanges/{AT}//publish", body).json == {"routed": True}


def test_paths_that_are_no_utf8_are_refused(client: Client) -> None:
    assert client.get(f"/queues/{AT}/%FF").status == 400
    assert client.get(f"/queues/{AT}/" + "x" * 20_000).status == 400


def test_typed_and_void_arguments_keep_their_types(client: Client) -> None:
    client.put(f"/queues/{AT}/q")
    arguments = {"at": {"timestamp": 5}, "bin": {"binary": "00ff"}, "void": None, "table": {"a": 1, "b": [1.5]}}
    assert client.post(f"/bindings/{AT}/e/amq.match/q/q", {"arguments": arguments}).status == 201
    (bound,) = client.get(f"/bindings/{AT}/e/amq.match/q/q").json
    assert bound["arguments"] == arguments
    document = client.get(f"/definitions/{AT}").json
    assert document["bindings"][0]["arguments"] == arguments
    client.delete(f"/bindings/{AT}/e/amq.match/q/q/{segment(bound['properties_key'])}")
    assert client.post(f"/definitions/{AT}", document).status == 204
    assert client.get(f"/bindings/{AT}/e/amq.match/q/q").json == [bound]


def test_a_bad_selector_is_refused_with_its_place(client: Client) -> None:
    client.put(f"/queues/{AT}/q")
    answer = client.post(f"/bindings/{AT}/e/amq.topic/q/q", {"arguments": {"x-filter-jms-selector": "price >"}})
    assert answer.status == 400
    assert (answer.json["filter"]["line"], answer.json["filter"]["column"]) == (1, 8)
    assert client.get(f"/bindings/{AT}/e/amq.topic/q/q").json == []


def test_diverts_are_declared_listed_and_deleted(client: Client) -> None:
    client.put(f"/exchanges/{AT}/x")
    body = {"source": "x", "destination": "amq.fanout", "filter": "price > 5", "exclusive": "true"}
    assert client.put(f"/diverts/{AT}/d", body).status == 201
    assert client.put(f"/diverts/{AT}/d", body).status == 204
    shown = {"name": "d", "vhost": NAME, **body, "exclusive": True, "routing_key": None, "transform": ""}
    assert client.get(f"/diverts/{AT}/d").json == shown
    assert client.get(f"/diverts/{AT}").json == [shown]
    assert client.put(f"/diverts/{AT}/d", {**body, "filter": "price >"}).status == 400
    assert client.put(f"/diverts/{AT}/e", {**body, "source": "none"}).status == 404
    assert client.get("/diverts").json == [shown]
    assert client.delete(f"/diverts/{AT}/d").status == 204
    assert client.delete(f"/diverts/{AT}/d").status == 404


def test_capabilities_are_told_for_service_exchange_and_queue(client: Client) -> None:
    client.put(f"/queues/{AT}/q")
    told = client.get("/capabilities").json["capabilities"]
    assert "AMQP_FILTEX_SQL_V1_0" in told
    assert client.get(f"/exchanges/{AT}/amq.topic/capabilities").json["capabilities"] == told
    assert client.get(f"/queues/{AT}/q/capabilities").json["capabilities"] == told
    assert client.get(f"/queues/{AT}/none/capabilities").status == 404
    assert client.get(f"/exchanges/{AT}/amq.direct/capabilities").json["capabilities"] == told
    nothing_can_be_bound = client.get(f"/exchanges/{AT}/amq.default/capabilities")
    assert nothing_can_be_bound.json == {"capabilities": []}


def test_a_protected_vhost_stays(client: Client) -> None:
    assert client.post(f"/vhosts/{AT}/deletion/protection").status == 204
    assert client.delete(f"/vhosts/{AT}").status == 412
    assert client.delete(f"/vhosts/{AT}/deletion/protection").status == 204
    assert client.delete(f"/vhosts/{AT}").status == 204


def test_changing_a_vhost_keeps_what_is_not_said(client: Client) -> None:
    client.put(f"/vhosts/{AT}", {"description": "d", "tags": "a,b"})
    client.put(f"/vhosts/{AT}", {"tracing": "true"})
    shown = client.get(f"/vhosts/{AT}").json
    assert (shown["description"], shown["tags"], shown["tracing"]) == ("d", ["a", "b"], True)


def test_lists_are_narrowed_by_a_header(client: Client) -> None:
    client.put(f"/queues/{AT}/q")
    for kind in ("queues", "exchanges", "bindings"):
        # header values are Latin-1; the name of this vhost is ASCII
        found = client.call("GET", f"/{kind}", headers={"x-vhost": NAME}).json
        assert {item["vhost"] for item in found} == {NAME}


def test_parameters_and_limits_are_kept_and_reported(client: Client) -> None:
    assert client.put(f"/parameters/c/{AT}/n", {"value": {"uri": "x"}}).status == 201
    assert client.get(f"/parameters/c/{AT}/n").json["value"] == {"uri": "x"}
    assert client.put("/global-parameters/g", {"value": [1]}).status == 201
    assert client.get("/global-parameters/g").json == {"name": "g", "value": [1]}
    assert client.delete("/global-parameters/g").status == 204
    assert client.put(f"/vhost-limits/{AT}/max-queues", {"value": 5}).status == 204
    assert client.get(f"/vhost-limits/{AT}").json == [{"vhost": NAME, "value": {"max-queues": 5}}]
    assert client.put(f"/vhost-limits/{AT}/nonsense", {"value": 5}).status == 400
    assert client.delete(f"/vhost-limits/{AT}/max-queues").status == 204
    assert client.get(f"/vhost-limits/{AT}").json == []
    assert client.put("/cluster-name", {"name": "renamed"}).status == 204
    assert client.get("/cluster-name").json == {"name": "renamed"}
    client.delete("/global-parameters/cluster_name")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("queues/{at}/q", {"arguments": {"x-max-length": "ten"}}),
        ("queues/{at}/q", {"arguments": {"x-max-length": -1}}),
        ("queues/{at}/q", {"arguments": {"x-queue-type": "nonsense"}}),
        ("queues/{at}/q", {"arguments": {"x-queue-filter": "price >"}}),
        ("queues/{at}/q", {"arguments": {"n": 2**64}}),
        ("exchanges/{at}/x", {"arguments": {"alternate-binding": "q"}}),
        ("exchanges/{at}/x", {"arguments": {"alternate-binding": {}}}),
        ("exchanges/{at}/x", {"alternateBinding": "q"}),
        ("exchanges/{at}/x", {"alternateBinding": {"destination": None}}),
        ("exchanges/{at}/x", {"unroutableMessageBehaviour": "EXPLODE"}),
        ("exchanges/{at}/x", {"arguments": {"unroutableMessageBehaviour": True}}),
        ("exchanges/{at}/x", {"type": 5}),
        ("policies/{at}/p", {"pattern": "(", "definition": {"a": 1}}),
        ("policies/{at}/p", {"pattern": "x", "definition": {}}),
        ("policies/{at}/p", {"pattern": "x", "definition": {"alternate-exchange": 5}}),
        ("vhosts/" + "v" * 256, {}),
    ],
)
def test_bad_declarations_change_nothing(client: Client, path: str, body: dict[str, Any]) -> None:
    before = version(client)
    answer = client.put("/" + path.format(at=AT), body)
    assert (answer.status, answer.json["error"]) == (400, "bad_request"), answer.raw
    assert version(client) == before


@pytest.mark.parametrize("among_arguments", [False, True])
def test_attributes_of_qpid_mean_what_the_arguments_mean(client: Client, among_arguments: bool) -> None:
    attributes = {"alternateBinding": {"destination": "rest", "attributes": {}}, "unroutableMessageBehaviour": "REJECT"}
    body = {"type": "direct", **({"arguments": attributes} if among_arguments else attributes)}
    declared = client.put(f"/exchanges/{AT}/x", body)
    assert (declared.status, "x-bindery-without-effect" in declared.headers) == (201, False)
    meant = {"alternate-binding": {"destination": "rest"}, "unroutable-message-behaviour": "REJECT"}
    assert client.get(f"/exchanges/{AT}/x").json["arguments"] == meant
    assert client.put(f"/exchanges/{AT}/x", body).status == 204, "declared again"
    assert client.put(f"/exchanges/{AT}/x", {"type": "direct", "arguments": meant}).status == 204
    assert client.put(f"/exchanges/{AT}/x", {"type": "direct", "alternateBinding": None}).status == 400, "inequivalent"
    other = {**body, "arguments": {**body.get("arguments", {}), "alternate-binding": {"destination": "other"}}}
    assert client.put(f"/exchanges/{AT}/y", other).status == 201
    assert client.get(f"/exchanges/{AT}/y").json["arguments"]["alternate-binding"] == {"destination": "other"}


def test_bodies_are_capped(client: Client) -> None:
    client.put(f"/queues/{AT}/q")
    big = {"arguments": {"a": "x" * 5_000}}
    assert client.post(f"/bindings/{AT}/e/amq.topic/q/q", big).status == 400
    assert client.call("PUT", f"/exchanges/{AT}/x", raw=b" " * (17 * 2**20)).status == 400
    deep = b'{"arguments": {"a": ' + b"[" * 500 + b"]" * 500 + b"}}"
    assert client.call("PUT", f"/exchanges/{AT}/x", raw=deep).status == 400


# -- many at once -----------------------------------------------------------------------------------------


def test_concurrent_changes_share_commits(client: Client) -> None:
    before = version(client)
    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(lambda n: client.put(f"/exchanges/{AT}/c{n}"), range(96)))
    assert {answer.status for answer in answers} == {201}
    assert version(client) - before < 48
    assert len(client.get(f"/exchanges/{AT}?columns=name").json) == 96 + 6


def test_an_invalid_change_does_not_fail_its_neighbours(client: Client) -> None:
    def declare(number: int) -> int:
        kind = "nonsense" if number % 3 == 0 else "direct"
        return client.put(f"/exchanges/{AT}/n{number}", {"type": kind}).status

    with ThreadPoolExecutor(16) as pool:
        statuses = list(pool.map(declare, range(48)))
    assert statuses == [400 if number % 3 == 0 else 201 for number in range(48)]


def test_the_same_declaration_from_many_is_new_once(client: Client) -> None:
    with ThreadPoolExecutor(16) as pool:
        statuses = list(pool.map(lambda _: client.put(f"/queues/{AT}/same").status, range(16)))
    assert sorted(statuses) == [201] + [204] * 15


def test_two_services_on_one_data_directory_see_each_other(server: Server, client: Client) -> None:
    other = Server(server.settings.data).start()
    try:
        second = other.client()
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda n: (client, second)[n % 2].put(f"/exchanges/{AT}/t{n}").status, range(32)))
        for one in (client, second):
            assert len(one.get(f"/exchanges/{AT}?columns=name").json) == 32 + 6
        second.put(f"/queues/{AT}/q")
        body = {"routing_key": "q", "payload": "m", "payload_encoding": "string", "properties": {}}
        assert client.post(f"/exchanges/{AT}/amq.default/publish", body).json == {"routed": True}
        got = second.post(f"/queues/{AT}/q/get", {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"})
        assert got.json[0]["payload"] == "m"
        assert client.get(f"/queues/{AT}/q").json["messages"] == 0
    finally:
        other.stop()


def test_caps_of_filters_are_a_global_parameter(client: Client) -> None:
    limits = "/global-parameters/filter-limits"
    client.put(f"/queues/{AT}/capped", {})
    long = {"arguments": {"x-filter-jms-selector": "a IN (" + ", ".join(["'b'"] * 600) + ")"}}
    refused = client.put(limits, {"value": {"tokenz": 5}})
    assert (refused.status, "tokenz" in refused.json["reason"]) == (400, True)
    assert client.post(f"/bindings/{AT}/e/amq.topic/q/capped", long).status == 400
    try:
        assert client.put(limits, {"value": {"tokens": 3_000}}).status == 201
        assert client.post(f"/bindings/{AT}/e/amq.topic/q/capped", long).status == 201
    finally:
        assert client.delete(limits).status == 204


def test_a_schema_of_bodies_is_kept_as_it_was_written(client: Client) -> None:
    """Defaults of null and objects with one key are part of it, and no typed values."""
    delay = {"name": "delay", "type": ["null", "int"], "default": None}
    schema = {"type": "record", "name": "R", "fields": [delay, {"name": "m", "type": "int", "default": {"int": 5}}]}
    arguments = {"x-payload": "avro", "x-payload-schema": schema}
    assert client.put(f"/exchanges/{AT}/e", {"type": "topic", "arguments": arguments}).status == 201
    assert client.put(f"/exchanges/{AT}/e", {"type": "topic", "arguments": arguments}).status == 204
    assert client.get(f"/exchanges/{AT}/e").json["arguments"] == arguments
    assert client.put(f"/queues/{AT}/q", {"arguments": arguments}).status == 201
    assert client.get(f"/queues/{AT}/q").json["arguments"]["x-payload-schema"] == schema
    definitions = client.get(f"/definitions/{AT}").json
    assert definitions["exchanges"][0]["arguments"] == arguments
    assert client.post(f"/definitions/{AT}", definitions).status in (201, 204)
    for wrong in ({"file": "s.avsc"}, {"type": "recrod"}, None):
        refused = client.put(
            f"/exchanges/{AT}/f", {"type": "topic", "arguments": arguments | {"x-payload-schema": wrong}}
        )
        assert refused.status == 400
        assert "x-payload" in str(refused.json)
