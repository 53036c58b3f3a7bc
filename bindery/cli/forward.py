"""`bindery forward`: a queue delivered to a Kafka topic."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from bindery.cli.options import DATA, DataOption, JsonOption
from bindery.router.error_text import counted, visible
from bindery.router.errors import BinderyError, InvalidInput
from bindery.router.model import DEFAULT_VHOST

if TYPE_CHECKING:
    from bindery.jobs.forwarding.run import Forwarder, Progress


def forward(
    queue: Annotated[str, typer.Option(help="The queue; it keeps its rows.")],
    bootstrap_servers: Annotated[str, typer.Option(help="Brokers to begin with: host:port, comma-separated.")],
    topic: Annotated[str, typer.Option(help="The topic; it must exist.")],
    data: DataOption = DATA,
    vhost: Annotated[str, typer.Option(help="The vhost of the queue.")] = DEFAULT_VHOST,
    to: Annotated[str, typer.Option(help="What the rows go to: kafka.")] = "kafka",
    name: Annotated[
        str | None, typer.Option(help="Under which the position is kept. Default: made of vhost, queue and topic.")
    ] = None,
    key: Annotated[
        str, typer.Option(help="What records get as key: routing_key, another header's name, or none.")
    ] = "routing_key",
    begin: Annotated[
        str, typer.Option("--from", help="Where to begin without a position: earliest (what is there) or latest.")
    ] = "earliest",
    start_over: Annotated[bool, typer.Option("--start-over", help="Forget the position, and begin at --from.")] = False,
    skip_refused: Annotated[
        bool, typer.Option("--skip-refused", help="Leave out, and name, rows that the topic refuses: too large ones.")
    ] = False,
    config: Annotated[
        Path | None, typer.Option(help="Settings of the Kafka client (YAML): property: value, of librdkafka.")
    ] = None,
    secrets: Annotated[Path | None, typer.Option(help="A folder of secrets that the settings refer to.")] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with what comes, until interrupted.")] = False,
    poll: Annotated[float, typer.Option(min=0.01, help="Seconds between two looks for new rows.")] = 1.0,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two lines of progress.")] = 10.0,
    as_json: JsonOption = False,
) -> None:
    """Send the rows of a queue to a Kafka topic, each at least once; the queue keeps them.

    Goes on where the last run of that name has ended. Ends when everything is there, or with --follow when
    it is interrupted.

    Exits with 1 when the brokers do not take what is sent, 2 for bad input (a queue or topic that does not
    exist), and 3 when another forwarder of the name has started, when its position cannot be gone on with, or
    when the topic refuses a row.

    Example: bindery forward --data ./data --queue orders --bootstrap-servers kafka:9092 --topic orders
    """
    # Imported here so that `bindery --help` does not wait for Delta.
    from bindery.jobs.control.config import AVAILABLE_NOW  # noqa: PLC0415
    from bindery.jobs.control.forward import check_options, forward_of  # noqa: PLC0415
    from bindery.jobs.control.references import masked, resolved  # noqa: PLC0415
    from bindery.jobs.forwarding.run import Forwarder  # noqa: PLC0415
    from bindery.store.paths import DataDir  # noqa: PLC0415

    options = {} if config is None else _settings(config)
    check_options(options)
    target = {
        "queue": queue,
        "to": to,
        "bootstrap_servers": bootstrap_servers,
        "topic": topic,
        "key": key,
        "from": begin,
        "skip_refused": skip_refused,
        "options": options,
    }
    stream = name or ":".join(quote(part, safe="/") for part in (vhost, queue, topic))
    trigger = f"{poll * 1000:.0f} milliseconds" if follow else AVAILABLE_NOW
    document = {"stream": stream, "vhost": vhost, "forward": target, "trigger": trigger}
    document, hidden = resolved(document, folder=secrets)
    try:
        forwarder = Forwarder(DataDir.open(data), forward_of(document), start_over=start_over)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda _number, _frame: forwarder.stop())
        with _lines(forwarder, interval, as_json=as_json):
            forwarder.run()
    except BinderyError as error:
        error.message = masked(error.message, hidden)
        raise


@contextmanager
def _lines(forwarder: Forwarder, interval: float, *, as_json: bool) -> Iterator[None]:
    """A line of progress on standard error at every interval, and one on standard output at the end."""
    ended = threading.Event()
    started = time.monotonic()

    def say() -> None:
        before = 0
        while not ended.wait(interval):
            now = forwarder.progress()
            typer.echo(_line(now, now.rows - before, interval), err=True)
            before = now.rows

    teller = threading.Thread(target=say, name="progress", daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()
    done = forwarder.progress()
    line = "done: " + _line(done, done.rows, time.monotonic() - started)
    typer.echo(json.dumps(asdict(done), ensure_ascii=False) if as_json else line)


def _line(now: Progress, rows: int, seconds: float) -> str:
    line = f"{counted(now.rows, 'row')} forwarded, {rows / seconds:,.0f} rows/s"
    if now.refused:
        line += f", {now.refused:,} refused by the topic"
    if now.behind:
        line += f", {counted(now.behind, 'version')} behind"
    return line if now.trouble is None else f"{line}; {visible(now.trouble)}"


def _settings(path: Path) -> dict[str, Any]:
    import yaml  # noqa: PLC0415

    try:
        found = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidInput(f"cannot read the settings: {error}", where=str(path)) from None
    if not isinstance(found, dict):
        raise InvalidInput("settings are a map", where=str(path), hint="such as: compression.type: zstd")
    return {str(name): value for name, value in found.items()}
