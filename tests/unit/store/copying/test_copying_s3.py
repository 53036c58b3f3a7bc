"""Copies to an object store, and back from it, with its faults."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from bindery.router.errors import BinderyError, Refused, StorageFailed
from bindery.store import faults
from bindery.store.access import AccessStore, User
from bindery.store.commit import BatchCommitter
from bindery.store.copying import copy_data
from bindery.store.manifest import read_manifest
from bindery.store.paths import DataDir
from bindery.store.places import at as place_at
from bindery.store.streams import register
from bindery.store.topology import TopologyStore
from tests.servers.faulty_s3 import FaultyS3
from tests.unit.store.conftest import Crash, declare_queues, deliver
from tests.unit.store.copying.test_copying import (
    QUEUES,
    Writers,
    checkpoint,
    dies_after,
    fill,
    is_at_one_point,
    rows,
)


def copy(data: DataDir, to: str | Path, **options: bool) -> DataDir:
    copy_data(data, DataDir.named(to), **options)
    return DataDir.open(to)


@pytest.fixture
def version(store: TopologyStore) -> int:
    return store.edit(declare_queues(*QUEUES), author="t").version


def test_there_and_back_again(s3_root: str, data: DataDir, version: int, tmp_path: Path) -> None:
    register(data, "s", "1")
    checkpoint(data, "s", planned=3, ended=2)
    fill(data, version)
    users = AccessStore(data.access)
    for name in "ab":
        users.edit(lambda editor, name=name: editor.put_user(User(name)), author="t", action=f"put {name}")
    with Path(data.access, "audit.jsonl").open("a") as audit_file:
        audit_file.write('{"at_ms": 1, "us\n')  # a process died here
    Path(data.root, "jobs/damaged").mkdir(parents=True)
    Path(data.root, "jobs/damaged/job.json").write_text("{")
    there = copy(data, s3_root)
    is_at_one_point(there)
    assert AccessStore(there.access).load() == users.load()
    with BatchCommitter(there, stream="s", app_id="s:1") as committer:
        assert committer.pin(2, version, 0).done
        deliver(there, committer, 3, version, *QUEUES)
    place_at(there.checkpoint("s"), "offsets/3").replace(b"v1\n{}\n-\n")
    AccessStore(there.access).edit(lambda editor: editor.delete_user("a"), author="t", action="delete a")
    back = copy(there, tmp_path / "back", verify=True)
    is_at_one_point(back)
    assert len(read_manifest(back)) == 4
    for name in QUEUES:
        assert rows(back, name) == rows(there, name)
    audit = Path(back.access, "audit.jsonl").read_text().splitlines()
    assert [json.loads(line)["action"] for line in audit[1:]] == ["put a", "put b", "delete a"]
    assert audit[0] == '{"at_ms": 1, "us'
    assert Path(back.root, "jobs/damaged/job.json").read_text() == "{"
    assert Path(back.access).stat().st_mode & 0o777 == 0o700
    assert Path(back.checkpoint("s"), "offsets/2").read_bytes() == Path(data.checkpoint("s"), "offsets/2").read_bytes()


def test_beside_writers_on_the_object_store(s3_root: str, tmp_path: Path) -> None:
    data = DataDir.open(s3_root, create=True)
    store = TopologyStore(data)
    store.create()
    version = store.edit(declare_queues(*QUEUES), author="t").version
    fill(data, version)
    with Writers(data, store, takes=False):
        copies = [copy(data, tmp_path / str(number)) for number in range(3)]
    for copied in copies:
        is_at_one_point(copied)


@pytest.mark.parametrize("seed", range(3))
def test_a_copy_that_is_killed_and_meets_faults_becomes_whole(
    seed: int, s3_root: str, faulty_s3: FaultyS3, data: DataDir, store: TopologyStore, version: int
) -> None:
    fill(data, version)
    rng = random.Random(seed)
    with (
        Writers(data, store, takes=True),
        faulty_s3.failing("SlowDown", chance=0.05, seed=seed),
        faulty_s3.losing_answers(kinds={"put"}, chance=0.05, seed=seed),
        faulty_s3.failing("InternalError", kinds={"list", "get"}, chance=0.05, seed=seed),
    ):
        for _ in range(3):
            try:
                with faults.installed(dies_after(rng.randint(1, 100), s3_root)):
                    copied = copy(data, s3_root)
                break
            except Crash:
                with pytest.raises(BinderyError):  # not whole, or not even begun
                    DataDir.open(s3_root)
        else:
            copied = copy(data, s3_root)
    assert TopologyStore(copied).load().version >= version
    for name in QUEUES:
        assert rows(copied, name)


def test_nothing_is_sent_twice(s3_root: str, faulty_s3: FaultyS3, data: DataDir, version: int) -> None:
    fill(data, version, batches=5)
    with (
        faulty_s3.failing("AccessDenied", kinds={"put"}, keys="*/_delta_log/*"),
        pytest.raises(StorageFailed, match="do not permit"),
    ):
        copy(data, s3_root)
    with pytest.raises(Refused, match="not whole"):
        DataDir.open(s3_root)
    with faulty_s3.counting() as requests:
        copied = copy(data, s3_root)
    assert not requests.of({"put", "get", "head", "multipart"}, "*.parquet")
    is_at_one_point(copied)
    assert place_at(s3_root, "copy.json").stat() is None


def test_a_prefix_with_other_content_is_refused(s3_root: str, data: DataDir, version: int) -> None:
    place_at(s3_root, "mine", "a").replace(b"x")
    with pytest.raises(Refused, match="not empty"):
        copy(data, s3_root)
    assert list(place_at(s3_root).within()) == ["mine/a"]
