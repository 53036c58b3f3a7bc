"""The reference evaluator of transformations: one message, one statement at a time, to the letter of docs/transform.md.

Nothing here raises for what a message holds: an expression that cannot be computed, or gives what its field cannot
hold, leaves the field as it was, and is counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from bindery.router.filters.ast import TROUBLE
from bindery.router.filters.scalar import Context
from bindery.router.filters.text import fold
from bindery.router.message import MAP_SECTIONS, MESSAGE_ID_TYPES, SECTION_FIELDS, Message
from bindery.router.transforms.statements import SECTIONS, Remove, Rename, Set, Target, Transformation
from bindery.router.values import Table, Value, identity

#: Code points or bytes of a computed value: statements that double a text must not fill the memory.
LONGEST: Final = 65_536


@dataclass(frozen=True, slots=True)
class Applied:
    """A changed message, and how many of the statements were left out because of run-time trouble."""

    message: Message
    troubled: int


def apply(transformation: Transformation, message: Message, *, clock_ms: int = 0) -> Applied:
    """What a transformation makes of a message; `clock_ms` is what UTC() gives."""
    troubled = 0
    for statement in transformation.statements:
        match statement:
            case Set(target, expression):
                value = Context(message, clock_ms).value(expression)
                if value is TROUBLE or not (value is None or fits(target, value)):
                    troubled += 1
                    continue
                message = _with(message, target, value)
            case Remove(target):
                message = _with(message, target, None)
            case Rename(target, to):
                name = _present(message, target)
                if name is not None:
                    value = getattr(message, target.section)[name]
                    message = _with(_with(message, target, None), to, value, keep_null=True)
    return Applied(message, troubled)


def fits(target: Target, value: Any) -> bool:
    """Whether a field can hold a value that is not null."""
    if isinstance(value, str | bytes) and len(value) > LONGEST:
        return False
    if target.section in MAP_SECTIONS:
        return True
    kind = SECTION_FIELDS[target.section][target.name]
    if target.name == "priority":
        return type(value) is int and 0 <= value <= 255  # AMQP 1.0 part 3, §3.2.1: an unsigned byte
    if target.name == "ttl":
        return type(value) is int and value >= 0
    return type(value) is kind if kind is not None else type(value) in MESSAGE_ID_TYPES


def _present(message: Message, target: Target) -> str | None:
    """The name under which a section has a field; of several that differ in case the last. None when it has none."""
    content: Mapping[str, Value] = getattr(message, target.section)
    if target.any_case:
        name = fold(target.name)
        return next((key for key in reversed(list(content)) if fold(key) == name), None)
    return target.name if target.name in content else None


def _with(message: Message, target: Target, value: Value, *, keep_null: bool = False) -> Message:
    """The message with a field set, or without it (and without what is called alike) when the value is null.

    A changed entry keeps its place and its name, a new one stands last. `keep_null`: an entry that holds null is kept.
    """
    content: dict[str, Value] = dict(getattr(message, target.section))
    names = [target.name]
    if target.any_case:
        folded = fold(target.name)
        names = [key for key in content if fold(key) == folded] or names
    if value is None and not keep_null:
        for name in names:
            content.pop(name, None)
    else:
        for name in names[:-1]:  # of names that differ in case alone one is left
            content.pop(name)
        content[names[-1]] = value
    held: Any = Table(content) if target.section in MAP_SECTIONS else content
    return replace(message, **{target.section: held})


def content_of(message: Message) -> str:
    """A text shared exactly by forms of a message with the same content, values by type; order plays no part."""
    return "\n".join(identity(Table(getattr(message, section))) for section in SECTIONS)
