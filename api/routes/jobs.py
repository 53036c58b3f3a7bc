"""Streaming jobs and forwarders: submitted as documents, run in processes of their own.

A job document is code: it is for administrators, and jobs/control/document_rules.py says what it may ask for. Who
has the tag `monitoring` sees jobs and their logs without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any, Final

from fastapi import Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import Field, RootModel

from bindery.api.answers import answer, created_at, no_content
from bindery.api.auth import Identity
from bindery.api.bodies import OwnBody, documented, read_object
from bindery.api.control_plane import ControlPlane
from bindery.api.deps import AdministratorUser, MonitoringUser, Plane, json_body, resource
from bindery.api.errors import ErrorBody, Refusal, not_found, object_not_found
from bindery.api.items import JobCheck, JobItem, JobLog, JobProblem
from bindery.api.raw_path import Segment
from bindery.jobs.control.config import Job
from bindery.jobs.control.desk import LOG_LINES
from bindery.jobs.control.forward import Forward
from bindery.jobs.control.job_text import TEXT_LIMIT, line_of, parse_job_text, refuse_aliases
from bindery.router.errors import InvalidInput, NotFound
from bindery.store.jobs import Found, JobConflict

router = resource("jobs", own=True)

#: Bytes of a job document.
DOCUMENT_LIMIT: Final = TEXT_LIMIT
_EXAMPLE: Final = {
    "stream": "orders",
    "vhost": "/",
    "source": {"format": "json", "path": "/srv/orders", "schema": "id BIGINT, region STRING"},
    "message": {"exchange": "'orders'", "routing_key": "region", "application_properties": {"id": "id"}},
    "trigger": "10 seconds",
}


class JobTextBody(OwnBody):
    """A job document as its author writes it."""

    text: Annotated[str, Field(max_length=DOCUMENT_LIMIT)]


class _Document(RootModel[Job | Forward]):
    """A streaming job or a forwarder."""


_CONFLICT: Final[dict[int | str, dict[str, Any]]] = {
    409: {"description": "The job is in a state in which that cannot be done", "model": ErrorBody}
}
StreamPath = Annotated[str, Path(description="stream of the job, percent-encoded")]
NewEpoch = Annotated[
    bool, Query(description="go on with another checkpoint than the last one: records may be repeated or skipped")
]
Lines = Annotated[int, Query(description="how many lines at most", ge=1, le=LOG_LINES)]
RunNumber = Annotated[int | None, Query(description="number of a run; the newest by default", ge=1, le=2**31)]
After = Annotated[
    int | None, Query(description="byte of the log: the first lines behind it, not the last", ge=0, le=2**53)
]
Force = Annotated[bool, Query(description="kill the process at once; the next run completes its batch")]


@router.get("/jobs", summary="List jobs", response_model=list[JobItem])
def list_all(plane: Plane, user: MonitoringUser) -> Response:
    """Every submitted job, by stream: its state, progress and last error; administrators see its document, too."""
    totals = plane.totals.totals()
    return answer([_seen(user, plane.desk.item(found, totals)) for found in plane.jobs.all()])


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
        with _refusals():
            return plane.desk.submit(document, user.name, new_epoch=new_epoch)

    stream = await run_in_threadpool(start)
    return created_at(Segment().to_string(stream))


@router.post(
    "/jobs/check",
    summary="Check a job",
    response_model=JobCheck,
    openapi_extra=documented(JobTextBody, {"text": "stream: orders\nsource: {format: parquet, path: /srv/orders}"}),
)
def check(plane: Plane, _: AdministratorUser, body: Annotated[JobTextBody, json_body(JobTextBody)]) -> Response:
    """Everything that is wrong with a job document, YAML or JSON as text, each with its place; nothing is started.

    Without errors the `document` can be submitted.
    """
    try:
        refuse_aliases(body.text, "document")
        text = parse_job_text(body.text, "document")
    except InvalidInput as error:
        unread = {"code": error.code, "message": error.message, "line": line_of(error), "column": 1}
        return answer({"errors": [unread | ({"hint": error.hint} if error.hint else {})], "document": None})
    errors = [text.problem(error) for error in plane.desk.errors(text.content)]
    shown = [{name: value for name, value in one.items() if name in JobProblem.__annotations__} for one in errors]
    return answer({"errors": shown, "document": text.content})


@router.get("/jobs/{stream:segment}", summary="Show a job", response_model=JobItem)
def show(plane: Plane, user: MonitoringUser, stream: StreamPath) -> Response:
    """One job: its state, progress and last error; administrators see its document, too."""
    return answer(_seen(user, _item(plane, stream)))


@router.get("/jobs/{stream:segment}/logs", summary="Show the log of a job", response_model=JobLog)
def logs(
    plane: Plane, _: MonitoringUser, stream: StreamPath, lines: Lines = 100, run: RunNumber = None, after: After = None
) -> Response:
    """The last lines of what a run printed, of its newest run unless told; secrets are `***`.

    `end` is the byte behind them: with it as `after` the next request gets the lines that came since. A line that a
    living run has not ended is not among them. 404 for a run whose log is not kept, or lies on another machine.
    """
    part = plane.desk.log(_found(plane, stream), run, lines=lines, after=after)
    if part is None:
        raise not_found("no log of that run on this machine")
    return answer(asdict(part))


@router.post(
    "/jobs/{stream:segment}/stop", status_code=202, summary="Stop a job", response_model=JobItem, responses=_CONFLICT
)
def stop(plane: Plane, _: AdministratorUser, stream: StreamPath, force: Force = False) -> Response:
    """Ask a job to end after the batch that is running; answers at once."""
    with _refusals():
        plane.desk.stop(stream, force=force)
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
    with _refusals():
        plane.desk.restart(stream, new_epoch=new_epoch)
    return _accepted(plane, stream)


@router.delete("/jobs/{stream:segment}", status_code=204, summary="Forget a job", responses=_CONFLICT)
def forget(plane: Plane, _: AdministratorUser, stream: StreamPath) -> Response:
    """Forget a job that does not run, with its logs; its checkpoint and what it has routed stay."""
    with _refusals():
        plane.jobs.forget(stream)
    return no_content()


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


def _found(plane: ControlPlane, stream: str) -> Found:
    with _refusals():
        return plane.jobs.get(stream)


def _item(plane: ControlPlane, stream: str) -> dict[str, Any]:
    return plane.desk.item(_found(plane, stream), plane.totals.totals())


def _accepted(plane: ControlPlane, stream: str) -> Response:
    accepted = answer(_item(plane, stream))
    accepted.status_code = 202
    return accepted


def _seen(user: Identity, item: dict[str, Any]) -> dict[str, Any]:
    """A job as that user may see it."""
    if not user.has("administrator"):
        del item["document"]
    return item
