"""`bindery jobs`: the same commands on a data directory and on a running service, and what becomes of lost answers.

As in test_jobs_rest, a program of the tests stands in for spark-submit.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from bindery.cli import jobs as commands
from bindery.cli import service as remote
from bindery.store.jobs import JobFolder
from tests.servers.certificates import Authority
from tests.service.conftest import PASSWORD, USER
from tests.service.test_jobs_rest import ROOT, Service, until
from tests.unit.cli.conftest import Run
from tests.unit.cli.conftest import run as run  # noqa: PLC0414  # the fixture

pytestmark = pytest.mark.service


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """The service of the REST tests, and its user in the environment."""
    monkeypatch.setenv(remote.USER_VARIABLE, USER)
    monkeypatch.setenv(remote.PASSWORD_VARIABLE, PASSWORD)
    monkeypatch.setattr(commands, "_LOOK", 0.05)
    running = Service(tmp_path, monkeypatch)
    running.server.app.state.plane.topology()  # made at the first request
    yield running
    running.end()


@pytest.fixture(params=["data", "service"])
def place(request: pytest.FixtureRequest, service: Service) -> tuple[str, str]:
    """Options that name one and the same data directory, by itself or by its service."""
    if request.param == "data":
        return ("--data", str(service.folder / "data"))
    return ("--service", url(service))


def url(service: Service) -> str:
    return f"http://127.0.0.1:{service.server.port}"


def file(service: Service, stream: str = "s", **more: object) -> Path:
    made = service.folder / f"{stream}.yaml"
    made.write_text(yaml.safe_dump(service.document(stream, **more)))
    return made


def test_a_job_is_submitted_shown_stopped_restarted_and_forgotten(
    service: Service, place: tuple[str, str], run: Run
) -> None:
    assert run("jobs", "submit", file(service), "--name", "orders.eu", "--wait", *place) == (
        *(0, "orders.eu\n"),
        "orders.eu: idle; run 1; 0 records → 0 copies; lag 0 s\n",
    )
    assert service.job("orders.eu")["document"] == service.document("orders.eu")
    assert run("jobs", "submit", file(service, "orders.us"), *place)[:2] == (0, "orders.us\n")
    service.until("idle", "orders.us")
    code, out, _ = run("jobs", "list", *place)
    header, *rows = (line.split("\t") for line in out.splitlines())
    assert (code, header) == (0, list(commands._COLUMNS))
    assert [(row[0], row[1], row[2], row[7]) for row in rows] == [
        ("orders.eu", "idle", "1", "0 s"),
        ("orders.us", "idle", "1", "0 s"),
    ]
    assert json.loads(run("jobs", "list", "--json", *place)[1]) == service.client.get("/jobs").json
    assert json.loads(run("jobs", "status", "orders.e", "--json", *place)[1]) == service.job("orders.eu")

    code, _, err = run("jobs", "submit", file(service, "orders.us"), *place)
    assert (code, "has a job that runs" in err) == (1, True)
    code, _, err = run("jobs", "forget", "orders.us", *place)
    assert (code, "has a job that runs" in err) == (1, True)
    assert run("jobs", "stop", "orders.u", "--wait", *place) == (0, "orders.us: stopped\n", "")
    code, _, err = run("jobs", "stop", "orders.us", *place)
    assert (code, "does not run" in err) == (1, True)
    assert run("jobs", "restart", "orders.us", *place)[0] == 0
    assert service.until("idle", "orders.us")["run"]["number"] == 2
    assert run("jobs", "stop", "orders.us", "--force", "--wait", *place)[:2] == (0, "orders.us: stopped\n")
    assert run("jobs", "forget", "orders.us", *place) == (0, "", "")
    assert [job["stream"] for job in service.client.get("/jobs").json] == ["orders.eu"]


def test_an_id_may_be_shortened_where_that_is_one_job(service: Service, place: tuple[str, str], run: Run) -> None:
    for stream in ("orders", "orders.eu", "west/1 ✓"):
        service.submit(stream)
        service.until("idle", stream)
    assert run("jobs", "status", "w", *place)[1].startswith("west/1 ✓: idle; ")
    assert run("jobs", "status", "orders", *place)[1].startswith("orders: idle; "), "that very one, though two begin so"
    code, _, err = run("jobs", "status", "o", *place)
    assert (code, "may be orders, orders.eu" in err) == (2, True)
    code, _, err = run("jobs", "stop", "odrers", *place)
    assert (code, "did you mean 'orders'?" in err) == (2, True)
    assert run("jobs", "status", "", *place)[0] == 2


def test_why_a_job_failed_stands_in_its_line(service: Service, place: tuple[str, str], run: Run) -> None:
    service.how("fails")
    code, out, err = run("jobs", "submit", file(service), "--wait", *place)
    assert (code, out) == (1, "s\n")
    assert err == "s: failed; run 1; 0 records → 0 copies; stream_failed: no such column\n"
    assert run("jobs", "list", *place)[1].splitlines()[1].split("\t")[-1] == "stream_failed"
    assert run("jobs", "status", "s", *place)[0] == 0
    service.how("waits")
    run("jobs", "submit", file(service), *place)
    service.until("running")
    assert "waiting: no executor" in run("jobs", "status", "s", *place)[1]


WRONG = """\
stream: s
source:
  format: json
  pth: /in
  schema: a STRING
message:
  ruoting_key: a
  properties: {to: a, creation_tmie: a}
  application_properties: {a: ""}
trigger: soon
"""


def test_everything_that_is_wrong_with_a_file_is_told_at_once(
    service: Service, place: tuple[str, str], run: Run
) -> None:
    wrong = service.folder / "wrong.yaml"
    wrong.write_text(WRONG)
    code, out, err = run("jobs", "submit", wrong, *place)
    assert (code, out) == (2, "")
    said = [line.removeprefix(f"{wrong}:") for line in err.splitlines() if line.startswith(str(wrong))]
    assert sorted(said, key=lambda line: int(line.partition(":")[0])) == [
        "2:1: source.path: missing",
        "4:3: source.pth: unknown key",
        "7:3: message.ruoting_key: unknown key",
        "8:23: message.properties.creation_tmie: unknown key",
        "9:28: message.application_properties.a: Value should have at least 1 item after validation, not 0",
        "10:1: trigger: 'soon' is neither 'available-now' nor an interval such as '10 seconds'",
    ]
    assert "did you mean 'routing_key'?" in err
    assert err.splitlines()[-1] == "error: 6 errors; nothing was changed"
    assert service.client.get("/jobs").json == []


NO_JOBS = [
    ("a: [", "not YAML"),
    ("- a", "a map of keys"),
    ("stream: s\nstream: t", "stated twice"),
    ("stream: s\nsource: {format: queue, queue: q, filter: {a: 2026-01-01}}", "JSON does not have"),
    ("{}", "stream: missing"),
    ("stream: s\nforward: {queue: q, topc: t}", ":2:21: forward.topc: unknown key"),
]


def test_a_file_that_is_no_job_is_refused(service: Service, place: tuple[str, str], run: Run) -> None:
    wrong = service.folder / "wrong.yaml"
    for text, said in NO_JOBS:
        wrong.write_text(text)
        code, out, err = run("jobs", "submit", wrong, *place)
        assert (code, out, said in err) == (2, "", True), err
    assert run("jobs", "submit", service.folder / "none.yaml", *place)[0] == 2


def test_what_a_file_may_not_ask_for_is_told_at_its_line(service: Service, run: Run) -> None:
    options = {"fs.s3a.secret.key": "clear", "cleanSource": "archive"}
    source = {**service.document()["source"], "options": options}
    made = file(service, source=source, message={"routing_key": "reflect('a')", "body": "java_method('b')"}, vhost="no")
    code, _, err = run("jobs", "submit", made, "--data", service.folder / "data")
    assert code == 2
    assert [line.partition(": ")[2] for line in err.splitlines() if line.startswith(str(made))] == [
        "source.options.cleanSource: not an option that a submitted job may set",
        "source.options.fs.s3a.secret.key: a credential in clear",
        "message.body: java_method is not allowed in a submitted job",
        "message.routing_key: reflect is not allowed in a submitted job",
        "vhost: no vhost 'no'",
    ]
    # the service says one thing at a time, and knows no lines
    code, _, err = run("jobs", "submit", made, "--service", url(service))
    assert (code, f"{made}:7:5: source.options.cleanSource: not an option" in err) == (2, True), err


def test_a_path_is_taken_from_the_working_directory_and_needs_no_permission_of_a_service(
    service: Service, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = service.folder / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(service.folder)
    source = {"format": "json", "path": "elsewhere", "schema": "a STRING"}
    code, _, err = run("jobs", "submit", file(service, source=source), "--service", url(service))
    assert (code, "source.path: not absolute" in err) == (2, True)
    assert run("jobs", "submit", file(service, source=source), "--wait")[:2] == (0, "s\n"), "`data` is there"
    assert service.job()["document"]["source"]["path"] == str(elsewhere)
    assert service.client.post("/jobs/s/restart").status == 400, "the service has its own rules"
    assert run("jobs", "restart", "s")[0] == 0
    inside = {"format": "json", "path": "data/queues", "schema": "a STRING"}
    code, _, err = run("jobs", "submit", file(service, "t", source=inside))
    assert (code, "keeps for itself" in err) == (2, True)


def test_brokers_that_a_file_names_need_no_permission_either(service: Service, run: Run) -> None:
    here = ("--data", service.folder / "data")
    kafka = {"format": "kafka", "bootstrap_servers": "broker:9092, b:9093", "topics": "orders"}
    made = file(service, source=kafka, message={"exchange": "'orders'"})
    code, _, err = run("jobs", "submit", made, "--service", url(service))
    assert (code, ":4:3: source.bootstrap_servers: broker:9092 is not among" in err) == (2, True), err
    assert run("jobs", "submit", made, *here)[0] == 0
    forward = {"queue": "none", "to": "kafka", "bootstrap_servers": "b:9093", "topic": "t", "options": {"acks": "1"}}
    made.write_text(yaml.safe_dump({"stream": "f", "forward": forward}))
    code, _, err = run("jobs", "submit", made, *here)
    assert (code, "forward.options.acks: is set by the forwarder" in err) == (2, True)
    made.write_text(yaml.safe_dump({"stream": "f", "forward": {**forward, "options": {}}}))
    code, _, err = run("jobs", "submit", made, *here)
    assert (code, "queue: no queue 'none' in vhost '/'" in err) == (2, True), err


def test_settings_of_the_service_say_how_jobs_are_started(
    service: Service, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = service.folder / "settings.yaml"
    settings.write_text("port: 1\njobs: {master: 'sc://connect'}\n")
    monkeypatch.setenv("BINDERY_CONFIG", str(settings))
    code, _, err = run("jobs", "list", "--data", service.folder / "data")
    assert (code, "Spark Connect" in err) == (2, True), err
    settings.write_text("jobs: {secrets: nowhere, stop_wait: 5}\nport: 1\n")
    source = {**service.document()["source"], "options": {"fs.s3a.secret.key": {"secret": "KEY"}}}
    code, _, err = run("jobs", "submit", file(service, source=source), "--data", service.folder / "data")
    assert (code, "there is no secret KEY" in err) == (2, True)
    (service.folder / "KEY").write_text("s3cr3t")
    monkeypatch.setenv("BINDERY_JOBS__SECRETS", str(service.folder))
    service.how("refuses")
    assert run("jobs", "submit", file(service, source=source), "--data", service.folder / "data")[0] == 0
    service.until("failed")
    assert run("jobs", "logs", "s", "--data", service.folder / "data")[1] == "the cluster is full; ***\n"


def test_a_job_outlives_the_command_and_the_terminal(service: Service) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "bindery.cli.main", "jobs"]
    data = ("--data", str(service.folder / "data"))
    started = subprocess.Popen(
        [*command, "submit", str(file(service)), *data],
        env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert (started.communicate(timeout=60)[0], started.returncode) == ("s\n", 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(started.pid, signal.SIGHUP)
    assert service.until("idle")["run"]["number"] == 1
    # it fell to nobody to see how the process ends: what the run said itself is enough
    os.killpg(service.job()["run"]["pid"], signal.SIGKILL)
    assert service.until("failed")["error"]["code"] == "killed"
    shown = subprocess.run(
        [*command, "status", "s", *data], env=environment, capture_output=True, text=True, check=True
    )
    assert "killed: " in shown.stdout


def test_the_log_is_followed_until_the_run_has_ended(
    service: Service, place: tuple[str, str], run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    service.submit()
    service.until("idle")
    log = service.server.app.state.plane.jobs.folder("s").log(1)
    log.write_text("".join(f"line {n}\n" for n in range(300)) + "amqp://a:s3cr3t@h\tx \x1b[0m\n")
    code, out, _ = run("jobs", "logs", "s", "--lines", 2, *place)
    assert (code, out) == (0, "line 299\namqp://a:***@h\tx �[0m\n")
    assert run("jobs", "logs", "s", "--run", 2, *place)[0] == 2

    written = 0

    def write() -> None:
        nonlocal written
        for number in range(20):
            with log.open("a") as file:
                file.write(f"more {number}\nand h")
                file.flush()
                time.sleep(0.02)
                file.write("alf\n")
            written += 1
        service.client.post("/jobs/s/stop")

    writer = threading.Thread(target=write)
    writer.start()
    code, out, err = run("jobs", "logs", "s", "--lines", 10_000, "--follow", *place)
    writer.join()
    assert (code, written) == (0, 20)
    assert out.splitlines()[301:] == [line for n in range(20) for line in (f"more {n}", "and half")]
    assert err == "run 1 of s has ended: stopped\n"


@pytest.fixture
def _interruptible() -> Iterator[None]:
    """What is started in the background of a shell ignores SIGINT, and so do its children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
def test_whoever_follows_may_go_any_time(service: Service, place: tuple[str, str]) -> None:
    service.submit()
    service.until("idle")
    service.server.app.state.plane.jobs.folder("s").log(1).write_text("begun\n")
    command = [sys.executable, "-m", "bindery.cli.main", "jobs", "logs", "-f", "s", *place]
    following = subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert following.stdout is not None
    assert following.stdout.readline() == "begun\n"
    following.send_signal(signal.SIGINT)
    assert (*following.communicate(timeout=60), following.returncode) == ("", "", 0)
    assert service.job()["state"] == "idle"


def test_a_job_of_another_machine_is_asked_by_its_record(service: Service, run: Run) -> None:
    service.how("deaf")
    service.submit()
    service.until("idle")
    # as if it ran in another container: process numbers of that one mean nothing here
    folder = service.folder / "data" / "jobs" / "s"
    pid = service.job()["run"]["pid"]
    record = json.loads((folder / "job.json").read_text())
    record["run"]["process"]["host"] = "elsewhere"
    (folder / "job.json").write_text(json.dumps(record))
    said = next(folder.glob("status-*.json"))
    status = json.loads(said.read_text())
    status["driver"]["host"] = "elsewhere"
    said.write_text(json.dumps(status))
    try:
        code, out, err = run("jobs", "stop", "s", "--data", service.folder / "data")
        assert (code, out) == (0, "s: stopping\n")
        assert err.startswith("its process is not on this machine")
        known = JobFolder(folder).record()
        assert known is not None
        assert known.run is not None
        assert known.run.stop_requested_at is not None
        code, _, err = run("jobs", "stop", "s", "--force", "--data", service.folder / "data")
        assert (code, "runs on another machine" in err) == (1, True)
    finally:
        os.killpg(pid, signal.SIGKILL)


def test_what_is_typed_goes_before_the_environment(
    service: Service, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BINDERY_SERVICE", "http://127.0.0.1:1")
    monkeypatch.setenv("BINDERY_DATA", str(tmp_path / "none"))
    assert run("jobs", "list")[0] == 1, "the service of the environment goes before its data directory"
    assert run("jobs", "list", "--data", service.folder / "data")[0] == 0
    assert run("jobs", "list", "--service", url(service))[0] == 0
    code, _, err = run("jobs", "list", "--service", url(service), "--data", service.folder / "data")
    assert (code, "exclude each other" in err) == (2, True)
    code, _, err = run("jobs", "list", "--data", service.folder / "data", "--ca-file", "x.pem")
    assert (code, "--ca-file" in err) == (2, True)


NO_SERVICES = [
    ("http://127.0.0.1:1", 1, "cannot be reached: Connection refused"),
    ("https://127.0.0.1:PORT", 1, "a service without a certificate is http://"),
    ("http://127.0.0.1:PORT/elsewhere", 1, "does not answer as a Bindery service does"),
    ("http://guest:wrong@127.0.0.1:PORT", 2, "the user or the password is wrong"),
    ("http://mary:m@127.0.0.1:PORT", 2, "this user may not do that"),
    ("127.0.0.1:PORT", 2, "such as http://"),
    ("http://127.0.0.1:port", 2, "the port of the URL is no number"),
    ("http://127.0.0.1:PORT/?a=b", 2, "no URL of a service"),
    (f"http://{'a' * 70}.example", 2, "no name of a host"),
]


def test_a_service_that_does_not_answer_as_expected(service: Service, run: Run) -> None:
    assert service.client.put("/users/mary", {"password": "m", "tags": "management"}).status == 201
    for address, code, said in NO_SERVICES:
        left, out, err = run("jobs", "list", "--service", address.replace("PORT", str(service.server.port)))
        assert (left, out) == (code, ""), address
        assert said in err
        warning, error, hint = err.rpartition("error: ")
        assert error
        assert len(hint.splitlines()) <= 2
        assert "wrong@" not in err
        assert ("the password travels unencrypted" in warning) == ("example" in address)


def test_a_service_is_told_who_asks(service: Service, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    at = ("--service", url(service))
    monkeypatch.delenv(remote.PASSWORD_VARIABLE)
    code, _, err = run("jobs", "list", *at)
    assert (code, f"error: {remote.PASSWORD_VARIABLE}: no password for user 'guest'" in err) == (2, True)
    monkeypatch.delenv(remote.USER_VARIABLE)
    code, _, err = run("jobs", "list", *at)
    assert (code, "it asks who you are" in err) == (2, True)
    monkeypatch.setenv(remote.PASSWORD_VARIABLE, PASSWORD)
    assert run("jobs", "list", *at)[0] == 2
    assert service.client.put("/users/m%40x", {"password": "p:/", "tags": "monitoring"}).status == 201
    named = f"http://m%40x:p%3A%2F@127.0.0.1:{service.server.port}/api/"
    assert run("jobs", "list", "--service", named)[0] == 0
    code, _, err = run("jobs", "submit", file(service), "--service", named)
    assert (code, "tag administrator" in err) == (2, True)


def test_a_certificate_is_checked(service: Service, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    import uvicorn

    authority = Authority(tmp_path / "tls")
    issued = authority.issue("service")
    config = uvicorn.Config(
        service.server.app, port=0, log_level="critical", ssl_certfile=issued.certificate, ssl_keyfile=issued.key
    )
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    until(lambda: server.started, bool)
    at = f"https://127.0.0.1:{listener.getsockname()[1]}"
    try:
        code, _, err = run("jobs", "list", "--service", at)
        assert (code, "its certificate is not trusted" in err, "--ca-file" in err) == (1, True, True)
        assert run("jobs", "list", "--service", at, "--ca-file", authority.certificate)[0] == 0
        code, _, err = run("jobs", "list", "--service", at.replace("https", "http"))
        assert code == 1
        assert "https://" in err
        for wrong in (issued.key, tmp_path / "none.pem"):
            code, _, err = run("jobs", "list", "--service", at, "--ca-file", wrong)
            assert (code, "--ca-file" in err) == (2, True)
        code, _, err = run("jobs", "list", "--service", url(service), "--ca-file", authority.certificate)
        assert (code, "certificates are for https://" in err) == (2, True)
        monkeypatch.setenv("BINDERY_CA_FILE", str(authority.certificate))
        for one in (at, url(service)):
            assert run("jobs", "list", "--service", one)[0] == 0
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()


class Between:
    """A relay before a service; `spoil` says, by the first line of a request, what becomes of it or of its answer."""

    def __init__(self, port: int) -> None:
        self.lost: list[bytes] = []
        self.spoil: Callable[[bytes], str] = lambda _: "answer"
        self._port = port
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            with client:
                request = client.recv(65536)
                head, _, body = request.partition(b"\r\n\r\n")
                length = next(
                    (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
                )
                while len(body) < length:
                    body += client.recv(65536)
                how = self.spoil(head.partition(b"\r\n")[0])
                if how == "drop":
                    self.lost.append(head)
                    continue
                with socket.create_connection(("127.0.0.1", self._port)) as onward:
                    onward.sendall(head + b"\r\nConnection: close\r\n\r\n" + body)
                    answer = b"".join(iter(lambda: onward.recv(65536), b""))
                if how == "lose":
                    self.lost.append(head)
                elif how == "gateway":
                    self.lost.append(head)
                    client.sendall(b"HTTP/1.1 504 Gateway Time-out\r\nContent-Length: 0\r\n\r\n")
                else:
                    client.sendall(answer)

    def close(self) -> None:
        # who waits in accept() does not hear of a mere close()
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(20)


@pytest.fixture
def between(service: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[Between]:
    monkeypatch.setattr(remote, "_ASK_FOR", 1.0)
    monkeypatch.setattr(remote, "_ASK_EVERY", 0.05)
    relay = Between(service.server.port)
    yield relay
    relay.close()


@pytest.mark.parametrize("how", ["lose", "gateway"])
def test_a_change_is_made_once_if_its_answer_is_lost(service: Service, between: Between, run: Run, how: str) -> None:
    between.spoil = lambda line: "answer" if line.startswith(b"GET") else how
    at = ("--service", between.url)
    assert run("jobs", "submit", file(service), *at)[:2] == (0, "s\n")
    assert service.until("idle")["run"]["number"] == 1
    assert run("jobs", "restart", "s", *at)[0] == 0
    assert service.until("idle")["run"]["number"] == 2
    assert run("jobs", "stop", "s", "--wait", *at)[:2] == (0, "s: stopped\n")
    assert run("jobs", "submit", file(service), *at)[:2] == (0, "s\n"), "a job that was there before"
    assert service.until("idle")["run"]["number"] == 3
    assert run("jobs", "stop", "s", "--wait", *at)[0] == 0
    assert run("jobs", "forget", "s", *at)[0] == 0
    assert len(between.lost) == 6, "each was sent once"


def test_what_nobody_knows_is_said_to_be_unknown(service: Service, between: Between, run: Run) -> None:
    between.spoil = lambda line: "answer" if line.startswith(b"GET") else "drop"
    at = ("--service", between.url)
    code, out, err = run("jobs", "submit", file(service), *at)
    assert (code, out, "nobody knows whether the job of stream 's' was submitted" in err) == (1, "", True)
    assert len(between.lost) == 1
    service.submit()
    job = service.until("idle")
    # a job that was there before, of that very document, is not taken for one that was started now
    code, _, err = run("jobs", "submit", file(service), *at)
    assert (code, "nobody knows" in err) == (1, True)
    code, _, err = run("jobs", "restart", "s", *at)
    assert (code, "nobody knows" in err) == (1, True)
    assert service.job()["run"] == {**job["run"], "reported_at": service.job()["run"]["reported_at"]}
    between.spoil = lambda line: "drop"
    code, _, err = run("jobs", "list", *at)
    assert (code, "did not answer" in err) == (1, True)


def test_a_job_of_somebody_else_is_not_taken_for_this_one(service: Service, between: Between, run: Run) -> None:
    def spoil(line: bytes) -> str:
        if line.startswith(b"POST"):
            service.submit()
            return "drop"
        return "answer"

    between.spoil = spoil
    made = file(service, max_batch_records=5)
    code, out, err = run("jobs", "submit", made, "--service", between.url)
    assert (code, out, "nobody knows" in err) == (1, "", True)
