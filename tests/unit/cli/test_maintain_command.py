"""`bindery maintain`."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from deltalake import DeltaTable

from bindery.store.commit import BatchCommitter
from bindery.store.maintenance import run as maintenance
from bindery.store.maintenance.journals import Kept, keep_journal
from bindery.store.maintenance.table_places import TablePlace
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from tests.unit.cli.conftest import Run
from tests.unit.store.conftest import STREAM, declare_queues, deliver


@pytest.fixture
def data(tmp_path: Path) -> Iterator[DataDir]:
    data = DataDir.open(tmp_path / "data", create=True)
    version = TopologyStore(data).edit(declare_queues("a", "b"), author="t").version
    with BatchCommitter(data, stream=STREAM, app_id=f"{STREAM}:1") as committer:
        for batch in range(16):
            deliver(data, committer, batch, version, "a", "b")
    yield data


def files(data: DataDir, name: str) -> int:
    return len(DeltaTable(data.queue("/", name)).file_uris())


def test_a_dry_run_says_what_a_run_then_does(run: Run, data: DataDir) -> None:
    code, planned, _ = run("maintain", "--data", data.root, "--dry-run")
    assert code == 0
    assert "5 tables looked at, 3 would be changed" in planned
    assert (files(data, "a"), files(data, "b")) == (16, 16)
    code, done, _ = run("maintain", "--data", data.root)
    assert code == 0
    assert "5 tables looked at, 3 changed" in done
    assert [line.split()[:3] for line in done.splitlines() if "queues/" in line] == [
        ["queues/~2F/a", "16", "1"],
        ["queues/~2F/b", "16", "1"],
    ]
    assert (files(data, "a"), files(data, "b")) == (1, 1)


def test_the_directory_is_named_by_an_option_or_alone(run: Run, data: DataDir) -> None:
    planned = [run("maintain", *named, "--dry-run", "--json") for named in ((data.root,), ("--data", data.root))]
    assert planned[0] == planned[1]
    code, _, err = run("maintain", data.root, "--data", data.root)
    assert (code, "named twice" in err) == (2, True)


def test_one_queue_and_a_retention_as_data(run: Run, data: DataDir) -> None:
    code, out, _ = run("maintain", "--data", data.root, "--queue", "a", "--retention", "3 days", "--json")
    assert code == 0
    (one,) = json.loads(out)["tables"]
    assert (one["name"], one["merged"], one["into"]) == ("queues/~2F/a", 16, 1)
    assert files(data, "b") == 16
    stated = DeltaTable(data.queue("/", "a")).metadata().configuration
    assert stated["delta.deletedFileRetentionDuration"] == stated["delta.logRetentionDuration"] == "interval 3 days"


def test_a_vhost(run: Run, data: DataDir) -> None:
    assert "2 tables looked at" in run("maintain", "--data", data.root, "--vhost", "/")[1]
    assert "0 tables looked at" in run("maintain", "--data", data.root, "--vhost", "other")[1]


def test_the_journals_of_a_vhost_are_maintained_with_it(run: Run, data: DataDir) -> None:
    for stream, vhost in (("orders", "/"), ("others", "other")):
        keep_journal(data, stream, vhost, Kept())

    def looked_at(*chosen: str) -> set[str]:
        done = json.loads(run("maintain", "--data", data.root, *chosen, "--json")[1])
        return {one["name"] for one in done["tables"] if one["kind"] == "journal"}

    assert looked_at("--vhost", "/") == {"journal/orders"}
    assert looked_at("--vhost", "other") == {"journal/others"}
    assert looked_at() == {"journal/orders", "journal/others"}
    assert looked_at("--vhost", "/", "--queue", "a") == set()
    Path(data.journal("orders"), "_delta_log", f"{0:020}.json").write_text("{")
    code, _, err = run("maintain", "--data", data.root, "--vhost", "other")
    assert (code, "journal/orders" in err) == (1, True), "nobody can tell whose it is"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--retention", "soon"), "no length of time"),
        (("--retention", "5 seconds"), "too short"),
        (("--target-size", "1"), "no size"),
        (("--queue", "none"), "no queue 'none'"),
    ],
)
def test_what_cannot_be_done_is_refused(run: Run, data: DataDir, arguments: tuple[str, str], said: str) -> None:
    code, _, err = run("maintain", "--data", data.root, *arguments)
    assert code == 2
    assert said in err


def test_a_table_that_is_damaged_is_named_and_the_others_are_maintained(run: Run, data: DataDir) -> None:
    Path(data.queue("/", "a"), "_delta_log", f"{3:020}.json").write_text("{")
    code, out, err = run("maintain", "--data", data.root)
    assert code == 1
    assert "queues/~2F/a" in err
    assert files(data, "b") == 1
    assert "damaged" in out
    assert "others are done" in err


def test_a_folder_that_may_not_be_written_to_is_said_once(
    run: Run, data: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(place: TablePlace) -> NoReturn:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), place.path)

    monkeypatch.setattr(maintenance, "_claimed", refused)
    code, out, err = run("maintain", "--data", data.root)
    assert (code, "Errno" in out + err) == (1, False)
    assert out.endswith(" tables looked at, 0 changed\n")
    assert err.endswith("Permission denied\nhint: the next run tries again\n")
