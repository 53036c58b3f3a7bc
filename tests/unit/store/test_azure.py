"""The store on Azure's blobs, by Azurite: what differs there from stores that speak S3."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from bindery.router.errors import InvalidInput
from bindery.store.access import AccessStore, User
from bindery.store.commit import BatchCommitter
from bindery.store.copying import copy_data
from bindery.store.maintenance import maintain
from bindery.store.paths import DataDir
from bindery.store.places import at
from bindery.store.read import read_queue, take
from bindery.store.topology import TopologyStore
from tests.unit.store.conftest import declare_queues, deliver
from tests.unit.store.maintenance.conftest import NOTHING_OLD, Clock


@pytest.fixture
def data(azure_root: str) -> DataDir:
    return DataDir.open(azure_root, create=True)


def filled(data: DataDir, batches: int) -> TopologyStore:
    store = TopologyStore(data)
    store.create()
    version = store.edit(declare_queues("a", "b"), author="t").version
    with BatchCommitter(data, stream="s", app_id="s:1") as committer:
        for number in range(batches):
            deliver(data, committer, number, version, "a", "b")
    return store


def test_batches_are_committed_read_taken_and_copied(data: DataDir, tmp_path: Path) -> None:
    store = filled(data, 3)
    assert read_queue(data, "a").num_rows == 9
    assert take(data, "b", limit=2).rows.num_rows == 2
    copy_data(data, DataDir.named(tmp_path / "copy"))
    copied = DataDir.open(tmp_path / "copy")
    assert (read_queue(copied, "a").num_rows, read_queue(copied, "b").num_rows) == (9, 7)
    AccessStore(data.access).edit(lambda editor: editor.put_user(User("u")), author="t", action="put")
    assert store.load() == TopologyStore(copied).load()


def test_small_files_are_merged(data: DataDir) -> None:
    filled(data, 40)
    before = read_queue(data, "a")
    clock = Clock()
    clock.ahead = timedelta(hours=1)
    found = {one.name: one for one in maintain(data, NOTHING_OLD, clock=clock).tables}
    assert (found["queues/~2F/a"].merged, found["queues/~2F/a"].into, found["queues/~2F/a"].error) == (40, 1, None)
    assert read_queue(data, "a").equals(before)


@pytest.mark.parametrize(("last", "expected"), [(1, b"9"), (10, b"0123456789"), (11, b"0123456789"), (3, b"789")])
def test_the_last_bytes_of_an_object(data: DataDir, last: int, expected: bytes) -> None:
    place = at(data.root, "ten")
    place.replace(b"0123456789")
    assert place.read(last=last) == expected
    assert at(data.root, "none").read(last=last) is None


def test_of_two_that_make_a_file_one_does(data: DataDir) -> None:
    place = at(data.root, "one")
    identity = place.put_new(b"first")
    assert identity is not None
    assert place.put_new(b"second") is None
    assert place.replace_same(b"third", identity)
    assert not place.replace_same(b"fourth", identity)
    assert place.read() == b"third"


def test_a_wrong_key_and_a_missing_container_are_one_line(azure_root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = azure_root.replace("bindery-tests@", "nowhere@")
    with pytest.raises(InvalidInput, match="ContainerNotFound: there is no container abfss://nowhere@") as refused:
        DataDir.open(missing, create=True)
    assert "\n" not in refused.value.message
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "d3Jvbmc=")
    with pytest.raises(InvalidInput, match="AuthorizationFailure: the key is not that of the account") as refused:
        DataDir.open(azure_root, create=True)
    assert "\n" not in refused.value.message
