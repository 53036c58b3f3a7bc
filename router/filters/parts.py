"""What tree builders hand on while a text is read."""

from __future__ import annotations

from dataclasses import dataclass

from bindery.router.filters.ast import Node


@dataclass(slots=True)
class Part:
    """A built node and the place in the text that it came from; `bracketed` when parentheses stand around."""

    node: Node
    start: int
    end: int
    bracketed: bool = False
