"""Documents that commands take: files and standard input, definitions or changes, JSON or YAML."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bindery.router.error_text import counted, visible
from bindery.router.errors import DefinitionsRefused, InvalidInput

if TYPE_CHECKING:
    from bindery.router.documents import Source
    from bindery.router.proposal import Change

#: The name that stands for standard input, and what errors call it.
STDIN, _SAID = Path("-"), "<stdin>"


def read_documents(paths: Sequence[Path]) -> list[Source]:
    """Read documents, and the files of schemas that they name.

    Raises DefinitionsRefused with everything that is wrong with the text of any of them.
    """
    from bindery.cli.schema_files import read_schema_files  # noqa: PLC0415
    from bindery.router.documents import read_source, refusal  # noqa: PLC0415  # `bindery --help` does not wait for YAML

    if list(paths).count(STDIN) > 1:
        raise InvalidInput("standard input can be read once", where="-")
    found: list[Source] = []
    problems: list[dict[str, Any]] = []
    for path in paths:
        try:
            source = read_source(_SAID if path == STDIN else str(path), content_of(path))
            problems += read_schema_files(source, None if path == STDIN else path.parent)
            found.append(source)
        except DefinitionsRefused as error:
            problems += error.problems
    if problems:
        raise refusal(problems)
    return found


def read_change(paths: Sequence[Path], vhost: str, *, prune: bool = False, replace: bool = False) -> Change:
    """The change that documents ask for; what is wrong beyond the text is told when it is carried out."""
    from bindery.router import proposal  # noqa: PLC0415  # `bindery --help` does not wait for YAML

    return proposal.read_change(read_documents(paths), vhost, prune=prune, replace=replace)


def show_ignored(ignored: Sequence[dict[str, Any]], *, err: bool = False) -> None:
    """Say which parts of documents have no effect, and why: parts with one reason on one line."""
    by_reason: dict[str, list[str]] = {}
    for one in ignored:
        by_reason.setdefault(one["reason"], []).append(one["path"])
    for reason, paths in by_reason.items():
        more = f" and {len(paths) - 5:,} more" if len(paths) > 5 else ""
        typer.echo(f"ignored:   {visible(', '.join(paths[:5]))}{more} ({visible(reason)})", err=err)


def show_idle(without_effect: Sequence[dict[str, Any]]) -> None:
    """Say which arguments and keys of policies are kept and have no effect."""
    idle = Counter((name, entry["kind"]) for entry in without_effect for name in entry["names"])
    for (name, kind), number in sorted(idle.items()):
        typer.echo(f"no effect: {visible(name)} ({numbered(number, kind)})")


def numbered(number: int, kind: str) -> str:
    """A number of objects of a kind: 2 policies."""
    return counted(number, visible(kind), kind.replace("policy", "policies") if kind.endswith("policy") else None)


def print_refusal(error: DefinitionsRefused) -> typer.Exit:
    """The report of a refused document as JSON, and the exit that follows."""
    typer.echo(json.dumps(error.report, ensure_ascii=False))
    return typer.Exit(error.exit_code)


def content_of(path: Path) -> bytes:
    """The bytes of a file or of standard input, at most one more than a document may have."""
    from bindery.router.documents import MAX_BYTES  # noqa: PLC0415

    try:
        if path == STDIN:
            return sys.stdin.buffer.read(MAX_BYTES + 1)
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"cannot read it: {error.strerror}", where=str(path)) from None
