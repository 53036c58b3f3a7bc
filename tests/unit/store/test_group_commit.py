from __future__ import annotations

import threading
from concurrent.futures import wait

import pytest

from bindery.router.declarations import TopologyEditor
from bindery.router.errors import BinderyError, InvalidDeclaration, NotFound
from bindery.router.model import Binding, Exchange, Queue, object_key
from bindery.store import faults, tables
from bindery.store.commit import BatchCommitter
from bindery.store.group_commit import GroupCommitter
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from tests.unit.store.conftest import Crash, at, crash, declare_queues, deliver


def hold(committer: GroupCommitter) -> tuple[threading.Event, threading.Event]:
    """Occupy the committer with a request, so that what follows shares the next commit."""
    started, release = threading.Event(), threading.Event()

    def change(_editor: TopologyEditor) -> None:
        started.set()
        assert release.wait(30)

    committer.submit(change, "holder")
    assert started.wait(30)
    return started, release


def test_requests_that_wait_share_one_commit_and_keep_their_order(store: TopologyStore) -> None:
    before = store.load().version
    with GroupCommitter(store) as committer:
        _, release = hold(committer)
        futures = [committer.submit(declare_queues(f"q{n}"), f"user{n % 2}") for n in range(20)]
        ids = [
            committer.submit(lambda e, n=n: e.bind(Binding(0, "/", "amq.direct", f"q{n}"))[0].id, "binder")
            for n in range(20)
        ]
        release.set()
        assert {future.result(30).version for future in futures + ids} == {before + 1}
        assert [future.result().result for future in ids] == list(range(1, 21))
    assert store.history()[0].author == "user0, user1, binder"
    assert len(store.load().bindings) == 20


def test_each_object_has_its_own_author_though_the_commit_has_several(data: DataDir, store: TopologyStore) -> None:
    store.edit(declare_queues("old"), author="before")
    with GroupCommitter(store) as committer:
        _, release = hold(committer)
        committer.submit(declare_queues("a"), "ann")
        committer.submit(lambda e: e.delete_queue("/", "none"), "nobody")
        committer.submit(lambda e: e.bind(Binding(0, "/", "amq.fanout", "a", routing_key="k")), "bob")
        last = committer.submit(declare_queues("a", "b"), "carl")
        release.set()
        last.result(30)
    for known in (store, TopologyStore(data)):
        topology = known.load()
        (binding,) = topology.bindings.values()
        keys = [("queue", "/", "old"), ("queue", "/", "a"), object_key(binding), ("queue", "/", "b")]
        assert [known.author(key) for key in keys] == ["before", "ann", "bob", "carl"]
    assert store.history()[0].author == "ann, nobody, bob, carl"


def test_one_invalid_change_fails_alone(data: DataDir, store: TopologyStore) -> None:
    def half(editor: TopologyEditor) -> None:
        editor.declare_queue(Queue("/", "half"))
        editor.declare_exchange(Exchange("/", "x", "no such type"))

    with GroupCommitter(store) as committer:
        _, release = hold(committer)
        good = committer.submit(declare_queues("q"), "t")
        clean = committer.submit(lambda e: e.delete_queue("/", "none"), "t")
        dirty = committer.submit(half, "t")
        after = committer.submit(lambda e: e.bind(Binding(0, "/", "amq.direct", "q"))[1], "t")
        dependent = committer.submit(lambda e: e.bind(Binding(0, "/", "amq.direct", "half")), "t")
        release.set()
        wait([good, clean, dirty, after, dependent], timeout=30)
    assert isinstance(clean.exception(), NotFound)
    assert isinstance(dirty.exception(), InvalidDeclaration)
    assert isinstance(dependent.exception(), NotFound)
    assert after.result().result is True
    assert good.result().version == after.result().version
    assert store.load().queues.keys() == {("/", "q")}
    assert TopologyStore(data).load() == store.load()


def test_an_answer_comes_after_the_commit_is_durable(data: DataDir, store: TopologyStore) -> None:
    with GroupCommitter(store) as committer:
        edit = committer.submit(declare_queues("q"), "t").result(30)
        assert ("/", "q") in TopologyStore(data).load(version=edit.version).queues


def test_a_queue_deleted_and_declared_by_two_neighbours_is_empty(data: DataDir, store: TopologyStore) -> None:
    version = store.edit(declare_queues("q"), author="t").version
    with BatchCommitter(data, stream="s", app_id="s:1") as batches:
        deliver(data, batches, 0, version, "q")
    with GroupCommitter(store) as committer:
        _, release = hold(committer)
        deleted = committer.submit(lambda e: e.delete_queue("/", "q"), "t")
        declared = committer.submit(declare_queues("q"), "t")
        release.set()
        assert deleted.result(30).version == declared.result(30).version
    assert tables.count_rows(data, "/", "q") == 0


def test_a_commit_that_fails_answers_everyone_and_the_next_one_works(data: DataDir) -> None:
    TopologyStore(data).create()
    with GroupCommitter(TopologyStore(data)) as committer:
        with faults.installed(at("edit.files", crash, times=2)):
            _, release = hold(committer)
            futures = [committer.submit(declare_queues(f"q{n}"), "t") for n in range(3)]
            release.set()
            assert all(isinstance(future.exception(30), Crash) for future in futures)
        committer.submit(declare_queues("q"), "t").result(30)
    assert TopologyStore(data).load().queues.keys() == {("/", "q")}


def test_closing_commits_what_waits_and_refuses_what_comes_later(store: TopologyStore) -> None:
    committer = GroupCommitter(store)
    future = committer.submit(declare_queues("q"), "t")
    committer.close()
    committer.close()
    assert future.result(0).topology.queues.keys() == {("/", "q")}
    with pytest.raises(BinderyError):
        committer.submit(declare_queues("r"), "t")
