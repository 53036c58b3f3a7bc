"""An object store that is busy, loses answers or refuses: every batch counts once, every error is one clear line."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from bindery.router.errors import BinderyError, CommitUnknown, StorageFailed
from bindery.store import faults
from bindery.store.access import AccessStore, User
from bindery.store.commit import BatchCommitter
from bindery.store.jobs import JobFolder, JobRecord
from bindery.store.maintenance import Policy, maintain
from bindery.store.manifest import read_manifest
from bindery.store.paths import DataDir
from bindery.store.places import at as place
from bindery.store.places import stores
from bindery.store.read import read_queue
from bindery.store.topology import TopologyStore
from tests.servers.faulty_s3 import FaultyS3
from tests.servers.ports import free_port
from tests.servers.s3 import second_opinion
from tests.unit.store.conftest import STREAM, Crash, declare_queues, deliver

QUEUES: Final = ("a", "b")
APP: Final = f"{STREAM}:1"
ROWS: Final = 3


@pytest.fixture
def retries(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How often a request is tried again, of stores that are opened from now on; never without a parameter."""
    monkeypatch.setitem(stores._RETRIES, "max_retries", getattr(request, "param", 0))


@pytest.fixture
def data(s3_root: str, faulty_s3: FaultyS3) -> DataDir:
    """On the object store, by way of the proxy, with the queues a and b."""
    found = DataDir.open(s3_root, create=True)
    TopologyStore(found).edit(declare_queues(*QUEUES), author="t")
    return found


@pytest.fixture
def version(data: DataDir) -> int:
    return TopologyStore(data).load().version


def committer_of(data: DataDir) -> BatchCommitter:
    return BatchCommitter(data, stream=STREAM, app_id=APP)


def deliver_unless_done(data: DataDir, committer: BatchCommitter, batch: int, version: int) -> None:
    if not committer.pin(batch, version, 1_000 + batch).done:
        deliver(data, committer, batch, version, *QUEUES, rows=ROWS)


def deliver_until_done(data: DataDir, version: int, batches: range) -> int:
    """As a driver does that is started again after every failure; how often that was."""
    failures = 0
    for batch in batches:
        while True:
            try:
                with committer_of(data) as committer:
                    deliver_unless_done(data, committer, batch, version)
            except (StorageFailed, CommitUnknown) as error:
                assert is_one_line(error)
                failures += 1
                assert failures < 200
            else:
                break
    return failures


def assert_exactly_once(data: DataDir, batches: int) -> None:
    """The model: each batch is in each queue, and in the manifest, once."""
    expected = [(batch, seq) for batch in range(batches) for seq in range(ROWS)]
    for name in QUEUES:
        found = read_queue(data, name)["routing"].to_pylist()
        assert sorted((row["batch_id"], row["seq"]) for row in found) == expected, name
    assert sorted(row["batch_id"] for row in read_manifest(data, app_id=APP)) == list(range(batches))


def is_one_line(error: BinderyError) -> bool:
    return "\n" not in error.message and "<" not in error.message and len(error.message) < 400


# -- a store that is busy or loses answers ------------------------------------------------------------------


@pytest.mark.parametrize("code", ["InternalError", "SlowDown", "TooManyRequests"])
def test_batches_get_through_a_store_that_is_busy(data: DataDir, version: int, faulty_s3: FaultyS3, code: str) -> None:
    with faulty_s3.failing(code, chance=0.1, seed=7), committer_of(data) as committer:
        for batch in range(4):
            deliver(data, committer, batch, version, *QUEUES, rows=ROWS)
    assert_exactly_once(data, 4)


@pytest.mark.parametrize("keys", ["*/_delta_log/*", "*/pins/*", "*.parquet", "*"])
def test_batches_of_which_answers_are_lost_count_once(
    data: DataDir, version: int, faulty_s3: FaultyS3, keys: str
) -> None:
    with faulty_s3.counting() as requests, faulty_s3.losing_answers(keys=keys, chance=0.4, seed=11):
        deliver_until_done(data, version, range(4))
    assert requests.of({"put"}, keys)
    assert_exactly_once(data, 4)


@pytest.mark.parametrize("lost", ["requests", "answers"])
@pytest.mark.usefixtures("retries")
def test_batches_count_once_when_clients_do_not_try_again(
    data: DataDir, version: int, faulty_s3: FaultyS3, lost: str
) -> None:
    lose = faulty_s3.losing_requests if lost == "requests" else faulty_s3.losing_answers
    with lose(kinds={"put"}, chance=0.2, seed=3):
        assert deliver_until_done(data, version, range(6))
    assert_exactly_once(data, 6)


@pytest.mark.parametrize("retries", [0, 2], indirect=True)
@pytest.mark.usefixtures("retries")
def test_users_are_those_that_were_put_whatever_answers_are_lost(data: DataDir, faulty_s3: FaultyS3) -> None:
    users = AccessStore(data.access)
    known = set()
    with faulty_s3.losing_answers(keys="*/access.json", chance=0.7, seed=5):
        for name in ("ann", "bob", "cid", "dan"):
            try:
                users.edit(lambda editor, name=name: editor.put_user(User(name)), author="t", action=name)  # type: ignore[misc]
            except StorageFailed as error:
                assert is_one_line(error)
            else:
                known.add(name)
            assert set(AccessStore(data.access).load().users) == known


@pytest.mark.parametrize("retries", [0, 2], indirect=True)
@pytest.mark.usefixtures("retries")
def test_a_job_is_what_was_put_on_record_whatever_answers_are_lost(
    data: DataDir, faulty_s3: FaultyS3, tmp_path: Path
) -> None:
    folder = JobFolder(f"{data.root}/jobs/s", tmp_path)
    with faulty_s3.losing_answers(keys="*/job.json", chance=0.7, seed=5):
        for number in range(4):
            before = folder.record()
            asked = JobRecord("s", {"number": number}, "ann", 1.0)
            try:
                folder.save(asked)
            except StorageFailed as error:
                assert is_one_line(error)
                asked = before  # type: ignore[assignment]
            assert JobFolder(folder.place, tmp_path).record() == asked


# -- races and deaths ------------------------------------------------------------------------------------

_COMMITTER: Final = """
import sys
from bindery.store.paths import DataDir
from tests.unit.store.test_object_store import committer_of, deliver_unless_done

root, version, batches = sys.argv[1:]
data = DataDir.open(root)
with committer_of(data) as committer:
    print("ready", flush=True)
    sys.stdin.readline()
    for batch in range(int(batches)):
        deliver_unless_done(data, committer, batch, int(version))
"""

_EDITOR: Final = """
import sys
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from tests.unit.store.conftest import declare_queues

store = TopologyStore(DataDir.open(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for number in range(8):
    store.edit(declare_queues(f"{sys.argv[2]}{number}"), author=sys.argv[2])
"""

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a program that waits for a line; what is left of them ends with the test."""
    started: list[subprocess.Popen[str]] = []

    def begin(program: str, *arguments: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", program, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def go(*processes: subprocess.Popen[str]) -> None:
    """Let them go together."""
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", process.communicate()[1][-2000:]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()


def ended(*processes: subprocess.Popen[str]) -> None:
    for process in processes:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors[-2000:]


def test_two_committers_of_one_stream_race_and_each_batch_counts_once(
    data: DataDir, version: int, start: Start
) -> None:
    rivals = [start(_COMMITTER, data.root, version, 8) for _ in range(2)]
    go(*rivals)
    errors = [rival.communicate(timeout=60)[1] for rival in rivals]
    # who has claimed the stream last goes on to the end, the other one notices or has ended already
    assert 0 in [rival.returncode for rival in rivals], errors
    assert all("another driver owns stream" in error for error in errors if error), errors
    assert_exactly_once(data, 8)


def test_two_editors_of_the_topology_race_and_no_change_is_lost(data: DataDir, version: int, start: Start) -> None:
    rivals = [start(_EDITOR, data.root, name) for name in ("x", "y")]
    go(*rivals)
    ended(*rivals)
    after = TopologyStore(data).load()
    assert {name for _, name in after.queues} == {*QUEUES, *(f"{one}{number}" for one in "xy" for number in range(8))}
    assert after.version == version + 16


def test_whoever_goes_on_after_a_kill_in_mid_batch_completes_it(
    data: DataDir, version: int, faulty_s3: FaultyS3, start: Start
) -> None:
    """The request at which the process is killed takes place: nobody hears of it."""
    points = random.Random(9)
    for _ in range(4):
        victim = start(_COMMITTER, data.root, version, 12)
        with faulty_s3.before(victim.kill, kinds={"put", "delete"}, nth=points.randrange(1, 40)):
            go(victim)
            _, errors = victim.communicate(timeout=60)
        assert victim.returncode == -9, errors
    ending = start(_COMMITTER, data.root, version, 12)
    go(ending)
    ended(ending)
    assert_exactly_once(data, 12)


# -- a store that refuses ----------------------------------------------------------------------------------


def everything(data: DataDir) -> dict[str, object]:
    return {name: found.identity for name, found in place(data.root).within().items()}


REFUSALS: Final = {
    "InvalidAccessKeyId": "does not know the access key",
    "SignatureDoesNotMatch": "the secret is not that of the access key",
    "AccessDenied": "do not permit it",
    "NoSuchBucket": "there is no bucket s3://bindery-tests",
    "RequestTimeTooSkewed": "the clock of this machine and the store's differ",
}


@pytest.mark.parametrize("code", REFUSALS)
def test_a_refusal_is_one_clear_line_and_changes_nothing(
    data: DataDir, version: int, faulty_s3: FaultyS3, code: str
) -> None:
    with committer_of(data) as committer:
        deliver(data, committer, 0, version, *QUEUES, rows=ROWS)
        before = everything(data)
        with faulty_s3.failing(code):
            for attempt in (
                lambda: DataDir.open(data.root),
                lambda: TopologyStore(data).load(),
                lambda: deliver(data, committer, 1, version, *QUEUES, rows=ROWS),
                lambda: TopologyStore(data).edit(declare_queues("c"), author="t"),
                lambda: AccessStore(data.access).edit(lambda e: e.put_user(User("ann")), author="t", action="put"),
                lambda: JobFolder(f"{data.root}/jobs/s").save(JobRecord("s", {}, "ann", 1.0)),
            ):
                with pytest.raises(
                    BinderyError, match=f"{REFUSALS[code]}|403 Forbidden: the store refuses the credentials"
                ) as refused:
                    attempt()
                assert is_one_line(refused.value)
        assert everything(data) == before
        deliver(data, committer, 1, version, *QUEUES, rows=ROWS)
    assert_exactly_once(data, 2)


def test_a_store_without_conditional_puts_is_refused_before_anything_is_made(s3_root: str, faulty_s3: FaultyS3) -> None:
    if second_opinion():
        return  # it checks signatures, of which the header is a part
    data = DataDir.open(s3_root, create=True)
    with faulty_s3.without_conditional_put():
        for attempt in (
            lambda: TopologyStore(data).create(),
            lambda: AccessStore(data.access).edit(lambda e: e.put_user(User("ann")), author="t", action="put"),
        ):
            with pytest.raises(StorageFailed, match="does not refuse a second put") as refused:
                attempt()
            assert is_one_line(refused.value)
        assert everything(data) == {}
    TopologyStore(data).create()


def test_what_a_death_while_the_store_is_asked_for_conditions_leaves_goes_with_maintenance(s3_root: str) -> None:
    data = DataDir.open(s3_root, create=True)
    TopologyStore(data).create()
    stores._stores.clear()

    def die(point: str, _: str) -> None:
        if point in ("put.answered", "delete.asked"):
            raise Crash

    with faults.installed(die), pytest.raises(Crash):
        TopologyStore(data).edit(declare_queues(*QUEUES), author="t")
    assert [name for name in everything(data) if "probe" in name]
    TopologyStore(data).edit(declare_queues(*QUEUES), author="t")
    maintain(data, Policy(orphan_age=timedelta(0)))
    assert not [name for name in everything(data) if "probe" in name]


@pytest.mark.usefixtures("retries")
def test_an_endpoint_at_which_nothing_answers_is_named(s3_root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with pytest.raises(BinderyError, match=rf"nothing answers at {endpoint} \(AWS_ENDPOINT_URL\)") as refused:
        DataDir.open(s3_root, create=True)
    assert is_one_line(refused.value)


def test_a_bucket_that_is_missing_is_named(s3_root: str) -> None:
    with pytest.raises(BinderyError, match="there is no bucket s3://not-here") as refused:
        TopologyStore(DataDir.open("s3://not-here/data", create=True)).create()
    assert is_one_line(refused.value)


# -- what a batch costs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("queues", [1, 3])
def test_a_batch_asks_as_often_at_any_age(s3_root: str, faulty_s3: FaultyS3, queues: int) -> None:
    data = DataDir.open(s3_root, create=True)
    names = [f"q{number}" for number in range(queues)]
    version = TopologyStore(data).edit(declare_queues(*names), author="t").version
    asked = {}
    with committer_of(data) as committer:
        for batch in range(61):
            with faulty_s3.counting() as requests:
                deliver(data, committer, batch, version, *names)
            asked[batch] = requests.by_kind()
    expected = {"head": 4 + queues, "get": 6, "put": 3 + 2 * queues, "delete": 1}
    assert asked[5] == asked[60] == expected
