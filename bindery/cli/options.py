"""Options that several commands have, declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from bindery.router.filters.payload import FORMATS

#: The data directory when neither --data nor the environment names one.
DATA: Final = "data"
#: Names the data directory of every command, of the service too (`bindery.api.settings`).
DATA_VARIABLE: Final = "BINDERY_DATA"


def found(named: str) -> str:
    """The working directory for `data` where that is not there and the working directory is a data directory."""
    if named == DATA and not Path(DATA).exists() and Path("topology/_delta_log").is_dir():
        return "."
    return named


_DATA_HELP: Final = "The data directory: a folder, or a URL of an object store."
DataOption = Annotated[str, typer.Option("--data", envvar=DATA_VARIABLE, callback=found, help=_DATA_HELP)]
FilterOption = Annotated[str | None, typer.Option("--filter", help="Only messages that pass this filter.")]
PayloadOption = Annotated[
    str | None,
    typer.Option("--payload", help="What bodies are, for a filter that looks into them: " + ", ".join(FORMATS) + "."),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Count what would happen; write nothing.")]
VhostOption = Annotated[str, typer.Option("--vhost", help="The vhost.")]
LiveOption = Annotated[
    bool,
    typer.Option("--live/--no-live", help="Also what waits for deferred queues in journals, or their tables alone."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
