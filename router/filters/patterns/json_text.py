"""JSON with the place of every value, for errors that point at what they are about (RFC 8259).

Without recursion, and with the caps of filters. A name that stands twice in an object is refused: of a pattern it would
be unclear which of the two counts.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Final, NoReturn, cast

from bindery.router.errors import FilterError
from bindery.router.filters.limits import Limits
from bindery.router.filters.payload import double_of, integer_of

_TOKEN: Final = re.compile(
    r'[ \t\r\n]*(?:(?P<mark>[{}\[\]:,])|(?P<string>"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))*")'
    r"|(?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![0-9A-Za-z.+-]))"
    r"|(?P<word>true|false|null)(?![0-9A-Za-z_]))"
)
_BLANK: Final = re.compile(r"[ \t\r\n]*")
_ODD: Final = re.compile(r'[A-Za-z0-9_.+$-]+|"[^"]*"?|[^ \t\r\n]', re.DOTALL)
_WORDS: Final = {"true": True, "false": False, "null": None}
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
Simple = str | int | float | bool | None


@dataclass(slots=True)
class Item:
    """A value of a JSON text and its place. Of a list or an object the parts; of an object each with its name."""

    start: int
    end: int = 0


@dataclass(slots=True)
class Scalar(Item):
    """A string, number, boolean or null."""

    value: Simple = None

    @property
    def is_number(self) -> bool:
        """Whether it is a number."""
        return isinstance(self.value, int | float) and not isinstance(self.value, bool)


@dataclass(slots=True)
class Listed(Item):
    """A list."""

    items: list[Item] = field(default_factory=list)


@dataclass(slots=True)
class Member:
    """A name in an object, its place, and what stands under it."""

    name: str
    start: int
    end: int
    item: Item


@dataclass(slots=True)
class Object(Item):
    """An object, its members in order."""

    members: list[Member] = field(default_factory=list)


class _Reader:
    def __init__(self, text: str, limits: Limits) -> None:
        self.text = text
        self.limits = limits
        self.position = 0
        self.tokens = 0
        self.kind = self.found = ""
        self.start = 0

    def refuse(self, message: str, start: int, end: int, *, expected: tuple[str, ...] = (), hint: str = "") -> NoReturn:
        raise FilterError(
            message, text=self.text, offset=start, length=end - start, expected=expected, hint=hint or None
        )

    def next(self) -> None:
        found = _TOKEN.match(self.text, self.position)
        if found is None:
            at = _BLANK.match(self.text, self.position).end()  # type: ignore[union-attr]  # matches the empty text
            odd = _ODD.match(self.text, at)
            self.kind, self.found, self.start = ("odd", odd[0], at) if odd else ("end", "", at)
            self.position = at + len(self.found)
            return
        self.kind = str(found.lastgroup)
        self.found, self.start, self.position = found[self.kind], found.start(self.kind), found.end()
        self.tokens += 1
        if self.tokens > self.limits.tokens:
            self.refuse(f"more than {self.limits.tokens} tokens", self.start, self.position)

    def unexpected(self, *expected: str) -> NoReturn:
        if self.kind == "end":
            self.refuse("the pattern ends too early", self.start, self.start, expected=expected)
        hint = "a pattern is JSON" if self.kind == "odd" else ""
        if self.kind == "odd" and self.found[0] in "'“”":
            hint = "strings of JSON take straight double quotes"
        self.refuse(f"unexpected {self.found!r}", self.start, self.position, expected=expected, hint=hint)

    def string(self) -> str:
        text: str = json.loads(self.found)
        if _SURROGATE.search(text):
            self.refuse("a lone surrogate is no Unicode text", self.start, self.position)
        return text

    def scalar(self) -> Scalar:
        value: Simple
        if self.kind == "string":
            value = self.string()
        elif self.kind == "number":
            whole = self.found.lstrip("-").isdigit()
            try:
                value = integer_of(self.found) if whole else double_of(self.found)
            except ValueError as error:
                self.refuse(str(error), self.start, self.position)
        else:
            value = _WORDS[self.found]
        return Scalar(self.start, self.position, value)

    def read(self) -> Item:
        """The one value of the text. Lists and objects that are open stand on a stack; nothing recurses."""
        opened: list[Listed | Object] = []
        names: list[set[str]] = []
        whole: Item | None = None
        while True:
            self.next()
            if self.kind == "mark" and self.found == "]" and self._is_empty(opened):
                self._close(opened, names)
            else:
                item = self._item(opened)
                whole = whole or item
                if isinstance(item, Listed | Object):
                    opened.append(item)
                    names.append(set())
                    if not isinstance(item, Object) or self._name(item, names[-1], first=True):
                        continue
                    self._close(opened, names)
            if self._ends(opened, names):
                return cast(Item, whole)

    def _item(self, opened: list[Listed | Object]) -> Item:
        """What begins here, or a scalar, put into what it stands in."""
        item: Item
        if self.kind == "mark" and self.found in "[{":
            item = Listed(self.start) if self.found == "[" else Object(self.start)
            if len(opened) >= self.limits.depth:
                self.refuse(f"nested deeper than {self.limits.depth} levels", self.start, self.position)
        elif self.kind in ("string", "number", "word"):
            item = self.scalar()
        else:
            self.unexpected("a value")
        if opened and isinstance(opened[-1], Listed):
            opened[-1].items.append(item)
        elif opened:
            cast(Object, opened[-1]).members[-1].item = item
        return item

    def _close(self, opened: list[Listed | Object], names: list[set[str]]) -> None:
        opened.pop().end = self.position
        names.pop()

    @staticmethod
    def _is_empty(opened: list[Listed | Object]) -> bool:
        return bool(opened) and isinstance(opened[-1], Listed) and not opened[-1].items

    def _name(self, item: Object, known: set[str], *, first: bool) -> bool:
        """Read a name and its colon; False where the object ends instead, which only an empty one may."""
        self.next()
        if first and self.kind == "mark" and self.found == "}":
            return False
        if self.kind != "string":
            self.unexpected("a name", *(["}"] if first else []))
        name, start, end = self.string(), self.start, self.position
        if name in known:
            self.refuse(f"the name {name!r} stands twice in one object", start, end)
        known.add(name)
        self.next()
        if self.kind != "mark" or self.found != ":":
            self.unexpected(":")
        item.members.append(Member(name, start, end, Scalar(self.position)))
        return True

    def _ends(self, opened: list[Listed | Object], names: list[set[str]]) -> bool:
        """Behind a value: close what ends there, or go on in what is open; True where the text ends."""
        while opened:
            self.next()
            holder = opened[-1]
            closing = "]" if isinstance(holder, Listed) else "}"
            if self.kind == "mark" and self.found == ",":
                if isinstance(holder, Object):
                    self._name(holder, names[-1], first=False)
                return False
            if self.kind != "mark" or self.found != closing:
                self.unexpected(",", closing)
            self._close(opened, names)
        self.next()
        if self.kind != "end":
            self.unexpected("the end")
        return True


def read_json(text: str, limits: Limits) -> Item:
    """The value that a JSON text states, with places; raises FilterError."""
    return _Reader(text, limits).read()
