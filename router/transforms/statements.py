"""What a transformation is made of: statements about single fields of a message, in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from bindery.router.filters.ast import Node
from bindery.router.message import MAP_SECTIONS, SECTION_FIELDS

#: Fields of the header that the broker counts or decides at a delivery: nobody sets them.
_OF_DELIVERY: Final = frozenset({"delivery_count", "first_acquirer"})
#: Fields of fixed sections that may be set, by section.
SETTABLE: Final[Mapping[str, frozenset[str]]] = {
    section: frozenset(fields) - _OF_DELIVERY for section, fields in SECTION_FIELDS.items()
}
#: Sections in which statements change something.
SECTIONS: Final = (*SECTION_FIELDS, *MAP_SECTIONS)


@dataclass(frozen=True, slots=True)
class Target:
    """One field: a section and a name. `any_case`: an application property that is found in whatever case."""

    section: str
    name: str
    any_case: bool = False

    def __str__(self) -> str:
        return f"{self.section}.{self.name}"


@dataclass(frozen=True, slots=True)
class Set:
    """`SET target = expression`: null removes the field, run-time trouble leaves it as it was."""

    target: Target
    expression: Node


@dataclass(frozen=True, slots=True)
class Remove:
    """`REMOVE target`."""

    target: Target


@dataclass(frozen=True, slots=True)
class Rename:
    """`RENAME target TO to`: nothing for a message without the field, else what `to` held is replaced."""

    target: Target
    to: Target


Statement = Set | Remove | Rename


@dataclass(frozen=True, slots=True)
class Transformation:
    """Statements that are carried out in order, each on what those before have left. Equal when the texts are."""

    text: str
    statements: tuple[Statement, ...] = field(compare=False, repr=False)

    @property
    def sections(self) -> tuple[str, ...]:
        """The sections of a message in which it may change something, in the order of SECTIONS."""
        targets = {one.target.section for one in self.statements}
        targets |= {one.to.section for one in self.statements if isinstance(one, Rename)}
        return tuple(section for section in SECTIONS if section in targets)
