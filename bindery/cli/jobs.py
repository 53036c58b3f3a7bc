"""`bindery jobs`: submitted jobs of a data directory or of a running service."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from bindery.cli.options import DATA, DataOption, JsonOption
from bindery.cli.render import console, show_table
from bindery.cli.status import ago
from bindery.router.error_text import counted, visible
from bindery.router.errors import InvalidInput, NotFound
from bindery.router.moments import iso
from bindery.router.spelling import did_you_mean, nearest

if TYPE_CHECKING:
    from bindery.cli.here import LocalJobs
    from bindery.cli.service import ServiceJobs
    from bindery.jobs.control.job_text import JobText

    Jobs = LocalJobs | ServiceJobs

app = typer.Typer(
    help="Jobs that run by themselves: of a data directory, or of a running service (--service).",
    no_args_is_help=True,
)
ServiceOption = Annotated[
    str | None,
    typer.Option(
        "--service",
        envvar="BINDERY_SERVICE",
        metavar="URL",
        help="The URL of a running service, whose jobs are meant; its user by BINDERY_USER and BINDERY_PASSWORD.",
    ),
]
CaOption = Annotated[
    Path | None,
    typer.Option(
        "--ca-file", envvar="BINDERY_CA_FILE", help="PEM certificates that a service's own one may be issued by."
    ),
]
JobArgument = Annotated[str, typer.Argument(metavar="ID", help="The job's stream, or how it begins.")]
EpochOption = Annotated[
    bool, typer.Option("--new-epoch", help="Go on with another checkpoint than the last one: records may repeat.")
]
WaitOption = Annotated[bool, typer.Option("--wait", help="Wait until it has ended.")]

_COLUMNS: Final = ("job", "state", "run", "started", "records", "copies", "unroutable", "lag", "error")
#: Seconds between two looks at a job.
_LOOK: Final = 1.0
#: Lines of a log that one look takes.
_AT_ONCE: Final = 10_000
_ENDED: Final = ("stopped", "failed")


@app.command()
def submit(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="The job file, YAML or JSON; - reads standard input.")],
    data: DataOption = DATA,
    service: ServiceOption = None,
    ca_file: CaOption = None,
    name: Annotated[str | None, typer.Option("--name", help="The stream, in place of the one in the file.")] = None,
    new_epoch: EpochOption = False,
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Wait until it routes, or has ended if it is available-now; 1 when it has failed."),
    ] = False,
) -> None:
    """Start a job in a process of its own, which outlives this command, and print its id.

    It takes the place of a job of that stream that does not run. Everything that is wrong with the file is told at
    once, and nothing is started.

    Example: bindery jobs submit job.yaml --data ./data --wait

    Example: bindery jobs submit job.yaml --name orders --service https://bindery.example:15671
    """
    from bindery.cli.job_file import read_job_file  # noqa: PLC0415  # `bindery --help` does not wait for YAML

    jobs = _jobs(context, data, service, ca_file)
    document = read_job_file(file, name)
    document.refuse(jobs.errors(document.content))
    with document.placed():
        stream = jobs.submit(document.content, new_epoch=new_epoch)
    typer.echo(visible(stream))
    if wait:
        _await_begin(jobs, stream, document)


@app.command("list")
def list_(
    context: typer.Context,
    data: DataOption = DATA,
    service: ServiceOption = None,
    ca_file: CaOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show every job: its state, what its stream has routed, how far it is behind."""
    items = _jobs(context, data, service, ca_file).items()
    if as_json:
        typer.echo(json.dumps(items, ensure_ascii=False))
        return
    out = console()
    if out.is_terminal and not items:
        out.print("no job was submitted")
        return
    show_table(_COLUMNS, [_row(item, for_people=out.is_terminal) for item in items], out=out)


@app.command()
def status(
    context: typer.Context,
    job: JobArgument,
    data: DataOption = DATA,
    service: ServiceOption = None,
    ca_file: CaOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one job in a line: its state, progress, lag and last error."""
    jobs = _jobs(context, data, service, ca_file)
    item = jobs.item(_named(jobs, job))
    typer.echo(json.dumps(item, ensure_ascii=False) if as_json else visible(_line(item)))


@app.command()
def logs(
    context: typer.Context,
    job: JobArgument,
    data: DataOption = DATA,
    service: ServiceOption = None,
    ca_file: CaOption = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, max=_AT_ONCE, help="How many, the last ones.")] = 100,
    run: Annotated[int | None, typer.Option("--run", min=1, help="The number of a run; the newest by default.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until the run has ended.")
    ] = False,
) -> None:
    """Print the last lines of what a run printed; secrets are ***."""
    jobs = _jobs(context, data, service, ca_file)
    stream = _named(jobs, job)
    with suppress(KeyboardInterrupt):
        part = jobs.log(stream, run, lines=lines)
        _print(part["lines"])
        if follow:
            state = _follow(jobs, stream, part)
            typer.echo(visible(f"run {part['run']} of {stream} has ended: {state}"), err=True)


@app.command()
def stop(
    context: typer.Context,
    job: JobArgument,
    data: DataOption = DATA,
    service: ServiceOption = None,
    ca_file: CaOption = None,
    force: Annotated[
        bool, typer.Option("--force", help="Kill its processes at once; its next run completes the batch.")
    ] = False,
    wait: WaitOption = False,
) -> None:
    """Ask a job to end after the batch that is running.

    The request is on record: a job on another machine finds it there within a second.
    """
    jobs = _jobs(context, data, service, ca_file)
    stream = _named(jobs, job)
    if not jobs.stop(stream, force=force):
        typer.echo("its process is not on this machine, and finds the request on record within a second", err=True)
    if wait:
        _await(jobs, stream, _ENDED)
    state = jobs.state(stream)[0]
    typer.echo(visible(f"{stream}: {state}"))
    if state == "stopping" and console().is_terminal:
        typer.echo("it ends after the batch that is running", err=True)


@app.command()
def restart(
    context: typer.Context,
    job: JobArgument,
    data: DataOption = DATA,
    service: ServiceOption = None,
    ca_file: CaOption = None,
    new_epoch: EpochOption = False,
) -> None:
    """Start a job again, after its end if it runs; it goes on where it was."""
    jobs = _jobs(context, data, service, ca_file)
    stream = _named(jobs, job)
    jobs.restart(stream, new_epoch=new_epoch)
    typer.echo(visible(f"{stream}: {jobs.state(stream)[0]}"))


@app.command()
def forget(
    context: typer.Context,
    job: Annotated[str, typer.Argument(metavar="ID", help="The job's stream, in full.")],
    data: DataOption = DATA,
    service: ServiceOption = None,
    ca_file: CaOption = None,
) -> None:
    """Forget a job that does not run, with its logs; its checkpoint and what it has routed stay."""
    _jobs(context, data, service, ca_file).forget(job)


# -- where the jobs are --------------------------------------------------------------------------------


def _jobs(context: typer.Context, data: str, service: str | None, ca_file: Path | None) -> Jobs:
    """The jobs that are meant: what the command line names goes before the environment, and there a service first."""
    named = {name for name in ("data", "service", "ca_file") if _is_typed(context, name)}
    if {"data", "service"} <= named:
        raise InvalidInput("--data and --service exclude each other", where="bindery jobs", hint="give one of them")
    if service is None or ("data" in named and "service" not in named):
        if "ca_file" in named:
            raise InvalidInput("certificates are those of a service", where="--ca-file", hint="give --service URL")
        from bindery.cli.here import LocalJobs  # noqa: PLC0415  # `bindery --help` does not wait for Delta

        return LocalJobs(data)
    from bindery.cli.service import ServiceJobs  # noqa: PLC0415  # nor for TLS

    # certificates of the environment are for the services that have one
    is_meant = "ca_file" in named or service.startswith("https:")
    jobs = ServiceJobs(service, ca_file if is_meant else None)
    if jobs.is_open:
        typer.echo(f"warning: the password travels unencrypted to {jobs.name}", err=True)
    return jobs


def _is_typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _named(jobs: Jobs, given: str) -> str:
    """The stream that is meant: that very one, or the only one that begins so. Raises NotFound, InvalidInput."""
    streams = jobs.streams()
    if given in streams:
        return given
    found = [stream for stream in streams if given and stream.startswith(given)]
    if len(found) == 1:
        return found[0]
    if found:
        more = f" and {len(found) - 5} more" if len(found) > 5 else ""
        listed = ", ".join(map(visible, found[:5])) + more
        raise InvalidInput(f"{visible(given)!r} may be {listed}", where="job", hint="give more of its id")
    near = nearest(given, streams)
    hint = did_you_mean(None if near is None else visible(near), "see `bindery jobs list`")
    raise NotFound(f"no job for stream {visible(given)!r}", where="job", hint=hint)


# -- waiting -------------------------------------------------------------------------------------------


def _await_begin(jobs: Jobs, stream: str, document: JobText) -> None:
    """Wait until a job routes or has ended; exits with 1 and says why when it has failed."""
    ends = document.content.get("trigger") == "available-now"
    far_enough = _ENDED if ends else (*_ENDED, "running", "idle")
    _await(jobs, stream, far_enough)
    item = jobs.item(stream)
    typer.echo(visible(_line(item)), err=True)
    if item["state"] == "failed":
        raise typer.Exit(1)


def _await(jobs: Jobs, stream: str, states: Sequence[str]) -> None:
    """Wait until a job is in one of these states; whoever interrupts it ends the waiting alone."""
    try:
        while jobs.state(stream)[0] not in states:
            time.sleep(_LOOK)
    except KeyboardInterrupt:
        typer.echo(visible(f"no longer waiting; bindery jobs status {stream} says how it is"), err=True)
        raise typer.Exit(130) from None


def _follow(jobs: Jobs, stream: str, part: Mapping[str, Any]) -> str:
    """Print what a run adds to its log until it has ended; gives the state of its job then."""
    run, end = part["run"], part["end"]
    while True:
        state, newest = jobs.state(stream)
        ended = state in _ENDED or newest != run
        while True:
            # of a run that has ended everything is there
            part = jobs.log(stream, run, lines=_AT_ONCE, after=end)
            _print(part["lines"])
            if part["end"] == end:
                break
            end = part["end"]
        if ended:
            return state if newest == run else f"run {newest} has taken its place"
        time.sleep(_LOOK)


# -- text ----------------------------------------------------------------------------------------------


def _print(lines: Sequence[str]) -> None:
    for line in lines:
        typer.echo("\t".join(map(visible, line.split("\t"))))


def _row(item: Mapping[str, Any], *, for_people: bool) -> tuple[object, ...]:
    progress, run, error = item["progress"], item.get("run", {}), item["error"]
    started = None
    if "started_at" in run:
        moment = datetime.fromtimestamp(run["started_at"] / 1000, UTC)
        started = f"{ago(datetime.now(UTC) - moment)} ago" if for_people else iso(moment)
    return (
        item["stream"], item["state"], run.get("number"), started,
        progress["records"], progress["copies"], sum(progress["unroutable"].values()),
        _lag(item), None if error is None else error["code"],
    )  # fmt: skip


def _line(item: Mapping[str, Any]) -> str:
    """A job in a line."""
    progress, run, error = item["progress"], item.get("run", {}), item["error"]
    said = [item["state"], f"run {run['number']}"] if "number" in run else [item["state"]]
    routed = f"{counted(progress['records'], 'record')}"
    if progress.get("position") is None:
        unroutable = sum(progress["unroutable"].values())
        routed += f" → {counted(progress['copies'], 'copy', 'copies')}" + (
            f", {unroutable:,} unroutable" if unroutable else ""
        )
    said.append(routed)
    lag = _lag(item)
    if lag:
        said.append(f"lag {lag}")
    if item["waiting"]:
        said.append(f"waiting: {item['waiting']['reason']}")
    if error is not None:
        said.append(f"{error['code']}: {error['message']}" + (f" ({error['hint']})" if error.get("hint") else ""))
    return f"{item['stream']}: {'; '.join(said)}"


def _lag(item: Mapping[str, Any]) -> str | None:
    """How far a job that lives is behind: for how long, and files, bytes or offsets, where the source knows."""
    lag = item["lag"]
    if not lag or item["state"] in _ENDED:
        return None
    more = [f"{lag[name]:,} {name}" for name in ("files", "bytes", "offsets") if lag.get(name)]
    return ", ".join([f"{round(lag.get('seconds', 0)):,} s", *more])
