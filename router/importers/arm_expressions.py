"""Expressions of templates of Azure Resource Manager: what they are worth where that needs no account.

Source: "Syntax and expressions in ARM templates", "ARM template functions". A text that begins with `[` and ends with
`]` is an expression; `[[` stands for a bracket. What nobody but Azure knows (a parameter without a default, a
resource group, a generated name) is a hole in a text, or, beside others than texts, no value at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

#: Bounds: characters of an expression (Azure's own limit) and of a text, levels of calls and references, items of a
#: list, parts of a text with holes.
_MAX_EXPRESSION: Final = 24_576
_MAX_TEXT: Final = 100_000
_MAX_DEPTH: Final = 60
_MAX_ITEMS: Final = 10_000
_MAX_PARTS: Final = 1_000
_TOKEN: Final = re.compile(r"\s*(?:('(?:[^']|'')*')|(-?[0-9]+)|([A-Za-z_][\w]*)|([][().,]))")
#: Of a pattern of `format`: text, the number of an argument, what is neither.
_FORMAT: Final = re.compile(r"((?:[^{}]|\{\{|\}\})+)|\{([0-9]{1,3})\}|([{}])")


@dataclass(frozen=True, slots=True)
class Hole:
    """What nobody knows: the expression that would say it."""

    expression: str

    def __str__(self) -> str:
        return f"[{self.expression}]"


@dataclass(frozen=True, slots=True)
class Text:
    """A text with holes in it."""

    parts: tuple[str | Hole, ...]

    def __str__(self) -> str:
        return "".join(map(str, self.parts))

    @property
    def hole(self) -> Hole:
        """The first thing that is missing."""
        return next(part for part in self.parts if isinstance(part, Hole))


class _Unreadable(Exception):
    """An expression that is none, or beyond the bounds."""


def is_known(value: Any) -> bool:
    """Whether a value is known as a whole."""
    return hole_of(value) is None


def hole_of(value: Any) -> Hole | None:
    """The first thing in a value that nobody knows; a value beyond the bounds is not known."""
    waiting, looked_at = [value], 0
    while waiting:  # variables may stand in each other many times over
        looked_at += 1
        if looked_at > _MAX_TEXT:
            return Hole("…")
        match waiting.pop():
            case Hole() as hole:
                return hole
            case Text() as text:
                return text.hole
            case Mapping() as inside:
                waiting += inside.values()
            case list() as items:
                waiting += items
    return None


def segments(value: Any) -> list[str | Text | Hole]:
    """A name in its parts, which slashes divide."""
    parts = value.parts if isinstance(value, Text) else (value,)
    found: list[list[str | Hole]] = [[]]
    for part in parts:
        if isinstance(part, Hole):
            found[-1].append(part)
            continue
        first, *rest = str(part).split("/")
        found[-1].append(first)
        found += [[one] for one in rest]
    return [_joined(one) for one in found]


def _joined(parts: Sequence[str | Hole]) -> str | Text | Hole:
    """Texts and holes as one text; a hole alone is itself."""
    flat: list[str | Hole] = []
    for part in parts:
        if isinstance(part, str) and flat and isinstance(flat[-1], str):
            flat[-1] += part
        elif part != "":
            flat.append(part)
    if len(flat) > _MAX_PARTS or sum(len(part) for part in flat if isinstance(part, str)) > _MAX_TEXT:
        raise _Unreadable
    if not flat:
        return ""
    return flat[0] if len(flat) == 1 else Text(tuple(flat))


@dataclass(slots=True)
class Scope:
    """What expressions of a template refer to: parameters that are given, or else defaults; variables."""

    parameters: Mapping[str, Any]
    variables: Mapping[str, Any]
    given: Mapping[str, Any] = field(default_factory=dict)
    #: Where in loops an expression stands: the index of each, the innermost one as "".
    loops: Mapping[str, int] = field(default_factory=dict)
    _known: dict[tuple[str, str], Any] = field(default_factory=dict)
    _asked: list[tuple[str, str]] = field(default_factory=list)

    def within(self, loops: Mapping[str, int]) -> Scope:
        """The same in an iteration of a loop."""
        return Scope(self.parameters, self.variables, self.given, {**self.loops, **loops})

    def value(self, raw: Any) -> Any:
        """A value of the template with its expressions worked out as far as they can be."""
        return self._value(raw, 0)

    def _value(self, raw: Any, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            return Hole("…")
        if isinstance(raw, Mapping):
            return {key: self._value(inner, depth + 1) for key, inner in raw.items()}
        if isinstance(raw, list):
            return [self._value(inner, depth + 1) for inner in raw]
        if not isinstance(raw, str) or not raw.startswith("[") or not raw.endswith("]"):
            return raw
        if raw.startswith("[["):
            return raw[1:]
        try:
            return _Reading(raw[1:-1], self, depth).all()
        except (_Unreadable, RecursionError):
            return Hole(_shortened(raw[1:-1]))

    def referred(self, kind: str, name: str, depth: int) -> Any:
        """A parameter or variable, whose name has no case; a hole where it refers to itself or nobody states it."""
        key = (kind, name.lower())
        if key not in self._known:
            if key in self._asked:
                raise _Unreadable
            self._asked.append(key)
            try:
                self._known[key] = self._stated(kind, name, depth)
            finally:
                self._asked.pop()
        return self._known[key]

    def _stated(self, kind: str, name: str, depth: int) -> Any:
        hole = Hole(f"{kind}('{name}')")
        if kind == "variables":
            return self._value(_in_any_case(self.variables, name, hole), depth + 1)
        given = _in_any_case(self.given, name, hole)
        if given is not hole:
            return given
        declared = _in_any_case(self.parameters, name, {})
        stated = declared.get("defaultValue", hole) if isinstance(declared, Mapping) else hole
        return self._value(stated, depth + 1)


def _shortened(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:99]}…"


def _in_any_case(members: Mapping[str, Any], name: str, default: Any) -> Any:
    if name in members:
        return members[name]
    return next((value for key, value in members.items() if key.lower() == name.lower()), default)


class _Reading:
    """One expression: read and worked out in one go."""

    def __init__(self, text: str, scope: Scope, depth: int) -> None:
        if len(text) > _MAX_EXPRESSION:
            raise _Unreadable
        self.text = text
        self.scope = scope
        self.depth = depth
        self.tokens: list[tuple[int, str, int]] = []
        at = 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            if found is None:
                raise _Unreadable
            self.tokens.append((found.lastindex or 0, found[found.lastindex or 0], at))
            at = found.end()
        self.at = 0

    def all(self) -> Any:
        value = self._one(self.depth)
        if self.at != len(self.tokens):
            raise _Unreadable
        return value

    def _next(self, wanted: str | None = None) -> tuple[int, str, int]:
        if self.at >= len(self.tokens) or (wanted is not None and self.tokens[self.at][1] != wanted):
            raise _Unreadable
        self.at += 1
        return self.tokens[self.at - 1]

    def _peek(self) -> str:
        kind, text, _ = self.tokens[self.at] if self.at < len(self.tokens) else (0, "", 0)
        return text if kind == 4 else ""

    def _one(self, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise _Unreadable
        kind, token, start = self._next()
        if kind == 1:
            value: Any = token[1:-1].replace("''", "'")
        elif kind == 2:
            value = int(token)
        elif kind == 3:
            value = self._call(token, start, depth)
        else:
            raise _Unreadable
        while self._peek() in (".", "["):
            _, opening, _ = self._next()
            key = self._next()[1] if opening == "." else self._one(depth + 1)
            if opening == "[":
                self._next("]")
            value = _member(value, key, self._so_far(start))
        return value

    def _call(self, name: str, start: int, depth: int) -> Any:
        while self._peek() == ".":  # a function of a namespace that the template defines
            self._next()
            name += f".{self._next()[1]}"
        self._next("(")
        arguments: list[Any] = []
        while self._peek() != ")":
            arguments.append(self._one(depth + 1))
            if self._peek() != ")":
                self._next(",")
        self._next(")")
        hole = Hole(_shortened(self._so_far(start)))
        match name.lower(), arguments:
            case ("parameters" | "variables") as kind, [str() as one]:
                return self.scope.referred(kind, one, depth)
            case "copyindex", _:
                return self._index(arguments, hole)
        function = _FUNCTIONS.get(name.lower())
        if function is None:
            return hole
        try:
            return function(hole, *arguments)
        except (TypeError, ValueError, ArithmeticError, IndexError):
            return hole

    def _index(self, arguments: list[Any], hole: Hole) -> Any:
        name = arguments[0] if arguments and isinstance(arguments[0], str) else ""
        offset = arguments[-1] if arguments and isinstance(arguments[-1], int) else 0
        return self.scope.loops[name] + offset if name in self.scope.loops else hole

    def _so_far(self, start: int) -> str:
        end = self.tokens[self.at][2] if self.at < len(self.tokens) else len(self.text)
        return self.text[start:end].strip()


def _member(value: Any, key: Any, expression: str) -> Any:
    hole = Hole(_shortened(expression))
    if isinstance(value, Mapping) and isinstance(key, str):
        return _in_any_case(value, key, hole)
    if isinstance(value, list) and type(key) is int and 0 <= key < len(value):
        return value[key]
    return hole


# -- functions; each gets the hole that stands for its call where it has no value


def _text_parts(value: Any) -> tuple[str | Hole, ...]:
    """A value as a part of a text (function `string`)."""
    match value:
        case Text():
            return value.parts
        case Hole() | str():
            return (value,)
        case bool():
            return ("True" if value else "False",)
        case int():
            return (str(value),)
    if not is_known(value):
        raise ValueError
    return (json.dumps(value, separators=(",", ":")),)


def _concat(hole: Hole, *arguments: Any) -> Any:
    if arguments and all(isinstance(one, list) for one in arguments):
        return [item for one in arguments for item in one][:_MAX_ITEMS]
    return _joined([part for one in arguments for part in _text_parts(one)])


def _format(hole: Hole, pattern: str, *arguments: Any) -> Any:
    parts: list[str | Hole] = []
    for literal, number, other in _FORMAT.findall(pattern):
        if other:
            return hole  # a form such as {0:N2}
        parts += _text_parts(arguments[int(number)]) if number else (literal.replace("{{", "{").replace("}}", "}"),)
    return _joined(parts)


def _resource_id(hole: Hole, *arguments: Any) -> Any:
    """The path of a resource; arguments before the type name a subscription and a resource group."""
    at = next(n for n, one in enumerate(arguments) if isinstance(one, str) and "/" in one and "." in one)
    provider, *kinds = str(arguments[at]).split("/")
    names = arguments[at + 1 :]
    if len(names) != len(kinds):
        return hole
    known: list[str | Hole] = [Hole("resourceGroup().id"), f"/providers/{provider}"]
    for kind, name in zip(kinds, names, strict=True):
        known += [f"/{kind}/", *_text_parts(name)]
    return _joined(known)


def _known(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of values that must be known."""

    def call(hole: Hole, *arguments: Any) -> Any:
        return function(*arguments) if all(map(is_known, arguments)) else hole

    return call


def _same(left: Any, right: Any) -> bool:
    """Whether values are equal; texts are with their case, and a boolean is no number."""
    return type(left) is type(right) and bool(left == right)


def _choice(hole: Hole, condition: Any, yes: Any, no: Any) -> Any:
    return (yes if condition else no) if isinstance(condition, bool) else hole


def _truths(combined: Callable[..., bool]) -> Callable[..., Any]:
    def call(*arguments: bool) -> bool:
        if not all(isinstance(one, bool) for one in arguments):
            raise TypeError
        return combined(arguments)

    return _known(call)


def _coalesce(hole: Hole, *arguments: Any) -> Any:
    for one in arguments:
        if isinstance(one, Hole):
            return hole
        if one is not None:
            return one
    return None


def _object(hole: Hole, *arguments: Any) -> Any:
    keys = arguments[::2]
    if len(arguments) % 2 or not all(isinstance(key, str) for key in keys):
        return hole
    return dict(zip(keys, arguments[1::2], strict=True))


def _range(start: int, count: int) -> list[int]:
    if not 0 <= count <= _MAX_ITEMS:
        raise ValueError
    return list(range(start, start + count))


def _number(value: Any) -> int:
    if type(value) is not int:
        raise TypeError
    return value


def _join(items: list[str], by: str) -> str:
    if sum(map(len, items)) + len(items) * len(by) > _MAX_TEXT:
        raise ValueError
    return by.join(items)


def _replace(text: str, old: str, new: str) -> str:
    if text.count(old) * len(new) + len(text) > _MAX_TEXT:
        raise ValueError
    return text.replace(old, new)


_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "concat": _concat,
    "format": _format,
    "resourceid": _resource_id,
    "subscriptionresourceid": _resource_id,
    "if": _choice,
    "coalesce": _coalesce,
    "createarray": lambda hole, *items: list(items),
    "array": lambda hole, item: item if isinstance(item, list) else [item],
    "createobject": _object,
    "true": lambda hole: True,
    "false": lambda hole: False,
    "null": lambda hole: None,
    "string": lambda hole, value: _joined(_text_parts(value)),
    "int": _known(int),
    "bool": _known(lambda value: {"true": True, "false": False}[str(value).lower()]),
    "equals": _known(_same),
    "not": _truths(lambda all_: not all_[0]),
    "and": _truths(all),
    "or": _truths(any),
    "empty": _known(lambda value: value is None or len(value) == 0),
    "length": _known(len),
    "first": _known(lambda value: value[0]),
    "last": _known(lambda value: value[-1]),
    "tolower": _known(lambda value: value.lower()),
    "toupper": _known(lambda value: value.upper()),
    "trim": _known(lambda value: value.strip()),
    "replace": _known(_replace),
    "substring": _known(lambda value, start, length=_MAX_TEXT: value[start : start + length]),
    "split": _known(lambda value, by: value.split(by)),
    "join": _known(_join),
    "contains": _known(lambda value, item: item in value),
    "startswith": _known(lambda value, head: value.lower().startswith(head.lower())),
    "endswith": _known(lambda value, tail: value.lower().endswith(tail.lower())),
    "add": _known(lambda left, right: _number(left) + _number(right)),
    "sub": _known(lambda left, right: _number(left) - _number(right)),
    "range": _known(_range),
}
