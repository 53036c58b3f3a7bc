"""`bindery status`: how the streams of a data directory stand, and what is wrong."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.text import Text

from bindery.cli.options import DATA, DataOption, JsonOption
from bindery.cli.render import console, show_table
from bindery.router.error_text import counted, visible
from bindery.router.moments import iso

if TYPE_CHECKING:
    from bindery.store.overview import StreamState

_COLUMNS: Final = ("stream", "state", "batches", "records", "copies", "unroutable", "last batch", "ago", "seconds")
#: Where a stream keeps a journal.
_JOURNAL: Final = ("journal rows", "journal KiB", "journal since")
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))


def status(
    data: DataOption = DATA,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 when something is wrong.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what each stream has done, how old its last batch is, and what is wrong.

    Streams without a job on record may run all the same, started by hand: of them only the tables tell.

    Example: bindery status --data ./data
    """
    # Imported here so that `bindery --help` does not wait for Delta.
    from bindery.store.overview import overview  # noqa: PLC0415
    from bindery.store.paths import DataDir  # noqa: PLC0415

    found = overview(DataDir.open(data))
    now = datetime.now(UTC)
    wrong = [(one.stream, said) for one in found.streams for said in one.wrong(now)]
    if as_json:
        typer.echo(json.dumps(found.as_data(now), ensure_ascii=False))
    else:
        out = console()
        if out.is_terminal:
            out.print(
                f"topology version {found.topology_version}: {counted(found.exchanges, 'exchange')}, "
                f"{counted(found.queues, 'queue')}, {counted(found.bindings, 'binding')}"
            )
        keeps = any(one.journal is not None for one in found.streams)
        rows = [_row(one, now) + (_journal(one) if keeps else ()) for one in found.streams]
        show_table(_COLUMNS + (_JOURNAL if keeps else ()), rows, out=out)
        for one in found.canaries:
            said = (
                f"canary in vhost {one['vhost']}: {one['messages']:,} messages compared, {one['differing']:,} differing"
            )
            typer.echo(visible(said), err=not out.is_terminal)
        for stream, said in wrong:
            typer.echo(visible(f"{stream}: {said}"), err=not out.is_terminal)
        if out.is_terminal and not wrong:
            out.print(Text("nothing is wrong" if found.streams else "no stream has run yet"))
    if check and wrong:
        raise typer.Exit(1)


def _row(one: StreamState, now: datetime) -> tuple[object, ...]:
    last = one.last
    committed = None if one.committed_at is None else iso(one.committed_at)
    spent = None if last is None else round(last.duration.total_seconds(), 2)
    since = "" if one.committed_at is None else ago(now - one.committed_at)
    return (
        one.stream, one.state, one.batches, one.records, one.copies, one.unroutable, committed, since, spent,
    )  # fmt: skip


def _journal(one: StreamState) -> tuple[object, ...]:
    kept = one.journal
    if kept is None:
        return (None, None, None)
    return (kept.rows, -(-kept.bytes // 1024), None if kept.oldest is None else iso(kept.oldest))


def ago(span: timedelta) -> str:
    """A span in its largest unit: 12 min."""
    seconds = max(0, round(span.total_seconds()))
    for length, unit in _UNITS:
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"
