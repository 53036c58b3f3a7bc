"""`bindery status` and what lists look like when they are piped."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from bindery.cli.render import show_table
from bindery.store.commit import BatchCommitter, BatchCounts
from bindery.store.maintenance.journals import Kept, keep_journal
from bindery.store.paths import DataDir
from bindery.store.streams import register
from bindery.store.topology import TopologyStore
from tests.unit.cli.conftest import Run
from tests.unit.store.conftest import declare_queues, deliver


@pytest.fixture
def data(tmp_path: Path) -> DataDir:
    data = DataDir.open(tmp_path / "data", create=True)
    store = TopologyStore(data)
    store.create()
    version = store.edit(declare_queues("a", "tab\there"), author="t", reason="a reason").version
    epoch = register(data, "s", "1")
    with BatchCommitter(data, stream="s", app_id=epoch.app_id) as committer:
        deliver(data, committer, 0, version, "a", rows=1_234)
        pin = committer.pin(1, version, 5_000)
        committer.commit(1, pin, [], BatchCounts(records=2, unroutable={"filtered": 1}))
    return data


def test_it_says_what_streams_did_and_what_is_wrong(run: Run, data: DataDir) -> None:
    code, out, err = run("status", "--data", data.root)
    header, row = (line.split("\t") for line in out.splitlines())
    shown = dict(zip(header, row, strict=True))
    assert code == 0
    assert (shown["stream"], shown["state"], shown["batches"], shown["records"]) == ("s", "no job", "2", "1236")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", shown["last batch"])
    assert err == "s: 1 of 2 records of the last batch reached no queue: filtered 1\n"
    assert run("status", "--data", data.root, "--check")[0] == 1
    (stream,) = json.loads(run("status", "--data", data.root, "--json")[1])["streams"]
    assert (stream["copies"], stream["last_batch"]["unroutable"]) == (1_234, {"filtered": 1})


def test_streams_with_journals_have_columns_more(run: Run, data: DataDir) -> None:
    keep_journal(data, "s", "/", Kept())
    header, row = (line.split("\t") for line in run("status", "--data", data.root)[1].splitlines())
    shown = dict(zip(header, row, strict=True))
    assert (shown["journal rows"], shown["journal KiB"], shown["journal since"]) == ("0", "0", "")
    (stream,) = json.loads(run("status", "--data", data.root, "--json")[1])["streams"]
    assert (stream["journal"]["rows"], stream["journal"]["oldest_row_at"]) == (0, None)


def test_people_see_a_table_and_that_nothing_is_wrong(
    run: Run, data: DataDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"TTY_COMPATIBLE": "1", "TERM": "dumb", "COLUMNS": "140"}.items():
        monkeypatch.setenv(name, value)
    out = run("status", "--data", data.root)[1]
    assert "2 queues, 0 bindings" in out
    assert "1,236" in out
    assert "filtered 1" in out
    empty = DataDir.open(tmp_path / "empty", create=True)
    TopologyStore(empty).create()
    assert "no stream has run yet" in run("status", "--data", empty.root)[1]


def test_lists_are_tab_separated_where_they_are_piped(run: Run, data: DataDir) -> None:
    assert run("queues", "--data", data.root)[1] == "vhost\tqueue\tmessages\n/\ta\t1234\n/\ttab\ufffdhere\t0\n"
    lines = run("topology", "versions", "--data", data.root)[1].splitlines()
    assert lines[0].split("\t") == ["version", "when", "who", "what", "why"]
    newest = lines[1].split("\t")
    assert (newest[0], newest[2:]) == ("2", ["t", "+2 queue", "a reason"])


def test_a_narrow_terminal_folds_a_table_and_cuts_nothing() -> None:
    out = Console(file=io.StringIO(), width=30, force_terminal=True)
    show_table(("stream", "last batch", "ago"), [("orders", "2026-11-23T06:48:35Z", "12 min")], out=out)
    shown = out.file.getvalue()  # type: ignore[attr-defined]  # what it was made with
    assert "…" not in shown
    assert "35Z" in shown
