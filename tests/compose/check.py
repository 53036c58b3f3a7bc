"""`make compose-check`: docker-compose.yml is built and run, and a message goes through all of it.

Builds the images, starts everything under a project of its own and waits until it is healthy; submits a job that reads
Kafka, by REST; produces a message with Kafka's own tool; reads it back on this machine, by REST and from the Delta
table in the object store; looks at the metrics in Prometheus; restarts the services, and removes and makes the
containers again, with a message after each; and says how large the images are. What it started it removes, images stay.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote

from deltalake import DeltaTable

from bindery.store.paths import DataDir
from tests.servers.compose import Compose, engine, until

TOPIC, QUEUE, STREAM = "orders", "eu-orders", "check"
#: How `id` begins for the user of the images.
_USER = "uid=10001"


@contextmanager
def step(what: str) -> Iterator[None]:
    """One line for what is done, with the seconds that it took."""
    sys.stdout.write(f"{what} … ")
    sys.stdout.flush()
    began = time.monotonic()
    yield
    sys.stdout.write(f"ok ({time.monotonic() - began:.0f} s)\n")


def main() -> int:
    """Run the check; the exit code."""
    if not engine():
        sys.stderr.write("error: there is no Docker engine with `docker compose` that this user may use\n")
        return 2
    with tempfile.TemporaryDirectory() as folder:
        compose = Compose(Path(folder), tag="check")
        try:
            check(compose)
        except Exception as error:
            sys.stderr.write(f"\nerror: {error!r}\n")
            sys.stderr.write(compose.call("logs", "--tail", "40", "--no-color"))
            return 1
        finally:
            compose.down(forget=True)
    return 0


def check(compose: Compose) -> None:
    """Everything, in order. Raises AssertionError."""
    with step("build"):
        compose.build()
    for line in image_sizes():
        sys.stdout.write(f"  {line}\n")
    with step("start"):
        compose.up()
    for service in compose.services():
        assert service["Health"] == "healthy", service
    with step("containers are confined"):
        confined(compose)
    with step("a job for a topic of Kafka, submitted by REST"):
        submit(compose)
    with step("a message from Kafka to this machine"):
        through(compose, "first")
    with step("metrics in Prometheus, and its page"):
        measured(compose)
    with step("every service restarts"):
        compose.call("restart", seconds=600)
        compose.up()
    with step("what was there is there, and a second message goes through"):
        resume(compose)
        through(compose, "first", "second")
    with step("down and up"):
        compose.down()
        compose.up()
    with step("what was there is there, and a third message goes through"):
        resume(compose)
        through(compose, "first", "second", "third")


def image_sizes() -> list[str]:
    """The images of the check, with their sizes."""
    listed = ["docker", "image", "ls", "--filter", "reference=bindery*:check", "--format", "{{.Repository}} {{.Size}}"]
    return subprocess.run(listed, capture_output=True, text=True, check=True).stdout.splitlines()


def confined(compose: Compose) -> None:
    """Nobody is root, and nobody writes beside volumes and /tmp."""
    for service in compose.services():
        name = service["Service"]
        assert compose.run(name, "id").startswith(_USER), name
        tried = compose.run(name, "sh", "-c", "touch /usr/x /home/bindery/x /opt/x 2>&1 || true")
        assert tried.count("Read-only file system") == 3, f"{name}: {tried}"
        assert "CapEff:\t0000000000000000" in compose.run(name, "cat", "/proc/1/status"), name


def submit(compose: Compose) -> None:
    """A queue, its binding, a topic, and the job that routes it."""
    client = compose.client()
    assert client.put(f"/exchanges/%2F/{TOPIC}", {"type": "topic", "durable": True}).status == 201
    assert client.put(f"/queues/%2F/{QUEUE}", {"durable": True}).status == 201
    assert client.post(f"/bindings/%2F/e/{TOPIC}/q/{QUEUE}", {"routing_key": "eu.#"}).status == 201
    compose.run("kafka", "kafka-topics", "--bootstrap-server", "kafka:9092", "--create", "--topic", TOPIC)
    source = {"format": "kafka", "bootstrap_servers": "kafka:9092", "topics": [TOPIC]}
    answer = client.post("/jobs", {"stream": STREAM, "source": source, "trigger": "1 second"})
    assert answer.status == 201, answer.raw


def resume(compose: Compose) -> None:
    """Start the job again, which was killed with the container that it ran in."""
    ended = until(lambda: job(compose), lambda found: found["state"] == "failed")
    assert ended["error"]["code"] == "killed", ended
    answer = compose.client().post(f"/jobs/{STREAM}/restart")
    assert answer.status in (201, 202), answer.raw


def job(compose: Compose) -> dict[str, Any]:
    """What the control plane says of the job."""
    found: dict[str, Any] = compose.client().get(f"/jobs/{STREAM}").json
    return found


def through(compose: Compose, *names: str) -> None:
    """The last of these messages is produced; all of them, each once, are read back on this machine."""
    compose.produce(TOPIC, f"name:{names[-1]}\teu.{names[-1]}\thello {names[-1]}\n")
    until(lambda: compose.client().get(f"/queues/%2F/{QUEUE}").json["messages"], lambda found: found == len(names))
    body = {"count": len(names) + 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    got = compose.client().post(f"/queues/%2F/{QUEUE}/get", body).json
    found = sorted((message["routing_key"], message["payload"]) for message in got)
    assert found == sorted((f"eu.{name}", f"hello {name}") for name in names), found
    table = DeltaTable(str(DataDir("s3://bindery/data").queue("/", QUEUE)), storage_options=compose.store_options())
    rows = table.to_pyarrow_table().to_pylist()
    assert sorted(row["routing_key"] for row in rows) == sorted(f"eu.{name}" for name in names), rows
    running = job(compose)
    assert (running["state"] in ("running", "idle"), running["error"]) == (True, None), running


def measured(compose: Compose) -> None:
    """Prometheus has seen the message, and its page shows the stream."""
    expression = f'sum(bindery_messages_total{{stream="{STREAM}"}})'

    def value() -> float:
        answer = json.loads(page(compose, f"/api/v1/query?query={quote(expression)}"))["data"]["result"]
        return float(answer[0]["value"][1]) if answer else 0.0

    until(value, lambda found: found == 1.0)
    shown = page(compose, "/consoles/bindery.html")
    assert f"<td>{STREAM}</td>" in shown, shown


def page(compose: Compose, path: str) -> str:
    """What Prometheus serves there."""
    connection = HTTPConnection("127.0.0.1", compose.ports["BINDERY_PROMETHEUS_PORT"], timeout=30)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        text = answer.read().decode()
        assert answer.status == 200, text
        return text
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(main())
