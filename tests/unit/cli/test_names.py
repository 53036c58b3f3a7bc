"""A filter that asks for a property which no message has: the name that was meant is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bindery.router.message import Message
from bindery.router.values import Table
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from tests.unit.cli.conftest import Run
from tests.unit.store.routed import route

SAID = "none of 3 sampled rows has dep_dely: did you mean dep_delay (3 have it)?"


@pytest.fixture
def data(run: Run, tmp_path: Path) -> Path:
    (tmp_path / "topology.json").write_text(
        json.dumps(
            {
                "exchanges": [{"name": "flights", "type": "fanout"}],
                "queues": [{"name": "late"}],
                "bindings": [{"source": "flights", "destination": "late"}],
            }
        )
    )
    folder = tmp_path / "data"
    assert run("apply", tmp_path / "topology.json", "--data", folder)[0] == 0
    messages = [Message("flights", "", application_properties=Table({"dep_delay": late})) for late in (1, 2, 3)]
    directory = DataDir.open(folder)
    route(directory, TopologyStore(directory), messages, stream="flights", batch_id=0)
    return folder


def test_nothing_found_by_a_name_that_is_misspelt(run: Run, data: Path) -> None:
    for command in ("count", "browse", "get", "delete"):
        code, _, err = run("messages", command, "late", "--filter", "dep_dely > 1", "--data", data)
        assert (code, err) == (0, f"note: {SAID}\n"), command
    assert run("explain", "--find", "dep_dely > 1", "--data", data) == (
        2, "", f"error: find: no message on record passes the filter\nhint: {SAID}\n",
    )  # fmt: skip


def test_nothing_is_guessed_where_the_names_are_right(run: Run, data: Path) -> None:
    assert run("messages", "count", "late", "--filter", "dep_delay > 3", "--data", data) == (0, "0\n", "")
    assert run("messages", "count", "late", "--filter", "dep_dely IS NULL", "--data", data) == (0, "3\n", "")
    code, _, err = run("explain", "--find", "carrier = 'UA'", "--data", data)
    assert (code, err) == (2, "error: find: no message on record passes the filter\n")
