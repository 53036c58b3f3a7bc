"""Objects of another broker's configuration, and what becomes of each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final


class Outcome(StrEnum):
    """What became of an object of the source."""

    EXACT = "exact"
    DIFFERENT = "different"
    LEFT_OUT = "not carried over"


class Weight(StrEnum):
    """What a note means for its object: nothing is missing, something differs, a key is unknown, all of it is lost."""

    NO_EFFECT = "no effect"
    DIFFERENCE = "difference"
    UNKNOWN = "unknown"
    LOST = "lost"


#: What brokers do for consumers, and have for themselves.
NO_CONSUMERS: Final = "there are no consumers that hold messages; readers read the table"
NO_RETRIES: Final = "nothing is delivered again of itself; readers read the table"
OF_BROKER: Final = "of the broker itself; no message goes elsewhere for it"


def late(broker: str) -> str:
    """How limits of queues are kept."""
    return f"kept by maintenance, within about a minute; {broker} does it at once"


_VARIABLE: Final = re.compile(r"\$\{[^{}]*\}")


def _texts(value: Any) -> Iterator[str]:
    """The texts in nested data, names included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield str(name)
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


@dataclass(frozen=True, slots=True)
class Example:
    """A message, in its JSON form, and the queues that it reaches in the source; where it goes here is computed."""

    message: Mapping[str, Any]
    there: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Note:
    """What is to be said of an object, or of one key of it; `hint` says what to do."""

    weight: Weight
    text: str
    key: str = ""
    hint: str | None = None
    example: Example | None = None


@dataclass(slots=True)
class SourceObject:
    """One object of the source: its kind and name there, where it stands, and what it declares here.

    `declares` are objects of a definitions document with the sections that they belong to. An object that declares
    nothing is carried over exactly when nothing is missing here: the default exchange, for example.
    """

    kind: str
    name: str
    place: str
    vhost: str | None = None
    declares: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    @property
    def outcome(self) -> Outcome:
        """The heaviest of what its notes say."""
        weights = {note.weight for note in self.notes}
        if Weight.LOST in weights:
            return Outcome.LEFT_OUT
        return Outcome.DIFFERENT if weights & {Weight.DIFFERENCE, Weight.UNKNOWN} else Outcome.EXACT

    def note(
        self, weight: Weight, text: str, key: str = "", *, hint: str | None = None, example: Example | None = None
    ) -> None:
        """Add a note, but for a key that has one."""
        if not key or all(note.key != key for note in self.notes):
            self.notes.append(Note(weight, text, key, hint, example))

    def idle(self, key: str, why: str) -> None:
        """A key of which nothing comes here, and for which nothing is missing."""
        self.note(Weight.NO_EFFECT, why, key)

    def differs(self, key: str, text: str, *, hint: str | None = None, example: Example | None = None) -> None:
        """A key that means something else here, or nothing."""
        self.note(Weight.DIFFERENCE, text, key, hint=hint, example=example)

    def unknown(self, key: str, text: str = "nobody knows this key: nothing comes of it") -> None:
        """A key that the reader does not know."""
        self.note(Weight.UNKNOWN, text, key)

    def refuse_variables(self, whose: str) -> None:
        """Leave out what declares a text with a variable in it, `${name}`: nobody says what it stands for."""
        texts = [declared for _, declared in self.declares]
        found = next((match[0] for text in _texts(texts) if (match := _VARIABLE.search(text))), None)
        if found is not None:
            self.lost(f"{found} is a variable {whose}", hint="write its value in a copy of the file")

    def lost(self, text: str, key: str = "", *, hint: str | None = None) -> None:
        """Why all of the object is left out; it declares nothing any more."""
        self.declares.clear()
        self.notes.append(Note(Weight.LOST, text, key, hint))
