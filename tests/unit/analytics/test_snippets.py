"""What is pasted reads the queue: the texts are run, on names that only right quoting keeps whole."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bindery import read_queue
from bindery.analytics.row_pages import queue_at
from bindery.analytics.snippets import Reading
from bindery.store import read
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from tests.unit.analytics.hostile import HOSTILE, delivered

#: A literal with everything that could end it.
FILTER = "dep_delay >= 61 AND carrier <> 'o''d\"\\ \n`$(x)`'"


@pytest.fixture
def data(tmp_path: Path) -> DataDir:
    made = DataDir.open(tmp_path / "data", create=True)
    TopologyStore(made).create()
    return delivered(made)


def texts(data: DataDir, name: str, **asked: Any) -> dict[str, str]:
    """The texts by their titles."""
    table, _ = queue_at(data, "/", name, version=asked.get("version"), at=asked.get("at"))
    topology = TopologyStore(data).load()
    reading = Reading(
        data=data, topology=topology, vhost="/", name=name, table=table, url="http://h:1", user="u", **asked
    )
    return {one.title: one.code for one in reading.snippets()}


def rows_of(code: str) -> int:
    """Run a text of Python; how many rows it has read."""
    names: dict[str, Any] = {}
    exec(compile(code, "snippet", "exec"), names)  # noqa: S102  # running it is the test
    rows = names["rows"]
    if hasattr(rows, "num_rows"):
        return int(rows.num_rows)
    if hasattr(rows, "count_rows"):
        return int(rows.count_rows())
    return int(rows.shape[0])


@pytest.mark.parametrize("name", HOSTILE)
def test_python_reads_the_queue_whatever_its_name(data: DataDir, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    read.take(data, name, limit=1)
    for asked, expected in (
        ({}, 2),
        ({"version": 1}, 3),
        ({"filter": FILTER}, read_queue(data, name, filter=FILTER).num_rows),
        ({"filter": FILTER, "version": 1}, read_queue(data, name, filter=FILTER, version=1).num_rows),
        ({"filter": "dep_delay > 1", "dialect": "artemis"}, 2),
    ):
        found = texts(data, name, **asked)
        counts = {title: rows_of(found[title]) for title in ("polars", "DuckDB", "Python")}
        assert counts == dict.fromkeys(counts, expected), asked


def test_a_point_is_read_as_of_that_point(data: DataDir, capsys: pytest.CaptureFixture[str]) -> None:
    for at, expected in ((f"s:{HOSTILE.index('late')}", 3), (f"s:{HOSTILE.index('late') - 1}", 0)):
        found = texts(data, "late", at=at)
        assert {rows_of(found[title]) for title in ("polars", "DuckDB", "Python")} == {expected}
        assert shlex.quote(at) in found["bindery sql"]
        assert f"VERSION AS OF {1 if expected else 0}" in found["Spark SQL"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_shell_hands_on_what_is_meant(data: DataDir, name: str) -> None:
    """Names of SQL that differ by case are told apart by a number (docs/sql.md)."""
    command = texts(data, name)["bindery sql"]
    words = _words(command)
    called = {"Late": "Late~1", "late": "late~2"}.get(name, name).replace('"', '""')
    assert words[2] == f'SELECT * FROM "{called}"'  # noqa: S608  # what is meant, not what is run
    assert [*words[:2], *words[3:]] == ["bindery", "sql", "--data", data.root]
    chosen = _words(texts(data, name, filter=FILTER)["Command line"])
    assert chosen[-4:] == ["--filter", FILTER, "--", name]


def _words(command: str) -> list[str]:
    """The words that a shell makes of a command."""
    shown = ["bash", "-c", f"printf '%s\\0' {command}"]
    return subprocess.run(shown, capture_output=True, check=True, timeout=60).stdout.decode().split("\0")[:-1]


def test_what_a_language_cannot_say_is_noted(data: DataDir) -> None:
    table, _ = queue_at(data, "/", "late", version=1)
    topology = TopologyStore(data).load()
    reading = Reading(data=data, topology=topology, vhost="/", name="late", table=table, filter="a > 1", version=1)
    notes = {one.title: one.note for one in reading.snippets()}
    assert "reads every row" in (notes["Spark SQL"] or "")
    assert "reads the present" in (notes["bindery sql"] or "")
    assert notes["Python"] is None
