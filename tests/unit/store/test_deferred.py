"""Deferred queues: their copies wait in journals, and reach their tables exactly once."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from bindery.router.declarations import TopologyEditor
from bindery.router.message import QUEUE_SCHEMA, Message
from bindery.router.model import Queue, Setting
from bindery.router.policies import POLICY
from bindery.router.values import Table
from bindery.store import deferred, faults, tables
from bindery.store.deferred.waiting import Journal, flushed_through
from bindery.store.maintenance import maintain
from bindery.store.maintenance.policy import Policy
from bindery.store.paths import DataDir
from bindery.store.places import at as place
from bindery.store.topology import TopologyStore
from tests.examples import FACTOR
from tests.unit.store.conftest import Crash, crash
from tests.unit.store.conftest import at as reached
from tests.unit.store.routed import route


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
    return sorted(found, key=lambda row: (row["routing"]["batch_id"], row["routing"]["seq"]))


def journal(data: DataDir) -> Journal:
    return Journal.open(data.journal("flights"))


def test_copies_wait_and_are_then_those_of_an_immediate_queue(data: DataDir, store: TopologyStore) -> None:
    declare(store, late=60, now=0)
    bodies = [Message("", "late", cc=("now",), bcc=("x",), application_properties=Table({"n": n})) for n in range(9)]
    for number in range(3):
        route(data, store, bodies[3 * number : 3 * number + 3], batch_id=number)
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
    number = store.load().queue("/", queue).id
    found = [row for batch in deferred.waiting_rows(journal(data), log, number) for row in batch.to_pylist()]
    return sorted(found, key=lambda row: (row["routing"]["batch_id"], row["routing"]["seq"]))


def all_rows(data: DataDir, store: TopologyStore, queue: str) -> list[dict[str, Any]]:
    return rows(data, queue) + waiting(data, store, queue)


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

    @rule(some=st.sets(st.sampled_from(names)), small=st.booleans(), stop=st.booleans())
    def flush(self, some: set[str], small: bool, stop: bool) -> None:
        if not tables.exists(self.data.journal("flights")):
            return
        topology = self.store.load()
        ids = frozenset(queue.id for (_, name), queue in topology.queues.items() if name in some)
        done = deferred.materialise(
            self.data,
            self.store,
            journal(self.data),
            share=deferred.Share(ids),
            piece_bytes=1 if small else 1 << 20,
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
            suppress_health_check=list(HealthCheck),
        ),
    )
