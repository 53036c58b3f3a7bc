"""`bindery drain` against a real RabbitMQ: nothing lost, streams exactly once, every property kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from bindery.jobs.draining.address import read_address
from bindery.jobs.draining.broker import Broker
from bindery.jobs.draining.drain import Drain
from bindery.jobs.draining.options import Counts, DrainOptions
from bindery.router.message import Message, from_batch
from bindery.router.values import Table, Timestamp
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from tests import amqp
from tests.amqp import Field, encoded
from tests.examples import examples
from tests.servers.rabbitmq import PASSWORD, RabbitMQ

pytestmark = pytest.mark.service

STREAM = {"x-queue-type": "stream"}
COMMAND = [sys.executable, "-m", "bindery.cli.main", "drain", "--password", "env:PASSWORD"]
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("BINDERY_")} | {
    "PASSWORD": PASSWORD
}


@pytest.fixture(scope="module")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    with RabbitMQ(tmp_path_factory.mktemp("rabbitmq")) as node:
        yield node


@pytest.fixture
def data(tmp_path: Path) -> DataDir:
    return new_data(tmp_path / "data")


@pytest.fixture
def queue(rabbitmq: RabbitMQ, request: pytest.FixtureRequest) -> str:
    return declared(rabbitmq, request.node.name.replace("[", ".").replace("]", "")[:60])


@pytest.fixture
def stream(rabbitmq: RabbitMQ, request: pytest.FixtureRequest) -> str:
    return declared(rabbitmq, f"{request.node.name[:60]}.stream", STREAM)


def new_data(path: Path) -> DataDir:
    data = DataDir.open(path, create=True)
    TopologyStore(data).create()
    return data


@contextmanager
def channel(rabbitmq: RabbitMQ) -> Iterator[Any]:
    connection = rabbitmq.connect()
    try:
        yield connection.channel()
    finally:
        connection.close()


def declared(rabbitmq: RabbitMQ, name: str, arguments: dict[str, Any] | None = None) -> str:
    with channel(rabbitmq) as open_channel:
        open_channel.queue_delete(name)
        open_channel.queue_declare(name, durable=True, arguments=arguments)
    return name


def publish(rabbitmq: RabbitMQ, queue: str, bodies: range, *, ids: bool = False, **properties: Any) -> None:
    """A persistent message for each number; the broker has them all when this returns."""
    with channel(rabbitmq) as open_channel:
        for number in bodies:
            given_id = {"message_id": str(number)} if ids else {}
            sent = pika.BasicProperties(delivery_mode=2, **given_id, **properties)
            open_channel.basic_publish("", queue, b"%d" % number, sent)
        open_channel.queue_declare(queue, passive=True)


def ready(rabbitmq: RabbitMQ, queue: str) -> int:
    with channel(rabbitmq) as open_channel:
        return int(open_channel.queue_declare(queue, passive=True).method.message_count)


def drain_of(rabbitmq: RabbitMQ, data: DataDir, queue: str, **options: Any) -> Drain:
    os.environ["PASSWORD"] = PASSWORD
    broker = Broker(read_address(rabbitmq.url, "env:PASSWORD"))
    return Drain(data, broker, DrainOptions(**{"queue": queue, "name": "d", "until_empty": True} | options))


def drained(rabbitmq: RabbitMQ, data: DataDir, queue: str, **options: Any) -> Counts:
    return drain_of(rabbitmq, data, queue, **options).run()


def inbox(data: DataDir, vhost: str = "/") -> list[Message]:
    return from_batch(DeltaTable(data.inbox(vhost)).to_pyarrow_table())


def numbers(data: DataDir) -> Counter[int]:
    """How often each number is there."""
    bodies = DeltaTable(data.inbox("/")).to_pyarrow_table(columns=["body"])["body"].to_pylist()
    return Counter(map(int, bodies))


def commits(data: DataDir) -> int:
    log = Path(data.inbox("/"), "_delta_log")
    return len(list(log.glob("*.json"))) if log.exists() else 0


def until(condition: Callable[[], object], what: str) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, f"no {what} within a minute"
        time.sleep(0.02)


@contextmanager
def draining(rabbitmq: RabbitMQ, data: DataDir, queue: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    """The command in a process; killed at the end unless it has ended."""
    command = [*COMMAND, "--url", rabbitmq.url, "--data", data.root, "--queue", queue, *options]
    process = subprocess.Popen(
        command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=60)


def run(rabbitmq: RabbitMQ, data: DataDir, queue: str, *options: str) -> tuple[int, str, str]:
    with draining(rabbitmq, data, queue, *options) as process:
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err


# -- what is kept -----------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(amqp.properties, st.none() | amqp.headers, st.binary(max_size=8)), min_size=1, max_size=30),
)
@examples(12)
def test_every_property_and_header_survives(
    rabbitmq: RabbitMQ,
    tmp_path_factory: pytest.TempPathFactory,
    sent: list[tuple[dict[str, Any], dict[str, Field] | None, bytes]],
) -> None:
    data = new_data(tmp_path_factory.mktemp("data") / "data")
    queue = declared(rabbitmq, "properties")
    with channel(rabbitmq) as open_channel:
        open_channel.exchange_declare("x.properties", "fanout")
        open_channel.queue_bind(queue, "x.properties")
        for properties, headers, body in sent:
            open_channel.basic_publish("x.properties", "key.č", body, amqp.Raw(encoded(properties, headers)))
        open_channel.queue_declare(queue, passive=True)
    assert drained(rabbitmq, data, queue).messages == len(sent)
    for found, (properties, headers, body) in zip(inbox(data), sent, strict=True):
        assert (found.exchange, found.routing_key, found.body) == ("x.properties", "key.č", body)
        assert found.application_properties == Table({name: field.value for name, field in (headers or {}).items()})
        assert given_properties(found) == properties


def given_properties(message: Message) -> dict[str, Any]:
    """The properties of AMQP 0-9-1 behind a record."""
    annotations = {"type": "x-opt-jms-type", "app_id": "x-basic-app-id", "cluster_id": "x-basic-cluster-id"}
    found: dict[str, Any] = {
        name: value.encode() if isinstance(value, str) else value for name, value in message.properties.items()
    }
    for name, annotation in annotations.items():
        value = message.message_annotations.get(annotation)
        if isinstance(value, str):
            found[name] = value.encode()
    if isinstance(created := found.pop("creation_time", None), Timestamp):
        found["timestamp"] = created.ms // 1000
    header = message.header
    if "durable" in header:
        found["delivery_mode"] = 2 if header["durable"] else 1
    if "priority" in header:
        found["priority"] = header["priority"]
    if "ttl" in header:
        found["expiration"] = str(header["ttl"]).encode()
    return found


def test_dead_lettering_and_chosen_keys_are_kept(rabbitmq: RabbitMQ, data: DataDir, queue: str) -> None:
    with channel(rabbitmq) as open_channel:
        open_channel.queue_declare(
            f"{queue}.first",
            exclusive=True,
            arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue, "x-message-ttl": 0},
        )
        open_channel.basic_publish(
            "",
            f"{queue}.first",
            b"1",
            pika.BasicProperties(headers={"CC": [f"{queue}.other"], "x-received-from": [{}]}),
        )
        until(lambda: ready(rabbitmq, queue), "dead letter")
    drained(rabbitmq, data, queue)
    (found,) = inbox(data)
    assert (found.exchange, found.routing_key) == ("", queue)
    assert found.application_properties["x-first-death-reason"] == "expired"
    (death,) = found.application_properties["x-death"]  # type: ignore[misc]
    assert isinstance(death, Table)
    assert (death["queue"], death["count"], death["reason"]) == (f"{queue}.first", 1, "expired")
    assert isinstance(death["time"], Timestamp)
    assert found.application_properties["x-received-from"] == (Table(),)


def test_the_exchange_can_be_another_one(rabbitmq: RabbitMQ, data: DataDir, queue: str) -> None:
    publish(rabbitmq, queue, range(1), headers={"CC": ["other"]})
    drained(rabbitmq, data, queue, exchange="orders")
    (found,) = inbox(data)
    assert (found.exchange, found.routing_key, found.cc) == ("orders", queue, ("other",))


def test_what_no_record_can_hold_is_recorded_and_acknowledged(
    rabbitmq: RabbitMQ, data: DataDir, queue: str, stream: str
) -> None:
    bad = encoded({"content_type": b"\xff", "message_id": b"m"}, {"n": Field(b"b\x01", 1)})
    with channel(rabbitmq) as open_channel:
        for name in (queue, stream):
            open_channel.basic_publish("", name, b"bad", amqp.Raw(bad))
            open_channel.basic_publish("", name, b"good")
    for name in (queue, stream):
        found = drained(rabbitmq, data, name)
        assert (found.messages, found.refused) == (1, 1)
    assert ready(rabbitmq, queue) == 0
    assert drained(rabbitmq, data, stream) == Counts()
    assert [one.body for one in inbox(data)] == [b"good", b"good"]
    table = DeltaTable(data.unroutable("/")).to_pyarrow_table()
    for row, name, offset in zip(table.to_pylist(), (stream, queue), (0, None), strict=True):
        assert (row["reason"], row["detail"], row["body"]) == ("invalid_record", "content_type: is not UTF-8", b"bad")
        assert row["raw"].startswith(b"\0" + bytes([len(name)]) + name.encode())
        assert (row["source"]["topic"], row["source"]["offset"]) == (name, offset)
        assert name == stream or row["raw"].endswith(bad)


# -- how often, and how many ------------------------------------------------------------------------------


def test_twenty_thousand_messages_arrive_once(rabbitmq: RabbitMQ, data: DataDir, queue: str, stream: str) -> None:
    publish(rabbitmq, queue, range(10_000))
    assert run(rabbitmq, data, queue, "--until-empty") == (
        0,
        "10,000 messages in 1 commit, 0 refused, 0 repeats left out\n",
        "",
    )
    publish(rabbitmq, stream, range(10_000, 20_000))
    code, out, _ = run(rabbitmq, data, stream, "--until-empty", "--batch-messages", "3000")
    assert (code, out) == (0, "10,000 messages in 4 commits, 0 refused, 0 repeats left out\n")
    assert numbers(data) == Counter(range(20_000))


def test_a_stream_is_drained_exactly_once_by_drains_that_are_killed(
    rabbitmq: RabbitMQ, data: DataDir, stream: str
) -> None:
    publish(rabbitmq, stream, range(6_000))
    for _ in range(3):
        before = commits(data)
        with draining(rabbitmq, data, stream, "--batch-messages", "100", "--prefetch", "700") as process:
            until(lambda: commits(data) > before + 4, "commit")  # noqa: B023
            os.killpg(process.pid, signal.SIGKILL)
    publish(rabbitmq, stream, range(6_000, 6_100))
    assert len(numbers(data)) < 6_000
    assert run(rabbitmq, data, stream, "--until-empty")[0] == 0
    assert numbers(data) == Counter(range(6_100))


@pytest.mark.parametrize("ids", [True, False])
def test_a_queue_loses_nothing_to_drains_that_are_killed(
    rabbitmq: RabbitMQ, data: DataDir, queue: str, ids: bool
) -> None:
    publish(rabbitmq, queue, range(6_000), ids=ids)
    for _ in range(3):
        before = commits(data)
        with draining(rabbitmq, data, queue, "--batch-messages", "100", "--prefetch", "700") as process:
            until(lambda: commits(data) > before + 4, "commit")  # noqa: B023
            os.killpg(process.pid, signal.SIGKILL)
    assert run(rabbitmq, data, queue, "--until-empty")[0] == 0
    found = numbers(data)
    assert set(found) == set(range(6_000))
    assert sum(found.values()) <= 6_000 + (0 if ids else 300)
    repeated = {int(one.body or b"") for one in inbox(data) if one.header.get("delivery_count")}
    assert {number for number, count in found.items() if count > 1} <= repeated
