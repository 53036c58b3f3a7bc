"""`bindery route`: run a streaming job."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from bindery.cli.options import DATA, DataOption, JsonOption
from bindery.cli.render import console, place_of
from bindery.router.error_text import visible

#: Characters of a part of a message that a preview shows.
_SHOWN = 200


def route(
    config: Annotated[Path, typer.Option(help="The job file (YAML): what to read and how it becomes messages.")],
    data: DataOption = DATA,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="End when what is there now has been routed.")
    ] = False,
    new_epoch: Annotated[
        bool,
        typer.Option("--new-epoch", help="Go on with another checkpoint than the last one: records may repeat."),
    ] = False,
    repin: Annotated[
        bool,
        typer.Option(
            "--repin",
            help="Route a batch that was begun and can no longer be routed as it was pinned with the newest topology, "
            "provided that nothing of it was committed.",
        ),
    ] = False,
    fail_on_unroutable: Annotated[
        bool,
        typer.Option("--fail-on-unroutable", help="Exit with 1 when this run had a record that reached no queue."),
    ] = False,
    preview: Annotated[
        int,
        typer.Option(
            "--preview",
            min=0,
            max=1000,
            help="Print the first N records as messages and where they would go; write nothing.",
        ),
    ] = 0,
    as_json: JsonOption = False,
    master: Annotated[str, typer.Option(help="The Spark master of a session without spark-submit.")] = "local[*]",
    log: Annotated[
        Path | None, typer.Option(help="Where Spark's own log goes; a file in the temporary folder by default.")
    ] = None,
) -> None:
    """Run a streaming job: route the records of a source into queue tables.

    Runs until it is interrupted (it ends after the batch that is running), or with --available-now until
    the source is exhausted. Starting it again goes on where it was; nothing is routed twice. At the end a line on
    standard error says what was routed, and what most often kept records from a queue; --json prints it as data.

    With --preview it runs nothing: it prints what the job would make of the first records.

    Exits with 2 for a bad job file (nothing was written) and 3 when another driver owns the stream, its
    checkpoint is not the one on record, or a batch cannot be routed as it was pinned.

    Example: bindery route --config job.yaml --data ./data --available-now
    """
    # Imported here so that other commands do not wait for Spark.
    with Console(stderr=True).status("starting Spark …"):
        from bindery.cli.local import preview_local, run_local  # noqa: PLC0415
        from bindery.jobs.control.config import load_job  # noqa: PLC0415
        from bindery.jobs.control.logs import format_of_environment, set_up  # noqa: PLC0415
        from bindery.store.paths import DataDir  # noqa: PLC0415

    set_up(format_of_environment())
    if preview:
        for record in preview_local(load_job(config), DataDir.open(data), preview, master=master, log=log):
            if as_json:
                typer.echo(json.dumps(record, ensure_ascii=False))
            else:
                console().print(_previewed(record))
        return
    done = run_local(
        load_job(config),
        DataDir.open(data),
        available_now=available_now,
        new_epoch=new_epoch,
        repin=repin,
        master=master,
        log=log,
    )
    if as_json:
        typer.echo(json.dumps(done.as_data(), ensure_ascii=False))
    if fail_on_unroutable and done.lost:
        raise typer.Exit(1)


def _previewed(record: dict[str, Any]) -> Tree:
    """A record of a preview, for people."""
    place = place_of(record["source"])
    tree = Tree(Text(visible(f"record {record['number']}" + (f" ({place})" if place else "")), "bold"))
    for line in _lines(record):
        tree.add(Text(visible(line)))
    if "refused" in record:
        why = record["refused"]
        tree.add(Text(visible(f"no message: {why['reason']}, {why['detail']}"), "bold red"))
    elif record["unroutable"] is None:
        tree.add(Text(visible("queues: " + ", ".join(record["queues"])), "bold green"))
    else:
        lost = record["unroutable"]
        tree.add(Text(visible(f"unroutable: {lost['reason']}, {lost['disposition']} ({lost['detail']})"), "bold red"))
    return tree


def _lines(record: dict[str, Any]) -> Iterator[str]:
    """The parts of a message, or the text of a record that is none, shortened."""
    if "refused" in record:
        parts = {"record": record["refused"]["raw"], "fix": record["refused"]["fix"]}
        yield from (f"{name}: {_short(text)}" for name, text in parts.items() if text is not None)
        return
    message = record["message"]
    yield f"exchange {message['exchange'] or '(default)'}, key {message['routing_key']!r}"
    for name, part in message.items():
        if name == "body":
            yield f"body: {_short(bytes.fromhex(part['binary']).decode('utf-8', 'replace'))}"
        elif name not in ("exchange", "routing_key"):
            yield f"{name}: {_short(json.dumps(part, ensure_ascii=False))}"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
