"""Rules of jobs on record: one run at a time, found again whoever dies, told apart by how they ended."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bindery.jobs.control.launch import is_here, kill, started_at, this_host, this_process
from bindery.router.errors import NotFound, StorageFailed, UnsupportedTable
from bindery.store import faults
from bindery.store.jobs import Found, JobConflict, JobFolder, JobRecord, JobRegistry, Process, Run, RunStatus
from bindery.store.paths import DataDir
from tests.unit.store.conftest import FailingDisk

#: A process that waits to be let go, then lives until it is killed; the second argument is what it runs.
GATE = ("/bin/sh", "-c", 'read -r go && exec "$@" </dev/null', "job")


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an object store cannot hold of jobs stays in a folder of the machine."""
    monkeypatch.setenv("BINDERY_STATE", str(tmp_path / "state"))


class Processes:
    """Starts real processes as runs, and ends what is left of them."""

    def __init__(self, *command: str) -> None:
        self.command = command or ("sleep", "300")
        self.started: list[subprocess.Popen[bytes]] = []

    def launch(
        self, folder: JobFolder, record: JobRecord, *, run: str, number: int, alive: int, new_epoch: bool
    ) -> tuple[Process, Callable[[bool], None]]:
        process = subprocess.Popen(
            [*GATE, *self.command], stdin=subprocess.PIPE, pass_fds=(alive,), start_new_session=True
        )
        self.started.append(process)
        folder.log(number).touch()  # by which a machine knows its own runs
        assert process.stdin is not None
        pipe = process.stdin

        def gate(go: bool) -> None:
            with pipe:
                if go:
                    pipe.write(b"go\n")

        return Process(process.pid, started_at(process.pid) or 0, this_host()), gate

    def end(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()


@pytest.fixture
def processes() -> Iterator[Processes]:
    started = Processes()
    yield started
    started.end()


def record(stream: str = "s") -> JobRecord:
    return JobRecord(stream, {"stream": stream, "source": {"format": "json", "path": "/in"}}, "ann", 1_000.0)


def start(data: DataDir, processes: Processes, stream: str = "s") -> JobRecord:
    return JobRegistry(data).start(stream, processes.launch, submit=lambda: record(stream))


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "did not happen"
        time.sleep(0.01)


def test_a_run_is_found_by_any_process_and_dies_with_its_process(data: DataDir, processes: Processes) -> None:
    started = start(data, processes, "a/b ✓")
    assert started.run is not None
    code = (
        "import sys; from bindery.store.jobs import JobRegistry; from bindery.store.paths import DataDir;"
        "f, = JobRegistry(DataDir.open(sys.argv[1])).all(); print(f.record.stream, f.state, f.record.run.process.pid)"
    )
    seen = subprocess.run(
        [sys.executable, "-c", code, data.root],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    ).stdout
    assert seen.split("\n")[0] == f"a/b ✓ starting {processes.started[0].pid}"
    assert kill(started.run)
    until(lambda: not JobRegistry(data).get("a/b ✓").alive)
    assert JobRegistry(data).get("a/b ✓").state == "failed"


def test_of_starts_that_race_one_wins(data: DataDir, processes: Processes) -> None:
    barrier = threading.Barrier(8)

    def race(_: int) -> str:
        barrier.wait()
        try:
            start(data, processes)
        except JobConflict:
            return "refused"
        return "started"

    with ThreadPoolExecutor(8) as pool:
        outcomes = sorted(pool.map(race, range(8)))
    assert outcomes == ["refused"] * 7 + ["started"]
    assert len(processes.started) == 1


@pytest.mark.parametrize("look", ["all", "get"])
def test_looks_never_refuse_a_start(
    data: DataDir, processes: Processes, look: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a job lives is told by its lock: a look holds that lock itself, here for long."""
    registry = JobRegistry(data)
    processes.command = ("true",)
    start(data, processes)
    processes.started[0].wait()
    looks, looking = threading.Event(), threading.Event()
    claim = JobFolder.claim

    def slow(folder: JobFolder, kind: int = fcntl.LOCK_EX) -> int | None:
        descriptor = claim(folder, kind)
        if kind == fcntl.LOCK_SH:
            looks.set()
            time.sleep(0.05)
        return descriptor

    monkeypatch.setattr(JobFolder, "claim", slow)

    def watch() -> None:
        while not looking.is_set():
            registry.all() if look == "all" else registry.get("s")

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for _ in range(3):
            assert looks.wait(20)
            looks.clear()
            start(data, processes)
            processes.started[-1].wait()
    finally:
        looking.set()
        watcher.join()
    assert len(processes.started) == 4


@pytest.mark.parametrize("moment", ["before the run is on record", "before it is let go"])
def test_whoever_starts_a_run_may_die_at_any_moment(data: DataDir, moment: str, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    code = f"""
import os, signal, sys
from tests.unit.store.test_jobs import Processes, record
from bindery.store.jobs import JobFolder, JobRegistry
from bindery.store.paths import DataDir

processes = Processes("touch", {str(marker)!r})
die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)

def launch(*args, **kw):
    process, _ = processes.launch(*args, **kw)
    print(process.pid, flush=True)
    return process, die

if {moment!r} == "before the run is on record":
    JobFolder.save = die
JobRegistry(DataDir.open({data.root!r}, create=True)).start("s", launch, submit=record)
"""
    died = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    pid = int(died.stdout)
    until(lambda: started_at(pid) is None)
    assert not marker.exists(), "a run that was not let go must not begin"
    registry = JobRegistry(data)
    if moment == "before the run is on record":
        with pytest.raises(NotFound):
            registry.get("s")
    else:
        found = registry.get("s")
        assert (found.state, (found.error or {})["code"]) == ("failed", "not_started")
    processes = Processes()
    try:
        start(data, processes)
        assert registry.get("s").state == "starting"
    finally:
        processes.end()


@pytest.mark.parametrize(
    ("alive", "said", "stop", "state", "code"),
    [
        (True, None, False, "starting", None),
        (True, "starting", False, "starting", None),
        (True, "running", False, "running", None),
        (True, "idle", False, "idle", None),
        (True, "idle", True, "stopping", None),
        (True, "stopped", False, "stopping", None),
        (True, "failed", False, "stopping", None),
        (False, "stopped", True, "stopped", None),
        (False, "stopped", False, "stopped", None),
        (False, "running", True, "stopped", None),
        (False, "running", False, "failed", "killed"),
        (False, "starting", False, "failed", "killed"),
        (False, "failed", False, "failed", "own"),
        (False, "failed", True, "failed", "own"),
        (False, None, False, "failed", "not_started"),
        (False, None, True, "stopped", None),
    ],
)
def test_the_state_of_a_job(alive: bool, said: str | None, stop: bool, state: str, code: str | None) -> None:
    run = Run("r", 1, this_process(), 1.0, stop_requested_at=2.0 if stop else None)
    error = {"code": "own"} if said == "failed" else None
    status = None if said is None else RunStatus("r", said, 3.0, this_process(), error)  # type: ignore[arg-type]
    found = Found(JobRecord("s", {}, "ann", 1.0, run), alive, status)
    assert (found.state, None if found.error is None else found.error["code"]) == (state, code)


def test_a_process_seen_killed_before_it_said_anything_is_told_so() -> None:
    found = Found(JobRecord("s", {}, "ann", 1.0, Run("r", 1, this_process(), 1.0)), False, None, exit_code=-9)
    assert (found.error or {})["code"] == "killed"


def test_what_an_older_run_said_does_not_count(data: DataDir, processes: Processes) -> None:
    first = start(data, processes)
    assert first.run is not None
    folder = JobRegistry(data).folder("s")
    folder.report(RunStatus(first.run.id, "idle", 1.0, this_process()))
    folder.ended(first.run.id, -9)
    assert JobRegistry(data).get("s").state == "idle"
    kill(first.run)
    processes.started[0].wait()
    second = JobRegistry(data).start("s", processes.launch)
    assert second.run is not None
    assert second.run.number == 2
    # a driver that has outlived its JVM may still speak
    folder.report(RunStatus(first.run.id, "failed", 2.0, this_process(), {"code": "own"}))
    found = JobRegistry(data).get("s")
    assert (found.state, found.status, found.exit_code) == ("starting", None, None)
    folder.report(RunStatus(second.run.id, "idle", 3.0, this_process()))
    folder.report(RunStatus(first.run.id, "failed", 4.0, this_process(), {"code": "own"}))
    assert JobRegistry(data).get("s").state == "idle"


def test_stop_and_forget_need_the_right_state(data: DataDir, processes: Processes) -> None:
    registry = JobRegistry(data)
    for refused in (registry.get, registry.request_stop, registry.forget):
        with pytest.raises(NotFound):
            refused("s")
    with pytest.raises(NotFound):
        registry.start("s", processes.launch)
    started = start(data, processes)
    assert started.run is not None
    with pytest.raises(JobConflict):
        registry.forget("s")
    stopping = registry.request_stop("s")
    assert stopping.state == "stopping"
    assert registry.request_stop("s").record == stopping.record
    kill(started.run)
    processes.started[0].wait()
    assert registry.get("s").state == "stopped"
    with pytest.raises(JobConflict):
        registry.request_stop("s")
    registry.forget("s")
    assert registry.all() == []
    assert not registry.folder("s").path.exists()


def test_a_launch_that_fails_leaves_nothing_that_lives(data: DataDir) -> None:
    def launch(*_: object, **__: object) -> tuple[Process, Callable[[bool], None]]:
        raise OSError("no more processes")

    registry = JobRegistry(data)
    with pytest.raises(OSError, match="no more"):
        registry.start("s", launch, submit=record)
    assert registry.all() == []


def test_a_number_that_another_process_got_is_not_signalled(data: DataDir) -> None:
    own = this_process()
    assert is_here(own)
    assert not is_here(Process(own.pid, own.ticks + 1, own.host))
    assert not is_here(Process(own.pid, own.ticks, "another machine"))
    assert not kill(Run("r", 1, Process(own.pid, own.ticks + 1, own.host), 1.0))


@pytest.mark.local_only
def test_jobs_are_not_for_other_users_of_the_machine(data: DataDir, processes: Processes) -> None:
    start(data, processes)
    folder = JobRegistry(data).folder("s").here
    for path in (folder, folder.parent):
        assert path.stat().st_mode & 0o077 == 0
    assert (folder / "job.json").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format_version": 1}', '{"format_version": 99}'])
def test_a_damaged_or_newer_record_is_refused(data: DataDir, processes: Processes, text: str) -> None:
    start(data, processes)
    (JobRegistry(data).folder("s").place / "job.json").replace(text.encode())
    with pytest.raises(UnsupportedTable):
        JobRegistry(data).get("s")


# -- a disk that fails ------------------------------------------------------------------------------------


def test_a_start_that_fails_leaves_no_process_and_the_next_one_starts(root: str) -> None:
    outcomes = set()
    number, failed = 0, True
    while failed:
        number += 1
        data = DataDir.open(f"{root}/{number}", create=True)
        registry, processes, disk = JobRegistry(data), Processes(), FailingDisk(number)
        try:
            with faults.installed(disk):
                start(data, processes)
        except StorageFailed:
            outcomes.add("nothing")
            for process in processes.started:
                assert process.wait(60) != 0  # it has ended without having begun
            with pytest.raises(NotFound):
                registry.get("s")
            start(data, processes)
        else:
            outcomes.add("started")
        assert registry.get("s").state == "starting"
        run = registry.get("s").record.run
        assert run is not None
        assert run.process.pid == processes.started[-1].pid
        processes.end()
        failed = disk.failed
    assert outcomes == {"nothing", "started"}
    assert number > 8


@pytest.mark.parametrize("action", ["stop", "forget"])
def test_a_stop_or_forget_that_fails_is_done_or_can_be_asked_for_again(root: str, action: str) -> None:
    number, failed = 0, True
    while failed:
        number += 1
        data = DataDir.open(f"{root}/{number}", create=True)
        registry, processes, disk = JobRegistry(data), Processes(), FailingDisk(number)
        start(data, processes)
        if action == "forget":
            processes.end()
            until(lambda registry=registry: not registry.get("s").alive)  # type: ignore[misc]
        ask = registry.request_stop if action == "stop" else registry.forget
        try:
            with faults.installed(disk):
                ask("s")
        except StorageFailed:
            assert registry.get("s").state == ("starting" if action == "stop" else "failed")
            ask("s")
        if action == "stop":
            assert registry.get("s").state == "stopping"
        else:
            with pytest.raises(NotFound):
                registry.get("s")
            start(data, processes)
            processes.end()
            registry.forget("s")
            assert {entry.name for entry in (data.machine / "jobs").iterdir()} == {"lock"}
        processes.end()
        failed = disk.failed
    assert number > 4


def test_a_run_that_cannot_say_how_it_does_goes_on(data: DataDir, processes: Processes) -> None:
    started = start(data, processes)
    assert started.run is not None
    folder = JobRegistry(data).folder("s")
    folder.report(RunStatus(started.run.id, "running", 1.0))
    with faults.installed(FailingDisk(1)):
        folder.report(RunStatus(started.run.id, "idle", 2.0))
    assert JobRegistry(data).get("s").state == "running"
    folder.report(RunStatus(started.run.id, "idle", 3.0))
    assert JobRegistry(data).get("s").state == "idle"
