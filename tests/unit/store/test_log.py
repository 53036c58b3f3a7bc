"""The committer's view of a Delta log: compare-and-swap, tokens, and what it costs."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import CommitProperties, DeltaTable
from deltalake.transaction import Transaction as DeltaTransaction

from bindery.router.errors import CommitUnknown, StorageFailed, UnsupportedTable
from bindery.router.message import QUEUE_SCHEMA
from bindery.store import data_files, effects, faults, tables
from bindery.store.actions import TOKEN, RemoveFile, Transaction
from bindery.store.log import TableLog
from bindery.store.paths import DataDir
from bindery.store.places import Place, at


@pytest.fixture
def path(data: DataDir) -> str:
    tables.ensure_queue_table(data, "/", "q")
    return data.queue("/", "q")


def entry(path: str, version: int) -> Place:
    return at(path, "_delta_log", f"{version:020}.json")


def once(point: str, part: str, effect: Callable[[str], None]) -> faults.Hook:
    """A hook that has its effect at the first time that the point is reached for such a path."""
    waiting = [True]

    def hook(reached: str, where: str) -> None:
        if waiting and reached == point and part in where:
            waiting.clear()
            effect(where)

    return hook


def full_disk(where: str) -> None:
    raise OSError(errno.ENOSPC, "No space left on device", where)


# -- commits ------------------------------------------------------------------------------------------


def test_a_commit_holds_for_the_version_that_was_seen_and_no_other(path: str) -> None:
    first, second = TableLog(path), TableLog(path, files=True)
    added = data_files.write_file(path, QUEUE_SCHEMA.empty_table())
    assert first.commit([added], transactions=[Transaction("s:1", 7)]) == 1
    assert second.commit(()) is None
    assert second.version == 0
    assert second.refresh()
    assert (second.version, second.transaction_version("s:1"), second.files) == (1, 7, {added.path: added})
    assert second.commit([RemoveFile(added.path, added.size)]) == 2
    assert second.files == {}


def test_every_engine_reads_what_was_committed(path: str) -> None:
    log = TableLog(path)
    added = data_files.write_file(path, QUEUE_SCHEMA.empty_table())
    log.commit([added], transactions=[Transaction("s:1", 7)], info={"bindery.batch": 7})
    table = DeltaTable(path)
    assert table.version() == 1
    assert table.transaction_version("s:1") == 7
    assert [at(uri).name for uri in table.file_uris()] == [added.path]
    assert table.history(1)[0]["bindery.batch"] == 7
    assert len(table.history(1)[0][TOKEN]) == 32


def test_commits_of_other_engines_are_followed(path: str) -> None:
    log = TableLog(path, files=True)
    table = DeltaTable(path)
    table.create_write_transaction(
        [],
        "append",
        table.schema(),
        commit_properties=CommitProperties(app_transactions=[DeltaTransaction("other", 3)]),
    )
    assert log.refresh()
    assert (log.version, log.transaction_version("other")) == (1, 3)
    assert log.commit(()) == 2


def test_a_checkpoint_of_another_engine_is_where_reading_begins(path: str) -> None:
    log = TableLog(path, files=True)
    added = [data_files.add_file(f"part ä{n}.parquet", 10 + n, n) for n in range(5)]
    for number, one in enumerate(added):
        log.commit([one], transactions=[Transaction("s:1", number), Transaction(f"once:{number}", 1)])
    log.commit([RemoveFile(added[0].path, added[0].size)])
    DeltaTable(path).create_checkpoint()
    for version in range(6):
        entry(path, version).remove()
    log.commit([], transactions=[Transaction("s:1", 9)])
    fresh = TableLog(path, files=True)
    assert fresh.checkpoint_version == 6
    assert fresh.version == 7
    assert fresh.files == log.files == {one.path: one for one in added[1:]}
    assert [fresh.transaction_version(app) for app in ("s:1", "once:0", "once:4", "none")] == [9, 1, 1, None]
    assert fresh.state == log.state


# -- an answer that is lost -----------------------------------------------------------------------------


def test_a_commit_whose_answer_is_lost_counts(path: str) -> None:
    log = TableLog(path)
    with faults.installed(once("put.after", "_delta_log", full_disk)):
        assert log.commit((), transactions=[Transaction("s:1", 7)]) == 1
    assert (log.version, log.transaction_version("s:1")) == (1, 7)
    assert log.commit(()) == 2


def test_a_commit_that_did_not_take_place_says_so(path: str) -> None:
    log = TableLog(path)
    with faults.installed(once("put.before", "_delta_log", full_disk)), pytest.raises(StorageFailed) as failed:
        log.commit(())
    assert "No space left on device" in failed.value.message
    assert not entry(path, 1).exists()
    assert log.commit(()) == 1


def test_a_rival_that_was_faster_while_the_disk_failed_is_a_lost_race(path: str) -> None:
    log, rival = TableLog(path), TableLog(path)

    def overtake(where: str) -> None:
        rival.commit(())
        full_disk(where)

    with faults.installed(once("put.before", "_delta_log", overtake)):
        assert log.commit(()) is None
    assert rival.version == 1


def test_a_commit_of_which_nobody_knows_is_not_judged(path: str) -> None:
    log = TableLog(path)

    def destroy(where: str) -> None:
        at(where).replace(b'{"commitInfo')
        full_disk(where)

    with faults.installed(once("put.after", "_delta_log", destroy)), pytest.raises(CommitUnknown) as unknown:
        log.commit(())
    assert unknown.value.where == path


def test_no_draft_is_left_behind(path: str) -> None:
    log, rival = TableLog(path), TableLog(path)
    rival.commit(())
    assert log.commit(()) is None
    assert list(at(path, "_delta_log").within()) == [entry(path, n).name for n in (0, 1)]


# -- a log that changes below ----------------------------------------------------------------------------


def test_a_table_that_was_removed_and_made_again_is_read_anew(data: DataDir, path: str) -> None:
    log = TableLog(path)
    for number in range(3):
        log.commit((), transactions=[Transaction("s:1", number)])
    at(path).remove_folder()
    with pytest.raises(UnsupportedTable, match="no table"):
        log.refresh()
    tables.ensure_queue_table(data, "/", "q")
    assert log.refresh()
    assert (log.version, log.transaction_version("s:1")) == (0, None)
    assert log.commit(()) == 1


def test_a_log_that_lost_its_newest_entry_is_refused(path: str) -> None:
    log = TableLog(path)
    log.commit(())
    log.commit(())
    kept = entry(path, 2).read() or b""
    entry(path, 2).remove()
    for _ in range(2):
        with pytest.raises(UnsupportedTable, match="was at version 2 and is at 1"):
            log.refresh()
    entry(path, 2).replace(kept)
    log.refresh()
    assert log.commit(()) == 3


def test_a_log_that_cannot_be_read_any_more_is_refused_as_often_as_it_is_looked_at(path: str) -> None:
    log = TableLog(path)
    log.commit((), transactions=[Transaction("s:1", 7)])
    (entry(path, 0).parent / "_commits").replace(b"")  # an object store has no empty folders
    for version in range(2):
        entry(path, version).remove()
    for _ in range(2):
        with pytest.raises(UnsupportedTable, match="first entries are missing"):
            log.refresh()
    assert log.transaction_version("s:1") == 7
    assert not entry(path, 0).exists()


def test_a_commit_below_a_log_that_was_cleaned_up_is_taken_back(path: str) -> None:
    """A process that is stopped between its look and its commit for longer than the log is kept."""
    stopped, other = TableLog(path), TableLog(path)
    for _ in range(4):
        other.commit(())
    DeltaTable(path).create_checkpoint()

    stopped._seen = 0.0

    def clean_up(_where: str) -> None:
        for version in range(4):
            entry(path, version).remove()

    with (
        faults.installed(once("put.before", "_delta_log", clean_up)),
        pytest.raises(StorageFailed, match="cleaned up while"),
    ):
        stopped.commit(())
    assert not entry(path, 1).exists()
    assert stopped.refresh()
    assert stopped.version == 4


# -- cost -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("commits", [10, 400])
def test_neither_a_look_nor_a_commit_reads_what_grows_with_the_table(
    path: str, commits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, follower = TableLog(path), TableLog(path)
    for number in range(commits):
        added = data_files.add_file(f"f{number}", 1, 1)
        writer.commit([added], transactions=[Transaction("s:1", number)])
    follower.refresh()
    read: list[Place] = []
    kind = type(at(path))
    original = kind.read

    def counted(place: Place, **options: Any) -> bytes | None:
        content = original(place, **options)
        if content is not None:
            read.append(place)
        return content

    monkeypatch.setattr(kind, "read", counted)
    writer.commit((), transactions=[Transaction("s:1", commits)])
    assert read == []
    follower.refresh()
    assert read == [entry(path, commits + 1)]
    follower.refresh()
    assert len(read) == 1


@pytest.mark.parametrize("number", [0, 1, 2, 20])
def test_files_and_their_folders_are_synced_and_one_file_without_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    paths = [tmp_path / f"{n % 3}" / f"{n}.parquet" for n in range(number)]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.touch()
    synced: list[tuple[Path, str]] = []
    monkeypatch.setattr(effects, "sync_file", lambda path: synced.append((path, threading.current_thread().name)))
    effects.sync([at(path) for path in paths])
    assert sorted(path for path, _ in synced) == sorted([*paths, *{path.parent for path in paths}])
    assert {name.startswith("sync") for _, name in synced} == ({number > 1} if number else set())
