"""Nodes of filters under compatibility modes beside those of the languages (`bindery.router.filters.ast`)."""

from __future__ import annotations

from dataclasses import dataclass

from bindery.router.filters.ast import Condition, In, Like, Node, Rules


@dataclass(frozen=True, slots=True)
class Same(Condition):
    """`left = right` with a say on nulls; `<>` is its negation, and so true where the types differ.

    both, left, right  the truth where both are null, the left one alone, the right one alone (None: unknown)
    bytes              whether a string equals the binary of its bytes
    """

    left: Node
    right: Node
    rules: Rules
    both: bool | None
    one_left: bool | None
    one_right: bool | None
    bytes: bool = False


@dataclass(frozen=True, slots=True)
class OneOf(Condition):
    """Equal to a member, strings and binaries by their bytes; a null member equals nothing (RabbitMQ's IN)."""

    operand: Node
    members: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class InTurn(Condition):
    """AND and OR as Broker-J has them: part after part, up to the first that ends it.

    AND: the first part that is not true is the result. OR: the first that is true, or else the last part.
    """

    conjunction: bool
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class OnText(Condition):
    """A LIKE or IN that is unknown on a value that is no string."""

    test: Like | In


@dataclass(frozen=True, slots=True)
class Flag(Condition):
    """A value read as a condition: false where it is no boolean."""

    operand: Node
