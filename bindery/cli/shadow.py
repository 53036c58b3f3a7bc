"""`bindery shadow`: a running RabbitMQ's traffic routed here too, and compared with where the broker put it."""

from __future__ import annotations

import json
import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bindery.cli.options import JsonOption
from bindery.cli.progress_lines import ProgressLines, say
from bindery.cli.render import console
from bindery.router.errors import BinderyError, InvalidInput

if TYPE_CHECKING:
    from types import FrameType

    from bindery.jobs.shadowing.shadow import Shadow
    from bindery.jobs.shadowing.tally import Tally

#: The exit code when messages went elsewhere, or none could be compared: a check failed.
_DIFFERS = 1
#: Seconds for which a broker that is short of memory or disk may keep the tap from its marks.
_PATIENCE = 30.0


def shadow(
    rabbitmq: Annotated[
        str, typer.Option(help="amqp://user@host:port/vhost, amqps://…, or env:NAME or file:PATH where that is kept.")
    ],
    management: Annotated[
        str, typer.Option(help="http://user@host:15672, https://…, or env:NAME or file:PATH where that is kept.")
    ],
    password: Annotated[str | None, typer.Option(help="env:NAME or file:PATH where the password is kept.")] = None,
    management_password: Annotated[
        str | None, typer.Option(help="The same for --management; that of --password unless told.")
    ] = None,
    ca_file: Annotated[
        Path | None, typer.Option(help="PEM certificates of who vouches for the broker, over AMQP.")
    ] = None,
    messages: Annotated[int | None, typer.Option(min=1, help="End after so many messages.")] = None,
    seconds: Annotated[float | None, typer.Option(min=0.0, help="End after so many seconds.")] = None,
    compat: Annotated[
        str | None, typer.Option(metavar="MODE", help="Route under a compatibility mode of RabbitMQ (docs/compat.md).")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write the report to this file: .txt, .json or .html, with a picture.")
    ] = None,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between lines about the progress.")] = 10.0,
    as_json: JsonOption = False,
) -> None:
    """Compare where a running RabbitMQ puts each message with where it goes here.

    The topology is read over the management API, again and again, and the traffic is tapped: the firehose tells of
    every publication the queues that the broker chose. It is turned on for the time, with one exclusive queue of a
    bounded length, and both are removed at the end; nothing else in the broker is touched. Runs until it is
    interrupted, unless told when to end.

    Exits with 0 when every message went to the same queues, 1 when some did not or none was compared, and 2 for what
    the broker refuses, or one that is lost. The progress goes to standard error.

    Example: bindery shadow --rabbitmq amqp://admin@broker/ --management http://admin@broker:15672
    --password env:BROKER_PASSWORD --seconds 60 --report shadow.html
    """
    # Imported here so that other commands wait neither for the engine nor for a client that may not be installed.
    try:
        from bindery.jobs.draining.broker import Broker  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "pika":
            raise
        raise InvalidInput("pika is not installed", where="shadow", hint="pip install 'bindery[rabbitmq]'") from None
    from bindery.cli.foreign import mode_of  # noqa: PLC0415
    from bindery.cli.management_api import ManagementApi  # noqa: PLC0415
    from bindery.cli.shadow_report import as_report, show, write  # noqa: PLC0415
    from bindery.cli.written import check_form  # noqa: PLC0415
    from bindery.jobs.draining.address import read_address  # noqa: PLC0415
    from bindery.jobs.shadowing.shadow import Shadow  # noqa: PLC0415

    if report is not None:
        check_form(report)
    address = read_address(rabbitmq, password, option="--rabbitmq")
    given = "--password" if management_password is None else "--management-password"
    api = ManagementApi(management, management_password or password, where="--management", option=given)
    if api.is_open:
        say(f"warning: the password goes to {api.name} unencrypted")
    logging.getLogger("pika").setLevel(logging.CRITICAL)  # what goes wrong is said below, once
    work = Shadow(
        Broker(address, ca_file=ca_file, name="bindery shadow", patience=_PATIENCE),
        api,
        messages=messages,
        seconds=seconds,
        compat=None if compat is None else mode_of("rabbitmq", "RabbitMQ", compat),
        report=ProgressLines(interval, _line).report,
    )
    failure: BinderyError | None = None
    try:
        with _ended_by_signals(work):
            work.run()
    except BinderyError as error:
        if not work.tap.is_laid:
            if work.tap.left:
                say(work.tap.left)
            raise
        failure = error
    found = as_report(work, failure)
    if report is not None:
        write(report, found)
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))
    else:
        show(found, console(), report)
    if failure is not None:
        raise failure
    if found["differing"] or not found["compared"]:
        raise typer.Exit(_DIFFERS)


@contextmanager
def _ended_by_signals(work: Shadow) -> Iterator[None]:
    """Let the first signal end the comparison, and the second one whatever is still done before the tap is removed."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def end(_number: int, _frame: FrameType | None) -> None:
        for number in numbers:
            signal.signal(number, signal.default_int_handler)
        work.stop()

    before = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _line(tally: Tally) -> str:
    if not tally.compared:
        return ""
    return f"{tally.compared:,} compared, {tally.equal:,} equal, {tally.differing:,} different"
