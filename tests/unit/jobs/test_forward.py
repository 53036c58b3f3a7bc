"""A queue forwarded to brokers that librdkafka plays itself."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bindery.jobs.control.forward import forward_of
from bindery.jobs.forwarding import run as run_module
from bindery.jobs.forwarding.kafka import NotDelivered, Topic
from bindery.jobs.forwarding.run import Forwarder, Progress
from bindery.router.errors import Fenced, InvalidInput, NotFound, Refused
from bindery.router.message import Message
from bindery.store import faults, queue_use
from bindery.store.forwarding import Forwarding, recorded_of
from bindery.store.maintenance import Policy, maintain
from bindery.store.paths import DataDir
from bindery.store.read import delete_matching, take
from bindery.store.topology import TopologyStore
from tests.servers.mock_kafka import MockKafka
from tests.unit.store.conftest import Crash, at, declare_queues
from tests.unit.store.maintenance.conftest import Stream, stream
from tests.unit.store.routed import route
from tests.unit.store.test_deferred import declare, until

__all__ = ["stream"]


@pytest.fixture(scope="module")
def kafka() -> Iterator[MockKafka]:
    return MockKafka()


@dataclass
class Bench:
    """The queue a and a topic."""

    data: DataDir
    kafka: MockKafka
    topic: str

    def forwarder(self, *, start_over: bool = False, trigger: str = "available-now", **target: Any) -> Forwarder:
        stated = {"queue": "a", "to": "kafka", "bootstrap_servers": self.kafka.address, "topic": self.topic}
        document = {"stream": "f", "forward": {**stated, **target}, "trigger": trigger}
        return Forwarder(self.data, forward_of(document), start_over=start_over)

    def run(self, *, start_over: bool = False, **target: Any) -> Progress:
        forwarder = self.forwarder(start_over=start_over, **target)
        forwarder.run()
        return forwarder.progress()

    def passed(self) -> int:
        found = recorded_of(self.data, "f")
        return 0 if found is None else found.rows

    def arrived(self) -> Counter[tuple[int, int]]:
        found: Counter[tuple[int, int]] = Counter()
        for record in self.kafka.records(self.topic):
            headers = dict(record.headers())
            assert headers["routing.stream"] == b"flights"
            found[int(headers["routing.batch_id"]), int(headers["routing.seq"])] += 1
        return found


@pytest.fixture
def bench(data: DataDir, stream: Stream, kafka: MockKafka) -> Bench:
    return Bench(data, kafka, kafka.topic())


def batches(*numbers: int, times: int = 1) -> dict[tuple[int, int], int]:
    return {(batch, seq): times for batch in numbers for seq in range(3)}


def test_every_row_arrives_once_however_often_it_is_started(bench: Bench, stream: Stream) -> None:
    stream.run(4)
    assert bench.run() == Progress(rows=12)
    assert bench.arrived() == batches(0, 1, 2, 3)
    assert bench.run() == Progress(rows=0)
    take(bench.data, "a", limit=5)
    maintain(bench.data, Policy(fan_in=2))
    stream.run(2)
    delete_matching(bench.data, "a", None)
    assert bench.run() == Progress(rows=6)
    assert bench.arrived() == batches(*range(6))
    assert bench.passed() == 18


def test_a_forwarder_uses_its_queue_also_when_nothing_comes(bench: Bench, stream: Stream) -> None:
    found = queue_use.recorded(bench.data, "/", "a")
    assert queue_use.record(bench.data, "/", "a", queue_use.Use(1, 0, 5), found)
    bench.run()
    newest = queue_use.recorded(bench.data, "/", "a").use
    assert newest is not None and newest.used_ms > 0


def test_a_key_keeps_its_order(bench: Bench, stream: Stream) -> None:
    stream.run(5, routing_key=lambda _: "k")
    bench.run()
    found = [dict(record.headers()) for record in bench.kafka.records(bench.topic)]
    assert {record.partition() for record in bench.kafka.records(bench.topic)} == {
        bench.kafka.records(bench.topic)[0].partition()
    }
    order = [(int(headers["routing.batch_id"]), int(headers["routing.seq"])) for headers in found]
    assert order == list(batches(*range(5)))


def test_latest_leaves_out_what_is_there_and_a_start_over_sends_it(bench: Bench, stream: Stream) -> None:
    stream.run(2)
    bench.run(**{"from": "latest"})
    stream.run(1)
    bench.run(**{"from": "earliest"})  # for those without a position
    assert bench.arrived() == batches(2)
    bench.run(start_over=True)
    assert bench.arrived() == {**batches(0, 1), **batches(2, times=2)}
    stream.run(1)
    bench.run(start_over=True, **{"from": "latest"})
    assert (3, 0) not in bench.arrived()


def test_a_queue_or_topic_that_is_not_there_is_refused_before_anything_is_written(bench: Bench) -> None:
    for wrong in ({"queue": "nowhere"}, {"topic": "nowhere"}):
        with pytest.raises(NotFound, match="nowhere") as refused:
            bench.run(**wrong)
        assert refused.value.exit_code == 2
    with pytest.raises(NotFound, match="vhost"):
        Forwarder(
            bench.data,
            forward_of(
                {
                    "stream": "f",
                    "vhost": "nowhere",
                    "trigger": "available-now",
                    "forward": {"queue": "a", "to": "kafka", "bootstrap_servers": bench.kafka.address, "topic": "t"},
                }
            ),
        ).run()
    assert not Path(bench.data.root, "forwards").exists()
    with pytest.raises(InvalidInput, match="no header"):
        bench.run(key="colour")
    with pytest.raises(InvalidInput, match="refuses its settings"):
        bench.run(options={"no.such.setting": "1"})


def test_what_a_deleted_queue_had_received_arrives(bench: Bench, stream: Stream, store: TopologyStore) -> None:
    bench.run()
    stream.run(2)
    store.edit(lambda editor: editor.delete_queue("/", "a"), author="t")
    with pytest.raises(NotFound) as gone:
        bench.run()
    assert "declared again" in str(gone.value.hint)
    assert bench.arrived() == batches(0, 1)
    stream.version = store.edit(declare_queues("a"), author="t").version
    stream.run(1)
    bench.run()
    assert bench.arrived() == batches(0, 1, 2)


def test_a_newer_forwarder_ends_an_older_one(bench: Bench, stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    stream.run(2)
    settle = Topic.settle

    def overtaken(topic: Topic) -> None:
        settle(topic)
        monkeypatch.undo()
        bench.run()

    monkeypatch.setattr(Topic, "settle", overtaken)
    with pytest.raises(Fenced):
        bench.run()
    assert bench.arrived() == batches(0, 1, times=2)
    assert bench.run() == Progress(rows=0)


def _crash_in_settle(monkeypatch: pytest.MonkeyPatch, number: int, *, after: bool) -> None:
    settle = Topic.settle
    left = [number]

    def dies(topic: Topic) -> None:
        left[0] -= 1
        if after:
            settle(topic)
        if left[0] == 0:
            raise Crash
        if not after:
            settle(topic)

    monkeypatch.setattr(Topic, "settle", dies)


Death = Callable[[pytest.MonkeyPatch], faults.Hook | None]
DEATHS: dict[str, Death] = {
    **{
        f"{point} {number}": lambda _, point=point, number=number: at(point, _die, where="forwards", number=number)
        for point in ("put.before", "put.after", "replace.before", "replace.after", "make.after")
        for number in (1, 2, 3)
    },
    **{
        f"settle {number} {after}": lambda patch, number=number, after=after: _crash_in_settle(
            patch, number, after=after
        )
        for number in (1, 2, 3)
        for after in (False, True)
    },
}


def _die() -> None:
    raise Crash


@pytest.mark.long
@pytest.mark.parametrize("death", DEATHS)
@pytest.mark.parametrize("begin", ["nothing", "a position"])
def test_a_death_at_any_point_loses_nothing(
    bench: Bench, stream: Stream, monkeypatch: pytest.MonkeyPatch, death: str, begin: str
) -> None:
    stream.run(2)
    if begin == "a position":
        bench.run()
    stream.run(4)
    monkeypatch.setattr(run_module, "_ROWS", 5)
    with monkeypatch.context() as patch:
        hook = DEATHS[death](patch)
        with faults.installed(hook or (lambda _point, _path: None)):
            try:
                bench.run()
            except Crash:
                delete_matching(bench.data, "a", None)
    stream.run(1)
    bench.run()
    arrived = bench.arrived()
    if begin == "nothing" and not any((batch, 0) in arrived for batch in range(6)):
        # no position was on record yet, and what the queue holds is what it begins with
        assert arrived == batches(6)
    else:
        assert arrived.keys() == batches(*range(7)).keys()
        assert max(arrived.values()) <= 2
        assert arrived[6, 0] == 1


def test_following_takes_what_comes_until_it_is_stopped(bench: Bench, stream: Stream) -> None:
    stream.run(1)
    forwarder = bench.forwarder(trigger="10 milliseconds")
    failed: list[BaseException] = []

    def follow() -> None:
        try:
            forwarder.run()
        except BaseException as error:  # shown by the test
            failed.append(error)

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        for number in range(1, 4):
            while forwarder.progress().rows < number * 3:
                assert thread.is_alive()
            stream.run(1)
    finally:
        while forwarder.progress().rows < 12 and thread.is_alive():
            pass
        forwarder.stop()
        thread.join()
    assert not failed
    assert bench.arrived() == batches(0, 1, 2, 3)
    assert bench.run() == Progress(rows=0)


@pytest.mark.long
def test_what_waits_for_a_deferred_queue_at_the_start_is_there(
    bench: Bench, store: TopologyStore, caplog: pytest.LogCaptureFixture
) -> None:
    declare(store, late=60)
    route(bench.data, store, [Message("", "late")] * 3)
    assert bench.run(queue="late") == Progress(rows=3)
    assert not caplog.messages
    route(bench.data, store, [Message("", "late")] * 3, batch_id=1)
    following = bench.forwarder(queue="late", trigger="50 milliseconds")
    thread = threading.Thread(target=following.run)
    thread.start()
    try:
        until(lambda: following.progress().rows == 3)
    finally:
        following.stop()
        thread.join()
    assert caplog.messages == ["queue 'late' is deferred: its messages come up to 60 s late"]
    assert bench.arrived() == batches(0, 1)


def test_brokers_that_do_not_answer_are_named_and_nothing_moves(bench: Bench, stream: Stream) -> None:
    bench.run()
    stream.run(1)
    with pytest.raises(NotDelivered) as failed:
        bench.run(bootstrap_servers="127.0.0.1:9", options={"socket.connection.setup.timeout.ms": "1000"})
    assert failed.value.exit_code == 1
    assert bench.run() == Progress(rows=3)


@pytest.mark.long
def test_a_stop_while_brokers_are_away_is_heard(bench: Bench, stream: Stream) -> None:
    stream.run(1)
    forwarder = bench.forwarder(trigger="1 second", bootstrap_servers="127.0.0.1:9")
    threading.Timer(0.5, forwarder.stop).start()
    forwarder.run()
    assert forwarder.progress().rows == 0


@pytest.mark.parametrize("limit", [{"message.max.bytes": "100000"}, {"queue.buffering.max.kbytes": "100"}])
def test_a_row_that_is_too_large_is_named_or_left_out(bench: Bench, stream: Stream, limit: dict[str, str]) -> None:
    stream.run(1, "a")
    stream.run(1, "a", rows=3, body=lambda seq: b"x" * (300_000 if seq == 1 else 10))
    with pytest.raises(Refused, match="row 1 of batch 1 of stream 'flights', 300,") as refused:
        bench.run(options=limit)
    assert refused.value.exit_code == 3
    assert "--skip-refused" in str(refused.value.hint)
    assert bench.run(options=limit, skip_refused=True) == Progress(rows=5, refused=1)
    assert bench.passed() == 6
    assert bench.arrived().keys() == batches(0, 1).keys() - {(1, 1)}
    assert bench.run(options=limit) == Progress(rows=0)


def test_a_position_of_another_table_is_refused(bench: Bench, stream: Stream) -> None:
    bench.run()
    right = Forwarding(bench.data, "f")
    assert right.position is not None
    right.move(right.position.__class__("another", right.position.version))
    with pytest.raises(Refused, match="another table"):
        bench.run()
    stream.run(1)
    assert bench.run(start_over=True) == Progress(rows=3)


def test_without_the_client_it_is_said_what_to_install(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(InvalidInput) as refused:
        bench.run()
    assert str(refused.value.hint) == "pip install 'bindery[kafka]'"
