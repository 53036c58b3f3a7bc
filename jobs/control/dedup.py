"""The key `dedup` of a job file: by what a message is known that repeats one, and for how long (docs/jobs.md)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from pydantic import Field, field_validator

from bindery.jobs.control.parts import Part, Text
from bindery.router.message import MAP_SECTIONS, SECTION_FIELDS
from bindery.router.spelling import did_you_mean, nearest

#: Columns of a message that have one value each.
_COLUMNS: Final = ("exchange", "routing_key", "connection", "body", "amqp_value", "amqp_sequence")
_PROPERTIES: Final = "properties"
#: A year and a day, in seconds.
_LONGEST: Final = 366 * 86_400
_MOST_FIELDS: Final = 16


class DedupOptions(Part):
    """By which fields messages are known that repeat one, within how many seconds, and whether those are kept.

    `key` are paths of fields, each with the section that it stands in: "properties.message_id", "routing_key".
    """

    key: tuple[Text, ...] = Field(min_length=1, max_length=_MOST_FIELDS)
    window: int = Field(ge=1, le=_LONGEST, strict=True)
    keep: bool = False

    @field_validator("key", mode="before")
    @classmethod
    def _one_or_more(cls, key: Any) -> Any:
        return key if isinstance(key, list | tuple) else (key,)

    @field_validator("key")
    @classmethod
    def _known_fields(cls, key: tuple[str, ...]) -> tuple[str, ...]:
        found = tuple(_path(text) for text in key)
        for path in found:
            if found.count(path) > 1:
                raise ValueError(f"{path!r} is named twice")
        return found

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """Column of the message and the field in it ("" for the column itself), for each part of the key."""
        return tuple((column, name) for column, _, name in (path.partition(".") for path in self.key))

    @property
    def in_pin(self) -> Mapping[str, str]:
        """What the pin of a batch says of it."""
        return {"key": json.dumps(self.key), "window": str(self.window), "keep": json.dumps(self.keep)}

    @classmethod
    def of_pin(cls, stated: Mapping[str, str]) -> DedupOptions | None:
        """What the pin of a batch says; None where it says nothing. Raises ValueError for what it cannot say."""
        return cls(**{name: json.loads(text) for name, text in stated.items()}) if stated else None


def _path(text: str) -> str:
    """A field as its path. Raises ValueError for one that no message has."""
    column, dot, name = text.partition(".")
    fields = SECTION_FIELDS.get(column)
    if dot and name and (column in MAP_SECTIONS or (fields is not None and name in fields)):
        return text
    if not dot and column in _COLUMNS:
        return text
    if not dot and column in SECTION_FIELDS[_PROPERTIES]:
        return f"{_PROPERTIES}.{column}"
    if not dot and (fields is not None or column in MAP_SECTIONS):
        raise ValueError(f"{text!r} is a whole section; name a field of it, such as {_example(column)!r}")
    known = [
        *SECTION_FIELDS[_PROPERTIES],
        *_COLUMNS,
        *(f"{section}.{field}" for section, names in SECTION_FIELDS.items() for field in names),
    ]
    hint = did_you_mean(nearest(text, known), then="such as message_id, routing_key or application_properties.NAME")
    raise ValueError(f"{text!r} is no field of a message: {hint}")


def _example(section: str) -> str:
    return f"{section}.{next(iter(SECTION_FIELDS.get(section, ['NAME'])))}"
