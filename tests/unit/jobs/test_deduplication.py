"""Repeats of messages are left out of a stream's batches, exactly once: docs/jobs.md, "Messages that come twice"."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindery.jobs.control.dedup import DedupOptions
from bindery.jobs.deduplication import KeyTask, in_order
from bindery.jobs.fold import BLOCK, SOURCE_COLUMN
from bindery.jobs.message_keys import MessageKeys
from bindery.jobs.repeats import Repeats
from bindery.jobs.task import Held, RouteTask
from bindery.router.declarations import TopologyEditor
from bindery.router.errors import InvalidInput, Refused, UnsupportedTable
from bindery.router.message import SENT_SCHEMA, SOURCE, Message, to_batch
from bindery.router.model import Binding, Queue
from bindery.router.values import Table, Timestamp
from bindery.store import faults, tables
from bindery.store.batches import BatchDriver, Routed, RouterOf
from bindery.store.commit import BatchCommitter, WrittenFile
from bindery.store.copying import copy_data
from bindery.store.deduplication import SeenTable, keep_window
from bindery.store.maintenance import maintain
from bindery.store.maintenance.policy import Policy
from bindery.store.manifest import read_manifest
from bindery.store.paths import DataDir
from bindery.store.places import at
from bindery.store.redrive import Redriver
from bindery.store.routed_counts import RoutedCounts
from bindery.store.seen_keys import Keys, SeenKeys
from bindery.store.topology import TopologyStore
from bindery.store.unroutable import Selection
from bindery.store.writer import BATCH_SCHEMA
from tests.examples import examples
from tests.unit.store.conftest import Crash, crash
from tests.unit.store.conftest import at as reached

STREAM = "s"
SECOND = 1000
NOW = 1_800_000_000_000
ONE_KEY = DedupOptions(key="message_id", window=10)


def sent(name: str, key: str | None) -> Message:
    return Message("amq.topic", name, properties={} if key is None else {"message_id": key})


@dataclass(frozen=True)
class Piece:
    """Records of one block of a file, which a task reads as they stand there."""

    file: str
    block: int
    messages: Sequence[Message]

    @property
    def records(self) -> pa.RecordBatch:
        place = [{"file": self.file, BLOCK: self.block}] * len(self.messages)
        kind = pa.struct([("file", pa.string()), (BLOCK, pa.int64())])
        columns = [*to_batch(self.messages).columns, pa.array(place, kind)]
        return pa.RecordBatch.from_arrays(columns, names=[*SENT_SCHEMA.names, SOURCE_COLUMN])


def fold(batch: pa.RecordBatch, seq: pa.Array, *, clock_ms: int = 0) -> tuple[pa.RecordBatch, None]:
    """Records that are messages already."""
    columns = [batch.column(name) for name in SENT_SCHEMA.names]
    return pa.RecordBatch.from_arrays([*columns, pa.nulls(batch.num_rows, SOURCE), seq], schema=BATCH_SCHEMA), None


Tasks = Sequence[Sequence[Piece]]


@dataclass
class Stream:
    """A stream as its driver has it: batches are pinned, judged, routed by tasks and committed."""

    data: DataDir
    options: DedupOptions = ONE_KEY
    topologies: TopologyStore = field(init=False)

    def __post_init__(self) -> None:
        self.topologies = TopologyStore(self.data)
        self.restart()

    def restart(self) -> None:
        """What another process knows."""
        self.seen = SeenTable(self.data, STREAM, "/")

    def route(self, number: int, clock_ms: int, tasks: Tasks) -> Repeats | None:
        with BatchCommitter(self.data, stream=STREAM, app_id=f"{STREAM}:c") as committer:
            driver = BatchDriver(committer, self.topologies, "/", router=RouterOf("/"))
            begun = driver.begin(number, self.topologies.load(), clock_ms, dedup=self.options.in_pin)
            if begun.router is None:
                return None
            options = DedupOptions.of_pin(begun.pin.dedup)
            assert options is not None
            keys = KeyTask(fold, MessageKeys(options.fields), begun.pin.clock_ms)
            found = [
                keys.of_partition((piece.records for piece in task), partition=partition)
                for partition, task in enumerate(tasks)
            ]
            arrived = in_order(part for one in found for part in one["parts"])
            verdict = self.seen.judge(begun.stamp, options.window * SECOND, arrived)
            repeats = Repeats(verdict, STREAM, options.keep)
            routing = RouteTask(self.data, "/", begun.stamp, fold, Held(begun.router), 1 << 20, repeats=Held(repeats))
            counts, files = RoutedCounts(), list[WrittenFile]()
            for partition, task in enumerate(tasks):
                result = routing.route((piece.records for piece in task), partition=partition)
                counts.merge(result["counts"])
                files += [WrittenFile(**file) for file in result["files"]]
            driver.commit(begun, Routed([*files, *self.seen.write(begun.stamp)], counts))
            self.seen.committed(begun.stamp)
            return repeats

    def rows(self, path: str, kind: tables.Kind) -> list[dict[str, Any]]:
        if not tables.exists(path):
            return []
        files = tables.files_of(tables.TableLog(path, files=True))
        return [row for file in files for row in at(path, file).read_parquet(kind.schema).to_pylist()]

    @property
    def routed(self) -> list[str]:
        """The routing keys of what is in the queue."""
        return sorted(row["routing_key"] for row in self.rows(self.data.queue("/", "all"), tables.QUEUE))

    @property
    def known(self) -> list[dict[str, Any]]:
        return self.rows(self.data.dedup(STREAM), tables.DEDUP)

    @property
    def lost(self) -> list[dict[str, Any]]:
        return self.rows(self.data.unroutable("/"), tables.UNROUTABLE)


def declared(editor: TopologyEditor) -> None:
    editor.declare_queue(Queue("/", "all"))
    editor.bind(Binding(0, "/", "amq.topic", "all", routing_key="#"))


def stream_in(folder: str | Path, **options: Any) -> Stream:
    data = DataDir.open(folder, create=True)
    store = TopologyStore(data)
    store.create()
    store.edit(declared, author="t")
    return Stream(data, DedupOptions(**{"key": "message_id", "window": 10} | options))


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    return stream_in(tmp_path / "data")


def one_task(*names_and_keys: tuple[str, str | None]) -> Tasks:
    return [[Piece("a", 0, [sent(*one) for one in names_and_keys])]]


# -- against a slow reference -----------------------------------------------------------------------------


@dataclass
class Batch:
    """A batch of a history: keys of the records of its files, its clock, and what befalls it."""

    files: list[list[str | None]]
    later_ms: int
    cuts: list[list[int]]
    tasks: int
    order: list[int]
    faults: list[str]
    restarts: bool
    maintained: bool


POINTS = ("batch.pinned", "batch.appending", "batch.appended", "batch.in_tables", "batch.in_manifest")
KEYS = st.sampled_from(["a", "b", "c", "d", None])
BATCHES = st.builds(
    Batch,
    files=st.lists(st.lists(KEYS, max_size=5), max_size=3),
    later_ms=st.sampled_from([0, SECOND, 4 * SECOND, 10 * SECOND, 11 * SECOND, -3 * SECOND, -20 * SECOND]),
    cuts=st.lists(st.lists(st.integers(0, 5), max_size=2), min_size=3, max_size=3),
    tasks=st.integers(1, 3),
    order=st.permutations(range(12)),
    faults=st.lists(st.sampled_from(POINTS), max_size=2),
    restarts=st.booleans(),
    maintained=st.booleans(),
)


def tasks_of(number: int, batch: Batch, *, whole: bool) -> Tasks:
    """The batch as Spark may cut it: files in pieces, pieces in any order among tasks; or each file whole."""
    pieces = []
    for place, (keys, cuts) in enumerate(zip(batch.files, batch.cuts, strict=False)):
        messages = [sent(f"{number}.{place}.{n}", key) for n, key in enumerate(keys)]
        bounds = [0, *([] if whole else sorted({cut for cut in cuts if 0 < cut < len(keys)})), len(keys)]
        pieces += [Piece(f"file-{place}", start, messages[start:end]) for start, end in pairwise(bounds)]
    if whole:
        return [pieces]
    shuffled = [pieces[n] for n in batch.order if n < len(pieces)]
    return [shuffled[n :: batch.tasks] for n in range(batch.tasks)]


def reference(history: Sequence[Batch], window_ms: int) -> tuple[list[str], dict[str, str]]:
    """What is routed, and for each message that is not the one that it repeats; message by message."""
    first: dict[str, tuple[int, str]] = {}
    routed: list[str] = []
    repeats: dict[str, str] = {}
    clock = NOW
    ahead = 0
    for number, batch in enumerate(history):
        clock += batch.later_ms
        now = max(clock, ahead)
        for place, keys in enumerate(batch.files):
            for n, key in enumerate(keys):
                name = f"{number}.{place}.{n}"
                if key is not None and key in first and first[key][0] > now - window_ms:
                    repeats[name] = first[key][1]
                    continue
                routed.append(name)
                if key is not None:
                    first[key] = (now, name)
                    ahead = now
    return sorted(routed), repeats


@given(st.lists(BATCHES, min_size=1, max_size=6), st.booleans(), st.booleans())
@examples(40)
def test_each_key_is_routed_once_in_its_window_whatever_happens(history: list[Batch], whole: bool, keep: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="dedup") as folder:
        stream = stream_in(folder, keep=keep)
        clock = NOW
        for number, batch in enumerate(history):
            clock += batch.later_ms
            tasks = tasks_of(number, batch, whole=whole)
            for point in batch.faults:
                with faults.installed(reached(point, crash)):
                    try:
                        stream.route(number, clock, tasks)
                    except Crash:
                        stream.restart()
            if batch.restarts:
                stream.restart()
            stream.route(number, clock + 1, tasks)  # the clock of the pin counts, if there is one
            clock = read_clock(stream, number)
            if batch.maintained:
                assert not maintain(stream.data, Policy(fan_in=2)).failed
        counted = Counter[str]()
        for row in read_manifest(stream.data):
            counted.update(dict(row["unroutable"]))
        for batch, later in zip(history, clocks(stream, len(history)), strict=True):
            batch.later_ms = later
        routed, repeats = reference(history, 10 * SECOND)
        assert stream.routed == routed
        assert counted == +Counter(duplicate=len(repeats))
        ids = {identity(row): row["routing_key"] for row in stream.rows(stream.data.queue("/", "all"), tables.QUEUE)}
        kept = {row["routing_key"]: ids[row["detail"].removeprefix("repeats ")] for row in stream.lost}
        assert kept == (repeats if keep else {})
        assert {row["reason"] for row in stream.lost} <= {"duplicate"}


def test_a_clock_that_goes_back_finds_what_a_batch_without_keys_was_too_late_for(stream: Stream) -> None:
    """As it does for a driver that starts anew: such a batch leaves nothing on record."""
    stream.route(0, NOW, one_task(("first", "a")))
    stream.route(1, NOW + 11 * SECOND, one_task(("without", None)))
    repeats = stream.route(2, NOW + 7 * SECOND, one_task(("again", "a")))
    assert repeats is not None
    assert stream.routed == ["first", "without"]


def identity(row: dict[str, Any]) -> str:
    return "{stream}:{batch_id}:{seq}".format(**row["routing"])


def read_clock(stream: Stream, number: int) -> int:
    (row,) = read_manifest(stream.data, batch_id=number)
    return int(row["clock"].timestamp() * 1000)


def clocks(stream: Stream, count: int) -> list[int]:
    """How much later than the one before each batch was pinned."""
    found = [NOW, *(read_clock(stream, number) for number in range(count))]
    return [after - before for before, after in pairwise(found)]


@given(st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=9), max_size=9), st.integers(0, 9))
@examples(200)
def test_seen_keys_against_a_dictionary(batches: list[list[tuple[int, int]]], oldest: int) -> None:
    """Halves of hashes are few here, so that many keys have the same first half."""
    seen, known = SeenKeys(), dict[tuple[int, int], tuple[int, int]]()
    for number, keys in enumerate(batches):
        if number > oldest:
            seen.forget_before(oldest)
            known = {key: message for key, message in known.items() if message[0] >= oldest}
        arrived = Keys(
            np.array([high for high, _ in keys], np.int64),
            np.array([low for _, low in keys], np.int64),
            np.arange(len(keys))[::-1].copy(),
        )
        expected, fresh = dict[int, tuple[int, int]](), list[int]()
        for key, seq in zip(keys, arrived.seq.tolist(), strict=True):
            if key in known:
                expected[seq] = known[key]
            else:
                known[key] = (number, seq)
                fresh.append(seq)
        verdict = seen.judge(arrived, number)
        repeated = zip(verdict.repeated.tolist(), verdict.batch.tolist(), verdict.seq.tolist(), strict=True)
        assert [(seq, (batch, of)) for seq, batch, of in repeated] == sorted(expected.items())
        assert verdict.fresh.seq.tolist() == fresh
        seen.add(verdict.fresh, number)
        assert len(seen) >= len(known)


# -- one by one -------------------------------------------------------------------------------------------


def test_what_repeats_is_counted_and_the_first_one_stays(stream: Stream) -> None:
    stream.route(0, NOW, one_task(("a", "1"), ("b", "1"), ("c", None), ("d", None)))
    stream.route(1, NOW + 9 * SECOND, one_task(("e", "1"), ("f", "2")))
    stream.route(2, NOW + 10 * SECOND, one_task(("g", "1"), ("h", "2")))
    assert stream.routed == ["a", "c", "d", "f", "g"], "a window begins with what was routed"
    assert [dict(row["unroutable"]) for row in read_manifest(stream.data)] == [{"duplicate": 1}] * 3
    assert [row["records"] for row in read_manifest(stream.data)] == [4, 2, 2]
    assert stream.lost == []
    (row, *_) = [row for row in stream.known if row["routing"]["batch_id"] == 0]
    assert row["routing"] == {"topology_version": 2, "stream": "s", "batch_id": 0, "seq": 0}


def test_what_is_kept_names_the_message_that_it_repeats_and_is_never_redriven(tmp_path: Path) -> None:
    stream = stream_in(tmp_path / "data", keep=True)
    tasks = [[Piece("a", 0, [sent("a", "1"), replace(sent("b", "1"), mandatory=True)])]]
    stream.route(0, NOW, tasks)
    (row,) = stream.lost
    assert (row["reason"], row["disposition"], row["detail"]) == ("duplicate", "discarded", "repeats s:0:0")
    assert row["routing_key"] == "b"
    redriver = Redriver(stream.data, stream.topologies, "/")
    assert redriver.redrive(Selection()).redriven == 0
    with pytest.raises(InvalidInput, match="repeat a message that was routed"):
        redriver.redrive(Selection(reasons=frozenset({"duplicate"})))


def test_the_file_and_the_place_in_it_say_which_came_first(stream: Stream) -> None:
    later = Piece("a", 100, [sent("later", "1")])
    other = Piece("b", 0, [sent("other", "1")])
    stream.route(0, NOW, [[other, later], [Piece("a", 0, [sent("first", "1")])]])
    assert stream.routed == ["first"], "though its task has higher numbers"


def test_a_key_is_on_record_after_everything_else(stream: Stream) -> None:
    """Else a new epoch would drop what no queue has."""
    dedup = stream.data.dedup(STREAM)
    in_queue = reached("batch.appending", crash, where=stream.data.queue("/", "all"))
    with faults.installed(in_queue), pytest.raises(Crash):
        stream.route(0, NOW, one_task(("a", "1")))
    assert (stream.routed, stream.known) == ([], [])
    with faults.installed(reached("batch.appending", crash, where=dedup)), pytest.raises(Crash):
        stream.route(0, NOW, one_task(("a", "1")))
    assert stream.routed == ["a"]
    assert stream.known == []
    with faults.installed(reached("batch.appended", crash, where=dedup)), pytest.raises(Crash):
        stream.route(0, NOW, one_task(("a", "1")))
    assert len(stream.known) == 1
    with (
        BatchCommitter(stream.data, stream=STREAM, app_id=f"{STREAM}:c") as committer,
        pytest.raises(Refused, match="cannot be pinned again"),
    ):
        committer.release_pin(0)
    stream.restart()
    stream.route(0, NOW, one_task(("a", "1")))
    assert stream.routed == ["a"]
    assert len(stream.known) == 1


def test_a_batch_that_was_begun_keeps_its_window(stream: Stream) -> None:
    stream.route(0, NOW, one_task(("a", "1")))
    with faults.installed(reached("batch.pinned", crash)), pytest.raises(Crash):
        stream.route(1, NOW + 8 * SECOND, one_task(("b", "1")))
    stream.options = DedupOptions(key="message_id", window=5)
    stream.restart()
    stream.route(1, NOW + 8 * SECOND, one_task(("b", "1")))
    stream.route(2, NOW + 8 * SECOND, one_task(("c", "1")))
    assert stream.routed == ["a", "c"]


def test_the_state_is_bounded_by_the_window(stream: Stream) -> None:
    """Neither the table nor what a driver reads and holds grows with the number of batches."""
    hours = 3_600 * SECOND
    stream.options = DedupOptions(key="message_id", window=3_600)
    for number in range(12):
        stream.route(number, NOW + number * hours // 2, one_task((str(number), str(number))))
    (report,) = [one for one in maintain(stream.data, Policy(fan_in=2), dry_run=True).tables if one.kind == "dedup"]
    assert report.trimmed == 9
    (report,) = [one for one in maintain(stream.data, Policy(fan_in=2)).tables if one.kind == "dedup"]
    assert (report.trimmed, report.error) == (9, None)
    assert sorted(row["routing"]["batch_id"] for row in stream.known) == [9, 10, 11]
    stream.restart()
    stream.route(12, NOW + 6 * hours, one_task(("again", "11"), ("old", "9")))
    assert stream.routed == sorted([*map(str, range(12)), "old"])
    assert len(stream.seen._seen) <= 4
    for number in range(13, 40):
        stream.route(number, NOW + (number - 12) * 24 * hours, one_task((str(number), str(number))))
    assert len(stream.seen._seen) <= 2


def test_files_of_one_hour_are_merged_and_others_stay_apart(stream: Stream) -> None:
    stream.options = DedupOptions(key="message_id", window=86_400)
    for number in range(8):
        stream.route(number, NOW + number * 1_200 * SECOND, one_task((str(number), str(number))))
    maintain(stream.data, Policy(fan_in=2))
    assert len(tables.files_of(tables.TableLog(stream.data.dedup(STREAM), files=True))) == 3
    stream.restart()
    stream.route(8, NOW + 9_600 * SECOND, one_task(*((f"again {n}", str(n)) for n in range(8))))
    assert stream.routed == [str(number) for number in range(8)]


def test_a_copy_knows_what_was_routed(stream: Stream, tmp_path: Path) -> None:
    stream.route(0, NOW, one_task(("a", "1")))
    copy_data(stream.data, DataDir.named(tmp_path / "copy"))
    there = Stream(DataDir.open(tmp_path / "copy"))
    there.route(1, NOW + SECOND, one_task(("b", "1"), ("c", "2")))
    assert there.routed == ["a", "c"]


def test_it_is_of_one_vhost(stream: Stream) -> None:
    keep_window(stream.data, STREAM, "/", 1)
    with pytest.raises(UnsupportedTable) as raised:
        keep_window(stream.data, STREAM, "v", 1)
    assert "without `dedup`" in str(raised.value.hint)


# -- keys -------------------------------------------------------------------------------------------------

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(allow_nan=False, allow_infinity=False, width=16),
    st.sampled_from(["", "1", "a", "true"]),
    st.sampled_from([b"", b"1", b"a"]),
    st.integers(0, 3).map(Timestamp),
)
MESSAGES = st.builds(
    Message,
    exchange=st.sampled_from(["", "x", "1x"]),
    routing_key=st.sampled_from(["", "1", "11"]),
    application_properties=st.builds(lambda value: Table({"n": value}), VALUES) | st.just(Table({})),
)


@given(st.lists(MESSAGES, max_size=12), st.sampled_from([("application_properties.n",), ("exchange", "routing_key")]))
@examples(150)
def test_keys_are_the_same_when_types_and_values_are(messages: list[Message], key: tuple[str, ...]) -> None:
    columns = to_batch(messages).columns
    count = len(messages)
    seq = pa.array(np.arange(count) + 7)
    batch = pa.RecordBatch.from_arrays([*columns, pa.nulls(count, SOURCE), seq], schema=BATCH_SCHEMA)
    keys, rows = MessageKeys(DedupOptions(key=key, window=1).fields)(batch)

    def stated(message: Message) -> object:
        if key != ("application_properties.n",):
            return message.exchange, message.routing_key
        value = message.application_properties.get("n")
        return None if value is None else (type(value), repr(value))

    expected = [stated(message) for message in messages]
    assert rows.tolist() == [row for row, value in enumerate(expected) if value is not None]
    assert keys.seq.tolist() == [row + 7 for row in rows.tolist()]
    hashes = list(zip(keys.high.tolist(), keys.low.tolist(), strict=True))
    for one, a in zip(hashes, rows.tolist(), strict=True):
        for other, b in zip(hashes, rows.tolist(), strict=True):
            assert (one == other) == (expected[a] == expected[b])


def test_every_field_that_may_be_named_can_be_read() -> None:
    message = Message("x", "k", connection="c", header=Table({"ttl": 5}), body=b"b")
    batch = to_batch([message])
    full = pa.RecordBatch.from_arrays([*batch.columns, pa.nulls(1, SOURCE), pa.array([0])], schema=BATCH_SCHEMA)
    for path in ("connection", "header.ttl", "header.durable", "body", "amqp_value", "amqp_sequence", "to", "footer.x"):
        keys, _ = MessageKeys(DedupOptions(key=path, window=1).fields)(full)
        assert len(keys) == (path in ("connection", "header.ttl", "body")), path
