"""The demo, end to end: what every queue holds equals what pandas finds in the CSV."""

from __future__ import annotations

import io
from pathlib import Path

import pandas as pd
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from rich.console import Console

from bindery.demo import __main__ as demo
from bindery.store.manifest import read_manifest
from bindery.store.read import read_queue
from tests.spark.conftest import CONFIGS, DemoRun

WEST = ("LAX", "SFO", "SEA")


@pytest.fixture(scope="module")
def flights() -> pd.DataFrame:
    with demo.flights_csv().open("rb") as file:
        return pd.read_csv(file)


def expected(flights: pd.DataFrame) -> dict[str, pd.Series]:
    """By queue, which flights belong there: the definitions file, restated by hand."""
    cancelled, far = flights.dep_time.isna(), flights.distance > 2000
    newark = flights.origin == "EWR"
    queues = {
        "jfk.departures": flights.origin == "JFK",
        "west.coast": flights.dest.isin(WEST),
        "late.majors": (flights.dep_delay >= 60) & flights.carrier.isin(["UA", "AA"]),
        "newark.united": newark & (flights.carrier == "UA"),
        "newark.express": newark & (flights.carrier == "EV"),
        "newark.others": newark & ~flights.carrier.isin(["UA", "EV", "DL"]),
        "newark.delta": newark & (flights.carrier == "DAL"),  # on purpose: that is no carrier's code here, DL is
        "cancelled": cancelled,
        "long.haul": far & flights.tailnum.notna(),
    }
    # the alternate of "flights": none of its own bindings matched
    own = queues["jfk.departures"] | queues["west.coast"] | queues["late.majors"] | newark | cancelled | far
    queues["everything.else"] = ~own
    return queues


def unroutable(flights: pd.DataFrame) -> pd.Series:
    """The flights of Delta from Newark that reach no other queue."""
    reached = pd.concat(expected(flights).values(), axis=1).any(axis=1)
    assert set(flights[~reached].carrier) == {"DL"}
    return ~reached


def test_every_queue_holds_the_flights_that_belong_there(demo_run: DemoRun, flights: pd.DataFrame) -> None:
    data = demo_run.data
    for queue, belongs in expected(flights).items():
        rows = DeltaTable(data.queue("/", queue)).to_pyarrow_table(columns=["routing_key", "application_properties"])
        assert rows.num_rows == belongs.sum(), queue
        chosen = flights[belongs]
        keys = pd.Series(rows["routing_key"].to_pylist()).value_counts().to_dict()
        assert keys == (chosen.carrier + "." + chosen.origin + "." + chosen.dest).value_counts().to_dict(), queue
        distance = pc.map_lookup(rows["application_properties"].combine_chunks(), "distance", "first")
        assert pc.sum(pc.struct_field(distance, "int"), min_count=0).as_py() == chosen.distance.sum(), queue


def test_no_flight_is_lost(demo_run: DemoRun, flights: pd.DataFrame) -> None:
    data = demo_run.data
    rows = read_manifest(data)
    assert sum(row["records"] for row in rows) == len(flights) == 336_776
    assert sum(row["copies"] for row in rows) == sum(belongs.sum() for belongs in expected(flights).values())
    assert sum(sum(dict(row["unroutable"]).values()) for row in rows) == unroutable(flights).sum() > 0
    assert len(rows) == 4


def test_the_demo_shows_its_queues_and_two_queries(demo_run: DemoRun, flights: pd.DataFrame) -> None:
    data, text = demo_run.data, demo_run.text
    late = flights[expected(flights)["late.majors"]]
    assert f"{expected(flights)['west.coast'].sum():,}" in text
    assert f"{round(late[late.carrier == 'UA'].dep_delay.mean(), 1)}" in text
    assert str((flights.dep_time.isna() & (flights.origin == "LGA")).sum()) in text
    assert data.root in text


def test_a_filter_on_a_queue_reads_what_pandas_selects(demo_run: DemoRun, flights: pd.DataFrame) -> None:
    data = demo_run.data
    rows = read_queue(data, "late.majors", filter="dep_delay > 300 AND origin <> 'JFK'")
    late = flights[expected(flights)["late.majors"]]
    assert rows.num_rows == ((late.dep_delay > 300) & (late.origin != "JFK")).sum() > 0


def test_a_second_run_adds_nothing(demo_run: DemoRun) -> None:
    data = demo_run.data
    before = read_manifest(data)
    text = io.StringIO()
    demo.run(CONFIGS, Path(data.root), Console(file=text, width=200))
    assert "nothing new: all 336,776 flights were routed before" in text.getvalue()
    assert read_manifest(data) == before
