"""Repeats of messages in a streaming job: what is left out is the same however a batch is cut, and after restarts."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bindery.jobs.report import Totals
from bindery.router.errors import InvalidInput, UnusablePin
from bindery.store import faults
from tests.spark.installation import Installation, as_json
from tests.unit.store.conftest import Crash, at, crash

JOB = """
stream: s
source: {format: json, path: INBOX, schema: "id STRING, name STRING, n INT", options: {maxFilesPerTrigger: 2}}
message:
  exchange: "'amq.topic'"
  routing_key: name
  properties: {message_id: id, group_sequence: 1 div n}
trigger: available-now
"""
DEDUP = JOB + "dedup: {key: message_id, window: 86400, keep: true}\n"


def fill(installation: Installation) -> None:
    """Two batches of two files; each id in five records, the first of which can be no message."""
    installation.queue("all")
    lines = [
        as_json(id=None if n % 10 == 9 else f"id-{n % 200}", name=f"{n:04}", n=0 if n < 200 else 1) for n in range(1000)
    ]
    for number, start in enumerate((0, 250, 500, 750)):
        installation.write_lines(*lines[start : start + 250], file=f"{number}.json")


def routed(installation: Installation) -> list[str]:
    return sorted(row["routing_key"] for row in installation.rows("all"))


EXPECTED = sorted([f"{n:04}" for n in range(200, 1000) if n < 400 or n % 10 == 9])


def test_what_stays_does_not_depend_on_tasks_and_restarts(
    installation: Installation, spark: SparkSession, tmp_path: Path
) -> None:
    fill(installation)
    first = installation.route(DEDUP)
    assert routed(installation) == EXPECTED, "a record that is no message has no key"
    assert [dict(report.reasons) for report in first] == [
        {"invalid_record": 200, "duplicate": 90},
        {"duplicate": 450},
    ]
    totals = Totals()
    for report in first:
        totals.add(report)
    assert totals.summary.startswith("1,000 records → 260 copies, 200 invalid: ")
    assert totals.summary.endswith(", 540 duplicates")
    ids = {
        "{stream}:{batch_id}:{seq}".format(**row["routing"]): dict(row["properties"])["message_id"]
        for row in installation.rows("all")
    }
    lost = [row for row in installation.unroutable() if row["reason"] == "duplicate"]
    assert len(lost) == 540
    assert all(ids[row["detail"].removeprefix("repeats ")] == row["properties"]["message_id"] for row in lost)
    assert installation.route(DEDUP) == [], "nothing is new"
    installation.forget_last_batch()
    installation.route(DEDUP)
    assert routed(installation) == EXPECTED

    (tmp_path / "cut").mkdir()
    cut = Installation(spark, tmp_path / "cut")
    fill(cut)
    size = "spark.sql.files.maxPartitionBytes"
    before = spark.conf.get(size)
    spark.conf.set(size, "3000b")
    try:
        with faults.installed(at("batch.in_tables", crash, number=2)), pytest.raises(Crash):
            cut.route(DEDUP)
        cut.route(DEDUP)
    finally:
        spark.conf.set(size, str(before))
    assert routed(cut) == EXPECTED
    assert max(cut.files("all").values()) > 2, "several tasks"
    assert sum(row["reason"] == "duplicate" for row in cut.unroutable()) == 540


def test_a_new_epoch_drops_what_was_routed(installation: Installation) -> None:
    fill(installation)
    installation.route(DEDUP)
    installation.checkpoint.rename(installation.root / "lost")
    reports = installation.route(DEDUP, new_epoch=True)
    assert sum(report.copies for report in reports) == 80, "those without a key"
    assert set(EXPECTED) == set(routed(installation))


def test_a_job_that_has_no_key_and_one_that_has_given_it_up(installation: Installation) -> None:
    with pytest.raises(InvalidInput, match=r"no message of this job has application_properties\.x") as refused:
        installation.job(JOB + "dedup:\n  key: application_properties.x\n  window: 1\n")
    assert "line 10" in str(refused.value.where)
    fill(installation)
    with faults.installed(at("batch.pinned", crash)), pytest.raises(Crash):
        installation.route(DEDUP)
    with pytest.raises(UnusablePin, match="no `dedup` any more"):
        installation.route(JOB)
    installation.route(DEDUP)
    assert routed(installation) == EXPECTED
