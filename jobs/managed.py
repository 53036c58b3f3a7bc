"""The driver of a submitted job: `spark-submit … jobs/managed.py --job FOLDER --data DIR --run ID`.

The control plane writes this command line (jobs/control/launch.py). The driver checks the document again, now with
Spark's parser, resolves its secrets, routes as `bindery.jobs.route` does, and says in the job's folder what it does.
A forwarder (jobs/forwarding) runs the same way, without spark-submit.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from bindery.jobs.control.config import FileSource, JobFile, job_of
from bindery.jobs.control.connectors import connectors_of
from bindery.jobs.control.document_rules import DocumentRules
from bindery.jobs.control.forward import Forward, forward_of, is_forward, submitted
from bindery.jobs.control.launch import this_process
from bindery.jobs.control.logs import about, set_up
from bindery.jobs.control.references import masked, resolved
from bindery.router.errors import BinderyError, Refused
from bindery.store.jobs import JobFolder, RunStatus
from bindery.store.paths import DataDir

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bindery.jobs.report import BatchReport

_LOGGER: Final = logging.getLogger("bindery.jobs")
#: Seconds between two looks at the query, and between two reports without news.
_LOOK: Final = 1.0
_HEARTBEAT: Final = 10.0


class Reporter:
    """Says in the job's folder what the run does; usable from any thread."""

    def __init__(self, folder: JobFolder, run: str) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._status = RunStatus(run, "starting", time.time(), this_process())
        self._progress: dict[str, Any] = {"batches": 0, "records": 0, "copies": 0, "unroutable": 0}
        self._behind_since: float | None = None
        folder.report(self._status)

    def batch(self, report: BatchReport) -> None:
        """Count a batch; for RouteJob."""
        with self._lock:
            progress = self._progress
            progress["batches"] += 1
            spent = sum(report.seconds.get(stage, 0.0) for stage in ("prepare", "tasks", "commit"))
            if spent:
                progress["rows_per_second"] = report.records / spent
            for name in ("records", "copies", "unroutable"):
                progress[name] += getattr(report, name)
            progress["last_batch"] = {
                "batch_id": report.batch_id,
                "topology_version": report.topology_version,
                "records": report.records,
                "copies": report.copies,
                "unroutable": report.unroutable,
                "seconds": report.seconds,
                "requests": dict(report.requests),
                "replayed": report.replayed,
            }
            self._say("running")

    def forwarded(self, rows: int, refused: int, behind: int, trouble: str | None) -> None:
        """Note how far a forwarder has come: rows, rows refused, versions to go; and what keeps it from sending."""
        with self._lock:
            self._progress = {**self._progress, "records": rows, "refused": refused}
        self.look(busy=behind > 0, progress=None)
        self.waits(trouble)

    def look(self, *, busy: bool, progress: Mapping[str, Any] | None) -> None:
        """Note what the query says: whether it has data to route, and its last progress."""
        with self._lock:
            now = time.time()
            self._behind_since = (self._behind_since or now) if busy else None
            lag: dict[str, Any] = {"seconds": 0.0 if self._behind_since is None else now - self._behind_since}
            for source in (progress or {}).get("sources") or []:
                for name, value in (source.get("metrics") or {}).items():
                    if name in _OUTSTANDING:
                        lag[_OUTSTANDING[name]] = lag.get(_OUTSTANDING[name], 0) + int(value)
            self._progress["lag"] = lag
            state: Literal["running", "idle"] = "running" if busy else "idle"
            if state != self._status.state or now - self._status.updated_at > _HEARTBEAT:
                self._say(state)

    def waits(self, reason: str | None) -> None:
        """Note what keeps the run from routing, and since when; None when nothing does."""
        with self._lock:
            if (self._progress.get("waiting") is None) != (reason is None) or "waiting" not in self._progress:
                self._progress["waiting"] = None if reason is None else {"since": time.time(), "reason": reason}
                self._say(self._status.state)

    def stopped(self) -> None:
        """The run has ended as it should."""
        with self._lock:
            self._say("stopped")

    def failed(self, error: Mapping[str, Any]) -> None:
        """The run has ended by an error."""
        with self._lock:
            self._say("failed", error)

    def _say(
        self,
        state: Literal["starting", "running", "idle", "stopped", "failed"],
        error: Mapping[str, Any] | None = None,
    ) -> None:
        self._status = replace(
            self._status, state=state, error=error, progress=dict(self._progress), updated_at=time.time()
        )
        self._folder.report(self._status)


#: Why a job on a cluster that has started routes nothing.
_NO_EXECUTOR: Final = (
    "no executor: no worker of the Spark master has enough free cores and memory for the job, or the master is away"
)
#: What sources that know it call the files, bytes and offsets (of the partition furthest behind) still to be read.
_OUTSTANDING: Final = {
    "numFilesOutstanding": "files",
    "numBytesOutstanding": "bytes",
    "maxOffsetsBehindLatest": "offsets",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a submitted job until it is exhausted or asked to end; the exit code is the error's."""
    parser = argparse.ArgumentParser(prog="managed.py", description=main.__doc__)
    parser.add_argument("--job", required=True, help="the job's folder, a path or a URL")
    parser.add_argument("--data", required=True, help="the data directory")
    parser.add_argument("--run", required=True, help="the id of this run")
    parser.add_argument("--root", action="append", default=[], help="a folder that jobs may read")
    parser.add_argument("--secrets", type=Path, help="a folder of secrets")
    parser.add_argument("--log-format", choices=("text", "json"), default="text", help="lines of the log")
    parser.add_argument("--new-epoch", action="store_true", help="accept another checkpoint than the last one")
    options = parser.parse_args(arguments)
    folder = JobFolder(options.job)
    stopping = _Stopping()
    reporter = Reporter(folder, options.run)
    threading.Thread(target=stopping.follow, args=(folder, options.run), name="stop requests", daemon=True).start()
    secrets: list[str] = []
    set_up(options.log_format, secrets=secrets)
    with about(run=options.run):
        try:
            _do(options, folder, reporter, stopping, secrets)
        except Exception as error:  # every way to fail is told to the operator
            _LOGGER.exception("the run has failed")
            reporter.failed(_as_data(error, secrets))
            return error.exit_code if isinstance(error, BinderyError) else 1
        _LOGGER.info("the run has ended")
    reporter.stopped()
    return 0


def _do(
    options: argparse.Namespace, folder: JobFolder, reporter: Reporter, stopping: _Stopping, secrets: list[str]
) -> None:
    data = DataDir.open(options.data)
    document = _document(folder, options.run)
    with about(stream=document.get("stream")):
        _LOGGER.info("the run begins")
        if is_forward(document):
            submitted(document, options.root)
            plain = _with_secrets(document, options.secrets, secrets)
            _forward(data, forward_of(plain), reporter, stopping, start_over=options.new_epoch)
        else:
            file = _checked(document, DocumentRules(data, tuple(options.root)), options.secrets, secrets)
            _run(data, file, reporter, stopping, new_epoch=options.new_epoch)


class _Stoppable(Protocol):
    def stop(self) -> None: ...


class _Stopping:
    """Requests to end, noted from the first moment and handed on to the job once there is one.

    They come as SIGTERM or SIGINT, or by the job's record from a service that cannot send a signal here.
    """

    def __init__(self) -> None:
        self._asked = False
        self._job: _Stoppable | None = None
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda _number, _frame: self._ask())

    def hand_to(self, job: _Stoppable) -> None:
        """The job is there: it gets every request from now on, and one made before."""
        self._job = job
        if self._asked:
            job.stop()

    def follow(self, folder: JobFolder, run: str) -> None:
        """Watch the job's record; for a thread of its own."""
        while not self._asked:
            time.sleep(_LOOK)
            record = folder.record()
            if record is None or record.run is None or record.run.id != run:
                return
            if record.run.stop_requested_at is not None:
                self._ask()

    def _ask(self) -> None:
        self._asked = True
        if self._job is not None:
            self._job.stop()


def _document(folder: JobFolder, run: str) -> Mapping[str, Any]:
    record = folder.record()
    if record is None or record.run is None or record.run.id != run:
        raise Refused("this run is not the one on record", where=str(folder.place))
    return record.document


def _with_secrets(document: Mapping[str, Any], folder: Path | None, secrets: list[str]) -> dict[str, Any]:
    """The document with its secrets, which are also noted for masking."""
    plain, found = resolved(document, folder=folder)
    secrets += found
    return plain


def _checked(
    document: Mapping[str, Any], rules: DocumentRules, secrets_folder: Path | None, secrets: list[str]
) -> JobFile:
    checked = rules.check(document)
    plain = _with_secrets(document, secrets_folder, secrets)
    if isinstance(checked.job.source, FileSource):
        plain = {**plain, "source": {**plain["source"], "path": checked.job.source.path}}
    return job_of(plain)


def _forward(data: DataDir, wanted: Forward, reporter: Reporter, stopping: _Stopping, *, start_over: bool) -> None:
    from bindery.jobs.forwarding.run import Forwarder  # noqa: PLC0415  # what streaming jobs do not need

    forwarder = Forwarder(data, wanted, start_over=start_over)
    stopping.hand_to(forwarder)
    ended = threading.Event()

    def say() -> None:
        last = False
        while not last:
            last = ended.wait(_LOOK)
            now = forwarder.progress()
            reporter.forwarded(now.rows, now.refused, now.behind, now.trouble)

    watch = threading.Thread(target=say, name="watch", daemon=True)
    watch.start()
    try:
        forwarder.run()
    finally:
        ended.set()
        watch.join()


def _run(data: DataDir, file: JobFile, reporter: Reporter, stopping: _Stopping, *, new_epoch: bool) -> None:
    # Spark is imported after the document was checked: a bad one fails at once
    from bindery.jobs.expressions import check_expressions  # noqa: PLC0415
    from bindery.jobs.java import java_needed  # noqa: PLC0415
    from bindery.jobs.route import RouteJob  # noqa: PLC0415
    from bindery.jobs.session import build_session  # noqa: PLC0415

    needs = connectors_of(file, data)
    spark = build_session(f"bindery {file.job.stream}", needs=needs)
    ended = threading.Event()
    watch = threading.Thread(target=_watch, args=(spark, reporter, ended), name="watch", daemon=True)
    watch.start()
    try:
        with java_needed(f"stream {file.job.stream!r}"):
            check_expressions(spark, file)
            job = RouteJob(spark, data, file, report=reporter.batch)
        stopping.hand_to(job)
        job.run(new_epoch=new_epoch)
    finally:
        ended.set()
        watch.join()


def _watch(spark: SparkSession, reporter: Reporter, ended: threading.Event) -> None:
    from bindery.jobs.java import java_is_gone  # noqa: PLC0415  # as above
    from bindery.jobs.session import has_executor  # noqa: PLC0415

    while not ended.wait(_LOOK):
        try:
            query = next(iter(spark.streams.active), None)
            busy = True  # until there is a query, the source is being looked at
            if query is not None:
                status = query.status
                busy = bool(status["isTriggerActive"] and status["isDataAvailable"])
                progress = query.lastProgress
                # before its first look at the source a query has no data to route, and yet is not idle
                if busy or progress is not None or status["message"].startswith("Waiting"):
                    reporter.look(busy=busy, progress=progress)
            reporter.waits(_NO_EXECUTOR if busy and not has_executor(spark) else None)
        except Exception:
            if ended.is_set() or java_is_gone():
                return
            raise


def _as_data(error: Exception, secrets: Sequence[str]) -> dict[str, Any]:
    data: dict[str, Any] = (
        dict(error.as_data())
        if isinstance(error, BinderyError)
        else {"code": "failed", "message": f"{type(error).__name__}: {_first_line(error)}"}
    )
    causes: list[str] = []
    cause = error.__cause__
    while cause is not None and len(causes) < 5:
        causes.append(f"{type(cause).__name__}: {_first_line(cause)}")
        cause = cause.__cause__
    if causes:
        data["cause"] = causes
    return {name: _masked(value, secrets) for name, value in data.items()}


def _masked(value: Any, secrets: Sequence[str]) -> Any:
    if isinstance(value, list):
        return [_masked(item, secrets) for item in value]
    return masked(value, secrets) if isinstance(value, str) else value


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "")


if __name__ == "__main__":
    sys.exit(main())
