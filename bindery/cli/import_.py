"""`bindery import`: load a topology from a definitions file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bindery.cli.documents import numbered, print_refusal, read_documents, show_idle, show_ignored
from bindery.cli.options import DATA, DataOption, JsonOption
from bindery.router.error_text import visible
from bindery.router.errors import DefinitionsRefused, InvalidInput

if TYPE_CHECKING:
    from bindery.router.definitions import Report


def import_(
    definitions: Annotated[
        Path,
        typer.Argument(help="A definitions file: JSON, as RabbitMQ exports it, or YAML; - reads standard input."),
    ],
    data: DataOption = DATA,
    vhost: Annotated[str | None, typer.Option(help="Load everything into this vhost.")] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace objects that exist with other properties.")
    ] = False,
    skip_dangling: Annotated[
        bool, typer.Option("--skip-dangling", help="Skip bindings from or to something that does not exist.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Load exchanges, queues, bindings and diverts from a definitions file, all or nothing.

    Objects of a document that names no vhost go to "/", or to --vhost.
    What exists with the same properties stays as it is; nothing is deleted. A conflict or an error
    refuses the whole file (exit 2) and names every one, with its line and column.

    Example: bindery import definitions.json --data ./data
    """
    # Imported here so that `bindery --help` does not wait for Delta.
    from bindery.router.declarations import TopologyEditor  # noqa: PLC0415
    from bindery.router.definitions import apply, read_definitions  # noqa: PLC0415
    from bindery.router.definitions.document import FORMAT_KEY, SINGLE_VHOST  # noqa: PLC0415
    from bindery.router.model import DEFAULT_VHOST, Topology  # noqa: PLC0415
    from bindery.router.proposal import is_change  # noqa: PLC0415
    from bindery.store.paths import DataDir  # noqa: PLC0415
    from bindery.store.topology import TopologyStore  # noqa: PLC0415

    try:
        (source,) = read_documents([definitions])
        if is_change(source.value):
            raise InvalidInput(
                "a change document is not imported", where=str(definitions), hint="bindery apply makes changes"
            )
        # an export of one vhost says so, and wants to be told where to; whoever writes by hand means "/"
        alone = isinstance(source.value, dict) and source.value.get(FORMAT_KEY) == SINGLE_VHOST
        default = None if alone else DEFAULT_VHOST
        parsed, problems, ignored = read_definitions(source, vhost=vhost, default_vhost=default)
        if problems:
            # the rest of what is wrong is found without a data directory, which a refused file does not make
            apply(parsed, TopologyEditor(Topology.empty()), overwrite=True, problems=problems)
        folder = DataDir.open(data, create=True)
        with _progress(len(parsed.entries)) as (declared, committing):

            def change(editor: TopologyEditor) -> Report:
                done = apply(parsed, editor, overwrite=overwrite, skip_dangling=skip_dangling, done=declared)
                committing()
                return done

            edit = TopologyStore(folder).edit(change, author="bindery import", reason=f"import of {definitions.name}")
    except DefinitionsRefused as error:
        if as_json:
            raise print_refusal(error) from None
        raise
    report = edit.result.as_data() | {"version": edit.version, "ignored": ignored}
    if as_json:
        typer.echo(json.dumps(report, ensure_ascii=False))
        return
    for kind in ("created", "updated", "unchanged"):
        counts = ", ".join(numbered(number, what) for what, number in report[kind].items() if number)
        typer.echo(f"{kind + ':':<11}{counts or 'nothing'}")
    for entry in report["skipped"]:
        typer.echo(f"skipped:   {visible(json.dumps(entry, ensure_ascii=False))}")
    show_ignored(ignored)
    show_idle(report["without_effect"])
    typer.echo(f"topology version {edit.version}")


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
