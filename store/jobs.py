"""Streaming jobs on record: `DIR/jobs/<stream>`, shared by every process that serves the data directory.

    job.json           the document, who submitted it, and its newest run
    status-<run>.json  what a run says about itself
    exit-<run>.json    how a run's process ended, if the process that started it lived to see it
    alive              locked by the run's process from its first moment to its last
    run-<n>.log        what a run printed

Whether a run lives is told by the lock on `alive`: the process inherits it, the kernel drops it when the
process ends in whatever way, and no two processes can hold it. Process numbers only serve to signal.
Changes are made under the lock `DIR/jobs/lock`; files are replaced whole.

Of a data directory that is a URL, `alive`, `lock` and the logs lie in a folder of the machine on which the runs
are started (`DataDir.machine`). Other machines tell by what a run says that it lives, and a record is
replaced only if it still is what the change was made on.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from bindery.router.errors import BinderyError, NotFound, StorageFailed, UnsupportedTable
from bindery.store import effects
from bindery.store.paths import DataDir, encode_name
from bindery.store.places import LocalPlace, Place, at

_LOGGER: Final = logging.getLogger(__name__)
FORMAT_VERSION: Final = 1
_LOG: Final = re.compile(r"run-([0-9]+)\.log")
#: Logs of runs that are kept for one stream.
_KEPT_LOGS: Final = 5
#: Seconds after which a run on another machine that says nothing is taken for ended; it speaks every ten.
_SILENCE_SECONDS: Final = 60.0

State = Literal["starting", "running", "idle", "stopping", "stopped", "failed"]


class JobConflict(BinderyError):
    """The job is in a state in which that cannot be done."""

    code = "job_conflict"


@dataclass(frozen=True, slots=True)
class Process:
    """A process that cannot be mistaken for a later one with the same number.

    `ticks` is its start in clock ticks since the machine's; `host` names the machine or container.
    """

    pid: int
    ticks: int
    host: str


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a job; times in seconds since 1970."""

    id: str
    number: int
    process: Process
    started_at: float
    new_epoch: bool = False
    stop_requested_at: float | None = None


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job as submitted; `document` has references in place of secrets."""

    stream: str
    document: Mapping[str, Any]
    author: str
    submitted_at: float
    run: Run | None = None


@dataclass(frozen=True, slots=True)
class RunStatus:
    """What a run says about itself, replaced whole at every change.

    driver   the process that routes, the one to ask for an end
    error    of a failed run: code, message and, when known, where and hint
    progress of this run: batches, records, copies, unroutable, rows_per_second, lag, last_batch
    """

    run: str
    state: Literal["starting", "running", "idle", "stopped", "failed"]
    updated_at: float
    driver: Process | None = None
    error: Mapping[str, Any] | None = None
    progress: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """A job as it is found: its record, whether its process lives, and what the run last said.

    `exit_code` is that of the run's process, minus the signal that killed it; None when nobody saw it end.
    """

    record: JobRecord
    alive: bool
    status: RunStatus | None
    exit_code: int | None = None

    @property
    def state(self) -> State:
        """The state that an operator is told."""
        run, said = self.record.run, self.status
        if run is None:
            return "stopped"
        if self.alive:
            if run.stop_requested_at is not None:
                return "stopping"
            if said is None:
                return "starting"
            return "stopping" if said.state in ("stopped", "failed") else said.state
        if said is not None and said.state in ("stopped", "failed"):
            return "failed" if said.state == "failed" else "stopped"
        return "failed" if run.stop_requested_at is None else "stopped"

    @property
    def error(self) -> Mapping[str, Any] | None:
        """Why the newest run failed: what it said itself, or that it ended without a word."""
        if self.state != "failed":
            return None
        if self.status is not None and self.status.state == "failed":
            return self.status.error
        if self.status is None and (self.exit_code is None or self.exit_code >= 0):
            return {
                "code": "not_started",
                "message": "the process ended before the job began",
                "hint": "the log of the run says why; a process that was killed says nothing",
            }
        return {
            "code": "killed",
            "message": "the process was killed, or its machine went down",
            "hint": "restart the job: it completes the batch that was running, nothing is lost or doubled",
        }


class Launch(Protocol):
    """Starts the process of a run, which waits; gives it, and its gate: True lets it go on, False lets it end.

    `run` and `number` are those of the run; the process must inherit the locked descriptor `alive`.
    """

    def __call__(
        self, folder: JobFolder, record: JobRecord, *, run: str, number: int, alive: int, new_epoch: bool
    ) -> tuple[Process, Callable[[bool], None]]:
        """Start it; whatever is raised leaves no run on record."""
        ...


class JobFolder:
    """The files of one job: `place` holds its record and what runs say, `path` locks and logs of runs on this machine.

    They are one folder unless the data directory is a URL.
    """

    def __init__(self, place: str | os.PathLike[str] | Place, path: Path | None = None) -> None:
        self.place = at(place)
        self.path = path if path is not None or not isinstance(self.place, LocalPlace) else self.place.path
        self._identity: tuple[object, ...] | None = None

    def record(self) -> JobRecord | None:
        """The record, if there is one; raises UnsupportedTable when it is damaged or newer."""
        file = self.place / "job.json"
        with effects.looking(file):
            known = file.known()
        if known is None:
            self._identity = None
            return None
        content, self._identity = known
        try:
            raw = json.loads(content)
            if raw.pop("format_version") > FORMAT_VERSION:
                raise UnsupportedTable("a job record of a newer version", where=str(file), hint="use a newer Bindery")
            run = raw.pop("run")
            if run is not None:
                run = Run(**run | {"process": Process(**run["process"])})
            return JobRecord(**raw, run=run)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UnsupportedTable(f"damaged job record: {error}", where=str(file)) from None

    def save(self, record: JobRecord) -> None:
        """Make a record durable, under the registry's lock, in place of the one that was read before.

        Raises JobConflict when there is another one meanwhile, StorageFailed when the record is what it was,
        CommitUnknown when nobody can tell.
        """
        effects.make_folder(self.place, mode=0o700)
        content = _as_json({"format_version": FORMAT_VERSION, **asdict(record)})
        if not effects.replace_same(self.place / "job.json", content, self._identity, mode=0o600):
            raise JobConflict(
                f"the job of stream {record.stream!r} was changed meanwhile", where="job", hint="look again"
            )

    def status(self, run: str) -> RunStatus | None:
        """What that run last said; None when it has said nothing yet."""
        try:
            raw = json.loads(self._said(run).read() or b"")
            driver = raw.pop("driver", None)
            said = RunStatus(**raw, driver=None if driver is None else Process(**driver))
        except (OSError, ValueError, TypeError):
            return None
        return said if said.run == run else None

    def report(self, status: RunStatus) -> None:
        """Replace the status; for the run itself, which goes on when a full disk keeps it from saying so."""
        self._say(self._said(status.run), asdict(status))

    def exit_code(self, run: str) -> int | None:
        """How that run's process ended, if that is on record."""
        try:
            return int(json.loads(self._exit(run).read() or b"")["code"])
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def ended(self, run: str, code: int) -> None:
        """Put on record how that run's process ended; nothing when the job was forgotten meanwhile."""
        try:
            is_there = self.place.is_folder()
        except OSError as error:
            _LOGGER.warning("that run %s has ended is not on record: %s", run, error)
            return
        if is_there:
            self._say(self._exit(run), {"code": code})

    def _say(self, place: Place, content: Mapping[str, Any]) -> None:
        try:
            effects.replace(place, _as_json(content), mode=0o600, sync=False)
        except StorageFailed as error:
            _LOGGER.warning("%s", error.message)

    @property
    def here(self) -> Path:
        """The folder of this machine; the driver of a run knows none where that is another one."""
        assert self.path is not None  # noqa: S101  # given by the registry
        return self.path

    def log(self, number: int) -> Path:
        """The log of a run that was started on this machine."""
        return self.here / f"run-{number}.log"

    def log_part(self, number: int, *, limit: int, after: int | None = None) -> tuple[bytes, int] | None:
        """The last whole lines of a run's log, or what stands behind a byte `after`, and the byte where it begins.

        That many bytes at most; None where this machine has no such log. Raises StorageFailed.
        """
        path = self.log(number)
        with effects.looking(at(path)):
            try:
                with path.open("rb") as file:
                    end = file.seek(0, os.SEEK_END)
                    start = file.seek(max(0, end - limit) if after is None else min(after, end))
                    content = file.read(limit)
            except FileNotFoundError:
                return None
        if after is None and start:
            # of a line that was cut nobody knows any more what is secret in it
            cut, _, content = content.partition(b"\n")
            start += len(cut) + 1
        return content, start

    def logs(self) -> list[int]:
        """The numbers of the runs whose logs this machine has, in order."""
        here = at(self.here)
        with effects.looking(here):
            found = (_LOG.fullmatch(name) for name in here.files())
        return sorted(int(match[1]) for match in found if match)

    def drop_older(self, run: Run) -> None:
        """Forget what older runs said, and the logs of all but the newest, as far as that can be done."""
        kept = (self._said(run.id), self._exit(run.id))
        with suppress(StorageFailed), effects.looking(self.place):
            for name in self.place.files():
                file = self.place / name
                if name.startswith(("status-", "exit-")) and name.endswith(".json") and file not in kept:
                    effects.remove(file)
                    if isinstance(file, LocalPlace):
                        file.drop_drafts()
            effects.remove(at(self.log(run.number - _KEPT_LOGS)))

    def _said(self, run: str) -> Place:
        return self.place / f"status-{run}.json"

    def _exit(self, run: str) -> Place:
        return self.place / f"exit-{run}.json"

    def is_alive(self) -> bool:
        """Whether the process of a run that was started on this machine lives."""
        descriptor = self.claim(fcntl.LOCK_SH)
        if descriptor is None:
            return True
        # unlocked before it is closed: a process that is being started may hold a copy for an instant
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)
        return False

    def claim(self, kind: int = fcntl.LOCK_EX) -> int | None:
        """The descriptor of `alive`, locked; None while a run's process holds it. Raises StorageFailed."""
        path = self.here / "alive"
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            return os.open(os.devnull, os.O_RDONLY)  # no folder, so nobody lives in it
        except OSError as error:
            raise StorageFailed(f"cannot open {path}: {error.strerror}", where=str(path)) from error
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor


class JobRegistry:
    """The jobs of one data directory; usable from any thread and process."""

    def __init__(self, data: DataDir) -> None:
        self._root = at(data.root, "jobs")
        self._here = data.machine / "jobs"

    def folder(self, stream: str) -> JobFolder:
        """The folder of a stream's job, whether it is there or not."""
        return self._folder(encode_name(stream))

    def _folder(self, name: str) -> JobFolder:
        return JobFolder(self._root / name, self._here / name)

    def all(self) -> list[Found]:
        """Every job, by stream."""
        if not self._is_there():
            return []
        with self._locked(shared=True):
            with effects.looking(self._root):
                names = self._root.folders()
            found = [self._look(self._folder(name)) for name in names if not name.startswith(".")]
        return sorted((job for job in found if job is not None), key=lambda job: job.record.stream)

    def get(self, stream: str) -> Found:
        """One job; raises NotFound."""
        if self._is_there():
            with self._locked(shared=True):
                found = self._look(self.folder(stream))
            if found is not None:
                return found
        raise NotFound(f"no job for stream {stream!r}", where="job")

    def start(
        self,
        stream: str,
        launch: Launch,
        *,
        submit: Callable[[], JobRecord] | None = None,
        new_epoch: bool = False,
    ) -> JobRecord:
        """Start a run: of the record that `submit` gives, else of the one there is.

        The process is on record before it is let go; a caller that dies in between leaves none behind.
        Raises JobConflict while a run lives, NotFound without a record, StorageFailed when nothing was
        started, and CommitUnknown when nothing was but the record may say so.
        """
        with self._locked():
            folder = self.folder(stream)
            known = folder.record()
            record = known if submit is None else submit()
            if record is None:
                raise NotFound(f"no job for stream {stream!r}", where="job")
            effects.make_folder(at(folder.here), mode=0o700)
            descriptor = folder.claim()
            if descriptor is None or (known is not None and _lives_elsewhere(folder, known)):
                raise JobConflict(f"stream {stream!r} has a job that runs", where="job", hint="stop it first")
            try:
                number = 1 + (0 if known is None or known.run is None else known.run.number)
                run = secrets.token_hex(16)
                process, gate = launch(folder, record, run=run, number=number, alive=descriptor, new_epoch=new_epoch)
                newest = Run(run, number, process, time.time(), new_epoch)
                started = replace(record, run=newest)
                try:
                    folder.save(started)
                except BaseException:
                    gate(False)
                    raise
                gate(True)
                folder.drop_older(newest)
                return started
            finally:
                os.close(descriptor)

    def request_stop(self, stream: str) -> Found:
        """Put on record that the run is to end; raises NotFound, and JobConflict when none lives."""
        with self._locked():
            folder = self.folder(stream)
            found = self._look(folder)
            if found is None:
                raise NotFound(f"no job for stream {stream!r}", where="job")
            run = found.record.run
            if run is None or not found.alive:
                raise JobConflict(f"the job of stream {stream!r} does not run", where="job")
            if run.stop_requested_at is None:
                record = replace(found.record, run=replace(run, stop_requested_at=time.time()))
                folder.save(record)
                return replace(found, record=record)
            return found

    def forget(self, stream: str) -> None:
        """Drop a job that does not run, with its logs; raises NotFound and JobConflict."""
        with self._locked():
            folder = self.folder(stream)
            record = folder.record()
            if record is None:
                raise NotFound(f"no job for stream {stream!r}", where="job")
            if folder.is_alive() or _lives_elsewhere(folder, record):
                raise JobConflict(f"stream {stream!r} has a job that runs", where="job", hint="stop it first")
            if folder.place.is_remote:
                try:
                    effects.remove(folder.place / "job.json")  # without it the rest is nothing
                except StorageFailed:
                    if folder.record() is not None:
                        raise
                for rest in (folder.place, at(folder.here)):
                    with suppress(StorageFailed):
                        effects.remove_folder(rest)
                return
            # out of sight first: whoever saw the process end may still be writing that down
            try:
                effects.rename(folder.place, self._root / f".{secrets.token_hex(8)}")
            except StorageFailed:
                if folder.here.exists():
                    raise
            # also what was left by those who died here
            with suppress(StorageFailed), effects.looking(self._root):
                for gone in self._root.folders():
                    if gone.startswith("."):
                        effects.remove_folder(self._root / gone)

    def _look(self, folder: JobFolder) -> Found | None:
        # Alive is looked at first: a run says its last word before it ends.
        here = folder.is_alive()
        record = folder.record()
        if record is None:
            return None
        alive = here or _lives_elsewhere(folder, record)
        if record.run is None:
            return Found(record, alive, None)
        return Found(record, alive, folder.status(record.run.id), folder.exit_code(record.run.id))

    @contextmanager
    def _locked(self, *, shared: bool = False) -> Iterator[None]:
        here = at(self._here)
        effects.make_folder(here, mode=0o700)
        with effects.locked(here / "lock", shared=shared):
            yield

    def _is_there(self) -> bool:
        with effects.looking(self._root):
            return self._root.is_folder()


def _lives_elsewhere(folder: JobFolder, record: JobRecord) -> bool:
    """Whether the newest run, of which this machine knows nothing, has said lately that it runs on another one.

    Only where machines share an object store: on a file system the lock tells.
    """
    run = record.run
    if run is None or not folder.place.is_remote or folder.log(run.number).exists():
        return False
    said = folder.status(run.id)
    newest = run.started_at if said is None else said.updated_at
    return (said is None or said.state not in ("stopped", "failed")) and time.time() - newest < _SILENCE_SECONDS


def _as_json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, indent=1).encode()
