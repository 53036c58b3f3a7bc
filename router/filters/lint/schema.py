"""What kinds of values the messages of a queue really hold, as far as a sample shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from bindery.router.columns import BINARY, BOOL, DOUBLE, INT, NESTED, STRING, TIMESTAMP, BatchView, Ref
from bindery.router.message import HEADER_DEFAULTS, MAP_SECTIONS, SECTION_FIELDS
from bindery.router.values import Table, Timestamp, Value

#: Families of text filters: unlike ones never compare true (docs/filters.md).
NUMBER: Final = "number"
_FAMILY_OF_TAG: Final = {
    BOOL: "boolean",
    INT: NUMBER,
    DOUBLE: NUMBER,
    TIMESTAMP: NUMBER,
    STRING: "string",
    BINARY: "binary",
    NESTED: "nested",
}
_FAMILY_OF_TYPE: Final[Mapping[type, str]] = {
    bool: "boolean",
    int: NUMBER,
    float: NUMBER,
    Timestamp: NUMBER,
    str: "string",
    bytes: "binary",
    tuple: "nested",
    Table: "nested",
}
_DERIVED: Final = {
    "delivery_mode": str,
    "durability": str,
    "redelivered": bool,
    "attempts": int,
    "user_text": str,
    "address": str,
    "expiration": Timestamp,
    "body_size": int,
}
_NEVER_NULL_DERIVED: Final = frozenset(_DERIVED) - {"user_text", "attempts", "expiration"}


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


def family(value: Value) -> str | None:
    """The family of a value; None for null."""
    return _FAMILY_OF_TYPE.get(type(value))


def fixed_families(ref: Ref) -> frozenset[str] | None:
    """The families that a field can hold by its definition; None when any value may stand there."""
    if ref.section == "derived":
        kind: type | None = _DERIVED.get(ref.name)
        return frozenset({_FAMILY_OF_TYPE[kind]}) if kind else None
    kinds = SECTION_FIELDS.get(ref.section)
    if kinds is None:
        return frozenset({"string"}) if ref.section == "exchange" else None
    kind = kinds.get(ref.name)
    return frozenset({_FAMILY_OF_TYPE[kind]}) if kind else frozenset({NUMBER, "string", "binary"})


def never_null(ref: Ref) -> bool:
    """Whether a field reads as a value in every message."""
    if ref.section == "header":
        return ref.name in HEADER_DEFAULTS
    return ref.section == "derived" and ref.name in _NEVER_NULL_DERIVED
