"""Nodes of CloudEvents SQL beside those that all languages share (`bindery.router.filters.ast`)."""

from __future__ import annotations

from dataclasses import dataclass

from bindery.router.filters.ast import Call, Condition, Node, Operand


@dataclass(frozen=True, slots=True)
class Cast(Operand):
    """A value as a `string`, `integer` or `boolean` (§3.7); trouble where it is none."""

    to: str
    operand: Node


@dataclass(frozen=True, slots=True)
class CastLike(Operand):
    """A value as one of the type that another value has."""

    operand: Node
    like: Node


@dataclass(frozen=True, slots=True)
class Invocation(Call):
    """A function of `bindery.router.filters.cesql.functions`; its arguments are cast to what it takes."""


@dataclass(frozen=True, slots=True)
class InOrder(Condition):
    """`first op second op …` with op one of AND OR XOR, from left to right; the first error is the result (§3.4.2)."""

    op: str
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class MemberOf(Condition):
    """Equal to a member, which were cast to the operand's type; from left to right, up to the first that is equal."""

    operand: Node
    members: tuple[Node, ...]
