"""`bindery queues`: the queues of a data directory with their row counts."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from bindery.cli.options import DATA, DataOption, JsonOption, LiveOption
from bindery.cli.render import show_table


def queues(
    data: DataOption = DATA,
    vhost: Annotated[str | None, typer.Option(help="Only the queues of this vhost.")] = None,
    live: LiveOption = True,
    as_json: JsonOption = False,
) -> None:
    """List queues and their rows, counted from the logs of their tables and of journals.

    Of a deferred queue those are counted, too, that wait in a journal; they are told as `waiting` beside.

    Example: bindery queues --data ./data --json
    """
    # Imported here so that `bindery --help` does not wait for Delta.
    from bindery.store.paths import DataDir  # noqa: PLC0415
    from bindery.store.read import count_queues  # noqa: PLC0415
    from bindery.store.topology import TopologyStore  # noqa: PLC0415

    folder = DataDir.open(data)
    topology = TopologyStore(folder).load()
    vhosts = sorted(topology.vhosts) if vhost is None else [topology.vhost(vhost).name]
    queues = [queue for name in vhosts for queue in topology.in_vhost(name)[1]]
    listed = list(zip(queues, count_queues(folder, queues, live=live), strict=True))
    if as_json:
        rows = [
            {
                "vhost": queue.vhost,
                "name": queue.name,
                "messages": held.rows,
                "waiting": held.waiting,
                "path": folder.queue(queue.vhost, queue.name),
            }
            for queue, held in listed
        ]
        typer.echo(json.dumps(rows, ensure_ascii=False))
        return
    if any(held.waiting for _, held in listed):
        shown = [(queue.vhost, queue.name, held.rows, held.waiting) for queue, held in listed]
        show_table(("vhost", "queue", "messages", "waiting"), shown)
        return
    show_table(("vhost", "queue", "messages"), [(queue.vhost, queue.name, held.rows) for queue, held in listed])
