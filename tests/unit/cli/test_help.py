"""Help of every command: each is reached, and each text is sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from bindery.cli import main as cli
from tests.unit.cli.conftest import Run

#: Groups and single commands of the tree, as operators type them.
GROUPS = {"canary", "jobs", "messages", "schemas", "filter", "topology"}
ROOT = typer.main.get_command(cli.app)


def tree(command: Any = ROOT, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command and group below the root, with the words that name it."""
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from tree(inner, (*path, name))


COMMANDS = dict(tree())


def ends(text: str) -> bool:
    return text.rstrip().endswith((".", "…", ".)"))


def test_the_tree_has_its_groups() -> None:
    assert {path[0] for path in COMMANDS if len(path) > 1} == GROUPS
    assert len(COMMANDS) > 40


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_is_shown_and_each_of_its_texts_ends_its_sentence(run: Run, path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    code, out, err = run(*path, "--help")
    assert (code, err) == (0, "")
    assert "Usage:" in out
    # what comes after an example's first word is a command line, not a sentence
    said, _, example = (command.help or "").partition("Example")
    assert said.strip(), "no help"
    assert ends(said), said
    assert not example or "bindery " in example
    first = said.strip().partition("\n\n")[0]
    assert ends(first), f"the summary in the list of commands: {first}"
    for parameter in command.params:
        text = getattr(parameter, "help", None)
        if parameter.name not in ("help", "install_completion", "show_completion"):
            assert text, f"{parameter.name} has no help"
            assert ends(text), f"{parameter.name}: {text}"
