"""The page of the command line, made from the parser that reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import typer

from bindery.cli.main import app

_HEAD: Final = """# Command line

Every command with its arguments and options, as the program states them. `bindery COMMAND --help` shows the same.

Exit codes are 0 done, 1 a check failed, 2 bad input or usage, 3 fenced or refused for safety. The data directory is
`--data`, else `BINDERY_DATA`, else `data` in the working directory
([at the command line](../operations.md#at-the-command-line)).

"""


def page() -> str:
    """The page, in Markdown: a section for each command, groups first said what they are for."""
    root: Any = typer.main.get_command(app)
    context = root.make_context("bindery", [], resilient_parsing=True)
    return _HEAD + "\n".join(_commands(root, context, "bindery"))


def _commands(group: Any, context: Any, name: str) -> Iterator[str]:
    for word in group.list_commands(context):
        command = group.get_command(context, word)
        if command.hidden:
            continue
        path = f"{name} {word}"
        inside = command.make_context(word, [], parent=context, resilient_parsing=True)
        yield f"## {path}\n\n{_text(command.help)}\n"
        if hasattr(command, "commands"):
            yield from _commands(command, inside, path)
        else:
            yield from _parameters(command, inside, path)


def _parameters(command: Any, context: Any, path: str) -> Iterator[str]:
    yield f"`{path} {' '.join(command.collect_usage_pieces(context))}`\n"
    records = [one.get_help_record(context) for one in command.get_params(context)]
    rows = [_row(names, said) for names, said in filter(None, records) if "--help" not in names]
    if rows:
        yield "| argument or option | what it says | |\n|---|---|---|"
        yield "\n".join(rows) + "\n"


def _row(names: str, said: str) -> str:
    """A parameter as help shows it: its text, and behind two blanks in brackets where its value comes from."""
    text, _, source = said.partition("  [")
    spellings = ", ".join(f"`{one}`" for one in re.split(", | / ", names))
    source = re.sub(r"env var: (\w+)", r"`\1`", source.removesuffix("]"))
    source = re.sub(r"default: ([^;]+)", r"default `\1`", source)
    return f"| {_cell(spellings)} | {_cell(_text(text))} | {_cell(source)} |"


def _text(said: str | None) -> str:
    """Words of help as Markdown: examples as code, the rest literally but for code."""
    text = re.sub(r"^Example: (.+)$", r"Example: `\1`", (said or "").strip(), flags=re.MULTILINE)
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(one if one.startswith("`") else re.sub(r"([*<_\[])", r"\\\1", one) for one in parts)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")
