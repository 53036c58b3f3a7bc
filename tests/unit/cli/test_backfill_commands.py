"""`bindery backfill` and `bindery rebuild`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from bindery.router.declarations import TopologyEditor
from bindery.router.message import Message
from bindery.router.model import Binding
from bindery.store.commit import BatchCommitter
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from tests.unit.cli.conftest import Run
from tests.unit.store.conftest import declare_queues
from tests.unit.store.routed import route


@pytest.fixture
def data(tmp_path: Path) -> DataDir:
    """A queue that is bound after two messages, one of which it would have got, and while a batch is under way."""
    data = DataDir.open(tmp_path / "data", create=True)
    store = TopologyStore(data)
    older = store.edit(declare_queues("q"), author="t").version
    sent = [Message("amq.topic", "a"), Message("amq.topic", "b")]
    route(data, store, sent, journal=True, clock_ms=1_700_000_000_000)
    with BatchCommitter(data, stream="flights", app_id="flights:c") as driver:
        driver.pin(1, older, 1_700_000_000_001)

    def bind(editor: TopologyEditor) -> None:
        editor.bind(Binding(0, "/", "amq.topic", "q", "queue", "a"))

    store.edit(bind, author="t")
    return data


def test_a_queue_is_backfilled(run: Run, data: DataDir) -> None:
    command = ("backfill", "--data", data.root, "--queue", "q", "--wait", "0")
    code, planned, _ = run(*command, "--dry-run")
    assert (code, planned.splitlines()[0]) == (
        0,
        "queue q would get 1 message, routed from 2023-11-14T22:13:20.000Z to 2023-11-14T22:13:20.000Z",
    )
    code, out, _ = run(*command)
    assert code == 0
    assert out == planned.replace("would get", "got")
    assert "batch 1 of stream flights is under way by topology version 2: maintenance brings what is in it" in out
    code, out, _ = run(*command, "--from", "2024-01-01", "--json")
    assert (code, json.loads(out)["rows"]) == (0, 0)
    code, _, err = run(*command, "--to", "soon")
    assert (code, "'soon' is no time" in err) == (2, True)


def test_a_redrive_says_what_it_leaves_to_a_backfill(run: Run, data: DataDir) -> None:
    assert run("backfill", "--data", data.root, "--queue", "q", "--wait", "0")[0] == 0
    command = ("redrive", "--data", data.root)
    code, out, _ = run(*command, "--dry-run")
    assert (code, out.splitlines()[0]) == (0, "1 of 2 rows would be redriven: 0 copies")
    assert [line.split() for line in out.splitlines()[1:3]] == [
        ["queue", "left", "out:", "brought", "by", "backfills"],
        ["q", "1"],
    ]
    assert json.loads(run(*command, "--json")[1])["backfilled"] == {"q": 1}


def test_a_queue_is_rebuilt(run: Run, data: DataDir) -> None:
    assert run("backfill", "--data", data.root, "--queue", "q", "--wait", "0")[0] == 0
    command = ("rebuild", "--data", data.root, "--queue", "q", "--wait", "0")
    assert run(*command)[1] == "the table of queue q is whole: nothing to rebuild\n"
    shutil.rmtree(f"{data.queue('/', 'q')}/_delta_log")
    code, planned, _ = run(*command, "--dry-run")
    assert (code, planned.splitlines()[0].partition(",")[0]) == (0, "queue q: the table would be rebuilt with 1 row")
    code, out, _ = run(*command)
    assert code == 0
    assert out.startswith(planned.replace("would be rebuilt", "rebuilt"))
    assert "batch flights:c:1 is under way: its driver appends it" in out
    assert f"what was left of the old table is in {data.root}/lost/~2F/q-" in out.replace("\n", "")
    assert json.loads(run(*command, "--json")[1])["was"] == "whole"
