"""`bindery messages`: a queue as a consumer with a filter sees it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bindery.router.message import Message
from bindery.store.commit import BatchCommitter
from bindery.store.paths import DataDir
from bindery.store.read import read_queue
from bindery.store.topology import TopologyStore
from tests.unit.cli.conftest import Run
from tests.unit.store.conftest import declare_queues, deliver


@pytest.fixture
def data(tmp_path: Path) -> DataDir:
    """A queue of six messages whose priorities are 0 to 5, in two batches."""
    data = DataDir.open(tmp_path / "data", create=True)
    store = TopologyStore(data)
    store.create()
    version = store.edit(declare_queues("a"), author="t").version
    with BatchCommitter(data, stream="s", app_id="s:1") as committer:
        for batch in range(2):
            deliver(
                data,
                committer,
                batch,
                version,
                "a",
                at=batch,
                header=lambda seq, first=3 * batch: {"priority": first + seq},
                body=lambda seq: b"\x00\xff" if seq else "größe\n".encode(),
            )
    return data


def keys(run: Run, *arguments: object) -> list[int]:
    code, out, err = run("messages", *arguments, "--json")
    assert code == 0, err
    return [int(Message.from_json(json.loads(line)).header.get("priority", 0)) for line in out.splitlines()]


def test_a_filter_chooses_what_is_counted_shown_taken_and_deleted(run: Run, data: DataDir) -> None:
    at = ("a", "--data", data.root)
    high = (*at, "--filter", "JMSPriority >= 2")
    assert run("messages", "count", *at)[1] == "6\n"
    assert json.loads(run("messages", "count", *high, "--json")[1]) == {"messages": 4}
    assert keys(run, "browse", *high) == [2, 3, 4, 5]
    assert keys(run, "browse", *high, "--limit", 3) == [2, 3, 4]
    assert keys(run, "get", *high) == [2]
    assert keys(run, "browse", *high) == [3, 4, 5]
    assert run("messages", "delete", *at, "--filter", "JMSPriority = 4")[1] == "1 message deleted\n"
    assert keys(run, "browse", *at) == [0, 1, 3, 5]


def test_what_is_put_back_counts_as_delivered(run: Run, data: DataDir) -> None:
    at = ("a", "--data", data.root)
    assert keys(run, "get", *at, "--limit", 2, "--requeue") == [0, 1]
    header = read_queue(data, "a")["header"].to_pylist()
    assert [one["delivery_count"] for one in header] == [1, 1, None, None, None, None]


def test_everything_is_deleted_only_when_that_is_said(run: Run, data: DataDir) -> None:
    at = ("a", "--data", data.root)
    for arguments in ((), ("--all", "--filter", "TRUE")):
        code, _, err = run("messages", "delete", *at, *arguments)
        assert (code, "--all" in err) == (2, True)
    assert read_queue(data, "a").num_rows == 6
    assert json.loads(run("messages", "delete", *at, "--all", "--json")[1]) == {"deleted": 6}
    assert read_queue(data, "a").num_rows == 0


def test_a_list_names_the_row_and_shows_the_body(run: Run, data: DataDir) -> None:
    lines = [line.split("\t") for line in run("messages", "browse", "a", "--data", data.root)[1].splitlines()]
    assert lines[0] == ["row", "routed at", "exchange", "routing key", "body"]
    assert lines[1] == ["s:0:0", "2026-01-01T00:00:00Z", "x", "k0", "größe\ufffd"]
    assert lines[2] == ["s:0:1", "2026-01-01T00:00:00Z", "x", "k1", "0x00ff"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("browse", "b"), "no queue 'b'"),
        (("browse", "a", "--filter", "priority >"), "^"),
        (("count", "a", "--filter", "x", "--dialect", "sql"), "sql"),
    ],
)
def test_bad_input_is_refused(run: Run, data: DataDir, arguments: tuple[str, ...], said: str) -> None:
    code, _, err = run("messages", *arguments, "--data", data.root)
    assert (code, said in err) == (2, True), err
