"""The id of a checkpoint is there whole or not at all."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bindery.jobs.checkpoint import Checkpoint, Progress, checkpoint_id
from bindery.router.errors import CheckpointMismatch, StorageFailed


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("effect", ["fsync", "link"])
def test_a_full_disk_at_the_first_start_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, effect: str
) -> None:
    folder = tmp_path / "s"
    monkeypatch.setattr(os, effect, full)
    with pytest.raises(StorageFailed, match="No space left") as caught:
        checkpoint_id(str(folder))
    assert caught.value.where == str(folder / "metadata")
    assert list(folder.iterdir()) == []

    monkeypatch.undo()
    assert checkpoint_id(str(folder)) == checkpoint_id(str(folder))


def test_an_empty_metadata_file_without_batches_gets_its_id(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "metadata").touch()
    found = checkpoint_id(str(tmp_path))
    assert found == checkpoint_id(str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["metadata", "offsets"]


@pytest.mark.parametrize("content", [None, ""])
def test_a_checkpoint_with_batches_and_no_id_is_refused(tmp_path: Path, content: str | None) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text("v1\n")
    if content is not None:
        (tmp_path / "metadata").write_text(content)
    with pytest.raises(CheckpointMismatch, match="no id") as caught:
        checkpoint_id(str(tmp_path))
    assert "--new-epoch" in str(caught.value.hint)


@pytest.mark.parametrize("content", ["{", "[]", "{}", '"id"', "\xff"])
def test_damaged_metadata_is_named_and_left_alone(tmp_path: Path, content: str) -> None:
    metadata = tmp_path / "metadata"
    metadata.write_bytes(content.encode("latin-1"))
    with pytest.raises(CheckpointMismatch, match="damaged") as caught:
        checkpoint_id(str(tmp_path))
    assert caught.value.where == str(metadata)
    assert metadata.read_bytes() == content.encode("latin-1")


def test_drivers_that_start_at_once_agree_on_one_id(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: checkpoint_id(str(tmp_path / "s")), range(32)))
    assert len(found) == 1


# -- progress -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("planned", "ended", "recorded"),
    [
        (-1, -1, None),
        (0, -1, None),
        (0, -1, 0),
        (7, 7, 7),
        (8, 7, 7),
        (8, 7, 8),
        (7, 7, None),
    ],
)
def test_tables_may_be_where_the_checkpoint_is_or_one_planned_batch_ahead(
    planned: int, ended: int, recorded: int | None
) -> None:
    Progress(planned, ended).check(recorded, stream="s", where="cp")


@pytest.mark.parametrize(
    ("planned", "ended", "recorded", "said"),
    [
        (7, 7, 8, "older one"),
        (8, 7, 9, "older one"),
        (-1, -1, 0, "older one"),
        (5, 5, 9, "older one"),
        (7, 7, 6, "they are older"),
        (8, 7, 6, "they are older"),
    ],
)
def test_a_checkpoint_of_another_moment_than_the_tables_is_refused(
    planned: int, ended: int, recorded: int, said: str
) -> None:
    with pytest.raises(CheckpointMismatch, match=said) as caught:
        Progress(planned, ended).check(recorded, stream="s", where="cp")
    assert caught.value.where == "cp"
    assert "restore the newest" in str(caught.value.hint)
    assert "--new-epoch" in str(caught.value.hint)


def test_progress_is_what_spark_has_planned_and_ended(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    assert checkpoint.progress() == Progress(-1, -1)
    for name in ("offsets/9", "offsets/10", "offsets/.10.crc", "commits/9", "commits/.9.crc.tmp"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("v1")
    assert checkpoint.progress() == Progress(10, 9)
    assert checkpoint.progress().pending == 10
    (tmp_path / "commits" / "10").write_text("v1")
    assert checkpoint.progress().pending is None


def test_a_plan_made_anew_has_another_digest(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    checkpoint = Checkpoint(str(tmp_path))
    plan = tmp_path / "offsets" / "0"
    digests = {checkpoint.digest(0)}
    for moment in (1, 2):
        plan.write_text(f'v1\n{{"batchTimestampMs":{moment}}}\n{{"logOffset":0}}')
        digests.add(checkpoint.digest(0))
    assert len(digests) == 3
    assert checkpoint.digest(0) == checkpoint.digest(0)
