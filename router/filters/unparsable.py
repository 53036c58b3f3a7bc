"""Bodies that cannot be read as what they were declared to be, in the words that all formats share."""

from __future__ import annotations

from bindery.router.filters.limits import PayloadLimits


class Unparsable(Exception):
    """A body that cannot be read as what it was declared to be; the text says why.

    `kind` is the word by which such bodies are counted: syntax, not-utf-8, too-large, too-deep, too-many-values,
    unknown-schema.
    """

    def __init__(self, reason: str, kind: str = "syntax") -> None:
        super().__init__(reason)
        self.kind = kind


def too_long(limits: PayloadLimits) -> Unparsable:
    """A body over the cap of bytes."""
    return Unparsable(f"the body has more than {limits.bytes} bytes", "too-large")


def too_deep(limits: PayloadLimits) -> Unparsable:
    """A body over the cap of levels."""
    return Unparsable(f"the body is nested deeper than {limits.levels} levels", "too-deep")


def too_many(limits: PayloadLimits) -> Unparsable:
    """A body over the cap of values."""
    return Unparsable(f"the body has more than {limits.nodes} values", "too-many-values")
