"""`bindery replay`: what another topology would have done with the messages on record."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from bindery.cli.documents import read_change
from bindery.cli.options import DATA, DataOption, JsonOption, VhostOption
from bindery.cli.redrive import SinceOption, UntilOption, moment
from bindery.cli.render import console, show_table
from bindery.router.error_text import visible
from bindery.router.errors import InvalidInput
from bindery.router.model import DEFAULT_VHOST

if TYPE_CHECKING:
    from bindery.router.model import Topology
    from bindery.store.topology import TopologyStore

#: Queues that the terminal lists.
LISTED: Final = 40


def replay(
    against: Annotated[
        str,
        typer.Option(
            "--against", help="A topology version, or a document of definitions or a change; - reads standard input."
        ),
    ],
    data: DataOption = DATA,
    vhost: VhostOption = DEFAULT_VHOST,
    stream: Annotated[str | None, typer.Option("--stream", help="Only messages of this stream.")] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="The document is the whole topology of the vhost, not a change to it.")
    ] = False,
    svg: Annotated[Path | None, typer.Option("--svg", help="Write a picture to this file.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page with the picture and examples.")] = None,
    master: Annotated[str, typer.Option(help="The Spark master of a session without spark-submit.")] = "local[*]",
    as_json: JsonOption = False,
) -> None:
    """Route the messages on record through another topology and compare; no queue is written.

    Reports per queue the copies gained, lost and unchanged, the first examples with their explanation,
    and the change in unroutable messages and in files.

    Example: bindery replay --stream flights --against new.json --data ./data --svg change.svg
    """
    # Imported here so that other commands do not wait for Spark.
    from bindery.cli.local import default_log, local_session  # noqa: PLC0415
    from bindery.cli.replay_picture import html as page  # noqa: PLC0415
    from bindery.cli.replay_picture import svg as picture  # noqa: PLC0415
    from bindery.jobs.comparison import Reporter  # noqa: PLC0415
    from bindery.jobs.control.connectors import connectors  # noqa: PLC0415
    from bindery.jobs.replay import replay as run  # noqa: PLC0415
    from bindery.jobs.replayer import Span  # noqa: PLC0415
    from bindery.store.paths import DataDir  # noqa: PLC0415
    from bindery.store.topology import TopologyStore  # noqa: PLC0415

    span = Span(stream, moment(since, "--from"), moment(until, "--to"))
    directory = DataDir.open(data)
    store = TopologyStore(directory)
    present = store.load()
    proposed = _proposed(store, present, vhost, against, replace=replace)
    terminal = Console(stderr=True)
    needs = connectors((directory.root,))
    log = default_log("replay")
    with (
        local_session("replay", terminal, where="replay", master=master, needs=needs, log=log) as spark,
        _progress(terminal) as report,
    ):
        comparison = run(spark, directory, present, proposed, vhost=vhost, span=span, report=report)
    versions = {one.topology_version for found in comparison.examples.values() for one in found}
    past = {version: store.load(version=version) for version in versions}
    found = Reporter(vhost, past, proposed).report(comparison)
    found |= {"against": against, "stream": stream, "from": since, "to": until}
    title = f"{stream or 'every stream'} against {against if against.isdecimal() else Path(against).name}"
    for path, draw in ((svg, picture), (html, page)):
        if path is not None:
            path.write_text(draw(found, title=title), "utf-8")
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))
    else:
        show(found, console())


def _proposed(store: TopologyStore, present: Topology, vhost: str, against: str, *, replace: bool) -> Topology:
    """The topology that `--against` means."""
    if against.isdecimal():
        if replace:
            raise InvalidInput("--replace goes with a document, not with a version", where="--replace")
        return store.load(version=int(against))
    present.vhost(vhost)
    return read_change([Path(against)], vhost, replace=replace).applied_to(present)


@contextmanager
def _progress(console: Console) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal, nothing elsewhere."""
    bar = Progress(
        TextColumn("replaying"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("groups of files"),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def show(report: Mapping[str, Any], out: Console) -> None:
    """Render a comparison for people."""
    from bindery.cli.replay_picture import example_lines  # noqa: PLC0415

    copies, files = report["copies"], report["files"]
    out.print(
        f"{report['messages']:,} messages: {copies['before']:,} copies before, {copies['after']:,} after; "
        f"{files['before']:,} files before, {files['after']:,} after"
    )
    if report["messages"]:
        out.print(_origin(report["messages"], report["from_journals"]))
    columns = ("queue", "before", "after", "unchanged", "gained", "lost")
    rows = ([queue[name] for name in columns] for queue in report["queues"][:LISTED])
    show_table(columns, rows, out=out, style=_style)
    if report["queues"][LISTED:]:
        out.print(f"and {len(report['queues']) - LISTED:,} further queues")
    _show_unroutable(report["unroutable"], out)
    if report["unexplained_copies"]:
        out.print(f"{report['unexplained_copies']:,} copies came by bcc keys, which queues do not keep: not compared")
    for queue in report["queues"][:LISTED]:
        for line in example_lines(queue):
            out.print(Text(visible(f"{queue['queue']}: {line}")))


def _origin(messages: int, journaled: int) -> str:
    """How complete the comparison is: journals have every message, tables what nobody has taken."""
    if journaled == messages:
        return "all of them from journals"
    others = "what queues and the unroutable table still have"
    return (
        f"{journaled:,} of them from journals, the others are {others}"
        if journaled
        else f"no journal has them: {others}"
    )


def _style(column: str, cell: object) -> str:
    colour = {"gained": "green", "lost": "red"}.get(column)
    return "" if colour is None else colour if cell else "dim"


def _show_unroutable(unroutable: Mapping[str, Any], out: Console) -> None:
    for code in sorted(unroutable["before"].keys() | unroutable["after"].keys()):
        before, after = unroutable["before"].get(code, 0), unroutable["after"].get(code, 0)
        out.print(f"unroutable, {code}: {before:,} before, {after:,} after")
