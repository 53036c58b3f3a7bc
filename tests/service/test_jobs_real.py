"""A real job by spark-submit, through everything that can happen to it: nothing is lost and nothing doubled."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bindery import read_queue
from bindery.api.settings import JobSettings
from bindery.jobs.control.connectors import KAFKA_JARS
from tests.servers.kafka import Broker, spark_jars
from tests.service.conftest import Server
from tests.unit.cli.conftest import Run
from tests.unit.cli.conftest import run as run  # noqa: PLC0414  # the fixture

pytestmark = [pytest.mark.service, pytest.mark.spark]


def write(folder: Path, name: str, numbers: range) -> None:
    """A file of records that appears whole."""
    draft = folder / f".{name}"
    draft.write_text("".join(json.dumps({"id": number, "region": "eu"}) + "\n" for number in numbers))
    draft.rename(folder / name)


def until(look: Callable[[], dict[str, Any]], fine: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    end = time.monotonic() + 120
    while not fine(found := look()):
        assert time.monotonic() < end, f"still {found}"
        time.sleep(0.2)
    return found


def test_a_job_through_kills_and_restarts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    source = tmp_path / "in"
    source.mkdir()
    settings = JobSettings(master="local[1]", roots=(str(source),), conf={"spark.driver.memory": "512m"})
    server = Server(tmp_path / "data", jobs=settings).start()
    client = server.client()
    document = {
        "stream": "orders",
        "source": {"format": "json", "path": str(source), "schema": "id BIGINT, region STRING"},
        "message": {
            "exchange": "'amq.topic'",
            "routing_key": "concat('order.', region)",
            "application_properties": {"id": "id"},
        },
        "trigger": "1 second",
    }
    try:
        assert client.put("/queues/%2F/orders", {"durable": True}).status == 201
        assert client.post("/bindings/%2F/e/amq.topic/q/orders", {"routing_key": "order.*"}).status == 201

        def job() -> dict[str, Any]:
            found: dict[str, Any] = client.get("/jobs/orders").json
            return found

        write(source, "1.json", range(100))
        assert client.post("/jobs", document).status == 201
        shown = until(job, lambda job: job["state"] == "idle" and job["progress"]["records"] == 100)
        assert (shown["progress"]["copies"], shown["progress"]["unroutable"]) == (100, {})
        assert {"prepare", "tasks", "commit"} <= shown["progress"]["stages"].keys()
        assert shown["last_batch"]["records"] == 100
        assert client.post("/jobs", document).status == 409

        # the service goes, comes back and finds the job; then the job is killed in the midst of its work
        server.stop()
        write(source, "2.json", range(100, 20_000))
        server = Server(tmp_path / "data", jobs=settings).start()
        client = server.client()
        assert job()["run"]["pid"] == shown["run"]["pid"]
        until(job, lambda job: job["state"] == "running" or job["progress"]["records"] > 100)
        os.killpg(shown["run"]["pid"], signal.SIGKILL)
        assert until(job, lambda job: job["state"] == "failed")["error"]["code"] == "killed"

        write(source, "3.json", range(20_000, 20_010))
        assert client.post("/jobs/orders/restart").status == 202
        until(job, lambda job: job["state"] == "idle" and job["progress"]["records"] == 20_010)
        assert client.post("/jobs/orders/stop").status == 202
        assert until(job, lambda job: job["state"] != "stopping")["state"] == "stopped"
        rows = read_queue(str(tmp_path / "data"), "orders").column("application_properties").to_pylist()
        assert Counter(dict(row)["id"]["int"] for row in rows) == Counter(range(20_010))
    finally:
        for found in client.get("/jobs").json:
            client.post(f"/jobs/{found['stream']}/stop?force=true")
        server.stop()


TOPOLOGY = """\
queues: [{vhost: /, name: orders}]
bindings: [{vhost: /, source: amq.topic, destination: orders, routing_key: order.*}]
"""
JOB = """\
stream: orders
source: {format: json, path: in, schema: id BIGINT}
message:
  exchange: "'amq.topic'"
  routing_key: "'order.eu'"
  application_properties: {id: id}
trigger: 1 second
"""


def test_a_job_of_the_command_line_beside_a_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    """Nobody but the command starts it; a service on the same directory finds it and may end it, and so on."""
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("BINDERY_JOBS__MASTER", "local[1]")
    monkeypatch.setenv("BINDERY_JOBS__CONF", '{"spark.driver.memory": "512m"}')
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "topology.yaml").write_text(TOPOLOGY)
    (tmp_path / "job.yaml").write_text(JOB)
    assert run("apply", "topology.yaml", "--data", "data")[0] == 0
    write(tmp_path / "in", "1.json", range(100))

    def job() -> dict[str, Any]:
        code, out, err = run("jobs", "status", "o", "--json")
        assert code == 0, err
        found: dict[str, Any] = json.loads(out)
        assert found["state"] != "failed", found["error"]
        return found

    try:
        assert run("jobs", "submit", "job.yaml", "--wait")[:2] == (0, "orders\n")
        shown = until(job, lambda job: job["state"] == "idle" and job["progress"]["records"] == 100)
        assert (shown["progress"]["copies"], shown["document"]["source"]["path"]) == (100, str(tmp_path / "in"))
        code, out, _ = run("jobs", "logs", "orders")
        assert (code, "stream=orders the run begins" in out) == (0, True)
        code, _, err = run("jobs", "submit", "job.yaml")
        assert (code, "has a job that runs" in err) == (1, True)

        server = Server(tmp_path / "data").start()
        try:
            seen = server.client().get("/jobs/orders").json
            assert (seen["state"], seen["run"]["pid"]) == ("idle", shown["run"]["pid"])
            assert server.client().post("/jobs/orders/restart").status == 400, "its source is not among the roots"
        finally:
            server.stop()
        write(tmp_path / "in", "2.json", range(100, 110))
        until(job, lambda job: bool(job["progress"]["records"] == 110))
        assert run("jobs", "stop", "orders", "--wait")[:2] == (0, "orders: stopped\n")
        code, out, err = run("jobs", "logs", "orders", "--follow")
        assert (code, "the run has ended" in out, err) == (0, True, "run 1 of orders has ended: stopped\n")
        rows = read_queue(str(tmp_path / "data"), "orders").column("application_properties").to_pylist()
        assert Counter(dict(row)["id"]["int"] for row in rows) == Counter(range(110))
    finally:
        run("jobs", "stop", "orders", "--force")


def test_a_job_reads_kafka(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kafka: Broker) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv(KAFKA_JARS, ",".join(spark_jars()))
    monkeypatch.setenv("BINDERY_SECRET_LOGIN", "not asked for")
    topic = kafka.topic()
    kafka.produce(topic, ({"key": b"order.eu", "value": b"%d" % number} for number in range(100)))
    roots = (f"kafka://{kafka.address}",)
    settings = JobSettings(master="local[1]", roots=roots, conf={"spark.driver.memory": "512m"})
    server = Server(tmp_path / "data", jobs=settings).start()
    client = server.client()
    source = {
        "format": "kafka",
        "bootstrap_servers": kafka.address,
        "topics": topic,
        "exchanges": {topic: "amq.topic"},
        "max_offsets_per_trigger": 30,
        "options": {"kafka.sasl.jaas.config": {"secret": "LOGIN"}},
    }
    try:
        assert client.put("/queues/%2F/orders", {"durable": True}).status == 201
        assert client.post("/bindings/%2F/e/amq.topic/q/orders", {"routing_key": "order.*"}).status == 201
        elsewhere = source | {"bootstrap_servers": "elsewhere:9092"}
        assert client.post("/jobs", {"stream": "orders", "source": elsewhere}).status == 400
        assert client.post("/jobs", {"stream": "orders", "source": source, "trigger": "1 second"}).status == 201

        def job() -> dict[str, Any]:
            found: dict[str, Any] = client.get("/jobs/orders").json
            assert found["state"] != "failed", found["error"]
            return found

        shown = until(job, lambda job: job["state"] == "idle" and job["progress"]["records"] == 100)
        assert shown["progress"]["copies"] == 100
        assert shown["document"]["source"]["options"] == source["options"]
        assert client.post("/jobs/orders/stop").status == 202
        until(job, lambda job: job["state"] == "stopped")
        bodies = read_queue(str(tmp_path / "data"), "orders").column("body").to_pylist()
        assert sorted(map(int, bodies)) == list(range(100))
    finally:
        client.post("/jobs/orders/stop?force=true")
        server.stop()
