"""String references of property filters and the modifiers that open them (AMQP Filter Expressions, "property filters").

    &S:end   ends with            &s:end   … ignoring case
    &P:start starts with          &p:start … ignoring case
    &i:text  equal ignoring case  &&text   equal to "&text"

Ignoring case means Unicode simple case folding of every code point, without a locale. Any other leading `&`
is refused: it is a typing error more often than a wish for a literal ampersand.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from bindery.router.errors import FilterError
from bindery.router.filters.sets.nodes import in_forms


@dataclass(frozen=True, slots=True)
class Modifier:
    """How a reference compares with a message's text.

    forms    what is done to both texts first (`bindery.router.filters.sets.nodes.FORMS`)
    partial  whether the message's text need only begin with the reference
    """

    prefix: str
    forms: tuple[str, ...] = ()
    partial: bool = False


EXACT: Final = Modifier("")
MODIFIERS: Final = {
    modifier.prefix: modifier
    for modifier in (
        Modifier("&S:", ("reversed",), partial=True),
        Modifier("&P:", (), partial=True),
        Modifier("&s:", ("folded", "reversed"), partial=True),
        Modifier("&p:", ("folded",), partial=True),
        Modifier("&i:", ("folded",)),
    )
}


@dataclass(frozen=True, slots=True)
class TextReference:
    """A reference text without its modifier, in the modifier's forms."""

    modifier: Modifier
    text: str

    def matches(self, text: str) -> bool:
        """Whether a message's text satisfies the reference."""
        text = in_forms(text, self.modifier.forms)
        return text.startswith(self.text) if self.modifier.partial else text == self.text


#: Longer references are read each time.
_REMEMBERED_CHARS: Final = 256


def read_reference(reference: str) -> TextReference:
    """The modifier and text of a string reference; raises FilterError for an unknown modifier."""
    return _remembered(reference) if len(reference) <= _REMEMBERED_CHARS else _read(reference)


@lru_cache(maxsize=65536)
def _remembered(reference: str) -> TextReference:
    return _read(reference)


def _read(reference: str) -> TextReference:
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
    return TextReference(modifier, in_forms(reference[len(modifier.prefix) :], modifier.forms))
