"""The root of the `bindery` command.

Exit codes: 0 done, 1 a check failed, 2 bad input or usage, 3 fenced or refused for safety.
"""

from __future__ import annotations

import sys

import typer

from bindery.cli.conformance import conformance
from router.errors import BinderyError

app = typer.Typer(
    name="bindery",
    help="Route message records through broker-style exchanges into one Delta table per queue.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command()(conformance)


@app.callback()
def _root() -> None:
    """Route message records through broker-style exchanges into one Delta table per queue."""


def main() -> None:
    """Run the command; deliberate errors become one message and an exit code, never a traceback."""
    try:
        app()
    except BinderyError as error:
        typer.echo(f"error: {error}" if error.where is None else f"error: {error.where}: {error}", err=True)
        if error.hint is not None:
            typer.echo(f"hint: {error.hint}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
