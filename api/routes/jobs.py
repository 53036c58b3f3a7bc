"""Streaming jobs and forwarders: submitted as documents, run in processes of their own.

A job document is code: it is for administrators, and jobs/control/document_rules.py says what it may ask for. Who
has the tag `monitoring` sees jobs and their logs without it.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any, Final

from fastapi import Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import RootModel

from bindery.api.answers import answer, created_at, no_content
from bindery.api.auth import Identity
from bindery.api.bodies import documented, read_object
from bindery.api.control_plane import ControlPlane
from bindery.api.deps import AdministratorUser, MonitoringUser, Plane, resource
from bindery.api.errors import ErrorBody, Refusal, bad_request, not_found, object_not_found
from bindery.api.items import JobItem, JobLog
from bindery.api.masking import masked as without_passwords
from bindery.api.raw_path import Segment
from bindery.jobs.control.bridge import check_bridge
from bindery.jobs.control.config import Job
from bindery.jobs.control.document_rules import DocumentRules
from bindery.jobs.control.forward import Forward, is_forward, submitted
from bindery.jobs.control.launch import Launcher, ask_to_end, kill, spark_submit
from bindery.jobs.control.references import check_present, masked, present_values
from bindery.router.errors import NotFound, Refused
from bindery.store.forwarding import recorded_of
from bindery.store.jobs import Found, JobConflict, JobRecord
from bindery.store.totals import Totals

router = resource("jobs", own=True)

#: Bytes of a log that are looked at, and lines of it that are given at most.
_LOG_BYTES: Final = 4 * 2**20
_LOG_LINES: Final = 10_000
#: Lines of the log, and bytes that are looked at, in the error of a job whose process ended before it began.
_TAIL_LINES: Final = 20
_TAIL_BYTES: Final = 16_384
#: Bytes of a job document.
DOCUMENT_LIMIT: Final = 256 * 1024
_POLL: Final = 0.1
#: Characters of a line of a secret that is looked for by itself.
_SHORTEST_PART: Final = 8
_EXAMPLE: Final = {
    "stream": "orders",
    "vhost": "/",
    "source": {"format": "json", "path": "/srv/orders", "schema": "id BIGINT, region STRING"},
    "message": {"exchange": "'orders'", "routing_key": "region", "application_properties": {"id": "id"}},
    "trigger": "10 seconds",
}


class _Document(RootModel[Job | Forward]):
    """A streaming job or a forwarder."""


_CONFLICT: Final[dict[int | str, dict[str, Any]]] = {
    409: {"description": "The job is in a state in which that cannot be done", "model": ErrorBody}
}
StreamPath = Annotated[str, Path(description="stream of the job, percent-encoded")]
NewEpoch = Annotated[
    bool, Query(description="go on with another checkpoint than the last one: records may be repeated or skipped")
]
Lines = Annotated[int, Query(description="how many lines at most", ge=1, le=_LOG_LINES)]
RunNumber = Annotated[int | None, Query(description="number of a run; the newest by default", ge=1, le=2**31)]
Force = Annotated[bool, Query(description="kill the process at once; the next run completes its batch")]


@router.get("/jobs", summary="List jobs", response_model=list[JobItem])
def list_all(plane: Plane, user: MonitoringUser) -> Response:
    """Every submitted job, by stream: its state, progress and last error; administrators see its document, too."""
    totals = plane.totals.totals()
    return answer([_seen(user, _item(plane, found, totals)) for found in plane.jobs.all()])


@router.post(
    "/jobs",
    status_code=201,
    summary="Submit a job",
    responses=_CONFLICT,
    openapi_extra=documented(_Document, _EXAMPLE, required=True),
)
async def submit(request: Request, plane: Plane, user: AdministratorUser, new_epoch: NewEpoch = False) -> Response:
    """Start a job in a process of its own; a document for the same stream replaces one that does not run.

    409 while a job of that stream runs, 400 naming the key for a document that is wrong or asks for too much.
    With `forward` in place of `source` and `message` it sends a queue to a Kafka topic (docs/forward.md).
    """
    document = await read_object(request, DOCUMENT_LIMIT)

    def start() -> str:
        stream = _checked(plane, document)
        record = JobRecord(stream, document, user.name, time.time())
        with _refusals():
            plane.jobs.start(stream, launcher(plane).launch, submit=lambda: record, new_epoch=new_epoch)
        return stream

    stream = await run_in_threadpool(start)
    return created_at(Segment().to_string(stream))


@router.get("/jobs/{stream:segment}", summary="Show a job", response_model=JobItem)
def show(plane: Plane, user: MonitoringUser, stream: StreamPath) -> Response:
    """One job: its state, progress and last error; administrators see its document, too."""
    return answer(_seen(user, _item(plane, _found(plane, stream), plane.totals.totals())))


@router.get("/jobs/{stream:segment}/logs", summary="Show the log of a job", response_model=JobLog)
def logs(plane: Plane, _: MonitoringUser, stream: StreamPath, lines: Lines = 100, run: RunNumber = None) -> Response:
    """The last lines of what a run printed, of its newest run unless told; secrets are `***`.

    404 for a run whose log is not kept any more, or lies on another machine.
    """
    record = _found(plane, stream).record
    number = run if run is not None or record.run is None else record.run.number
    tail = None if number is None else _log_tail(plane, record, number, lines=lines, limit=_LOG_BYTES)
    if tail is None:
        raise not_found("no log of that run on this machine")
    return answer({"run": number, "lines": tail, "runs": plane.jobs.folder(stream).logs()})


@router.post(
    "/jobs/{stream:segment}/stop", status_code=202, summary="Stop a job", response_model=JobItem, responses=_CONFLICT
)
def stop(plane: Plane, _: AdministratorUser, stream: StreamPath, force: Force = False) -> Response:
    """Ask a job to end after the batch that is running; answers at once."""
    _stop(plane, stream, force=force)
    return _accepted(plane, stream)


@router.post(
    "/jobs/{stream:segment}/restart",
    status_code=202,
    summary="Restart a job",
    response_model=JobItem,
    responses=_CONFLICT,
)
def restart(plane: Plane, _: AdministratorUser, stream: StreamPath, new_epoch: NewEpoch = False) -> Response:
    """Start a job again, after its end if it runs; goes on where it was.

    409 when it has not ended within the setting jobs.stop_wait, or somebody else has started it meanwhile.
    """
    found = _found(plane, stream)
    _checked(plane, found.record.document)
    if found.alive:
        _stop(plane, stream, force=False)
        _await_end(plane, stream)
    with _refusals():
        plane.jobs.start(stream, launcher(plane).launch, new_epoch=new_epoch)
    return _accepted(plane, stream)


@router.delete("/jobs/{stream:segment}", status_code=204, summary="Forget a job", responses=_CONFLICT)
def forget(plane: Plane, _: AdministratorUser, stream: StreamPath) -> Response:
    """Forget a job that does not run, with its logs; its checkpoint and what it has routed stay."""
    with _refusals():
        plane.jobs.forget(stream)
    return no_content()


def launcher(plane: ControlPlane) -> Launcher:
    """How this service starts jobs."""
    settings = plane.settings.jobs
    return Launcher(
        plane.data, settings.roots, settings.master, settings.conf, settings.secrets, plane.settings.log_format
    )


def conflict(reason: str) -> Refusal:
    """409: the job is in a state in which that cannot be done."""
    return Refusal(409, "conflict", reason)


def _checked(plane: ControlPlane, document: Mapping[str, Any]) -> str:
    """The stream of a document that could run here; raises Refusal or InvalidInput naming the key."""
    settings = plane.settings.jobs
    topology = plane.topology()
    try:
        if is_forward(document):
            wanted = submitted(document, settings.roots)
            check_present(document, folder=settings.secrets)
            topology.queue(wanted.vhost, wanted.forward.queue)
            if importlib.util.find_spec("confluent_kafka") is None:
                raise bad_request("forward.to: the service lacks the package confluent-kafka")
            return wanted.stream
        file = DocumentRules(plane.data, settings.roots).check(document)
        check_present(document, folder=settings.secrets)
        topology.vhost(file.job.vhost)
        check_bridge(file, topology)
    except NotFound as error:
        raise bad_request(f"{error.where or 'document'}: {error.message}") from None
    except Refused as error:
        raise bad_request(f"{error.message} ({error.hint})") from None
    spark_submit()
    return file.job.stream


def _found(plane: ControlPlane, stream: str) -> Found:
    with _refusals():
        return plane.jobs.get(stream)


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except NotFound:
        raise object_not_found() from None
    except JobConflict as error:
        raise Refusal(
            409, "conflict", error.message if error.hint is None else f"{error.message}: {error.hint}"
        ) from None


def _stop(plane: ControlPlane, stream: str, *, force: bool) -> None:
    with _refusals():
        found = plane.jobs.request_stop(stream)
    run = found.record.run
    assert run is not None  # noqa: S101  # a job that lives has a run
    # On another machine the job reads the request from its record; only a kill needs its process.
    if force:
        if not kill(run) and plane.jobs.get(stream).alive:
            raise conflict("the job runs on another machine: kill its process there")
    else:
        ask_to_end(run, None if found.status is None else found.status.driver)


def _accepted(plane: ControlPlane, stream: str) -> Response:
    accepted = answer(_item(plane, _found(plane, stream), plane.totals.totals()))
    accepted.status_code = 202
    return accepted


def _await_end(plane: ControlPlane, stream: str) -> None:
    end = time.monotonic() + plane.settings.jobs.stop_wait
    while _found(plane, stream).alive:
        if time.monotonic() > end:
            raise Refusal(
                409, "conflict", f"the job of stream {stream!r} has not ended yet: try again, or stop it by force"
            )
        time.sleep(_POLL)


def _item(plane: ControlPlane, found: Found, totals: Totals) -> dict[str, Any]:
    record, run, said = found.record, found.record.run, found.status
    stream = record.stream
    progress = dict(said.progress or {}) if said is not None else {}
    waiting = progress.pop("waiting", None)
    item: dict[str, Any] = {
        "stream": stream,
        "vhost": record.document.get("vhost", "/"),
        "state": found.state,
        "document": record.document,
        "submitted_by": record.author,
        "submitted_at": _ms(record.submitted_at),
        "lag": progress.pop("lag", None),
        "waiting": {**waiting, "since": _ms(waiting["since"])} if waiting and found.alive else None,
        "rows_per_second": progress.pop("rows_per_second", None),
        "last_batch": progress.pop("last_batch", None),
        "progress": _forwarded(plane, stream)
        if is_forward(record.document)
        else {
            "batches": totals.batches[stream],
            "records": totals.records[stream],
            "copies": totals.copies[stream],
            "unroutable": {reason: number for (name, reason), number in totals.unroutable.items() if name == stream},
            "stages": {
                stage: {"seconds": seconds, "batches": batches}
                for (name, stage), (seconds, batches) in totals.stages.items()
                if name == stream
            },
        },
        "error": None,
    }
    if run is not None:
        item["run"] = {
            "number": run.number,
            "pid": run.process.pid,
            "started_at": _ms(run.started_at),
            "stop_requested_at": _ms(run.stop_requested_at),
            "reported_at": None if said is None else _ms(said.updated_at),
            "log": str(plane.jobs.folder(stream).log(run.number)),
            **progress,
        }
    if found.error is not None:
        item["error"] = dict(found.error)
        if run is not None and item["error"]["code"] == "not_started":
            tail = _log_tail(plane, record, run.number, lines=_TAIL_LINES, limit=_TAIL_BYTES)
            item["error"]["log"] = tail or []
    return item


def _forwarded(plane: ControlPlane, stream: str) -> dict[str, Any]:
    """The progress of a forwarder: it commits no batches, and its position says how far it is."""
    found = recorded_of(plane.data, stream)
    return {
        "batches": 0,
        "records": 0 if found is None else found.rows,
        "copies": 0,
        "unroutable": {},
        "stages": {},
        "position": None if found is None else {**asdict(found.position), "moved_at": found.moved_ms},
    }


def _seen(user: Identity, item: dict[str, Any]) -> dict[str, Any]:
    """A job as that user may see it."""
    if not user.has("administrator"):
        del item["document"]
    return item


def _log_tail(plane: ControlPlane, record: JobRecord, number: int, *, lines: int, limit: int) -> list[str] | None:
    tail = plane.jobs.folder(record.stream).log_tail(number, limit=limit)
    if tail is None:
        return None
    secrets = present_values(record.document, folder=plane.settings.jobs.secrets)
    # a secret may have several lines, and some of them alone may stand in the log
    parts = [part for secret in secrets for part in secret.splitlines() if len(part) >= _SHORTEST_PART]
    shown: list[str] = without_passwords(masked(tail, [*secrets, *parts]).splitlines()[-lines:])
    return shown


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1000)
