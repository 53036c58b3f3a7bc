"""`bindery drain` against a real RabbitMQ: nothing lost, streams exactly once, every property kept."""

from __future__ import annotations

import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
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
from bindery.router.errors import Refused
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
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path] | None:
    """A certificate of 127.0.0.1 and its key; None where there is no openssl to make them with."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    command = [
        *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
        *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)),
    ]
    if shutil.which("openssl") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        return None
    return certificate, key


@pytest.fixture(scope="module")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory, certificate: tuple[Path, Path] | None) -> Iterator[RabbitMQ]:
    with RabbitMQ(tmp_path_factory.mktemp("rabbitmq"), tls=certificate) as node:
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


def publish(
    rabbitmq: RabbitMQ, queue: str, bodies: range, *, ids: bool = False, confirmed: bool = False, **properties: Any
) -> None:
    """A persistent message for each number; the broker has seen them all when this returns.

    Unless they are `confirmed`, a node that ends soon or was started just now may lose some.
    """
    with channel(rabbitmq) as open_channel:
        if confirmed:
            open_channel.confirm_delivery()
        for number in bodies:
            given_id = {"message_id": str(number)} if ids else {}
            sent = pika.BasicProperties(delivery_mode=2, **given_id, **properties)
            while True:
                with suppress(pika.exceptions.UnroutableError):  # a stream of a node that was started just now
                    open_channel.basic_publish("", queue, b"%d" % number, sent, mandatory=confirmed)
                    break
                time.sleep(0.2)
        if not confirmed:
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


def test_a_stream_keeps_what_rabbitmq_keeps_in_it(rabbitmq: RabbitMQ, data: DataDir, stream: str) -> None:
    sent = {"content_type": b"t", "delivery_mode": 2, "message_id": b"m", "timestamp": 1_700_000_000, "type": b"y"}
    table = Field(b"F\0\0\0\0", Table())
    headers = {
        "d": Field(b"d" + struct.pack(">d", 1.5), 1.5),
        "i": Field(b"I\xff\xff\xff\xff", -1),
        "s": Field(amqp.long_string(b"text"), "text"),
        "x": Field(amqp.long_string(b"bytes", b"x"), b"bytes"),
        "t": Field(b"t\x01", True),
        "T": Field(b"T" + struct.pack(">Q", 7), Timestamp(7_000)),
    }
    with channel(rabbitmq) as open_channel:
        open_channel.basic_publish("", stream, b"1", amqp.Raw(encoded(sent, headers | {"F": table})))
    drained(rabbitmq, data, stream)
    (found,) = inbox(data)
    assert (found.exchange, found.routing_key, found.message_annotations["x-stream-offset"]) == ("", stream, 0)
    assert dict(found.application_properties) == {name: field.value for name, field in headers.items()}
    assert given_properties(found) == sent


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


@pytest.mark.nightly
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


@pytest.mark.nightly
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


@pytest.mark.nightly
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


@pytest.mark.parametrize("ids", [True, False])
def test_a_death_between_commit_and_acknowledgement(
    rabbitmq: RabbitMQ, data: DataDir, queue: str, ids: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has an id arrives once; what has none arrives again, marked."""
    publish(rabbitmq, queue, range(50), ids=ids)

    class Dies(BaseException):
        pass

    def die(*_arguments: object, **_options: object) -> None:
        raise Dies

    with monkeypatch.context() as patched:
        patched.setattr("pika.adapters.blocking_connection.BlockingChannel.basic_ack", die)
        with pytest.raises(Dies):
            drained(rabbitmq, data, queue, messages=20, prefetch=40)
    assert numbers(data) == Counter(range(20))
    found = drained(rabbitmq, data, queue, messages=20)
    if ids:
        assert (found.messages, found.repeats) == (30, 20)
        assert numbers(data) == Counter(range(50))
    else:
        assert (found.messages, found.repeats) == (50, 0)
        assert numbers(data) == Counter([*range(50), *range(20)])
        assert sum(one.header.get("first_acquirer") is False for one in inbox(data)) >= 40
    assert ready(rabbitmq, queue) == 0


def test_repeats_are_kept_where_that_is_asked_for(
    rabbitmq: RabbitMQ, data: DataDir, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(rabbitmq, queue, range(5), ids=True)
    with monkeypatch.context() as patched:
        patched.setattr("bindery.jobs.draining.drain._Consumer._ready", lambda _self: 1 / 0)
        patched.setattr("pika.adapters.blocking_connection.BlockingChannel.basic_ack", lambda *_, **__: None)
        with pytest.raises(ZeroDivisionError):
            drained(rabbitmq, data, queue)
    assert drained(rabbitmq, data, queue, keep_repeats=True).messages == 5
    assert numbers(data) == Counter([*range(5), *range(5)])


@pytest.mark.nightly
@pytest.mark.parametrize("kill", [False, True])
@pytest.mark.parametrize("arguments", [{}, {"x-queue-type": "quorum"}, STREAM], ids=["classic", "quorum", "stream"])
def test_a_broker_that_goes_away_and_comes_back(
    rabbitmq: RabbitMQ, data: DataDir, arguments: dict[str, Any], kill: bool
) -> None:
    queue = declared(rabbitmq, "away", arguments)
    publish(rabbitmq, queue, range(1_500), ids=True, confirmed=True)
    with draining(rabbitmq, data, queue, "--batch-messages", "50", "--prefetch", "300", "--interval", "1") as process:
        until(lambda: commits(data) > 5, "commit")
        rabbitmq.stop(kill=kill)
        rabbitmq.start()
        publish(rabbitmq, queue, range(1_500, 1_700), ids=True, confirmed=True)
        until(lambda: len(numbers(data)) == 1_700, "last message")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert f"lost 127.0.0.1:{rabbitmq.port}: " in err
    assert " commits, 0 refused, " in err
    assert PASSWORD not in err
    assert "Traceback" not in err
    assert numbers(data) == Counter(range(1_700))


# -- streams ----------------------------------------------------------------------------------------------


def test_where_a_stream_begins(rabbitmq: RabbitMQ, data: DataDir, stream: str) -> None:
    publish(rabbitmq, stream, range(10))
    assert drained(rabbitmq, data, stream, name="at", start=7).messages == 3
    assert drained(rabbitmq, data, stream, name="next", start="next") == Counts()
    assert drained(rabbitmq, data, stream, name="first", start="first").messages == 10
    late = datetime.now(UTC) + timedelta(hours=1)
    assert drained(rabbitmq, data, stream, name="late", start=late) == Counts()
    early = datetime.now(UTC) - timedelta(hours=1)
    assert drained(rabbitmq, data, stream, name="early", start=early).messages == 10
    assert 1 <= drained(rabbitmq, data, stream, name="last", start="last").messages <= 10
    publish(rabbitmq, stream, range(10, 12))
    assert drained(rabbitmq, data, stream, name="at", start="first").messages == 2  # the name knows


def test_a_place_is_kept_before_anything_is_committed(
    rabbitmq: RabbitMQ, data: DataDir, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(rabbitmq, stream, range(5))
    with monkeypatch.context() as patched:
        patched.setattr("bindery.jobs.draining.drain._Consumer._commit", lambda _self: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            drained(rabbitmq, data, stream, start=2)
    assert commits(data) == 2
    drained(rabbitmq, data, stream, start="next")
    assert numbers(data) == Counter((2, 3, 4))


@pytest.mark.nightly
@pytest.mark.parametrize("until_empty", [True, False])
def test_another_stream_of_the_name_is_not_taken_for_it(
    rabbitmq: RabbitMQ, data: DataDir, until_empty: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = declared(rabbitmq, "again", STREAM)
    publish(rabbitmq, stream, range(10))
    drained(rabbitmq, data, stream)
    declared(rabbitmq, stream, STREAM)
    publish(rabbitmq, stream, range(5))
    monkeypatch.setattr("bindery.jobs.draining.drain._MISSED", 3.0)
    with pytest.raises(Refused, match=r"drained up to offset 9 .* another stream of that name"):
        drained(rabbitmq, data, stream, until_empty=until_empty)
    assert numbers(data) == Counter(range(10))


@pytest.mark.nightly
def test_what_a_stream_has_removed_is_not_passed_over(
    rabbitmq: RabbitMQ, data: DataDir, stream: str, request: pytest.FixtureRequest
) -> None:
    declared(rabbitmq, stream, {**STREAM, "x-max-length-bytes": 2_000, "x-stream-max-segment-size-bytes": 1_000})
    publish(rabbitmq, stream, range(10))
    drained(rabbitmq, data, stream)
    publish(rabbitmq, stream, range(10, 500))
    with pytest.raises(Refused, match=r"drained up to offset 9 and begins at \d+ now"):
        drained(rabbitmq, data, stream)
    assert drained(rabbitmq, data, stream, accept_gap=True).messages > 0
    found = numbers(data)
    assert 499 in found
    assert set(found.values()) == {1}
    assert drained(rabbitmq, data, stream) == Counts()


# -- one drain of a name, signals, refusals ---------------------------------------------------------------


def test_the_newest_drain_of_a_name_owns_a_stream(rabbitmq: RabbitMQ, data: DataDir, stream: str) -> None:
    publish(rabbitmq, stream, range(100))
    with draining(rabbitmq, data, stream, "--batch-seconds", "0.1") as first:
        until(lambda: commits(data) >= 2 and len(numbers(data)) == 100, "first message")
        with draining(rabbitmq, data, stream, "--batch-seconds", "0.1") as second:
            while first.poll() is None:
                publish(rabbitmq, stream, range(100, 101))
            assert first.returncode == 3
            assert "another drain of this name was started" in first.communicate()[1]
            publish(rabbitmq, stream, range(200, 300))
            until(lambda: set(range(200, 300)) <= set(numbers(data)), "message of the second")
            second.send_signal(signal.SIGINT)
            assert second.wait(60) == 0
    offsets = [one.message_annotations["x-stream-offset"] for one in inbox(data)]
    assert sorted(offsets) == list(range(len(offsets)))  # type: ignore[type-var]


def test_a_signal_ends_it_after_what_was_delivered(rabbitmq: RabbitMQ, data: DataDir, queue: str) -> None:
    publish(rabbitmq, queue, range(30))
    with draining(rabbitmq, data, queue, "--batch-seconds", "3600") as process:
        until(lambda: ready(rabbitmq, queue) == 0, "delivery")
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "30 messages in 1 commit, 0 refused, 0 repeats left out\n")
    assert numbers(data) == Counter(range(30))
    assert ready(rabbitmq, queue) == 0


def test_a_queue_that_is_deleted_ends_it(rabbitmq: RabbitMQ, data: DataDir, queue: str) -> None:
    publish(rabbitmq, queue, range(30))
    with draining(rabbitmq, data, queue, "--batch-seconds", "3600") as process:
        until(lambda: ready(rabbitmq, queue) == 0, "delivery")
        with channel(rabbitmq) as open_channel:
            open_channel.queue_delete(queue)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert f"there is no queue '{queue}' in vhost '/'" in err
    assert numbers(data) == Counter(range(30))


@pytest.mark.parametrize(
    ("options", "code", "line"),
    [
        (("--queue", "not.there"), 2, "error: --queue: there is no queue 'not.there' in vhost '/' of 127.0.0.1:{port}"),
        (("--password", "env:HOME"), 2, "error: --url: 127.0.0.1:{port} refuses user 'drainer'"),
        (("--url", "amqp://drainer@127.0.0.1:{port}/nope"), 2, "error: --url: 127.0.0.1:{port} refuses vhost 'nope'"),
        (("--url", "amqp://drainer@127.0.0.1:1"), 1, "error: --url: cannot reach 127.0.0.1:1: "),
        (("--url", "amqps://drainer@127.0.0.1:{port}"), 1, "error: --url: cannot reach 127.0.0.1:{port}: [SSL"),
        (("--from", "3"), 2, "error: --from: queue "),
        (("--vhost", "other"), 2, "error: "),
        (("--name", "a/b"), 2, "error: --name: 'a/b' is no name of a drain"),
        (("--url", "amqp://drainer:pass@127.0.0.1"), 2, "error: --url: holds a password"),
    ],
)
def test_a_refusal_is_one_line(
    rabbitmq: RabbitMQ, data: DataDir, options: tuple[str, str], code: int, line: str
) -> None:
    queue = declared(rabbitmq, "refusals")
    filled = [option.replace("{port}", str(rabbitmq.port)) for option in options]
    got, out, err = run(rabbitmq, data, queue, "--until-empty", *filled)
    assert (got, out) == (code, ""), err
    assert err.startswith(line.replace("{port}", str(rabbitmq.port)))
    assert len([one for one in err.splitlines() if not one.startswith("hint: ")]) == 1
    assert PASSWORD not in err
    assert commits(data) == 0


def test_a_queue_that_another_has_for_itself(rabbitmq: RabbitMQ, data: DataDir, queue: str) -> None:
    with channel(rabbitmq) as open_channel:
        open_channel.basic_consume(queue, lambda *_: None, exclusive=True)
        code, _, err = run(rabbitmq, data, queue, "--until-empty")
    assert code == 3
    assert err.startswith(f"error: --queue: another consumer has queue '{queue}' for itself alone\nhint: ")


def test_tls(rabbitmq: RabbitMQ, data: DataDir, queue: str, certificate: tuple[Path, Path] | None) -> None:
    if certificate is None:
        pytest.skip("no openssl to make a certificate with")
    publish(rabbitmq, queue, range(3))
    url = f"amqps://drainer@127.0.0.1:{rabbitmq.tls_port}"
    code, _, err = run(rabbitmq, data, queue, "--url", url, "--until-empty")
    assert (code, "certificate verify failed" in err) == (1, True)
    code, _, err = run(rabbitmq, data, queue, "--url", url, "--ca-file", str(certificate[0]), "--until-empty")
    assert (code, err) == (0, "")
    assert numbers(data) == Counter(range(3))
    code, _, err = run(rabbitmq, data, queue, "--url", url, "--ca-file", str(certificate[1].parent / "none"))
    assert (code, err.partition(": cannot read ")[0]) == (2, "error: --ca-file")


def test_without_pika_it_says_what_to_install(data: DataDir) -> None:
    program = "import sys; sys.modules['pika'] = None; from bindery.cli.main import main; main()"
    command = [sys.executable, "-c", program, "drain", "--url", "amqp://h", "--queue", "q", "--data", data.root]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (
        2,
        "error: drain: pika is not installed\nhint: pip install 'bindery[rabbitmq]'\n",
    )
