from __future__ import annotations

import errno
import json
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bindery.router.declarations import TopologyEditor
from bindery.router.errors import (
    BinderyError,
    CommitConflict,
    InequivalentArgument,
    InvalidInput,
    NotFound,
    StorageFailed,
    UnsupportedTable,
)
from bindery.router.model import NO_QUEUE_ID, Binding, Divert, Exchange, Queue, Setting, Topology, Vhost
from bindery.router.model.objects import PARAMETER_PREFIX
from bindery.router.values import Table, Timestamp
from bindery.store import data_files, faults, tables
from bindery.store import topology as topology_module
from bindery.store.commit import BatchCommitter, BatchCounts
from bindery.store.log import TableLog
from bindery.store.objects import ROW_SCHEMA, from_rows, to_rows
from bindery.store.paths import DataDir
from bindery.store.places import LocalPlace
from bindery.store.places import at as place
from bindery.store.read import read_queue
from bindery.store.topology import TopologyStore
from tests.unit.store.conftest import (
    Crash,
    FailingDisk,
    at,
    crash,
    declare_queues,
    deliver,
    queue_rows,
    remove_data_files,
    written,
)

EVERY_TYPE = Table(
    {
        "void": None,
        "flag": True,
        "integer": 2**63 - 1,
        "double": float("inf"),
        "text": "é",
        "binary": b"\x00\xff",
        "time": Timestamp(-(2**62) // 1000),
        "list": (1, 2.5, (None,)),
        "table": Table({"binary": "no type", "n": None}),
        "typed-key": Table({"timestamp": 5}),
    }
)


def fill(editor: TopologyEditor) -> Binding:
    editor.declare_vhost(Vhost("v", "description", ("a", "b"), "classic", tracing=True))
    editor.declare_exchange(Exchange("v", "x", "headers", auto_delete=True, arguments=EVERY_TYPE))
    editor.declare_exchange(Exchange("v", "y", "topic", internal=True, durable=False))
    editor.declare_queue(Queue("v", "q", arguments=EVERY_TYPE))
    editor.declare_divert(Divert(0, "v", "d", "x", "y", "a = 1", exclusive=True, routing_key=""))
    editor.put_setting(Setting(f"{PARAMETER_PREFIX}component", "v", "p", EVERY_TYPE))
    return editor.bind(Binding(0, "v", "x", "y", "exchange", "k", EVERY_TYPE))[0]


# -- states and versions --------------------------------------------------------------------------------


def test_the_first_state_has_the_default_vhost_with_its_predeclared_exchanges(data: DataDir) -> None:
    assert TopologyStore(data).load() == Topology.of([Vhost("/")], version=1)


def test_a_missing_topology_is_named_when_nothing_may_be_created(data: DataDir) -> None:
    place(data.root, "something").replace(b"")  # an object store has no empty folders
    with pytest.raises(UnsupportedTable) as refused:
        TopologyStore(DataDir.open(data.root)).load()
    assert refused.value.where == data.topology


def test_every_object_and_typed_argument_survives_storage(data: DataDir, store: TopologyStore) -> None:
    edit = store.edit(fill, author="t")
    assert edit.result.id == 2  # the divert took 1
    reread = TopologyStore(data).load()
    assert reread == edit.topology
    assert reread.queues["v", "q"].arguments.identity == EVERY_TYPE.identity
    assert reread.bindings_from("v", "x") == [edit.result]
    assert reread.find_binding(edit.result) == edit.result


def test_arguments_are_typed_columns_for_analysts(data: DataDir, store: TopologyStore) -> None:
    store.edit(fill, author="t")
    topology = DeltaTable(data.topology).to_pyarrow_table()
    assert duckdb.sql(
        "SELECT arguments['integer'].int, arguments['binary'].binary, arguments['table'].nested "
        "FROM topology WHERE kind = 'queue'"
    ).fetchall() == [(2**63 - 1, b"\x00\xff", '{"binary":"no type","n":null}')]
    assert len(topology) == len(pl.read_delta(data.topology)) == 7 + 1


def test_one_change_is_one_commit_and_none_is_none(store: TopologyStore) -> None:
    before = store.load().version
    assert store.edit(fill, author="t").version == before + 1
    again = store.edit(fill, author="t")
    assert (again.version, again.result.id) == (before + 1, 2)
    assert store.edit(lambda editor: editor.topology.next_id, author="t").version == before + 1


def test_a_refused_change_changes_nothing(store: TopologyStore) -> None:
    before = store.edit(fill, author="t").topology

    def change(editor: TopologyEditor) -> None:
        editor.declare_queue(Queue("v", "new"))
        editor.declare_queue(Queue("v", "q", durable=False))

    with pytest.raises(InequivalentArgument):
        store.edit(change, author="t")
    assert store.load() is before


def test_the_snapshot_is_shared_while_nothing_changes_and_never_changes_itself(store: TopologyStore) -> None:
    first = store.edit(declare_queues("a"), author="t").topology
    assert store.load() is first
    store.edit(declare_queues("b"), author="t")
    assert ("/", "b") not in first.queues
    assert ("/", "b") in store.load().queues


def test_a_queue_is_found_without_the_rest_of_the_topology(
    data: DataDir, store: TopologyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def declare(editor: TopologyEditor) -> None:
        for vhost in ("/", "other"):
            if vhost != "/":
                editor.declare_vhost(Vhost(vhost))
            for name in ("a", "b"):
                editor.declare_queue(Queue(vhost, name, arguments=Table({"x-freshness": 60, "x-of": vhost})))
        editor.declare_exchange(Exchange("/", "c", "topic"))

    assert TopologyStore(data).queue_of("/", "a") is None, "before the first commit"
    store.edit(declare, author="t")
    store.edit(lambda editor: editor.delete_queue("/", "b"), author="t")
    queues = store.load().queues
    assert sorted(queues) == [("/", "a"), ("other", "a"), ("other", "b")]
    decoded = []
    monkeypatch.setattr(topology_module, "from_rows", lambda rows: decoded.append(rows.num_rows) or from_rows(rows))
    for vhost in ("/", "other", "none"):
        for name in ("a", "b", "c"):
            assert TopologyStore(data).queue_of(vhost, name) == queues.get((vhost, name))
    assert sum(decoded) == len(queues), "no other row is decoded"
    assert [store.queue_of("/", name) for name in ("a", "b")] == [queues["/", "a"], None]


def test_every_version_and_time_resolves_to_its_whole_state(data: DataDir, store: TopologyStore) -> None:
    states = {store.load().version: store.load()}
    times = {}
    for change in (declare_queues("a"), fill, lambda e: e.delete_vhost("v"), declare_queues("b", "c")):
        edit = store.edit(change, author="t")
        states[edit.version] = edit.topology
        times[edit.version] = datetime.now(UTC)
        time.sleep(0.005)
    fresh = TopologyStore(data)
    for version, state in states.items():
        assert fresh.load(version=version) == state
    for version, moment in times.items():
        assert fresh.load(at=moment).version == version
    assert fresh.load(version=0).vhosts.keys() == {"/"}
    with pytest.raises(NotFound):
        fresh.load(version=99)
    with pytest.raises(NotFound):
        fresh.load(at=datetime.now(UTC) - timedelta(days=1))


def test_history_says_who_changed_what_and_why(store: TopologyStore) -> None:
    store.edit(fill, author="ada", reason="import")
    store.edit(lambda e: e.delete_queue("v", "q"), author="bob")
    newest, older = store.history()[:2]
    assert (newest.author, newest.counts) == ("bob", {"deleted": {"queue": 1}})
    assert newest.changes == ({"change": "deleted", "kind": "queue", "vhost": "v", "name": "q"},)
    assert (older.author, older.reason) == ("ada", "import")
    assert older.counts["created"]["exchange"] == 2
    assert newest.timestamp >= older.timestamp


def test_diff_names_objects_created_updated_and_deleted(store: TopologyStore) -> None:
    before = store.edit(fill, author="t").version

    def change(editor: TopologyEditor) -> None:
        editor.delete_queue("v", "q")
        editor.declare_queue(Queue("v", "r"))
        editor.declare_vhost(Vhost("v", "other"))

    after = store.edit(change, author="t").version
    assert {(one.change, *one.key) for one in store.diff(before, after)} == {
        ("deleted", "queue", "v", "q"),
        ("created", "queue", "v", "r"),
        ("updated", "vhost", "v", ""),
    }


def test_rollback_is_a_new_version_with_the_old_ids_and_never_reuses_an_id(data: DataDir, store: TopologyStore) -> None:
    old = store.edit(fill, author="t")
    store.edit(lambda e: e.delete_vhost("v"), author="t")
    store.edit(declare_queues("later"), author="t")
    store.edit(lambda e: e.bind(Binding(0, "/", "amq.direct", "later")), author="t")
    rolled = store.rollback(old.version, author="t")
    assert list(rolled.topology.objects())[:-1] == list(old.topology.objects())[:-1]
    assert rolled.topology.next_id > old.topology.next_id
    assert rolled.version > old.version
    assert TopologyStore(data).load() == rolled.topology
    new = store.edit(lambda e: e.bind(Binding(0, "v", "y", "q"))[0], author="t")
    assert new.result.id == 4


def test_a_rollback_brings_queues_back_with_their_ids_and_leaves_those_that_are_there_theirs(
    store: TopologyStore,
) -> None:
    old = store.edit(declare_queues("gone", "again", "stays"), author="t").topology.queues
    store.edit(lambda e: (e.delete_queue("/", "gone"), e.delete_queue("/", "again")), author="t")
    again = store.edit(declare_queues("again"), author="t")
    assert again.topology.queues["/", "again"].id == 4
    rolled = store.rollback(again.version - 2, author="t")
    assert {name: queue.id for (_, name), queue in rolled.topology.queues.items()} == {
        "gone": old["/", "gone"].id,
        "stays": old["/", "stays"].id,
        "again": 4,  # its rows stay, and are known by it
    }
    assert [one.key for one in rolled.result] == [("queue", "/", "gone")]
    assert store.edit(declare_queues("new"), author="t").topology.queues["/", "new"].id == 5


def test_queues_of_older_versions_get_their_ids_in_a_commit_of_its_own(
    data: DataDir, store: TopologyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(TopologyEditor, "_put_queue", lambda e, q: e._put("queues", (q.vhost, q.name), q))
        before = store.edit(declare_queues("b", "a"), author="t")
    assert {queue.id for queue in TopologyStore(data).load().queues.values()} == {NO_QUEUE_ID}
    numbered = store.give_queue_ids()
    assert {name: queue.id for (_, name), queue in numbered.queues.items()} == {"a": 1, "b": 2}
    assert numbered.version == before.version + 1
    assert store.give_queue_ids() == TopologyStore(data).load() == numbered, "once"
    assert store.rollback(before.version, author="t").version == numbered.version, "nothing is to change"
    store.edit(lambda e: e.delete_queue("/", "a"), author="t")
    assert store.rollback(before.version, author="t").topology.queues["/", "a"].id == 3, "it had none to come back with"


# -- storage layout -------------------------------------------------------------------------------------


def test_commits_read_nothing_back_that_this_process_wrote(
    store: TopologyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[LocalPlace] = []
    read_parquet = LocalPlace.read_parquet
    monkeypatch.setattr(LocalPlace, "read_parquet", lambda place, *a: read.append(place) or read_parquet(place, *a))
    for number in range(3 * topology_module.MERGE_FILES):
        store.edit(lambda e, n=number: e.declare_exchange(Exchange("/", f"e{n}", "topic", True)), author=f"a{number}")
    assert store.edit(lambda e: e.delete_exchange("/", "e7"), author="t")
    assert len(read) <= 1, "the file that the table was created with"
    again = TopologyStore(store.data)
    assert again.load() == store.load()
    assert [again.author(("exchange", "/", f"e{n}")) for n in (0, 7, 40)] == ["a0", None, "a40"]


@pytest.mark.long
def test_files_stay_few_and_changes_rewrite_only_their_files(
    data: DataDir, store: TopologyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topology_module, "FILE_ROWS", 64)
    for start in range(0, 400, 100):
        store.edit(declare_queues(*(f"q{n}" for n in range(start, start + 100))), author="t")
    for number in range(120):
        exchange = Exchange("/", f"x{number}", "direct")
        store.edit(lambda e, exchange=exchange: e.declare_exchange(exchange), author="t")
    before = set(DeltaTable(data.topology).file_uris())
    assert len(before) < 3 * topology_module.MERGE_FILES
    store.edit(lambda e: e.delete_queue("/", "q7"), author="t")
    gone = before - set(DeltaTable(data.topology).file_uris())
    assert len(gone) <= topology_module.MERGE_FILES
    assert sum(pq.read_metadata(path).num_rows for path in gone) < 400
    assert TopologyStore(data).load() == store.load()
    assert len(pl.read_delta(data.topology)) == 1 + 400 + 120 - 1


NAMES = st.sampled_from(["a", "b", "c"])
CHANGES = st.one_of(
    st.tuples(st.just("queue"), NAMES),
    st.tuples(st.just("exchange"), NAMES),
    st.tuples(st.just("bind"), NAMES, NAMES),
    st.tuples(st.just("drop queue"), NAMES),
    st.tuples(st.just("drop exchange"), NAMES),
    st.tuples(st.just("vhost")),
    st.tuples(st.just("drop vhost")),
    st.tuples(st.just("rollback"), st.integers(1, 6)),
)


def apply_change(editor: TopologyEditor, change: tuple[str, ...]) -> None:
    match change:
        case ("queue", name):
            editor.declare_queue(Queue("v", name))
        case ("exchange", name):
            editor.declare_exchange(Exchange("v", name, "fanout", auto_delete=True))
        case ("bind", source, destination):
            editor.bind(Binding(0, "v", source, destination))
        case ("drop queue", name):
            editor.delete_queue("v", name)
        case ("drop exchange", name):
            editor.delete_exchange("v", name)
        case ("vhost",):
            editor.declare_vhost(Vhost("v"))
        case ("drop vhost",):
            editor.delete_vhost("v")


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(CHANGES, max_size=12))
def test_a_store_that_follows_another_process_ends_in_the_same_state(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, ...]]
) -> None:
    data = DataDir.open(tmp_path_factory.mktemp("data"), create=True)
    stores = TopologyStore(data), TopologyStore(data)
    stores[0].edit(lambda e: e.declare_vhost(Vhost("v")), author="t")
    for number, change in enumerate(changes):
        store = stores[number % 2]
        try:
            if change[0] == "rollback":
                store.rollback(int(change[1]), author="t")
            else:
                store.edit(lambda editor, change=change: apply_change(editor, change), author="t")
        except InvalidInput:
            pass
    assert stores[0].load() == stores[1].load() == TopologyStore(data).load()
    reread = TopologyStore(data).load()
    for exchange in reread.exchanges.values():
        ours = [b for b in reread.bindings.values() if (b.vhost, b.source) == (exchange.vhost, exchange.name)]
        assert stores[0].load().bindings_from(exchange.vhost, exchange.name) == ours


def test_a_corrupt_row_is_named(data: DataDir, store: TopologyStore) -> None:
    rows = to_rows([Queue("/", "q")])
    broken = rows.set_column(rows.column_names.index("durable"), "durable", [[None]]).cast(ROW_SCHEMA)
    with pytest.raises(InvalidInput, match=r"kind 'queue', vhost '/', name 'q'.*no durable"):
        from_rows(broken)
    added = data_files.write_file(data.topology, broken)
    assert TableLog(data.topology).commit([added]) is not None
    with pytest.raises(UnsupportedTable, match="corrupt row") as refused:
        store.load()
    assert refused.value.where == data.topology


def test_a_missing_file_of_the_topology_is_named(data: DataDir, store: TopologyStore) -> None:
    remove_data_files(data.topology)
    with pytest.raises(UnsupportedTable, match="cannot read") as refused:
        TopologyStore(data).load()
    assert refused.value.where == data.topology


# -- two writers, and writers that die ------------------------------------------------------------------


def test_a_lost_race_is_validated_again_on_the_new_state(data: DataDir, store: TopologyStore) -> None:
    other = TopologyStore(data)
    runs = []

    def change(editor: TopologyEditor) -> int:
        runs.append(editor.topology.version)
        if len(runs) == 1:
            other.edit(declare_queues("q"), author="other")
        editor.declare_queue(Queue("/", "q"))
        return editor.bind(Binding(0, "/", "amq.fanout", "q"))[0].id

    edit = store.edit(change, author="t")
    assert len(runs) == 2
    assert runs[1] == runs[0] + 1
    assert edit.version == runs[1] + 1
    assert TopologyStore(data).load() == edit.topology


def test_a_change_that_the_winner_made_invalid_is_refused(data: DataDir, store: TopologyStore) -> None:
    store.edit(declare_queues("q"), author="t")
    other = TopologyStore(data)
    raced = []

    def change(editor: TopologyEditor) -> None:
        if not raced:
            raced.append(other.edit(lambda e: e.delete_queue("/", "q"), author="other"))
        editor.bind(Binding(0, "/", "amq.fanout", "q"))

    with pytest.raises(NotFound):
        store.edit(change, author="t")
    assert store.load() == raced[0].topology


def test_losing_every_race_is_reported(data: DataDir, store: TopologyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "ATTEMPTS", 3)
    other = TopologyStore(data)
    runs: list[int] = []

    def change(editor: TopologyEditor) -> None:
        runs.append(1)
        other.edit(declare_queues(f"o{len(runs)}"), author="other")
        editor.declare_queue(Queue("/", "mine"))

    with pytest.raises(CommitConflict):
        store.edit(change, author="t")
    assert len(runs) == 3
    assert ("/", "mine") not in store.load().queues


WRITER = """
import sys
from bindery.router.model import Binding, Queue
from bindery.store.paths import DataDir
from bindery.store.places import LocalPlace
from bindery.store.topology import TopologyStore
store = TopologyStore(DataDir.open(sys.argv[1]))
def change(editor, name):
    editor.declare_queue(Queue("/", "shared"))
    editor.declare_queue(Queue("/", name))
    editor.bind(Binding(0, "/", "amq.topic", name, routing_key=name))
for number in range(15):
    store.edit(lambda e: change(e, f"{sys.argv[2]}{number}"), author=sys.argv[2])
"""


def test_two_processes_that_write_at_once_both_succeed(data: DataDir, store: TopologyStore) -> None:
    before = store.load().version
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, data.root, name]) for name in ("a", "b")]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0]
    topology = store.load()
    expected = {("/", f"{name}{number}") for name in ("a", "b") for number in range(15)} | {("/", "shared")}
    assert topology.queues.keys() == expected
    assert topology.version == before + 30
    assert sorted(topology.bindings) == list(range(1, 31))
    assert TopologyStore(data).load() == topology
    assert all(tables.count_rows(data, *queue) == 0 for queue in expected)


def test_a_topology_that_is_only_half_created_is_completed_and_not_served(data: DataDir) -> None:
    tables.ensure_table(data.topology, topology_module.TOPOLOGY)
    assert TopologyStore(data).load().vhosts.keys() == {"/"}
    assert TopologyStore(data).load().version == 1


@pytest.mark.parametrize("point", ["edit.begun", "edit.queues", "edit.files"])
def test_a_writer_that_dies_before_its_commit_has_changed_nothing(
    data: DataDir, store: TopologyStore, point: str
) -> None:
    before = store.load()
    with faults.installed(at(point, crash)), pytest.raises(Crash):
        TopologyStore(data).edit(fill, author="t")
    assert TopologyStore(data).load() == before
    assert store.edit(fill, author="t").version == before.version + 1


def test_a_writer_that_dies_after_its_commit_has_changed_all(data: DataDir, store: TopologyStore) -> None:
    dying = TopologyStore(data)
    with faults.installed(at("edit.committed", crash)), pytest.raises(Crash):
        dying.edit(fill, author="t")
    reference = TopologyEditor(Topology.of([Vhost("/")]))
    fill(reference)
    reference.topology.version = 2
    assert store.load() == reference.topology == dying.load()


# -- queue tables -------------------------------------------------------------------------------------


def test_a_deleted_queue_loses_its_rows_and_comes_back_empty_with_its_history(
    data: DataDir, store: TopologyStore
) -> None:
    version = store.edit(declare_queues("q"), author="t").version
    with BatchCommitter(data, stream="s", app_id="s:1") as committer:
        deliver(data, committer, 0, version, "q")
    full = DeltaTable(data.queue("/", "q")).version()
    store.edit(lambda e: e.delete_queue("/", "q"), author="t")
    assert tables.count_rows(data, "/", "q") == 0
    store.edit(declare_queues("q"), author="t")
    assert tables.count_rows(data, "/", "q") == 0
    assert DeltaTable(data.queue("/", "q"), version=full).to_pyarrow_table().num_rows == 3


def test_a_queue_deleted_and_declared_in_one_change_is_empty_and_takes_new_rows(
    data: DataDir, store: TopologyStore
) -> None:
    version = store.edit(declare_queues("q"), author="t").version

    def change(editor: TopologyEditor) -> None:
        editor.delete_queue("/", "q")
        editor.declare_queue(Queue("/", "q"))

    with BatchCommitter(data, stream="s", app_id="s:1") as committer:
        deliver(data, committer, 0, version, "q")
        after = store.edit(change, author="t").version
        assert tables.count_rows(data, "/", "q") == 0
        assert deliver(data, committer, 1, version, "q")[0].dropped == 3
        assert deliver(data, committer, 2, after, "q")[0].dropped == 0
    assert tables.count_rows(data, "/", "q") == 3


def test_rows_left_by_a_deleter_that_died_are_gone_when_the_queue_is_declared_again(
    data: DataDir, store: TopologyStore
) -> None:
    version = store.edit(declare_queues("q"), author="t").version
    with BatchCommitter(data, stream="s", app_id="s:1") as committer:
        deliver(data, committer, 0, version, "q")
    with faults.installed(at("edit.committed", crash)), pytest.raises(Crash):
        TopologyStore(data).edit(lambda e: e.delete_queue("/", "q"), author="t")
    assert tables.count_rows(data, "/", "q") == 3
    store.edit(declare_queues("q"), author="t")
    assert tables.count_rows(data, "/", "q") == 0


def test_a_late_clear_does_not_touch_the_rows_of_a_queue_declared_since(data: DataDir, store: TopologyStore) -> None:
    store.edit(declare_queues("q"), author="t")
    deleted_at = store.edit(lambda e: e.delete_queue("/", "q"), author="t").version
    version = store.edit(declare_queues("q"), author="t").version
    with BatchCommitter(data, stream="s", app_id="s:1") as committer:
        deliver(data, committer, 0, version, "q")
    tables.clear_queue_table(data, "/", "q", undeclared_at=deleted_at)
    tables.ensure_queue_table(data, "/", "q", undeclared_at=deleted_at - 1)
    assert tables.count_rows(data, "/", "q") == 3
    assert tables.undeclared_since(DeltaTable(data.queue("/", "q"))) == deleted_at


@pytest.mark.local_only
def test_a_file_in_the_way_of_a_folder_refuses_the_declaration(data: DataDir, store: TopologyStore) -> None:
    before = store.load()
    Path(data.root, "queues").write_text("in the way")
    with pytest.raises((BinderyError, OSError)):
        store.edit(declare_queues("q"), author="t")
    assert store.load() == before


def remove_folder(path: str) -> None:
    place(path).remove_folder()


def damage_log(path: str) -> None:
    log = place(path, "_delta_log")
    for name in log.files():
        (log / name).replace(b"{")


@pytest.mark.parametrize("hurt", [remove_folder, damage_log])
@pytest.mark.parametrize(
    "delete", [lambda e: e.delete_queue("v", "q"), lambda e: e.delete_vhost("v")], ids=["queue", "vhost"]
)
def test_a_queue_whose_table_is_gone_or_damaged_can_be_deleted(
    data: DataDir, store: TopologyStore, caplog: pytest.LogCaptureFixture, hurt: Any, delete: Any
) -> None:
    store.edit(fill, author="t")
    hurt(data.queue("v", "q"))
    edit = store.edit(delete, author="t")
    assert ("v", "q") not in edit.topology.queues
    assert store.load() is edit.topology
    assert data.queue("v", "q") in caplog.text


def test_a_queue_whose_folder_was_removed_is_declared_again_with_a_table_of_its_own(
    data: DataDir, store: TopologyStore
) -> None:
    version = store.edit(declare_queues("q"), author="t").version
    with BatchCommitter(data, stream="s", app_id="s:1") as committer:
        deliver(data, committer, 0, version, "q")
    remove_folder(data.queue("/", "q"))
    store.edit(lambda e: e.delete_queue("/", "q"), author="t")
    version = store.edit(declare_queues("q"), author="t").version
    with BatchCommitter(data, stream="s", app_id="s:2") as committer:
        deliver(data, committer, 0, version, "q")
    assert tables.count_rows(data, "/", "q") == 3


def test_rows_of_a_deleted_queue_go_without_a_look_at_their_files(data: DataDir, store: TopologyStore) -> None:
    version = store.edit(declare_queues("q"), author="t").version
    with BatchCommitter(data, stream="s", app_id="s:1") as committer:
        committer.commit(
            0,
            committer.pin(0, version, 1_000),
            [replace(written(data, "q", queue_rows(0, range(3), version=version)), stats=routed_at_version(version))],
            BatchCounts(),
        )
    remove_data_files(data.queue("/", "q"))
    store.edit(lambda e: e.delete_queue("/", "q"), author="t")
    store.edit(declare_queues("q"), author="t")
    assert tables.count_rows(data, "/", "q") == 0
    assert read_queue(data, "q").num_rows == 0


def routed_at_version(version: int) -> str:
    bound = {"routing": {"topology_version": version}}
    return json.dumps({"numRecords": 3, "minValues": bound, "maxValues": bound})


# -- readers beside a change, and a disk that fails -------------------------------------------------------


class Blocked:
    """A disk on which the first effect below a path hangs until it is released."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._first = threading.Lock()
        self.reached, self.release = threading.Event(), threading.Event()

    def __call__(self, point: str, path: str) -> None:
        if path.startswith(self._path) and self._first.acquire(blocking=False):
            self.reached.set()
            assert self.release.wait(60)


@pytest.mark.parametrize("table", ["topology", "queues"])
def test_nobody_who_reads_waits_for_a_change(data: DataDir, store: TopologyStore, table: str) -> None:
    before = store.load()
    disk = Blocked(f"{data.root}/{table}")
    with faults.installed(disk), ThreadPoolExecutor(1) as pool:
        changing = pool.submit(store.edit, declare_queues("slow"), author="t")
        assert disk.reached.wait(60)
        assert store.load() is before
        other = TopologyStore(data).edit(
            lambda e: e.put_setting(Setting(f"{PARAMETER_PREFIX}component", "/", "p", 1)), author="other"
        )
        assert store.load() == other.topology
        assert store.load(version=before.version) == before
        disk.release.set()
        edit = changing.result(60)
    assert edit.version == other.version + 1
    assert store.load() is edit.topology
    assert TopologyStore(data).load() == edit.topology


def test_readers_see_every_version_that_was_answered(data: DataDir, store: TopologyStore) -> None:
    answered = store.load().version
    seen: list[tuple[int, int]] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            known = answered
            seen.append((known, store.load().version))

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        for number in range(30):
            answered = store.edit(declare_queues(f"q{number}"), author="t").version
        done.set()
        for reader in readers:
            reader.result(60)
    assert all(version >= known for known, version in seen)
    assert TopologyStore(data).load() == store.load()


def test_a_commit_that_certainly_failed_leaves_no_file(data: DataDir, store: TopologyStore) -> None:
    def full(point: str, path: str) -> None:
        if point == "put.before" and path.startswith(data.topology):
            raise OSError(errno.ENOSPC, "No space left on device")

    with faults.installed(full), pytest.raises(StorageFailed):
        store.edit(fill, author="t")
    live = {Path(name).name for name in DeltaTable(data.topology).file_uris()}
    assert {name for name in place(data.topology).files() if name.endswith(".parquet")} == live


def test_a_full_disk_or_a_lost_answer_anywhere_changes_all_or_nothing_and_the_next_try_succeeds(
    root: str,
) -> None:
    number, failed = 0, True
    outcomes = set()
    while failed:
        number += 1
        data = DataDir.open(f"{root}/{number}", create=True)
        store = TopologyStore(data)
        before = store.create()
        disk = FailingDisk(number)
        try:
            with faults.installed(disk):
                store.edit(fill, author="t")
        except StorageFailed:
            assert store.load() == before == TopologyStore(data).load()
            outcomes.add("nothing")
        else:
            outcomes.add("all")
        store.edit(fill, author="t")
        assert store.load().version == before.version + 1
        assert TopologyStore(data).load() == store.load()
        failed = disk.failed
    assert outcomes == {"nothing", "all"}
    assert number > (6 if place(root).is_remote else 8)  # no folders to make, no files to sync
