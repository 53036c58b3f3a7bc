"""`format("bindery")`: a user's own streaming query, routed into queues once, whatever fails on the way."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

import bindery
from tests.spark.installation import Installation

SCHEMA = "k string, n string"
MAPPING = {
    "exchange": "'amq.direct'",
    "routing_key": "k",
    "application_properties": {"n": "CAST(n AS INT)"},
}


def _records(*rows: tuple[str, object]) -> list[str]:
    return [json.dumps({"k": key, "n": str(n)}) for key, n in rows]


def _frame(installation: Installation, partitions: int = 2) -> DataFrame:
    records = installation.spark.readStream.schema(SCHEMA).json(str(installation.inbox))
    return bindery.spark.messages(records, MAPPING).repartition(partitions)


def _run(installation: Installation, frame: DataFrame, **options: Any) -> None:
    bindery.spark.register(installation.spark)
    writer = frame.writeStream.format("bindery").option("data", installation.data.root).option("stream", "own")
    folder = installation.data.root + "/checkpoints/own"
    for name, value in ({"checkpointLocation": folder} | options).items():
        writer = writer.option(name, value)
    writer.trigger(availableNow=True).start().awaitTermination()


def _held(installation: Installation) -> Counter[tuple[str, int]]:
    return Counter(
        (queue, dict(row["application_properties"])["n"]["int"])
        for queue in ("a", "b")
        for row in installation.rows(queue)
    )


def _again(installation: Installation) -> None:
    """Make Spark run its last batch again."""
    commits = Path(installation.data.root, "checkpoints", "own", "commits")
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)


def test_a_query_is_routed_into_queues_once(installation: Installation) -> None:
    for name in ("a", "b"):
        installation.queue(name, source="amq.direct", key="k")
    installation.queue("b", source="amq.direct", key="l")
    installation.write_lines(*_records(("k", 1), ("l", 2), ("m", 3), ("k", "four")), file="1.json")
    _run(installation, _frame(installation))
    whole = Counter({("a", 1): 1, ("b", 1): 1, ("b", 2): 1})
    assert _held(installation) == whole
    assert Counter(row["reason"] for row in installation.unroutable()) == {"no_binding": 1, "invalid_record": 1}
    (batch,) = installation.manifest()
    assert (batch["stream"], batch["batch_id"], batch["records"], batch["copies"]) == ("own", 0, 4, 3)
    # the batch is committed, and Spark did not hear of it
    _again(installation)
    _run(installation, _frame(installation, 1))
    assert _held(installation) == whole
    assert len(installation.manifest()) == 1
    # a commit fails: a queue's table is not what it should be; another attempt comes split otherwise
    installation.write_lines(*_records(*(("k", n) for n in range(10, 30))), file="2.json")
    log = Path(installation.data.queue("/", "b"), "_delta_log")
    aside = log.with_name("aside")
    log.rename(aside)
    with pytest.raises(StreamingQueryException):
        _run(installation, _frame(installation))
    aside.rename(log)
    _run(installation, _frame(installation, 1))
    assert _held(installation) == whole + Counter((queue, n) for queue in "ab" for n in range(10, 30))
    assert [row["records"] for row in sorted(installation.manifest(), key=lambda row: row["batch_id"])] == [4, 20]
    first, second = (
        {
            row["routing"]["seq"]: row["application_properties"]
            for row in installation.rows(q)
            if row["routing"]["batch_id"] == 1
        }
        for q in "ab"
    )
    assert first == second  # one attempt's numbers in both queues
    assert {seq >> 40 for seq in first} == {0, 1}  # those of the first, which had two tasks
