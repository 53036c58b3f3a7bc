"""Tables and numbers for people, and for the programs that their output is piped to."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from bindery.router.error_text import visible

#: Columns of output that is no terminal: whoever reads it wraps it, or searches it line by line.
_UNWRAPPED = 4096
#: Characters of a record's text that people see.
_RECORD = 300


def console(*, stderr: bool = False) -> Console:
    """The console of standard output or error: lines are folded on a terminal and kept whole elsewhere."""
    if (sys.stderr if stderr else sys.stdout).isatty():
        return Console(highlight=False, stderr=stderr)
    # without a height the width may not count
    return Console(highlight=False, stderr=stderr, width=_UNWRAPPED, height=_UNWRAPPED)


def refused_tree(title: str, row: Mapping[str, Any]) -> Tree:
    """A row of the unroutable table (store.recorded.unroutable_row), for people."""
    tree = Tree(Text(visible(f"{title}: {row['reason']}"), "bold red"))
    for line in _lines(row):
        tree.add(Text(visible(line)))
    return tree


def _lines(row: Mapping[str, Any]) -> Iterator[str]:
    yield f"on record as {row['row']}: {row['disposition']}, routed at {row['routed_at']}"
    if row["detail"]:
        yield row["detail"]
    if row["exchange"] is not None or row["routing_key"] is not None:
        yield f"exchange {row['exchange'] or '(default)'}, key {row['routing_key'] or ''!r}"
    if row["raw"] is not None:
        yield f"record: {row['raw'] if len(row['raw']) <= _RECORD else row['raw'][: _RECORD - 1] + '…'}"
    if row["source"]:
        yield f"source: {place_of(row['source'])}"
    if row["fix"] is not None:
        yield f"fix: {row['fix']}"


def place_of(source: Mapping[str, object]) -> str:
    """Where a record came from, for people: an address says by itself that it is one."""
    return ", ".join(str(value) if name == "file" else f"{name} {value}" for name, value in source.items())


def show_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    out: Console | None = None,
    style: Callable[[str, object], str] = lambda _column, _cell: "",
) -> None:
    """A table on a terminal; elsewhere tab-separated values below a line with the columns' names.

    Numbers stand to the right, with separators for people only. Control characters are replaced in both. `style` is
    rich's of a cell, for the terminal.
    """
    out = out or console()
    if not out.is_terminal:
        for row in (columns, *rows):
            sys.stdout.write("\t".join("" if cell is None else visible(str(cell)) for cell in row) + "\n")
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    listed = list(rows)
    for number, name in enumerate(columns):
        right = any(isinstance(row[number], int | float) for row in listed)
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for row in listed:
        table.add_row(*(Text(_shown(cell), style(name, cell)) for name, cell in zip(columns, row, strict=True)))
    out.print(table)


def _shown(cell: object) -> str:
    if isinstance(cell, int | float):
        return f"{cell:,}"
    return "" if cell is None else visible(str(cell))
