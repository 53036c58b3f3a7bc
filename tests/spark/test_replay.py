"""Replay in Spark: what it says would happen is what happens when the proposal is made real."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bindery.jobs.replay import replay
from bindery.jobs.replayer import Span
from bindery.router.definitions import apply, parse_definitions
from bindery.router.message import Message
from bindery.router.proposal import propose
from bindery.router.values import Table
from tests.spark.installation import Installation

NARROW: dict[str, Any] = {
    "exchanges": [{"name": "flights", "type": "topic", "vhost": "/"}],
    "queues": [{"name": "late", "vhost": "/"}, {"name": "west", "vhost": "/"}],
    "bindings": [
        {"source": "flights", "destination": "late", "routing_key": "#", "vhost": "/",
         "arguments": {"x-filter-jms-selector": "delay >= 60 AND carrier = 'UA'"}},
        {"source": "flights", "destination": "west", "routing_key": "*.LAX", "vhost": "/"},
    ],
}  # fmt: skip
WIDER: dict[str, Any] = {
    "bindings": [
        {"source": "flights", "destination": "late", "routing_key": "#", "vhost": "/",
         "arguments": {"x-filter-jms-selector": "delay >= 90"}},
    ],
}  # fmt: skip


def flights(first: int, count: int) -> list[Message]:
    return [
        Message(
            "flights",
            f"{'UA' if n % 2 else 'DL'}.{'LAX' if n % 5 else 'IAH'}",
            application_properties=Table({"delay": n * 7 % 130, "carrier": "UA" if n % 2 else "DL"}),
        )
        for n in range(first, first + count)
    ]


def routed(installation: Installation, *documents: dict[str, Any]) -> Installation:
    """An installation with those definitions whose stream has routed 300 flights from three files."""
    for document in documents:
        installation.edit(lambda editor, document=document: apply(parse_definitions(document), editor))
    for part in range(3):
        installation.publish(flights(part * 100, 100), file=f"{part}.parquet")
    installation.route("stream: s\nsource: {format: parquet, path: INBOX, options: {maxFilesPerTrigger: 2}}\n"
                       "trigger: available-now\n")  # fmt: skip
    return installation


def test_what_a_replay_foretells_comes_true(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    present = routed(Installation(spark, tmp_path / "one"), NARROW)
    real = routed(Installation(spark, tmp_path / "two"), NARROW, WIDER)
    topology = present.topology.load()
    before = sorted(Path(present.data.root).rglob("*"))
    seen: list[tuple[int, int]] = []

    found = replay(
        spark,
        present.data,
        topology,
        propose(topology, "/", WIDER),
        vhost="/",
        span=Span("s"),
        report=lambda done, total: seen.append((done, total)),
    )

    assert found.messages == 300
    assert dict(found.before) == present.counts()
    assert dict(found.after) == real.counts()
    assert (found.gained["west"], found.lost.total()) == (0, 0)
    assert found.unroutable_before.total() == len(present.unroutable())
    assert found.unroutable_after.total() == len(real.unroutable())
    assert found.gained["late"] == real.counts()["late"] - present.counts()["late"] > 0
    assert len(found.examples["late", "gained"]) == 3
    assert seen[-1][0] == seen[-1][1]
    assert sorted(Path(present.data.root).rglob("*")) == before
