"""A checkpoint and tables of two moments, as after a restored backup: refused, never a silent loss."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from bindery.router.errors import CheckpointMismatch, UnsupportedTable
from bindery.router.message import Message
from bindery.router.model import Binding, Queue
from bindery.store.streams import EPOCH_BATCHES
from tests.spark.installation import Installation

TEXT = "stream: s\nsource: {format: parquet, path: INBOX, options: {maxFilesPerTrigger: 1}}\ntrigger: available-now\n"


def publish(installation: Installation, *names: str) -> None:
    for name in names:
        installation.publish([Message(exchange="amq.topic", routing_key=name)], file=f"{name}.parquet")


def keys(installation: Installation) -> list[str]:
    return sorted(row["routing_key"] for row in installation.rows("all"))


@pytest.fixture
def backup(installation: Installation) -> Path:
    """A copy of the checkpoint after one batch."""
    installation.queue("all")
    publish(installation, "a")
    installation.route(TEXT)
    copy = installation.root / "backup"
    shutil.copytree(installation.checkpoint, copy)
    return copy


def restore(installation: Installation, backup: Path) -> None:
    shutil.rmtree(installation.checkpoint)
    shutil.copytree(backup, installation.checkpoint)


@pytest.mark.parametrize("later", [1, 3])
def test_an_older_checkpoint_is_refused_instead_of_skipping_new_records(
    installation: Installation, backup: Path, later: int
) -> None:
    publish(installation, *(f"b{number}" for number in range(later)))
    installation.route(TEXT)
    restore(installation, backup)
    publish(installation, "new")

    with pytest.raises(CheckpointMismatch, match="older one") as caught:
        installation.route(TEXT)
    assert caught.value.exit_code == 3
    assert "--new-epoch" in str(caught.value.hint)
    assert "new" not in keys(installation)

    reports = installation.route(TEXT, new_epoch=True)
    assert not any(report.replayed for report in reports)
    assert reports[0].batch_id == EPOCH_BATCHES + 1
    assert set(keys(installation)) == {"a", "new", *(f"b{number}" for number in range(later))}
    publish(installation, "newer")
    installation.route(TEXT)
    assert keys(installation).count("newer") == 1


def test_the_checkpoint_from_before_its_last_commit_goes_on(installation: Installation, backup: Path) -> None:
    publish(installation, "b", "c")
    installation.route(TEXT)
    installation.forget_last_batch()
    publish(installation, "d")
    reports = installation.route(TEXT)
    assert [report.replayed for report in reports] == [True, False]
    assert keys(installation) == ["a", "b", "c", "d"]


def test_a_batch_that_was_planned_anew_is_refused(installation: Installation, backup: Path) -> None:
    publish(installation, "b")
    installation.route(TEXT)
    installation.forget_last_batch()
    plan = installation.checkpoint / "offsets" / "1"
    plan.write_text(re.sub(r'"batchTimestampMs":\d+', '"batchTimestampMs":1', plan.read_text()))
    (plan.parent / ".1.crc").unlink()

    with pytest.raises(CheckpointMismatch, match="something else"):
        installation.route(TEXT)
    assert keys(installation) == ["a", "b"]


def test_tables_that_are_older_than_the_checkpoint_are_refused(installation: Installation, backup: Path) -> None:
    copy = installation.root / "tables"
    names = ("queues", "manifest")
    for name in names:
        shutil.copytree(Path(installation.data.root, name), copy / name)
    publish(installation, "b", "c")
    installation.route(TEXT)
    for name in names:
        shutil.rmtree(Path(installation.data.root, name))
        shutil.copytree(copy / name, Path(installation.data.root, name))

    with pytest.raises(CheckpointMismatch, match="they are older"):
        installation.route(TEXT)


def test_a_lost_log_entry_is_noticed_at_the_next_start(installation: Installation, backup: Path) -> None:
    publish(installation, "b")
    installation.route(TEXT)
    log = Path(installation.data.queue("/", "all"), "_delta_log")
    max(log.glob("*.json")).unlink()

    with pytest.raises(UnsupportedTable, match=r"queues/~2F/all is at version 1, and .* version 2"):
        installation.route(TEXT)
    publish(installation, "c")
    installation.route(TEXT, new_epoch=True)
    assert keys(installation) == ["a", "c"]


def test_a_driver_lives_on_when_a_queue_is_deleted_with_its_folder_and_declared_again(
    installation: Installation,
) -> None:
    installation.queue("all")
    publish(installation, "a", "b", "c")
    reports = []

    def again(report: object) -> None:
        reports.append(report)
        if len(reports) == 1:
            installation.edit(lambda editor: editor.delete_queue("/", "all"))
            shutil.rmtree(installation.data.queue("/", "all"))
            installation.edit(lambda editor: editor.declare_queue(Queue("/", "all")))
            installation.edit(lambda editor: editor.bind(Binding(0, "/", "amq.topic", "all", routing_key="#")))

    installation.job(TEXT, report=again).run()
    assert keys(installation) == ["b", "c"]
