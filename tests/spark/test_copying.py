"""Streams go on from copies that were made while they ran, at whatever step, and route each record once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bindery.jobs.control.config import parse_job
from bindery.jobs.route import RouteJob
from bindery.router.message import Message
from bindery.store import faults
from bindery.store.copying import copy_data
from bindery.store.manifest import read_manifest
from bindery.store.paths import DataDir
from bindery.store.read import read_queue
from tests.spark.installation import Installation
from tests.unit.store.conftest import at

TEXT = "stream: s\nsource: {format: parquet, path: INBOX, options: {maxFilesPerTrigger: 1}}\ntrigger: available-now\n"
#: Steps of the third batch: its pin, its part of the first of two tables, of both, and its row of the manifest.
STEPS = {"batch.pinned": 3, "batch.appended": 5, "batch.in_tables": 3, "batch.in_manifest": 3}
FILES = 5


def keys(data: DataDir, queue: str) -> list[str]:
    return sorted(read_queue(data, queue)["routing_key"].to_pylist())


@contextmanager
def copied_at(data: DataDir, point: str, number: int, to: Path) -> Iterator[None]:
    """Copy the data directory when a point is reached for the n-th time, while the driver waits there."""
    with faults.installed(at(point, lambda: copy_data(data, DataDir.named(to)), where=data.root, number=number)):
        yield


@pytest.mark.nightly
@pytest.mark.parametrize("point", STEPS)
def test_a_stream_goes_on_from_a_copy_of_each_step(point: str, installation: Installation, tmp_path: Path) -> None:
    for queue in ("a", "b"):
        installation.queue(queue)
    names = [f"k{number}" for number in range(FILES)]
    for name in names:
        installation.publish([Message(exchange="amq.topic", routing_key=name)], file=f"{name}.parquet")
    with copied_at(installation.data, point, STEPS[point], tmp_path / "copy"):
        installation.route(TEXT)
    assert keys(installation.data, "a") == names

    copied = DataDir.open(tmp_path / "copy")
    ended = [row["batch_id"] for row in read_manifest(copied)]
    assert ended == ([0, 1, 2] if point == "batch.in_manifest" else [0, 1])
    for queue in ("a", "b"):
        assert keys(copied, queue) == names[: len(ended)]
    job = parse_job(TEXT.replace("INBOX", str(installation.inbox)))
    reports = []
    RouteJob(installation.spark, copied, job, report=reports.append).run()
    for queue in ("a", "b"):
        assert keys(copied, queue) == names
    # the file that Spark had found for the batch that was left out comes with those of the next one
    batches = FILES if point == "batch.in_manifest" else FILES - 1
    assert [row["batch_id"] for row in read_manifest(copied)] == list(range(batches))
    assert [report.replayed for report in reports].count(True) == (point == "batch.in_manifest")
