"""Explain, lint, unroutable and redrive over HTTP, as an operator would use them one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.service.conftest import Server
from tests.service.http import Client, segment

pytestmark = pytest.mark.service

VHOST = "explain/1"
V = segment(VHOST)


@pytest.fixture(scope="module")
def flights(server: Server) -> Iterator[Client]:
    """A vhost with a topic exchange, two queues and one selector that is too narrow."""
    client = server.client()
    assert client.put(f"/vhosts/{V}").status == 201
    client.put(f"/permissions/{V}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    client.put(f"/exchanges/{V}/flights", {"type": "topic", "durable": True})
    for queue in ("late", "united"):
        client.put(f"/queues/{V}/{queue}", {"durable": True})
    bind(client, "late", "flight.#", {"x-filter-jms-selector": "dep_delay >= 60 AND carrier IN ('UA', 'AA')"})
    bind(client, "united", "flight.UA.*", {})
    yield client
    client.delete(f"/vhosts/{V}")


def bind(client: Client, queue: str, key: str, arguments: dict[str, Any]) -> None:
    answer = client.post(f"/bindings/{V}/e/flights/q/{queue}", {"routing_key": key, "arguments": arguments})
    assert answer.status == 201, answer.raw


def publish(client: Client, key: str, **headers: Any) -> bool:
    answer = client.post(
        f"/exchanges/{V}/flights/publish",
        {"routing_key": key, "properties": {"headers": headers}, "payload": "", "payload_encoding": "string"},
    )
    assert answer.status == 200, answer.raw
    return bool(answer.json["routed"])


def message(key: str, **properties: Any) -> dict[str, Any]:
    return {"exchange": "flights", "routing_key": key, "application_properties": properties}


def explain(client: Client, **body: Any) -> Any:
    answer = client.post("/route", {"vhost": VHOST, **body})
    assert answer.status == 200, answer.raw
    return answer.json


def test_a_message_and_why_it_misses_a_queue(flights: Client) -> None:
    found = explain(flights, message=message("flight.B6.JFK", dep_delay=75, carrier="B6"), queues=["late", "united"])
    (result,) = found["results"]
    assert result["queues"] == []
    assert result["unroutable"]["reason"] == "filtered"
    late, united = result["why_not"]
    assert late["causes"][0]["kind"] == "filter"
    (culprit,) = late["causes"][0]["filters"][0]["culprits"]
    assert culprit["expression"] == "carrier IN ('UA', 'AA')"
    assert culprit["message"] == "carrier IN ('UA', 'AA') is false: carrier is \"B6\""
    assert culprit["reads"] == [{"name": "carrier", "value": "B6", "type": "string"}]
    assert united["causes"][0]["message"] == "word 2 of key 'flight.B6.JFK' is 'B6', 'flight.UA.*' wants 'UA'"


def test_a_batch_is_explained_in_order(flights: Client) -> None:
    found = explain(flights, messages=[message("flight.UA.EWR"), message("train.UA.EWR")])
    assert [result["queues"] for result in found["results"]] == [["united"], []]


def test_an_older_version_and_a_proposed_change(flights: Client) -> None:
    before = explain(flights, message=message("flight.B6.JFK"))["topology_version"]
    proposal = {"definitions": {"bindings": [
        {"source": "flights", "destination": "united", "destination_type": "queue", "routing_key": "flight.B6.#"}
    ]}}  # fmt: skip
    proposed = explain(flights, message=message("flight.B6.JFK"), proposal=proposal)
    assert (proposed["proposed"], proposed["results"][0]["queues"]) == (True, ["united"])
    assert explain(flights, message=message("flight.B6.JFK"))["results"][0]["queues"] == []
    flights.put(f"/queues/{V}/extra", {"durable": True})
    bind(flights, "extra", "flight.B6.#", {})
    assert explain(flights, message=message("flight.B6.JFK"))["results"][0]["queues"] == ["extra"]
    assert explain(flights, message=message("flight.B6.JFK"), version=before)["results"][0]["queues"] == []
    flights.delete(f"/queues/{V}/extra")


def test_what_was_lost_is_counted_explained_mended_and_redriven(flights: Client) -> None:
    for delay in (10, 75, 90):
        assert not publish(flights, "flight.B6.JFK", dep_delay=delay, carrier="B6")
    counted = flights.get(f"/unroutable/{V}").json
    assert counted["reasons"] == [{"reason": "filtered", "disposition": "returned", "rows": 3}]
    assert counted["keys"][0] == {
        "exchange": "flights", "routing_key": "flight.B6.JFK", "reason": "filtered", "rows": 3,
    }  # fmt: skip
    dry = flights.post(f"/unroutable/{V}/redrive", {"dry_run": True}).json
    assert (dry["redriven"], dry["still_unroutable"]) == (0, {"filtered": 3})
    bind(flights, "late", "flight.#", {"x-filter-jms-selector": "dep_delay >= 60"})
    outcome = flights.post(f"/unroutable/{V}/redrive", {"reasons": ["filtered"], "key": "flight.*.JFK"}).json
    assert (outcome["redriven"], outcome["queues"], outcome["still_unroutable"]) == (2, {"late": 2}, {"filtered": 1})
    assert flights.get(f"/unroutable/{V}").json["redriven"] == 2
    got = flights.post(
        f"/queues/{V}/late/get", {"count": 5, "ackmode": "ack_requeue_true", "encoding": "auto"}
    ).json
    assert sorted(item["properties"]["headers"]["dep_delay"] for item in got) == [75, 90]
    row = f"{outcome['batches'][0]}:0:0"
    assert explain(flights, row=row)["results"][0]["queues"] == ["late"]
    again = flights.post(f"/unroutable/{V}/redrive").json
    assert again["redriven"] == 0


def test_lint_tells_what_the_mending_left_behind(flights: Client) -> None:
    bind(flights, "late", "flight.UA.#", {"x-filter-jms-selector": "dep_delay >= 60"})
    bind(flights, "late", "flight.#", {"x-filter-jms-selector": "dep_delay >= 60"})
    found = flights.get(f"/lint/{V}").json
    assert "BT101" in found["totals"]
    assert {item["subject"]["vhost"] for item in found["findings"]} == {VHOST}
    everywhere = flights.get("/lint?overlap=true").json
    assert everywhere["totals"]["BT101"] >= found["totals"]["BT101"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"message": {}, "messages": []},
        {"message": {"nonsense": 1}},
        {"message": {}, "queues": "late"},
        {"row": "no-such-row"},
        {"message": {}, "proposal": {"delete": {"planets": []}}},
        {"message": {}, "proposal": {"definitions": {"exchanges": [{"name": "x"}]}}},
        {"messages": [{}] * 1001},
    ],
)
def test_what_cannot_be_explained_is_refused(flights: Client, body: dict[str, Any]) -> None:
    answer = flights.post("/route", {"vhost": VHOST, **body})
    assert answer.status == 400, answer.raw
    assert answer.json["error"] == "bad_request"


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/route", {"vhost": "missing", "message": {}}, 404),
        ("POST", "/route", {"vhost": VHOST, "message": {}, "version": 10**9}, 404),
        ("POST", "/route", {"vhost": VHOST, "message": {}, "queues": ["missing"]}, 404),
        ("POST", "/route", {"vhost": VHOST, "row": "s:1:1"}, 404),
        ("GET", "/lint/missing", None, 404),
        ("GET", f"/lint/{V}?version=x", None, 400),
        ("GET", "/unroutable/missing", None, 404),
        ("GET", f"/unroutable/{V}?top=0", None, 400),
        ("GET", f"/unroutable/{V}?since=yesterday", None, 400),
        ("GET", f"/unroutable/{V}?reason=bored", None, 400),
        ("POST", f"/unroutable/{V}/redrive", {"reasons": ["invalid_record"]}, 400),
        ("POST", f"/unroutable/{V}/redrive", {"filter": "a ="}, 400),
    ],
)
def test_refusals_have_the_brokers_shape(flights: Client, method: str, path: str, body: Any, status: int) -> None:
    answer = flights.call(method, path, body)
    assert answer.status == status, answer.raw
    assert {"error", "reason"} <= answer.json.keys()


def test_nobody_sees_or_redrives_what_they_may_not(server: Server, flights: Client) -> None:
    flights.put("/users/reader", {"password": "r", "tags": "management"})
    reader = server.client("reader", "r")
    assert reader.post("/route", {"vhost": VHOST, "message": {}}).status == 404
    assert reader.get(f"/unroutable/{V}").status == 404
    assert reader.get(f"/lint/{V}").status == 404
    assert all(item["subject"]["vhost"] != VHOST for item in reader.get("/lint").json["findings"])
    flights.put(f"/permissions/{V}/reader", {"configure": "^$", "write": "^$", "read": "^$"})
    assert reader.post("/route", {"vhost": VHOST, "message": {}}).status == 200
    assert reader.get(f"/unroutable/{V}").status == 200
    assert reader.post(f"/unroutable/{V}/redrive").status == 401
    publish(flights, "nowhere")
    counted = flights.get(f"/unroutable/{V}").json
    assert counted["keys"]
    flights.delete("/users/reader")
