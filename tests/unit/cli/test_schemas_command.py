"""`bindery schemas pull` against a real HTTP server that answers as Confluent documents its schema registry."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote

import fastavro
import pytest

from bindery.router.engine import Router
from bindery.router.filters.limits import Payload, PayloadLimits
from bindery.router.filters.payload import parsed
from bindery.router.filters.schemas import read_schema
from bindery.router.message import Message, to_batch
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from tests.unit.cli.conftest import Run

WHY = {"type": "enum", "name": "Why", "symbols": ["A", "B"]}
DELAY = {"type": "record", "name": "Delay", "namespace": "air", "fields": [
    {"name": "minutes", "type": "int"}, {"name": "why", "type": WHY}]}  # fmt: skip
FIRST = {"type": "record", "name": "Flight", "fields": [{"name": "carrier", "type": "string"}]}
SECOND = {"type": "record", "name": "Flight", "fields": [
    {"name": "carrier", "type": "string"}, {"name": "late", "type": ["null", "air.Delay"]},
    {"name": "again", "type": ["null", "air.Why"]}, {"name": "first", "type": ["null", "air.Delay"]}]}  # fmt: skip
SEAT = 'syntax = "proto3"; package air; import "google/protobuf/timestamp.proto"; message Seat { int32 row = 1; }'
PROTO = 'syntax = "proto3"; package air; import "parts/seat.proto"; message No {} message Flight { Seat seat = 1; }'


def version(subject: str, number: int, id: int, schema: Any, **more: Any) -> dict[str, Any]:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return {"subject": subject, "version": number, "id": id, "schema": text, **more}


#: What the registry answers, by path.
ANSWERS: dict[str, Any] = {
    "/subjects/flights-value/versions": [1, 3],
    "/subjects/flights-value/versions/1": version("flights-value", 1, 57, FIRST),
    "/subjects/flights-value/versions/3": version(
        "flights-value", 3, 58, SECOND, schemaType="AVRO",
        references=[{"name": "air.Delay", "subject": "a/delay", "version": 2}],
    ),
    "/subjects/a/delay/versions/2": version("a/delay", 2, 12, DELAY),
    "/subjects/one/versions": [1],
    "/subjects/one/versions/1": version("one", 1, 57, FIRST),
    "/subjects/proto/versions": [1],
    "/subjects/proto/versions/1": version(
        "proto", 1, 9, PROTO, schemaType="PROTOBUF",
        references=[{"name": "parts/seat.proto", "subject": "seat", "version": 1}],
    ),
    "/subjects/seat/versions/1": version("seat", 1, 8, SEAT, schemaType="PROTOBUF"),
    "/subjects/away/versions": [1],
    "/subjects/away/versions/1": version(
        "away", 1, 9, PROTO, schemaType="PROTOBUF",
        references=[{"name": "../../seat.proto", "subject": "seat", "version": 1}],
    ),
    "/subjects/json/versions": [1],
    "/subjects/json/versions/1": version("json", 1, 9, "{}", schemaType="JSON"),
    "/subjects/round/versions": [1],
    "/subjects/round/versions/1": version(
        "round", 1, 9, FIRST, references=[{"name": "x", "subject": "round", "version": 1}]
    ),
    "/subjects/broken/versions": [1],
    "/subjects/broken/versions/1": version("broken", 1, 9, '{"type": "recrod"}'),
    "/subjects/odd/versions": {"versions": 1},
    "/subjects/empty/versions": [],
}  # fmt: skip


class _Handler(BaseHTTPRequestHandler):
    asked: list[tuple[str, str | None]]

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers["Authorization"]))
        answer = ANSWERS.get(unquote(self.path))
        missing = {"error_code": 40401, "message": "Subject not found."}
        body = json.dumps(missing if answer is None else answer).encode()
        self.send_response(404 if answer is None else 200)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def asked() -> list[tuple[str, str | None]]:
    """The requests that came, with what they said of who asks."""
    return []


@pytest.fixture
def url(asked: list[tuple[str, str | None]]) -> Iterator[str]:
    handler = type("Handler", (_Handler,), {"asked": asked})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture
def pull(run: Run, url: str) -> Any:
    def call(*subjects: str, more: tuple[str, ...] = ()) -> tuple[int, str, str]:
        options = [part for one in subjects for part in ("--subject", one)]
        return run("schemas", "pull", "--registry", url, *options, *more)

    return call


def framed(id: int, schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return b"\x00" + id.to_bytes(4, "big") + out.getvalue()


def test_all_versions_are_printed_with_what_they_refer_to(pull: Any, asked: list[tuple[str, str | None]]) -> None:
    code, out, err = pull("flights-value")
    assert (code, err) == (0, "")
    arguments = json.loads(out)
    assert (arguments["x-payload"], [*arguments["x-payload-schema"]["registry"]]) == ("avro", ["57", "58"])
    payload = Payload("avro", PayloadLimits(), read_schema("avro", arguments["x-payload-schema"]))
    assert parsed(framed(57, FIRST, {"carrier": "UA"}), payload) == {"carrier": "UA"}
    whole = json.loads(json.dumps(SECOND).replace('"air.Delay"', json.dumps(DELAY), 1))
    late = {"minutes": 5, "why": "B"}
    flight = {"carrier": "UA", "late": late, "again": "A", "first": late}
    assert parsed(framed(58, whole, flight), payload) == flight
    assert ("/subjects/a%2Fdelay/versions/2", None) in asked
    assert len(asked) == 4


def test_a_proto_schema_is_compiled_with_its_imports(pull: Any) -> None:
    code, out, err = pull("proto")
    assert (code, err) == (0, "")
    payload = Payload("protobuf", PayloadLimits(), read_schema("protobuf", json.loads(out)["x-payload-schema"]))
    body = b"\x00\x00\x00\x00\x09" + b"\x02\x02" + b"\x0a\x02\x08\x05"
    assert parsed(body, payload) == {"seat": {"row": 5}}


def test_the_document_adds_the_schemas_to_an_exchange_that_is_there(pull: Any, run: Run, tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"))
    entry = {"name": "flights", "type": "topic", "durable": False, "arguments": {"alternate-exchange": "amq.fanout"}}
    (tmp_path / "t.json").write_text(json.dumps({"exchanges": [entry], "queues": [{"name": "ua"}]}))
    assert run("apply", str(tmp_path / "t.json"), *data)[0] == 0

    def apply(*subjects: str) -> str:
        code, out, err = pull(*subjects, more=("--exchange", "flights", *data))
        assert (code, err) == (0, "")
        (tmp_path / "pulled.json").write_text(out)
        code, out, err = run("apply", str(tmp_path / "pulled.json"), *data)
        assert (code, err) == (0, "")
        return out

    assert "topology version 3" in apply("one")
    binding = {"source": "flights", "destination": "ua", "routing_key": "#",
               "arguments": {"x-filter-jms-selector": "body.carrier = 'UA'"}}  # fmt: skip
    (tmp_path / "b.json").write_text(json.dumps({"bindings": [binding]}))
    assert run("apply", str(tmp_path / "b.json"), *data)[0] == 0
    assert "topology version 5" in apply("flights-value")
    assert "nothing was changed" in apply("one")  # what is there stays
    topology = TopologyStore(DataDir.open(data[1])).load()
    exchange = topology.exchange("/", "flights")
    assert (exchange.durable, exchange.arguments["alternate-exchange"]) == (False, "amq.fanout")
    whole = json.loads(json.dumps(SECOND).replace('"air.Delay"', json.dumps(DELAY), 1))
    bodies = [
        framed(57, FIRST, {"carrier": "UA"}),
        framed(58, whole, {"carrier": "UA", "late": None, "again": None, "first": None}),
        framed(57, FIRST, {"carrier": "AA"}),
        framed(59, FIRST, {"carrier": "UA"}),
    ]
    batch = to_batch([Message(exchange="flights", routing_key="k", body=body) for body in bodies])
    router = Router.compile(topology, "/")
    deliveries = router.route(batch, clock_ms=0)
    assert deliveries.rows_of(router.queues.index("ua")).tolist() == [0, 1]


def test_credentials_come_from_the_environment_alone(
    pull: Any, run: Run, url: str, asked: list[tuple[str, str | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BINDERY_REGISTRY_USER", "reader")
    code, _, err = pull("one")
    assert (code, asked) == (2, [])
    assert "BINDERY_REGISTRY_PASSWORD" in err
    monkeypatch.setenv("BINDERY_REGISTRY_PASSWORD", "geheim")
    assert pull("one")[0] == 0
    assert {said for _, said in asked} == {"Basic " + base64.b64encode(b"reader:geheim").decode()}
    code, _, err = run("schemas", "pull", "--registry", url.replace("//", "//u:p@"), "--subject", "one")
    assert code == 2
    assert "credentials do not stand in the URL" in err


@pytest.mark.parametrize(
    ("subject", "code", "said"),
    [
        ("nothing", 2, "has no subject 'nothing'"),
        ("json", 2, "version 1 of 'json' is JSON, which bodies are not read as"),
        ("round", 1, "version 1 of 'round' refers to itself"),
        ("broken", 2, "x-payload-schema.registry.9.type: there is no type 'recrod'"),
        ("odd", 1, "its answer lists no versions"),
        ("empty", 2, "the subjects have no versions"),
        ("away", 2, "imports '../../seat.proto', which is no name of a file"),
    ],
)
def test_what_cannot_be_taken_is_refused(pull: Any, subject: str, code: int, said: str) -> None:
    found, out, err = pull(subject)
    assert (found, out) == (code, "")
    assert said in err


def test_formats_are_not_mixed(pull: Any, run: Run, tmp_path: Path) -> None:
    assert "bodies are one of them" in pull("one", "proto")[2]
    entry = {"name": "flights", "type": "topic", "arguments": {"x-payload": "json"}}
    (tmp_path / "t.json").write_text(json.dumps({"exchanges": [entry]}))
    run("apply", str(tmp_path / "t.json"), "--data", str(tmp_path / "data"))
    code, _, err = pull("one", more=("--exchange", "flights", "--data", str(tmp_path / "data")))
    assert code == 2
    assert "'flights' reads bodies as json, not by ids" in err


@pytest.mark.parametrize("url", ["registry:8081", "ftp://registry", "http://", "http://h:x", "http://h/?a=b"])
def test_no_url_of_a_registry(run: Run, url: str) -> None:
    code, _, err = run("schemas", "pull", "--registry", url, "--subject", "s")
    assert code == 2
    assert "--registry: " in err
