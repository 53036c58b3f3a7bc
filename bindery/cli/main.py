"""The root of the `bindery` command.

Exit codes: 0 done, 1 a check failed, 2 bad input or usage, 3 fenced or refused for safety.
"""

from __future__ import annotations

import sys

import typer

from router.errors import BinderyError

app = typer.Typer(
    name="bindery",
    help="Route message records through broker-style exchanges into one Delta table per queue.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def main() -> None:
    """Run the command; deliberate errors become one message and an exit code, never a traceback."""
    try:
        app()
    except BinderyError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
