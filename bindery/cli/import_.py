"""`bindery import`: load a topology from a definitions file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bindery.cli.render import counted
from bindery.router.error_text import visible
from bindery.router.errors import DefinitionsRefused, InvalidInput

if TYPE_CHECKING:
    from bindery.router.declarations import TopologyEditor
    from bindery.router.definitions import Report


def import_(
    definitions: Annotated[Path, typer.Argument(help="A definitions file (JSON, as RabbitMQ exports it).")],
    data: Annotated[str, typer.Option(help="The data directory; created when missing.")],
    vhost: Annotated[str | None, typer.Option(help="Load everything into this vhost.")] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace objects that exist with other properties.")
    ] = False,
    skip_dangling: Annotated[
        bool, typer.Option("--skip-dangling", help="Skip bindings from or to something that does not exist.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Load exchanges, queues, bindings and diverts from a definitions file, all or nothing.

    What exists with the same properties stays as it is; nothing is deleted. A conflict or an error
    refuses the whole file (exit 2) and names every one.

    Example: bindery import definitions.json --data ./data
    """
    # Imported here so that `bindery --help` does not wait for Delta.
    from bindery.router.definitions import apply, parse_definitions  # noqa: PLC0415
    from bindery.store.paths import DataDir  # noqa: PLC0415
    from bindery.store.topology import TopologyStore  # noqa: PLC0415

    try:
        text = definitions.read_bytes()
    except OSError as error:
        raise InvalidInput(f"cannot read it: {error.strerror}", where=str(definitions)) from None
    try:
        parsed = parse_definitions(text, vhost=vhost)
    except InvalidInput as error:
        error.where = str(definitions) if error.where is None else f"{definitions}: {error.where}"
        raise
    folder = DataDir.open(data, create=True)
    try:
        with _progress(len(parsed.entries)) as (declared, committing):

            def change(editor: TopologyEditor) -> Report:
                done = apply(parsed, editor, overwrite=overwrite, skip_dangling=skip_dangling, done=declared)
                committing()
                return done

            edit = TopologyStore(folder).edit(change, author="bindery import", reason=f"import of {definitions.name}")
    except DefinitionsRefused as error:
        if as_json:
            typer.echo(json.dumps(error.report, ensure_ascii=False))
            raise typer.Exit(error.exit_code) from None
        raise
    report = edit.result.as_data() | {"version": edit.version}
    if as_json:
        typer.echo(json.dumps(report, ensure_ascii=False))
        return
    for kind in ("created", "updated", "unchanged"):
        counts = ", ".join(_counted(number, what) for what, number in report[kind].items() if number)
        typer.echo(f"{kind + ':':<11}{counts or 'nothing'}")
    for entry in report["skipped"]:
        typer.echo(f"skipped:   {visible(json.dumps(entry, ensure_ascii=False))}")
    idle = Counter((name, entry["kind"]) for entry in report["without_effect"] for name in entry["names"])
    for (name, kind), number in sorted(idle.items()):
        typer.echo(f"no effect: {visible(name)} ({_counted(number, kind)})")
    typer.echo(f"topology version {edit.version}")


def _counted(number: int, kind: str) -> str:
    return counted(number, visible(kind), kind.replace("policy", "policies") if kind.endswith("policy") else None)


@contextmanager
def _progress(total: int) -> Iterator[tuple[Callable[[int], None], Callable[[], None]]]:
    """A bar on a terminal, nothing elsewhere; gives what to call per declaration, and before the commit."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )
    with bar:
        task = bar.add_task("declaring", total=total)
        yield (
            lambda number: bar.update(task, completed=number),
            lambda: bar.update(task, description="creating tables and committing", total=None),
        )
