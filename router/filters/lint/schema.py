"""What kinds of values the messages of a queue really hold, as far as a sample shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from bindery.router.columns import NESTED, TAG_OF, BatchView, Ref
from bindery.router.filters.families import FAMILIES
from bindery.router.filters.fields import field_type
from bindery.router.message import MAP_SECTIONS, MESSAGE_ID_TYPES

_FAMILY_OF_TAG: Final = {tag: FAMILIES[kind] for kind, tag in TAG_OF.items()}
_MESSAGE_ID: Final = frozenset(FAMILIES[kind] for kind in MESSAGE_ID_TYPES)


@dataclass(frozen=True, slots=True)
class ObservedSchema:
    """How many of `messages` sampled messages held each family of value in each field."""

    messages: int
    families: Mapping[Ref, Mapping[str, int]]

    @classmethod
    def of(cls, view: BatchView) -> ObservedSchema:
        """The families in one batch of messages: map sections by key, and the two value sections."""
        families: dict[Ref, dict[str, int]] = {}
        refs = [Ref("amqp_value"), Ref("amqp_sequence")]
        for section in MAP_SECTIONS:
            keys = view.batch.column(section).keys.unique().to_pylist()
            refs += [Ref(section, key) for key in keys]
        for ref in refs:
            counts = np.bincount(view.column(ref).tag, minlength=NESTED + 1)
            seen: dict[str, int] = {}
            for tag, family in _FAMILY_OF_TAG.items():
                if counts[tag]:
                    seen[family] = seen.get(family, 0) + int(counts[tag])
            if seen:
                families[ref] = seen
        return cls(view.rows, families)

    @property
    def properties(self) -> list[str]:
        """The application properties that were seen."""
        return [ref.name for ref in self.families if ref.section == "application_properties"]


def fixed_families(ref: Ref) -> frozenset[str] | None:
    """The families that a field can hold by its definition; None when any value may stand there."""
    kind = field_type(ref)
    if kind is None:
        return _MESSAGE_ID if ref.section == "properties" else None
    return frozenset({FAMILIES[kind]})
