"""Events that fit patterns of EventBridge, for the examples of a report."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from bindery.router.filters import Limits, evaluate, parse
from bindery.router.filters.limits import Payload
from bindery.router.message import Message

#: A pattern of any size, of bodies that are JSON.
BODIES: Final = Limits(characters=2**31, tokens=2**31, payload=Payload("json"))


def plain_numbers(pattern: Any) -> Iterator[int | float]:
    """The numbers that stand in lists of values, outside of operators."""
    if isinstance(pattern, Mapping):
        for name, inner in pattern.items():
            for one in inner if isinstance(inner, list) else [inner]:
                if isinstance(one, int | float) and not isinstance(one, bool):
                    yield one
                elif isinstance(one, Mapping) and (name == "$or" or one is inner):
                    yield from plain_numbers(one)


def without_dots(event: Any) -> Any:
    """An event whose names with dots are names in objects."""
    if not isinstance(event, Mapping):
        return event
    found: dict[str, Any] = {}
    for name, value in event.items():
        first, dot, others = name.partition(".")
        inner = without_dots({others: value} if dot else value)
        held = found.get(first)
        found[first] = {**held, **inner} if isinstance(held, dict) and isinstance(inner, dict) else inner
    return found


def event_of(*patterns: str) -> Any:
    """An event that fits all of some patterns: made of their first values; None where that does not do."""
    event: dict[str, Any] = {}
    for pattern in patterns:
        _fill(event, json.loads(pattern))
    message = Message.from_json({"body": json.dumps(event)})
    fits = all(evaluate(parse(pattern, "eventbridge", limits=BODIES), message) for pattern in patterns)
    return event if fits else None


def _fill(event: dict[str, Any], pattern: Mapping[str, Any]) -> None:
    for name, inner in pattern.items():
        if name == "$or":
            _fill(event, inner[0])
        elif isinstance(inner, Mapping):
            inside = event.setdefault(name, {})
            if isinstance(inside, dict):
                _fill(inside, inner)
        elif name not in event and {"exists": False} not in inner:
            event[name] = _value(inner[0])


def _value(entry: Any) -> Any:
    """A value that fits an entry of a pattern, in the usual cases."""
    if not isinstance(entry, Mapping):
        return entry
    ((operator, asked),) = entry.items()
    if isinstance(asked, Mapping):
        (asked,) = asked.values()
        return "…" if operator == "anything-but" else asked
    match operator:
        case "numeric":
            op, number = asked[0], asked[1]
            step = {">": 1, "<": -1}.get(op, 0)
            return (number + asked[3]) / 2 if len(asked) == 4 else number + step
        case "cidr":
            return asked.partition("/")[0]
        case "wildcard":
            return asked.replace("\\", "").replace("*", "")
        case "anything-but":
            values = asked if isinstance(asked, list) else [asked]
            return "…" if isinstance(values[0], str) else max(values) + 1
        case "exists":
            return True
    return asked
