"""`bindery rebuild`: the table of a queue that is lost or damaged, made again from journals."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from bindery.cli.options import DATA, DataOption, DryRunOption, JsonOption, VhostOption
from bindery.cli.render import console, show_table
from bindery.router.error_text import counted, visible
from bindery.router.model import DEFAULT_VHOST


def rebuild(
    queue: Annotated[str, typer.Option("--queue", help="The queue.")],
    data: DataOption = DATA,
    vhost: VhostOption = DEFAULT_VHOST,
    wait: Annotated[float, typer.Option("--wait", min=0, help="Seconds to watch batches that are under way.")] = 10.0,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make a queue's table again, or files of it that are missing or damaged, from the journals of its vhost.

    Safe beside running jobs. Rows that consumers had taken come again; what no journal has is counted. A table that is
    whole is left as it is.
    """
    from bindery.store.paths import DataDir  # noqa: PLC0415  # `bindery --help` does not wait for Delta
    from bindery.store.rebuild import Rebuilder  # noqa: PLC0415
    from bindery.store.topology import TopologyStore  # noqa: PLC0415

    directory = DataDir.open(data)
    found = Rebuilder(directory, TopologyStore(directory), vhost).rebuild(queue, dry_run=dry_run, wait=wait).as_data()
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))
    else:
        _show(found, dry_run=dry_run)


def _show(found: dict[str, Any], *, dry_run: bool) -> None:
    out = console()
    name = visible(found["queue"])
    if found["was"] == "whole":
        out.print(f"the table of queue {name} is whole: nothing to rebuild")
        return
    what = "the table" if found["was"] == "lost" else counted(len(found["files"]), "file")
    span = f", routed from {found['first']} to {found['last']}" if found["rows"] else ""
    verb = "would be rebuilt" if dry_run else "rebuilt"
    out.print(f"queue {name}: {what} {verb} with {counted(found['rows'], 'row')}{span}")
    if found["streams"]:
        show_table(("stream", "rows"), found["streams"].items(), out=out)
    if found["was"] == "lost":
        out.print("rows that consumers had taken are there again: nothing says which")
    elif found["again"]:
        out.print(f"{counted(found['again'], 'row')} of them had been taken before")
    for stream, rows in found["not_covered"].items():
        out.print(f"not covered: {counted(rows, 'row')} ({visible(stream)})")
    for batch in found["under_way"]:
        out.print(f"batch {visible(batch)} is under way: its driver appends it")
    if found["aside"]:
        out.print(f"what was left of the old table is in {visible(found['aside'])}")
