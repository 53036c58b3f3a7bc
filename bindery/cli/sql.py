"""`bindery sql`: queries over queues, unroutable messages, batches and the topology, all at one point."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from bindery.cli.options import DATA, DataOption, VhostOption
from bindery.cli.results import FORMATS, Results
from bindery.router.error_text import render_error, visible
from bindery.router.errors import BinderyError, Refused
from bindery.router.model import DEFAULT_VHOST

if TYPE_CHECKING:
    from bindery.analytics.session import SqlSession

_PROMPT: Final = "bindery> "
_MORE: Final = "    ...> "
#: Literals, quoted names and comments that are whole, and what begins one that is not.
_LITERALS: Final = re.compile(r"""'[^']*'|"[^"]*"|--[^\n]*|/\*.*?\*/|\$(\w*)\$.*?\$\1\$""", re.DOTALL)
_OPEN: Final = re.compile(r"""['"]|/\*|\$\w*\$""")
_HELP: Final = """\
.tables          what there is to query
.schema [NAME]   the columns of a view, or of all of them
.quit            leave; the end of the input does, too (Ctrl-D)
A statement ends with a semicolon. Everything is read as of the time at which this began, or --at."""


def sql(
    query: Annotated[
        str | None, typer.Argument(help="Statements. Without any: a prompt, or what standard input has.")
    ] = None,
    data: DataOption = DATA,
    at: Annotated[
        str | None, typer.Option("--at", help="Read as of the end of a batch (STREAM:BATCH, or BATCH), or of a time.")
    ] = None,
    form: Annotated[
        str | None,
        typer.Option("--format", help=f"{', '.join(FORMATS)}. By default a table on a terminal, csv elsewhere."),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the result into this file.")] = None,
    vhost: VhostOption = DEFAULT_VHOST,
) -> None:
    """Query queues by SQL (DuckDB): all tables at one point, headers as typed columns.

    Example: bindery sql 'SELECT carrier, avg(dep_delay) FROM "late.majors" GROUP BY ALL' --data ./data
    """
    # Imported here so that `bindery --help` does not wait for Delta.
    from bindery.analytics.point import ReadPoint  # noqa: PLC0415
    from bindery.analytics.session import SqlSession  # noqa: PLC0415
    from bindery.store.paths import DataDir  # noqa: PLC0415

    directory = DataDir.open(data)
    if output is not None and output.resolve().is_relative_to(Path(directory.root).resolve()):
        raise Refused("results are not written into the data directory", where=str(output), hint="choose another file")
    results = Results(form, output)
    with SqlSession(ReadPoint.of(directory, at), vhost, notice=_say) as session:
        if query is not None:
            _answer(session, query, results)
        elif sys.stdin.isatty():
            _converse(session, results)
        else:
            for text in _statements(lambda _: sys.stdin.readline()):
                _answer(session, text, results)


def _say(text: str) -> None:
    typer.echo(f"note: {visible(text)}", err=True)


def _answer(session: SqlSession, text: str, results: Results) -> None:
    """Run statements, or a command that begins with a dot."""
    name, _, argument = text.strip().partition(" ")
    if name == ".tables":
        for view in session.views:
            typer.echo(visible(view.quoted))
    elif name == ".schema":
        for view in session.views:
            if argument.strip() in ("", view.name, view.quoted):
                typer.echo(visible(view.quoted))
                _answer(session, f"DESCRIBE {view.quoted}", results)
    elif name.startswith("."):
        typer.echo(_HELP)
    else:
        for statement, is_query in session.statements(text):
            rows = session.run(statement)
            if is_query and rows is not None:
                results.take(rows)


def _converse(session: SqlSession, results: Results) -> None:
    """Ask for statements until the end; what is wrong is said, and the next one asked for."""
    with suppress(ImportError):
        import readline  # noqa: F401, PLC0415  # lines can be edited and come back
    typer.echo(f"{_HELP}\n")
    for text in _statements(_typed):
        try:
            _answer(session, text, results)
        except BinderyError as error:
            typer.echo(render_error(error), err=True)
        except KeyboardInterrupt:
            typer.echo("interrupted", err=True)


def _is_whole(text: str) -> bool:
    """Whether a text ends with the semicolon of a statement, and not within a literal or comment."""
    rest = _LITERALS.sub("", text)
    return rest.rstrip().endswith(";") and not _OPEN.search(rest)


def _typed(goes_on: bool) -> str | None:
    try:
        return input(_MORE if goes_on else _PROMPT) + "\n"
    except EOFError:
        typer.echo()
        return ""
    except KeyboardInterrupt:
        typer.echo()
        return None


def _statements(read: Callable[[bool], str | None]) -> Iterator[str]:
    """Statements and commands out of lines, up to `.quit` or an empty one.

    `read` is told whether a statement goes on, and gives None when it was given up.
    """
    text = ""
    while (line := read(bool(text))) != "":
        if line is None:
            text = ""
            continue
        if not text and line.strip() == ".quit":
            return
        text = (text + line).lstrip()
        if text.startswith(".") or _is_whole(text):
            yield text
            text = ""
    if text:
        yield text
