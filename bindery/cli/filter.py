"""`bindery filter`: try a filter without a broker, a topology or messages in flight."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from bindery.cli.options import JsonOption, PayloadOption
from bindery.cli.schema_files import schema_of_file
from bindery.router.columns import BatchView
from bindery.router.error_text import render_error, visible
from bindery.router.errors import BinderyError, InvalidInput
from bindery.router.filters import DIALECTS, Filter, parse
from bindery.router.filters.description import describe
from bindery.router.filters.limits import Payload, PayloadLimits
from bindery.router.filters.lint import ObservedSchema, lint
from bindery.router.filters.payload import FORMATS, payload_named
from bindery.router.filters.schemas import SCHEMA_FORMATS, read_schema
from bindery.router.filters.sets import DEFAULT_SET_LIMITS, parse_filter_set_text
from bindery.router.filters.sets import DIALECT as FILTER_SET
from bindery.router.filters.trace import Trace, trace
from bindery.router.message import MESSAGE_SCHEMA, Message

app = typer.Typer(help="Check a filter, or test it against a message.", no_args_is_help=True)

Text = Annotated[str, typer.Argument(help="The filter.")]
DialectName = Annotated[str, typer.Option("--dialect", help="One of " + ", ".join([*DIALECTS, FILTER_SET]) + ".")]
SchemaFile = Annotated[
    Path | None,
    typer.Option("--schema", metavar="FILE", help="The schema of bodies that are " + ", ".join(SCHEMA_FORMATS) + "."),
]
TypeName = Annotated[
    str | None, typer.Option("--type", help="The message type of bodies that are protobuf, with its package.")
]

#: Rules on misspelt names and those of other languages; what they say stands in the report by itself, too.
_ON_NAMES: Final = ("BF109", "BF110")
#: Messages of a queue that tell lint what its properties hold.
_SAMPLE = 10_000


@app.command()
def check(
    text: Text,
    dialect: DialectName = "jms",
    data: Annotated[str | None, typer.Option(help="A data directory, to compare with the messages of a queue.")] = None,
    queue: Annotated[str, typer.Option(help="The queue to compare with.")] = "",
    vhost: Annotated[str, typer.Option(help="The queue's vhost.")] = "/",
    payload: PayloadOption = None,
    schema: SchemaFile = None,
    type: TypeName = None,
    as_json: JsonOption = False,
) -> None:
    """Parse a filter; print its normal form, the properties it reads, the types of its parts, and remarks.

    Remarks never block; docs/lint.md explains them.
    """
    try:
        checked = read_filter(text, dialect, payload, schema, type)
        observed = None if data is None else _observed(data, queue, vhost)
        found = lint(checked, schema=observed)
        report = describe(checked) | {
            "notes": [finding.message for finding in found if finding.code in _ON_NAMES],
            "findings": [finding.as_data() for finding in found],
        }
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
    for finding in report["findings"]:
        place = finding["where"] or f"column {finding['offset'] + 1}"
        typer.echo(f"{finding['code']} {finding['severity']}, {visible(place)}: {visible(finding['message'])}")
    if report["findings"]:
        typer.echo("explained in docs/lint.md")


@app.command()
def test(
    text: Text,
    message: Annotated[Path, typer.Option("--message", help="A JSON file with one message; - reads standard input.")],
    dialect: DialectName = "jms",
    payload: PayloadOption = None,
    schema: SchemaFile = None,
    type: TypeName = None,
    as_json: JsonOption = False,
) -> None:
    """Evaluate a filter for one message; exit 0 when it passes, 1 when not.

    Prints the value of every sub-expression, and why. UTC() is the time of the call.
    """
    try:
        checked = read_filter(text, dialect, payload, schema, type)
        found = trace(checked, read_message(message), clock_ms=time.time_ns() // 1_000_000)
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


def _observed(data: str, queue: str, vhost: str) -> ObservedSchema:
    """What the first messages of a queue hold."""
    from bindery.store.paths import DataDir  # noqa: PLC0415  # storage, only when it is asked for
    from bindery.store.read import browse  # noqa: PLC0415

    rows = browse(DataDir.open(data), queue, vhost=vhost, limit=_SAMPLE).select(MESSAGE_SCHEMA.names)
    batches = rows.combine_chunks().to_batches()
    return ObservedSchema.of(BatchView(batches[0])) if batches else ObservedSchema(0, {})


def read_filter(
    text: str,
    dialect: str,
    payload: str | Payload | None = None,
    schema: Path | None = None,
    type: str | None = None,
) -> Filter:
    """A filter in a text language, or a filter set as JSON.

    `payload` says what the bodies are that it looks into, `schema` is the file of their schema, `type` a type in it.
    """
    limits = DEFAULT_SET_LIMITS
    if payload is not None:
        if isinstance(payload, str):
            payload = _bodies(payload, schema, type, limits.text.bodies)
        limits = replace(limits, text=replace(limits.text, payload=payload))
    elif schema is not None or type is not None:
        option = "--type" if schema is None else "--schema"
        raise InvalidInput("a schema says nothing without a format", where=option, hint="state --payload too")
    if dialect == FILTER_SET:
        return parse_filter_set_text(text, limits=limits)
    return parse(text, dialect, limits=limits.text)


def _bodies(payload: str, schema: Path | None, type: str | None, limits: PayloadLimits) -> Payload:
    """What bodies are by the options; raises InvalidInput naming the option or the place in the file."""
    if schema is None or payload not in SCHEMA_FORMATS:
        if schema is not None and payload in FORMATS:
            raise InvalidInput(f"bodies that are {payload} have no schema", where="--schema", hint="leave it out")
        try:
            return payload_named(payload, limits)
        except InvalidInput as error:
            error.where, error.hint = "--payload", error.hint or "state it by --schema FILE"
            raise
    try:
        return payload_named(payload, limits, read_schema(payload, schema_of_file(payload, schema), type))
    except InvalidInput as error:
        error.where = "--type" if error.where is None else f"{schema}{error.where}"
        raise


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
