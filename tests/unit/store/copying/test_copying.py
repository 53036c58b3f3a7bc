"""Copies of a data directory, while it is written to, to the file system."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from bindery.router.errors import InvalidInput, Refused, StorageFailed
from bindery.router.message import Message
from bindery.router.model import Binding
from bindery.store import faults, tables
from bindery.store.access import AccessStore, User
from bindery.store.checkpoints import write_checkpoint
from bindery.store.commit import BatchCommitter
from bindery.store.copying import copy_data
from bindery.store.destinations import ToQueue
from bindery.store.jobs import JobRecord, JobRegistry
from bindery.store.log import TableLog
from bindery.store.maintenance import Policy, maintain
from bindery.store.manifest import read_manifest
from bindery.store.moves import Mover
from bindery.store.paths import DataDir
from bindery.store.read import read_queue, take
from bindery.store.redrive import Redriver
from bindery.store.streams import register
from bindery.store.topology import TopologyStore
from bindery.store.transfers import Transfer
from bindery.store.unroutable import Selection
from tests.unit.store.conftest import Crash, at, crash, declare_queues, deliver
from tests.unit.store.routed import route

QUEUES = ("a", "b", "c")


def copy(data: DataDir, to: Path, **options: bool) -> DataDir:
    copy_data(data, DataDir.named(to), **options)
    return DataDir.open(to)


def rows(data: DataDir, queue: str) -> Counter[tuple[str, int, int]]:
    """The rows of a queue by stream, batch and number."""
    routing = read_queue(data, queue)["routing"].to_pylist()
    return Counter((one["stream"], one["batch_id"], one["seq"]) for one in routing)


def is_at_one_point(data: DataDir) -> None:
    """Assert that of every batch all or nothing is there: what the manifest says of it."""
    ended = read_manifest(data)
    expected: dict[str, Counter[tuple[str, int]]] = {name: Counter() for name in QUEUES}
    versions = {name: TableLog(data.queue("/", name)).version for name in QUEUES}
    for row in ended:
        for one in row["tables"]:
            expected[one["name"]][row["stream"], row["batch_id"]] += one["rows"]
            assert one["version"] <= versions[one["name"]]
    newest = max((row["topology_version"] for row in ended), default=0)
    assert TopologyStore(data).load(version=newest).version == newest
    for name in QUEUES:
        found = Counter((stream, batch) for stream, batch, _ in rows(data, name).elements())
        assert found == +expected[name]


def files(root: str) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in Path(root).rglob("*") if path.is_file()}


@pytest.fixture
def version(store: TopologyStore) -> int:
    return store.edit(declare_queues(*QUEUES), author="t").version


def fill(data: DataDir, version: int, batches: int = 3) -> None:
    with BatchCommitter(data, stream="s", app_id="s:1") as committer:
        for number in range(batches):
            deliver(data, committer, number, version, *QUEUES)


def test_a_copy_has_what_the_source_has(data: DataDir, store: TopologyStore, version: int, tmp_path: Path) -> None:
    register(data, "s", "1")
    checkpoint(data, "s", planned=2, ended=2)
    fill(data, version)
    AccessStore(data.access).edit(lambda editor: editor.put_user(User("u")), author="t", action="put")
    JobRegistry(data).folder("s").save(JobRecord("s", {"stream": "s"}, "t", 1.0))
    before = files(data.root)
    copied = copy(data, tmp_path / "copy")
    assert files(data.root) == before  # nothing is written to the source
    others = {name for name in before if name.endswith(("lock", "alive", ".crc")) or "/shortened/" in name}
    assert files(copied.root).keys() == before.keys() - others
    for name in QUEUES:
        assert rows(copied, name) == rows(data, name)
    assert read_manifest(copied) == read_manifest(data)
    for number in range(version + 1):
        assert TopologyStore(copied).load(version=number) == store.load(version=number)
    assert AccessStore(copied.access).load() == AccessStore(data.access).load()
    assert JobRegistry(copied).get("s").record.document == {"stream": "s"}
    for private in ("access", "jobs", "jobs/s"):
        assert Path(copied.root, private).stat().st_mode & 0o777 == 0o700
    assert Path(copied.root, "access/access.json").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in Path(copied.root).iterdir() if path.name == "copy.json") == []


def test_a_stream_goes_on_from_the_copy(data: DataDir, version: int, tmp_path: Path) -> None:
    epoch = register(data, "s", "1")
    fill(data, version)
    copied = copy(data, tmp_path / "copy")
    assert register(copied, "s", "1") == epoch
    with BatchCommitter(copied, stream="s", app_id="s:1") as committer:
        assert committer.newest_batch() == 2
        assert committer.pin(2, version, 0).done  # asked for again by Spark, which did not hear of its end
        deliver(copied, committer, 3, version, *QUEUES)
    is_at_one_point(copied)
    assert len(read_manifest(copied)) == 4


@pytest.mark.parametrize("what", ["a file", "a folder", "another copy", "a data directory"])
def test_a_destination_with_other_content_is_refused(what: str, data: DataDir, version: int, tmp_path: Path) -> None:
    to = tmp_path / "copy"
    to.mkdir()
    if what == "a file":
        (to / "mine.txt").write_text("x")
    elif what == "a folder":
        (to / "mine").mkdir()
    elif what == "another copy":
        (to / "copy.json").write_text(json.dumps({"source": "/srv/other", "run": "1"}))
    else:
        TopologyStore(DataDir.open(to, create=True)).create()
    before = files(str(to))
    with pytest.raises(Refused, match=r"not empty|copy of /srv/other"):
        copy(data, to)
    assert files(str(to)) == before


def test_a_copy_into_itself_is_refused(data: DataDir, version: int, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(data.root)
    for to in (Path(data.root), Path(data.root, "copy"), tmp_path, tmp_path / "link" / "copy"):
        with pytest.raises(InvalidInput, match="lie in each other"):
            copy(data, to)


def test_a_folder_that_is_no_data_directory_is_refused(data: DataDir, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="has no topology"):
        copy(data, tmp_path / "copy")


def test_until_it_is_whole_everybody_refuses_it(data: DataDir, version: int, tmp_path: Path) -> None:
    fill(data, version)
    hook = at("replace.before", crash, where="_delta_log", number=3)
    with faults.installed(hook), pytest.raises(Crash):
        copy(data, tmp_path / "copy")
    for create in (False, True):
        with pytest.raises(Refused, match="not whole yet"):
            DataDir.open(tmp_path / "copy", create=create)
    copy(data, tmp_path / "copy")


def test_a_dry_run_writes_nothing(data: DataDir, version: int, tmp_path: Path) -> None:
    fill(data, version)
    done = copy_data(data, DataDir.named(tmp_path / "copy"), dry_run=True)
    assert not (tmp_path / "copy").exists()
    assert done.copied == copy_data(data, DataDir.named(tmp_path / "copy")).copied
    assert done.copied.files > 0


class Writers:
    """Streams that commit batches, an editor of the topology, a consumer and maintenance, until told to end."""

    def __init__(self, data: DataDir, store: TopologyStore, *, takes: bool) -> None:
        self._stop = threading.Event()
        self._errors: list[BaseException] = []
        work: list[Callable[[], None]] = [
            lambda: self._batches(data, store, "v", QUEUES),
            lambda: self._batches(data, store, "t", QUEUES[:2]),
            lambda: self._batches(data, store, "u", QUEUES[1:]),
            lambda: self._edits(store),
            lambda: self._maintenance(data),
        ]
        if takes:
            work.append(lambda: self._takes(data))
        self._threads = [threading.Thread(target=self._run, args=(one,)) for one in work]

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        assert not self._errors

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self._errors.append(error)

    def _batches(self, data: DataDir, store: TopologyStore, stream: str, queues: tuple[str, ...]) -> None:
        rng = random.Random(stream)
        with BatchCommitter(data, stream=stream, app_id=f"{stream}:1", workers=2) as committer:
            for number in itertools.count():
                if self._stop.wait(0.05 * rng.random()):
                    return
                deliver(data, committer, number, store.load().version, *rng.sample(queues, 2))

    def _edits(self, store: TopologyStore) -> None:
        for number in itertools.count():
            if self._stop.wait(0.3):
                return
            store.edit(declare_queues(f"other{number}"), author="t")

    def _takes(self, data: DataDir) -> None:
        while not self._stop.wait(0.05):
            take(data, "a", limit=2)

    def _maintenance(self, data: DataDir) -> None:
        while not self._stop.wait(0.05):
            maintain(data, Policy(fan_in=4))


def test_beside_writers_every_copy_is_at_one_point(
    data: DataDir, store: TopologyStore, version: int, tmp_path: Path
) -> None:
    fill(data, version)
    with Writers(data, store, takes=False):
        copies = [copy(data, tmp_path / str(number)) for number in range(5)]
    batches = []
    for copied in copies:
        is_at_one_point(copied)
        batches.append(len(read_manifest(copied)))
    assert batches == sorted(batches)
    assert batches[-1] > batches[0]


@pytest.mark.parametrize("seed", range(4))
def test_a_copy_that_is_killed_again_and_again_becomes_whole(
    seed: int, data: DataDir, store: TopologyStore, version: int, tmp_path: Path
) -> None:
    fill(data, version)
    rng = random.Random(seed)
    to = tmp_path / "copy"
    with Writers(data, store, takes=True):
        for _ in range(4):
            killed = dies_after(rng.randint(1, 150), str(to))
            try:
                with faults.installed(killed):
                    copy(data, to)
            except Crash:
                assert not (to / "manifest").exists() or (to / "copy.json").exists()
                continue
            break
        copied = copy(data, to) if (to / "copy.json").exists() or not to.exists() else DataDir.open(to)
    for name in QUEUES:
        assert tables.count_rows(copied, "/", name) == len(read_queue(copied, name))
    assert not [name for name in files(copied.root) if name.endswith(".tmp")]


def test_a_process_that_is_killed_leaves_what_the_next_one_uses(data: DataDir, version: int, tmp_path: Path) -> None:
    fill(data, version, batches=40)
    to = tmp_path / "copy"
    command = [sys.executable, "-m", "bindery.cli.main", "copy", data.root, str(to)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None and len(list(to.glob("queues/*/*/part*.parquet"))) < 20:
            time.sleep(0.001)
        process.kill()
    if (to / "copy.json").exists():
        done = copy_data(data, DataDir.named(to))
        assert done.copied.kept_files >= 20
    is_at_one_point(DataDir.open(to))
    assert not [name for name in files(str(to)) if name.endswith(".tmp")]


def dies_after(number: int, where: str) -> faults.Hook:
    """A process that dies at the n-th effect below a folder, and does nothing there afterwards."""
    left = itertools.count(number, -1)

    def hook(_point: str, path: str) -> None:
        if path.startswith(where) and next(left) <= 0:
            raise Crash

    return hook


def make_older(data: DataDir, seconds: float) -> None:
    """Have what is in the logs of the data directory made so long ago."""
    for path in Path(data.root).rglob("_delta_log/*.json"):
        then = path.stat().st_mtime - seconds
        os.utime(path, (then, then))


def test_what_a_dead_job_has_left_is_completed_from_the_copy(data: DataDir, version: int, tmp_path: Path) -> None:
    epoch = register(data, "s", "1")
    checkpoint(data, "s", planned=3, ended=2)
    fill(data, version)
    with (
        BatchCommitter(data, stream="s", app_id=epoch.app_id, workers=1) as committer,
        faults.installed(at("batch.appending", crash, number=3)),
        pytest.raises(Crash),
    ):
        deliver(data, committer, 3, version, *QUEUES)
    young = copy(data, tmp_path / "young")
    is_at_one_point(young)
    assert not Path(young.checkpoint("s"), "offsets/3").exists()
    assert not Path(young.pins("s:1"), "3.json").exists()
    make_older(data, 600)
    with BatchCommitter(data, stream="t", app_id="t:1") as committer:
        deliver(data, committer, 0, version, *QUEUES)
    copied = copy(data, tmp_path / "copy")
    assert [sum(rows(copied, name).values()) for name in QUEUES] == [15, 15, 12]
    assert Path(copied.checkpoint("s"), "offsets/3").exists()
    with BatchCommitter(copied, stream="s", app_id="s:1") as committer:
        deliver(copied, committer, 3, version, *QUEUES)
    is_at_one_point(copied)
    assert [sum(rows(copied, name).values()) for name in QUEUES] == [15, 15, 15]


def checkpoint(data: DataDir, stream: str, *, planned: int, ended: int) -> None:
    """The files of a Spark checkpoint, with more in it than a copy wants."""
    folder = Path(data.checkpoint(stream))
    for name in ("offsets", "commits", "refused", "shortened", "sources/0"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"1"}')
    for number in range(planned + 1):
        (folder / "offsets" / str(number)).write_text(f'v1\n{{}}\n{{"logOffset":{number}}}\n')
        (folder / "offsets" / f".{number}.crc").write_text("x")
        (folder / "refused" / f"{number}.json").write_text("[]")
        (folder / "sources/0" / str(number)).write_text(f"v1\n{number}")
    for number in range(ended + 1):
        (folder / "commits" / str(number)).write_text("v1\n{}")
    (folder / "shortened" / "x").write_text("x")


@pytest.mark.parametrize("ahead", [0, 1, 2])
def test_the_checkpoint_is_never_ahead_of_the_tables(ahead: int, data: DataDir, version: int, tmp_path: Path) -> None:
    register(data, "s", "1")
    fill(data, version)  # batches 0 to 2
    checkpoint(data, "s", planned=2 + ahead, ended=2)
    copied = Path(copy(data, tmp_path / "copy").checkpoint("s"))
    names = {path.relative_to(copied).as_posix() for path in copied.rglob("*") if path.is_file()}
    assert names == {
        "metadata",
        *(f"offsets/{number}" for number in range(3)),
        *(f"commits/{number}" for number in range(3)),
        *(f"refused/{number}.json" for number in range(3)),
        *(f"sources/0/{number}" for number in range(3 + ahead)),
    }


def test_a_checkpoint_that_does_not_fit_is_left_out_and_named(data: DataDir, version: int, tmp_path: Path) -> None:
    register(data, "s", "other")
    checkpoint(data, "s", planned=0, ended=0)
    register(data, "t", "1")
    register(data, "u", "1")
    checkpoint(data, "u", planned=1, ended=1)
    with BatchCommitter(data, stream="u", app_id="u:1") as committer:
        deliver(data, committer, 2, version, "a")
    done = copy_data(data, DataDir.named(tmp_path / "copy"))
    assert {one.epoch.stream: one.missing for one in done.streams} == {
        "s": "its checkpoint is another one than it last ran on",
        "t": "its checkpoint is not in the data directory",
        "u": "its checkpoint is older than the tables",
    }
    assert not (tmp_path / "copy/checkpoints").exists()


def test_of_a_table_that_a_stream_reads_the_copy_has_what_it_has_read(
    data: DataDir, version: int, tmp_path: Path
) -> None:
    """A bridge reads a queue; the queue's newest batch has not ended, and the bridge has read it."""
    register(data, "s", "1")
    fill(data, version, batches=1)
    with (
        BatchCommitter(data, stream="t", app_id="t:1", workers=1) as committer,
        faults.installed(at("batch.appending", crash, number=2, times=2)),
        pytest.raises(Crash),
    ):
        deliver(data, committer, 0, version, *QUEUES)
    log = TableLog(data.queue("/", "a"))
    with BatchCommitter(data, stream="s", app_id="s:1") as committer:
        deliver(data, committer, 1, version, "c")
    checkpoint(data, "s", planned=1, ended=1)
    read = {"reservoirId": log.state.table_id, "reservoirVersion": log.version, "index": 0}
    Path(data.checkpoint("s"), "offsets/1").write_text(f"v1\n{{}}\n{json.dumps(read)}\n")
    copied = copy(data, tmp_path / "copy")
    is_at_one_point(copied)
    assert [row["batch_id"] for row in read_manifest(copied)] == [0]
    read |= {"reservoirVersion": log.version, "index": -1}  # it stands before that version
    Path(data.checkpoint("s"), "offsets/1").write_text(f"v1\n{{}}\n{json.dumps(read)}\n")
    copied = copy(data, tmp_path / "another")
    is_at_one_point(copied)
    assert [row["batch_id"] for row in read_manifest(copied)] == [0, 1]


def test_files_that_vanish_are_looked_for_anew(data: DataDir, version: int, tmp_path: Path) -> None:
    fill(data, version, batches=20)

    def merge() -> None:
        """Merges small files, and removes them at once."""
        maintain(data, Policy(fan_in=4))
        live = {
            Path(data.queue("/", "c"), name)
            for name in tables.open_log(data.queue("/", "c"), tables.QUEUE, files=True).files or ()
        }
        for path in Path(data.queue("/", "c")).glob("*.parquet"):
            if path not in live:
                path.unlink()

    with faults.installed(at("write.before", merge, where=str(tmp_path / "copy"), number=3)):
        copied = copy(data, tmp_path / "copy", newest_only=True)
    is_at_one_point(copied)
    assert rows(copied, "c") == rows(data, "c")


def test_old_versions_and_their_log(data: DataDir, store: TopologyStore, version: int, tmp_path: Path) -> None:
    fill(data, version, batches=30)
    assert write_checkpoint(data.queue("/", "a"))
    make_older(data, 3_600)
    maintain(data, Policy(fan_in=16))
    make_older(data, 600)
    maintain(data, Policy(fan_in=16))
    path, newest = data.queue("/", "a"), TableLog(data.queue("/", "a")).version
    whole, lean = copy(data, tmp_path / "whole"), copy(data, tmp_path / "lean", newest_only=True)
    for copied in (whole, lean):
        assert rows(copied, "a") == rows(data, "a")
        assert TableLog(copied.queue("/", "a")).version == newest
        assert TopologyStore(copied).load(version=1) == store.load(version=1)
        TableLog(copied.topology)
    for number in (0, 20, newest - 1):
        found = tables.open_table(whole.queue("/", "a"), tables.QUEUE, version=number).to_pyarrow_table()
        assert found == tables.open_table(path, tables.QUEUE, version=number).to_pyarrow_table()
    assert len(list(Path(lean.queue("/", "a")).glob("*.parquet"))) < len(list(Path(path).glob("*.parquet"))) / 2
    times = [(Path(one, "_delta_log") / f"{20:020}.json").stat().st_mtime for one in (path, whole.queue("/", "a"))]
    assert int(times[0] * 1000) == int(times[1] * 1000)


def test_a_checkpoint_of_a_log_that_is_beyond_the_point_is_left_out(
    data: DataDir, version: int, tmp_path: Path
) -> None:
    fill(data, version, batches=3)
    with (
        BatchCommitter(data, stream="t", app_id="t:1", workers=1) as committer,
        faults.installed(at("batch.appended", crash)),
        pytest.raises(Crash),
    ):
        deliver(data, committer, 0, version, *QUEUES)
    assert write_checkpoint(data.queue("/", "a"))
    copied = copy(data, tmp_path / "copy")
    is_at_one_point(copied)
    log = Path(copied.queue("/", "a"), "_delta_log")
    assert sorted(path.suffix for path in log.iterdir()) == [".json"] * 4
    assert write_checkpoint(copied.queue("/", "a"))


def test_a_damaged_file_ends_the_copy(data: DataDir, version: int, tmp_path: Path) -> None:
    fill(data, version)
    file = next(Path(data.queue("/", "a")).glob("*.parquet"))
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(StorageFailed, match="its table says"):
        copy(data, tmp_path / "copy")
    assert (tmp_path / "copy/copy.json").exists()


def test_what_an_earlier_run_has_left_is_used_if_it_is_right(data: DataDir, version: int, tmp_path: Path) -> None:
    fill(data, version)
    to = tmp_path / "copy"
    with faults.installed(at("replace.before", crash, where="_delta_log")), pytest.raises(Crash):
        copy(data, to)
    first, second, third, *_ = sorted((to / "queues/~2F").rglob("*.parquet"))
    first.write_bytes(first.read_bytes()[:-1])
    same_size = bytearray(second.read_bytes())
    same_size[10] ^= 1
    second.write_bytes(same_size)
    (third.parent / "unknown.parquet").write_text("x")
    done = copy_data(data, DataDir.named(to), verify=True)
    assert done.copied.files == 2
    assert done.copied.kept_files > 5
    assert not (third.parent / "unknown.parquet").exists()
    is_at_one_point(DataDir.open(to))


def test_of_two_runs_the_later_one_has_the_destination(data: DataDir, version: int, tmp_path: Path) -> None:
    fill(data, version)
    to = tmp_path / "copy"
    hook = at("write.before", lambda: copy(data, to), where=str(to))
    with faults.installed(hook), pytest.raises(Refused, match="another `bindery copy`"):
        copy(data, to)
    is_at_one_point(DataDir.open(to))


def test_unroutable_messages_and_a_redrive_that_died(data: DataDir, store: TopologyStore, tmp_path: Path) -> None:
    store.edit(declare_queues(*QUEUES), author="t")
    route(data, store, [Message(exchange="amq.topic", routing_key="k") for _ in range(4)])
    store.edit(lambda editor: editor.bind(Binding(0, "/", "amq.topic", "a", routing_key="#")), author="t")
    with faults.installed(at("redrive.marked", crash)), pytest.raises(Crash):
        Redriver(data, store, "/").redrive(Selection())
    copied = copy(data, tmp_path / "copy")
    assert sum(rows(copied, "a").values()) == 0
    Redriver(copied, TopologyStore(copied), "/").redrive(Selection())
    assert sum(rows(copied, "a").values()) == 4
    Redriver(copied, TopologyStore(copied), "/").redrive(Selection())
    assert sum(rows(copied, "a").values()) == 4


@pytest.mark.parametrize("step", ["move.planned", "move.claimed", "move.delivered"])
def test_a_move_that_died_is_finished_in_the_copy(
    data: DataDir, store: TopologyStore, tmp_path: Path, step: str
) -> None:
    store.edit(declare_queues("a", "b"), author="t")
    route(data, store, [Message(exchange="", routing_key="a") for _ in range(4)])
    with faults.installed(at(step, crash)), pytest.raises(Crash):
        Mover(data, store, "/").move(Transfer("/", "a", ToQueue("b")))
    copied = copy(data, tmp_path / "copy")
    Mover(copied, TopologyStore(copied), "/").finish()
    assert [read_queue(copied, name).num_rows for name in ("a", "b")] == [0, 4]


def test_a_folder_of_tables_that_is_a_link(data: DataDir, version: int, tmp_path: Path) -> None:
    fill(data, version)
    Path(data.root, "queues").rename(tmp_path / "elsewhere")
    Path(data.root, "queues").symlink_to(tmp_path / "elsewhere")
    copied = copy(data, tmp_path / "copy")
    assert not Path(copied.root, "queues").is_symlink()
    is_at_one_point(copied)
