"""What a checkpoint says of a batch: its clock and its files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bindery.jobs.sources.planned import PlannedFile, batch_clock, planned_files
from bindery.jobs.sources.refused import Refusals, RefusedPart
from bindery.router.errors import CheckpointMismatch


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """Batches 0 to 3, with the lists 0; 1; 2 and 3; 4. The lists up to 3 are in one compact file."""
    (tmp_path / "offsets").mkdir()
    lists = tmp_path / "sources" / "0"
    lists.mkdir(parents=True)
    for batch, end in enumerate((0, 1, 3, 4)):
        write(tmp_path / "offsets" / str(batch), {"batchTimestampMs": 1000 + batch}, {"logOffset": end})
    entries = [{"path": f"file:///in/{n}%20x.json", "timestamp": 10 * n, "batchId": n} for n in range(5)]
    write(lists / "0", entries[0])
    write(lists / "3.compact", *entries[:4])
    write(lists / "4", entries[4])
    return str(tmp_path)


def write(path: Path, *lines: object) -> None:
    path.write_text("\n".join(["v1", *(json.dumps(line, separators=(",", ":")) for line in lines)]))


def test_the_files_of_a_batch_are_found_wherever_spark_keeps_their_list(checkpoint: str) -> None:
    found = [planned_files(checkpoint, batch) for batch in range(4)]
    assert [[file.modified_ms for file in files] for files in found] == [[0], [10], [20, 30], [40]]
    assert found[0] == [PlannedFile("file:///in/0%20x.json", 0)]
    assert (found[0][0].path, found[0][0].place) == ("file:///in/0 x.json", "file:/in/0%20x.json")
    assert PlannedFile("s3a://bucket/x", 0).place == "s3a://bucket/x"


def test_the_clock_of_a_batch_is_the_time_of_its_plan(checkpoint: str) -> None:
    assert [batch_clock(checkpoint, batch) for batch in range(4)] == [1000, 1001, 1002, 1003]


def test_a_batch_without_a_list_has_no_files(checkpoint: str) -> None:
    (Path(checkpoint) / "offsets" / "4").write_text('v1\n{"batchTimestampMs":5}\n-')
    assert planned_files(checkpoint, 4) == []


@pytest.mark.parametrize("content", [None, "", "v2\n{}"])
def test_a_checkpoint_that_cannot_be_read_is_named(checkpoint: str, content: str | None) -> None:
    path = Path(checkpoint) / "sources" / "0" / "4"
    path.unlink() if content is None else path.write_text(content)
    with pytest.raises(CheckpointMismatch) as caught:
        planned_files(checkpoint, 3)
    assert caught.value.where == str(path)


def test_what_a_batch_leaves_out_is_the_same_at_the_next_attempt(checkpoint: str) -> None:
    parts = [RefusedPart("file:///a", "invalid_record", "gone"), RefusedPart("file:///b", "too_large", "long", 7)]
    first = Refusals(checkpoint, 2)
    for part in parts:
        first.add([part])

    again = Refusals(checkpoint, 2)
    assert again.parts == parts
    assert (again.holds("file:///a"), again.holds("file:///c")) == (True, False)
    Refusals(checkpoint, 3).forget_older()
    assert Refusals(checkpoint, 2).parts == []
