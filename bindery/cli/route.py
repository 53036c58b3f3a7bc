"""`bindery route`: run a streaming job."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def route(
    config: Annotated[Path, typer.Option(help="The job file (YAML): what to read and how it becomes messages.")],
    data: Annotated[str, typer.Option(help="The data directory with the topology and the queue tables.")],
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
    master: Annotated[str, typer.Option(help="The Spark master of a session without spark-submit.")] = "local[*]",
    log: Annotated[
        Path | None, typer.Option(help="Where Spark's own log goes; a file in the temporary folder by default.")
    ] = None,
) -> None:
    """Run a streaming job: route the records of a source into queue tables.

    Runs until it is interrupted (it ends after the batch that is running), or with --available-now until
    the source is exhausted. Starting it again goes on where it was; nothing is routed twice.

    Exits with 2 for a bad job file (nothing was written) and 3 when another driver owns the stream, its
    checkpoint is not the one on record, or a batch cannot be routed as it was pinned.

    Example: bindery route --config job.yaml --data ./data --available-now
    """
    # Imported here so that other commands do not wait for Spark.
    from bindery.cli.local import run_local  # noqa: PLC0415
    from bindery.jobs.control.config import load_job  # noqa: PLC0415
    from bindery.store.paths import DataDir  # noqa: PLC0415

    done = run_local(
        load_job(config),
        DataDir.open(data),
        available_now=available_now,
        new_epoch=new_epoch,
        repin=repin,
        master=master,
        log=log,
    )
    if done.console.is_terminal:
        done.console.print(done.summary)
