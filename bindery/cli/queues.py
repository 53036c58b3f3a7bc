"""`bindery queues`: the queues of a data directory with their row counts."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from bindery.cli.options import DATA, DataOption, JsonOption
from bindery.cli.render import show_table


def queues(
    data: DataOption = DATA,
    vhost: Annotated[str | None, typer.Option(help="Only the queues of this vhost.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List queues and the rows in their tables, counted from the tables' logs.

    Example: bindery queues --data ./data --json
    """
    # Imported here so that `bindery --help` does not wait for Delta.
    from bindery.store.paths import DataDir  # noqa: PLC0415
    from bindery.store.tables import count_rows  # noqa: PLC0415
    from bindery.store.topology import TopologyStore  # noqa: PLC0415

    folder = DataDir.open(data)
    topology = TopologyStore(folder).load()
    vhosts = sorted(topology.vhosts) if vhost is None else [topology.vhost(vhost).name]
    listed = [
        (queue.vhost, queue.name, count_rows(folder, queue.vhost, queue.name))
        for name in vhosts
        for queue in topology.in_vhost(name)[1]
    ]
    if as_json:
        rows = [
            {"vhost": owner, "name": name, "messages": count, "path": folder.queue(owner, name)}
            for owner, name, count in listed
        ]
        typer.echo(json.dumps(rows, ensure_ascii=False))
        return
    show_table(("vhost", "queue", "messages"), listed)
