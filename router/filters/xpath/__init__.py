"""XPATH '…': an XPath 1.0 condition over an XML body, safe for hostile bodies and costly expressions.

    compiled = compile("/book[@lang = 'en']/price > 20")
    evaluate(compiled, b"<book lang='en'><price>25</price></book>")    # True

The context node is the document; the result is XPath's boolean(). No body, a body that is not XML, a DOCTYPE
of any kind, a passed limit and a type error while evaluating all give false. Artemis filter expressions, "XPath"; the
recommendation is XPath 1.0 (W3C, 16 November 1999).

The evaluator is our own because libxml2 offers neither a bound on evaluation time nor a check of functions
before evaluating, and merges node sets in quadratic time; tests compare the two on what both can do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from bindery.router.filters.limits import XPathLimits
from bindery.router.filters.xpath.document import Document, Unreadable, read
from bindery.router.filters.xpath.expressions import Expression
from bindery.router.filters.xpath.functions import TypeMismatch, to_boolean
from bindery.router.filters.xpath.run import OutOfBudget, Run
from bindery.router.filters.xpath.syntax import parse
from bindery.router.weighed import Weighed

if TYPE_CHECKING:
    from bindery.router.columns import BatchView

__all__ = ["CompiledXPath", "XPathDocuments", "XPathLimits", "XPathOutcome", "compile", "documents_of", "evaluate"]

DEFAULT_LIMITS = XPathLimits()


class CompiledXPath:
    """A checked expression; equal, hashed and pickled by its text."""

    __slots__ = ("_root", "text")

    def __init__(self, text: str, root: Expression) -> None:
        self.text = text
        self._root = root

    def holds(self, document: Document, steps: int) -> XPathOutcome:
        """Evaluate over a document within a number of steps."""
        try:
            return XPathOutcome(to_boolean(self._root.evaluate(Run(document, steps), 0, 1, 1)))
        except OutOfBudget:
            return XPathOutcome(value=False, trouble=True, why=f"the expression takes more than {steps} steps")
        except TypeMismatch:
            return XPathOutcome(value=False, trouble=True, why="the expression meets a value where it needs nodes")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CompiledXPath) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"CompiledXPath({self.text!r})"

    def __reduce__(self) -> tuple[Callable[[str], CompiledXPath], tuple[str]]:
        return compile, (self.text,)


@dataclass(frozen=True, slots=True)
class XPathOutcome:
    """The condition's value, and whether run-time trouble (a limit, a DOCTYPE, a type error) made it false.

    `why` says in words what the body or the expression lacked.
    """

    value: bool
    trouble: bool = False
    why: str = field(default="", compare=False)


_NO_DOCUMENT = XPathOutcome(value=False, why="the message has no body")


def compile(expression: str) -> CompiledXPath:  # the name that re and lxml users know
    """Check an expression; raises FilterError with a position inside it."""
    return _compiled(expression)


_compiled: Weighed[CompiledXPath] = Weighed(
    lambda expression: CompiledXPath(expression, parse(expression)),
    lambda compiled: len(compiled.text),
    weight=2**18,
    entries=4096,
)


def evaluate(compiled: CompiledXPath, body: bytes | str | None, *, limits: XPathLimits = DEFAULT_LIMITS) -> bool:
    """Whether the condition holds for one body."""
    return XPathDocuments(limits=limits).outcome(compiled, body).value


class XPathDocuments:
    """Parsed bodies of one batch, shared by all XPATH operands: each distinct body is read once.

    Keeps documents up to `limits.cached_nodes` nodes; beyond that the oldest go and would be read again.
    `parsed` counts the bodies read, `troubled` the outcomes that trouble made false.
    """

    def __init__(self, *, limits: XPathLimits = DEFAULT_LIMITS) -> None:
        self.limits = limits
        self.parsed = 0
        self.troubled = 0
        self._documents: dict[bytes | str, Document | XPathOutcome] = {}
        self._nodes = 0

    def outcome(self, compiled: CompiledXPath, body: bytes | str | None) -> XPathOutcome:
        """The outcome for one body (bytes, or text from amqp-value)."""
        if not body:
            return _NO_DOCUMENT
        document = self._documents.get(body)
        if document is None:
            document = self._read(body)
        outcome = document if isinstance(document, XPathOutcome) else compiled.holds(document, self.limits.steps)
        self.troubled += outcome.trouble
        return outcome

    def outcomes(self, compiled: CompiledXPath, bodies: Sequence[bytes | str | None]) -> list[XPathOutcome]:
        """The outcome for each of the bodies, which should be distinct."""
        return [self.outcome(compiled, body) for body in bodies]

    def _read(self, body: bytes | str) -> Document | XPathOutcome:
        self.parsed += 1
        try:
            document = read(body, self.limits)
        except Unreadable as reason:
            self._documents[body] = outcome = XPathOutcome(value=False, trouble=reason.counted, why=str(reason))
            return outcome
        self._documents[body] = document
        self._nodes += len(document)
        while self._nodes > self.limits.cached_nodes and len(self._documents) > 1:
            oldest = next(iter(self._documents))
            if oldest == body:
                break
            dropped = self._documents.pop(oldest)
            if isinstance(dropped, Document):
                self._nodes -= len(dropped)
        return document


_DOCUMENTS: WeakKeyDictionary[BatchView, dict[XPathLimits, XPathDocuments]] = WeakKeyDictionary()


def documents_of(view: BatchView, limits: XPathLimits = DEFAULT_LIMITS) -> XPathDocuments:
    """The parsed bodies of a batch, shared by everything that evaluates on it within these limits."""
    by_limits = _DOCUMENTS.setdefault(view, {})
    found = by_limits.get(limits)
    if found is None:
        found = by_limits[limits] = XPathDocuments(limits=limits)
    return found
