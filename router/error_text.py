"""Errors and numbers as text for people; no control characters from the input."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any, Final

from bindery.router.errors import BinderyError, DefinitionsRefused, FilterError

#: Characters of a line that are shown around the place of an error.
_WIDTH: Final = 100
_WIDE: Final = ("W", "F")


def render_error(error: BinderyError) -> str:
    """An error with its place: for a filter, the line and a caret under the offending text; of files every error."""
    if isinstance(error, DefinitionsRefused):
        problems = error.problems
        if problems and all("file" in one for one in problems):
            lines = [line for problem in problems for line in _of_file(problem)]
            number = "1 error" if len(problems) == 1 else f"{len(problems):,} errors"
            hint = [] if error.report["errors"] else [f"hint: {error.hint}"]
            return "\n".join([*lines, f"error: {number}; nothing was changed", *hint])
    # a message that names the path itself says where already
    said = error.where is None or ("/" in error.where and error.where in error.message)
    lines = [f"error: {error.message}" if said else f"error: {error.where}: {error.message}"]
    if isinstance(error, FilterError) and error.text:
        lines[0] += f" (line {error.line}, column {error.column})"
        lines += _pointed(error)
    if isinstance(error, FilterError) and error.expected:
        lines.append("expected: " + ", ".join(error.expected))
    if error.hint is not None:
        lines.append(f"hint: {error.hint}")
    return "\n".join(lines)


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun: 1 row, 2 rows."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _of_file(problem: Mapping[str, Any]) -> Iterator[str]:
    """`file:line:column: message`, the filter with a caret, what could have stood there, and what to do."""
    yield visible(f"{problem['file']}:{problem['line']}:{problem['column']}: {problem['message']}")
    if "filter" in problem:
        yield from _pointed(FilterError("", text=problem["filter"], offset=problem["offset"], length=problem["length"]))
    if problem.get("expected"):
        yield "  expected: " + ", ".join(problem["expected"])
    if problem.get("hint"):
        yield visible(f"  hint: {problem['hint']}")


def _pointed(error: FilterError) -> list[str]:
    start = error.offset - (error.column - 1)
    end = error.text.find("\n", start)
    line = error.text[start : end if end >= 0 else None]
    first = max(0, min(error.column - 1 - _WIDTH // 2, len(line) - _WIDTH))
    shown = line[first : first + _WIDTH]
    before = "… " if first else ""
    after = " …" if first + _WIDTH < len(line) else ""
    caret = error.column - 1 - first
    marked = max(1, min(error.length, len(shown) - caret))
    padding = _cells(before + shown[:caret])
    return [f"  {before}{visible(shown)}{after}", "  " + " " * padding + "^" * max(1, _cells(shown[caret:][:marked]))]


def _cells(text: str) -> int:
    """Columns that a text takes on a terminal: wide characters two, combining marks none."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in _WIDE else 1 for char in text
    )


def visible(text: str) -> str:
    """The text with every control and format character replaced, one for one."""
    return "".join("\ufffd" if unicodedata.category(char) in ("Cc", "Cf", "Cs") else char for char in text)
