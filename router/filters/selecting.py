"""Selecting: the filters of many groups, compiled, over the messages of one batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from bindery.router.columns import BatchView, Ref
from bindery.router.filters.ast import TROUBLED, TRUE
from bindery.router.filters.bodies import Bodies
from bindery.router.filters.compiled import CompiledGroups
from bindery.router.filters.field_index import FieldIndex, LookUp, Runs, ranges
from bindery.router.filters.fields import DERIVED
from bindery.router.filters.isolation import ENVIRONMENT, Isolation
from bindery.router.filters.pairs import Batch, Pairs
from bindery.router.filters.shapes import Shape
from bindery.router.filters.spread import Spots, is_spread
from bindery.router.filters.vector import IN_TROUBLE, Truths

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]

#: Candidates that are evaluated at a time; bounds memory and keeps the passes in the processor's cache.
BLOCK = 1 << 18
#: Stands among truths for a filter that a defect kept from being evaluated.
_FAILED: Final = 4


@dataclass(frozen=True, slots=True)
class Selection:
    """Accepted, troubled and failed members, each sorted by (pair, member).

    pair, member                    int64[k], int32[k]  members that accept the message of a pair
    troubled_pair, troubled_member  int64[t], int32[t]  members that do not accept and met trouble
    failed_pair, failed_member      int64[f], int32[f]  members that a defect kept from being evaluated
    failed_error                    f texts             what the defect was
    """

    pair: Ints
    member: Codes
    troubled_pair: Ints
    troubled_member: Codes
    failed_pair: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    failed_member: Codes = field(default_factory=lambda: np.zeros(0, np.int32))
    failed_error: list[str] = field(default_factory=list)


class BatchFilters:
    """Filters of groups over one batch, with what is worked out about its messages once; `bodies` are those parsed.

    looked_at  (pair, filter) combinations that were evaluated so far: the measure of the work
    """

    def __init__(
        self,
        groups: CompiledGroups,
        view: BatchView,
        isolation: Isolation | None = None,
        bodies: Bodies | None = None,
    ) -> None:
        self._groups = groups
        self._view = view
        self.bodies = Bodies(view, groups.body_refs) if bodies is None else bodies
        self._rounds = self.bodies.rounds
        self._batch = Batch(view, self.bodies)
        self._look_ups: dict[int, LookUp] = {}
        self._isolation = Isolation() if isolation is None else isolation
        self.looked_at = 0

    def select(self, rows: Ints, groups: Codes) -> Selection:
        """The members that accept, those in trouble, and those that failed, for pairs of a batch row and a group.

        rows    int64[p]  rows of the batch
        groups  int32[p]  numbers of groups, in the order given at construction
        """
        found = None
        try:
            found = self._judged(rows, groups)
        except ENVIRONMENT:
            raise
        except Exception:  # noqa: S110  # the columns or keys of some message cannot be made: see below
            pass
        if found is None:
            found = self._judged_apart(rows, groups)
        pair, member = self._collect(found, TRUE)
        troubled_pair, troubled_member = self._collect(found, TROUBLED)
        failed_pair, failed_member, errors = self._failures(found)
        return Selection(pair, member, troubled_pair, troubled_member, failed_pair, failed_member, errors)

    def candidates(self, rows: Ints, groups: Codes) -> Iterator[_Candidates]:
        """Blocks of candidates, ordered by pair; in each an entry stands once per pair."""
        compiled = self._groups
        self._ask_bodies(rows, groups)
        ways: list[_Way] = []
        for index in compiled.indexes:
            if not index.meets_absent and index.ref.section != DERIVED and not self._view.holds(index.ref):
                continue
            found = self._look_up(index)(groups, rows)
            ways += [_Way(pairs, lists, index.runs) for pairs, lists in found if len(pairs)]
            if index.in_trouble is not None:
                pairs, lists = index.troubled(groups, self._unread(index.ref, rows))
                ways += [_Way(pairs, lists, index.in_trouble)] * (len(pairs) > 0)
        if len(compiled.always.entries):
            pairs = np.flatnonzero(compiled.always.sizes(groups))
            ways.append(_Way(pairs, groups[pairs].astype(np.int64), compiled.always))
        for first, last in _blocks(ways, len(rows)):
            parts = [way.expand(first, last) for way in ways]
            if len(parts) == 1 and not compiled.may_repeat:
                yield parts[0]
                continue
            pair = np.concatenate([part.pair for part in parts])
            entry = np.concatenate([part.entry for part in parts])
            if compiled.may_repeat:
                width = len(compiled.entry_unit)
                keys = np.sort(pair * width + entry, kind="stable")  # a few sorted runs
                keys = keys[np.append(True, keys[1:] != keys[:-1])[: len(keys)]]
                pair, entry = keys // width, (keys % width).astype(np.int32)
            yield _Candidates(pair, entry)

    def _ask_bodies(self, rows: Ints, groups: Codes) -> None:
        """Have the bodies parsed that some filter may look into; columns made before are without them."""
        for payload, into in self._groups.into_bodies.items():
            self.bodies.ask(payload, rows[into[groups]])
        if self.bodies.rounds != self._rounds:
            self._rounds = self.bodies.rounds
            self._batch = Batch(self._view, self.bodies)
            self._look_ups.clear()

    def _look_up(self, index: FieldIndex) -> LookUp:
        """An index of these groups over this batch."""
        found = self._look_ups.get(id(index))
        if found is None:
            found = index.on(self._batch.source(index.ref))
            if is_spread(index.ref):
                found = _through(found, self._batch.spots(index.ref))
            self._look_ups[id(index)] = found
        return found

    def _unread(self, ref: Ref, rows: Ints) -> Ints:
        """The places of rows whose bodies cannot be read."""
        if is_spread(ref):
            return np.flatnonzero(self._batch.spots(ref).in_trouble(rows))
        return np.flatnonzero(self._batch.source(ref).column.tag[rows] == IN_TROUBLE)

    def _judged(self, rows: Ints, groups: Codes) -> list[tuple[_Candidates, Truths]]:
        found = [(block, self._judge(rows, block)) for block in self.candidates(rows, groups)]
        self.looked_at += sum(len(block.pair) for block, _ in found)
        return found

    def _judge(self, rows: Ints, block: _Candidates) -> Truths:
        compiled = self._groups
        unit = compiled.entry_unit[block.entry]
        truths = np.full(len(block.pair), TRUE, np.uint8)
        for number, places in _by_number(compiled.unit_shape[unit]):
            if number == compiled.always_shape:
                continue
            chosen = slice(None) if places is None else places
            shape, asked, units = compiled.shapes[number], rows[block.pair[chosen]], unit[chosen]
            found = None
            try:
                found = _evaluate(self._batch, shape, asked, compiled.unit_row[units])
            except ENVIRONMENT:
                raise
            except Exception:  # noqa: S110  # a defect, whatever it raises: see below
                pass
            truths[chosen] = self._evaluate_apart(shape, asked, units) if found is None else found
        return truths

    # -- defects --------------------------------------------------------------------------------------

    def _evaluate_apart(self, shape: Shape, rows: Ints, units: Codes) -> Truths:
        """Truths of pairs of a row and a unit that failed together; `_FAILED` for those that fail on their own."""
        truths = np.full(len(rows), _FAILED, np.uint8)

        def attempt(places: Ints) -> None:
            first, view = self._part(rows[places])
            pick = self._groups.unit_row[units[places]]
            truths[places] = _evaluate(Batch(view), shape, rows[places] - first, pick)

        for places, error in self._isolation.narrow(np.argsort(rows, kind="stable"), attempt):
            for unit in np.unique(units[places]).tolist():
                self._isolation.report(unit, self._groups.texts[unit], error)
        return truths

    def _judged_apart(self, rows: Ints, groups: Codes) -> list[tuple[_Candidates, Truths]]:
        """As `_judged` for pairs that failed together; all members of a pair that fails on its own have failed."""
        compiled = self._groups
        found: list[tuple[_Candidates, Truths]] = []

        def attempt(places: Ints) -> None:
            first, view = self._part(rows[places])
            part = BatchFilters(compiled, view, self._isolation)
            found.extend(
                (_Candidates(places[block.pair], block.entry), truths)
                for block, truths in part._judged(rows[places] - first, groups[places])
            )

        for places, error in self._isolation.narrow(np.argsort(rows, kind="stable"), attempt):
            starts = compiled.entry_starts[groups[places]]
            sizes = compiled.entry_starts[groups[places] + 1] - starts
            entry = ranges(starts, sizes).astype(np.int32)
            for unit in np.unique(compiled.entry_unit[entry]).tolist():
                self._isolation.report(unit, compiled.texts[unit], error)
            found.append((_Candidates(np.repeat(places, sizes), entry), np.full(len(entry), _FAILED, np.uint8)))
        return found

    def _part(self, rows: Ints) -> tuple[int, BatchView]:
        """A view of the rows (ascending) alone, and of what lies between: no other message can do harm there."""
        first, last = int(rows[0]), int(rows[-1])
        return first, BatchView(self._view.batch.slice(first, last - first + 1), clock_ms=self._view.clock_ms)

    # -- results --------------------------------------------------------------------------------------

    def _collect(self, found: Sequence[tuple[_Candidates, Truths]], truth: int) -> tuple[Ints, Codes]:
        """Entries with one truth as members, sorted by pair and member."""
        keys: list[Ints] = [np.zeros(0, np.int64)]
        for block, truths in found:
            pair, member, _ = self._members(block, truths, truth)
            key = pair * self._groups.widest + member
            if (key[1:] < key[:-1]).any():
                key.sort()  # blocks are ordered by pair, and small enough for the processor's cache
            keys.append(key)
        key = np.concatenate(keys)
        if (key[1:] < key[:-1]).any():
            key.sort()
        pair, member = np.divmod(key, max(self._groups.widest, 1))
        return pair, member.astype(np.int32)

    def _failures(self, found: Sequence[tuple[_Candidates, Truths]]) -> tuple[Ints, Codes, list[str]]:
        """Members that failed, sorted by pair and member, and what the defect was."""
        parts = [self._members(block, truths, _FAILED) for block, truths in found if (truths == _FAILED).any()]
        if not parts:
            return np.zeros(0, np.int64), np.zeros(0, np.int32), []
        pair, member, entry = (np.concatenate(part) for part in zip(*parts, strict=True))
        places = np.lexsort((member, pair))
        errors = [self._isolation.errors[unit] for unit in self._groups.entry_unit[entry[places]].tolist()]
        return pair[places], member[places], errors

    def _members(self, block: _Candidates, truths: Truths, truth: int) -> tuple[Ints, Codes, Codes]:
        """The members of the entries with one truth: pair, member and entry of each."""
        members = self._groups.members
        places = np.flatnonzero(truths == truth)
        pair, entry = block.pair[places], block.entry[places]
        if self._groups.one_to_one:
            return pair, members.entries[entry], entry
        sizes = members.sizes(entry)
        return np.repeat(pair, sizes), members.entries[ranges(members.starts[entry], sizes)], np.repeat(entry, sizes)


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
        return _Candidates(np.repeat(pairs, sizes), self.runs.entries[ranges(self.runs.starts[lists], sizes)])


def _through(look_up: LookUp, spots: Spots) -> LookUp:
    """The look-up of rows where an index knows what stands at spots; a pair leads to the lists of each of its spots."""

    def of_rows(groups: Codes, rows: Ints) -> Iterator[tuple[Ints, Ints]]:
        first, size = spots.in_rows(rows)
        places = np.repeat(np.arange(len(rows)), size)
        for found, lists in look_up(groups[places], ranges(first, size)):
            yield places[found], lists

    return of_rows


def _evaluate(batch: Batch, shape: Shape, rows: Ints, pick: Ints) -> Truths:
    """The truths of one shape for pairs of a row and a filter."""
    pairs = Pairs(batch, rows, shape.parameters, pick)
    found = pairs.truth(shape.tree)
    if pairs.counted is not None:
        found = np.where(pairs.counted & (found != TRUE), np.uint8(TROUBLED), found)
    return found


def _blocks(ways: list[_Way], pairs: int) -> Iterator[tuple[int, int]]:
    """Ranges of pairs with about `BLOCK` candidates each."""
    if not ways:
        return
    sizes = np.zeros(pairs, np.int64)
    for way in ways:
        np.add.at(sizes, way.pairs, way.runs.sizes(way.lists))  # a pair may lead to several lists
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
