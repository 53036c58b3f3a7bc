"""`bindery backfill`: messages of the past for a queue or binding that was declared since."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

import typer

from bindery.cli.options import DATA, DataOption, DryRunOption, FilterOption, JsonOption, PayloadOption, VhostOption
from bindery.cli.redrive import DialectOption, SinceOption, UntilOption, moment
from bindery.cli.render import console, show_table
from bindery.router.error_text import counted, visible
from bindery.router.model import DEFAULT_VHOST

_STREAMS: Final = ("stream", "messages", "rows", "journal from")


def backfill(
    queue: Annotated[str, typer.Option("--queue", help="The queue that gets the messages.")],
    data: DataOption = DATA,
    vhost: VhostOption = DEFAULT_VHOST,
    since: SinceOption = None,
    until: UntilOption = None,
    condition: FilterOption = None,
    dialect: DialectOption = "jms",
    payload: PayloadOption = None,
    stream: Annotated[str | None, typer.Option("--stream", help="Only messages of this stream.")] = None,
    wait: Annotated[
        float, typer.Option("--wait", min=0, help="Seconds to wait for batches that are under way.")
    ] = 30.0,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Bring a queue the messages of journals that it would have got, each exactly once, and no other queue any.

    The present topology says which: what reaches the queue by it and was not delivered there before. Safe beside
    running jobs, consumers and other backfills; one that was interrupted is finished by the next, or by maintenance.
    """
    from bindery.store.backfill import Backfiller, Selection  # noqa: PLC0415  # `--help` does not wait for Delta
    from bindery.store.paths import DataDir  # noqa: PLC0415
    from bindery.store.topology import TopologyStore  # noqa: PLC0415

    directory = DataDir.open(data)
    chosen = Selection(stream, moment(since, "--from"), moment(until, "--to"), condition, dialect, payload)
    work = Backfiller(directory, TopologyStore(directory), vhost)
    found = work.backfill(queue, chosen, dry_run=dry_run, wait=wait).as_data()
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))
    else:
        _show(found, dry_run=dry_run)


def _show(found: dict[str, Any], *, dry_run: bool) -> None:
    out = console()
    name, rows = visible(found["queue"]), counted(found["rows"], "message")
    span = f", routed from {found['first']} to {found['last']}" if found["rows"] else ""
    out.print(f"queue {name} {'would get' if dry_run else 'got'} {rows}{span}")
    if found["finished"]:
        out.print(f"and {counted(found['finished'], 'message')} of a backfill that had been interrupted")
    show_table(_STREAMS, ([one[key.replace(" ", "_")] for key in _STREAMS] for one in found["streams"]), out=out)
    for one in found["under_way"]:
        out.print(
            f"batch {one['batch_id']} of stream {visible(one['stream'])} is under way by topology version "
            f"{one['topology_version']}: maintenance brings what is in it"
        )
