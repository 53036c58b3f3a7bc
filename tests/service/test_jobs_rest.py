"""Jobs over HTTP: submitted, found, stopped, restarted and forgotten, by operators and by attackers.

The tests without a Spark session put a program of their own in the place of spark-submit: what is tested is
how its process is started, watched and ended. One test runs a real job.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator
from prometheus_client.parser import text_string_to_metric_families

from bindery.api.settings import JobSettings
from tests.service.conftest import PASSWORD, USER, Server
from tests.service.http import Client, segment

pytestmark = pytest.mark.service

ROOT = Path(__file__).parents[2]
#: What stands in for spark-submit: announces itself as a driver does, ends by SIGTERM as a driver does.
PROGRAM = f"""#!{sys.executable}
import signal, sys, time
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from bindery.jobs.control.launch import this_process
from bindery.store.jobs import JobFolder, RunStatus

named = dict(zip(sys.argv, sys.argv[1:]))
folder, run = JobFolder(Path(named["--job"])), named["--run"]
how = (folder.path.parents[2] / "how").read_text()
if how == "refuses":
    sys.exit("the cluster is full; s3cr3t")
def say(state, **more):
    folder.report(RunStatus(run, state, time.time(), this_process(), **more))
def end(*_):
    say("stopped")
    sys.exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN if how == "deaf" else end)
if how == "fails":
    say("failed", error={{"code": "stream_failed", "message": "no such column"}})
    sys.exit(1)
if how == "behind":
    waiting = {{"since": time.time(), "reason": "no executor: the master is away"}}
    say("running", progress={{"batches": 0, "lag": {{"seconds": 250, "files": 1200}}, "waiting": waiting}})
elif how == "waits":
    say("running", progress={{"batches": 0, "waiting": {{"since": 5.25, "reason": "no executor: …"}}}})
else:
    say("idle", progress={{"batches": 1, "lag": {{"seconds": 0}}, "rows_per_second": 12.5}})
while True:
    time.sleep(1)
"""


class Service:
    """A server with a stand-in for Spark; `how` says what the next process does."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        program = folder / "spark" / "bin" / "spark-submit"
        program.parent.mkdir(parents=True)
        program.write_text(PROGRAM)
        program.chmod(0o755)
        monkeypatch.setenv("SPARK_HOME", str(folder / "spark"))
        self.input = folder / "in"
        self.input.mkdir()
        self.how("runs")
        self.settings = JobSettings(roots=(str(self.input),), stop_wait=20)
        self.server = self._started()

    def how(self, word: str) -> None:
        (self.folder / "how").write_text(word)

    def _started(self) -> Server:
        return Server(self.folder / "data", jobs=self.settings).start()

    def again(self) -> None:
        """Stop the server and start another one on the same data."""
        self.server.stop()
        self.server = self._started()

    @property
    def client(self) -> Client:
        return self.server.client()

    def document(self, stream: str = "s", **more: Any) -> dict[str, Any]:
        return {
            "stream": stream,
            "source": {"format": "json", "path": str(self.input), "schema": "a STRING"},
            "message": {"routing_key": "a"},
            **more,
        }

    def submit(self, stream: str = "s") -> None:
        answer = self.client.post("/jobs", self.document(stream))
        assert answer.status == 201, answer.raw

    def job(self, stream: str = "s") -> dict[str, Any]:
        answer = self.client.get(f"/jobs/{segment(stream)}")
        assert answer.status == 200, answer.raw
        found: dict[str, Any] = answer.json
        return found

    def until(self, state: str, stream: str = "s") -> dict[str, Any]:
        found: dict[str, Any] = until(lambda: self.job(stream), lambda job: job["state"] == state)
        return found

    def end(self) -> None:
        for job in self.client.get("/jobs").json:
            self.client.post(f"/jobs/{segment(job['stream'])}/stop?force=true")
        self.server.stop()


def until(look: Callable[[], Any], fine: Callable[[Any], bool], *, seconds: float = 30) -> Any:
    end = time.monotonic() + seconds
    while not fine(found := look()):
        assert time.monotonic() < end, f"still {found}"
        time.sleep(0.05)
    return found


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    running = Service(tmp_path, monkeypatch)
    yield running
    running.end()


def test_a_job_is_submitted_shown_stopped_restarted_and_forgotten(service: Service) -> None:
    client = service.client
    answer = client.post("/jobs", service.document("a/b ✓"))
    assert (answer.status, answer.headers["location"]) == (201, "a%2Fb%20%E2%9C%93")
    job = service.until("idle", "a/b ✓")
    assert job["run"]["number"] == 1
    assert (job["lag"], job["rows_per_second"], job["submitted_by"]) == ({"seconds": 0}, 12.5, USER)
    assert job["progress"] == {
        "batches": 0,
        "records": 0,
        "copies": 0,
        "unroutable": {},
        "stages": {},
        "unparsable": [],
    }
    assert job["document"] == service.document("a/b ✓")
    assert [item["stream"] for item in client.get("/jobs").json] == ["a/b ✓"]
    document = service.server.app.openapi()
    described = {"$ref": "#/components/schemas/JobItem", "components": document["components"]}
    assert list(Draft202012Validator(described).iter_errors(job)) == []
    assert job.keys() == document["components"]["schemas"]["JobItem"]["properties"].keys()
    name = segment("a/b ✓")
    assert client.post("/jobs", service.document("a/b ✓")).status == 409
    assert client.delete(f"/jobs/{name}").status == 409
    stopping = client.post(f"/jobs/{name}/stop")
    assert (stopping.status, stopping.json["state"] in ("stopping", "stopped")) == (202, True)
    assert service.until("stopped", "a/b ✓")["error"] is None
    assert client.post(f"/jobs/{name}/stop").status == 409
    assert client.post(f"/jobs/{name}/restart").status == 202
    assert service.until("idle", "a/b ✓")["run"]["number"] == 2
    assert client.post(f"/jobs/{name}/restart").status == 202, "a job that runs is ended first"
    assert service.until("idle", "a/b ✓")["run"]["number"] == 3
    client.post(f"/jobs/{name}/stop")
    service.until("stopped", "a/b ✓")
    assert client.delete(f"/jobs/{name}").status == 204
    assert client.get(f"/jobs/{name}").status == 404
    for method, path in (("DELETE", ""), ("POST", "/stop"), ("POST", "/restart")):
        assert client.call(method, f"/jobs/{name}{path}").status == 404


def test_a_job_survives_its_service_and_is_found_again(service: Service) -> None:
    service.submit()
    pid = service.until("idle")["run"]["pid"]
    service.again()
    assert service.job()["run"]["pid"] == pid
    assert service.job()["state"] == "idle"
    assert service.client.post("/jobs", service.document()).status == 409
    service.client.post("/jobs/s/stop")
    service.until("stopped")


def test_a_service_that_is_killed_takes_no_job_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(tmp_path, monkeypatch)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "BINDERY_ADMIN_USER": USER,
        "BINDERY_ADMIN_PASSWORD": PASSWORD,
        "BINDERY_JOBS__ROOTS": json.dumps([str(service.input)]),
    }
    command = [sys.executable, "-m", "bindery.cli.main", "serve", "--data", str(tmp_path / "data"), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        with process.stdout:
            port = int(next(line for line in process.stdout if "listening" in line).rpartition(":")[2])
            client = Client(port, USER, PASSWORD)
            assert client.post("/jobs", service.document()).status == 201
            until(lambda: client.get("/jobs/s").json, lambda job: job["state"] == "idle")
            process.kill()
        process.wait()
        job = service.job()
        assert job["state"] == "idle"
        os.killpg(job["run"]["pid"], signal.SIGKILL)
        job = service.until("failed")
        assert job["error"]["code"] == "killed"
        assert service.client.post("/jobs/s/restart").status == 202
        assert service.until("idle")["run"]["number"] == 2
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        service.end()


def test_starts_that_race_through_two_services(service: Service) -> None:
    other = Server(service.folder / "data", jobs=service.settings).start()
    try:
        clients = [service.client, other.client()] * 4

        def submit(client: Client) -> int:
            return client.post("/jobs", service.document()).status

        with ThreadPoolExecutor(8) as pool:
            assert sorted(pool.map(submit, clients)) == [201] + [409] * 7
    finally:
        other.stop()


def test_an_end_by_force_is_for_a_job_that_does_not_hear(service: Service) -> None:
    service.how("deaf")
    service.submit()
    service.until("idle")
    service.client.post("/jobs/s/stop")
    assert service.job()["state"] == "stopping"
    service.settings = service.settings.model_copy(update={"stop_wait": 0.3})
    service.again()
    assert service.client.post("/jobs/s/restart").status == 409
    assert service.client.post("/jobs/s/stop?force=true").status == 202
    assert service.until("stopped")["error"] is None


def test_why_a_job_failed_is_shown(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    service.how("fails")
    service.submit()
    assert service.until("failed")["error"] == {"code": "stream_failed", "message": "no such column"}
    service.how("refuses")
    monkeypatch.setenv("BINDERY_SECRET_KEY", "s3cr3t")
    document = service.document(
        "t",
        source={
            "format": "json",
            "path": str(service.input),
            "schema": "a STRING",
            "options": {"fs.s3a.secret.key": {"secret": "KEY"}},
        },
    )
    assert service.client.post("/jobs", document).status == 201
    error = service.until("failed", "t")["error"]
    assert (error["code"], error["log"]) == ("not_started", ["the cluster is full; ***"])
    stored = [path.read_text() for path in (service.folder / "data" / "jobs").rglob("*.json")]
    assert not any("s3cr3t" in text for text in stored)


def test_the_log_of_a_run(service: Service) -> None:
    service.submit()
    service.until("idle")
    folder = service.server.app.state.plane.jobs.folder("s")
    folder.log(1).write_text("".join(f"line {n}\n" for n in range(300)) + "amqp://a:s3cr3t@h \x1b[0m\n")
    said = service.client.get("/jobs/s/logs").json
    assert (said["run"], said["runs"], len(said["lines"])) == (1, [1], 100)
    assert said["lines"][-2:] == ["line 299", "amqp://a:***@h \x1b[0m"]
    assert service.client.get("/jobs/s/logs?lines=1").json["lines"] == said["lines"][-1:]
    assert service.client.get("/jobs/s/logs?lines=0").status == 400
    assert service.client.get("/jobs/s/logs?run=2").status == 404
    assert service.client.get("/jobs/t/logs").status == 404
    # what came since, whole lines alone; the same bytes are never given twice
    with folder.log(1).open("a") as log:
        log.write("more\nand mo")
        log.flush()
        more = service.client.get(f"/jobs/s/logs?after={said['end']}").json
        assert (more["lines"], more["end"]) == (["more"], said["end"] + 5)
        assert service.client.get("/jobs/s/logs?lines=1").json["lines"] == ["more"]
        log.write("re\nlast\n")
    more = service.client.get(f"/jobs/s/logs?after={more['end']}&lines=1").json
    assert more["lines"] == ["and more"]
    assert service.client.get(f"/jobs/s/logs?after={more['end']}").json["lines"] == ["last"]
    assert service.client.get("/jobs/s/logs?after=1000000").json["lines"] == []
    # the beginning of a line that was cut may have been that of a secret
    assert folder.log_part(1, limit=49)[0].splitlines()[0] == b"amqp://a:s3cr3t@h \x1b[0m"


def test_no_line_of_a_secret_is_in_the_log_that_is_shown(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BINDERY_SECRET_KEY", "-----BEGIN KEY-----\nMIIEpAIBAAKCAQEA\n-----END KEY-----")
    source = {**service.document()["source"], "options": {"fs.s3a.secret.key": {"secret": "KEY"}}}
    assert service.client.post("/jobs", service.document(source=source)).status == 201
    service.until("idle")
    service.server.app.state.plane.jobs.folder("s").log(1).write_text("has MIIEpAIBAAKCAQEA in it\n")
    assert service.client.get("/jobs/s/logs").json["lines"] == ["has *** in it"]


def test_who_monitors_sees_jobs_and_changes_none(service: Service) -> None:
    service.submit()
    service.until("idle")
    assert service.client.put("/users/m", {"password": "m", "tags": "monitoring"}).status == 201
    monitor = service.server.client("m", "m")
    job = monitor.get("/jobs/s").json
    assert (job["state"], "document" in job) == ("idle", False)
    assert [found["stream"] for found in monitor.get("/jobs").json] == ["s"]
    assert "document" not in monitor.get("/jobs").json[0]
    assert monitor.get("/jobs/s/logs").status == 200
    for path in ("/jobs", "/jobs/s/stop", "/jobs/s/restart"):
        assert monitor.post(path, service.document("t")).status == 401
    assert monitor.delete("/jobs/s").status == 401


def test_metrics_tell_the_state_of_jobs(service: Service) -> None:
    service.submit()
    service.until("idle")
    service.how("fails")
    service.submit("t")
    service.until("failed", "t")
    credentials = service.client.headers

    def scraped() -> dict[tuple[str, ...], float]:
        connection = http.client.HTTPConnection("127.0.0.1", service.server.port, timeout=30)
        connection.request("GET", "/metrics", headers=credentials)
        text = connection.getresponse().read().decode()
        connection.close()
        return {
            (sample.name, *(value for _, value in sorted(sample.labels.items(), reverse=True))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name.startswith("bindery_job")
        }

    found = scraped()
    assert found["bindery_job_state", "s", "idle"] == found["bindery_job_state", "t", "failed"] == 1
    assert len([key for key in found if key[0] == "bindery_job_state"]) == 12
    assert sum(found.values()) == 2
    assert (found["bindery_job_lag_seconds", "s"], found["bindery_job_waiting", "s"]) == (0, 0)
    assert ("bindery_job_waiting", "t") not in found
    record = service.folder / "data" / "jobs" / "t" / "job.json"
    whole = record.read_text()
    record.write_text("no json")
    assert scraped() == {}, "and everything else is there"
    record.write_text(whole)


def test_what_a_job_waits_for_is_shown(service: Service) -> None:
    service.submit()
    assert service.until("idle")["waiting"] is None
    service.how("waits")
    service.submit("t")
    job = service.until("running", "t")
    assert job["waiting"] == {"since": 5250, "reason": "no executor: …"}
    assert "waiting" not in job["run"]
    service.client.post("/jobs/t/stop")
    assert service.until("stopped", "t")["waiting"] is None


def test_jobs_are_for_administrators(service: Service) -> None:
    service.submit()
    service.until("idle")
    admin = service.client
    for tag in ("monitoring", "policymaker", "management", ""):
        assert admin.put("/users/mary", {"password": "m", "tags": tag}).status in (201, 204)
        mary = service.server.client("mary", "m")
        for method, path, body in (
            ("GET", "/jobs", None),
            ("GET", "/jobs/s", None),
            ("POST", "/jobs", service.document("mine")),
            ("POST", "/jobs/s/stop", None),
            ("POST", "/jobs/s/stop?force=true", None),
            ("POST", "/jobs/s/restart", None),
            ("DELETE", "/jobs/s", None),
            ("GET", "/jobs/none", None),
        ):
            seen = tag == "monitoring" and method == "GET"
            status = (404 if path == "/jobs/none" else 200) if seen else 401
            assert mary.call(method, path, body).status == status, (tag, method, path)
    assert service.job()["state"] == "idle"
    assert [job["stream"] for job in admin.get("/jobs").json] == ["s"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"stream": ""}, "stream: "),
        ({"stream": 5}, "stream: "),
        ({"source": {"format": "json", "path": "/etc"}}, "source.path: outside"),
        ({"source": {"format": "json"}}, "source.path: missing"),
        ({"source": {"format": "queue", "queue": "none"}}, "queue: "),
        ({"source": {"format": "queue", "queue": "q", "filter": "a ="}}, "source.filter: "),
        ({"source": {"format": "json", "path": "IN", "options": {"fs.s3a.secret.key": "x"}}}, "source.options."),
        ({"source": {"format": "json", "path": "IN", "options": {"fs.s3a.secret.key": {"secret": "NO"}}}}, "source."),
        ({"message": {"routing_key": "reflect('a', 'b')"}}, "message.routing_key: reflect"),
        ({"message": {"ruoting_key": "a"}}, "message.ruoting_key: unknown key"),
        ({"vhost": "none"}, "vhost: "),
        ({"trigger": "soon"}, "trigger: "),
        ({"max_batch_records": 0}, "max_batch_records: "),
        ({"master": "local"}, "master: unknown key"),
    ],
)
def test_a_document_that_is_wrong_is_refused_by_its_key(service: Service, change: dict[str, Any], reason: str) -> None:
    document = json.loads(json.dumps({**service.document(), **change}).replace('"IN"', json.dumps(str(service.input))))
    answer = service.client.post("/jobs", document)
    assert (answer.status, answer.json["error"]) == (400, "bad_request"), answer.raw
    assert answer.json["reason"].startswith(reason), answer.json
    assert service.client.get("/jobs").json == []


def nested(depth: int) -> bytes:
    source = b'{"format":"queue","queue":"q","filter":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"
    return b'{"stream":"s","source":' + source + b"}"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b'"x"',
        b"{",
        b'{"stream": "\\ud800"}',
        b"[" * 100_000,
        b'{"a":' * 20_000,
        b"{" + b" " * 300_000 + b"}",
    ],
)
def test_bodies_that_are_no_document_are_refused(service: Service, raw: bytes) -> None:
    assert service.client.call("POST", "/jobs", raw=raw).status == 400


def test_a_document_is_checked_as_it_is_written_and_nothing_is_started(service: Service) -> None:
    """The reader is that of `bindery route` and `bindery jobs submit`: YAML, or JSON."""
    client = service.client
    described = service.server.app.openapi()

    def check(text: str) -> tuple[list[tuple[int, int, str]], Any]:
        answer = client.post("/jobs/check", {"text": text})
        assert answer.status == 200, answer.raw
        schema = {"$ref": "#/components/schemas/JobCheck", "components": described["components"]}
        assert list(Draft202012Validator(schema).iter_errors(answer.json)) == []
        return [(one["line"], one["column"], one["message"]) for one in answer.json["errors"]], answer.json["document"]

    good = f"stream: s  # a comment\nsource:\n  format: json\n  path: {service.input}\n  schema: a STRING\n"
    errors, document = check(good)
    assert errors == []
    assert document == {"stream": "s", "source": {"format": "json", "path": str(service.input), "schema": "a STRING"}}
    assert check(json.dumps(document, indent=1)) == ([], document)
    wrong = good.replace("  format", "  fromat: x\n  format") + "vhost: gone\ntrigger: [\n"
    assert check(wrong)[0] == [(9, 1, "not YAML: expected the node content, but found '<stream end>'")]
    errors, _ = check(wrong.replace("trigger: [\n", "trigger: soon\n"))
    assert [(line, column) for line, column, _ in errors] == [(3, 3), (8, 1)]
    assert errors[0][2] == "source.fromat: unknown key"
    outside = check(good.replace(str(service.input), "/etc"))[0]
    assert outside == [(4, 3, "source.path: outside the folders that submitted jobs may read")]
    bomb = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"
    assert check(bomb)[0] == [(2, 1, "an alias: write out what it stands for")]
    assert check("- 1")[0][0][2] == "a job file is a map of keys"
    assert client.post("/jobs/check", {"text": "x" * 300_000}).status == 400
    assert client.get("/jobs").json == []
