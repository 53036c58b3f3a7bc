"""YAML as JSON data with the places of its parts, without surprises.

Two versions of YAML are in use. `no`, `on`, `1e3`, `017`, `1_000`, `12:30`, `2026-01-01` are a boolean, a number or a
time in one and text in the other: such scalars are refused where they stand without quotes, as key or value.
So are tags but `!!str`, keys that are no text or stand twice, merge keys, and infinities. Anchors and aliases are
read; what aliases stand for is bounded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import yaml

from bindery.router.documents.places import Fault, Places, Unreadable, member, repeated

#: Levels of nesting; what a document may hold ends before.
MAX_DEPTH: Final = 300
#: Nodes that all aliases of a document stand for.
MAX_ALIASED: Final = 1_000_000

_TAG: Final = "tag:yaml.org,2002:"
#: The scanner in C, where PyYAML was built with it.
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
#: What YAML 1.1 takes for something else than text: first character -> (tag, pattern).
_YAML_11: Final[dict[str, list[tuple[str, re.Pattern[str]]]]] = yaml.SafeLoader.yaml_implicit_resolvers
#: The core schema of YAML 1.2 (§10.3.2).
_YAML_12: Final = (
    ("null", re.compile(r"null|Null|NULL|~|")),
    ("bool", re.compile(r"true|True|TRUE|false|False|FALSE")),
    ("int", re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")),
    ("float", re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")),
)
_OCTAL: Final = re.compile(r"[-+]?0[0-9]+")


@dataclass(slots=True)
class _Open:
    """A mapping or sequence that is being read; `nodes` counts what is in it, aliases as what they stand for."""

    path: str
    start: int
    value: dict[str, Any] | list[Any]
    anchor: str | None
    key: str | None = None
    nodes: int = 1


def read_yaml(text: str, *, places: Places | None = None, several: bool = False) -> tuple[Any, list[Fault]]:
    """The value of a document, and what is wrong with it; `places` is filled. Raises Unreadable.

    With `several` the value is a list of the documents of the text, and paths begin with `[0]`, `[1]` …
    """
    reader = _Reader(text, places, several)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            reader.take(event)
    except yaml.reader.ReaderError as error:
        position = error.position if isinstance(error.position, int) else 0
        raise Unreadable(Fault(position, f"not YAML: {error.reason}")) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = ", ".join(part for part in (error.context, error.problem) if part)
        raise Unreadable(Fault(0 if mark is None else mark.index, f"not YAML: {said}")) from None
    except yaml.YAMLError as error:
        raise Unreadable(Fault(0, f"not YAML: {error}")) from None
    return reader.value, reader.faults


class _Reader:
    """Builds the value from the events of the scanner, without recursion."""

    def __init__(self, text: str, places: Places | None, several: bool) -> None:
        self.text = text
        self.places = places
        self.several = several
        self.value: Any = [] if several else None
        self.faults: list[Fault] = []
        self.documents = 0
        self.aliased = 0
        self.anchors: dict[str, tuple[Any, int]] = {}
        self.stack: list[_Open] = []

    def take(self, event: Any) -> None:
        """Go on by one event."""
        start, end = event.start_mark.index, event.end_mark.index
        match event:
            case yaml.DocumentStartEvent():
                self.documents += 1
                self.anchors.clear()
                if self.documents > 1 and not self.several:
                    raise Unreadable(Fault(start, "a second document begins here", "one document a file"))
            case yaml.ScalarEvent():
                scalar = self._scalar(event)
                if event.anchor is not None:
                    self.anchors[event.anchor] = (scalar, 1)
                self._put(scalar, 1, start, end)
            case yaml.AliasEvent():
                self._alias(event, start)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._open(event, start)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                closed = self.stack.pop()
                if closed.anchor is not None:
                    self.anchors[closed.anchor] = (closed.value, closed.nodes)
                self._add(closed.value, closed.nodes, closed.path, closed.start, end)

    def _alias(self, event: Any, start: int) -> None:
        if event.anchor not in self.anchors:
            raise Unreadable(Fault(start, f"no anchor {event.anchor!r} ends before this alias"))
        value, nodes = self.anchors[event.anchor]
        self.aliased += nodes
        if self.aliased > MAX_ALIASED:
            raise Unreadable(Fault(start, f"aliases stand for more than {MAX_ALIASED:,} values"))
        self._put(value, nodes, start, event.end_mark.index)

    def _open(self, event: Any, start: int) -> None:
        is_map = isinstance(event, yaml.MappingStartEvent)
        if event.tag not in (None, "!", _TAG + ("map" if is_map else "seq")):
            self.faults.append(Fault(start, f"the tag {event.tag!r} means nothing here"))
        if len(self.stack) >= MAX_DEPTH:
            raise Unreadable(Fault(start, f"nested deeper than {MAX_DEPTH} levels"))
        if self._awaits_key():
            raise Unreadable(Fault(start, "a key is no text", "write it in quotes"))
        self.stack.append(_Open(self._path(), start, {} if is_map else [], event.anchor))

    def _put(self, value: Any, nodes: int, start: int, end: int) -> None:
        """A scalar or alias: the next key of the mapping that is open, or a value."""
        if not self._awaits_key():
            self._add(value, nodes, self._path(), start, end)
            return
        top = self.stack[-1]
        if not isinstance(value, str):
            self.faults.append(Fault(start, f"a key is no text: {self.text[start:end][:60]}", "write it in quotes"))
            value = self.text[start:end]
        if value in top.value:
            self.faults.append(Fault(start, repeated(value)))
        top.key = value
        if self.places is not None:
            self.places.keys[member(top.path, value)] = start

    def _add(self, value: Any, nodes: int, path: str, start: int, end: int) -> None:
        if self.places is not None:
            self.places.values[path] = (start, end)
        if not self.stack:
            if self.several:
                self.value.append(value)
            else:
                self.value = value
            return
        top = self.stack[-1]
        top.nodes += nodes
        if isinstance(top.value, list):
            top.value.append(value)
        elif top.key is not None:
            top.value[top.key], top.key = value, None

    def _awaits_key(self) -> bool:
        return bool(self.stack) and isinstance(self.stack[-1].value, dict) and self.stack[-1].key is None

    def _path(self) -> str:
        if not self.stack:
            return f"[{len(self.value)}]" if self.several else ""
        top = self.stack[-1]
        return f"{top.path}[{len(top.value)}]" if top.key is None else member(top.path, top.key)

    def _scalar(self, event: Any) -> Any:
        value = event.value
        if event.tag in ("!", _TAG + "str") or (event.tag is None and event.style):
            return value
        start = event.start_mark.index
        if event.tag is not None:
            self.faults.append(Fault(start, f"the tag {event.tag!r} means nothing here", "!!str is known"))
            return value
        old, new = _tag_11(value), _tag_12(value)
        if old != new or (new == "int" and _OCTAL.fullmatch(value)):
            meant = "; a boolean is true or false" if old == "bool" else ""
            said = (
                f"{value!r} is {_SAID.get(old, 'text')} to some readers of YAML and {_SAID.get(new, 'text')} to others"
            )
            if old == new:
                said = f"{value!r} is another number to some readers of YAML than to others"
            self.faults.append(Fault(start, said, f"write it in quotes if it is text{meant}"))
            return value
        match new:
            case "null":
                return None
            case "bool":
                return value.lower() == "true"
            case "int":
                return self._number(value, start)
            case "float" if value[-1] in "fFnN":
                self.faults.append(Fault(start, f"{value} is no JSON number"))
                return value
            case "float":
                return float(value)
        return value

    def _number(self, value: str, start: int) -> Any:
        try:
            return int(value, 16 if "x" in value else 10)
        except ValueError as error:  # thousands of digits
            self.faults.append(Fault(start, str(error).partition(";")[0]))
            return value


_SAID: Final = {
    "null": "null",
    "bool": "a boolean",
    "int": "a number",
    "float": "a number",
    "timestamp": "a time",
    "merge": "a merge key",
}


def _tag_11(value: str) -> str:
    for tag, pattern in _YAML_11.get(value[:1], ()):
        if pattern.match(value):
            return tag.removeprefix(_TAG)
    return "str"


def _tag_12(value: str) -> str:
    return next((tag for tag, pattern in _YAML_12 if pattern.fullmatch(value)), "str")
