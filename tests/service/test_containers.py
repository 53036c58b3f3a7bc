"""The image and the compose file on a Docker engine that is there: started, used, restarted, and looked into.

Nothing is started when there is no engine. The project has a name, a port, networks and volumes of its own, which
are removed at the end; the images with the tag `test` stay, as the next run builds on them.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers.compose import ADMIN, PASSWORD, Compose, engine, until

pytestmark = pytest.mark.service

#: What differs from the compose file beside names: one core for the streaming job and one for a submitted one.
CHANGES = {
    '- --cores\n    - "2"': '- --cores\n    - "1"',
    "- spark.cores.max=2": "- spark.cores.max=1",
}

WORKERS = ("spark-worker-1", "spark-worker-2")


@pytest.fixture(scope="module")
def compose(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compose]:
    """Everything runs and is healthy."""
    if not engine():
        pytest.skip("no Docker engine that may be used")
    running = Compose(tmp_path_factory.mktemp("containers"), tag="test", changes=CHANGES)
    try:
        running.build()
        running.up()
        client = running.client()
        assert client.put("/queues/%2F/orders", {"durable": True}).status == 201
        assert client.post("/bindings/%2F/e/amq.topic/q/orders", {"routing_key": "eu.*"}).status == 201
        yield running
    finally:
        running.down(forget=True)


def rows(compose: Compose) -> int:
    """How many messages the queue holds."""
    found: int = compose.client().get("/queues/%2F/orders").json["messages"]
    return found


def expect_routed(compose: Compose, name: str, number: int) -> None:
    """Files that arrive now are routed."""
    before = rows(compose)
    compose.arrive(name, number)
    until(lambda: rows(compose), lambda found: found == before + number)


def test_a_file_that_arrives_is_routed(compose: Compose) -> None:
    expect_routed(compose, "1.json", 3)


def test_the_job_goes_on_after_the_master_has_restarted(compose: Compose) -> None:
    expect_routed(compose, "2.json", 1)
    compose.call("restart", "spark-master")
    compose.up()
    expect_routed(compose, "3.json", 2)
    compose.call("kill", "spark-master")
    compose.up()
    expect_routed(compose, "4.json", 4)


def test_submitted_jobs_leave_no_jars_and_say_when_they_wait(compose: Compose) -> None:
    client = compose.client()
    compose.arrive("5.json", 1)  # without anything to route nobody waits
    for stream in ("one", "two"):
        document = {
            "stream": stream,
            "source": {"format": "json", "path": "/var/lib/bindery/incoming"},
            "trigger": "1 second",
        }
        assert client.post("/jobs", document).status == 201

    def states() -> dict[str, dict[str, Any]]:
        return {job["stream"]: job for job in client.get("/jobs").json}

    # there are cores for one of them: the other says what it waits for, and goes on when the first has ended
    found = until(
        states,
        lambda jobs: (
            any(job["state"] == "idle" for job in jobs.values())
            and any(job["waiting"] for job in jobs.values() if job["state"] != "idle")
        ),
    )
    (waiting,) = (stream for stream, job in found.items() if job["waiting"])
    (first,) = found.keys() - {waiting}
    assert found[waiting]["waiting"]["reason"].startswith("no executor")
    assert client.post(f"/jobs/{first}/stop").status == 202
    ended = until(states, lambda jobs: jobs[waiting]["state"] == "idle")
    assert (ended[waiting]["waiting"], ended[waiting]["error"]) == (None, None)
    client.post(f"/jobs/{waiting}/stop")
    until(states, lambda jobs: {job["state"] for job in jobs.values()} == {"stopped"})
    for service in (*WORKERS, "control-plane", "incoming"):
        assert compose.run(service, "find", "/tmp", "-name", "*.jar") == "", service
    for worker in WORKERS:
        kib = compose.run(worker, "du", "-sk", "/tmp/work").split()[0]
        assert int(kib) < 1_024


def test_sparks_processes_know_each_other_by_a_secret_that_nobody_else_reads(compose: Compose) -> None:
    secret = compose.run(WORKERS[0], "cat", "/etc/spark/spark-defaults.conf").split()[-1]
    assert len(secret) == 64
    names = compose.call("ps", "--quiet").split()
    shown = subprocess.run(["docker", "inspect", *names], capture_output=True, text=True, check=True).stdout
    assert secret not in shown
    assert secret not in compose.run(WORKERS[0], "sh", "-c", "cat /proc/*/cmdline")
    # the master does what is asked by who knows it and by nobody else, and there are no pages to ask instead

    def asked(driver: str, *options: str) -> bool:
        java = "JDK_JAVA_OPTIONS=" + " ".join(options)
        client = f"/opt/spark/bin/spark-class org.apache.spark.deploy.Client kill spark://spark-master:7077 {driver}"
        compose.call("exec", "-T", "--env", java, "control-plane", "sh", "-c", f"{client} 2>&1 || true")
        return f"Driver {driver} has already finished or does not exist" in compose.call("logs", "spark-master")

    assert asked("driver-1", "-Dspark.authenticate=true", f"-Dspark.authenticate.secret={secret}")
    assert not asked("driver-2", "-Dspark.authenticate=true", "-Dspark.authenticate.secret=wrong")
    assert not asked("driver-3")
    for host, port in (("spark-master", 8080), (WORKERS[0], 8081)):
        tried = f"import socket\ntry: socket.create_connection(('{host}', {port}), 5)\nexcept OSError: print('refused')"
        assert compose.run("control-plane", "python", "-c", tried).strip() == "refused"


def test_an_address_that_a_caller_states_does_not_evade_the_limit(compose: Compose) -> None:
    guess = compose.client("victim", "wrong")
    answers = [
        guess.call("GET", "/whoami", headers={"x-forwarded-for": f"192.0.2.{number}"}).status for number in range(12)
    ]
    assert answers == [401] * 10 + [429] * 2


def test_an_administrator_who_was_deleted_stays_deleted(compose: Compose) -> None:
    assert compose.client().put("/users/ann", {"password": PASSWORD + "!", "tags": "administrator"}).status == 201
    ann = compose.client("ann", PASSWORD + "!")
    assert ann.delete(f"/users/{ADMIN}").status == 204
    compose.call("restart", "control-plane")
    compose.up()
    assert [user["name"] for user in ann.get("/users").json] == ["ann"]
    assert compose.client().get("/whoami").status == 401
    assert "/api/whoami" in compose.call("logs", "control-plane")
