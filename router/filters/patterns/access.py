"""Which values lead a message to a pattern that it may fit: those of any element."""

from __future__ import annotations

from dataclasses import replace

from bindery.router.filters.access import Access, Lead, Within, access, access_of
from bindery.router.filters.patterns.nodes import AnyElement
from bindery.router.filters.payload import PAYLOAD
from bindery.router.filters.value_sets import PRESENCE, intersection


@access(AnyElement)
def _any_element(node: AnyElement) -> Access | None:
    """The keys of the part; none of bodies where no value would do: those that cannot be read must be looked at."""
    found = access_of(node.part)
    if found is None or (node.over.ref.section == PAYLOAD and not found.keys):
        return None
    return replace(found, keys=tuple(map(_there, found.keys)))


def _there(key: Lead) -> Lead:
    """An element is never absent."""
    return replace(key, values=intersection((key.values, PRESENCE))) if isinstance(key, Within) else key
