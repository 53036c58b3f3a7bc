"""Nodes of patterns beside those that all languages and filter sets share."""

from __future__ import annotations

from dataclasses import dataclass

from bindery.router.filters.ast import Condition, Field, Node


@dataclass(frozen=True, slots=True)
class AnyElement(Condition):
    """Some of what the reference finds fits the part; false where it finds nothing.

    `over` leads through lists (`bindery.router.filters.spread`). In the part a field that it leads to is the one that
    is chosen, so that conditions on several members of an element are about one element. A body that cannot be read is
    trouble.
    """

    over: Field
    part: Node


@dataclass(frozen=True, slots=True)
class InNetwork(Condition):
    """The text is an address of IPv4 or IPv6 within a network; two-valued."""

    operand: Node
    network: str
