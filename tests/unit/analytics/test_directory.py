"""A data directory for programs."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pytest

import bindery
from bindery.router.declarations import TopologyEditor
from bindery.router.errors import FilterError, InvalidInput, InvalidRecord, NotFound
from bindery.router.message import Message
from bindery.router.model import Queue
from bindery.router.values import Table
from bindery.store.commit import BatchCommitter
from bindery.store.paths import DataDir
from bindery.store.read import delete_matching, read_queue
from bindery.store.topology import TopologyStore
from tests.unit.store.conftest import declare_queues, deliver
from tests.unit.store.routed import route

MINUTE = 60


def headers(seq: int) -> list[tuple[str, dict[str, Any]]]:
    return [("carrier", {"string": "UA" if seq % 2 else "AA"}), ("delay", {"int": seq})]


@pytest.fixture
def directory(data: DataDir, store: TopologyStore) -> bindery.Directory:
    """Two queues, three batches a minute apart."""
    version = store.edit(declare_queues("late", "all"), author="t").version
    with BatchCommitter(data, stream="s", app_id="s:1") as committer:
        for batch in range(3):
            deliver(data, committer, batch, version, "late", "all", at=batch * MINUTE, application_properties=headers)
    return bindery.open(data.root)


def test_a_directory_says_what_is_in_it(directory: bindery.Directory, data: DataDir) -> None:
    assert directory.path == data.root
    assert repr(directory) == f"bindery.open({data.root!r})"
    assert repr(directory.queue("late")) == f"bindery.open({data.root!r}).queue('late')"
    assert repr(directory.snapshot().queue("late")) == f"bindery.open({data.root!r}).snapshot().queue('late')"
    assert directory.queues() == ["all", "late"]
    assert directory.topology.version == 2
    for wrong in (
        lambda: directory.queue("none"),
        lambda: directory.queues("none"),
        lambda: directory.queue("all", "v"),
    ):
        with pytest.raises(NotFound):
            wrong()
    with pytest.raises(NotFound, match="no queue 'laet'") as caught:
        directory.queue("laet")
    assert caught.value.hint == "did you mean 'late'?"


def test_a_queue_is_read_as_a_consumer_reads_it(directory: bindery.Directory, data: DataDir) -> None:
    late = directory.queue("late")
    assert late.arrow() == read_queue(data, "late")
    chosen = read_queue(data, "late", filter="delay > 0 AND carrier = 'UA'", columns=["routing", "exchange"])
    assert late.arrow(filter="delay > 0 AND carrier = 'UA'", columns=["routing", "exchange"]) == chosen
    assert len(late.arrow(filter="delay > 0", dialect="amqp-sql")) == 6
    with pytest.raises(FilterError):
        late.arrow(filter="delay >")
    with pytest.raises(NotFound, match="no column 'none'"):
        late.arrow(columns=["none"])


def test_every_kind_of_table_has_the_same_rows(directory: bindery.Directory) -> None:
    late = directory.queue("late")
    options: dict[str, Any] = {"flat": True, "columns": ["carrier", "delay"], "filter": "delay = 1"}
    rows = late.arrow(**options).to_pylist()
    assert rows == [{"carrier": "UA", "delay": 1}] * 3
    assert late.polars(**options).to_dicts() == rows
    assert late.pandas(**options).to_dict("records") == rows
    relation = late.duckdb(**options)
    assert (relation.columns, relation.fetchall()) == (["carrier", "delay"], [("UA", 1)] * 3)
    assert sorted(late.duckdb(flat=True).select("delay").fetchall()) == [(0,)] * 3 + [(1,)] * 3 + [(2,)] * 3
    assert directory.sql("SELECT carrier, delay FROM late WHERE delay = 1").to_pylist() == rows


def test_flat_columns_are_those_of_sql(directory: bindery.Directory) -> None:
    assert directory.queue("late").arrow(flat=True).schema.names == directory.sql("SELECT * FROM late").schema.names


def test_rows_since_a_time(directory: bindery.Directory) -> None:
    late = directory.queue("late")
    assert len(late.arrow(since="2026-01-01T00:01:00")) == 6
    assert len(late.arrow(since=datetime(2026, 1, 1, 0, 1, 0, 1, tzinfo=UTC), columns=["exchange"])) == 3
    assert len(late.arrow(since="2027-01-01T00:00:00+01:00")) == 0
    with pytest.raises(InvalidInput, match="is no time"):
        late.arrow(since="noon")


def test_a_snapshot_stays_what_it_is(directory: bindery.Directory, data: DataDir) -> None:
    before, now = directory.snapshot("s:0"), directory.snapshot()
    version = TopologyStore(data).edit(declare_queues("more"), author="t").version
    with BatchCommitter(data, stream="s", app_id="s:1") as committer:
        deliver(data, committer, 3, version, "late", "all", "more")
    counted = 'SELECT (SELECT count(*) FROM late) AS a, (SELECT count(*) FROM "all") AS b'
    for read, rows in ((before, 3), (now, 9), (directory.snapshot(), 12)):
        assert {len(read.queue(name).arrow()) for name in ("late", "all")} == {rows}
        assert read.sql(counted).to_pylist() == [{"a": rows, "b": rows}]
    assert (now.queues(), directory.queues(), now.topology.version) == (["all", "late"], ["all", "late", "more"], 2)
    assert len(directory.queue("late").arrow(at=1)) == 6
    with pytest.raises(NotFound):
        now.queue("more")
    with pytest.raises(InvalidInput, match="has its point already"):
        now.queue("late").arrow(at=0)


def test_a_message_is_explained(directory: bindery.Directory) -> None:
    report = directory.explain({"exchange": "", "routing_key": "late"}, queues=["all"])
    assert report["queues"] == ["late"]
    assert [one["reached"] for one in report["why_not"]] == [False]
    with pytest.raises(InvalidRecord):
        directory.explain({"exchange": 1})


def test_what_is_not_installed_is_named(directory: bindery.Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("polars", "duckdb"):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(InvalidInput, match=f"{name} is not installed"):
            getattr(directory.queue("late"), name)()


def test_reading_needs_no_spark() -> None:
    code = "import bindery, sys; bindery.open, bindery.spark; print(sorted({'pyspark', 'duckdb'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_filters_look_into_bodies_as_the_queue_or_the_caller_says(data: DataDir, store: TopologyStore) -> None:
    def declare(editor: TopologyEditor) -> None:
        editor.declare_queue(Queue("/", "declared", arguments=Table({"x-payload": "json"})))
        editor.declare_queue(Queue("/", "plain"))

    version = store.edit(declare, author="t").version
    with BatchCommitter(data, stream="s", app_id="s:1") as committer:
        deliver(data, committer, 0, version, "declared", "plain", body=lambda seq: b'{"n": %d}' % seq)
    directory = bindery.open(data.root)
    for queue, payload in (("declared", None), ("declared", "json"), ("plain", "json")):
        found = directory.queue(queue)
        assert len(found.arrow(filter="body.n > 0", payload=payload)) == 2
        assert len(found.pandas(filter="body.n > 1", payload=payload)) == 1
        assert len(read_queue(data, queue, filter="body.n > 0", payload=payload)) == 2
        assert len(directory.snapshot().queue(queue).arrow(filter="body.n > 0", payload=payload)) == 2
    with pytest.raises(FilterError) as refused:
        directory.queue("plain").arrow(filter="body.n > 0")
    assert "payload in REST, job files and Python" in str(refused.value.hint)
    with pytest.raises(InvalidInput, match="the bodies of queue 'declared' are json, not text"):
        directory.queue("declared").arrow(filter="body LIKE '%'", payload="text")


def test_a_journal_is_read_as_a_queue_is(directory: bindery.Directory, data: DataDir) -> None:
    store = TopologyStore(data)
    sent = [
        Message("", name, application_properties=Table({"n": n})) for n, name in enumerate(["late", "none", "late"])
    ]
    route(data, store, sent, stream="kept", journal=True, clock_ms=1_700_000_000_000)
    delete_matching(data, "late", None)
    assert directory.journals() == directory.snapshot().journals() == ["kept"]
    journal = directory.journal("kept")
    assert repr(journal) == f"bindery.open({data.root!r}).journal('kept')"
    assert journal.path == data.journal("kept")
    options: dict[str, Any] = {"flat": True, "columns": ["n", "reason"], "filter": "n > 0"}
    rows = [{"n": 1, "reason": "no_binding"}, {"n": 2, "reason": None}]
    assert journal.arrow(**options).to_pylist() == journal.polars(**options).to_dicts() == rows
    assert journal.pandas(**options)["n"].to_list() == [1, 2]
    assert sorted(journal.duckdb(**options).fetchall()) == [(1, "no_binding"), (2, None)]
    assert journal.arrow(flat=True).schema.names == directory.sql("SELECT * FROM journal.kept").schema.names
    queue = store.load().queues["/", "late"].id
    assert journal.arrow().column("routing").to_pylist()[2]["queues"] == [queue]
    before = directory.snapshot()
    route(data, store, sent, stream="kept", batch_id=1, journal=True)
    assert len(before.journal("kept").arrow()) == len(journal.arrow(at="kept:0")) == 3
    assert len(journal.arrow(since="2024-01-01")) == 3
    with pytest.raises(NotFound, match="stream 'kpet' keeps no journal") as caught:
        directory.journal("kpet")
    assert caught.value.hint == "did you mean 'kept'?"
    with pytest.raises(NotFound, match="no column 'none'"):
        journal.arrow(columns=["none"])
    with pytest.raises(InvalidInput, match="has its point already"):
        before.journal("kept").arrow(at=0)
