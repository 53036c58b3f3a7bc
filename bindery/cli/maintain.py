"""`bindery maintain`: keep limits of queues, merge small files, clean up logs, delete what nothing needs any more."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from bindery.cli.options import DATA, DataOption, JsonOption
from bindery.cli.render import console, show_table
from bindery.router.error_text import counted, visible
from bindery.router.errors import BinderyError, InvalidInput

if TYPE_CHECKING:
    from bindery.store.limiting import LimitsReport
    from bindery.store.maintenance import Report, TableReport


def maintain(
    context: typer.Context,
    directory_named: Annotated[str | None, typer.Argument(metavar="[DATA]", help="The same as --data.")] = None,
    data: DataOption = DATA,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done; write nothing.")] = False,
    retention: Annotated[
        str | None,
        typer.Option(help="How long old versions stay readable, such as '7 days'. Default: what each table states."),
    ] = None,
    target_size: Annotated[str, typer.Option(help="Size that merged files get.")] = "32 MiB",
    vhost: Annotated[str | None, typer.Option(help="Only tables of this vhost.")] = None,
    queue: Annotated[str | None, typer.Option(help="Only the table of this queue.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Keep limits of queues, merge small files, clean up logs, and delete files that no version kept needs.

    Safe beside running jobs and other maintainers, and after an interruption: whatever is left is done by
    the next run. A retention that is given is written to the tables' properties. Exit code 1 when a table
    could not be maintained.
    """
    # Imported here so that `bindery --help` does not wait for Delta.
    from bindery.store.maintenance import Policy  # noqa: PLC0415
    from bindery.store.maintenance import maintain as maintain_all  # noqa: PLC0415
    from bindery.store.maintenance.policy import retention_of, size  # noqa: PLC0415
    from bindery.store.maintenance.run import in_vhost  # noqa: PLC0415
    from bindery.store.paths import DataDir  # noqa: PLC0415

    policy = replace(
        Policy(target_bytes=size(target_size)), retention=None if retention is None else retention_of(retention)
    )
    stated = context.get_parameter_source("data")
    if directory_named is not None and stated is not None and stated.name == "COMMANDLINE":
        raise InvalidInput("the data directory is named twice", where="--data", hint="name it once")
    directory = DataDir.open(data if directory_named is None else directory_named)
    only = None if vhost is None and queue is None else in_vhost(directory, vhost or "/", queue)
    out = console()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=out, transient=True, disable=as_json or not out.is_terminal) as progress:
        task = progress.add_task("maintaining", total=None)

        def show(name: str, done: int, of: int) -> None:
            progress.update(task, completed=done, total=of, description=visible(name))

        found = maintain_all(directory, policy, dry_run=dry_run, only=only, report=show)
    if as_json:
        typer.echo(json.dumps(found.as_data(), ensure_ascii=False))
    else:
        _show(found)
    if found.failed:
        first = found.failed[0]
        raise BinderyError(
            f"{counted(len(found.failed), 'table')} could not be maintained: {first.error}",
            where=first.name,
            hint="the next run tries again; the others are done"
            if len(found.failed) < len(found.tables) + len(found.limits)
            else "the next run tries again",
        )


#: What was done to a table: numbers, and what kept it from more.
_COLUMNS: Final = (
    "table", "merged", "into", "rows summed", "trimmed", "deleted", "freed KiB", "log entries", "checkpoints", "notes",
)  # fmt: skip


#: What limits did to a queue, and when the next row may expire.
_LIMITS: Final = (
    "vhost", "queue", "expired", "too many", "replaced", "dead-lettered", "whole files", "freed KiB", "next expiry",
    "notes",
)  # fmt: skip


def _limits_row(one: LimitsReport, *, dry_run: bool) -> tuple[object, ...]:
    numbers = (one.expired, one.overflowed, one.replaced, one.dead_lettered, one.files, one.bytes // 1024)
    notes = [f"no exchange {one.missing!r}"] if one.missing is not None else []
    if one.deleted and one.unused_ms is not None:
        notes.append(f"{'would be deleted' if dry_run else 'deleted'}: unused since {_moment(one.unused_ms)}")
    elif one.ends_ms is not None:
        notes.append(f"deleted after {_moment(one.ends_ms)} if nobody uses it")
    following = "" if one.next_ms is None else _moment(one.next_ms)
    return (one.vhost, one.queue, *(number or None for number in numbers), following, one.error or "; ".join(notes))


def _moment(milliseconds: int) -> str:
    return f"{datetime.fromtimestamp(milliseconds / 1_000, UTC):%Y-%m-%d %H:%M:%S}Z"


def _row(one: TableReport) -> tuple[object, ...]:
    numbers = (
        one.merged,
        one.into,
        one.summed,
        one.trimmed,
        one.deleted,
        one.freed_bytes // 1024,
        one.entries,
        one.checkpoints,
    )
    notes = [one.error] if one.error else [f"read from far back by {name}" for name in one.held_by]
    return (one.name, *(number or None for number in numbers), "; ".join(notes))


def _show(found: Report) -> None:
    out = console()
    limited = [
        one
        for one in found.limits
        if one.is_touched or (found.dry_run and (one.next_ms is not None or one.ends_ms is not None))
    ]
    if limited:
        show_table(_LIMITS, (_limits_row(one, dry_run=found.dry_run) for one in limited), out=out)
    touched = [one for one in found.tables if one.is_touched]
    if touched:
        show_table(_COLUMNS, map(_row, touched), out=out)
    for stream in found.idle:
        out.print(Text(f"idle: {visible(stream)} has not moved for so long that what it has not read yet may go"))
    left = sum(one.left for one in found.tables) + sum(one.left for one in found.limits)
    verb = "would be changed" if found.dry_run else "changed"
    summary = f"{counted(len(found.tables), 'table')} looked at, {sum(one.error is None for one in touched)} {verb}"
    gone = sum(one.expired + one.overflowed + one.replaced for one in found.limits)
    if gone:
        summary += f"; limits of queues {'would take' if found.dry_run else 'took'} {counted(gone, 'row')} out"
    expired = sum(one.deleted for one in found.limits)
    if expired:
        summary += f"; {counted(expired, 'unused queue')} {'would be deleted' if found.dry_run else 'deleted'}"
    if found.finished:
        summary += f", {counted(found.finished, 'dead letter')} of an earlier pass delivered"
    brought = sum(rows for queues in found.backfilled.values() for rows in queues.values())
    if brought:
        summary += f"; backfills {'would bring' if found.dry_run else 'brought'} {counted(brought, 'row')}"
    if found.materialised:
        summary += f", {found.materialised:,} late copies of deferred queues moved to their tables"
    if found.leftovers:
        summary += f", {counted(found.leftovers, 'leftover')} of processes that died"
    if left:
        summary += f"; {counted(left, 'table')} left to another maintainer"
    out.print(summary)
