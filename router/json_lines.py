"""The line of a JSON text on which a path such as `bindings[3].source` stands."""

from __future__ import annotations

import json
import re
from typing import Final

_STEP: Final = re.compile(r"\[(\d+)\]|\.?([^.\[\]]+)")
_BLANK: Final = re.compile(r"[ \t\n\r]*")
_decode = json.JSONDecoder().raw_decode


def line_of(text: str, path: str) -> int | None:
    """The line, from 1, where the value at `path` starts; of the innermost part that exists.

    None when the text is no JSON or the path leads nowhere from the start.
    """
    found = start = _skip(text, 0)
    for index, key in _STEP.findall(path):
        position = _element(text, found, int(index)) if index else _member(text, found, key)
        if position is None:
            break
        found = position
    return None if found == start else text.count("\n", 0, found) + 1


def _skip(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    return position if match is None else match.end()


def _after(text: str, position: int) -> int:
    """Behind the value at a position."""
    return _skip(text, _decode(text, position)[1])


def _member(text: str, position: int, wanted: str) -> int | None:
    """Where the value of a key starts in the object at a position."""
    if text[position : position + 1] != "{":
        return None
    try:
        position = _skip(text, position + 1)
        while text[position] == '"':
            key, position = _decode(text, position)
            position = _skip(text, _skip(text, position) + 1)
            if key == wanted:
                return position
            position = _after(text, position)
            if text[position] != ",":
                return None
            position = _skip(text, position + 1)
    except (ValueError, IndexError):
        return None
    return None


def _element(text: str, position: int, wanted: int) -> int | None:
    """Where an element starts in the array at a position."""
    if text[position : position + 1] != "[":
        return None
    try:
        position = _skip(text, position + 1)
        for _ in range(wanted):
            position = _after(text, position)
            if text[position] != ",":
                return None
            position = _skip(text, position + 1)
    except (ValueError, IndexError):
        return None
    return None if text[position] == "]" else position
