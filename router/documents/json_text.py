"""JSON with the places of its parts; keys that stand twice are told."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from bindery.router.documents.places import Fault, Places, Unreadable, member, repeated

_PART: Final = re.compile(r'[{}\[\]]|"[^"\\]*(?:\\.[^"\\]*)*"|[^\s{}\[\],:"]+')


def read_json(text: str) -> tuple[Any, bool]:
    """The value, and whether some object has a key twice; raises Unreadable."""
    twice = False

    def unite(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal twice
        united = dict(pairs)
        twice |= len(united) != len(pairs)
        return united

    try:
        return json.loads(text, object_pairs_hook=unite, parse_constant=_no_number), twice
    except json.JSONDecodeError as error:
        raise Unreadable(Fault(error.pos, f"not JSON: {error.msg}")) from None
    except RecursionError:
        raise Unreadable(Fault(0, "not JSON that can be read: nested too deep")) from None
    except ValueError as error:
        raise Unreadable(Fault(0, f"not JSON: {error}")) from None


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


@dataclass(slots=True)
class _Open:
    """An object or array that is being read; `key` is the one whose value comes next."""

    path: str
    start: int
    keys: set[str] | None
    key: str | None = None
    length: int = 0


def places_of_json(text: str) -> tuple[Places, list[Fault]]:
    """The places of a text that `read_json` has read, and every key that stands twice."""
    places, faults = Places(), []
    stack: list[_Open] = []
    for match in _PART.finditer(text):
        part, start, end = match[0], match.start(), match.end()
        if part in "}]":
            closed = stack.pop()
            places.values[closed.path] = (closed.start, end)
            continue
        top = stack[-1] if stack else None
        if top is None:
            path = ""
        elif top.keys is None:
            path, top.length = f"{top.path}[{top.length}]", top.length + 1
        elif top.key is None:
            top.key = json.loads(part)
            if top.key in top.keys:
                faults.append(Fault(start, repeated(top.key)))
            top.keys.add(top.key)
            places.keys[member(top.path, top.key)] = start
            continue
        else:
            path, top.key = member(top.path, top.key), None
        places.values[path] = (start, end)
        if part in "{[":
            stack.append(_Open(path, start, set() if part == "{" else None))
    return places, faults
