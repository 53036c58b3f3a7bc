"""The examples of docs/python.md, run as a reader would."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bindery.router.message import Message
from bindery.router.model import Exchange
from bindery.router.values import Table
from tests.documents import python_blocks, working_folder
from tests.spark.installation import Installation

PAGE = (Path(__file__).parents[2] / "docs" / "python.md").read_text("utf-8")


def test_the_page_runs(
    spark: SparkSession, installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BINDERY_CACHE", str(tmp_path / "cache"))
    for name in ("late", "all"):
        installation.queue(name, source="amq.fanout", key="")
    headers = [Table({"carrier": "UA", "dep_delay": delay}) for delay in (61, 62, 5)]
    installation.publish([Message("amq.fanout", application_properties=one) for one in headers], file="a.json")
    installation.route()
    installation.edit(lambda editor: editor.declare_exchange(Exchange("/", "flights", "topic")))
    with working_folder(installation.root):
        (first, snapshot, frames, routed, selected, streamed, why) = python_blocks(PAGE)
        Path("flights").mkdir()
        Path("flights", "a.json").write_text('{"carrier": "UA", "dest": "LAX", "delay": 75}\n', "utf-8")
        for block in (first, snapshot, routed, selected, streamed):
            exec(block, {})  # noqa: S102  # our own text
        assert [row["stream"] for row in installation.manifest()].count("own-flights") == 1
        found: dict[str, object] = {}
        exec(frames.replace("frame.groupBy", "rows = frame.groupBy"), found)  # noqa: S102
        assert [tuple(row) for row in found["rows"]] == [("UA", 61.5)]  # type: ignore[attr-defined]
        exec(why.replace('report["queues"],', 'said = report["queues"],'), found)  # noqa: S102
        queues, causes = found["said"]  # type: ignore[misc]
        assert (queues, bool(causes)) == ([], True)
