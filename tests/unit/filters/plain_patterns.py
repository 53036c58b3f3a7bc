"""Event patterns read a second time, the way aws/event-ruler describes them: slow, obvious, nothing of the product's.

An event is flattened into fields: a path of names, a value, and for each list on the way which element it stands in. A
pattern is expanded into rules: every way to take one alternative of each `$or` and one entry of each list. A rule fits
when fields can be chosen for its entries that stand in the same element of every list that they share; `exists: false`
when no field of its path stands in the elements that were chosen.
"""

from __future__ import annotations

import ipaddress
import itertools
import json
import operator
from collections.abc import Iterator
from typing import Any

#: For each list, by where it stands, one of its elements.
Elements = dict[tuple[Any, ...], int]
Field = tuple[tuple[str, ...], Any, Elements]
Rule = list[tuple[tuple[str, ...], Any]]
_ORDER = {"=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def fits(pattern: str, event: Any, *, strict: bool = True, empty: bool = True) -> bool:
    """Whether an event fits a legal pattern; `strict`: numbers as written, `empty`: null and "" exist."""
    if not isinstance(event, dict):
        event = {}
    fields = list(_fields(event, (), {}, ()))
    return any(_fits(rule, fields, strict, empty) for rule in _rules(json.loads(pattern), ()))


def _fields(
    value: Any, path: tuple[str, ...], where: dict[tuple[Any, ...], int], at: tuple[Any, ...]
) -> Iterator[Field]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _fields(inner, (*path, name), where, (*at, name))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _fields(inner, path, {**where, at: place}, (*at, place))
    elif path:
        yield path, value, where


def _rules(pattern: dict[str, Any], path: tuple[str, ...]) -> list[Rule]:
    parts: list[list[Rule]] = []
    for name, inner in pattern.items():
        if name == "$or":
            parts.append([rule for one in inner for rule in _rules(one, path)])
        elif isinstance(inner, dict):
            parts.append(_rules(inner, (*path, name)))
        else:
            parts.append([[((*path, name), entry)] for entry in inner])
    return [list(itertools.chain.from_iterable(chosen)) for chosen in itertools.product(*parts)]


def _fits(rule: Rule, fields: list[Field], strict: bool, empty: bool) -> bool:
    absent = [path for path, entry in rule if entry == {"exists": False}]
    asked = [
        [field for field in fields if field[0] == path and _meets(entry, field[1], strict, empty)]
        for path, entry in rule
        if entry != {"exists": False}
    ]
    for chosen in itertools.product(*asked):
        where: Elements = {}
        if not all(_joins(where, field[2]) for field in chosen):
            continue
        there = [path for path, value, at in fields if _agree(where, at) and (empty or value not in (None, ""))]
        if not any(path in there for path in absent):
            return True
    return False


def _agree(left: Elements, right: Elements) -> bool:
    return all(right.get(at, place) == place for at, place in left.items())


def _joins(where: Elements, more: Elements) -> bool:
    agreed = _agree(where, more)
    where.update(more)
    return agreed


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _meets(entry: Any, value: Any, strict: bool, empty: bool) -> bool:
    if not isinstance(entry, dict):
        same = type(entry) is type(value) or (not strict and _is_number(entry) and _is_number(value))
        return same and entry == value
    ((name, asked),) = entry.items()
    if name == "exists":
        return empty or value not in (None, "")
    if name == "anything-but":
        if isinstance(asked, dict):
            ((name, asked),) = asked.items()
            return not any(_meets({name: one}, value, strict, empty) for one in _listed(asked))
        return not any(_meets(one, value, False, empty) for one in _listed(asked))
    if name == "numeric":
        return _is_number(value) and all(_ORDER[op](value, n) for op, n in zip(asked[::2], asked[1::2], strict=True))
    if not isinstance(value, str):
        return False
    if isinstance(asked, dict):
        asked, value = asked["equals-ignore-case"].lower(), value.lower()
    if name == "cidr":
        try:
            return ipaddress.ip_address(value) in ipaddress.ip_network(asked, strict=False)
        except ValueError:
            return False
    return {
        "prefix": lambda: value.startswith(asked),
        "suffix": lambda: value.endswith(asked),
        "equals-ignore-case": lambda: value.lower() == asked.lower(),
        "wildcard": lambda: _wild(_parts(asked), value),
    }[name]()


def _listed(asked: Any) -> list[Any]:
    return asked if isinstance(asked, list) else [asked]


def _parts(text: str) -> list[str | None]:
    """Characters, None for any text."""
    found: list[str | None] = []
    characters = iter(text)
    for char in characters:
        found.append(next(characters) if char == "\\" else None if char == "*" else char)
    return found


def _wild(parts: list[str | None], text: str) -> bool:
    if not parts:
        return not text
    if parts[0] is None:
        return any(_wild(parts[1:], text[at:]) for at in range(len(text) + 1))
    return text[:1] == parts[0] and _wild(parts[1:], text[1:])
