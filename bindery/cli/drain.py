"""`bindery drain`: the messages of a RabbitMQ's queue or stream into an inbox."""

from __future__ import annotations

import json
import logging
import signal
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bindery.cli.options import DATA, DataOption, JsonOption
from bindery.cli.progress_lines import ProgressLines, say
from bindery.router.error_text import counted
from bindery.router.errors import InvalidInput
from bindery.router.model import DEFAULT_VHOST

if TYPE_CHECKING:
    from bindery.jobs.draining.options import Counts


def drain(
    url: Annotated[
        str, typer.Option(help="amqp://user@host:port/vhost, amqps://…, or env:NAME or file:PATH where that is kept.")
    ],
    queue: Annotated[str, typer.Option(help="The queue or stream of the broker.")],
    data: DataOption = DATA,
    vhost: Annotated[str, typer.Option(help="The vhost whose inbox gets the messages.")] = DEFAULT_VHOST,
    name: Annotated[
        str | None, typer.Option(help="Name of the drain, the queue's unless told: one runs at a time of each name.")
    ] = None,
    password: Annotated[str | None, typer.Option(help="env:NAME or file:PATH where the password is kept.")] = None,
    ca_file: Annotated[Path | None, typer.Option(help="PEM certificates of who vouches for the broker.")] = None,
    start: Annotated[
        str | None,
        typer.Option("--from", help="Where a stream begins: first (the default), last, next, an offset or a time."),
    ] = None,
    exchange: Annotated[
        str | None, typer.Option(help="Published to this exchange instead of each message's own.")
    ] = None,
    until_empty: Annotated[bool, typer.Option("--until-empty", help="End when there is nothing left.")] = False,
    accept_gap: Annotated[
        bool, typer.Option("--accept-gap", help="Go on where a stream has removed messages before they were drained.")
    ] = False,
    keep_repeats: Annotated[
        bool, typer.Option("--keep-repeats", help="Append what is recognised as appended before, too.")
    ] = False,
    prefetch: Annotated[int, typer.Option(min=1, max=65_535, help="Messages that the broker sends ahead.")] = 20_000,
    batch_messages: Annotated[int, typer.Option(min=1, help="Messages of a commit at most.")] = 10_000,
    batch_size: Annotated[str, typer.Option(help="Size of the messages of a commit at most.")] = "32 MiB",
    batch_seconds: Annotated[float, typer.Option(min=0.0, help="How long a commit waits for more messages.")] = 5.0,
    heartbeat: Annotated[int, typer.Option(min=1, max=65_535, help="Seconds between signs of life.")] = 60,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between lines about the progress.")] = 10.0,
    as_json: JsonOption = False,
) -> None:
    """Append the messages of a RabbitMQ's queue or stream to a vhost's inbox, and acknowledge them.

    Runs until it is interrupted: what has been delivered is committed and acknowledged then. A stream is
    drained exactly once, a queue at least once. Messages that no record can hold go to the unroutable table.

    Exits with 2 for what the broker refuses and 3 when another drain of the name was started, the queue is
    another consumer's alone, or a stream is not where it was left. The progress goes to standard error.

    Example: bindery drain --url amqp://app@broker/ --password env:BROKER_PASSWORD --queue orders --data ./data
    """
    # Imported here so that other commands wait neither for Delta nor for a client that may not be installed.
    try:
        from bindery.jobs.draining.broker import Broker  # noqa: PLC0415
        from bindery.jobs.draining.drain import Drain  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "pika":
            raise
        raise InvalidInput("pika is not installed", where="drain", hint="pip install 'bindery[rabbitmq]'") from None
    from bindery.jobs.draining.address import read_address  # noqa: PLC0415
    from bindery.jobs.draining.options import DrainOptions, read_start  # noqa: PLC0415
    from bindery.store.maintenance.policy import size  # noqa: PLC0415
    from bindery.store.paths import DataDir  # noqa: PLC0415
    from bindery.store.topology import TopologyStore  # noqa: PLC0415

    options = DrainOptions(
        queue=queue,
        name=queue if name is None else name,
        vhost=vhost,
        start=None if start is None else read_start(start),
        exchange=exchange,
        prefetch=prefetch,
        messages=batch_messages,
        size=size(batch_size),
        seconds=batch_seconds,
        until_empty=until_empty,
        accept_gap=accept_gap,
        keep_repeats=keep_repeats,
    )
    broker = Broker(
        read_address(url, password), ca_file=ca_file, heartbeat=heartbeat, name=f"bindery drain {options.name}"
    )
    directory = DataDir.open(data)
    TopologyStore(directory).load().vhost(vhost)
    logging.getLogger("pika").setLevel(logging.CRITICAL)  # what goes wrong is said below, once
    shown = ProgressLines(interval, _line)
    work = Drain(directory, broker, options, report=shown.report, note=say)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: work.stop())
    done = work.run()
    typer.echo(json.dumps(asdict(done)) if as_json else _line(done))


def _line(counts: Counts) -> str:
    return (
        f"{counted(counts.messages, 'message')} in {counted(counts.commits, 'commit')}, "
        f"{counts.refused:,} refused, {counted(counts.repeats, 'repeat')} left out"
    )
