"""The protocol of exchange types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from bindery.router.matching.matcher import Matcher
from bindery.router.model import Binding


class Compile(Protocol):
    """What an exchange type is: a way to turn bindings into a matcher.

    The result holds the matcher and each binding's rule, numbered from `base` on without gaps.
    """

    def __call__(self, bindings: Sequence[Binding], base: int) -> tuple[Matcher, list[int]]:
        """Compile the bindings of one exchange."""
        ...
