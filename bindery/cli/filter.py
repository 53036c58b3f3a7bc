"""`bindery filter`: try a filter without a broker, a topology or messages in flight."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from bindery.cli.render import render_error, visible
from router.errors import BinderyError, InvalidInput
from router.filters import DIALECTS, Filter, parse
from router.filters.lint import lint
from router.filters.sets import DIALECT as FILTER_SET
from router.filters.sets import parse_filter_set_text
from router.filters.trace import Trace, describe, trace
from router.message import Message

app = typer.Typer(help="Check a filter, or test it against a message.", no_args_is_help=True)

Text = Annotated[str, typer.Argument(help="The filter.")]
DialectName = Annotated[str, typer.Option("--dialect", help="One of " + ", ".join([*DIALECTS, FILTER_SET]) + ".")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def check(text: Text, dialect: DialectName, as_json: AsJson = False) -> None:
    """Parse a filter; print its normal form, the properties it reads and the types of its parts."""
    try:
        checked = _read_filter(text, dialect)
        report = describe(checked) | {"findings": [finding.as_data() for finding in lint(checked)]}
    except BinderyError as error:
        _fail(error, as_json=as_json)
    if as_json:
        typer.echo(json.dumps(report, ensure_ascii=False))
        return
    typer.echo(f"normal form: {visible(report['normal_form'])}")
    typer.echo("reads:       " + (", ".join(visible(name) for name in report["properties"]) or "nothing"))
    rows = [("  " * item["depth"] + visible(item["text"]), item["type"]) for item in report["expressions"]]
    width = min(max(len(row[0]) for row in rows), 80)
    for shown, kind in rows:
        typer.echo(f"  {shown.ljust(width)}  {kind}")
    for note in report["notes"]:
        typer.echo(f"note: {visible(note)}")
    for finding in report["findings"]:
        place = finding["where"] or f"column {finding['offset'] + 1}"
        typer.echo(f"{finding['code']} {finding['severity']}, {visible(place)}: {visible(finding['message'])}")
    if report["findings"]:
        typer.echo("explained in docs/lint.md")


@app.command()
def test(
    text: Text,
    dialect: DialectName,
    message: Annotated[Path, typer.Option("--message", help="A JSON file with one message; - reads standard input.")],
    as_json: AsJson = False,
) -> None:
    """Evaluate a filter for one message; exit 0 when it passes, 1 when not.

    Prints the value of every sub-expression, and why. UTC() is the time of the call.
    """
    try:
        found = trace(_read_filter(text, dialect), read_message(message), clock_ms=time.time_ns() // 1_000_000)
    except BinderyError as error:
        _fail(error, as_json=as_json)
    passes = found.value is True
    if as_json:
        typer.echo(json.dumps({"passes": passes, "result": found.shown, "trace": found.as_data()}, ensure_ascii=False))
    else:
        typer.echo(f"{'passes' if passes else 'does not pass'}: {found.shown}")
        rows = list(_rows(found, 0))
        width = min(max(len(row[0]) for row in rows), 80)
        for shown, value, why in rows:
            typer.echo(f"  {shown.ljust(width)}  {value}{f'  ({why})' if why else ''}")
    if not passes:
        raise typer.Exit(1)


def _read_filter(text: str, dialect: str) -> Filter:
    """A filter in a text language, or a filter set as JSON."""
    return parse_filter_set_text(text) if dialect == FILTER_SET else parse(text, dialect)


def read_message(path: Path) -> Message:
    """The message of a JSON file; raises InvalidInput when it is unreadable or no message."""
    try:
        content = sys.stdin.read() if str(path) == "-" else path.read_text("utf-8")
        return Message.from_json(json.loads(content))
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInput(f"cannot read a message: {error}", where=str(path)) from None


def _rows(item: Trace, level: int) -> Iterator[tuple[str, str, str]]:
    yield "  " * level + visible(item.text), visible(item.shown), visible(item.why)
    for part in item.parts:
        if part.kind != "literal":
            yield from _rows(part, level + 1)


def _fail(error: BinderyError, *, as_json: bool) -> Any:
    if as_json:
        typer.echo(json.dumps({"error": error.as_data()}, ensure_ascii=False))
    else:
        typer.echo(render_error(error), err=True)
    raise typer.Exit(error.exit_code)
