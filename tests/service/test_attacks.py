"""What an attacker would try, over a real socket; docs/security.md lists it with the outcome."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from bindery.api.auth import FailedLogins
from bindery.api.errors import Refusal
from tests.service.conftest import Server
from tests.service.http import Answer, Client

pytestmark = pytest.mark.service

ALL = {"configure": ".*", "write": ".*", "read": ".*"}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("attacks") / "data", failed_logins=10**6).start()
    client = running.client()
    client.put("/exchanges/%2F/x", {"type": "topic", "durable": True})
    client.put("/queues/%2F/q", {"durable": True})
    yield running
    running.stop()


@pytest.fixture
def admin(target: Server) -> Client:
    return target.client()


def raw_request(server: Server, request: bytes) -> bytes:
    """The first bytes of the answer to bytes that no client library would send."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(request)
        return connection.recv(4096)


def status_of(server: Server, method: str, target: str, *headers: str) -> int:
    credentials = server.client().headers["authorization"]
    lines = [f"{method} {target} HTTP/1.1", "Host: h", *headers, "Connection: close", "", ""]
    if not any(header.lower().startswith("authorization") for header in headers):
        lines.insert(1, f"Authorization: {credentials}")
    return int(raw_request(server, "\r\n".join(lines).encode("latin-1")).split()[1])


def nested(levels: int, around: bytes = b'{"a":', after: bytes = b"}") -> bytes:
    return around * levels + b"1" + after * levels


# -- bodies ---------------------------------------------------------------------------------------------

#: Places of a JSON body that take any value: method, path, what stands before and after the value.
PLACES = [
    ("PUT", "/queues/%2F/hostile", b'{"arguments":{"a":', b"}}"),
    ("PUT", "/parameters/c/%2F/hostile", b'{"value":', b"}"),
    ("PUT", "/global-parameters/hostile", b'{"value":', b"}"),
    ("PUT", "/policies/%2F/hostile", b'{"pattern":".","definition":{"a":', b'},"priority":1}'),
    ("PUT", "/policies/%2F/hostile", b'{"pattern":".","definition":{"a":1},"priority":', b"}"),
    ("PUT", "/vhost-limits/%2F/max-queues", b'{"value":', b"}"),
    ("PUT", "/user-limits/guest/max-channels", b'{"value":', b"}"),
    ("POST", "/topology/rollback", b'{"to":', b"}"),
    ("POST", "/topology/diff", b'{"parameters":[{"component":"c","vhost":"/","name":"n","value":', b"}]}"),
    ("POST", "/definitions/%2F", b'{"parameters":[{"component":"c","name":"n","value":', b"}]}"),
    ("POST", "/queues/%2F/q/get", b'{"ackmode":"ack_requeue_true","encoding":"auto","count":', b"}"),
    ("POST", "/route", b'{"message":{},"version":', b"}"),
    ("POST", "/route", b'{"message":{"application_properties":{"x":', b"}}}"),
    ("POST", "/route", b'{"message":{},"proposal":', b"}"),
    ("POST", "/inbox/%2F", b'{"application_properties":{"x":', b"}}"),
    ("POST", "/bindings/%2F/e/x/q/q", b'{"routing_key":', b"}"),
    (
        "POST",
        "/exchanges/%2F/x/publish",
        b'{"routing_key":"k","payload":"","payload_encoding":"string","properties":{"headers":{"x":',
        b"}}}",
    ),
]
VALUES = {
    "101 levels": nested(101),
    "1,000 levels": nested(1_000),
    "100,000 levels": nested(100_000),
    "100,000 lists": nested(100_000, b"[", b"]"),
    "2**63": str(2**63).encode(),
    "4,000 digits": b"9" * 4_000,
    "5,000 digits": b"9" * 5_000,
    "beyond a double": b"1e999",
    "below a double": b"-1e999",
    "no JSON number": b"NaN",
    "infinity": b"Infinity",
    "invalid UTF-8": b'"\xff"',
    "half a character": b'"\\ud800"',
    "a zero": b'"\\u0000"',
    "nothing": b"",
    "unfinished": b"[1,",
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_no_value_breaks_the_service_or_its_answers(target: Server, admin: Client, value: bytes) -> None:
    for method, path, before, after in PLACES:
        answer = admin.call(method, path, raw=before + value + after)
        assert answer.status < 500, (method, path, answer.raw[:200])
    for path in ("/queues", "/bindings", "/parameters", "/global-parameters", "/policies", "/definitions"):
        answer = admin.get(path)
        assert answer.status == 200, path
        json.loads(answer.raw, parse_constant=pytest.fail)
    for path in ("/queues/%2F/hostile", "/parameters/c/%2F/hostile", "/policies/%2F/hostile"):
        admin.delete(path)
    admin.delete("/global-parameters/hostile")


@pytest.mark.parametrize(
    ("method", "path", "limit"),
    [
        ("PUT", "/queues/%2F/big", 2**20),
        ("PUT", "/exchanges/%2F/big", 2**20),
        ("PUT", "/policies/%2F/big", 2**20),
        ("PUT", "/users/big", 2**20),
        ("POST", "/bindings/%2F/e/x/q/q", 5_000),
        ("POST", "/unroutable/%2F/redrive", 2**20),
        ("POST", "/route", 16 * 2**20),
        ("POST", "/exchanges/%2F/x/publish", 32 * 2**20),
    ],
)
def test_bodies_are_bounded(admin: Client, method: str, path: str, limit: int) -> None:
    answer = admin.call(method, path, raw=b" " * (limit + 1))
    assert (answer.status, answer.json["reason"]) == (400, f"the request body exceeds the limit of {limit} bytes")


def test_a_stranger_s_body_is_not_read(target: Server) -> None:
    """The answer comes before the body has been sent."""
    head = b"PUT /api/queues/%2F/z HTTP/1.1\r\nHost: h\r\nContent-Length: 10485760\r\n\r\n{"
    assert raw_request(target, head).startswith(b"HTTP/1.1 401")


def test_bad_records_are_looked_for_up_to_a_bound(admin: Client) -> None:
    answer = admin.call("POST", "/inbox/%2F", raw=b"{\n" * 200_000)
    assert (answer.status, answer.json["bad_records"]) == (400, 10_000)


def test_of_duplicate_keys_the_last_counts(admin: Client) -> None:
    assert admin.call("PUT", "/exchanges/%2F/dup", raw=b'{"type":"topic","type":"fanout"}').status == 201
    assert admin.get("/exchanges/%2F/dup").json["type"] == "fanout"


@pytest.mark.parametrize("body", [b"[]", b"1", b'"{}"', "{}".encode("utf-16"), b"\x1f\x8b\0\0", b"{}{}"])
def test_what_is_no_json_object_is_refused(admin: Client, body: bytes) -> None:
    assert admin.call("PUT", "/queues/%2F/none", raw=body).status == 400
    assert admin.call("POST", "/definitions", raw=body).status == 400


def test_a_caller_who_goes_away_leaves_no_traceback(target: Server, caplog: pytest.LogCaptureFixture) -> None:
    credentials = target.client().headers["authorization"]
    with caplog.at_level(logging.ERROR), socket.create_connection(("127.0.0.1", target.port)) as connection:
        head = (
            f"PUT /api/queues/%2F/gone HTTP/1.1\r\nHost: h\r\nAuthorization: {credentials}\r\nContent-Length: 9\r\n\r\n"
        )
        connection.sendall(head.encode())
    assert target.client().get("/queues/%2F/gone").status == 404
    assert not caplog.records


# -- paths ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/../metrics", 404),
        ("/api/queues/../users", 404),
        ("/api/queues/%2F/..%2f..%2f..%2fetc%2fpasswd", 404),
        ("/api/queues/%2F/%00", 404),
        ("/api/queues/%2F/%c0%ae%c0%ae", 400),
        ("/api/queues/%2F/%ff", 400),
        ("/api/queues/%ED%A0%80", 400),
        ("/api/queues/%2F/%zz", 400),
        ("//api/queues", 404),
        ("/API/queues", 404),
        ("/api/queues;x", 404),
        ("http://elsewhere/api/queues", 404),
        ("/docs/../api/users", 404),
        ("/api/queues/%2F/" + "a" * 9_000, 404),
        ("/api/queues/%2F/" + "%61" * 20_000, 400),
    ],
)
def test_no_path_leads_out(target: Server, path: str, status: int) -> None:
    assert status_of(target, "GET", path) == status


@pytest.mark.parametrize("name", ["..", ".", "../../../escape", "\0", "a\nb", "~2F", "CON", "%2e", " ", "💩" * 60])
def test_hostile_names_stay_below_the_data_directory(target: Server, admin: Client, name: str) -> None:
    root = Path(target.app.state.plane.data.root)
    around = {path.name for path in root.parent.iterdir()}
    vhost, queue = quote(name, safe=""), quote(name, safe="")
    assert admin.put(f"/vhosts/{vhost}").status == 201
    assert admin.put(f"/queues/{vhost}/{queue}", {"durable": True}).status == 201
    assert admin.get(f"/queues/{vhost}/{queue}").json["name"] == name
    assert {path.name for path in root.parent.iterdir()} == around
    assert {path.name for path in root.iterdir()} <= {
        *("access", "checkpoints", "inbox", "manifest", "pins", "queues", "streams", "topology", "unroutable", "jobs")
    }
    for folder in (root / "queues").rglob("*"):
        assert folder.name.isascii()
    assert admin.delete(f"/vhosts/{vhost}").status == 204


# -- headers, methods, queries --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header",
    [
        "Authorization: Basic",
        "Authorization: Basic !!",
        "Authorization: Basic \xff\xfe",
        "Authorization: Bearer x",
        "Authorization: Basic " + "A" * 5_000,
        "Authorization: Basic " + "A" * 60_000,
        "Authorization: Basic " + base64.b64encode(b"\xff\xfe:\xff").decode(),
        "Authorization: Basic " + base64.b64encode(b"no colon").decode(),
        "Authorization: Basic " + base64.b64encode(b"\0:\0").decode(),
        "Authorization: Basic " + base64.b64encode(b"guest:").decode(),
        "Authorization: Basic " + base64.b64encode(b":guest").decode(),
    ],
)
def test_broken_credentials_are_no_credentials(target: Server, header: str) -> None:
    assert status_of(target, "GET", "/api/whoami", header) == 401
    assert status_of(target, "DELETE", "/api/queues/%2F/q", header) == 401
    assert target.client().get("/queues/%2F/q").status == 200


@pytest.mark.parametrize(
    "header",
    [
        "Origin: https://elsewhere.example",
        "Origin: null",
        "Origin: http://[::1",
        "Origin: http://h:80:80",
        "Origin: ",
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",
    ],
)
def test_pages_of_other_origins_change_nothing(target: Server, header: str) -> None:
    assert status_of(target, "DELETE", "/api/queues/%2F/q", header) == 403
    assert target.client().get("/queues/%2F/q").status == 200


@pytest.mark.parametrize("method", ["TRACE", "PATCH", "BREW", "get", "PROPFIND", "X" * 500])
def test_unusual_methods_do_nothing(target: Server, method: str) -> None:
    assert status_of(target, method, "/api/queues/%2F/q") == 405
    assert status_of(target, method, "/api/queues", "X-HTTP-Method-Override: DELETE") == 405


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x16\x03\x01\x02\0" * 10,
        b"GET /api/queues\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
    ],
)
def test_what_is_no_http_is_refused(target: Server, request_bytes: bytes) -> None:
    assert raw_request(target, request_bytes).startswith(b"HTTP/1.1 400")


QUERIES = [
    "page=--5",
    "page=1&page_size=--1",
    "page=%C3%A9",
    "page=1&use_regex=true&name=(",
    "page=1&use_regex=true&name=" + quote("(a{1000}){1000}"),
    "page=1&use_regex=true&name=" + "a" * 3_000,
    "columns=" + "a." * 3_000,
    "sort=" + "a." * 3_000,
    "sort=arguments",
    "version=" + "9" * 5_000,
    "version=%ff",
    "at=99999-01-01",
    "at=0001-01-01T00:00:00%2B23:59",
    "at=",
]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query[:30])
def test_no_query_breaks_the_service(admin: Client, query: str) -> None:
    for path in ("/queues", "/bindings", "/parameters", "/vhosts"):
        answer = admin.get(f"{path}?{query}")
        assert answer.status < 500, (path, answer.raw)
        assert isinstance(answer.json, list | dict)


@pytest.mark.parametrize(("docs", "status"), [(True, 200), (False, 404)])
def test_the_documentation_is_behind_a_setting(tmp_path: Path, docs: bool, status: int) -> None:
    server = Server(tmp_path / "data", docs=docs).start()
    try:
        assert status_of(server, "GET", "/docs") == status
        assert status_of(server, "GET", "/openapi.json") == status
    finally:
        server.stop()


# -- regular expressions --------------------------------------------------------------------------------

REFUSED = ["(a{1000}){1000}", "(?R)", r"(a)\1", "(?=a)", "(?P<n>a)(?P=n)", "(" * 500, "a" * 1_001, "x{0,1000}" * 50]
SLOW_ELSEWHERE = ["(a+)+$", "(a|a)*$", "(.*)*b", ".*" * 300, "(a?){50}a{50}"]


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:20])
def test_expressions_that_are_not_linear_are_refused_everywhere(admin: Client, text: str) -> None:
    assert admin.put("/permissions/%2F/guest", {**ALL, "configure": text}).status == 400
    assert admin.put("/topic-permissions/%2F/guest", {"exchange": "x", "write": text, "read": ".*"}).status == 400
    assert admin.put("/policies/%2F/p", {"pattern": text, "definition": {"a": 1}}).status == 400
    assert admin.get(f"/queues?page=1&use_regex=true&name={quote(text)}").status == 400
    assert admin.put("/queues/%2F/still-allowed").status in (201, 204)


@pytest.mark.parametrize("text", SLOW_ELSEWHERE, ids=lambda text: text[:20])
def test_expressions_that_would_hang_a_backtracking_engine_are_linear(admin: Client, text: str) -> None:
    """Each of these takes longer than any test run with backtracking, on one name of 250 letters."""
    admin.put("/users/limited", {"password": "l", "tags": "management"})
    admin.put("/permissions/%2F/limited", {**ALL, "configure": text})
    limited = Client(admin.port, "limited", "l")
    name = "a" * 249 + "!"
    assert limited.put(f"/queues/%2F/{quote(name)}").status in (201, 204, 401)
    assert admin.get(f"/queues?page=1&use_regex=true&name={quote(text)}").status == 200
    admin.delete("/users/limited")


# -- logging in -----------------------------------------------------------------------------------------


def in_format_of_rabbitmq(password: str, algorithm: str) -> str:
    salt = bytes.fromhex("908DC60A")
    return base64.b64encode(salt + hashlib.new(algorithm, salt + password.encode()).digest()).decode()


def test_a_user_imported_from_rabbitmq_logs_in(target: Server, admin: Client) -> None:
    """The hash of "test12" is the worked example of RabbitMQ's documentation on passwords."""
    documented = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
    assert in_format_of_rabbitmq("test12", "sha256") == documented
    document: dict[str, Any] = {
        "rabbit_version": "3.13.7",
        "users": [
            {
                "name": "imported",
                "password_hash": documented,
                "hashing_algorithm": "rabbit_password_hashing_sha256",
                "tags": ["management"],
                "limits": {},
            },
            {
                "name": "imported512",
                "password_hash": in_format_of_rabbitmq("test12", "sha512"),
                "hashing_algorithm": "rabbit_password_hashing_sha512",
                "tags": "management",
            },
        ],
        "vhosts": [{"name": "/"}],
        "permissions": [{"user": "imported", "vhost": "/", **ALL}],
    }
    assert admin.post("/definitions", document).status == 204
    for name in ("imported", "imported512"):
        assert target.client(name, "test12").get("/whoami").json["name"] == name
        assert target.client(name, "test13").get("/whoami").status == 401
        assert target.client(name, "").get("/whoami").status == 401
        assert target.client(name, documented).get("/whoami").status == 401
    assert target.client("imported", "test12").put("/queues/%2F/imported").status == 201


def test_failed_logins_are_limited_in_bounded_memory() -> None:
    now = [0.0]
    failures = FailedLogins(limit=3, pause=30.0, clock=lambda: now[0])
    for _ in range(3):
        failures.check("a", "1.2.3.4")
        failures.failed("a", "1.2.3.4")
    with pytest.raises(Refusal) as refused:
        failures.check("a", "1.2.3.4")
    assert (refused.value.status, refused.value.headers["retry-after"]) == (429, "31")
    failures.check("a", "5.6.7.8")
    failures.check("b", "1.2.3.4")
    now[0] = 31.0
    failures.check("a", "1.2.3.4")
    for number in range(20_000):
        failures.failed(f"user{number}", "1.2.3.4")
    assert failures.remembered <= 10_000


def test_neither_answers_nor_logs_tell_passwords(
    target: Server, admin: Client, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        admin.put("/users/sam", {"password": "correct horse", "tags": "management"})
        answers = [
            target.client("sam", "wrong battery").get("/whoami"),
            admin.get("/users/sam"),
            admin.call("PUT", "/users/sam", raw=b'{"password": "correct horse", "tags": 1}'),
            admin.put("/users/sam", {"password": "correct horse", "tags": "", "hashing_algorithm": "none"}),
        ]
    said = caplog.text.encode() + b"".join(answer.raw for answer in answers)
    assert b"correct horse" not in said
    assert b"wrong battery" not in said
    folder = Path(target.app.state.plane.data.access)
    assert folder.stat().st_mode & 0o777 == 0o700
    for file in folder.iterdir():
        assert b"correct horse" not in file.read_bytes()
        assert file.stat().st_mode & 0o077 == 0 or file.name == "lock"


def test_changes_of_users_and_permissions_are_audited(target: Server, admin: Client) -> None:
    admin.put("/users/root2", {"password": "r", "tags": "administrator"})
    root2 = target.client("root2", "r")
    root2.put("/users/made-by-root2", {"password": "x", "tags": ""})
    root2.put("/permissions/%2F/made-by-root2", ALL)
    root2.put("/queues/%2F/none-of-hers")
    lines = Path(target.app.state.plane.data.access, "audit.jsonl").read_text().splitlines()
    said = [(entry["user"], entry["action"]) for entry in map(json.loads, lines)]
    assert [action for user, action in said if user == "root2"] == [
        "put user 'made-by-root2' with tags []",
        "granted user 'made-by-root2' a permission in vhost '/'",
    ]


# -- rights that one request could lend to another ------------------------------------------------------


def refused(answer: Answer) -> bool:
    return answer.status == 401 and answer.json["error"] == "not_authorised"


def message(key: str, **properties: Any) -> dict[str, Any]:
    return {"routing_key": key, "properties": properties, "payload": "", "payload_encoding": "string"}


@pytest.fixture
def narrow(target: Server, admin: Client) -> Iterator[Client]:
    """A user who may use only keys that begin with "a" with the topic exchange x."""
    admin.put("/users/narrow", {"password": "n", "tags": "management"})
    admin.put("/permissions/%2F/narrow", ALL)
    admin.put("/topic-permissions/%2F/narrow", {"exchange": "x", "write": "^a", "read": "^a"})
    yield target.client("narrow", "n")
    admin.delete("/users/narrow")


def test_topic_permissions_hold_on_every_way(narrow: Client) -> None:
    assert narrow.post("/exchanges/%2F/x/publish", message("a.b")).status == 200
    assert refused(narrow.post("/exchanges/%2F/x/publish", message("b")))
    assert refused(narrow.post("/exchanges/%2F/x/publish", message("a", headers={"CC": ["b"]})))
    assert refused(narrow.post("/exchanges/%2F/x/publish", message("a", headers={"BCC": ["b"]})))
    assert narrow.call("POST", "/inbox/%2F", raw=b'{"exchange":"x","routing_key":"a"}').status == 200
    assert refused(narrow.call("POST", "/inbox/%2F", raw=b'{"exchange":"x","routing_key":"b"}'))
    assert refused(narrow.call("POST", "/inbox/%2F", raw=b'{"exchange":"x","routing_key":"a","cc":["b"]}'))
    assert narrow.post("/bindings/%2F/e/x/q/q", {"routing_key": "a.#"}).status == 201
    assert refused(narrow.post("/bindings/%2F/e/x/q/q", {"routing_key": "#"}))


def test_nobody_publishes_as_somebody_else(narrow: Client, admin: Client) -> None:
    assert narrow.post("/exchanges/%2F/x/publish", message("a", user_id="guest")).status == 400
    forged = b'{"exchange":"x","routing_key":"a","properties":{"user_id":{"binary":"6775657374"}}}'
    assert refused(narrow.call("POST", "/inbox/%2F", raw=forged))
    own = forged.replace(b"6775657374", b"narrow".hex().encode())
    assert narrow.call("POST", "/inbox/%2F", raw=own).status == 200
    assert admin.call("POST", "/inbox/%2F", raw=own).status == 200, "an administrator may, as an impersonator may"


def test_a_vhost_that_one_may_not_see_cannot_be_told_from_none(target: Server, admin: Client) -> None:
    admin.put("/users/prober", {"password": "p", "tags": "management"})
    prober = target.client("prober", "p")
    for path in ("/queues", "/bindings", "/lint", "/connections"):
        present = prober.call("GET", path, headers={"x-vhost": "/"})
        absent = prober.call("GET", path, headers={"x-vhost": "nothing"})
        assert (present.status, present.raw) == (absent.status, absent.raw), path
    admin.put("/users/prober", {"password": "p", "tags": "management"})
    admin.put("/vhosts/own")
    admin.put("/permissions/own/prober", ALL)
    binding = {"source": "x", "destination": "q", "destination_type": "queue", "routing_key": "", "arguments": {}}
    for proposed in (
        {"bindings": [{**binding, "vhost": "/"}]},
        {"definitions": {"bindings": [{**binding, "vhost": "/"}]}},
        {"definitions": {"vhosts": [{"name": "/"}]}},
        {"add": {"bindings": [{**binding, "vhost": "/"}]}},
        {"change": {"exchanges": [{"name": "x", "vhost": "/", "type": "topic"}]}},
        {"change": {"vhosts": [{"name": "/"}]}},
        {"delete": {"queues": [{"vhost": "/", "name": "q"}]}},
        {"delete": {"bindings": [{"vhost": "/", "source": "x", "destination": "q"}]}},
        {"delete": {"vhosts": ["/"]}},
        {"delete": {"vhosts": [{"name": "/"}]}},
    ):
        stated = json.dumps(proposed)
        answers = [
            prober.post("/route", {"vhost": "own", "message": {}, "proposal": json.loads(text)})
            for text in (stated, stated.replace('"/"', '"nothing"'), stated.replace('"x"', '"absent"'))
        ]
        assert {(answer.status, answer.raw) for answer in answers} == {(404, answers[0].raw)}, proposed
    assert prober.post("/route", {"vhost": "own", "message": {}, "proposal": {"queues": [{"name": "n"}]}}).status == 200
    admin.delete("/vhosts/own")
    for method, path, body in (
        ("GET", "/queues/{}", None),
        ("PUT", "/queues/{}/x", {}),
        ("GET", "/queues/{}?version=0", None),
        ("GET", "/topology/diff?from=0&vhost={}", None),
        ("POST", "/inbox/{}", {}),
        ("GET", "/unroutable/{}", None),
    ):
        answers = [prober.call(method, path.format(vhost), body) for vhost in ("%2F", "nothing")]
        assert answers[0].status == 404
        assert answers[0].raw == answers[1].raw, path
    admin.delete("/users/prober")


def test_messages_of_unreadable_queues_are_not_compared(target: Server, admin: Client) -> None:
    admin.put("/users/blind", {"password": "b", "tags": "management"})
    admin.put("/permissions/%2F/blind", {**ALL, "read": "^$"})
    blind = target.client("blind", "b")
    assert blind.get("/lint/%2F").status == 200
    assert refused(blind.get("/lint/%2F?overlap=true"))
    assert refused(blind.get("/unroutable/%2F"))
    admin.delete("/users/blind")
