"""Checkpoints: beside the commits, as often as the size of a table asks for, and without harm when they fail."""

from __future__ import annotations

import errno
import logging
import subprocess
import sys
import threading
import time
from typing import Final

import pytest
from deltalake import DeltaTable

from bindery.store import checkpoints, data_files, faults, tables
from bindery.store.actions import Transaction
from bindery.store.log import TableLog
from bindery.store.paths import DataDir
from bindery.store.places import Place, at


@pytest.fixture
def path(data: DataDir) -> str:
    tables.ensure_queue_table(data, "/", "q")
    return data.queue("/", "q")


def commits(path: str, number: int) -> TableLog:
    log = TableLog(path)
    for _ in range(number):
        added = data_files.add_file(f"f{log.version}.parquet", 1, 1)
        log.commit([added], transactions=[Transaction("s:1", log.version)])
    return log


def written(path: str) -> list[Place]:
    log = at(path, "_delta_log")
    return [log / name for name in log.files() if name.endswith(".checkpoint.parquet")]


@pytest.mark.parametrize(
    ("actions", "entries"), [(0, 100), (2_000, 100), (4_000, 200), (20_000, 1_000), (9_000_000, 1_000)]
)
def test_large_tables_get_checkpoints_more_rarely(actions: int, entries: int) -> None:
    assert checkpoints.interval(actions) == entries


def test_a_checkpoint_is_due_by_the_entries_since_the_last(path: str) -> None:
    commits(path, 30)
    assert not checkpoints.is_due(path, 99)
    assert checkpoints.is_due(path, 100)
    assert checkpoints.write_checkpoint(path)
    assert not checkpoints.is_due(path, 129)
    assert checkpoints.is_due(path, 130)
    at(path, "_delta_log", "_last_checkpoint").replace(b"")
    assert checkpoints.is_due(path, 31)


def test_commits_are_followed_by_a_checkpoint_that_every_reader_uses(path: str) -> None:
    commits(path, 110)
    until = time.monotonic() + 60
    while not written(path) and time.monotonic() < until:
        time.sleep(0.02)
    checkpoint = int(written(path)[0].name[:20])
    assert checkpoint >= 100
    for version in range(checkpoint):
        at(path, "_delta_log", f"{version:020}.json").remove()
    assert len(DeltaTable(path).file_uris()) == len(TableLog(path, files=True).files or ()) == 110
    assert TableLog(path).transaction_version("s:1") == 109


def test_a_full_disk_under_a_checkpoint_harms_nothing(path: str, caplog: pytest.LogCaptureFixture) -> None:
    log = commits(path, 3)

    def full(point: str, _path: str) -> None:
        if point.startswith("checkpoint"):
            raise OSError(errno.ENOSPC, "No space left on device")

    with faults.installed(full), caplog.at_level(logging.WARNING):
        assert not checkpoints.write_checkpoint(path)
    assert "No space left" in caplog.text
    assert log.commit(()) == 4


def test_what_is_handed_over_while_the_writer_is_at_work_is_looked_at_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[str, int]] = []
    begun, go_on = threading.Event(), threading.Event()

    def look(path: str, version: int) -> bool:
        seen.append((path, version))
        begun.set()
        return not go_on.wait(60)

    monkeypatch.setattr(checkpoints, "is_due", look)
    writer = checkpoints._Writer()
    writer.hand_over("a", 75)
    assert begun.wait(60)
    for path, version in [("a", 100), ("b", 25), ("a", 125)]:
        writer.hand_over(path, version)
    go_on.set()
    writer.close()
    assert seen == [("a", 75), ("a", 125), ("b", 25)]


_PROGRAM: Final = """
import sys
from bindery.store import checkpoints
from bindery.store.maintenance.upkeep import Upkeep
from bindery.store.paths import DataDir

upkeep = Upkeep(DataDir.open(sys.argv[1]))
for path in sys.argv[2:]:
    checkpoints.consider(path, 100)
"""


def test_a_process_that_ends_writes_the_checkpoints_that_were_handed_over(data: DataDir) -> None:
    paths = []
    for name in ["a", "b", "c"]:
        tables.ensure_queue_table(data, "/", name)
        paths.append(data.queue("/", name))
        commits(paths[-1], 20)
        for checkpoint in written(paths[-1]):
            checkpoint.remove()
        at(paths[-1], "_delta_log", "_last_checkpoint").replace(b"")
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(data.root), *paths], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert [len(written(path)) for path in paths] == [1, 1, 1]
