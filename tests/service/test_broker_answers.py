"""Answers as RabbitMQ 3.10 was seen to give them to calls that the recording does not have."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bindery.api.counts import Counts
from bindery.api.routes import queues
from bindery.store.access import hash_password
from tests.service.conftest import Server
from tests.service.http import Client

pytestmark = pytest.mark.service

AT = "answers"


@pytest.fixture(autouse=True)
def vhost(client: Client) -> Iterator[None]:
    client.delete(f"/vhosts/{AT}")
    assert client.put(f"/vhosts/{AT}").status == 201
    yield
    client.delete(f"/vhosts/{AT}")


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"x-expires": 0}, "'x-expires' for queue 'q' in vhost 'answers': {value_zero,0}"),
        ({"x-expires": -1}, "'x-expires' for queue 'q' in vhost 'answers': {value_negative,-1}"),
        ({"x-max-length": "5"}, "'x-max-length' for queue 'q' in vhost 'answers': \"expected integer, got longstr\""),
        ({"x-max-priority": 300}, "'x-max-priority' for queue 'q' in vhost 'answers': {max_value_exceeded,300}"),
        ({"x-overflow": "no"}, "'x-overflow' for queue 'q' in vhost 'answers': invalid_overflow"),
        ({"x-queue-mode": "no"}, "'x-queue-mode' for queue 'q' in vhost 'answers': \"unsupported queue mode 'no'\""),
        ({"x-queue-type": "no"}, "'x-queue-type' for queue 'q' in vhost 'answers': \"unsupported queue type 'no'\""),
        (
            {"x-single-active-consumer": "yes"},
            "'x-single-active-consumer' for queue 'q' in vhost 'answers': {unacceptable_type,longstr}",
        ),
        (
            {"x-dead-letter-routing-key": "k"},
            "'x-dead-letter-routing-key' for queue 'q' in vhost 'answers': routing_key_but_no_dlx_defined",
        ),
    ],
)
def test_queue_arguments_that_mean_nothing_are_refused(client: Client, arguments: dict[str, Any], fault: str) -> None:
    refused = client.put(f"/queues/{AT}/q", {"arguments": arguments})
    assert (refused.status, refused.json["reason"]) == (400, f"invalid arg {fault}")
    assert client.get(f"/queues/{AT}/q").status == 404


@pytest.mark.parametrize(
    ("old", "new", "received", "current"),
    [
        ({"alternate-exchange": "a"}, {"alternate-exchange": "b"}, "'b'", "'a'"),
        ({}, {"n": 5}, "the value '5' of type 'long'", "none"),
        ({"n": 60_000}, {}, "none", "the value '60000' of type 'long'"),
        ({"n": 1}, {"n": 2}, "'2'", "'1'"),
        ({"n": "d"}, {}, "none", "the value 'd' of type 'longstr'"),
        ({}, {"n": "é'"}, "the value 'é'' of type 'longstr'", "none"),
        ({"n": True}, {}, "none", "the value 'true' of type 'bool'"),
        ({"n": True}, {"n": False}, "'false'", "'true'"),
        ({}, {"n": 1.5}, "the value '1.5' of type 'double'", "none"),
        ({"n": 1}, {"n": 1.5}, "'1.5'", "'1'"),
    ],
)
@pytest.mark.parametrize("kind", ["queues", "exchanges"])
def test_an_inequivalent_argument_is_named_with_both_values(
    client: Client, kind: str, old: dict[str, Any], new: dict[str, Any], received: str, current: str
) -> None:
    client.put(f"/{kind}/{AT}/n", {"arguments": old})
    refused = client.put(f"/{kind}/{AT}/n", {"arguments": new})
    said = (
        f"inequivalent arg '{next(iter(new | old))}' for {kind.removesuffix('s')} 'n' in vhost '{AT}': "
        f"received {received} but current is {current}"
    )
    assert (refused.status, refused.json) == (400, {"error": "bad_request", "reason": said})


@pytest.mark.parametrize(
    ("queue", "path"), [("it's", f"/queues/{AT}/it%27s"), ("back\\slash", f"/queues/{AT}/back%5Cslash")]
)
def test_names_in_an_inequivalent_declaration_stand_as_they_are(client: Client, queue: str, path: str) -> None:
    client.put(path, {"durable": True})
    said = f"inequivalent arg 'durable' for queue '{queue}' in vhost '{AT}': received 'false' but current is 'true'"
    assert client.put(path, {"durable": False}).json["reason"] == said


def test_an_argument_of_a_queue_that_is_there_is_compared_before_it_is_judged(client: Client) -> None:
    client.put(f"/queues/{AT}/q", {"arguments": {"x-max-length": 5}})
    refused = client.put(f"/queues/{AT}/q", {"arguments": {"x-max-length": "no"}})
    said = f"inequivalent arg 'x-max-length' for queue 'q' in vhost '{AT}': received 'no' but current is '5'"
    assert (refused.status, refused.json["reason"]) == (400, said)


def test_known_queue_arguments_are_accepted(client: Client) -> None:
    arguments = {
        "x-expires": 1,
        "x-message-ttl": 0,
        "x-max-priority": 255,
        "x-overflow": "reject-publish",
        "x-queue-mode": "lazy",
        "x-queue-type": "classic",
        "x-dead-letter-exchange": "dead",
        "x-dead-letter-routing-key": "k",
        "x-single-active-consumer": True,
    }
    assert client.put(f"/queues/{AT}/q", {"arguments": arguments}).status == 201
    assert client.get(f"/queues/{AT}/q").json["arguments"] == arguments


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        (f"/queues/{AT}/q", {"arguments": {"x-max-priority": 1, "x-queue-filter": "a = 1"}}, "x-max-priority"),
        (f"/queues/{AT}/q", {"arguments": {"x-queue-type": "classic", "x-queue-mode": "lazy"}}, None),
        (f"/queues/{AT}/q", {"arguments": {"é, \r\n": 1}}, "%C3%A9%2C%20%0D%0A"),
        (f"/queues/{AT}/q", {"arguments": dict.fromkeys(map(str, range(21)), 1)}, "and 1 more"),
        (f"/exchanges/{AT}/x", {"arguments": {"hash-header": "h", "alternate-exchange": "y"}}, "hash-header"),
        (f"/policies/{AT}/p", {"pattern": "", "definition": {"max-length": 1, "delivery-limit": 1}}, "delivery-limit"),
        (f"/operator-policies/{AT}/p", {"pattern": "", "definition": {"max-length": 1}}, None),
        (f"/operator-policies/{AT}/p", {"pattern": "", "definition": {"delivery-limit": 1}}, "delivery-limit"),
        (f"/parameters/shovel/{AT}/s", {"value": {"src-uri": "amqp://"}}, "shovel"),
        ("/vhosts/idle", {"default_queue_type": "quorum", "tracing": True}, "default_queue_type, tracing"),
        ("/vhosts/idle", {"description": "of something"}, None),
        (f"/queues/{AT}/q", {"argumnets": {"x-queue-filter": "a = 1"}, "name": "q", "node": None}, "argumnets"),
        (f"/queues/{AT}/q", {"type": "quorum", "arguments": {"max-length": 1}}, "type, max-length"),
        (
            f"/policies/{AT}/p",
            {"pattern": "", "definition": {"delivery-limit": 1}, "aply-to": "all"},
            "aply-to, delivery-limit",
        ),
    ],
)
def test_a_declaration_says_what_is_idle(client: Client, path: str, body: dict[str, Any], said: str | None) -> None:
    client.delete("/vhosts/idle")
    for status in (201, 204):
        answer = client.put(path, body)
        header = answer.headers.get("x-bindery-without-effect")
        assert answer.status == status
        assert header == said or (said is not None and header is not None and header.endswith(f", {said}"))


def test_keys_that_clients_put_beside_are_not_named(client: Client) -> None:
    told = {"vhost": AT, "source": "amq.topic", "destination": "q", "destination_type": "q", "properties_key": "~"}
    client.put(f"/queues/{AT}/q")
    answer = client.post(f"/bindings/{AT}/e/amq.topic/q/q", {"routing_key": "k", "arguments": {}} | told)
    assert (answer.status, "x-bindery-without-effect" in answer.headers) == (201, False)
    answer = client.post(f"/bindings/{AT}/e/amq.topic/q/q", {"routingkey": "other"})
    assert answer.headers["x-bindery-without-effect"] == "routingkey"


@pytest.mark.parametrize(
    ("method", "path", "body", "says"),
    [
        (
            "POST",
            f"/unroutable/{AT}/redrive",
            {"reasns": ["filtered"]},
            "key 'reasns': did you mean 'reasons'?",
        ),
        ("POST", "/route", {"message": {}, "zzz": 1}, "unknown key 'zzz': known keys: vhost, message, "),
        ("POST", "/topology/rollback", {"to": 1, "expect": 2}, "unknown key 'expect': did you mean 'expected'?"),
        ("GET", f"/unroutable/{AT}?reson=filtered", None, "no query parameter 'reson'; did you mean 'reason'?"),
        ("GET", f"/lint/{AT}?zzz=1", None, "no query parameter 'zzz'; it has "),
        ("DELETE", f"/queues/{AT}/q/contents?filter=a", None, "this deletion has no query parameter 'filter'"),
    ],
)
def test_operations_that_no_broker_has_refuse_what_they_do_not_read(
    client: Client, method: str, path: str, body: Any, says: str
) -> None:
    client.put(f"/queues/{AT}/q")
    answer = client.call(method, path, body)
    assert answer.status == 400
    assert says in answer.json["reason"]
    assert client.get("/overview?zzz=1").status == 200, "clients of the broker send parameters of their own"


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (f"/vhost-limits/{AT}/max-connections", 5, "max-connections"),
        (f"/vhost-limits/{AT}/max-connections", -1, None),
        (f"/vhost-limits/{AT}/max-queues", 5, None),
        ("/user-limits/guest/max-channels", 5, "max-channels"),
        ("/user-limits/guest/max-connections", 5, "max-connections"),
    ],
)
def test_a_limit_says_whether_it_is_idle(client: Client, path: str, value: int, said: str | None) -> None:
    answer = client.put(path, {"value": value})
    assert (answer.status, answer.headers.get("x-bindery-without-effect")) == (204, said)
    assert client.delete(path).status == 204


def test_max_queues_bounds_the_queues_of_a_vhost(client: Client) -> None:
    def limit(value: int) -> None:
        assert client.put(f"/vhost-limits/{AT}/max-queues", {"value": value}).status == 204

    def reached(name: str, limit: int) -> dict[str, str]:
        return {
            "error": "bad_request",
            "reason": f"cannot declare queue '{name}': queue limit in vhost '{AT}' ({limit}) is reached",
        }

    def declare(name: str, **body: Any) -> int | dict[str, str]:
        answer = client.put(f"/queues/{AT}/{name}", {"durable": True, **body})
        return answer.json if answer.status == 400 else answer.status

    limit(2)
    assert (declare("a"), declare("b")) == (201, 201)
    assert declare("c") == reached("c", 2)
    assert declare("c", arguments={"x-max-length": "no"}) == reached("c", 2)
    assert declare("a") == 204
    limit(0)
    assert (declare("a"), declare("d")) == (204, reached("d", 0))
    limit(-1)
    assert declare("d") == 201
    limit(1)
    assert client.delete(f"/queues/{AT}/a").status == 204
    assert declare("a") == reached("a", 1)
    more = {"queues": [{"name": name, "durable": True} for name in ("b", "d", "more", "most")]}
    refused = client.post(f"/definitions/{AT}", more)
    assert refused.status == 400
    assert refused.json["reason"].startswith(f"queues[2]: {reached('more', 1)['reason']}")
    assert len(refused.json["report"]["errors"]) == 1
    limit(3)
    assert client.post(f"/definitions/{AT}", more).status == 400
    assert client.post(f"/definitions/{AT}", {"queues": more["queues"][:3]}).status == 204
    assert {item["name"] for item in client.get(f"/queues/{AT}").json} == {"b", "d", "more"}


def test_a_limit_of_the_same_document_does_not_bound_its_queues(client: Client) -> None:
    document = {
        "queues": [{"name": name, "durable": True} for name in "ab"],
        "parameters": [{"component": "vhost-limits", "name": "limits", "value": {"max-queues": 1}}],
    }
    for _ in range(2):
        assert client.post(f"/definitions/{AT}", document).status == 204
    assert client.put(f"/queues/{AT}/c", {}).status == 400


@pytest.mark.parametrize("value", [{"max-queues": "1"}, {"max-queues": True}, {"max-queues": None}, 5, {}])
def test_what_is_no_limit_bounds_nothing(client: Client, value: Any) -> None:
    assert client.put(f"/parameters/vhost-limits/{AT}/limits", {"value": value}).status == 201
    assert client.put(f"/queues/{AT}/q", {}).status == 201


@pytest.mark.parametrize("kind", ["queues", "exchanges"])
@pytest.mark.parametrize("arguments", [{"a": None}, {"a": {"b": [1, None]}}])
def test_only_bindings_take_null_arguments(client: Client, kind: str, arguments: dict[str, Any]) -> None:
    refused = client.put(f"/{kind}/{AT}/n", {"arguments": arguments})
    assert (refused.status, refused.json["reason"]) == (400, "null_not_allowed")
    client.put(f"/queues/{AT}/q")
    assert client.post(f"/bindings/{AT}/e/amq.headers/q/q", {"arguments": arguments}).status == 201


def test_a_filter_set_of_a_queue_may_refer_to_null(client: Client) -> None:
    present = {"f": {"descriptor": "amqp:application-properties-filter", "value": {"a": None}}}
    assert client.put(f"/queues/{AT}/q", {"arguments": {"x-queue-filter": present}}).status == 201


@pytest.mark.parametrize("kind", ["queues", "exchanges"])
def test_null_is_no_object_of_arguments(client: Client, kind: str) -> None:
    assert client.put(f"/{kind}/{AT}/n", {"arguments": None}).status == 400


@pytest.mark.parametrize(("given", "stored"), [(None, ""), (5, "5"), ("d", "d")])
def test_a_description_is_any_scalar(client: Client, given: Any, stored: str) -> None:
    assert client.put(f"/vhosts/{AT}", {"description": given}).status == 204
    assert client.get(f"/vhosts/{AT}").json["description"] == stored


def test_broken_percent_encoding_is_refused(client: Client) -> None:
    for name in ("a%2", "a%zz", "%"):
        assert client.put(f"/exchanges/{AT}/{name}", {}).status == 400


def test_a_list_narrowed_to_an_unknown_vhost_is_empty(client: Client) -> None:
    answer = client.call("GET", "/exchanges", headers={"x-vhost": "no such vhost"})
    assert (answer.status, answer.json) == (200, [])


def test_binding_in_an_unknown_vhost_is_not_found(client: Client) -> None:
    refused = client.post("/bindings/no-such-vhost/e/x/q/q", {})
    assert (refused.status, refused.json) == (404, {"error": "not_found", "reason": "vhost_not_found"})


def test_missing_keys_are_listed_in_the_order_of_the_broker(client: Client) -> None:
    publish = client.post(f"/exchanges/{AT}/amq.topic/publish", {})
    keys = ["routing_key", "properties", "payload", "payload_encoding"]
    assert publish.json["reason"] == "[" + ",\n ".join(f"{{key_missing,{key}}}" for key in keys) + "]"
    get = client.post(f"/queues/{AT}/q/get", {})
    assert get.json["reason"] == "[{key_missing,ackmode},{key_missing,count},{key_missing,encoding}]"


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"delivery_mode": 7}, "406 PRECONDITION_FAILED - invalid message: {delivery_mode_unknown,7}"),
        ({"expiration": "x"}, "406 PRECONDITION_FAILED - invalid expiration 'x': no_integer"),
    ],
)
def test_properties_that_mean_nothing_are_refused(client: Client, properties: dict[str, Any], reason: str) -> None:
    body = {"routing_key": "k", "properties": properties, "payload": "", "payload_encoding": "string"}
    refused = client.post(f"/exchanges/{AT}/amq.topic/publish", body)
    assert (refused.status, refused.json["reason"]) == (400, reason)


def test_the_length_of_a_hash_tells_its_algorithm(client: Client, server: Server) -> None:
    for algorithm in ("rabbit_password_hashing_sha256", "rabbit_password_hashing_sha512"):
        hashed = hash_password("correct horse", algorithm=algorithm)
        client.put("/users/hashed", {"password_hash": hashed, "tags": "management"})
        assert client.get("/users/hashed").json["hashing_algorithm"] == algorithm
        assert server.client("hashed", "correct horse").get("/whoami").status == 200
    refused = client.put("/users/hashed", {"password_hash": "AAAA", "tags": "management"})
    assert refused.status == 400
    client.delete("/users/hashed")


def test_the_id_of_the_cluster_is_a_global_parameter(client: Client) -> None:
    listed = {item["name"]: item["value"] for item in client.get("/global-parameters").json}
    assert listed["internal_cluster_id"].startswith("rabbitmq-cluster-id-")
    one = client.get("/global-parameters/internal_cluster_id").json
    assert one == {"name": "internal_cluster_id", "value": listed["internal_cluster_id"]}


@pytest.mark.parametrize(
    ("definition", "fault"),
    [
        ({}, "no policy provided"),
        ({"max-length": "abc"}, '<<"abc">> is not a valid maximum length'),
        ({"max-length": True}, "true is not a valid maximum length"),
        ({"max-length-bytes": -1}, "-1 is not a valid maximum length in bytes"),
        ({"message-ttl": 1.5}, "1.5 is not a valid message TTL"),
        ({"expires": 0}, "0 is not a valid queue expiry"),
        ({"overflow": "ü"}, '<<"ü"/utf8>> is not a valid overflow value'),
        ({"delivery-limit": "5"}, '<<"5">> is not a valid delivery limit'),
        ({"dead-letter-exchange": 5}, "5 is not a valid dead letter exchange name"),
        ({"dead-letter-routing-key": False}, "false is not a valid dead letter routing key"),
        ({"queue-mode": "eager"}, '<<"eager">> is not a valid queue-mode value'),
        ({"queue-version": True}, "true is not a valid queue-version value"),
        ({"alternate-exchange": 5}, "5 is not a valid alternate exchange name"),
        ({"max-age": "5x"}, '<<"5x">> is not a valid max age'),
        ({"federation-upstream": 5}, "5 is not a valid federation upstream name"),
        (
            {"federation-upstream": "a", "federation-upstream-set": "all"},
            "cannot specify federation-upstream, federation-upstream-set or federation-upstream-pattern together",
        ),
    ],
)
def test_policies_with_settings_that_mean_nothing_are_refused(
    client: Client, definition: dict[str, Any], fault: str
) -> None:
    said = f"Validation failed\n\n{fault}\n"
    for kind in ("policies", "operator-policies"):
        refused = client.put(f"/{kind}/{AT}/p", {"pattern": ".*", "definition": definition})
        assert (refused.status, refused.json["reason"]) == (400, said)
    imported = {"policies": [{"vhost": AT, "name": "p", "pattern": ".*", "definition": definition}]}
    refused = client.post("/definitions", imported)
    assert (refused.status, refused.json["reason"]) == (400, said)
    assert client.get(f"/policies/{AT}").json == []


def test_every_setting_that_a_broker_knows_is_accepted(client: Client) -> None:
    definition = {
        "alternate-exchange": "x",
        "dead-letter-exchange": "",
        "dead-letter-routing-key": "k",
        "dead-letter-strategy": "at-least-once",
        "delivery-limit": -1,
        "expires": 1,
        "max-age": "7D",
        "max-length": 0,
        "max-length-bytes": 10**12,
        "message-ttl": 0,
        "overflow": "reject-publish-dlx",
        "queue-leader-locator": "balanced",
        "queue-mode": "lazy",
        "queue-version": 2,
        "stream-filter-size-bytes": 16,
        "federation-upstream-set": "all",
        "ha-mode": "all",
    }
    assert client.put(f"/policies/{AT}/p", {"pattern": ".*", "definition": definition}).status == 201
    assert client.get(f"/policies/{AT}/p").json["definition"] == definition


def test_topic_permissions_of_a_user_in_a_vhost_are_one_resource(client: Client) -> None:
    """A permission for one more exchange is no new resource (204), as its address was there."""
    client.put("/users/topical", {"password": "secret", "tags": ""})
    one = f"/topic-permissions/{AT}/topical"
    assert client.delete(f"{one}/x").status == 404
    for exchange, status in (("x", 201), ("y", 204), ("x", 204)):
        assert client.put(one, {"exchange": exchange, "write": exchange, "read": ".*"}).status == status
    assert [item["exchange"] for item in client.get(one).json] == ["x", "y"]
    assert client.get(f"{one}/x").json == client.get(one).json
    assert client.delete(f"{one}/x").status == 204
    for path in (one, "/users/topical/topic-permissions", f"/vhosts/{AT}/topic-permissions"):
        assert [item["exchange"] for item in client.get(path).json] == ["y"], path
    assert client.delete(f"{one}/x").status == 204
    assert client.delete(f"{one}/y").status == 204
    assert client.get(one).status == 404
    client.delete("/users/topical")


@pytest.mark.parametrize(
    "path",
    ["federation-links", "stream/connections", "stream/consumers", "stream/publishers", "consumers", "shovels"],
)
def test_lists_of_what_is_never_there_are_empty_in_each_vhost(client: Client, path: str) -> None:
    assert (client.get(f"/{path}/{AT}").status, client.get(f"/{path}/{AT}").json) == (200, [])
    assert client.get(f"/{path}/none").status == 404


def test_what_a_broker_can_be_told_to_do_about_nothing_is_done(client: Client) -> None:
    assert client.post("/rebalance/queues", {}).status == 204
    assert client.call("POST", "/rebalance/queues").status == 204
    assert client.delete("/connections/username/guest").status == 204
    assert client.get("/connections/username/guest").json == []


@pytest.mark.parametrize(
    ("query", "described", "counted"),
    [
        ("?page=2&page_size=5", 5, 5),
        ("?page=1&page_size=5&sort=name&sort_reverse=true", 5, 5),
        ("?page=1&page_size=5&name=q-1&columns=vhost,name", 0, 0),
        ("?page=1&page_size=5&columns=name,durable", 5, 0),
        ("?disable_stats=true", 20, 0),
        ("?page=1&page_size=5&sort=state", 20, 5),
        ("?page=1&page_size=5&sort=messages", 5, 20),
        ("", 20, 20),
    ],
)
def test_a_page_of_queues_costs_no_more_than_its_queues(
    client: Client, monkeypatch: pytest.MonkeyPatch, query: str, described: int, counted: int
) -> None:
    for number in range(20):
        client.put(f"/queues/{AT}/q-{number:02}")
    shown: Counter[str] = Counter()
    describe, look = queues.queue_item, Counts._in_table
    monkeypatch.setattr(queues, "queue_item", lambda *a, **k: shown.update(["described"]) or describe(*a, **k))
    monkeypatch.setattr(Counts, "_in_table", lambda *a: shown.update(["counted"]) or look(*a))
    answer = client.get(f"/queues/{AT}{query}")
    items = answer.json["items"] if query.startswith("?page") else answer.json
    assert len(items) == (5 if query.startswith("?page") else 20)
    # a lookup that serves the order does not serve the page once more
    assert (shown["described"], shown["counted"]) == (described, counted)


def test_totals_and_lists_look_at_no_queue_while_nothing_changes(
    server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = [{"name": f"q{number}", "durable": True} for number in range(200)]
    assert client.post(f"/definitions/{AT}", {"queues": queues}).status == 204
    counts, looks = server.app.state.plane.counts, Counter[str]()
    look = Counts._in_table
    monkeypatch.setattr(counts, "_clock", lambda: 0.0)
    monkeypatch.setattr(Counts, "_in_table", lambda *a: looks.update(["queue"]) or look(*a))

    def looked(path: str) -> int:
        looks.clear()
        assert client.get(path).status == 200
        return looks["queue"]

    for path in (
        "/overview",
        "/vhosts",
        f"/queues/{AT}",
        f"/queues/{AT}?page=1&page_size=100",
        "/queues?sort=messages",
    ):
        settle(server)
        looked(path)
        assert looked(path) == 0, path
    message = {"routing_key": "q7", "payload": "m", "payload_encoding": "string", "properties": {}}
    for _ in range(2):
        before = client.get(f"/vhosts/{AT}").json["messages"], client.get("/overview").json["queue_totals"]["messages"]
        assert client.post(f"/exchanges/{AT}/amq.default/publish", message).json == {"routed": True}
        assert looked("/overview") >= 200
        settle(server)
        after = client.get(f"/vhosts/{AT}").json["messages"], client.get("/overview").json["queue_totals"]["messages"]
        assert after == (before[0] + 1, before[1] + 1)
        assert looked("/overview") == 0
    get = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    assert len(client.post(f"/queues/{AT}/q7/get", get).json) == 1
    assert client.get(f"/vhosts/{AT}").json["messages"] == 1
    assert client.delete(f"/queues/{AT}/q7/contents").status == 204
    assert client.get(f"/vhosts/{AT}").json["messages"] == 0


def settle(server: Server) -> None:
    """As if the last commits were of a second ago."""
    for table in ("topology", "manifest"):
        folder = Path(server.settings.data, table, "_delta_log")
        if folder.exists():
            os.utime(folder, (time.time() - 1,) * 2)


def test_deleting_users_is_all_or_nothing(client: Client) -> None:
    client.put("/users/ann", {"password": "secret", "tags": ""})
    refused = client.post("/users/bulk-delete", {"users": ["ann", "nobody"]})
    assert (refused.status, refused.json["reason"]) == (400, ["no_such_user", "nobody"])
    assert client.get("/users/ann").status == 200
    assert client.post("/users/bulk-delete", {"users": ["ann", "ann"]}).status == 204
    assert client.get("/users/ann").status == 404


def test_limits_of_an_unknown_user_are_refused(client: Client) -> None:
    refused = client.put("/user-limits/nobody/max-connections", {"value": 5})
    assert (refused.status, refused.json["reason"]) == (400, ["no_such_user", "nobody"])


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"users": [{"name": "ann"}]}, "tags_not_present"),
        (
            {"permissions": [{"user": "nobody", "vhost": AT, "configure": "", "write": "", "read": ""}]},
            ["no_such_user", "nobody"],
        ),
        (
            {"permissions": [{"user": "guest", "vhost": "nowhere", "configure": "", "write": "", "read": ""}]},
            ["no_such_vhost", "nowhere"],
        ),
    ],
)
def test_an_import_of_unknown_users_or_vhosts_is_refused(client: Client, document: dict[str, Any], reason: Any) -> None:
    refused = client.post("/definitions", document)
    assert (refused.status, refused.json["reason"]) == (400, reason)


def test_permissions_may_come_with_their_vhost(client: Client) -> None:
    granted = {"user": "guest", "vhost": "answers new", "configure": "a", "write": "b", "read": "c"}
    assert client.post("/definitions", {"vhosts": [{"name": "answers new"}], "permissions": [granted]}).status == 204
    assert client.get("/permissions/answers%20new/guest").json == granted
    client.delete("/vhosts/answers%20new")


@pytest.mark.parametrize(
    ("check", "status", "said"),
    [
        ("certificate-expiration/4/weeks", 200, {"status": "ok"}),
        ("certificate-expiration/x/weeks", 400, {"reason": "Invalid expiration value."}),
        (
            "certificate-expiration/1/eons",
            400,
            {"reason": "Time unit not recognised. Supported units: days, weeks, months, years."},
        ),
        ("port-listener/x", 400, {"reason": "Invalid port"}),
        ("port-listener/1", 503, {"status": "failed", "reason": "No active listener", "missing": 1}),
        ("protocol-listener/zz", 503, {"status": "failed", "missing": "zz", "protocols": ["http"]}),
    ],
)
def test_health_checks(client: Client, check: str, status: int, said: dict[str, Any]) -> None:
    answer = client.get(f"/health/checks/{check}")
    assert answer.status == status
    assert {key: answer.json[key] for key in said} == said


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"hash-header": "h", "hash-property": "app_id"}, "hash-header and hash-property are mutually exclusive"),
        (
            {"hash-property": "app_id"},
            "Unsupported property: app_id (properties: correlation_id, message_id, timestamp)",
        ),
    ],
)
def test_arguments_that_the_hash_exchange_refuses(client: Client, arguments: dict[str, Any], reason: str) -> None:
    refused = client.put(f"/exchanges/{AT}/h", {"type": "x-consistent-hash", "arguments": arguments})
    assert (refused.status, refused.json) == (400, {"error": "bad_request", "reason": reason})


def test_weights_and_types_of_hash_exchanges(client: Client) -> None:
    listed = {one["name"]: one["description"] for one in client.get("/overview").json["exchange_types"]}
    assert listed["x-consistent-hash"] == "Consistent Hashing Exchange"
    assert listed["x-modulus-hash"] == "Modulus Hashing Exchange"
    assert listed["topic"] == "AMQP topic exchange, as per the AMQP specification"
    for kind in ("x-consistent-hash", "x-modulus-hash"):
        assert client.put(f"/exchanges/{AT}/{kind}", {"type": kind}).status == 201
    client.put(f"/queues/{AT}/q", {})
    for key, reason in (
        ("a", 'The binding key must be an integer: <<"a">>'),
        ("", "The binding key must be an integer: <<>>"),
        ("0", "The binding key must be greater than 0"),
    ):
        refused = client.post(f"/bindings/{AT}/e/x-consistent-hash/q/q", {"routing_key": key})
        assert (refused.status, refused.json) == (400, {"error": "bad_request", "reason": reason})
        assert client.post(f"/bindings/{AT}/e/x-modulus-hash/q/q", {"routing_key": key}).status == 201
    assert client.post(f"/bindings/{AT}/e/x-consistent-hash/q/q", {"routing_key": "+2"}).status == 201
