"""Redrive: chosen unroutable rows are routed again, exactly once, whatever dies in between."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from bindery.router.declarations import TopologyEditor
from bindery.router.errors import CommitConflict, InvalidInput, NotFound, Stopped, StorageFailed, UnsupportedTable
from bindery.router.filters import parse
from bindery.router.message import UNROUTABLE_SCHEMA, Message, from_batch
from bindery.router.model import Binding, Exchange, Queue
from bindery.router.values import Table
from bindery.store import data_files, faults, tables
from bindery.store import redrive as redrive_module
from bindery.store.actions import RemoveFile
from bindery.store.log import TableLog
from bindery.store.paths import DataDir
from bindery.store.places import Place
from bindery.store.places import at as place
from bindery.store.read import read_queue
from bindery.store.redrive import Outcome, Redriver
from bindery.store.redrive_marks import Marks
from bindery.store.row_bag import RowBag
from bindery.store.topology import TopologyStore
from bindery.store.totals import ManifestTotals
from bindery.store.unroutable import Selection, summary
from bindery.store.unroutable_again import MissingRows
from tests.unit.store.conftest import Crash, at, crash
from tests.unit.store.routed import route


def flight(number: int, key: str = "flight.UA", **more: Any) -> Message:
    properties = Table({"flight": number, **more})
    return Message("flights", key, bcc=("hidden",), application_properties=properties)


def declare(editor: TopologyEditor) -> None:
    editor.declare_exchange(Exchange("/", "flights", "topic"))
    editor.declare_queue(Queue("/", "late"))
    editor.declare_queue(Queue("/", "all"))
    editor.bind(Binding(0, "/", "flights", "all", routing_key="train.#"))


def repair(editor: TopologyEditor) -> None:
    selector = Table({"x-filter-jms-selector": "flight < 100"})
    editor.bind(Binding(0, "/", "flights", "late", routing_key="flight.#", arguments=selector))
    editor.bind(Binding(0, "/", "flights", "all", routing_key="hidden"))


@pytest.fixture
def lost(data: DataDir, store: TopologyStore) -> TopologyStore:
    """Ten flights that nothing routes, over two batches."""
    store.edit(declare, author="t")
    route(data, store, [flight(n) for n in range(5)], batch_id=0, clock_ms=1_700_000_000_000)
    route(data, store, [flight(n, key="flight.AA") for n in range(5, 10)], batch_id=1, clock_ms=1_800_000_000_000)
    return store


def numbers(data: DataDir, queue: str) -> list[int]:
    messages = from_batch(read_queue(data, queue))
    return sorted(message.application_properties["flight"] for message in messages)  # type: ignore[type-var]


def marks(data: DataDir) -> dict[tuple[int, int], Any]:
    rows = DeltaTable(data.unroutable("/")).to_pyarrow_table().to_pylist()
    return {(row["routing"]["batch_id"], row["routing"]["seq"]): row["redriven"] for row in rows}


def test_rows_that_reach_a_queue_now_are_delivered_and_marked(data: DataDir, lost: TopologyStore) -> None:
    version = lost.edit(repair, author="t").version
    outcome = Redriver(data, lost, "/").redrive(Selection())
    assert (outcome.redriven, outcome.copies) == (10, 20)  # bcc counts again: each is in late and in all
    assert dict(outcome.queues) == {"late": 10, "all": 10}
    assert numbers(data, "late") == numbers(data, "all") == list(range(10))
    (batch,) = outcome.batches
    assert set(map(str, marks(data).values())) == {str({"topology_version": version, "batch": batch})}
    row = read_queue(data, "late").to_pylist()[0]
    assert f"{row['routing']['stream']}:{row['routing']['batch_id']}" == batch
    assert row["routing"]["topology_version"] == version
    assert row["source"]["file"] == "flights.csv"


def test_a_second_redrive_finds_nothing_to_do(data: DataDir, lost: TopologyStore) -> None:
    lost.edit(repair, author="t")
    Redriver(data, lost, "/").redrive(Selection())
    again = Redriver(data, lost, "/").redrive(Selection())
    assert again.as_data() == Outcome(topology_version=lost.load().version).as_data()
    assert len(numbers(data, "late")) == 10


def test_rows_that_still_reach_nothing_stay_as_they_are(data: DataDir, lost: TopologyStore) -> None:
    outcome = Redriver(data, lost, "/").redrive(Selection())
    assert (outcome.redriven, dict(outcome.still_unroutable)) == (0, {"no_binding": 10})
    assert set(marks(data).values()) == {None}
    assert len(marks(data)) == 10


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(key="flight.AA"), range(5, 10)),
        (Selection(key="*.UA.#"), range(5)),
        (Selection(reasons=frozenset({"filtered"})), ()),
        (Selection(reasons=frozenset({"no_binding"})), range(10)),
        (Selection(exchange="trains"), ()),
        (Selection(since=datetime(2025, 1, 1, tzinfo=UTC)), range(5, 10)),
        (Selection(until=datetime(2025, 1, 1, tzinfo=UTC)), range(5)),
        (Selection(condition=parse("flight IN ('x') OR flight BETWEEN 3 AND 6", "jms")), range(3, 7)),
        (Selection(key="flight.UA", condition=parse("flight > 2", "jms")), (3, 4)),
    ],
)
def test_only_chosen_rows_are_redriven(data: DataDir, lost: TopologyStore, selection: Selection, expected: Any) -> None:
    lost.edit(repair, author="t")
    counted = summary(data, "/", selection)
    assert counted.rows == len(expected)
    Redriver(data, lost, "/").redrive(selection)
    assert numbers(data, "late") == list(expected)


def unfinished(data: DataDir) -> list[Place]:
    """Redrives that are not finished."""
    folder = place(data.root, "redrives")
    return [folder / name for name in folder.within()]


def test_a_dry_run_counts_and_writes_nothing(data: DataDir, lost: TopologyStore) -> None:
    lost.edit(repair, author="t")
    outcome = Redriver(data, lost, "/").redrive(Selection(), dry_run=True)
    assert (outcome.redriven, outcome.copies, outcome.batches) == (10, 20, [])
    assert numbers(data, "late") == []
    assert set(marks(data).values()) == {None}
    assert unfinished(data) == []


#: Named steps, and every effect that a redrive has on the disk, before and after it.
STEPS = ("redrive.planned", "redrive.marking", "redrive.marked", "redrive.delivered")


@pytest.mark.parametrize("step", STEPS)
def test_a_redrive_that_dies_at_any_step_loses_and_doubles_nothing(
    data: DataDir, lost: TopologyStore, step: str
) -> None:
    lost.edit(repair, author="t")
    with faults.installed(at(step, crash)), pytest.raises(Crash):
        Redriver(data, lost, "/").redrive(Selection(key="flight.UA"))
    # meanwhile the stream goes on, and the topology changes
    route(data, lost, [flight(50, "lost.again")], batch_id=2)
    lost.edit(lambda editor: editor.declare_queue(Queue("/", "later")), author="t")
    Redriver(data, lost, "/").redrive(Selection())
    assert numbers(data, "late") == list(range(10))
    assert numbers(data, "all") == [*range(10), 50]
    assert all(mark is not None for mark in marks(data).values())
    assert unfinished(data) == []
    assert Redriver(data, lost, "/").redrive(Selection()).redriven == 0


class Points:
    """Counts the points that are reached; at one of them, and with `for_ever` at every later one, the disk fails."""

    def __init__(self, failing: int = 0, *, error: Callable[[], BaseException] | None = None, for_ever: bool = False):
        self.reached: list[tuple[str, str]] = []
        self._failing = failing
        self._error = error or (lambda: OSError(errno.ENOSPC, "No space left on device"))
        self._for_ever = for_ever

    def __call__(self, point: str, path: str) -> None:
        if not faults.is_effect(point) or point.startswith("checkpoint"):
            return
        self.reached.append((point, path))
        if len(self.reached) == self._failing or (self._for_ever and 0 < self._failing < len(self.reached)):
            raise self._error()


def points_of(data: DataDir, store: TopologyStore) -> int:
    """How many points a redrive reaches."""
    counted = Points()
    with faults.installed(counted):
        Redriver(data, store, "/").redrive(Selection())
    return len(counted.reached)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["full", "full for ever", "died"])
def test_whatever_effect_of_a_redrive_fails_the_next_one_comes_to_the_same_end(root: str, kind: str) -> None:
    def lost_in(name: str) -> tuple[DataDir, TopologyStore]:
        data = DataDir.open(f"{root}/{name}", create=True)
        store = TopologyStore(data)
        store.create()
        store.edit(declare, author="t")
        route(data, store, [flight(n) for n in range(3)])
        store.edit(repair, author="t")
        return data, store

    failures = 0
    for number in range(1, points_of(*lost_in("counted")) + 1):
        data, store = lost_in(str(number))
        hook = Points(number, error=Crash if kind == "died" else None, for_ever=kind == "full for ever")
        try:
            with faults.installed(hook):
                Redriver(data, store, "/").redrive(Selection())
        except (StorageFailed, Crash):
            failures += 1
        assert summary(data, "/").rows == 3, hook.reached[-1]
        for queue in ("late", "all"):
            assert numbers(data, queue) in ([], [0, 1, 2]), hook.reached[-1]
        Redriver(data, store, "/").redrive(Selection())
        assert numbers(data, "late") == numbers(data, "all") == [0, 1, 2], hook.reached[-1]
        assert all(mark is not None for mark in marks(data).values()), hook.reached[-1]
        left = {plan.suffix for plan in unfinished(data)}
        assert left <= (set() if kind == "full" else {".tmp"}), hook.reached[-1]
    assert failures > 10


KILLED = """
import os, sys
from bindery.store import faults
from bindery.store.actions import RemoveFile
from bindery.store.log import TableLog
from bindery.store.paths import DataDir
from bindery.store.redrive import Redriver
from bindery.store.topology import TopologyStore
from bindery.store.unroutable import Selection

def kill(point, path):
    if point == sys.argv[2] and sys.argv[3] in path:
        os._exit(9)

data = DataDir.open(sys.argv[1])
with faults.installed(kill):
    Redriver(data, TopologyStore(data), "/").redrive(Selection())
"""


@pytest.mark.long
def test_killed_again_and_again_it_still_comes_to_the_same_end(data: DataDir, lost: TopologyStore) -> None:
    lost.edit(repair, author="t")
    for step in (("redrive.planned", ""), ("redrive.marked", ""), ("put.after", "/late/_delta_log"),
                 ("put.before", "/manifest/")):  # fmt: skip
        died = subprocess.run([sys.executable, "-c", KILLED, data.root, *step], check=False, timeout=120)
        assert died.returncode == 9
    Redriver(data, lost, "/").redrive(Selection())
    assert numbers(data, "late") == numbers(data, "all") == list(range(10))


def test_two_redrives_at_once_share_the_rows(data: DataDir, lost: TopologyStore) -> None:
    """The second one begins before the plan of the first is on record, and is through before it is marked."""
    lost.edit(repair, author="t")
    rival = Redriver(data, lost, "/")
    rival.finish = lambda **_: Outcome()  # type: ignore[method-assign]
    other: list[Outcome] = []

    def overtake() -> None:
        other.append(rival.redrive(Selection(key="flight.AA")))

    with faults.installed(at("redrive.marking", overtake)):
        outcome = Redriver(data, lost, "/").redrive(Selection())
    assert outcome.redriven + sum(one.redriven for one in other) == 10
    assert numbers(data, "late") == list(range(10))


@pytest.mark.parametrize("step", STEPS)
def test_a_redrive_that_finishes_the_plan_of_one_that_is_under_way_doubles_nothing(
    data: DataDir, lost: TopologyStore, step: str
) -> None:
    lost.edit(repair, author="t")

    def help_out() -> None:
        Redriver(data, lost, "/").redrive(Selection())

    with faults.installed(at(step, help_out)):
        Redriver(data, lost, "/").redrive(Selection())
    assert numbers(data, "late") == numbers(data, "all") == list(range(10))
    assert unfinished(data) == []


@pytest.mark.parametrize("part", ["/late/_delta_log", "/all/_delta_log", "/manifest/_delta_log"])
def test_a_plan_that_two_deliver_at_the_same_moment_is_delivered_once(
    data: DataDir, lost: TopologyStore, part: str
) -> None:
    lost.edit(repair, author="t")
    helped: list[str] = []

    def hook(point: str, path: str) -> None:
        if point == "put.before" and part in path and not helped:
            helped.append(path)
            Redriver(data, lost, "/").redrive(Selection())

    with faults.installed(hook):
        outcome = Redriver(data, lost, "/").redrive(Selection())
    assert helped
    assert (outcome.redriven, outcome.copies) == (10, 20)
    assert numbers(data, "late") == numbers(data, "all") == list(range(10))


def test_a_plan_that_a_later_one_has_overtaken_is_made_again(data: DataDir, lost: TopologyStore) -> None:
    """The tables would skip what has a lower number than the newest batch that they know."""
    lost.edit(repair, author="t")
    rival = Redriver(data, lost, "/")
    rival.finish = lambda **_: Outcome()  # type: ignore[method-assign]

    def overtake() -> None:
        rival.redrive(Selection(key="flight.AA"))

    with faults.installed(at("redrive.planned", overtake)):
        outcome = Redriver(data, lost, "/").redrive(Selection(key="flight.UA"))
    assert (outcome.redriven, len(outcome.batches)) == (5, 1)
    assert numbers(data, "late") == numbers(data, "all") == list(range(10))


def test_an_earlier_plan_is_delivered_before_a_later_one(data: DataDir, lost: TopologyStore) -> None:
    """Tables remember the newest batch of a stream only: what came later would be skipped."""
    lost.edit(repair, author="t")
    rival = Redriver(data, lost, "/")
    rival.finish = lambda **_: Outcome()  # type: ignore[method-assign]

    def overtake() -> None:
        rival.redrive(Selection(key="flight.AA"))

    with faults.installed(at("redrive.marked", overtake)):
        Redriver(data, lost, "/").redrive(Selection(key="flight.UA"))
    assert numbers(data, "late") == numbers(data, "all") == list(range(10))


def test_a_queue_deleted_in_between_gives_its_rows_back(data: DataDir, lost: TopologyStore) -> None:
    lost.edit(lambda editor: editor.bind(Binding(0, "/", "flights", "late", routing_key="flight.UA")), author="t")
    with faults.installed(at("redrive.marked", crash)), pytest.raises(Crash):
        Redriver(data, lost, "/").redrive(Selection())
    lost.edit(lambda editor: editor.delete_queue("/", "late"), author="t")
    outcome = Redriver(data, lost, "/").redrive(Selection())
    assert outcome.redriven == 0
    assert set(marks(data).values()) == {None}
    assert dict(outcome.still_unroutable) == {"no_binding": 10}


def test_many_rows_go_in_several_rounds(data: DataDir, lost: TopologyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redrive_module, "MAX_ROWS", 3)
    lost.edit(repair, author="t")
    outcome = Redriver(data, lost, "/").redrive(Selection())
    assert outcome.redriven == 10
    assert len(outcome.batches) == 2  # a file's rows stay together
    assert numbers(data, "late") == list(range(10))


def test_a_redrive_ends_though_rows_keep_coming(
    data: DataDir, lost: TopologyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redrive_module, "MAX_ROWS", 1)
    lost.edit(lambda editor: editor.bind(Binding(0, "/", "flights", "late", routing_key="flight.#")), author="t")
    rounds: list[int] = []

    def another(point: str, _path: str) -> None:
        if point == "redrive.delivered":
            rounds.append(len(rounds))
            lose_again(data, lost, 100 + len(rounds))

    with faults.installed(another):
        outcome = Redriver(data, lost, "/").redrive(Selection())
    assert outcome.redriven >= 10
    assert len(rounds) <= 10, "as many rows as there were at the start, in portions of one file each"


def lose_again(data: DataDir, store: TopologyStore, batch: int) -> None:
    """One more flight is unroutable, though it would be routed now."""
    before = store.load(version=lost_version(data))
    route(data, _Frozen(before), [flight(batch)], batch_id=batch)  # type: ignore[arg-type]


def lost_version(data: DataDir) -> int:
    rows = DeltaTable(data.unroutable("/")).to_pyarrow_table(columns=["routing"]).to_pylist()
    return int(min(row["routing"]["topology_version"] for row in rows))


class _Frozen:
    """A topology that stays as it was."""

    def __init__(self, topology: Any) -> None:
        self._topology = topology

    def load(self, *, version: int | None = None) -> Any:
        assert version is None
        return self._topology


def test_a_redrive_whose_rows_others_take_away_gives_up(
    data: DataDir, lost: TopologyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost.edit(repair, author="t")
    plans: list[str] = []
    monkeypatch.setattr(Marks, "set", lambda _marks: False)
    with (
        faults.installed(lambda point, path: plans.append(path) if point == "redrive.planned" else None),
        pytest.raises(CommitConflict, match="redrove nothing"),
    ):
        Redriver(data, lost, "/").redrive(Selection())
    assert len(plans) == redrive_module.IDLE_ROUNDS
    assert unfinished(data) == []


def test_a_redrive_stops_at_the_next_portion_when_it_is_told_to(
    data: DataDir, lost: TopologyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redrive_module, "MAX_ROWS", 1)
    lost.edit(repair, author="t")
    delivered: list[str] = []
    with (
        faults.installed(lambda point, path: delivered.append(path) if point == "redrive.delivered" else None),
        pytest.raises(Stopped),
    ):
        Redriver(data, lost, "/").redrive(Selection(), stop=lambda: bool(delivered))
    assert len(delivered) == 1
    assert numbers(data, "late") == list(range(5))
    with pytest.raises(Stopped):
        summary(data, "/", stop=lambda: True)
    Redriver(data, lost, "/").redrive(Selection())
    assert numbers(data, "late") == list(range(10))


# -- rows that are told apart -----------------------------------------------------------------------------


@pytest.fixture
def again(data: DataDir, store: TopologyStore) -> TopologyStore:
    """Four publishers that all begin with batch 0 and number 0, two of them with the same messages at the same time."""
    store.edit(declare, author="t")
    for epoch, flights in enumerate(([1, 2], [3, 4], [5, 6], [5, 6])):
        clock = 1_700_000_000_000 + 1000 * (epoch == 0)
        route(data, store, [flight(n) for n in flights], stream="api", app_id=f"api:{epoch}", clock_ms=clock)
    return store


@pytest.mark.parametrize("most", [200_000, 1])
@pytest.mark.parametrize("compacted", [False, True])
def test_rows_whose_identity_occurs_again_are_each_redriven_once(
    data: DataDir, again: TopologyStore, monkeypatch: pytest.MonkeyPatch, most: int, compacted: bool
) -> None:
    monkeypatch.setattr(redrive_module, "MAX_ROWS", most)
    again.edit(repair, author="t")
    with faults.installed(at("redrive.marking", lambda: merge_unroutable(data) if compacted else None)):
        Redriver(data, again, "/").redrive(Selection(condition=parse("flight <> 4", "jms")))
    assert numbers(data, "late") == numbers(data, "all") == [1, 2, 3, 5, 5, 6, 6]
    rows = DeltaTable(data.unroutable("/")).to_pyarrow_table().to_pylist()
    unmarked = [dict(row["application_properties"])["flight"]["int"] for row in rows if row["redriven"] is None]
    assert unmarked == [4]
    assert Redriver(data, again, "/").redrive(Selection()).redriven == 1
    assert numbers(data, "late") == [1, 2, 3, 4, 5, 5, 6, 6]


def test_a_row_that_another_redrive_has_taken_is_not_mistaken_for_its_double(
    data: DataDir, again: TopologyStore
) -> None:
    again.edit(repair, author="t")
    rival = Redriver(data, again, "/")
    rival.finish = lambda **_: Outcome()  # type: ignore[method-assign]

    def overtake() -> None:
        rival.redrive(Selection(condition=parse("flight = 3", "jms")))

    with faults.installed(at("redrive.planned", overtake)):
        Redriver(data, again, "/").redrive(Selection(condition=parse("flight = 3", "jms")))
    assert numbers(data, "late") == [3]


def merge_unroutable(data: DataDir) -> None:
    """All unroutable rows in one file, in the order in which they are read, as maintenance leaves them."""
    log = TableLog(data.unroutable("/"), files=True)
    files = dict(log.files or {})
    rows = pa.concat_tables([place(log.path, name).read_parquet(UNROUTABLE_SCHEMA) for name in files])
    added = data_files.write_file(log.path, rows, prefix="compact")
    log.commit([added, *(RemoveFile(name, file.size, data_change=False) for name, file in files.items())])


def test_plans_find_their_rows_in_a_table_that_was_compacted(data: DataDir, lost: TopologyStore) -> None:
    lost.edit(repair, author="t")
    with faults.installed(at("redrive.planned", crash)), pytest.raises(Crash):
        Redriver(data, lost, "/").redrive(Selection(key="flight.UA"))
    merge_unroutable(data)
    assert Redriver(data, lost, "/").finish().redriven == 5
    assert numbers(data, "late") == list(range(5))


# -- beside writers ---------------------------------------------------------------------------------------


def test_beside_publishers_that_never_pause_each_file_is_rewritten_once(data: DataDir, lost: TopologyStore) -> None:
    lost.edit(repair, author="t")
    written: list[str] = []
    published = Counter[str]()
    done = threading.Event()

    def note(point: str, path: str) -> None:
        if point == "write.before" and "/redrive-" in path:
            written.append(path)
        if point == "redrive.marking":
            published["marking"] += 1

    def publish(name: str) -> None:
        while not done.is_set():
            route(data, lost, [Message("flights", "lost.again")], stream=name, batch_id=published[name])
            published[name] += 1

    with ThreadPoolExecutor(2) as pool, faults.installed(note):
        publishing = [pool.submit(publish, name) for name in ("one", "other")]
        try:
            outcome = Redriver(data, lost, "/").redrive(Selection(key="flight.#"))
        finally:
            done.set()
        for one in publishing:
            one.result()
    assert outcome.redriven == 10
    assert len(written) == 2, "the two files that held the rows"
    assert numbers(data, "late") == list(range(10))
    assert summary(data, "/").rows == 10 + published["one"] + published["other"]


def test_a_redrive_that_loses_every_race_but_the_last_looks_at_new_files_only(
    data: DataDir, lost: TopologyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost.edit(repair, author="t")
    looked: list[str] = []
    racing = [False]
    batch = iter(range(2, 12))
    look = RowBag.look

    def counted(bag: RowBag, path: str, name: str, schema: pa.Schema) -> Any:
        looked.append(name)
        return look(bag, path, name, schema)

    def append(point: str, path: str) -> None:
        if point == "put.before" and data.unroutable("/") in path and not racing[0]:
            racing[0] = True
            number = next(batch, None)
            if number is not None:
                route(data, lost, [Message("flights", "lost.again")], batch_id=number, clock_ms=1_750_000_000_000)
            racing[0] = False

    monkeypatch.setattr(RowBag, "look", counted)
    with faults.installed(append):
        assert Redriver(data, lost, "/").redrive(Selection(key="flight.#")).redriven == 10
    assert next(batch, None) is None
    assert len(looked) == len(set(looked)) == 12


# -- what is left behind ----------------------------------------------------------------------------------


def test_what_redrives_leave_in_logs_does_not_grow_with_their_number(data: DataDir, lost: TopologyStore) -> None:
    lost.edit(repair, author="t")

    def applications() -> set[str]:
        paths = [data.unroutable("/"), data.queue("/", "late"), data.manifest, data.streams]
        entries = [line for path in paths for line in read_log(path)]
        return {entry["txn"]["appId"] for entry in entries if "txn" in entry}

    Redriver(data, lost, "/").redrive(Selection(condition=parse("flight = 0", "jms")))
    before = applications()
    for number in range(1, 4):
        Redriver(data, lost, "/").redrive(Selection(condition=parse(f"flight = {number}", "jms")))
    assert numbers(data, "late") == [0, 1, 2, 3]
    assert applications() == before
    assert set(ManifestTotals(data.manifest).totals().batches) == {"flights", "redrive:/"}
    assert len(place(data.pins("redrive:/")).files()) <= 2


def read_log(path: str) -> list[dict[str, Any]]:
    log = place(path, "_delta_log")
    entries = [(log / name).read() or b"" for name in log.files() if name.endswith(".json")]
    return [json.loads(line) for entry in entries for line in entry.splitlines()]


def test_plans_that_cannot_be_read_are_named(data: DataDir, lost: TopologyStore) -> None:
    lost.edit(repair, author="t")
    with faults.installed(at("redrive.planned", crash)), pytest.raises(Crash):
        Redriver(data, lost, "/").redrive(Selection())
    (plan,) = unfinished(data)
    plan.replace((plan.read() or b"")[:-100])
    with pytest.raises(UnsupportedTable, match=f"damaged redrive plan {plan}"):
        Redriver(data, lost, "/").redrive(Selection())
    plan.remove()
    (plan.parent / "00001700000000-abcdef" / "plan.json").parent.make_folder()
    (plan.parent / "00001700000000-abcdef" / "plan.json").replace(b"{}")
    with pytest.raises(UnsupportedTable, match="older version"):
        Redriver(data, lost, "/").redrive(Selection())


def test_a_table_from_before_the_mark_grows_the_column(data: DataDir, store: TopologyStore) -> None:
    columns = UNROUTABLE_SCHEMA.remove(UNROUTABLE_SCHEMA.get_field_index("redriven"))
    tables.create_table(data.unroutable("/"), replace(tables.UNROUTABLE, schema=columns), vhost="/")
    store.edit(declare, author="t")
    route(data, store, [flight(1)])
    store.edit(repair, author="t")
    assert Redriver(data, store, "/").redrive(Selection()).redriven == 1
    assert numbers(data, "late") == [1]


def test_rows_that_hold_no_message_are_refused(data: DataDir, lost: TopologyStore) -> None:
    with pytest.raises(InvalidInput, match="hold no message"):
        Redriver(data, lost, "/").redrive(Selection(reasons=frozenset({"invalid_record"})))
    with pytest.raises(InvalidInput, match="unknown reason"):
        Selection(reasons=frozenset({"lost"}))
    with pytest.raises(InvalidInput, match="time zone"):
        Selection(since=datetime(2025, 1, 1))
    with pytest.raises(NotFound):
        Redriver(data, lost, "other")


def test_a_vhost_without_unroutable_rows(data: DataDir, store: TopologyStore) -> None:
    assert Redriver(data, store, "/").redrive(Selection()).redriven == 0
    assert summary(data, "/").rows == 0


def test_the_summary_counts_by_reason_and_key(data: DataDir, lost: TopologyStore) -> None:
    lost.edit(repair, author="t")
    Redriver(data, lost, "/").redrive(Selection(condition=parse("flight < 2", "jms")))
    found = summary(data, "/", top=1).as_data()
    assert (found["rows"], found["redriven"]) == (10, 2)
    assert found["reasons"] == [{"reason": "no_binding", "disposition": "discarded", "rows": 8}]
    assert found["keys"] == [{"exchange": "flights", "routing_key": "flight.AA", "reason": "no_binding", "rows": 5}]
    assert found["distinct_keys"] == 2
    assert found["first"].startswith("2023-11-14T22:13:20")


# -- what only a journal has ------------------------------------------------------------------------------


@pytest.fixture
def counted(data: DataDir, store: TopologyStore) -> TopologyStore:
    """Five flights that are counted only, and two of which somebody has deleted the rows; the journal has all."""

    def declare_counting(editor: TopologyEditor) -> None:
        declare(editor)
        editor.declare_exchange(Exchange("/", "quiet", "topic", arguments=Table({"x-record-unroutable": False})))

    store.edit(declare_counting, author="t")
    quiet = [replace(flight(n), exchange="quiet") for n in range(5)]
    route(data, store, [*quiet, flight(5), flight(6, key="flight.AA")], journal=True, clock_ms=1_700_000_000_000)
    DeltaTable(data.unroutable("/")).delete("routing_key = 'flight.AA'")
    return store


def repair_both(editor: TopologyEditor) -> None:
    repair(editor)
    editor.bind(Binding(0, "/", "quiet", "late", routing_key="flight.#"))


def test_what_only_a_journal_has_is_redriven_once_and_marked(data: DataDir, counted: TopologyStore) -> None:
    counted.edit(repair_both, author="t")
    redriver = Redriver(data, counted, "/")
    for journals, reached in ((False, 1), (True, 7)):
        outcome = redriver.redrive(Selection(), journals=journals, dry_run=True)
        assert (outcome.redriven, len(marks(data))) == (reached, 1), "nothing is written"
    assert redriver.redrive(Selection()).redriven == 1
    outcome = redriver.redrive(Selection(), journals=True)
    assert (outcome.redriven, outcome.copies, dict(outcome.queues)) == (6, 7, {"late": 6, "all": 1})
    assert numbers(data, "late") == list(range(7))
    (batch,) = outcome.batches
    marked = marks(data)
    assert [seq for (_, seq), mark in sorted(marked.items()) if mark["batch"] == batch] == [0, 1, 2, 3, 4, 6]
    again = redriver.redrive(Selection(), journals=True)
    assert (again.redriven, len(numbers(data, "late"))) == (0, 7)
    (row,) = [row for row in rows_of_table(data) if row["routing"]["seq"] == 6]
    assert (row["reason"], row["disposition"], row["bcc"]) == ("no_binding", "discarded", ["hidden"])


def rows_of_table(data: DataDir) -> list[dict[str, Any]]:
    return DeltaTable(data.unroutable("/")).to_pyarrow_table().to_pylist()  # type: ignore[no-any-return]


def test_what_reaches_nothing_stays_in_the_journal_alone(data: DataDir, counted: TopologyStore) -> None:
    outcome = Redriver(data, counted, "/").redrive(Selection(), journals=True)
    assert (outcome.redriven, dict(outcome.still_unroutable), len(marks(data))) == (0, {"no_binding": 7}, 1)


@pytest.mark.parametrize(
    ("selection", "redriven"),
    [
        (Selection(exchange="quiet"), 5),
        (Selection(reasons=frozenset({"filtered"})), 0),
        (Selection(since=datetime(2025, 1, 1, tzinfo=UTC)), 0),
        (Selection(until=datetime(2025, 1, 1, tzinfo=UTC)), 7),
        (Selection(condition=parse("flight > 3", "jms")), 3),
        (Selection(key="train.#"), 0),
    ],
)
def test_a_selection_holds_for_journals(
    data: DataDir, counted: TopologyStore, selection: Selection, redriven: int
) -> None:
    counted.edit(repair_both, author="t")
    assert Redriver(data, counted, "/").redrive(selection, journals=True).redriven == redriven


def test_a_batch_that_has_not_ended_appends_its_rows_itself(data: DataDir, store: TopologyStore) -> None:
    store.edit(declare, author="t")
    sent = [flight(n) for n in range(3)]
    route(data, store, sent, batch_id=0, journal=True)
    with faults.installed(at("batch.in_tables", crash)), pytest.raises(Crash):
        route(data, store, [flight(9)], batch_id=1, journal=True)
    DeltaTable(data.unroutable("/")).delete()  # as if its rows were not there yet

    def missing() -> list[tuple[int, int]]:
        rows = [row for found in MissingRows(data, "/").chosen(Selection()) for row in found["routing"].to_pylist()]
        return sorted((row["batch_id"], row["seq"]) for row in rows)

    assert missing() == [(0, 0), (0, 1), (0, 2)]
    route(data, store, [flight(9)], batch_id=1, journal=True)
    assert missing() == [(0, 0), (0, 1), (0, 2), (1, 0)]


def test_two_redrives_that_put_back_at_once_do_it_once(data: DataDir, counted: TopologyStore) -> None:
    counted.edit(repair_both, author="t")
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda _: Redriver(data, counted, "/").redrive(Selection(), journals=True), range(4))
        assert sum(outcome.redriven for outcome in found) == 7
    assert numbers(data, "late") == list(range(7))
    assert len(marks(data)) == 7


@pytest.mark.parametrize("effect", range(1, 9))
def test_a_redrive_from_a_journal_that_dies_is_ended_by_the_next_one(
    data: DataDir, counted: TopologyStore, effect: int
) -> None:
    """At every step of putting back and of what follows at once."""
    counted.edit(repair_both, author="t")
    reached = 0

    def hook(name: str, path: str) -> None:
        nonlocal reached
        if faults.is_effect(name) or name == "redrive.put_back":
            reached += 1
            if reached == effect:
                raise Crash

    with faults.installed(hook), pytest.raises(Crash):
        Redriver(data, counted, "/").redrive(Selection(), journals=True)
    Redriver(data, counted, "/").redrive(Selection(), journals=True)
    assert numbers(data, "late") == list(range(7))
    assert len(rows_of_table(data)) == 7


def test_put_back_rows_are_found_among_those_of_the_table_whoever_is_faster(
    data: DataDir, counted: TopologyStore
) -> None:
    counted.edit(repair_both, author="t")
    slow, fast = MissingRows(data, "/"), MissingRows(data, "/")
    (rows,) = slow.chosen(Selection())
    assert fast.put_back(rows.slice(0, 4)) == 4
    assert slow.put_back(rows) == 2
    assert fast.put_back(rows) == 0
    assert len(marks(data)) == 7
