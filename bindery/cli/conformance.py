"""`bindery conformance`: run conformance cases against this installation."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bindery.conformance import PUBLISHING, Outcome, Report, Status, read_cases, run_cases
from bindery.router.errors import InvalidInput

#: Failures that the table shows for each family; `--json` always has all of them.
SHOWN_FAILURES = 5


def conformance(
    paths: Annotated[list[Path], typer.Argument(help="Files of cases, or folders with *.jsonl files below.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    family: Annotated[list[str] | None, typer.Option(help="Run this family only; may be repeated.")] = None,
) -> None:
    """Run conformance cases on the routing engine and on the slow references.

    Exits with 0 when no case failed, with 1 when one did, and with 2 when the input cannot be read.
    """
    cases = read_cases(paths)
    if family:
        present = sorted({case.family for case in cases})
        for name in family:
            if name not in present:
                raise InvalidInput(f"no case of the family {name!r}", hint="families: " + ", ".join(present))
        cases = [case for case in cases if case.family in family]
    report = run_cases(cases, clock_ms=time.time_ns() // 1_000_000)
    if as_json:
        typer.echo(json.dumps(report.as_json(), ensure_ascii=False))
    else:
        _print(report)
    raise typer.Exit(1 if report.failures else 0)


def _print(report: Report) -> None:
    console = Console()
    table = Table("family", *(status.value for status in Status))
    for column in table.columns[1:]:
        column.justify = "right"
    for family, counts in report.families.items():
        table.add_row(family, *(str(counts[status]) for status in Status))
    console.print(table)
    for family in report.families:
        failures = [outcome for outcome in report.failures if outcome.case.family == family]
        for outcome in failures[:SHOWN_FAILURES]:
            console.print(_described(outcome), soft_wrap=True)
        if len(failures) > SHOWN_FAILURES:
            console.print(f"… and {len(failures) - SHOWN_FAILURES} more failures in {family}")


#: Members of a case that a failure shows.
_SHOWN: Final = ("filter", "filters", "topology", "bridges", "place", "exchange", "descriptors", "message")


def _described(outcome: Outcome) -> Text:
    content = outcome.case.content
    lines = [("", outcome.case.id), ("at", outcome.case.where)]
    lines += [(key, _shown(content[key])) for key in _SHOWN if key in content]
    lines += _differing_messages(outcome) if outcome.case.kind in PUBLISHING else []
    lines += [
        ("expected", _shown(outcome.case.expect)),
        ("engine", _shown(outcome.engine)),
        ("reference", _shown(outcome.reference)),
    ]
    return Text("\n".join(f"  {label:<10}{value}" if label else value for label, value in lines))


def _differing_messages(outcome: Outcome) -> list[tuple[str, str]]:
    """The messages of a case that went elsewhere than expected."""
    expected = outcome.case.expect
    results = [result for result in (outcome.engine, outcome.reference) if isinstance(result, list)]
    return [
        ("message", _shown(message))
        for n, message in enumerate(outcome.case.content["messages"])
        if any(result[n] != expected[n] for result in results)
    ]


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
