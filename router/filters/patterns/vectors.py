"""The nodes of patterns in the vectorised evaluator: a pair of a message and a filter is opened into its elements."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from bindery.router.filters.ast import FALSE, TROUBLED
from bindery.router.filters.field_index import ranges
from bindery.router.filters.pairs import Pairs, condition
from bindery.router.filters.patterns.evaluation import in_network
from bindery.router.filters.patterns.nodes import AnyElement, InNetwork
from bindery.router.filters.spread import holder_of
from bindery.router.filters.vector import Truths, truth_per_distinct

#: Elements that are looked at together; bounds memory.
_TOGETHER: Final = 1 << 18


@condition(AnyElement)
def _any_element(node: AnyElement, pairs: Pairs) -> Truths:
    ref = node.over.ref
    spots = pairs.batch.spots(ref)
    holder = holder_of(ref)
    first, size = spots.in_holders(pairs.rows if holder is None else pairs.chosen[holder])
    truths = np.full(len(pairs), FALSE, np.uint8)
    truths[spots.in_trouble(pairs.rows)] = TROUBLED
    places = np.flatnonzero(size)
    for some in _portions(size[places]):
        of = places[some]
        opened = pairs.at(np.repeat(of, size[of]), ref, ranges(first[of], size[of]))
        ends = np.cumsum(size[of])
        truths[of] = np.maximum.reduceat(opened.truth(node.part), ends - size[of])
    return truths


def _portions(sizes: np.ndarray) -> list[slice]:
    """Ranges of pairs with about `_TOGETHER` elements each."""
    ends = np.cumsum(sizes)
    found: list[slice] = []
    first = 0
    while first < len(sizes):
        before = int(ends[first - 1]) if first else 0
        last = max(int(np.searchsorted(ends, before + _TOGETHER, side="right")), first + 1)
        found.append(slice(first, last))
        first = last
    return found


@condition(InNetwork)
def _in_network(node: InNetwork, pairs: Pairs) -> Truths:
    return truth_per_distinct(partial(in_network, network=node.network), pairs.operand(node.operand))
