"""Many filters at once: which members of a group accept which messages.

A group holds the filters that a message meets together (the bindings of one exchange and key). Compiling finds
for each filter an access predicate (`router.filters.access`) and a shape (`router.filters.shapes`). Selecting
then takes three steps: the keys that a message holds lead to the filters that it may satisfy; candidates of one
shape are evaluated together; accepted filters become members again. Equal filters of a group are one entry.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from router.columns import BatchView, Ref
from router.filters import like_access, vector_rules  # noqa: F401  # they register rules of the shared nodes
from router.filters.access import ALWAYS, Entry, Key, entries
from router.filters.ast import TROUBLED, TRUE, Node
from router.filters.fields import DERIVED
from router.filters.filter import Filter
from router.filters.key_index import KeyIndex, Runs
from router.filters.shapes import Shape, Shapes
from router.filters.vector import Batch, Pairs, Truths

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]

#: Candidates that are evaluated at a time; bounds memory and keeps the passes in the processor's cache.
BLOCK = 1 << 18


@dataclass(frozen=True, slots=True)
class Selection:
    """Accepted and troubled members, each sorted by (pair, member).

    pair, member                    int64[k], int32[k]  members that accept the message of a pair
    troubled_pair, troubled_member  int64[t], int32[t]  members that do not accept and met trouble
    """

    pair: Ints
    member: Codes
    troubled_pair: Ints
    troubled_member: Codes


@dataclass(slots=True)
class _Unit:
    """A distinct filter: the keys that lead to it (None: every message does), its shape and row there."""

    keys: tuple[Key, ...] | None
    shape: int
    row: int


class FilterGroups:
    """Filters in groups, compiled; picklable.

    `select` answers for pairs (message row, group) which members of the group accept the message. Its work
    depends on the members whose access predicate a message satisfies, not on the number of members.
    """

    def __init__(self, groups: Sequence[Sequence[Filter]]) -> None:
        units, member_units = _number_filters(groups)
        sizes = np.array([len(group) for group in groups], np.int64)
        self.groups = len(groups)
        self._widest = int(sizes.max(initial=0))
        compiled = _compile_units(units)
        self._shapes = compiled.shapes
        self._always_shape = compiled.always_shape
        self._unit_shape = np.array([unit.shape for unit in compiled.units], np.int32)
        self._unit_row = np.array([unit.row for unit in compiled.units], np.int64)
        self._lay_out(compiled.units, np.repeat(np.arange(len(groups)), sizes), member_units, sizes)
        self._batches: WeakKeyDictionary[BatchView, _BatchState] = WeakKeyDictionary()

    def _lay_out(self, units: list[_Unit], member_group: Ints, member_unit: Codes, sizes: Ints) -> None:
        """Entries (distinct filters per group), the members of each, and the indexes that lead to them."""
        position = (np.arange(len(member_group)) - np.repeat(np.cumsum(sizes) - sizes, sizes)).astype(np.int32)
        width = max(len(units), 1)
        distinct, entry = np.unique(member_group * width + member_unit, return_inverse=True)
        entry_group = (distinct // width).astype(np.int32)
        self._entry_unit = (distinct % width).astype(np.int32)
        self._members = Runs(entry.astype(np.int64), position, len(distinct))
        self._one_to_one = len(distinct) == len(member_group)
        has_keys = np.array([unit.keys is not None for unit in units], np.bool_)
        always = np.flatnonzero(~has_keys[self._entry_unit])
        self._always = Runs(entry_group[always].astype(np.int64), always.astype(np.int32), self.groups)
        self._indexes = list(_indexes(units, entry_group, self._entry_unit))
        self._may_repeat = any(unit.keys and len({_index_of(key) for key in unit.keys}) > 1 for unit in units)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_batches"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._batches = WeakKeyDictionary()

    def select(self, view: BatchView, rows: Ints, groups: Codes) -> Selection:
        """The members that accept, and those in trouble, for each pair of a batch row and a group.

        rows    int64[p]  rows of the batch
        groups  int32[p]  numbers of groups, in the order given at construction
        """
        state = self._batches.get(view)
        if state is None:
            state = self._batches[view] = _BatchState(Batch(view))
        found = [self._judge(state, rows, block) for block in self._candidates(state, rows, groups)]
        return Selection(*self._collect(found, TRUE), *self._collect(found, TROUBLED))

    def candidates(self, view: BatchView, rows: Ints, groups: Codes) -> int:
        """How many (pair, filter) combinations `select` looks at: the measure of its work."""
        state = _BatchState(Batch(view))
        return sum(len(block.pair) for block in self._candidates(state, rows, groups))

    def _candidates(self, state: _BatchState, rows: Ints, groups: Codes) -> Iterator[_Candidates]:
        """Blocks of candidates, ordered by pair; in each an entry stands once per pair."""
        ways: list[_Way] = []
        for index in self._indexes:
            if index.ref.section != DERIVED and not state.batch.view.holds(index.ref):
                continue
            pairs, lists = index.find(groups, state.numbers(index)[rows])
            if len(pairs):
                ways.append(_Way(pairs, lists, index.runs))
        if len(self._always.entries):
            pairs = np.flatnonzero(self._always.sizes(groups))
            ways.append(_Way(pairs, groups[pairs].astype(np.int64), self._always))
        for first, last in _blocks(ways, len(rows)):
            parts = [way.expand(first, last) for way in ways]
            if len(parts) == 1:
                yield parts[0]
                continue
            pair = np.concatenate([part.pair for part in parts])
            entry = np.concatenate([part.entry for part in parts])
            if self._may_repeat:
                keys = np.sort(pair * len(self._entry_unit) + entry, kind="stable")  # a few sorted runs
                keys = keys[np.append(True, keys[1:] != keys[:-1])[: len(keys)]]
                pair, entry = keys // len(self._entry_unit), (keys % len(self._entry_unit)).astype(np.int32)
            yield _Candidates(pair, entry)

    def _judge(self, state: _BatchState, rows: Ints, block: _Candidates) -> tuple[_Candidates, Truths]:
        unit = self._entry_unit[block.entry]
        shape = self._unit_shape[unit]
        truths = np.full(len(block.pair), TRUE, np.uint8)
        for number, places in _by_number(shape):
            if number == self._always_shape:
                continue
            chosen = slice(None) if places is None else places
            tree = self._shapes[number].tree
            pairs = Pairs(
                state.batch,
                rows[block.pair[chosen]],
                self._shapes[number].parameters,
                self._unit_row[unit[chosen]],
            )
            found = pairs.truth(tree)
            if pairs.counted is not None:
                found = np.where(pairs.counted & (found != TRUE), np.uint8(TROUBLED), found)
            truths[chosen] = found
        return block, truths

    def _collect(self, found: list[tuple[_Candidates, Truths]], truth: int) -> tuple[Ints, Codes]:
        """Entries with one truth as members, sorted by pair and member."""
        chosen = [(block, np.flatnonzero(truths == truth)) for block, truths in found]
        pair = np.concatenate([block.pair[places] for block, places in chosen] or [np.zeros(0, np.int64)])
        entry = np.concatenate([block.entry[places] for block, places in chosen] or [np.zeros(0, np.int32)])
        if self._one_to_one:
            member = self._members.entries[entry]
        else:
            sizes = self._members.sizes(entry)
            member = self._members.entries[_ranges(self._members.starts[entry], sizes)]
            pair = np.repeat(pair, sizes)
        order = pair * self._widest + member
        if len(order) and (order[1:] < order[:-1]).any():
            places = np.argsort(order, kind="stable")
            pair, member = pair[places], member[places]
        return pair, member


@dataclass(slots=True)
class _Candidates:
    """Entries that a pair may satisfy."""

    pair: Ints
    entry: Codes


@dataclass(slots=True)
class _Way:
    """Pairs, ascending, and for each the number of a list of entries."""

    pairs: Ints
    lists: Ints
    runs: Runs

    def expand(self, first: int, last: int) -> _Candidates:
        """The candidates of the pairs from first up to last."""
        low, high = np.searchsorted(self.pairs, (first, last))
        pairs, lists = self.pairs[low:high], self.lists[low:high]
        sizes = self.runs.sizes(lists)
        return _Candidates(np.repeat(pairs, sizes), self.runs.entries[_ranges(self.runs.starts[lists], sizes)])


class _BatchState:
    """What is known of one batch: its columns, and the numbers of its values by index."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self._numbers: dict[int, Codes] = {}

    def numbers(self, index: KeyIndex) -> Codes:
        """int32[rows]: the number of each row's value in an index of these groups."""
        found = self._numbers.get(id(index))
        if found is None:
            found = self._numbers[id(index)] = index.values.of(self.batch.source(index.ref))
        return found


@dataclass(slots=True)
class _Compiled:
    units: list[_Unit]
    shapes: list[Shape]
    always_shape: int


def _number_filters(groups: Sequence[Sequence[Filter]]) -> tuple[list[Node], Codes]:
    """The distinct trees, and for each member of each group, in order, which one it has."""
    by_filter: dict[Filter, int] = {}
    by_tree: dict[Node, int] = {}
    members: list[int] = []
    for group in groups:
        for item in group:
            number = by_filter.get(item)
            if number is None:
                number = by_filter[item] = by_tree.setdefault(item.expression, len(by_tree))
            members.append(number)
    return list(by_tree), np.array(members, np.int32)


def _compile_units(trees: list[Node]) -> _Compiled:
    """Choose each filter's way in, and share the shapes of what remains to be checked."""
    ways = [list(entries(tree)) for tree in trees]
    spread = _spread(way for choices in ways for way in choices)
    shapes = Shapes()
    always_shape, _ = shapes.add(ALWAYS)
    units: list[_Unit] = []
    for tree, choices in zip(trees, ways, strict=True):
        best = min(choices, key=lambda way: sum(1 / spread[key.ref] for key in way.keys), default=None)
        shape, row = shapes.add(best.residual if best else tree)
        units.append(_Unit(best.keys if best else None, shape, row))
    return _Compiled(units, shapes.close(), always_shape)


def _spread(ways: Iterable[Entry]) -> Counter[Ref]:
    """How many different values filters ask of each field: a key on a field of many is more selective."""
    values: dict[Ref, set[Key]] = defaultdict(set)
    for way in ways:
        for key in way.keys:
            values[key.ref].add(key)
    return Counter({ref: len(keys) for ref, keys in values.items()})


def _index_of(key: Key) -> tuple[Ref, bool]:
    """Keys that agree in this share an index; a message's value leads to an entry at most once by each index."""
    return key.ref, key.strict


def _indexes(units: list[_Unit], entry_group: Codes, entry_unit: Codes) -> Iterator[KeyIndex]:
    """One index per field and strictness over the entries whose filters have keys there."""
    asked: dict[tuple[Ref, bool], tuple[list[int], list[Key]]] = defaultdict(lambda: ([], []))
    for number, unit in enumerate(units):
        for key in unit.keys or ():
            numbers, keys = asked[_index_of(key)]
            numbers.append(number)
            keys.append(key)
    by_unit = Runs(entry_unit.astype(np.int64), np.arange(len(entry_unit), dtype=np.int32), len(units))
    for (ref, strict), (numbers, keys) in asked.items():
        waiting = np.array(numbers, np.int64)
        sizes = by_unit.sizes(waiting)
        found = by_unit.entries[_ranges(by_unit.starts[waiting], sizes)]
        values = [key.value.value for key, size in zip(keys, sizes.tolist(), strict=True) for _ in range(size)]
        yield KeyIndex(ref, entry_group[found], values, found, strict=strict)


def _blocks(ways: list[_Way], pairs: int) -> Iterator[tuple[int, int]]:
    """Ranges of pairs with about `BLOCK` candidates each."""
    if not ways:
        return
    sizes = np.zeros(pairs, np.int64)
    for way in ways:
        sizes[way.pairs] += way.runs.sizes(way.lists)
    ends = np.cumsum(sizes)
    first = 0
    while first < pairs:
        before = int(ends[first - 1]) if first else 0
        last = max(int(np.searchsorted(ends, before + BLOCK, side="right")), first + 1)
        yield first, last
        first = last


def _by_number(numbers: Codes) -> Iterator[tuple[int, Ints | None]]:
    """Each number that occurs and its places; None for all of them."""
    if not len(numbers):
        return
    if numbers[0] == numbers[-1] and (numbers == numbers[0]).all():
        yield int(numbers[0]), None
        return
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    bounds = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    for first, last in zip(bounds, np.append(bounds[1:], len(ordered)), strict=True):
        yield int(ordered[first]), order[first:last]


def _ranges(starts: Ints, sizes: Ints) -> Ints:
    """All numbers of the ranges `starts[n] .. starts[n] + sizes[n]`, one range after the other."""
    total = int(sizes.sum())
    before = np.cumsum(sizes) - sizes
    return np.asarray(np.arange(total) + np.repeat(starts - before, sizes))
