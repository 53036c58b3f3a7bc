"""Reading all tables at one point: every batch is seen whole or not at all."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime, timedelta

import pytest

from bindery.analytics.point import At, ReadPoint
from bindery.analytics.tables import queue_rows
from bindery.router.errors import InvalidInput, NotFound
from bindery.store import faults
from bindery.store.commit import BatchCommitter
from bindery.store.log import entry_of
from bindery.store.maintenance import maintain
from bindery.store.manifest import read_manifest
from bindery.store.paths import DataDir
from bindery.store.places import at as place
from bindery.store.read import take
from bindery.store.topology import TopologyStore
from tests.unit.store.conftest import Crash, at, crash, declare_queues, deliver

QUEUES = ("a", "b")


def held(data: DataDir, moment: At | None = None) -> dict[str, set[tuple[str, int]]]:
    """The batches of which each queue shows rows."""
    point = ReadPoint.of(data, moment)
    return {name: shown(point, name) for name in sorted(name for _, name in point.topology.queues)}


def shown(point: ReadPoint, name: str) -> set[tuple[str, int]]:
    rows = queue_rows(point, "/", name).read(["routing"])["routing"].to_pylist()
    return {(one["stream"], one["batch_id"]) for one in rows}


def both(*batches: tuple[str, int]) -> dict[str, set[tuple[str, int]]]:
    return {name: set(batches) for name in QUEUES}


@pytest.fixture
def version(data: DataDir, store: TopologyStore) -> int:
    return store.edit(declare_queues(*QUEUES), author="t").version


def between(data: DataDir) -> datetime:
    """A time after everything that was committed and before everything that will be."""
    time.sleep(0.003)
    moment = datetime.now(UTC)
    time.sleep(0.003)
    return moment


def test_nothing_is_there_before_the_first_batch(data: DataDir, version: int) -> None:
    assert held(data) == both()
    for moment in (0, "flights:0", datetime.now(UTC)):
        with pytest.raises(NotFound, match="nothing has been routed yet"):
            ReadPoint.of(data, moment)


def test_a_batch_that_is_under_way_is_not_seen(data: DataDir, version: int) -> None:
    """Two queues, read while each table of a batch is committed: never one of them alone."""
    seen = []
    with BatchCommitter(data, stream="s", app_id="s:1", workers=1) as committer:
        deliver(data, committer, 0, version, *QUEUES)
        look = at("batch.appended", lambda: seen.append(held(data)), times=4)
        with faults.installed(look):
            deliver(data, committer, 1, version, *QUEUES)
    assert seen == [{"a": {("s", 0)}, "b": {("s", 0)}}] * 2
    assert held(data) == {"a": {("s", 0), ("s", 1)}, "b": {("s", 0), ("s", 1)}}
    assert held(data, "s:0") == held(data, 0) == seen[0]


def test_a_session_that_opens_a_table_later_reads_the_same_point(data: DataDir, version: int) -> None:
    with BatchCommitter(data, stream="s", app_id="s:1") as committer:
        deliver(data, committer, 0, version, *QUEUES)
        point = ReadPoint.of(data)
        before = shown(point, "a")
        deliver(data, committer, 1, version, *QUEUES)
        deliver(data, committer, 2, version, *QUEUES)
    assert (before, shown(point, "b")) == ({("s", 0)}, {("s", 0)})


def test_the_end_of_each_batch_is_a_point_however_two_streams_interleave(data: DataDir, version: int) -> None:
    """x commits to a, y to both, x to b: no versions of the two tables have x whole and nothing of y."""
    with (
        BatchCommitter(data, stream="x", app_id="x:1", workers=1) as x,
        BatchCommitter(data, stream="y", app_id="y:1", workers=1) as y,
    ):
        other = at("batch.appended", lambda: deliver(data, y, 0, version, *QUEUES))
        with faults.installed(other):
            deliver(data, x, 0, version, *QUEUES)
        with pytest.raises(InvalidInput, match="several streams have a batch 0") as refused:
            ReadPoint.of(data, 0)
        assert refused.value.hint == "one of x:0, y:0"
        deliver(data, y, 1, version, *QUEUES)
    assert held(data, "y:0") == both(("y", 0))
    assert held(data, "x:0") == both(("x", 0), ("y", 0))
    assert held(data, 1) == held(data) == both(("x", 0), ("y", 0), ("y", 1))


def test_what_a_dead_job_has_begun_is_not_seen_until_it_has_ended(data: DataDir, version: int) -> None:
    with BatchCommitter(data, stream="s", app_id="s:1", workers=1) as committer:
        deliver(data, committer, 0, version, *QUEUES)
        with faults.installed(at("batch.appended", crash)), pytest.raises(Crash):
            deliver(data, committer, 1, version, *QUEUES)
    assert held(data) == both(("s", 0))
    epoch = 1_000_000_000
    with BatchCommitter(data, stream="s", app_id="s:2", workers=1) as committer:
        with faults.installed(at("batch.appended", crash)), pytest.raises(Crash):
            deliver(data, committer, epoch, version, *QUEUES)
        assert held(data) == both(("s", 0))
    with BatchCommitter(data, stream="s", app_id="s:1", workers=1) as committer:
        deliver(data, committer, 1, version, *QUEUES)
    assert held(data) == both(("s", 0), ("s", 1))


def test_a_time_reads_what_had_ended_and_what_was_there_then(data: DataDir, version: int) -> None:
    with BatchCommitter(data, stream="s", app_id="s:1") as committer:
        deliver(data, committer, 0, version, *QUEUES)
        first = between(data)
        deliver(data, committer, 1, version, *QUEUES)
        taken = take(data, "a", limit=6)
        TopologyStore(data).edit(declare_queues("c"), author="t")
    assert taken.rows.num_rows == 6
    assert held(data) == {"a": set(), "b": {("s", 0), ("s", 1)}, "c": set()}
    assert held(data, first) == held(data, first.isoformat()) == {"a": {("s", 0)}, "b": {("s", 0)}}
    assert held(data, "s:1")["a"] == {("s", 0), ("s", 1)}
    with pytest.raises(NotFound, match="no queue 'c'"):
        ReadPoint.of(data, first).queue("/", "c")


def test_clocks_that_differ_hide_no_part_of_a_batch(data: DataDir, version: int) -> None:
    """The machine that committed to the tables is ahead of the one that wrote the row."""
    with BatchCommitter(data, stream="s", app_id="s:1") as committer:
        deliver(data, committer, 0, version, *QUEUES)
    for name in QUEUES:
        entry = entry_of(data.queue("/", name), 1)
        content = (entry.read() or b"").decode()
        stamp = content.partition('"timestamp":')[2].partition(",")[0]
        entry.replace(content.replace(stamp, str(int(stamp) + 60_000)).encode())
    assert held(data, "s:0") == both(("s", 0))


@pytest.mark.long
def test_random_histories_never_mix(data: DataDir, version: int) -> None:
    """Streams, consumers and maintenance take turns; at the end of each batch what was seen then is seen again."""
    draw = random.Random(5)
    ends: list[tuple[str, dict[str, set[tuple[str, int]]]]] = []
    with (
        BatchCommitter(data, stream="x", app_id="x:1") as x,
        BatchCommitter(data, stream="y", app_id="y:1") as y,
    ):
        numbers = {x: 0, y: 0}
        for _ in range(24):
            committer = draw.choice([x, y])
            number = numbers[committer]
            numbers[committer] += 1
            deliver(data, committer, number, version, *draw.choice([QUEUES, ("a",), ("b",)]), rows=2)
            ends.append((f"{committer.stream}:{number}", held(data)))
            if draw.random() < 0.2:
                maintain(data)
    for moment, seen in ends:
        assert held(data, moment) == seen, moment


@pytest.mark.parametrize("text", ["", "yesterday", "s:", ":1", "s:x", "1.5"])
def test_what_is_no_point_is_refused(data: DataDir, version: int, text: str) -> None:
    with pytest.raises(InvalidInput, match="is no point"):
        ReadPoint.of(data, text)


def test_a_point_that_is_not_there_is_not_found(data: DataDir, version: int) -> None:
    with BatchCommitter(data, stream="s", app_id="s:1") as committer:
        for batch in range(3):
            deliver(data, committer, batch, version, *QUEUES)
    for moment in ("s:9", 9, "t:0"):
        with pytest.raises(NotFound, match="no batch"):
            ReadPoint.of(data, moment)
    with pytest.raises(NotFound, match="the table cannot be read as of") as refused:
        ReadPoint.of(data, datetime.now(UTC) - timedelta(days=1))
    assert "no version is older than the table" in (refused.value.hint or "")
    (row,) = read_manifest(data, stream="s", batch_id=0)
    first = next(one["version"] for one in row["tables"] if one["name"] == "a")
    for version_gone in range(first + 1):
        place(str(entry_of(data.queue("/", "a"), version_gone))).remove()
    with pytest.raises(NotFound, match="cannot be read as of"):
        queue_rows(ReadPoint.of(data, "s:0"), "/", "a")
