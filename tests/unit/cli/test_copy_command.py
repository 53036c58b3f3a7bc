"""`bindery copy`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bindery.store import faults
from bindery.store.commit import BatchCommitter
from bindery.store.paths import DataDir
from bindery.store.read import read_queue
from bindery.store.streams import register
from bindery.store.topology import TopologyStore
from tests.unit.cli.conftest import Run
from tests.unit.store.conftest import Crash, at, crash, declare_queues, deliver


@pytest.fixture
def data(tmp_path: Path) -> DataDir:
    data = DataDir.open(tmp_path / "data", create=True)
    version = TopologyStore(data).edit(declare_queues("a", "b"), author="t").version
    register(data, "s", "1")
    with BatchCommitter(data, stream="s", app_id="s:1") as committer:
        for batch in range(3):
            deliver(data, committer, batch, version, "a", "b")
    return data


def test_it_says_what_it_does(data: DataDir, tmp_path: Path, run: Run) -> None:
    to = tmp_path / "copy"
    code, out, _ = run("copy", data.root, to, "--dry-run")
    assert code == 0
    assert "would be copied" in out
    assert not to.exists()
    code, out, err = run("copy", data.root, to)
    assert code == 0
    assert err.splitlines()[0] == "looking"
    assert [line.partition(" ")[0] for line in err.splitlines()] == ["looking", "files", "logs"]
    tables, stream = out.splitlines()
    assert tables.startswith("5 tables, topology version 2: ")
    assert stream == "stream s: batches up to 2; its checkpoint is not in the data directory: start it with --new-epoch"
    assert len(read_queue(str(to), "a")) == 9


def test_it_goes_on_and_answers_in_json(data: DataDir, tmp_path: Path, run: Run) -> None:
    to = tmp_path / "copy"
    with faults.installed(at("replace.before", crash, where="_delta_log")), pytest.raises(Crash):
        run("copy", data.root, to)
    code, _, err = run("maintain", "--data", to, "--dry-run")
    assert code == 3
    assert "a copy that is not whole yet" in err
    code, out, err = run("copy", data.root, to, "--json", "--verify")
    assert (code, err) == (0, "")
    said = json.loads(out)
    assert said["files"] == 0
    assert said["kept_files"] > 6
    assert said["streams"][0]["batch_id"] == 2
    assert run("maintain", "--data", to, "--dry-run")[0] == 0


def test_it_refuses_a_destination_that_is_used(data: DataDir, tmp_path: Path, run: Run) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "x").write_text("")
    code, _, err = run("copy", data.root, tmp_path / "copy")
    assert code == 3
    assert "is not empty" in err
    assert run("copy", tmp_path / "nowhere", tmp_path / "copy")[0] == 2
    assert run("copy", data.root, "s3://bucket")[0] == 2
