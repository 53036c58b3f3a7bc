"""XML configurations as elements with their lines, read by a parser that trusts nothing.

A DOCTYPE ends the reading at once, so that there is no DTD, no entity and no external reference; what is included by
XInclude is not fetched. Bytes and levels are bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from xml.parsers import expat

from bindery.router.documents import refusal
from bindery.router.errors import DefinitionsRefused

#: Bytes of a configuration, and levels of its elements.
MAX_BYTES: Final = 16 * 2**20
MAX_DEPTH: Final = 100
_SEPARATOR: Final = "\x1f"


@dataclass(slots=True)
class Element:
    """An element without its namespace: what is between its tags, blanks at the ends aside, and where it begins."""

    name: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Its own text."""
        return "".join(self.pieces).strip()

    def all(self, name: str) -> Iterator[Element]:
        """Its children of that name."""
        return (child for child in self.children if child.name == name)

    def first(self, name: str) -> Element | None:
        """Its first child of that name."""
        return next(self.all(name), None)

    def said(self, name: str) -> str | None:
        """What an attribute or a child of that name says."""
        child = self.first(name)
        return self.attributes.get(name) if child is None else child.text


def read_xml(name: str, raw: bytes) -> Element:
    """The root of a document; `name` is said in errors. Raises DefinitionsRefused with the line."""
    if len(raw) > MAX_BYTES:
        raise _refused(name, f"the document has more than {MAX_BYTES:,} bytes", 1)
    parser = expat.ParserCreate(None, _SEPARATOR)
    parser.buffer_text = True
    stack: list[Element] = []
    roots: list[Element] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        if len(stack) >= MAX_DEPTH:
            raise _refused(name, f"nested deeper than {MAX_DEPTH} levels", parser.CurrentLineNumber)
        plain = {key.rpartition(_SEPARATOR)[2]: value for key, value in attributes.items()}
        element = Element(tag.rpartition(_SEPARATOR)[2], plain, parser.CurrentLineNumber)
        (stack[-1].children if stack else roots).append(element)
        stack.append(element)

    def end(_: str) -> None:
        stack.pop()

    def text(piece: str) -> None:
        if stack:
            stack[-1].pieces.append(piece)

    def doctype(*_: Any) -> None:
        raise _refused(name, "the document has a DOCTYPE, which is not read", parser.CurrentLineNumber)

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = text
    parser.StartDoctypeDeclHandler = doctype
    try:
        parser.Parse(raw, True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise _refused(name, f"the document is no XML: {error}", getattr(error, "lineno", 1)) from None
    return roots[0]


def refused_at(name: str, message: str, element: Element) -> DefinitionsRefused:
    """The error for what is wrong with an element."""
    return _refused(name, message, element.line)


def _refused(name: str, message: str, line: int) -> DefinitionsRefused:
    problem = {"code": "invalid_input", "message": message, "path": "", "file": name, "line": line, "column": 1}
    return refusal([problem])
