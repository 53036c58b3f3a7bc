"""String references of property filters and the modifiers that open them (seed 002, "property filters").

    &S:end   ends with            &s:end   … ignoring case
    &P:start starts with          &p:start … ignoring case
    &i:text  equal ignoring case  &&text   equal to "&text"

Ignoring case means Unicode simple case folding of every code point, without a locale. Any other leading `&`
is refused: it is a typing error more often than a wish for a literal ampersand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from router.errors import FilterError
from router.filters.text import fold


def _equals(text: str, wanted: str) -> bool:
    return text == wanted


@dataclass(frozen=True, slots=True)
class Modifier:
    """How a reference text compares with a message's text; `folds` applies to both sides first."""

    prefix: str
    compare: Callable[[str, str], bool]
    folds: bool = False


EXACT: Final = Modifier("", _equals)
MODIFIERS: Final = {
    modifier.prefix: modifier
    for modifier in (
        Modifier("&S:", str.endswith),
        Modifier("&P:", str.startswith),
        Modifier("&s:", str.endswith, folds=True),
        Modifier("&p:", str.startswith, folds=True),
        Modifier("&i:", _equals, folds=True),
    )
}


@dataclass(frozen=True, slots=True)
class TextReference:
    """A reference text without its modifier, folded when the modifier folds."""

    modifier: Modifier
    text: str

    def matches(self, text: str) -> bool:
        """Whether a message's text satisfies the reference."""
        return self.modifier.compare(fold(text) if self.modifier.folds else text, self.text)


@lru_cache(maxsize=65536)
def read_reference(reference: str) -> TextReference:
    """The modifier and text of a string reference; raises FilterError for an unknown modifier."""
    if not reference.startswith("&"):
        return TextReference(EXACT, reference)
    if reference.startswith("&&"):
        return TextReference(EXACT, reference[1:])
    modifier = MODIFIERS.get(reference[:3])
    if modifier is None:
        raise FilterError(
            f"unknown modifier {reference[:3]!r}",
            hint="modifiers: " + " ".join(MODIFIERS) + "; a text that begins with & is written &&…",
        )
    text = reference[len(modifier.prefix) :]
    return TextReference(modifier, fold(text) if modifier.folds else text)
