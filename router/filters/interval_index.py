"""An index from (group, value of one field) to the filters whose set of values has it: ranges, negations, IS NULL."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Final

import numpy as np
import numpy.typing as npt

from bindery.router.columns import BINARY, BOOL, DOUBLE, INT, NESTED, STRING, TIMESTAMP, Ref
from bindery.router.filters.field_index import FieldIndex, LookUp, Runs
from bindery.router.filters.value_sets import EVERYTHING, NAN, Cut, ValueSet, family_of
from bindery.router.filters.vector import IN_TROUBLE, Source
from bindery.router.values import INT64_MAX, INT64_MIN

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]

_TEXTS: Final = (STRING, BINARY)


class Stretches:
    """The stretches of values between the cuts of some sets: stretch n lies behind n of them.

    No cut tells two values of a stretch apart, so that a value's stretch decides in which sets it is.
    """

    def __init__(self, cuts: Iterable[Cut], *, strict: bool) -> None:
        ordered = sorted(set(cuts))
        self._place = {cut: place for place, cut in enumerate(ordered)}
        self._starts = np.full(IN_TROUBLE + 1, -1, np.int32)
        for tag in range(NESTED + 1):
            self._starts[tag] = bisect_right(ordered, (family_of(tag, strict=strict),))
        self._nan = bisect_right(ordered, (NAN,))
        inside: dict[int, list[Cut]] = {}
        for cut in ordered:
            if len(cut) > 1:
                inside.setdefault(cut[0], []).append(cut[1:])
        of_tag = {tag: inside.get(family_of(tag, strict=strict), []) for tag in range(NESTED + 1)}
        self._whole = {tag: _least_integers(of_tag[tag]) for tag in (INT, TIMESTAMP)}
        self._doubles = _least_doubles(of_tag[DOUBLE])
        self._flags = np.array([bisect_left(of_tag[BOOL], (flag, True)) for flag in (False, True)], np.int32)
        self._texts = {tag: of_tag[tag] for tag in _TEXTS if of_tag[tag]}

    def __len__(self) -> int:
        return len(self._place) + 1

    def before(self, cut: Cut) -> int:
        """The stretch that ends at a cut given at construction."""
        return self._place[cut]

    def of(self, source: Source) -> Codes:
        """int32[rows]: the stretch of each row's value; -1 for a body that cannot be parsed."""
        column = source.column
        found = self._starts[column.tag]
        for tag, limits in self._whole.items():
            if source.held >> tag & 1 and len(limits):
                rows = np.flatnonzero(column.tag == tag)
                found[rows] += np.searchsorted(limits, column.num[rows], side="right").astype(np.int32)
        if source.held >> DOUBLE & 1:
            rows = np.flatnonzero(column.tag == DOUBLE)
            values = column.dbl[rows]
            found[rows] += np.searchsorted(self._doubles, values, side="right").astype(np.int32)
            found[rows[np.isnan(values)]] = self._nan
        if source.held >> BOOL & 1:
            rows = np.flatnonzero(column.tag == BOOL)
            found[rows] += self._flags[column.num[rows]]
        for tag, cuts in self._texts.items():
            if source.held >> tag & 1:
                rows = np.flatnonzero(column.tag == tag)
                table = [
                    bisect_left(cuts, (text, True)) if kind == tag else 0
                    for kind, text in zip(source.texts.kind.tolist(), source.texts.values, strict=True)
                ]
                found[rows] += np.array(table, np.int32)[column.code[rows]]
        return found


def _least_integers(cuts: Sequence[Cut]) -> Ints:
    """For each cut among numbers, ascending, the least 64-bit integer behind it; none for those behind all."""
    found = (_least_integer(value, after=after) for value, after in cuts)
    return np.array([max(least, INT64_MIN) for least in takewhile(lambda least: least <= INT64_MAX, found)], np.int64)


def _least_integer(value: float, *, after: bool) -> int:
    if math.isinf(value):
        return INT64_MIN if value < 0 else INT64_MAX + 1
    return math.floor(value) + 1 if after else math.ceil(value)


def _least_doubles(cuts: Sequence[Cut]) -> npt.NDArray[np.float64]:
    """For each cut among numbers, ascending, the least double behind it; none for the one behind infinity."""
    return np.array([_least_double(value, after=after) for value, after in cuts if (value, after) != (math.inf, True)])


def _least_double(value: float, *, after: bool) -> float:
    double = float(value)  # of an integer the nearest; the comparison with it is exact
    return double if double > value or (double == value and not after) else math.nextafter(double, math.inf)


class IntervalIndex(FieldIndex):
    """For one field: (group, stretch of values) -> entries, each once.

    Each group has a segment tree over the stretches that its own cuts make: an interval is taken apart into at most
    two nodes a level, and a value lies in the nodes from its leaf up to the root. So n intervals take n log n places,
    and a value finds those that it lies in within log n steps, whatever they overlap.

    groups, entries   int32[m]  the entry `entries[i]` of group `groups[i]` waits for a value of `sets[i]`
    """

    def __init__(self, ref: Ref, groups: Codes, sets: Sequence[ValueSet], entries: Codes, *, strict: bool) -> None:
        super().__init__(ref, groups, entries)
        self._stretches = Stretches((cut for one in sets for interval in one for cut in interval), strict=strict)
        self._width = len(self._stretches)
        self.meets_absent = any(one[0][0] == EVERYTHING[0][0] for one in sets)
        sizes = [len(one) for one in sets]
        first = np.array([self._stretches.before(low) for one in sets for low, _ in one], np.int64)
        last = np.array([self._stretches.before(high) for one in sets for _, high in one], np.int64)
        group = np.repeat(self._place_of_group(groups), sizes)
        # the cuts of each group, one group after the other
        self._cuts, places = np.unique(
            np.concatenate([group, group]) * self._width + np.concatenate([first, last]), return_inverse=True
        )
        self._cuts_before = np.searchsorted(self._cuts, np.arange(self.waiting_groups + 1) * self._width)
        self._leaves = np.diff(self._cuts_before) + 1
        self._nodes_before = 2 * (np.cumsum(self._leaves) - self._leaves)
        # an interval from cut a to cut b, as places in its group, has the leaves behind a up to b
        low, high = (places.reshape(2, -1) - self._cuts_before[group]) + 1
        self.runs = self._hang(group, low, high, np.repeat(entries, sizes))
        self._filled = np.diff(self.runs.starts) > 0

    def _hang(self, group: Ints, low: Ints, high: Ints, entries: Codes) -> Runs:
        """The entries of each node: those of whose leaves, `low` up to before `high`, it is a largest part."""
        left, right, base = low + self._leaves[group], high + self._leaves[group], self._nodes_before[group]
        nodes, hung = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
        while len(left):
            for taken, node in ((left & 1 == 1, left), (right & 1 == 1, right - 1)):
                nodes.append((base + node)[taken])
                hung.append(entries[taken])
            left, right = (left + 1) >> 1, right >> 1
            open_ = left < right
            left, right, base, entries = left[open_], right[open_], base[open_], entries[open_]
        return Runs(np.concatenate(nodes), np.concatenate(hung), 2 * int(self._leaves.sum()))

    def on(self, source: Source) -> LookUp:
        """See `FieldIndex.on`: a list for each level of the group's tree that has entries where the value lies."""
        stretches = self._stretches.of(source)

        def look_up(groups: Codes, rows: Ints) -> Iterator[tuple[Ints, Ints]]:
            held = stretches[rows]
            asked = np.flatnonzero(held >= 0)
            asked, local, held = self._local(groups, asked, held[asked])
            behind = np.searchsorted(self._cuts, local * self._width + held) - self._cuts_before[local]
            node, base = behind + self._leaves[local], self._nodes_before[local]
            while len(node):
                lists = base + node
                hit = self._filled[lists]
                yield asked[hit], lists[hit]
                node >>= 1
                below = node > 0
                if not below.all():
                    asked, node, base = asked[below], node[below], base[below]

        return look_up
