"""The root of the `bindery` command.

Exit codes: 0 done, 1 a check failed, 2 bad input or usage, 3 fenced or refused for safety.
"""

from __future__ import annotations

import inspect
import sys
from typing import Annotated

import typer

import bindery
from bindery.cli import canary as canary_commands
from bindery.cli import filter as filter_commands
from bindery.cli import jobs as job_commands
from bindery.cli import messages as message_commands
from bindery.cli import schemas as schema_commands
from bindery.cli import topology as topology_commands
from bindery.cli.apply import apply
from bindery.cli.backfill import backfill
from bindery.cli.conformance import conformance
from bindery.cli.copy import copy
from bindery.cli.drain import drain
from bindery.cli.explain import explain
from bindery.cli.forward import forward
from bindery.cli.import_ import import_
from bindery.cli.lint import lint
from bindery.cli.maintain import maintain
from bindery.cli.materialise import materialise
from bindery.cli.queues import queues
from bindery.cli.rebuild import rebuild
from bindery.cli.redrive import redrive, unroutable
from bindery.cli.register import register
from bindery.cli.replay import replay
from bindery.cli.route import route
from bindery.cli.rule import rule
from bindery.cli.serve import serve
from bindery.cli.shadow import shadow
from bindery.cli.sql import sql
from bindery.cli.status import status
from bindery.router.error_text import render_error, visible
from bindery.router.errors import BinderyError

app = typer.Typer(
    name="bindery",
    help="Route message records through broker-style exchanges into one Delta table per queue.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(apply)
app.command("import")(import_)
app.command()(route)
app.command()(queues)
app.command()(status)
app.command()(serve)
app.add_typer(job_commands.app, name="jobs")
app.add_typer(message_commands.app, name="messages")
app.add_typer(filter_commands.app, name="filter")
app.add_typer(schema_commands.app, name="schemas")
app.add_typer(topology_commands.app, name="topology")
app.add_typer(canary_commands.app, name="canary")
app.command()(conformance)
app.command()(explain)
app.command()(lint)
app.command()(rule)
app.command()(unroutable)
app.command()(redrive)
app.command()(backfill)
app.command()(rebuild)
app.command()(replay)
app.command()(maintain)
app.command()(materialise)
app.command()(copy)
app.command()(drain)
app.command()(shadow)
app.command()(forward)
app.command()(sql)
app.command()(register)


def _unfold(commands: typer.Typer) -> None:
    """Let help fold its paragraphs where the terminal ends, not where the lines of docstrings do."""
    for command in commands.registered_commands:
        paragraphs = inspect.cleandoc((command.callback and command.callback.__doc__) or "").split("\n\n")
        command.help = "\n\n".join(" ".join(one.split()) for one in paragraphs)
    for group in commands.registered_groups:
        if group.typer_instance is not None:
            _unfold(group.typer_instance)


_unfold(app)


def _say_version(asked: bool) -> None:
    if asked:
        typer.echo(f"bindery {bindery.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version, and exit.")
    ] = False,
) -> None:
    """Route message records through broker-style exchanges into one Delta table per queue."""


def main() -> None:
    """Run the command; deliberate errors become one message and an exit code, never a traceback."""
    try:
        app()
    except BinderyError as error:
        typer.echo(render_error(error), err=True)
        sys.exit(error.exit_code)
    except OSError as error:
        # what the system refuses while a command reads or writes: no bug, and nothing a traceback explains
        where = "" if error.filename is None else f"{visible(str(error.filename))}: "
        typer.echo(f"error: {where}{error.strerror or error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
