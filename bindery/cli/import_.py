"""`bindery import`: load a topology from a definitions file, or from another broker's configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from bindery.cli.declaring import declare, show_counts
from bindery.cli.documents import print_refusal, read_documents, show_idle, show_ignored
from bindery.cli.foreign import Foreign
from bindery.cli.options import DATA, DataOption, JsonOption
from bindery.router.error_text import visible
from bindery.router.errors import DefinitionsRefused, InvalidInput
from bindery.router.importers import KINDS


def import_(
    definitions: Annotated[
        str,
        typer.Argument(
            help="A definitions file: JSON, as RabbitMQ exports it, or YAML; - reads standard input. "
            "With --from a configuration of that broker, or the URL of its management API.",
        ),
    ],
    data: DataOption = DATA,
    vhost: Annotated[str | None, typer.Option(help="Load everything into this vhost.")] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace objects that exist with other properties.")
    ] = False,
    skip_dangling: Annotated[
        bool, typer.Option("--skip-dangling", help="Skip bindings from or to something that does not exist.")
    ] = False,
    kind: Annotated[str | None, typer.Option("--from", help=f"The broker it comes from: {', '.join(KINDS)}.")] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="With --from: import nothing unless all is carried over exactly (exit 1).")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --from: report, import nothing.")] = False,
    report: Annotated[
        Path | None, typer.Option(help="With --from: write the report to this file: .txt, .json or .html.")
    ] = None,
    access: Annotated[bool, typer.Option("--access", help="With --from: users and permissions too.")] = False,
    password: Annotated[
        str | None, typer.Option(help="With a URL: env:NAME or file:PATH where the password is kept.")
    ] = None,
    compat: Annotated[
        str | None,
        typer.Option(
            "--compat", metavar="MODE", help="With --from: the compatibility mode of the vhosts (docs/compat.md)."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Load exchanges, queues, bindings and diverts from a definitions file, all or nothing.

    Objects of a document that names no vhost go to "/", or to --vhost.
    What exists with the same properties stays as it is; nothing is deleted. A conflict or an error
    refuses the whole file (exit 2) and names every one, with its line and column.

    With --from the configuration of another broker is read, and a report says of each of its objects whether it is
    carried over exactly, with which difference, or not. What cannot be carried over is left out; with --strict
    nothing is imported then (exit 1).

    Example: bindery import definitions.json --data ./data
    """
    if kind is None:
        given = {
            "--strict": strict,
            "--dry-run": dry_run,
            "--report": report,
            "--access": access,
            "--password": password,
            "--compat": compat,
        }
        for option, value in given.items():
            if value:
                raise InvalidInput("goes with --from", where=option, hint=f"--from {' or '.join(KINDS)}")
        _load(Path(definitions), data, vhost, overwrite, skip_dangling, as_json)
    elif skip_dangling:
        hint = "what has an end that does not exist is left out, and reported"
        raise InvalidInput("goes without --from", where="--skip-dangling", hint=hint)
    else:
        run = Foreign(definitions, kind, data, vhost, overwrite, access, password, compat)
        run.carry_over(strict=strict, dry_run=dry_run, report=report, as_json=as_json)


def _load(path: Path, data: str, vhost: str | None, overwrite: bool, skip_dangling: bool, as_json: bool) -> None:
    """Load a definitions file as it is."""
    # Imported here so that `bindery --help` does not wait for Delta.
    from bindery.router.declarations import TopologyEditor  # noqa: PLC0415
    from bindery.router.definitions import apply, read_definitions  # noqa: PLC0415
    from bindery.router.definitions.document import FORMAT_KEY, SINGLE_VHOST  # noqa: PLC0415
    from bindery.router.model import DEFAULT_VHOST, Topology  # noqa: PLC0415
    from bindery.router.proposal import is_change  # noqa: PLC0415

    try:
        (source,) = read_documents([path])
        if is_change(source.value):
            raise InvalidInput("a change document is not imported", where=str(path), hint="bindery apply makes changes")
        # an export of one vhost says so, and wants to be told where to; whoever writes by hand means "/"
        alone = isinstance(source.value, dict) and source.value.get(FORMAT_KEY) == SINGLE_VHOST
        default = None if alone else DEFAULT_VHOST
        parsed, problems, ignored = read_definitions(source, vhost=vhost, default_vhost=default)
        if problems:
            # the rest of what is wrong is found without a data directory, which a refused file does not make
            apply(parsed, TopologyEditor(Topology.empty()), overwrite=True, problems=problems)
        edit = declare(parsed, data, path.name, overwrite=overwrite, skip_dangling=skip_dangling)
    except DefinitionsRefused as error:
        if as_json:
            raise print_refusal(error) from None
        raise
    report = edit.result.as_data() | {"version": edit.version, "ignored": ignored}
    if as_json:
        typer.echo(json.dumps(report, ensure_ascii=False))
        return
    show_counts(report)
    for entry in report["skipped"]:
        typer.echo(f"skipped:   {visible(json.dumps(entry, ensure_ascii=False))}")
    show_ignored(ignored)
    show_idle(report["without_effect"])
    typer.echo(f"topology version {edit.version}")
