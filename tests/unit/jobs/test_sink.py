"""The commits of `format("bindery")`, each in a process of its own, without Spark: one attempt counts, once."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, StructType

from bindery.jobs.messages import MessageFold, message_fold
from bindery.jobs.shipping import fingerprint
from bindery.jobs.sink import BinderySource, Part, Sink, SinkOptions
from bindery.jobs.task import Held, RouteTask
from bindery.router.engine import Router
from bindery.router.errors import CheckpointMismatch, InvalidInput
from bindery.router.message import Message, to_batch
from bindery.router.model import Binding, Queue
from bindery.store import faults
from bindery.store.attempts import Attempts
from bindery.store.manifest import read_manifest
from bindery.store.paths import DataDir
from bindery.store.pins import Pin, Pins
from bindery.store.read import read_queue
from bindery.store.streams import register
from bindery.store.topology import TopologyStore
from bindery.store.writer import BatchStamp


class Crash(Exception):
    """The process died."""


class World:
    """A data directory with two queues that get every message, and a query that writes to it."""

    def __init__(self, root: Path) -> None:
        self.data = DataDir.open(root, create=True)
        self.topologies = TopologyStore(self.data)
        self.topologies.create()
        for name in "ab":
            self.topologies.edit(lambda editor, name=name: editor.declare_queue(Queue("/", name)), author="test")
            binding = Binding(0, "/", "amq.fanout", name)
            self.topologies.edit(lambda editor, binding=binding: editor.bind(binding), author="test")
        self.epoch = register(self.data, "own", "query")
        fold = message_fold(StructType().add("exchange", "string").add("routing_key", "string"), 1000)
        self.sink = Sink(SinkOptions.of({"data": self.data.root, "stream": "own"}), fold, fingerprint())

    def part(self, number: int, *keys: str, partition: int = 0) -> Part:
        """What a task gives that has routed these messages."""
        pins = Pins(self.data, stream="own", app_id=self.epoch.app_id)
        pin = pins.write(number, Pin(self.topologies.load().version, 5))
        router = Router.compile(self.topologies.load(version=pin.topology_version), "/")
        stamp = BatchStamp("own", number, pin.topology_version, pin.clock_ms)
        task = RouteTask(self.data, "/", stamp, self.sink.fold, Held(router), 1 << 20)
        batch = to_batch([Message("amq.fanout", key) for key in keys]).select(["exchange", "routing_key"])
        return Part(self.epoch, number, pin, json.dumps(task.route(iter([batch]), partition=partition)))

    def held(self, queue: str) -> list[str]:
        return sorted(read_queue(self.data, queue)["routing_key"].to_pylist())


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "data")


@pytest.mark.parametrize(
    ("point", "where"),
    [
        ("put.before", "attempt-"),
        ("put.after", "attempt-"),
        ("batch.appending", "/b"),
        ("batch.in_tables", ""),
        ("batch.in_manifest", ""),
        ("remove.before", "attempt-"),
    ],
)
def test_a_commit_that_dies_is_finished_by_the_next_one_with_one_attempts_files(
    world: World, point: str, where: str
) -> None:
    def die(reached: str, path: str) -> None:
        if reached == point and where in path:
            raise Crash

    first = [world.part(0, "x", "y"), world.part(0, "z", partition=1)]
    with faults.installed(die), pytest.raises(Crash):
        world.sink.commit(first, 0)
    # the batch is split in another way, and its query gives another value
    world.sink.commit([world.part(0, "x", "y", "other")], 0)
    held = ["other", "x", "y"] if point == "put.before" else ["x", "y", "z"]
    assert (world.held("a"), world.held("b")) == (held, held)
    (row,) = read_manifest(world.data)
    assert (row["records"], row["copies"]) == (3, 6)
    assert not list(Path(world.data.pins(world.epoch.app_id)).glob("attempt-*"))
    world.sink.commit([world.part(1, "next")], 1)
    assert world.held("a") == sorted([*held, "next"])


def test_an_attempt_whose_files_are_gone_gives_way_while_nothing_is_committed(world: World) -> None:
    lost = [world.part(0, "lost")]
    Attempts(world.data, world.epoch.app_id).first(0, [part.result for part in lost])
    for file in json.loads(lost[0].result)["files"]:
        Path(world.data.queue("/", file["name"]), file["path"]).unlink()
    world.sink.commit([world.part(0, "x")], 0)
    assert (world.held("a"), world.held("b")) == (["x"], ["x"])


def test_the_topology_of_the_first_attempt_counts(world: World) -> None:
    before = world.part(0, "x").pin
    world.topologies.edit(lambda editor: editor.delete_queue("/", "b"), author="test")
    assert world.part(0, "x").pin == before


def test_a_checkpoint_that_is_not_that_of_the_tables_is_refused(world: World, tmp_path: Path) -> None:
    offsets = tmp_path / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "1").write_text("one plan")
    sink = replace(world.sink, options=replace(world.sink.options, checkpoint=f"file://{tmp_path}/checkpoint"))
    sink.commit([world.part(0, "x")], 0)
    sink.commit([world.part(1, "y")], 1)
    sink.commit([world.part(1, "y")], 1)  # again, after an answer that was lost
    (offsets / "1").write_text("another plan")
    for number, said in ((1, "something else"), (0, "at batch 0"), (3, "at batch 3")):
        with pytest.raises(CheckpointMismatch, match=said):
            sink.commit([world.part(number, "z")], number)
    assert world.held("a") == ["x", "y"]


def test_what_is_not_known_is_refused(world: World) -> None:
    data = world.data.root
    for options, error, hint in (
        ({"data": data}, "'stream' is missing", ""),
        ({"data": "data", "stream": "s"}, "other folders", "absolute"),
        ({"data": data, "stream": "s", "vhots": "/"}, "unknown option 'vhots'", "did you mean 'vhost'"),
        ({"data": data, "stream": "copy:s"}, "'copy:s', and names that begin with 'copy:'", "another name"),
        ({"data": data, "stream": "s", "NEWEPOCH": "yes"}, "newEpoch is 'yes'", "true or false"),
        ({"data": data + "/none", "stream": "s"}, "none", ""),
    ):
        with pytest.raises(InvalidInput, match=error) as caught:
            SinkOptions.of(options)
        assert hint in (caught.value.hint or "")
    for schema, error, hint in (
        (StructType().add("routingkey", "string"), "none of a message", "did you mean 'routing_key'"),
        (StructType().add("routing_key", IntegerType()), "is int, and in a message string", "bindery.spark.messages"),
        (StructType(), "no column of a message", "bindery.spark.messages"),
    ):
        with pytest.raises(InvalidInput, match=error) as caught:
            message_fold(schema, 1)
        assert hint in (caught.value.hint or "")
    source = BinderySource({"data": data, "stream": "s"})
    for refused in (lambda: source.streamWriter(StructType(), True), lambda: source.writer(StructType(), False)):
        with pytest.raises(InvalidInput, match="format bindery"):
            refused()


def test_records_that_were_refused_stay_refused(world: World) -> None:
    refused = pa.array([None, {"reason": "invalid_record", "detail": "d", "raw": b"r", "kind": "other"}])
    schema = StructType().add("routing_key", "string")
    fold = MessageFold(message_fold(schema, 5).fold, may_be_refused=True)
    batch = pa.RecordBatch.from_arrays([pa.array(["k", "l" * 9]), refused], names=["routing_key", "refused"])
    found, told = fold(batch, pa.array([4, 5]))
    assert found["seq"].to_pylist() == [4]
    assert told is not None
    assert (told.reason.to_pylist(), told.raw.to_pylist(), [one.kind for one in told.problems]) == (
        ["invalid_record"],
        [b"r"],
        ["other"],
    )
