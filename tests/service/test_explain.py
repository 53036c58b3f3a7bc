"""Explain, lint, unroutable and redrive over HTTP, as an operator would use them one after the other."""

from __future__ import annotations

import http.client
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from bindery.store import faults
from bindery.store import redrive as redrive_module
from bindery.store.redrive import Outcome, Redriver
from tests.service.conftest import Server
from tests.service.http import Answer, Client, segment
from tests.unit.store.routed import refuse

pytestmark = pytest.mark.service

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Flights:
    """A vhost with a topic exchange, two queues and one selector that is too narrow."""

    client: Client
    vhost: str

    @property
    def v(self) -> str:
        return segment(self.vhost)

    def get(self, path: str) -> Answer:
        return self.client.get(path.format(v=self.v))

    def put(self, path: str, body: Any = None) -> Answer:
        return self.client.put(path.format(v=self.v), body)

    def post(self, path: str, body: Any = None) -> Answer:
        return self.client.post(path.format(v=self.v), body)

    def delete(self, path: str) -> Answer:
        return self.client.delete(path.format(v=self.v))


@pytest.fixture
def flights(server: Server) -> Iterator[Flights]:
    found = Flights(server.client(), f"explain/{next(_numbers)}")
    assert found.put("/vhosts/{v}").status == 201
    found.put("/permissions/{v}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    found.put("/exchanges/{v}/flights", {"type": "topic", "durable": True})
    for queue in ("late", "united"):
        found.put("/queues/{v}/" + queue, {"durable": True})
    bind(found, "late", "flight.#", {"x-filter-jms-selector": "dep_delay >= 60 AND carrier IN ('UA', 'AA')"})
    bind(found, "united", "flight.UA.*", {})
    yield found
    found.delete("/vhosts/{v}")


def bind(flights: Flights, queue: str, key: str, arguments: dict[str, Any]) -> None:
    answer = flights.post("/bindings/{v}/e/flights/q/" + queue, {"routing_key": key, "arguments": arguments})
    assert answer.status == 201, answer.raw


def publish(flights: Flights, key: str, **headers: Any) -> bool:
    answer = flights.post(
        "/exchanges/{v}/flights/publish",
        {"routing_key": key, "properties": {"headers": headers}, "payload": "", "payload_encoding": "string"},
    )
    assert answer.status == 200, answer.raw
    return bool(answer.json["routed"])


def message(key: str, **properties: Any) -> dict[str, Any]:
    return {"exchange": "flights", "routing_key": key, "application_properties": properties}


def explain(flights: Flights, **body: Any) -> Any:
    answer = flights.post("/route", {"vhost": flights.vhost, **body})
    assert answer.status == 200, answer.raw
    return answer.json


def test_a_message_and_why_it_misses_a_queue(flights: Flights) -> None:
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


def test_a_batch_is_explained_in_order(flights: Flights) -> None:
    found = explain(flights, messages=[message("flight.UA.EWR"), message("train.UA.EWR")])
    assert [result["queues"] for result in found["results"]] == [["united"], []]


def test_an_older_version_and_a_proposed_change(flights: Flights) -> None:
    before = explain(flights, message=message("flight.B6.JFK"))["topology_version"]
    proposal = {"definitions": {"bindings": [
        {"source": "flights", "destination": "united", "destination_type": "queue", "routing_key": "flight.B6.#"}
    ]}}  # fmt: skip
    proposed = explain(flights, message=message("flight.B6.JFK"), proposal=proposal)
    assert (proposed["proposed"], proposed["results"][0]["queues"]) == (True, ["united"])
    assert explain(flights, message=message("flight.B6.JFK"))["results"][0]["queues"] == []
    flights.put("/queues/{v}/extra", {"durable": True})
    bind(flights, "extra", "flight.B6.#", {})
    assert explain(flights, message=message("flight.B6.JFK"))["results"][0]["queues"] == ["extra"]
    assert explain(flights, message=message("flight.B6.JFK"), version=before)["results"][0]["queues"] == []
    flights.delete("/queues/{v}/extra")


def test_what_was_lost_is_counted_explained_mended_and_redriven(flights: Flights) -> None:
    for delay in (10, 75, 90):
        assert not publish(flights, "flight.B6.JFK", dep_delay=delay, carrier="B6")
    counted = flights.get("/unroutable/{v}").json
    assert counted["reasons"] == [{"reason": "filtered", "disposition": "returned", "rows": 3}]
    assert counted["keys"][0] == {
        "exchange": "flights", "routing_key": "flight.B6.JFK", "reason": "filtered", "rows": 3,
    }  # fmt: skip
    assert "newest" not in counted
    newest = flights.get("/unroutable/{v}?show=2").json["newest"]
    assert [(row["routing_key"], row["reason"]) for row in newest] == [("flight.B6.JFK", "filtered")] * 2
    assert newest[0]["routed_at"] >= newest[1]["routed_at"]
    dry = flights.post("/unroutable/{v}/redrive", {"dry_run": True}).json
    assert (dry["redriven"], dry["still_unroutable"]) == (0, {"filtered": 3})
    bind(flights, "late", "flight.#", {"x-filter-jms-selector": "dep_delay >= 60"})
    outcome = flights.post("/unroutable/{v}/redrive", {"reasons": ["filtered"], "key": "flight.*.JFK"}).json
    assert (outcome["redriven"], outcome["queues"], outcome["still_unroutable"]) == (2, {"late": 2}, {"filtered": 1})
    assert flights.get("/unroutable/{v}").json["redriven"] == 2
    got = flights.post("/queues/{v}/late/get", {"count": 5, "ackmode": "ack_requeue_true", "encoding": "auto"}).json
    assert sorted(item["properties"]["headers"]["dep_delay"] for item in got) == [75, 90]
    row = f"{outcome['batches'][0]}:0"
    assert explain(flights, row=row)["results"][0]["queues"] == ["late"]
    again = flights.post("/unroutable/{v}/redrive").json
    assert again["redriven"] == 0


def test_a_redrive_ends_when_its_client_leaves(flights: Flights, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redrive_module, "MAX_ROWS", 1)
    for delay in range(5):
        assert not publish(flights, "flight.B6.JFK", dep_delay=delay, carrier="B6")
    bind(flights, "late", "flight.#", {})
    asked: list[Callable[[], bool]] = []
    portions: list[str] = []
    under_way, ended = threading.Event(), threading.Event()
    original = Redriver.redrive

    def watched(redriver: Redriver, *arguments: Any, stop: Callable[[], bool], **options: Any) -> Outcome:
        asked.append(stop)
        try:
            return original(redriver, *arguments, stop=stop, **options)
        finally:
            ended.set()

    def wait_for_the_client_to_leave(point: str, path: str) -> None:
        if point == "redrive.marked":
            portions.append(path)
            under_way.set()
            while not asked[0]():
                time.sleep(0.005)

    monkeypatch.setattr(Redriver, "redrive", watched)
    connection = http.client.HTTPConnection("127.0.0.1", flights.client.port)
    with faults.installed(wait_for_the_client_to_leave):
        connection.request("POST", f"/api/unroutable/{flights.v}/redrive", "{}", flights.client.headers)
        assert under_way.wait(60)
        connection.close()
        assert ended.wait(60)
    assert len(portions) == 1, "the portion that was under way is finished, and no other one is begun"
    assert flights.get("/unroutable/{v}").json["redriven"] == 1
    monkeypatch.undo()
    assert flights.post("/unroutable/{v}/redrive").json["redriven"] == 4


def test_lint_tells_what_the_mending_left_behind(flights: Flights) -> None:
    bind(flights, "late", "flight.#", {"x-filter-jms-selector": "dep_delay >= 60"})
    found = flights.get("/lint/{v}").json
    assert "BT101" in found["totals"]
    assert {item["subject"]["vhost"] for item in found["findings"]} == {flights.vhost}
    everywhere = flights.get("/lint?overlap=true").json
    assert everywhere["totals"]["BT101"] >= found["totals"]["BT101"]


def test_a_record_that_never_was_a_message_has_no_result(alone: Server) -> None:
    plane, client = alone.app.state.plane, alone.client()
    refuse(plane.data, plane.topologies, [{"detail": "n: 'NA' is not INT; set nullValue", "raw": b"NA"}])
    answer = client.post("/route", {"vhost": "/", "row": "s:0:0"})
    assert answer.status == 200, answer.raw
    refused = answer.json.pop("refused")
    assert answer.json["results"] == []
    assert (refused["row"], refused["column"], refused["raw"]) == ("s:0:0", "n", "NA")
    client.put("/users/reader", {"password": "secret", "tags": "management"})
    client.put("/permissions/%2F/reader", {"configure": "", "write": "", "read": "^late$"})
    other = Client(alone.port, "reader", "secret")
    assert other.post("/route", {"vhost": "/", "row": "s:0:0"}).status == 401


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
def test_what_cannot_be_explained_is_refused(flights: Flights, body: dict[str, Any]) -> None:
    answer = flights.post("/route", {"vhost": flights.vhost, **body})
    assert answer.status == 400, answer.raw
    assert answer.json["error"] == "bad_request"


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/route", {"vhost": "missing", "message": {}}, 404),
        ("POST", "/route", {"vhost": "{vhost}", "message": {}, "version": 10**9}, 404),
        ("POST", "/route", {"vhost": "{vhost}", "message": {}, "queues": ["missing"]}, 404),
        ("POST", "/route", {"vhost": "{vhost}", "row": "s:1:1"}, 404),
        ("GET", "/lint/missing", None, 404),
        ("GET", "/lint/{v}?version=x", None, 400),
        ("GET", "/unroutable/missing", None, 404),
        ("GET", "/unroutable/{v}?top=0", None, 400),
        ("GET", "/unroutable/{v}?show=101", None, 400),
        ("GET", "/unroutable/{v}?since=yesterday", None, 400),
        ("GET", "/unroutable/{v}?reason=bored", None, 400),
        ("POST", "/unroutable/{v}/redrive", {"reasons": ["invalid_record"]}, 400),
        ("POST", "/unroutable/{v}/redrive", {"filter": "a ="}, 400),
    ],
)
def test_refusals_have_the_brokers_shape(flights: Flights, method: str, path: str, body: Any, status: int) -> None:
    if body is not None and body.get("vhost") == "{vhost}":
        body = body | {"vhost": flights.vhost}
    answer = flights.client.call(method, path.format(v=flights.v), body)
    assert answer.status == status, answer.raw
    assert {"error", "reason"} <= answer.json.keys()


def test_nobody_sees_or_redrives_what_they_may_not(server: Server, flights: Flights) -> None:
    flights.put("/users/reader", {"password": "r", "tags": "management"})
    reader = server.client("reader", "r")
    assert reader.post("/route", {"vhost": flights.vhost, "message": {}}).status == 404
    assert reader.get(f"/unroutable/{flights.v}").status == 404
    assert reader.get(f"/lint/{flights.v}").status == 404
    assert all(item["subject"]["vhost"] != flights.vhost for item in reader.get("/lint").json["findings"])
    flights.put("/permissions/{v}/reader", {"configure": "^$", "write": "^$", "read": "^$"})
    assert reader.post("/route", {"vhost": flights.vhost, "message": {}}).status == 200
    assert reader.get(f"/unroutable/{flights.v}").status == 401
    flights.put("/permissions/{v}/reader", {"configure": "^$", "write": "^$", "read": ".*"})
    assert reader.get(f"/unroutable/{flights.v}").status == 200
    assert reader.post(f"/unroutable/{flights.v}/redrive").status == 401
    publish(flights, "nowhere")
    counted = flights.get("/unroutable/{v}").json
    assert counted["keys"]
    flights.delete("/users/reader")
