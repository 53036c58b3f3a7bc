"""`bindery materialise`: give the tables of deferred queues the copies that wait in journals."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from bindery.cli.options import DATA, DataOption, JsonOption
from bindery.cli.render import console, show_table
from bindery.router.error_text import counted
from bindery.router.errors import BinderyError, NotFound

if TYPE_CHECKING:
    from bindery.store.deferred import Flushed, Lag

_COLUMNS: Final = ("stream", "vhost", "copies", "files", "KiB", "through batch")
_WAITING: Final = ("stream", "vhost", "oldest message", "late by", "bytes of journal")


def materialise(
    data: DataOption = DATA,
    vhost: Annotated[str, typer.Option(help="The vhost of --queue.")] = "/",
    queue: Annotated[str | None, typer.Option(help="Only this queue.")] = None,
    stream: Annotated[str | None, typer.Option(help="Only the copies in this stream's journal.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what waits; write nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Give the tables of deferred queues every copy that waits in the journals of streams, at once.

    A running job does this by itself, in time for each queue's `x-freshness`. Safe beside it, beside another run of
    this command, and after an interruption: each copy arrives once. Exit code 1 when a table could not be written.
    """
    # Imported here so that `bindery --help` does not wait for Delta.
    from bindery.store import tables  # noqa: PLC0415
    from bindery.store.deferred import lag_of, materialise_now  # noqa: PLC0415
    from bindery.store.deferred import materialise as materialise_only  # noqa: PLC0415
    from bindery.store.journal_files import Journal  # noqa: PLC0415
    from bindery.store.paths import DataDir  # noqa: PLC0415
    from bindery.store.topology import TopologyStore  # noqa: PLC0415

    directory = DataDir.open(data)
    topologies = TopologyStore(directory)
    topology = topologies.load()
    only = None if queue is None else {topology.queue(vhost, queue).id}
    journals = [Journal.open(path) for path in directory.journals() if tables.exists(path)]
    if stream is not None and stream not in [one.stream for one in journals]:
        raise NotFound(f"stream {stream!r} has no journal", where="--stream", hint="bindery status lists the streams")
    wanted = [one for one in journals if stream in (None, one.stream) and (queue is None or one.vhost == vhost)]
    if dry_run:
        _show_waiting([(lag_of(one, topology), sum(file.size for file in one.waiting())) for one in wanted], as_json)
        return

    def moved(one: Journal) -> Flushed:
        if only is None:
            return materialise_now(topologies, one)
        return materialise_only(directory, topologies, one, only=only)

    found = [moved(one) for one in wanted if one.waiting()]
    _show(found, as_json)
    failed = [reason for one in found for reason in one.failed.values()]
    if failed:
        raise BinderyError(
            f"{counted(len(failed), 'queue')} could not be materialised: {failed[0]}",
            where="queue",
            hint="copies wait in the journal until they are; the next run tries again",
        )


def _show(found: list[Flushed], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps([asdict(one) for one in found], ensure_ascii=False))
        return
    rows = [(one.stream, one.vhost, one.copies, len(one.queues), one.bytes // 1024, one.through) for one in found]
    if rows:
        show_table(_COLUMNS, rows, out=console())
    copies = sum(one.copies for one in found)
    reached = {(one.vhost, queue) for one in found for queue in one.queues}
    console().print(f"{copies:,} copies moved to {counted(len(reached), 'table')}")


def _show_waiting(found: list[tuple[Lag, int]], as_json: bool) -> None:
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    waiting = [(lag, size) for lag, size in found if lag.oldest_ms is not None]
    if as_json:
        shown = [{**asdict(lag), "late_ms": lag.late_ms(now_ms), "bytes": size} for lag, size in waiting]
        typer.echo(json.dumps(shown, ensure_ascii=False))
        return
    rows = [
        (
            lag.stream,
            lag.vhost,
            f"{datetime.fromtimestamp((lag.oldest_ms or 0) / 1000, UTC):%Y-%m-%d %H:%M:%S}Z",
            f"{lag.late_ms(now_ms) // 1000} s" if lag.late_ms(now_ms) else None,
            size,
        )
        for lag, size in waiting
    ]
    if rows:
        show_table(_WAITING, rows, out=console())
    console().print(f"copies wait in {counted(len(rows), 'journal')}")
