"""One evaluation over one document, within a budget of steps."""

from __future__ import annotations

from typing import Final

from bindery.router.filters.xpath.document import Document

#: Characters handled for the price of one step.
CHARACTERS_PER_STEP: Final = 64


class OutOfBudget(Exception):
    """An evaluation that has used up its steps."""


class Run:
    """One evaluation over one document: the budget that is left and what needs no second computing."""

    __slots__ = ("document", "known", "left")

    def __init__(self, document: Document, steps: int) -> None:
        self.document = document
        self.left = steps
        self.known: dict[object, object] = {}

    def charge(self, steps: int) -> None:
        """Pay for work; raises OutOfBudget when nothing is left."""
        self.left -= steps
        if self.left < 0:
            raise OutOfBudget

    def string_value(self, node: int) -> str:
        """The text of a node, paid for by its length and pieces."""
        text = self.document.string_value(node)
        self.charge(1 + len(text) // CHARACTERS_PER_STEP + self.document.text_count(node))
        return text
