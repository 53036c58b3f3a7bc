"""`bindery serve` as a process: administrators, addresses, TLS, limits, stopping."""

from __future__ import annotations

import base64
import http.client
import json
import os
import signal
import socket
import ssl
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bindery.demo.control_plane import USER, control_plane
from tests.service.http import Client

pytestmark = pytest.mark.service

COMMAND = [sys.executable, "-m", "bindery.cli.main", "serve"]


def environment(**given: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("BINDERY_")} | given


@contextmanager
def serving(data: Path, *options: str, **given: str) -> Iterator[tuple[int, list[str], subprocess.Popen[str]]]:
    """A server process; gives its port, the lines that it printed, and the process."""
    process = subprocess.Popen(
        [*COMMAND, "--data", str(data), "--port", "0", *options],
        env=environment(**given),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines: list[str] = []
    try:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.strip())
            if "listening on" in line:
                break
        assert lines and "listening on" in lines[-1], lines
        yield int(lines[-1].rstrip('"}').rpartition(":")[2]), lines, process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        process.stdout.close()  # type: ignore[union-attr]


def test_the_first_administrator_is_shown_once(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as (port, lines, _):
        (created,) = [line for line in lines if "password" in line]
        password = created.split("password ")[1].split()[0]
        assert len(password) >= 24
        assert Client(port, "admin", password).get("/whoami").json == {"name": "admin", "tags": ["administrator"]}
        assert Client(port, "guest", "guest").get("/whoami").status == 401
    assert stat.S_IMODE((tmp_path / "data" / "access").stat().st_mode) == 0o700
    with serving(tmp_path / "data") as (port, lines, _):
        assert not [line for line in lines if "password" in line]
        assert Client(port, "admin", password).get("/whoami").status == 200


def test_the_administrator_of_the_environment_gets_in(tmp_path: Path) -> None:
    given = {"BINDERY_ADMIN_USER": "root", "BINDERY_ADMIN_PASSWORD": "p@ss:wörd"}
    with serving(tmp_path / "data", **given) as (port, lines, _):
        assert not [line for line in lines if "p@ss" in line]
        assert Client(port, "root", "p@ss:wörd").get("/users").status == 200


def test_the_administrator_of_the_environment_is_made_once(tmp_path: Path) -> None:
    given = {"BINDERY_ADMIN_USER": "root", "BINDERY_ADMIN_PASSWORD": "first"}
    with serving(tmp_path / "data", **given) as (port, _, _process):
        root = Client(port, "root", "first")
        for name in ("ann", "root"):
            root.put(f"/users/{name}", {"password": "changed", "tags": "administrator"})
    with serving(tmp_path / "data", **given) as (port, _, _process):
        assert Client(port, "root", "first").get("/whoami").status == 401, "a changed password stays"
        assert Client(port, "root", "changed").get("/whoami").status == 200
        assert Client(port, "ann", "changed").delete("/users/root").status == 204
    with serving(tmp_path / "data", **given) as (port, _, _process):
        names = [user["name"] for user in Client(port, "ann", "changed").get("/users").json]
        assert names == ["ann"], "a user that was deleted stays deleted"


def test_the_demo_gets_in_where_it_has_run_before(tmp_path: Path) -> None:
    for _ in range(2):
        with control_plane(tmp_path / "data") as plane:
            assert Client(plane.port, USER, plane.password).get("/users").status == 200


def test_the_password_comes_from_a_file_of_secrets(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("p@ss:wörd\n", "utf-8")
    # an empty variable counts as none, as with other images that follow this convention
    given = {"BINDERY_ADMIN_USER": "root", "BINDERY_ADMIN_PASSWORD_FILE": str(secret), "BINDERY_ADMIN_PASSWORD": ""}
    with serving(tmp_path / "data", **given) as (port, lines, _):
        assert not [line for line in lines if "p@ss" in line]
        assert Client(port, "root", "p@ss:wörd").get("/users").status == 200


def test_the_access_log_has_a_line_per_request(tmp_path: Path) -> None:
    given = {"BINDERY_ADMIN_USER": "a", "BINDERY_ADMIN_PASSWORD": "b"}
    for options in ((), ("--access-log",)):
        with serving(tmp_path / "data", *options, **given) as (port, _, process):
            assert Client(port, "a", "b").get("/queues/%2F?columns=name").status == 200
            process.send_signal(signal.SIGTERM)
            assert process.stdout is not None
            logged = [line for line in process.stdout if "?columns=name" in line]
        assert len(logged) == len(options)
        assert all("127.0.0.1:" in line and "GET /api/queues/" in line and " 200" in line for line in logged)


def test_the_log_as_json(tmp_path: Path) -> None:
    given = {"BINDERY_ADMIN_USER": "a", "BINDERY_ADMIN_PASSWORD": "b", "BINDERY_LOG_FORMAT": "json"}
    with serving(tmp_path / "data", "--access-log", **given) as (_, lines, process):
        listening = json.loads(lines[-1])
        assert (listening["level"], listening["logger"]) == ("info", "bindery.api")
        port = int(listening["message"].rpartition(":")[2])
        assert Client(port, "a", "b").get("/queues").status == 200
        assert Client(port, "a\n", "wr0ng").get("/queues").status == 401
        process.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        logged = [json.loads(line) for line in process.stdout]
    assert {line["logger"] for line in logged} == {"uvicorn.access", "bindery.api"}
    first, second = (line for line in logged if line["logger"] == "uvicorn.access")
    assert (first["method"], first["path"], first["status"], second["status"]) == ("GET", "/api/queues", 200, 401)
    (failed,) = (line for line in logged if line["logger"] == "bindery.api")
    assert (failed["level"], failed["message"]) == ("warning", "failed login of 'a\\n' from 127.0.0.1")
    assert "wr0ng" not in json.dumps(logged)


@pytest.mark.parametrize(
    ("proxies", "forwarded", "paused"),
    [
        ((), "10.0.0.{}", True),
        (("10.0.0.0/8",), "10.0.0.{}", True),
        # the proxy itself has added the last address; whatever stands before it came from the caller
        (("127.0.0.1",), "10.0.0.{}, 192.0.2.7", True),
        (("127.0.0.1",), "192.0.2.7, 10.0.0.{}", False),
    ],
)
def test_failed_logins_are_counted_by_the_true_peer(
    tmp_path: Path, proxies: tuple[str, ...], forwarded: str, paused: bool
) -> None:
    given = {"BINDERY_ADMIN_USER": "a", "BINDERY_ADMIN_PASSWORD": "b", "BINDERY_TRUSTED_PROXIES": json.dumps(proxies)}
    with serving(tmp_path / "data", **given) as (port, _, _process):
        guess = Client(port, "a", "wrong")
        answers = [
            guess.call("GET", "/whoami", headers={"x-forwarded-for": forwarded.format(number)}).status
            for number in range(12)
        ]
    assert answers == [401] * 10 + ([429] * 2 if paused else [401] * 2)


@pytest.mark.parametrize(
    ("options", "given", "said"),
    [
        (["--host", "0.0.0.0"], {}, "--insecure"),  # noqa: S104  # refused
        (["--ssl-certfile", "x"], {}, "key"),
        ([], {"BINDERY_ADMIN_USER": "x"}, "BINDERY_ADMIN_PASSWORD"),
        ([], {"BINDERY_ADMIN_USER": "x", "BINDERY_ADMIN_PASSWORD_FILE": "/no/such/file"}, "/no/such/file"),
        (
            [],
            {"BINDERY_ADMIN_USER": "x", "BINDERY_ADMIN_PASSWORD": "y", "BINDERY_ADMIN_PASSWORD_FILE": "/z"},
            "both given",
        ),
        (["--port", "99999"], {}, "port"),
    ],
)
def test_unsafe_settings_are_refused(tmp_path: Path, options: list[str], given: dict[str, str], said: str) -> None:
    done = subprocess.run(
        [*COMMAND, "--data", str(tmp_path / "data"), *options],
        env=environment(**given),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_that_is_taken_is_an_error_without_traceback(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = subprocess.run(
            [*COMMAND, "--data", str(tmp_path / "data"), "--port", str(taken.getsockname()[1])],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "cannot listen" in done.stderr


def test_a_damaged_topology_is_refused_at_start(tmp_path: Path) -> None:
    log = tmp_path / "data" / "topology" / "_delta_log"
    log.mkdir(parents=True)
    (log / "00000000000000000000.json").write_text("no json")
    done = subprocess.run(
        [*COMMAND, "--data", str(tmp_path / "data"), "--port", "0"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (3, False)


def test_tls(tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip("no openssl to make a certificate with")
    given = {"BINDERY_ADMIN_USER": "a", "BINDERY_ADMIN_PASSWORD": "b"}
    options = ("--ssl-certfile", str(certificate), "--ssl-keyfile", str(key))
    with serving(tmp_path / "data", *options, **given) as (port, lines, _):
        assert "https://" in lines[-1]
        context = ssl.create_default_context(cafile=str(certificate))
        context.check_hostname = False
        connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=30)
        credentials = base64.b64encode(b"a:b").decode()
        connection.request("GET", "/api/whoami", headers={"authorization": f"Basic {credentials}"})
        assert connection.getresponse().status == 200
        connection.close()


def test_endless_headers_are_cut_off(tmp_path: Path) -> None:
    given = {"BINDERY_ADMIN_USER": "a", "BINDERY_ADMIN_PASSWORD": "b"}
    with (
        serving(tmp_path / "data", **given) as (port, _, _process),
        socket.create_connection(("127.0.0.1", port)) as raw,
    ):
        raw.settimeout(20)
        raw.sendall(b"GET /api/whoami HTTP/1.1\r\nHost: x\r\nX-Big: " + b"x" * 70_000)
        assert b"400" in raw.recv(1_000).partition(b"\r\n")[0]


def test_what_was_answered_survives_a_kill(tmp_path: Path) -> None:
    given = {"BINDERY_ADMIN_USER": "a", "BINDERY_ADMIN_PASSWORD": "b"}
    with serving(tmp_path / "data", **given) as (port, _, process):
        client = Client(port, "a", "b")
        assert client.put("/queues/%2F/q", {"durable": True}).status == 201
        body = {"routing_key": "q", "payload": "m", "payload_encoding": "string", "properties": {}}
        assert client.post("/exchanges/%2F/amq.default/publish", body).json == {"routed": True}
        assert client.put("/users/ann", {"password": "x", "tags": ""}).status == 201
        process.kill()
        process.wait()
    with serving(tmp_path / "data", **given) as (port, _, _process):
        client = Client(port, "a", "b")
        got = client.post("/queues/%2F/q/get", {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"})
        assert got.json[0]["payload"] == "m"
        assert client.get("/users/ann").status == 200


def test_stopping_finishes_what_was_begun(tmp_path: Path) -> None:
    given = {"BINDERY_ADMIN_USER": "a", "BINDERY_ADMIN_PASSWORD": "b"}
    with serving(tmp_path / "data", **given) as (port, _, process):
        client = Client(port, "a", "b")
        assert client.put("/exchanges/%2F/x").status == 201
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) in (0, -signal.SIGTERM)


def test_the_service_needs_no_spark() -> None:
    code = "import sys, api.app; sys.exit(any(name.split('.')[0] in ('pyspark', 'delta') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
