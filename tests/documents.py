"""Pages of the documentation as sessions: their files are written, their commands run in order."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from typer.testing import CliRunner

from bindery.cli.main import app

#: One that shows neither styles nor progress.
_TERMINAL = {"TTY_COMPATIBLE": "1", "TERM": "dumb"}
_FENCE = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@contextmanager
def working_folder(folder: Path) -> Iterator[Path]:
    """The pages name relative paths."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield folder
    finally:
        os.chdir(before)


def bindery(command: str) -> str:
    """What a `bindery` command prints on a plain terminal, without blanks at line ends."""
    program, *arguments = shlex.split(command)
    assert program == "bindery"
    done = CliRunner(env=_TERMINAL).invoke(app, arguments, catch_exceptions=False)
    return "\n".join(line.rstrip() for line in done.output.splitlines())


def session(document: str, *, after_file: Callable[[str], None] | None = None) -> Iterator[tuple[str, str, str]]:
    """Write the page's files, run its `bindery` commands; gives (command, shown, printed) in order."""
    for kind, name, text in _FENCE.findall(document):
        if name:
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_text(text, "utf-8")
            if after_file is not None:
                after_file(name)
        if kind == "console":
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                command, _, shown = part.partition("\n")
                if command.startswith("bindery "):
                    yield command, shown.strip("\n"), bindery(command).strip("\n")


def python_blocks(document: str) -> list[str]:
    """The page's Python examples."""
    return [text for kind, _, text in _FENCE.findall(document) if kind == "python"]
