"""Deferred queues: their copies wait in journals, and reach their tables exactly once."""

from __future__ import annotations

import errno
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from bindery.router.declarations import TopologyEditor
from bindery.router.errors import InvalidDeclaration, StorageFailed
from bindery.router.freshness import FreshnessOf
from bindery.router.message import QUEUE_SCHEMA, Message
from bindery.router.model import Queue, Setting
from bindery.router.policies import OPERATOR_POLICY, POLICY
from bindery.router.values import Table
from bindery.store import deferred, effects, faults, tables
from bindery.store.deferred import flushing, pacing
from bindery.store.deferred.tail import BOUNDS, Bounds
from bindery.store.deferred.waiting import flushed_through
from bindery.store.journal_files import NEVER, Journal, materialised_through
from bindery.store.maintenance import maintain
from bindery.store.maintenance.journals import Kept, keep_journal
from bindery.store.maintenance.policy import Policy
from bindery.store.paths import DataDir
from bindery.store.places import at as place
from bindery.store.topology import TopologyStore
from tests.examples import FACTOR
from tests.unit.store.conftest import Crash, crash
from tests.unit.store.conftest import at as reached
from tests.unit.store.routed import route

#: A commit for each batch; and messages in temporary files, of one row each.
SMALL = Bounds(stretch=1)
SPILLED = Bounds(memory=1, part=1, file=1)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def declare(store: TopologyStore, **freshness: int) -> None:
    """Queues by name, with seconds, 0 for those that have their copies at once; all bound to amq.fanout."""

    def change(editor: TopologyEditor) -> None:
        for name, seconds in freshness.items():
            arguments = Table({"x-freshness": seconds}) if seconds else Table()
            editor.declare_queue(Queue("/", name, arguments=arguments))

    store.edit(change, author="t")


def rows(data: DataDir, queue: str) -> list[dict[str, Any]]:
    path = data.queue("/", queue)
    found: list[dict[str, Any]] = []
    for file in tables.files_of(tables.TableLog(path, files=True)):
        found += place(path, file).read_parquet(QUEUE_SCHEMA).to_pylist()
    return sorted(found, key=number)


def number(row: dict[str, Any]) -> tuple[int, int]:
    return row["routing"]["batch_id"], row["routing"]["seq"]


def journal(data: DataDir) -> Journal:
    return Journal.open(data.journal("flights"))


def test_copies_wait_and_are_then_those_of_an_immediate_queue(data: DataDir, store: TopologyStore) -> None:
    declare(store, late=60, now=0)
    bodies = [Message("", "late", cc=("now",), bcc=("x",), application_properties=Table({"n": n})) for n in range(9)]
    for batch_id in range(3):
        route(data, store, bodies[3 * batch_id : 3 * batch_id + 3], batch_id=batch_id)
    assert (rows(data, "late"), len(rows(data, "now"))) == ([], 9)
    done = deferred.materialise(data, store, journal(data))
    assert (done.queues, done.copies, done.through, done.failed) == (["late"], 9, 2, {})
    assert rows(data, "late") == rows(data, "now")
    assert flushed_through(tables.TableLog(data.queue("/", "late")), "flights") == 2
    again = deferred.materialise(data, store, journal(data))
    assert (again.queues, again.copies) == ([], 0)
    assert len(rows(data, "late")) == 9


def waiting(data: DataDir, store: TopologyStore, queue: str) -> list[dict[str, Any]]:
    """What a queue's table will have, and has not."""
    log = tables.TableLog(data.queue("/", queue))
    queue_id = store.load().queue("/", queue).id
    found = [row for batch in deferred.waiting_rows(journal(data), log, queue_id) for row in batch.to_pylist()]
    return sorted(found, key=number)


def all_rows(data: DataDir, store: TopologyStore, queue: str) -> list[dict[str, Any]]:
    return sorted(rows(data, queue) + waiting(data, store, queue), key=number)


class Twins(RuleBasedStateMachine):
    """Deferred queues, each beside an immediate one that gets the same: at every moment they hold the same rows.

    Rows of the deferred one stand in its table or wait in the journal, never in both.
    """

    names = ("a", "b", "c")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.data = DataDir.open(self.folder.name, create=True)
        self.store = TopologyStore(self.data)
        self.store.create()
        self.batch = 0
        self.there: set[str] = set()
        for name in self.names:
            self.declare(name)

    def teardown(self) -> None:
        self.folder.cleanup()

    @rule(name=st.sampled_from(names))
    def declare(self, name: str) -> None:
        declare(self.store, **{name: 60, f"{name}.now": 0})
        self.there.add(name)

    @rule(name=st.sampled_from(names))
    def delete(self, name: str) -> None:
        def change(editor: TopologyEditor) -> None:
            for each in (name, f"{name}.now"):
                if ("/", each) in editor.topology.queues:
                    editor.delete_queue("/", each)

        self.store.edit(change, author="t")
        self.there.discard(name)

    @rule(back=st.integers(1, 3))
    def roll_back(self, back: int) -> None:
        version = max(1, self.store.load().version - back)
        topology = self.store.rollback(version, author="t").topology
        self.there = {name for vhost, name in topology.queues if "." not in name}

    @rule(keys=st.lists(st.sets(st.sampled_from(names)), max_size=4), pinned=st.booleans())
    def route(self, keys: list[set[str]], pinned: bool) -> None:
        """A batch; one that is `pinned` was so before a queue was deleted and declared again."""
        messages = [
            Message("", "nowhere", cc=tuple(each for name in sorted(some) for each in (name, f"{name}.now")))
            for some in keys
        ]
        change = (lambda: (self.delete("a"), self.declare("a"))) if pinned else None
        route(self.data, self.store, messages, batch_id=self.batch, journal=True, meanwhile=change)
        self.batch += 1

    @rule(some=st.sets(st.sampled_from(names)), bounds=st.sampled_from([BOUNDS, SMALL, SPILLED]), stop=st.booleans())
    def flush(self, some: set[str], bounds: Bounds, stop: bool) -> None:
        if not tables.exists(self.data.journal("flights")):
            return
        topology = self.store.load()
        ids = frozenset(queue.id for (_, name), queue in topology.queues.items() if name in some)
        done = deferred.materialise(
            self.data,
            self.store,
            journal(self.data),
            only=ids,
            bounds=bounds,
            between=lambda _: not stop,
        )
        assert not done.failed

    @rule(point=st.sampled_from(["flush.appending", "flush.appended", "write.after", "put.after"]))
    def flusher_dies(self, point: str) -> None:
        if tables.exists(self.data.journal("flights")):
            with suppress(Crash), faults.installed(reached(point, crash)):
                deferred.materialise_now(self.store, journal(self.data))

    @rule()
    def everything(self) -> None:
        if tables.exists(self.data.journal("flights")):
            done = deferred.materialise_now(self.store, journal(self.data))
            assert not journal(self.data).waiting(), done

    @rule(name=st.sampled_from(names))
    def one(self, name: str) -> None:
        if name in self.there:
            moved = deferred.materialise_queue(self.data, self.store, "/", name)
            assert moved >= 0
            assert rows(self.data, name) == rows(self.data, f"{name}.now")

    @rule()
    def compact(self) -> None:
        maintain(self.data, Policy(fan_in=2, retention=timedelta(0), shortest=timedelta(0)))

    @rule(name=st.sampled_from(names), seconds=st.sampled_from([0, 5]))
    def policy(self, name: str, seconds: int) -> None:
        value = Table(
            {"pattern": f"^{name}$", "definition": Table({"freshness": seconds}), "apply-to": "queues", "priority": 0}
        )
        self.store.edit(lambda editor: editor.put_setting(Setting(POLICY, "/", name, value)), author="t")

    @invariant()
    def nothing_is_lost_or_doubled(self) -> None:
        for name in self.there:
            if tables.exists(self.data.journal("flights")):
                assert all_rows(self.data, self.store, name) == rows(self.data, f"{name}.now")


def test_a_deferred_queue_is_its_immediate_twin_at_every_moment() -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Twins,
        settings=settings(
            max_examples=max(1, round(20 * FACTOR)),
            stateful_step_count=14,
            deadline=None,
            phases=[Phase.explicit, Phase.generate],  # to shrink takes many times as long as to read it
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_what_waited_for_a_deleted_queue_does_not_come_back_with_it(data: DataDir, store: TopologyStore) -> None:
    """As the rows of an immediate queue do not: a queue that a rollback brings back has its id, and is empty."""
    declare(store, late=60)
    before = store.load()
    route(data, store, [Message("", "late")])
    store.edit(lambda editor: editor.delete_queue("/", "late"), author="t")
    store.rollback(before.version, author="t")
    assert store.load().queue("/", "late").id == before.queue("/", "late").id
    assert all_rows(data, store, "late") == []
    assert deferred.materialise_now(store, journal(data)).copies == 0
    route(data, store, [Message("", "late")], batch_id=1)
    assert len(all_rows(data, store, "late")) == 1


@pytest.mark.parametrize("point", ["write.after", "flush.appending", "flush.appended"])
def test_of_two_flushers_one_brings_each_copy(data: DataDir, store: TopologyStore, point: str) -> None:
    declare(store, late=60, later=60)
    route(data, store, [Message("", "late", cc=("later",))] * 3)

    def rival() -> None:
        assert not deferred.materialise_now(store, journal(data)).failed

    with faults.installed(reached(point, rival, where=data.queue("/", "late"))):
        done = deferred.materialise_now(store, journal(data))
    assert not done.failed
    assert [len(rows(data, name)) for name in ("late", "later")] == [3, 3]
    files = set(tables.files_of(tables.TableLog(data.queue("/", "late"), files=True)))
    left = {name for name in place(data.queue("/", "late")).files() if name.endswith(".parquet")}
    assert left == files, "the file of the slower one is removed"


def test_a_queue_declared_again_while_it_is_flushed_stays_empty(data: DataDir, store: TopologyStore) -> None:
    declare(store, late=60)
    route(data, store, [Message("", "late")])

    def again() -> None:
        store.edit(lambda editor: editor.delete_queue("/", "late"), author="t")
        declare(store, late=60)

    with faults.installed(reached("flush.appending", again)):
        deferred.materialise_now(store, journal(data))
    assert all_rows(data, store, "late") == []


def test_pieces_end_between_batches_however_files_were_merged(data: DataDir, store: TopologyStore) -> None:
    declare(store, late=60)
    for number, rows_ in enumerate((1, 40, 1, 1)):
        route(data, store, [Message("", "late")] * rows_, batch_id=number)
    maintain(data, Policy(fan_in=3))
    spans = [(one.first, one.last) for one in journal(data).waiting()]
    assert spans == [(0, 3), (1, 1)], "files of one order of size are merged, over the batch between them"
    done = deferred.materialise(data, store, journal(data), bounds=SMALL)
    assert (done.copies, len(rows(data, "late"))) == (43, 43)


def test_one_damaged_table_keeps_no_other_queue_waiting(data: DataDir, store: TopologyStore) -> None:
    declare(store, good=60, late=60)
    route(data, store, [Message("", "late", cc=("good",))])
    log = place(data.queue("/", "late"), "_delta_log", "0" * 20 + ".json")
    whole = log.read()
    assert whole is not None
    effects.replace(log, b"{")
    done = deferred.materialise_now(store, journal(data))
    assert list(done.failed) == [store.load().queue("/", "late").id]
    assert (done.queues, materialised_through(journal(data).log)) == (["good"], NEVER)
    effects.replace(log, whole)
    assert deferred.materialise_now(store, journal(data)).queues == ["late"]
    assert materialised_through(journal(data).log) == 0


def test_a_stream_does_not_end_well_while_a_table_cannot_be_written(data: DataDir, store: TopologyStore) -> None:
    declare(store, good=60, late=60)
    route(data, store, [Message("", "late", cc=("good",))])
    effects.replace(place(data.queue("/", "late"), "_delta_log", "0" * 20 + ".json"), b"{")
    flushing = deferred.Flushing(data, "flights", "/")
    with pytest.raises(StorageFailed, match=r"1 queue could not get what waits .* 'flights': late: "):
        flushing.finish()
    assert len(rows(data, "good")) == 1


def no_room() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_table_that_missed_a_stretch_gets_none_that_is_later(data: DataDir, store: TopologyStore) -> None:
    declare(store, a=60, b=60)
    for batch_id in range(3):
        route(data, store, [Message("", "a", cc=("b",))] * 3, batch_id=batch_id)
    with faults.installed(reached("write.before", no_room, where="/a/flush-")):
        if place(data.root).is_remote:  # what is put at the same time fails together
            with pytest.raises(StorageFailed):
                deferred.materialise(data, store, journal(data), bounds=SMALL)
        else:
            done = deferred.materialise(data, store, journal(data), bounds=SMALL)
            assert (len(done.failed), len(rows(data, "a")), len(rows(data, "b"))) == (1, 0, 9)
    assert not deferred.materialise(data, store, journal(data)).failed
    assert (len(rows(data, "a")), len(rows(data, "b"))) == (9, 9)


def test_the_second_file_of_a_queue_that_fails_harms_no_other(data: DataDir, store: TopologyStore) -> None:
    declare(store, a=60, b=60)
    route(data, store, [Message("", "a", cc=("b",))] * 3)
    with faults.installed(reached("write.before", no_room, where="/a/flush-", number=2)):
        if place(data.root).is_remote:
            with pytest.raises(StorageFailed):
                deferred.materialise(data, store, journal(data), bounds=SPILLED)
            return
        done = deferred.materialise(data, store, journal(data), bounds=SPILLED)
    assert (done.queues, len(done.failed), len(rows(data, "a")), len(rows(data, "b"))) == (["b"], 1, 0, 3)
    assert not [name for name in place(data.queue("/", "a")).files() if name.startswith("flush-")]


def test_a_queue_declared_while_a_flush_begins_is_waited_for(
    data: DataDir, store: TopologyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal may then have copies of a queue that was in no class when it was looked at."""
    declare(store, early=1)
    route(data, store, [Message("", "early")])
    opened = Journal.open
    meanwhile = iter([False, True])  # for the first class is looked at which queues there are, then the journal

    def late(path: str) -> Journal:
        if next(meanwhile, False):
            declare(TopologyStore(data), late=1)
            route(data, TopologyStore(data), [Message("", "late")], batch_id=1)
        return opened(path)

    monkeypatch.setattr(pacing.Journal, "open", late)
    with deferred.Flushing(data, "flights", "/"):
        until(lambda: materialised_through(opened(data.journal("flights")).log) == 1)
    assert (len(rows(data, "early")), len(rows(data, "late"))) == (1, 1)


def test_an_upload_that_failed_is_not_committed(
    data: DataDir, store: TopologyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever puts the next file may be told of it; those that were written before are not there all the same."""
    declare(store, a=60, b=60, c=60)
    route(data, store, [Message("", "a", cc=("b", "c"))] * 3)
    put = effects.ParquetFiles.put

    def slowly(files: effects.ParquetFiles, *arguments: Any) -> None:
        put(files, *arguments)
        time.sleep(0.2)  # for what is on its way to fail

    monkeypatch.setattr(effects.ParquetFiles, "put", slowly)
    with suppress(StorageFailed), faults.installed(reached("write.before", no_room, where="/a/flush-")):
        deferred.materialise(data, store, journal(data))
    deferred.materialise(data, store, journal(data))
    assert [len(rows(data, name)) for name in "abc"] == [3, 3, 3]


def test_queues_that_were_set_aside_get_all_that_waited(
    data: DataDir, store: TopologyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While their flush rests, others go on: what the journal says of all does not run past them."""
    monkeypatch.setattr(pacing, "_ASIDE_SECONDS", 1)
    monkeypatch.setattr(flushing, "_TOGETHER", 1)
    names = [f"q{number}" for number in range(4)]
    declare(store, **dict.fromkeys(names, 1))
    full = True

    def disk(point: str, path: str) -> None:
        if full and point == "write.before" and "/flush-" in path:
            no_room()

    begun = time.monotonic()
    batches = 0
    with faults.installed(disk), deferred.Flushing(data, "flights", "/"):
        while time.monotonic() < begun + 6:
            route(data, store, [Message("", names[0], cc=tuple(names[1:]))], batch_id=batches)
            batches += 1
            full = time.monotonic() < begun + 2
            time.sleep(0.1)
    deferred.materialise(data, store, journal(data))
    assert [len(rows(data, name)) for name in names] == [batches] * 4


def test_a_journal_is_not_trimmed_of_what_waits(data: DataDir, store: TopologyStore) -> None:
    declare(store, late=60, now=0)
    keep_journal(data, "flights", "/", Kept(timedelta(days=1)))
    for number, key in enumerate(("late", "now")):
        route(data, store, [Message("", key)], batch_id=number, clock_ms=1_800_000_000_000)
    later = 1_800_000_000_000 + 10 * 86_400_000
    maintain(data, only=lambda _: True, clock=lambda: later)
    assert [one.first for one in journal(data).waiting()] == [0]
    assert len(tables.files_of(journal(data).log)) == 1, "what nobody waits for is old, and gone"
    deferred.materialise_now(store, journal(data))
    maintain(data, only=lambda _: True, clock=lambda: later)
    assert (len(tables.files_of(journal(data).log)), len(rows(data, "late"))) == (0, 1)


def test_nobody_but_maintenance_need_come_for_a_stream_that_has_ended(data: DataDir, store: TopologyStore) -> None:
    declare(store, late=60)
    route(data, store, [Message("", "late")], clock_ms=1_800_000_000_000)
    for seconds, moved in ((100, 0), (119, 0), (121, 1), (122, 0)):
        done = maintain(data, clock=lambda seconds=seconds: 1_800_000_000_000 + seconds * 1000)
        assert (done.materialised, done.failed) == (moved, [])
    assert deferred.lag_of(journal(data), store.load()).oldest_ms is None


def test_freshness_is_the_lowest_that_is_stated_and_else_the_job_s(store: TopologyStore) -> None:
    declare(store, stated=60, zero=0, silent=0)
    for kind, name, pattern, seconds in ((POLICY, "p", "^stated", 90), (OPERATOR_POLICY, "o", "^zero$", 0)):
        value = Table(
            {"pattern": pattern, "definition": Table({"freshness": seconds}), "apply-to": "queues", "priority": 0}
        )
        store.edit(
            lambda editor, kind=kind, name=name, value=value: editor.put_setting(Setting(kind, "/", name, value)),
            author="t",
        )
    fresh = FreshnessOf(store.load())
    found = {name: fresh(queue, 30) for (_, name), queue in store.load().queues.items()}
    assert found == {"stated": 60, "zero": 0, "silent": 30}


@pytest.mark.parametrize("value", [-1, 86_401, True, "60", 1.5])
def test_what_is_no_freshness_is_refused(store: TopologyStore, value: object) -> None:
    with pytest.raises(InvalidDeclaration, match="x-freshness"):
        store.edit(
            lambda editor: editor.declare_queue(Queue("/", "q", arguments=Table({"x-freshness": value}))), author="t"
        )


def test_a_stream_flushes_beside_its_batches_in_time(data: DataDir, store: TopologyStore) -> None:
    """No queue waits for another's freshness, and what waits when enough bytes do comes at once."""
    declare(store, soon=1, late=80_000)
    with deferred.Flushing(data, "flights", "/") as flushing:
        route(data, store, [Message("", "soon", cc=("late",))])
        flushing.committed(100, copies=2)
        until(lambda: len(rows(data, "soon")) == 1)
        assert rows(data, "late") == []
        flushing.committed(32 << 20, copies=3)
        time.sleep(0.2)
        assert rows(data, "late") == [], "two queues have 96 MiB: files of 48 MiB are not large enough"
        flushing.committed(32 << 20, copies=1)
        until(lambda: len(rows(data, "late")) == 1)
        until(lambda: materialised_through(journal(data).log) == 0)
        route(data, store, [Message("", "late")], batch_id=1)
        flushing.finish()
    assert len(rows(data, "late")) == 2
