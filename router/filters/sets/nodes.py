"""Syntax-tree nodes that filter sets add to those of the text languages. All are two-valued.

An absent field and a null one never satisfy a reference; `Present` alone looks at which of the two it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from bindery.router.filters.ast import Condition, Field, Node, Operand
from bindery.router.filters.text import fold


def _reversed(text: str) -> str:
    return text[::-1]


#: Forms that reduce modifiers to equality and prefixes: a suffix is a prefix read backwards.
FORMS: Final[Mapping[str, Callable[[str], str]]] = {"folded": fold, "reversed": _reversed}


def in_forms(text: str, forms: Iterable[str]) -> str:
    """A text in other forms, one after the other."""
    for form in forms:
        text = FORMS[form](text)
    return text


@dataclass(frozen=True, slots=True)
class Equals(Condition):
    """The field holds a value equal to the reference, family by family (`bindery.router.equality`)."""

    field: Node
    reference: Node


@dataclass(frozen=True, slots=True)
class Present(Condition):
    """The entry is there, with a value or with a null."""

    field: Field


@dataclass(frozen=True, slots=True)
class TextForm(Operand):
    """The field's text in another form (`FORMS`), one after the other; null where it holds no text."""

    field: Field
    forms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StartsWith(Condition):
    """The field holds a text that begins with the reference."""

    field: Node
    reference: Node


@dataclass(frozen=True, slots=True)
class NestedMatches(Condition):
    """The field holds a list or map that satisfies the reference, nested modifiers included."""

    field: Node
    reference: Node


@dataclass(frozen=True, slots=True)
class TopicMatches(Condition):
    """The field's text matches a topic pattern; an absent field matches only the pattern "#"."""

    field: Node
    pattern: Node


@dataclass(frozen=True, slots=True)
class Accepts(Condition):
    """The part is true: what a group sees of a member, so that not true is false and never unknown."""

    part: Node
