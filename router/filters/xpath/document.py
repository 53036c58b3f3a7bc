"""An XML body as flat arrays in document order, read by a parser that trusts nothing.

The reader is expat with every handler that could widen the input absent: a DOCTYPE ends the parse at once
(so there is no DTD, no entity, no external reference), nothing is fetched, and bytes, levels and nodes are
bounded while reading, not afterwards.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final
from xml.parsers import expat

from bindery.router.filters.limits import XPathLimits

ROOT: Final = 0
ELEMENT: Final = 1
ATTRIBUTE: Final = 2
TEXT: Final = 3
COMMENT: Final = 4
INSTRUCTION: Final = 5
NAMESPACE: Final = 6

XML_NAMESPACE: Final = "http://www.w3.org/XML/1998/namespace"
#: Cannot occur in an XML document, so expat's joined names split without doubt.
_SEPARATOR: Final = "\x1f"


class Unreadable(Exception):
    """A body that gives no document, and why. `counted` tells refused input (limits, DOCTYPE) from mere non-XML."""

    def __init__(self, why: str = "the body is no XML", *, counted: bool) -> None:
        super().__init__(why)
        self.counted = counted


@dataclass(eq=False, slots=True)
class Document:
    """Nodes 0 … n-1 in document order; node 0 is the document itself.

    Attributes directly follow their element. `end[i]` is the first node after the subtree of i,
    `first_child[i]` the first after its attributes; `text[i]` is the value of attributes, texts, comments
    and instructions. Namespace nodes are made when an axis asks for them and stand behind all others.
    """

    kind: list[int] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    name: list[str] = field(default_factory=list)
    uri: list[str] = field(default_factory=list)
    prefix: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    first_child: list[int] = field(default_factory=list)
    declared: dict[int, dict[str, str]] = field(default_factory=dict)
    namespace_nodes: dict[int, list[int]] = field(default_factory=dict)
    texts: list[int] = field(default_factory=list)
    size: int = 0

    def __len__(self) -> int:
        return self.size

    def children(self, node: int) -> list[int]:
        """The child nodes (never attributes), in document order."""
        end = self.end
        found = []
        child, stop = self.first_child[node], end[node]
        while child < stop:
            found.append(child)
            child = end[child]
        return found

    def attributes(self, node: int) -> range:
        """The attribute nodes of an element."""
        return range(node + 1, self.first_child[node])

    def text_count(self, node: int) -> int:
        """How many text nodes the string value of an element joins."""
        if self.kind[node] > ELEMENT:
            return 1
        return bisect_left(self.texts, self.end[node]) - bisect_left(self.texts, node)

    def string_value(self, node: int) -> str:
        """XPath 1.0 §5: the text of a node, for elements that of all texts below."""
        if self.kind[node] > ELEMENT:
            return self.text[node]
        first = bisect_left(self.texts, node)
        last = bisect_left(self.texts, self.end[node])
        return "".join([self.text[child] for child in self.texts[first:last]])

    def scopes(self, node: int) -> list[dict[str, str]]:
        """The namespace declarations that an element sees, its own first."""
        found = []
        while node > 0:
            if node in self.declared:
                found.append(self.declared[node])
            node = self.parent[node]
        return found

    def namespaces(self, node: int) -> dict[str, str]:
        """The namespaces in scope of an element: prefix ("" = default) to URI."""
        merged = {"xml": XML_NAMESPACE}
        for scope in reversed(self.scopes(node)):
            merged.update(scope)
        return {prefix: uri for prefix, uri in merged.items() if uri}


class _Builder:
    """Handlers that fill a `Document` and stop the parse at the first limit."""

    def __init__(self, limits: XPathLimits) -> None:
        self.document = Document()
        self.limits = limits
        self.open = [0]
        self.pieces: list[str] = []
        self.pending: dict[str, str] = {}
        self._add(ROOT, "")

    def _add(self, kind: int, text: str, name: str = "") -> int:
        document = self.document
        node = len(document.kind)
        if node >= self.limits.nodes:
            raise Unreadable(f"the body has more than {self.limits.nodes} nodes", counted=True)
        uri, local, prefix = "", name, ""
        if _SEPARATOR in name:
            uri, local, *rest = name.split(_SEPARATOR)
            prefix = rest[0] if rest else ""
        document.kind.append(kind)
        document.parent.append(self.open[-1] if node else -1)
        document.end.append(node + 1)
        document.first_child.append(node + 1)
        document.name.append(local)
        document.uri.append(uri)
        document.prefix.append(prefix)
        document.text.append(text)
        return node

    def flush(self) -> None:
        if self.pieces:
            self.document.texts.append(self._add(TEXT, "".join(self.pieces)))
            self.pieces.clear()

    def start_element(self, name: str, attributes: list[str]) -> None:
        self.flush()
        if len(self.open) > self.limits.levels:
            raise Unreadable(f"the body is nested deeper than {self.limits.levels} levels", counted=True)
        node = self._add(ELEMENT, "", name)
        if self.pending:
            self.document.declared[node] = self.pending
            self.pending = {}
        self.open.append(node)
        for position in range(0, len(attributes), 2):
            self._add(ATTRIBUTE, attributes[position + 1], attributes[position])
        self.document.first_child[node] = len(self.document.kind)

    def end_element(self, _name: str) -> None:
        self.flush()
        self.document.end[self.open.pop()] = len(self.document.kind)

    def start_namespace(self, prefix: str | None, uri: str | None) -> None:
        self.pending[prefix or ""] = uri or ""

    def comment(self, text: str) -> None:
        self.flush()
        self._add(COMMENT, text)

    def instruction(self, target: str, text: str) -> None:
        self.flush()
        self._add(INSTRUCTION, text, target)

    def refuse(self, *_: object) -> None:
        raise Unreadable("the body has a DOCTYPE", counted=True)


def _too_long(limits: XPathLimits) -> Unreadable:
    return Unreadable(f"the body is longer than {limits.document_bytes} bytes", counted=True)


def read(body: bytes | str | None, limits: XPathLimits) -> Document:
    """The document of a body; raises Unreadable when there is none or a limit is passed.

    Bytes are decoded by their byte order mark or XML declaration (UTF-8 without one); a text has been
    decoded already, so an encoding that it declares is ignored.
    """
    if not body:
        raise Unreadable(counted=False)
    if isinstance(body, str):
        if len(body) > limits.document_bytes:
            raise _too_long(limits)
        try:
            data = body.encode()
        except UnicodeEncodeError:
            raise Unreadable(counted=False) from None
        parser = expat.ParserCreate("utf-8", _SEPARATOR)
    else:
        data = body
        parser = expat.ParserCreate(None, _SEPARATOR)
    if len(data) > limits.document_bytes:
        raise _too_long(limits)
    builder = _Builder(limits)
    parser.buffer_text = True
    parser.ordered_attributes = True
    parser.namespace_prefixes = True
    parser.StartDoctypeDeclHandler = builder.refuse
    parser.StartElementHandler = builder.start_element
    parser.EndElementHandler = builder.end_element
    parser.StartNamespaceDeclHandler = builder.start_namespace
    parser.CharacterDataHandler = builder.pieces.append
    parser.CommentHandler = builder.comment
    parser.ProcessingInstructionHandler = builder.instruction
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, ValueError, LookupError):
        raise Unreadable(counted=False) from None
    document = builder.document
    document.size = document.end[0] = len(document.kind)
    return document
