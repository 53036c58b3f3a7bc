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

from bindery.cli.explain import DataOption, JsonOption, read_json
from bindery.cli.render import console
from bindery.router.error_text import visible
from bindery.router.lint import SEVERITIES
from bindery.router.model import DEFAULT_VHOST, Topology

if TYPE_CHECKING:
    from bindery.router.analysis import Report

_COLOURS: Final = {"error": "bold red", "warning": "yellow", "info": "cyan"}


class Gravity(StrEnum):
    """The severity from which on findings make the command fail."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    NEVER = "never"


def lint(
    definitions: Annotated[
        Path | None, typer.Argument(help="A definitions document to judge, instead of the data directory's topology.")
    ] = None,
    data: DataOption = "data",
    vhost: Annotated[str | None, typer.Option("--vhost", help="Judge one vhost only.")] = None,
    version: Annotated[int | None, typer.Option("--version", help="A topology version; the newest by default.")] = None,
    overlap: Annotated[
        bool, typer.Option("--overlap/--no-overlap", help="Compare queues by the recent messages that they hold.")
    ] = True,
    fail_on: Annotated[
        Gravity, typer.Option("--fail-on", help="Exit with 1 for a finding at least so grave.")
    ] = Gravity.ERROR,
    as_json: JsonOption = False,
) -> None:
    """Analyse a topology: shadowed bindings, unreachable queues, cycles, starving diverts, odd filters …

    Nothing is changed. Each finding has a code that docs/topology-lint.md explains.
    """
    # Imported here so that `bindery --help` waits neither for Delta nor for the analysis.
    from bindery.router.analysis import analyse  # noqa: PLC0415
    from bindery.router.proposal import propose  # noqa: PLC0415
    from bindery.store.paths import DataDir  # noqa: PLC0415
    from bindery.store.samples import recent_messages  # noqa: PLC0415
    from bindery.store.topology import TopologyStore  # noqa: PLC0415

    samples: dict[str, Any] | None = None
    if definitions is not None:
        topology = propose(Topology.empty(), DEFAULT_VHOST, read_json(definitions))
    else:
        directory = DataDir.open(data)
        topology = TopologyStore(directory).load(version=version)
        if overlap:
            judged = topology.vhosts if vhost is None else [vhost]
            samples = {name: recent_messages(directory, name) for name in judged}
    report = analyse(topology, vhosts=None if vhost is None else [vhost], samples=samples)
    if as_json:
        typer.echo(json.dumps(report.as_data() | {"topology_version": topology.version}, ensure_ascii=False))
    else:
        _show(report, console())
    worst = report.worst()
    failing = SEVERITIES[: list(Gravity).index(fail_on) + 1] if fail_on is not Gravity.NEVER else ()
    if worst in failing:
        raise typer.Exit(1)


def _show(report: Report, out: Console) -> None:
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
            tree.add(Text(visible(f"{finding.subject}{where}: {finding.message}")))
        hidden = report.totals[code] - len(findings)
        if hidden:
            tree.add(Text(f"and {hidden:,} more", "dim"))
        tree.add(Text(f"{rule.explanation} ({rule.anchor})", "dim"))
        out.print(tree)
