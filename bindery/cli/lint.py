"""`bindery lint`: what a topology says that its author hardly meant."""

from __future__ import annotations

import json
from collections import defaultdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from bindery.cli.documents import read_documents
from bindery.cli.options import DATA, DataOption, JsonOption
from bindery.cli.render import console
from bindery.router.error_text import visible
from bindery.router.errors import InvalidInput
from bindery.router.lint import SEVERITIES, prefixes
from bindery.router.model import DEFAULT_VHOST, Topology

if TYPE_CHECKING:
    from collections.abc import Callable

    from bindery.cli.positions import Positions
    from bindery.router.analysis import Report, Subject

_COLOURS: Final = {"error": "bold red", "warning": "yellow", "info": "cyan"}


class Format(StrEnum):
    """How findings are printed."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


class Gravity(StrEnum):
    """The severity from which on findings make the command fail."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    NEVER = "never"


def lint(
    definitions: Annotated[
        Path | None,
        typer.Argument(
            help="A definitions document to judge, instead of the data directory's topology; - reads standard input."
        ),
    ] = None,
    data: DataOption = DATA,
    vhost: Annotated[str | None, typer.Option("--vhost", help="Judge one vhost only.")] = None,
    version: Annotated[int | None, typer.Option("--version", help="A topology version; the newest by default.")] = None,
    overlap: Annotated[
        bool,
        typer.Option(
            "--overlap/--no-overlap",
            help="Look at recent messages, too: queues that hold the same, properties of filters that none has.",
        ),
    ] = True,
    fail_on: Annotated[
        Gravity, typer.Option("--fail-on", help="Exit with 1 for a finding at least so grave.")
    ] = Gravity.ERROR,
    select: Annotated[
        str, typer.Option("--select", metavar="CODES", help="Only these codes, or beginnings of codes: BT1,BT170.")
    ] = "",
    ignore: Annotated[
        str, typer.Option("--ignore", metavar="CODES", help="All but these codes, or beginnings of codes.")
    ] = "",
    compat: Annotated[
        str | None,
        typer.Option(
            "--compat", metavar="MODE", help="Ask what depends on a compatibility mode: one of docs/compat.md, or all."
        ),
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="How to print the findings.")] = Format.TEXT,
    fix: Annotated[
        bool, typer.Option("--fix", help="Write a document without the bindings that decide nothing (BT101, BT102).")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write that document to this file, not to standard output.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Analyse a topology: shadowed bindings, unreachable queues, cycles, starving diverts, odd filters …

    Nothing is changed. Each finding has a code that `bindery rule CODE` and docs/topology-lint.md explain.
    """
    # Imported here so that `bindery --help` waits neither for Delta nor for the analysis.
    from bindery.cli.positions import Positions  # noqa: PLC0415
    from bindery.cli.sarif import as_sarif  # noqa: PLC0415
    from bindery.router.analysis import RULES, analyse  # noqa: PLC0415
    from bindery.router.compat import MODES, mode_named  # noqa: PLC0415
    from bindery.router.proposal import read_change  # noqa: PLC0415
    from bindery.store.paths import DataDir  # noqa: PLC0415
    from bindery.store.samples import recent_messages, recent_names  # noqa: PLC0415
    from bindery.store.topology import TopologyStore  # noqa: PLC0415

    if output is not None and not fix:
        raise InvalidInput("--output is for --fix", where="--output")
    wanted, unwanted = prefixes(select, RULES, where="--select"), prefixes(ignore, RULES, where="--ignore")
    samples: dict[str, Any] | None = None
    names: dict[str, Any] | None = None
    places: Positions | None = None
    if definitions is not None:
        sources = read_documents([definitions])
        change = read_change(sources, DEFAULT_VHOST)
        topology = change.applied_to(Topology.empty())
        places = Positions(sources[0].value, change, topology)
    else:
        directory = DataDir.open(data)
        topology = TopologyStore(directory).load(version=version)
        if overlap:
            judged = topology.vhosts if vhost is None else [vhost]
            samples = {name: recent_messages(directory, name) for name in judged}
            names = {name: recent_names(directory, name) for name in judged}
    modes = [] if compat is None else list(MODES) if compat == "all" else [mode_named(compat, where="--compat").name]
    judged_vhosts = None if vhost is None else [vhost]
    report = analyse(topology, vhosts=judged_vhosts, samples=samples, names=names, modes=modes)
    report.narrow(wanted, unwanted)
    if places is not None:
        report.drop(places.is_ignored)
    line = places.line if places is not None else _nowhere
    to_stderr = fix and output is None
    if form is Format.SARIF:
        shown = as_sarif(report, definitions, line)
        typer.echo(json.dumps(shown, ensure_ascii=False), err=to_stderr)
    elif as_json or form is Format.JSON:
        data_of = report.as_data() | {"topology_version": topology.version}
        for found, data_found in zip(report.findings, data_of["findings"], strict=True):
            if (at := line(found.subject)) is not None:
                data_found["file"], data_found["line"] = str(definitions), at
        typer.echo(json.dumps(data_of, ensure_ascii=False), err=to_stderr)
    else:
        _show(report, console(stderr=to_stderr), str(definitions), line)
    if fix:
        _write(_fixed(report, places), output)
    worst = report.worst()
    failing = SEVERITIES[: list(Gravity).index(fail_on) + 1] if fail_on is not Gravity.NEVER else ()
    if worst in failing:
        raise typer.Exit(1)


def _nowhere(_subject: Subject) -> int | None:
    """A data directory has no lines."""
    return None


def _fixed(report: Report, places: Positions | None) -> Any:
    """The document without what decides nothing, or the change that deletes it from a data directory."""
    from bindery.router.analysis.fixes import superfluous  # noqa: PLC0415

    gone = superfluous(report.findings)
    if places is not None:
        return places.without(finding.subject for finding in gone.values())
    vhosts = {finding.subject.vhost for finding in gone.values()}
    if len(vhosts) > 1:
        raise InvalidInput(
            f"{len(vhosts)} vhosts have bindings that decide nothing, and ids are those of one",
            where="--fix",
            hint="name one: --vhost",
        )
    return {"delete": {"bindings": sorted(gone)}}


def _write(document: Any, output: Path | None) -> None:
    text = json.dumps(document, indent=2, ensure_ascii=False)
    if output is None:
        typer.echo(text)
        return
    try:
        output.write_text(text + "\n", "utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot write {output}: {error.strerror}", where="--output") from None


def _show(report: Report, out: Console, file: str, line: Callable[[Subject], int | None]) -> None:
    if not report.findings:
        out.print("nothing to remark")
        return
    by_code: dict[str, list[Any]] = defaultdict(list)
    for finding in report.findings:
        by_code[finding.code].append(finding)
    for code, findings in by_code.items():
        rule = findings[0].rule
        tree = Tree(Text(f"{code} {rule.title} ({rule.severity})", _COLOURS[rule.severity]))
        for finding in findings:
            where = "" if finding.subject.vhost == DEFAULT_VHOST else f" in vhost {finding.subject.vhost}"
            at = line(finding.subject)
            place = "" if at is None else f"{file}:{at}: "
            tree.add(Text(visible(f"{place}{finding.subject}{where}: {finding.message}")))
        hidden = report.totals[code] - len(findings)
        if hidden:
            tree.add(Text(f"and {hidden:,} more", "dim"))
        tree.add(Text(f"{rule.explanation} ({rule.anchor})", "dim"))
        out.print(tree)
    counted = ", ".join(f"{count:,} {severity}" for severity, count in report.severities().items() if count)
    out.print(Text(f"{report.totals.total():,} found: {counted}"))
