"""`bindery copy`: a data directory as of one point, to another folder or object store."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from bindery.cli.options import JsonOption
from bindery.cli.render import console
from bindery.router.error_text import counted, visible

if TYPE_CHECKING:
    from bindery.store.copying import Copy

#: Seconds between lines of progress where there is no terminal.
_EVERY = 10.0


def copy(
    source: Annotated[str, typer.Argument(metavar="SRC", help="The data directory: a folder or a URL.")],
    destination: Annotated[str, typer.Argument(metavar="DST", help="Where to: a folder or URL that is not there yet.")],
    newest_only: Annotated[
        bool, typer.Option("--newest-only", help="Leave out old versions of tables, but for those of the topology.")
    ] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Read again what was written, and compare.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be copied; write nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Copy a data directory at one point, while jobs and the control plane go on.

    Of every batch the copy holds all or nothing, and streams go on from its checkpoints exactly once. A copy that was
    interrupted goes on when it is started again; until it is whole, every other command refuses its destination.
    """
    # Imported here so that `bindery --help` does not wait for Delta.
    from bindery.store.copying import copy_data  # noqa: PLC0415
    from bindery.store.paths import DataDir  # noqa: PLC0415

    with _Shown(quiet=as_json) as shown:
        done = copy_data(
            DataDir.open(source),
            DataDir.named(destination),
            newest_only=newest_only,
            verify=verify,
            dry_run=dry_run,
            progress=shown.report,
        )
    if as_json:
        typer.echo(json.dumps(done.as_data(), ensure_ascii=False))
    else:
        _show(done)


class _Shown:
    """Progress on standard error: a bar on a terminal, elsewhere a line now and then."""

    def __init__(self, *, quiet: bool) -> None:
        self._console = Console(stderr=True, highlight=False, quiet=quiet)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[amount]}"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("", total=None, amount="")
        self._said = ("", 0.0)

    def __enter__(self) -> _Shown:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def report(self, what: str, done: int, total: int) -> None:
        """Show how much of something is done."""
        amount = (
            "" if not total else f"{_size(done)} of {_size(total)}" if what == "files" else f"{done:,} of {total:,}"
        )
        self._bar.update(self._task, description=what, completed=done, total=total or None, amount=amount)
        stage, said_at = self._said
        if not self._console.is_terminal and (what != stage or time.monotonic() - said_at >= _EVERY):
            self._console.print(f"{what} {amount}".rstrip())
            self._said = (what, time.monotonic())


def _show(done: Copy) -> None:
    out = console()
    verb = "would be copied" if done.dry_run else "copied"
    files = counted(done.copied.files, "file")
    line = f"{counted(done.tables, 'table')}, topology version {done.topology_version}: "
    line += f"{files}, {_size(done.copied.bytes)} {verb}"
    if done.copied.kept_files:
        line += f"; {counted(done.copied.kept_files, 'file')}, {_size(done.copied.kept_bytes)} were there"
    out.print(line)
    for one in done.streams:
        name = visible(one.epoch.stream)
        text = f"stream {name}: " + ("no batch" if one.ended is None else f"batches up to {one.ended}")
        if one.begun is not None:
            text += f", and what a job that died has left of batch {one.begun}, which its next start completes"
        if one.missing is not None:
            text += f"; {one.missing}: start it with --new-epoch"
        out.print(Text(text))


def _size(number: int) -> str:
    """A number of bytes for people."""
    for unit, length in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= length:
            return f"{number / length:,.1f} {unit}"
    return f"{number} bytes"
