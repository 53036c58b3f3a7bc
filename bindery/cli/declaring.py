"""Declaring what a document holds in a data directory, with a bar on a terminal, and what that did."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bindery.cli.documents import numbered

if TYPE_CHECKING:
    from bindery.router.declarations import TopologyEditor
    from bindery.router.definitions import Definitions, Report
    from bindery.store.topology import Edit


def declare(
    definitions: Definitions, data: str, name: str, *, overwrite: bool, skip_dangling: bool = False
) -> Edit[Report]:
    """Declare everything in a data directory, all or nothing, as one version; `name` is that of the document.

    Raises DefinitionsRefused.
    """
    from bindery.router.definitions import apply  # noqa: PLC0415  # `bindery --help` does not wait for Delta
    from bindery.store.paths import DataDir  # noqa: PLC0415
    from bindery.store.topology import TopologyStore  # noqa: PLC0415

    folder = DataDir.open(data, create=True)
    with _progress(len(definitions.entries)) as (declared, committing):

        def change(editor: TopologyEditor) -> Report:
            done = apply(definitions, editor, overwrite=overwrite, skip_dangling=skip_dangling, done=declared)
            committing()
            return done

        return TopologyStore(folder).edit(change, author="bindery import", reason=f"import of {name}")


def show_counts(report: Mapping[str, Any]) -> None:
    """Say what an import created, updated and left as it was."""
    for kind in ("created", "updated", "unchanged"):
        counts = ", ".join(numbered(number, what) for what, number in report[kind].items() if number)
        typer.echo(f"{kind + ':':<11}{counts or 'nothing'}")


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
