"""`bindery forward` and a real Kafka broker, through what can happen to either."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema_rs import Draft202012Validator

from bindery.api.settings import JobSettings
from bindery.router.message import Message
from bindery.router.values import Table, Timestamp
from bindery.store import tables
from bindery.store.paths import DataDir
from bindery.store.read import delete_matching
from bindery.store.topology import TopologyStore
from tests.servers.certificates import Authority
from tests.servers.kafka import PASSWORD, USER, Broker
from tests.servers.mock_kafka import MockKafka
from tests.service.conftest import Server
from tests.unit.store.conftest import declare_queues
from tests.unit.store.routed import route

pytestmark = pytest.mark.service

_SECONDS = 120


@dataclass
class Queue:
    """The queue orders, and batches of messages for it."""

    data: DataDir
    store: TopologyStore
    batches: int = 0

    def add(self, *messages: Message) -> None:
        route(self.data, self.store, messages, batch_id=self.batches)
        self.batches += 1

    def fill(self, batches: int, rows: int, body: bytes = b"x" * 100) -> None:
        for _ in range(batches):
            self.add(*(Message(routing_key="orders", body=body) for _ in range(rows)))


@pytest.fixture
def queue(tmp_path: Path) -> Queue:
    data = DataDir.open(tmp_path / "data", create=True)
    store = TopologyStore(data)
    store.create()
    store.edit(declare_queues("orders"), author="t")
    return Queue(data, store)


def command(queue: Queue, broker: Broker, topic: str, *more: str) -> list[str]:
    """The command; what `more` states once more counts."""
    stated = ["--data", queue.data.root, "--queue", "orders", "--bootstrap-servers", broker.address, "--topic", topic]
    return [sys.executable, "-m", "bindery.cli.main", "forward", *stated, *more]


def run(queue: Queue, broker: Broker, topic: str, *more: str, code: int = 0) -> str:
    done = subprocess.run(
        command(queue, broker, topic, *more), capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@contextmanager
def following(queue: Queue, broker: Broker, topic: str) -> Iterator[subprocess.Popen[str]]:
    """The command with --follow; it ends with the block, and after a time limit."""
    more = ("--follow", "--poll", "0.05", "--interval", "0.1")
    process = subprocess.Popen(
        command(queue, broker, topic, *more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    limit = threading.Timer(_SECONDS, process.kill)
    limit.start()
    with process:
        try:
            yield process
        finally:
            limit.cancel()
            process.kill()


def says(process: subprocess.Popen[str], *parts: str) -> None:
    """Wait for a line with all of these parts."""
    assert process.stderr is not None
    assert any(all(part in line for part in parts) for line in iter(process.stderr.readline, ""))


def arrived(broker: Broker, topic: str) -> Counter[tuple[int, int]]:
    """How often each row is in a topic, by batch and number."""
    found: Counter[tuple[int, int]] = Counter()
    for record in everything(broker, topic):
        headers = dict(record.headers())
        found[int(headers["routing.batch_id"]), int(headers["routing.seq"])] += 1
    return found


def everything(broker: Broker, topic: str) -> Sequence[Any]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "counting"})
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        ends = [consumer.get_watermark_offsets(TopicPartition(topic, one), timeout=30)[1] for one in partitions]
    finally:
        consumer.close()
    return broker.consume(topic, sum(ends))


def rows(batches: range, each: int) -> dict[tuple[int, int], int]:
    return {(batch, seq): 1 for batch in batches for seq in range(each)}


def until(fine: Callable[[], bool]) -> None:
    end = time.monotonic() + _SECONDS
    while not fine():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_message_arrives_with_all_that_it_had(queue: Queue, kafka: Broker) -> None:
    topic = kafka.topic(partitions=3)
    queue.add(
        Message(
            routing_key="orders",
            properties={"message_id": 7, "creation_time": Timestamp(1_700_000_000_000), "group_id": "g"},
            application_properties=Table({"amount": 0.1, "region": "EU", "none": None}),
            body=b'{"id": 7}',
        )
    )
    assert "1 row forwarded" in run(queue, kafka, topic, "--key", "properties.group_id")
    done = json.loads(run(queue, kafka, topic, "--key", "properties.group_id", "--json"))
    assert done == {"rows": 0, "refused": 0, "behind": 0, "trouble": None}
    (record,) = everything(kafka, topic)
    headers = dict(record.headers())
    assert (record.key(), record.value(), record.timestamp()[1]) == (b"g", b'{"id": 7}', 1_700_000_000_000)
    assert {name: headers[f"application_properties.{name}"] for name in ("amount", "region", "none")} == {
        "amount": b"0.1",
        "region": b"EU",
        "none": None,
    }
    types: Mapping[str, str] = json.loads(headers["bindery.types"])
    assert types == {"properties.message_id": "int", "application_properties.amount": "double"}
    assert "0 rows forwarded" in run(queue, kafka, topic)


def test_times_to_come_are_no_reason_for_a_broker_to_refuse_a_record(queue: Queue, kafka: Broker) -> None:
    topic = kafka.topic()
    to_come = Timestamp(time.time_ns() // 1_000_000 + 86_400_000)
    queue.add(Message(routing_key="orders", properties={"creation_time": to_come}))
    run(queue, kafka, topic)
    (record,) = everything(kafka, topic)
    assert dict(record.headers())["properties.creation_time"] == str(to_come.ms).encode()


def test_a_topic_that_does_not_exist_is_refused_and_not_made(queue: Queue, kafka: Broker) -> None:
    queue.fill(1, 3)
    assert "no topic 'nowhere'" in run(queue, kafka, "nowhere", code=2)
    assert "nowhere" not in kafka.admin.list_topics(timeout=30).topics
    assert not Path(queue.data.root, "forwards").exists()


def test_a_batch_that_is_too_large_is_sent_row_by_row_and_a_row_that_is_is_named(
    queue: Queue, kafka: Broker, tmp_path: Path
) -> None:
    topic = kafka.topic(config={"max.message.bytes": "20000"})
    settings = tmp_path / "kafka.yaml"
    settings.write_text(yaml.safe_dump({"compression.type": "none"}))
    queue.fill(1, 400)
    run(queue, kafka, topic, "--config", str(settings))
    assert arrived(kafka, topic) == rows(range(1), 400)
    queue.fill(1, 10)
    queue.fill(1, 1, body=os.urandom(50_000))
    queue.fill(1, 10)
    said = run(queue, kafka, topic, code=3)
    assert "refuses row 0 of batch 2 of stream 'flights', 50," in said
    assert "--skip-refused" in said
    said = run(queue, kafka, topic, "--skip-refused")
    assert "20 rows forwarded" in said and "1 refused" in said
    wanted = rows(range(1), 400) | rows(range(1, 4), 10)
    assert arrived(kafka, topic).keys() == wanted.keys() - rows(range(2, 3), 10).keys()


@pytest.mark.nightly
def test_forwarders_that_are_killed_lose_nothing(queue: Queue, kafka: Broker) -> None:
    topic = kafka.topic(partitions=2)
    total = 0
    for _ in range(4):
        queue.fill(20, 50)
        total += 20
        with following(queue, kafka, topic) as process:
            # somewhere between its first record and its last
            before = sum(arrived(kafka, topic).values())
            until(lambda before=before: sum(arrived(kafka, topic).values()) > before)
            process.kill()
        delete_matching(queue.data, "orders", None)
    run(queue, kafka, topic)
    assert arrived(kafka, topic).keys() == rows(range(total), 50).keys()


@pytest.mark.nightly
def test_a_broker_that_goes_away_and_comes_back_misses_nothing(queue: Queue, tmp_path: Path) -> None:
    with Broker(tmp_path / "kafka") as broker:
        topic = broker.topic()
        queue.fill(2, 50)
        with following(queue, broker, topic) as process:
            says(process, "100 rows forwarded")
            broker.stop(kill=True)
            queue.fill(2, 50)
            says(process, "100 rows forwarded", "behind", "; ")
            broker.start()
            says(process, "200 rows forwarded")
            process.send_signal(signal.SIGTERM)
            assert process.wait(_SECONDS) == 0
        assert arrived(broker, topic) == rows(range(4), 50)


def test_a_second_forwarder_ends_the_first(queue: Queue, kafka: Broker) -> None:
    topic = kafka.topic()
    queue.fill(1, 5)
    with following(queue, kafka, topic) as first:
        says(first, "5 rows forwarded")
        run(queue, kafka, topic)
        queue.fill(1, 5)
        _, said = first.communicate(timeout=_SECONDS)
        assert first.returncode == 3
        assert "another forwarder" in said
    run(queue, kafka, topic)
    assert arrived(kafka, topic) == rows(range(2), 5)


def test_a_topic_that_is_deleted_meanwhile_ends_it(queue: Queue, kafka: Broker) -> None:
    topic = kafka.topic()
    queue.fill(1, 5)
    with following(queue, kafka, topic) as process:
        says(process, "5 rows forwarded")
        kafka.delete_topic(topic)
        until(lambda: topic not in kafka.admin.list_topics(timeout=30).topics)
        queue.fill(1, 5)
        _, said = process.communicate(timeout=_SECONDS)
        assert process.returncode == 2, said
        assert f"no topic {topic!r}" in said


def test_what_says_secrets_in_clear_is_refused_and_what_refers_to_them_shows_none(
    queue: Queue, kafka: Broker, tmp_path: Path
) -> None:
    topic = kafka.topic()
    settings = tmp_path / "kafka.yaml"
    settings.write_text(yaml.safe_dump({"sasl.password": "hunter2"}))
    said = run(queue, kafka, topic, "--config", str(settings), code=2)
    assert "a credential in clear" in said and "hunter2" not in said
    settings.write_text(yaml.safe_dump({"ssl.key.pem": {"secret": "KEY"}, "security.protocol": "ssl"}))
    assert "there is no secret KEY" in run(queue, kafka, topic, "--config", str(settings), code=2)
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "KEY").write_text("hunter2")
    said = run(queue, kafka, topic, "--config", str(settings), "--secrets", str(secrets), code=2)
    assert "hunter2" not in said


def test_a_submitted_forwarder_shows_how_far_it_is_from_run_to_run(queue: Queue) -> None:
    kafka = MockKafka()
    target = {"queue": "orders", "to": "kafka", "bootstrap_servers": kafka.address, "topic": kafka.topic()}
    document = {"stream": "out", "forward": target, "trigger": "available-now"}
    nothing = {"batches": 0, "copies": 0, "unroutable": {}, "stages": {}, "unparsable": []}
    server = Server(Path(queue.data.root), jobs=JobSettings(roots=(f"kafka://{kafka.address}",))).start()
    client = server.client()

    def ended() -> dict[str, Any]:
        def job() -> dict[str, Any]:
            found: dict[str, Any] = client.get("/jobs/out").json
            return found

        until(lambda: job()["state"] == "stopped")
        assert client.get("/jobs").json == [job()]
        return job()

    def version() -> int:
        return tables.open_log(queue.data.queue("/", "orders"), tables.QUEUE, vhost="/", name="orders").version

    try:
        queue.fill(2, 3)
        assert client.post("/jobs", document).status == 201
        first = ended()
        position = first["progress"].pop("position")
        assert first["progress"] == {**nothing, "records": 6}
        assert (position["version"], position["file"], position["snapshot"]) == (version() + 1, 0, False)
        assert first["submitted_at"] <= position["moved_at"]
        assert first["run"]["records"] == 6
        queue.fill(1, 2)
        assert client.post("/jobs/out/restart").status == 202
        second = ended()
        assert (second["progress"]["records"], second["run"]["records"]) == (8, 2)
        assert second["progress"]["position"]["version"] == version() + 1
        assert client.post("/jobs/out/restart?new_epoch=true").status == 202
        assert ended()["progress"]["records"] == 8
        schema = server.app.openapi()
        described = {"$ref": "#/components/schemas/JobItem", "components": schema["components"]}
        assert list(Draft202012Validator(described).iter_errors(second)) == []
    finally:
        client.post("/jobs/out/stop?force=true")
        server.stop()


@dataclass
class Client:
    """Settings of clients of the secured broker, in files; passwords and keys are references."""

    folder: Path
    broker: Broker

    @property
    def authority(self) -> Authority:
        assert self.broker.authority is not None
        return self.broker.authority

    def user(self, mechanism: str = "SCRAM-SHA-512", named: str = "PASSWORD") -> dict[str, Any]:
        user = {"sasl.mechanisms": mechanism, "sasl.username": USER, "sasl.password": {"secret": named}}
        return {"security.protocol": "sasl_ssl", "ssl.ca.location": str(self.authority.certificate)} | user

    def stated(self, address: str, settings: Mapping[str, Any]) -> list[str]:
        """Options of the command."""
        file = self.folder / f"{len(list(self.folder.iterdir()))}.yaml"
        file.write_text(yaml.safe_dump(dict(settings)))
        return ["--bootstrap-servers", address, "--config", str(file)]


@pytest.fixture
def client(tmp_path: Path, secured_kafka: Broker, monkeypatch: pytest.MonkeyPatch) -> Client:
    folder = tmp_path / "settings"
    folder.mkdir()
    monkeypatch.setenv("BINDERY_SECRET_PASSWORD", PASSWORD)
    monkeypatch.setenv("BINDERY_SECRET_WRONG", "hunter2 of nobody")
    return Client(folder, secured_kafka)


def test_rows_go_to_brokers_that_ask_who_is_there(
    queue: Queue, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = client.authority.issue("forwarder")
    monkeypatch.setenv("BINDERY_SECRET_KEY", shown.key.read_text())
    topic = client.broker.topic()
    queue.fill(1, 3)
    said = run(queue, client.broker, topic, *client.stated(client.broker.sasl_ssl, client.user()))
    assert "3 rows forwarded" in said
    queue.fill(1, 3)
    certificate = {
        "security.protocol": "ssl",
        "ssl.ca.pem": client.authority.certificate.read_text(),
        "ssl.certificate.pem": shown.certificate.read_text(),
        "ssl.key.pem": {"secret": "KEY"},
    }
    said += run(queue, client.broker, topic, *client.stated(client.broker.ssl, certificate))
    assert arrived(client.broker, topic) == rows(range(2), 3)
    assert PASSWORD not in said


def test_a_connection_that_does_not_come_about_is_told_in_a_line(queue: Queue, client: Client, tmp_path: Path) -> None:
    queue.fill(1, 3)
    topic, address = client.broker.topic(), client.broker.sasl_ssl
    foreign = {"ssl.ca.location": str(Authority(tmp_path / "foreign").certificate)}
    cases = {
        "wrong password": (
            topic,
            client.user(named="WRONG"),
            1,
            "gives up: sasl_ssl:",
            "invalid credentials",
            "sasl.*",
        ),
        "unknown authority": (topic, client.user() | foreign, 1, "gives up: sasl_ssl:", "verify failed", "ssl.ca.loc"),
        "no TLS": (topic, {}, 1, "no answer from the brokers: no connection to a broker lasts", "security.protocol"),
        "no topic": ("nowhere", client.user("PLAIN"), 2, "no topic 'nowhere'", "create it first"),
    }
    running = {
        (name, more): subprocess.Popen(
            command(queue, client.broker, topic, *client.stated(address, settings), *more),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name, (topic, settings, *_) in cases.items()
        # what no waiting mends ends one that would wait without end, too
        for more in ((), *([("--follow",)] if name == "unknown authority" else []))
    }
    for (name, _), process in running.items():
        _, said = process.communicate(timeout=_SECONDS)
        _, _, code, *parts = cases[name]
        assert process.returncode == code, said
        assert all(part in said for part in parts), said
        *_, error, hint = said.splitlines()  # lines of progress before them
        assert error.startswith(f"error: {address if code == 1 else 'topic'}: ") and hint.startswith("hint: ")
        assert PASSWORD not in said and "hunter2" not in said
    assert arrived(client.broker, topic) == {}
    assert not Path(queue.data.root, "forwards").exists()


@pytest.mark.nightly
def test_a_submitted_forwarder_through_a_kill_a_stop_and_a_start_over(
    tmp_path: Path, kafka: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BINDERY_SECRET_UNUSED", "hunter2")
    topic = kafka.topic()
    settings = JobSettings(roots=(f"kafka://{kafka.address}",))
    server = Server(tmp_path / "data", jobs=settings).start()
    client = server.client()
    document = {
        "stream": "out",
        "forward": {
            "queue": "orders",
            "to": "kafka",
            "bootstrap_servers": kafka.address,
            "topic": topic,
            "options": {"sasl.password": {"secret": "UNUSED"}},
        },
        "trigger": "100 milliseconds",
    }

    def job() -> dict[str, Any]:
        found: dict[str, Any] = client.get("/jobs/out").json
        return found

    def publish(count: int) -> None:
        message = {"routing_key": "orders", "payload": "x", "payload_encoding": "string", "properties": {}}
        for _ in range(count):
            assert client.post("/exchanges/%2F/amq.default/publish", message).status == 200

    try:
        assert client.post("/jobs", document).status == 400
        assert client.put("/queues/%2F/orders", {"durable": True}).status == 201
        wrong = {**document, "forward": {**document["forward"], "bootstrap_servers": "elsewhere:9092"}}
        refused = client.post("/jobs", wrong)
        assert refused.status == 400 and "elsewhere:9092" in refused.raw.decode()
        publish(3)
        assert client.post("/jobs", document).status == 201
        until(lambda: arrived(kafka, topic).total() == 3)
        until(lambda: job()["state"] == "idle" and job()["run"].get("records") == 3)
        os.killpg(job()["run"]["pid"], signal.SIGKILL)
        until(lambda: job()["state"] == "failed")
        assert job()["error"]["code"] == "killed"
        publish(2)
        assert client.post("/jobs/out/restart").status == 202
        until(lambda: len(arrived(kafka, topic)) == 5)
        assert client.post("/jobs/out/stop").status == 202
        until(lambda: job()["state"] == "stopped")
        before = arrived(kafka, topic).total()
        assert client.post("/jobs/out/restart?new_epoch=true").status == 202
        until(lambda: arrived(kafka, topic).total() == before + 5)
        assert client.post("/jobs/out/stop").status == 202
        until(lambda: job()["state"] == "stopped")
        assert "hunter2" not in json.dumps(job())
        assert "hunter2" not in "".join(path.read_text() for path in Path(tmp_path, "data/jobs").rglob("*.log"))
    finally:
        client.post("/jobs/out/stop?force=true")
        server.stop()
