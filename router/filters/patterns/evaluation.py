"""The nodes of patterns in the scalar reference, to the letter."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import Any

from bindery.router.columns import Ref
from bindery.router.filters.ast import TROUBLE, Trouble
from bindery.router.filters.fields import DOCUMENT, read
from bindery.router.filters.patterns.nodes import AnyElement, InNetwork
from bindery.router.filters.payload import parsed, referred
from bindery.router.filters.scalar import Context, Result, any_of, rule
from bindery.router.filters.spread import ELEMENTS, holder_of, members, of_elements, of_property
from bindery.router.filters.unparsable import Unparsable

#: No longer text is an address: eight groups of four digits, the last two as an address of IPv4.
_LONGEST_ADDRESS = 45


def found(context: Context, ref: Ref) -> list[Any] | Trouble:
    """What a reference through lists finds, inside what was chosen around it."""
    if ref.section == ELEMENTS:
        return of_property(read(context.message, of_elements(ref)))
    holder = holder_of(ref)
    if holder is not None:
        return members(context.chosen[holder], ref)
    try:
        body = parsed(read(context.message, DOCUMENT), referred(ref)[0])
    except Unparsable:
        return TROUBLE
    return members(body, ref)


@rule(AnyElement)
def _any_element(node: AnyElement, context: Context) -> Result:
    ref = node.over.ref
    elements = found(context, ref)
    if isinstance(elements, Trouble):
        return TROUBLE
    return any_of(*(context.at(ref, element).value(node.part) for element in elements))


@rule(InNetwork)
def _in_network(node: InNetwork, context: Context) -> Result:
    return in_network(context.value(node.operand), node.network)


def in_network(value: Result, network: str) -> bool:
    """Whether a value is the text of an address within a network."""
    if not isinstance(value, str) or len(value) > _LONGEST_ADDRESS or "%" in value:
        return False
    try:
        return ipaddress.ip_address(value) in _network(network)
    except ValueError:
        return False


@lru_cache(maxsize=4096)
def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    return ipaddress.ip_network(text)
