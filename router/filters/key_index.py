"""An index from (group, value of one field) to the filters that this value leads to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from bindery.router.columns import BINARY, BOOL, DOUBLE, INT, STRING, TAG_OF, TIMESTAMP, Ref
from bindery.router.filters.field_index import FieldIndex, LookUp, Runs
from bindery.router.filters.sets.reference import words
from bindery.router.filters.vector import Source
from bindery.router.values import Timestamp, Value

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]

#: Cells of a lookup table that may be spent instead of searching.
_TABLE_CELLS = 4_000_000


class Values:
    """The values that keys on one field ask for, numbered; `strict` keeps the number types apart."""

    def __init__(self, values: Iterable[Value], *, strict: bool) -> None:
        self.numbers: dict[tuple[int, Value], int] = {}
        self.strict = strict
        for value in values:
            self.numbers.setdefault(self._key(value), len(self.numbers))
        self._sorted = {tag: self._sorted_numbers(tag) for tag in (INT, DOUBLE, TIMESTAMP)}
        self._flags = np.array([self.numbers.get((BOOL, flag), -1) for flag in (False, True)], np.int32)
        self._has_text = any(tag in (STRING, BINARY) for tag, _ in self.numbers)

    def __len__(self) -> int:
        return len(self.numbers)

    def number(self, value: Value) -> int:
        """The number of a value given at construction."""
        return self.numbers[self._key(value)]

    @staticmethod
    def _key(value: Value) -> tuple[int, Value]:
        return TAG_OF[type(value)], value.ms if isinstance(value, Timestamp) else value

    def _sorted_numbers(self, tag: int) -> tuple[npt.NDArray[np.generic], Codes]:
        found = sorted((value, number) for (kind, value), number in self.numbers.items() if kind == tag)
        kind = np.float64 if tag == DOUBLE else np.int64
        return np.array([value for value, _ in found], kind), np.array([number for _, number in found], np.int32)

    def of(self, source: Source) -> Codes:
        """int32[rows]: the number of each row's value, -1 for values that nobody asks for."""
        column = source.column
        found = np.full(len(column), -1, np.int32)
        if self._has_text and len(source.texts):
            table = [
                self.numbers.get((tag, text), -1)
                for tag, text in zip(source.texts.kind.tolist(), source.texts.values, strict=True)
            ]
            found = np.where(column.code >= 0, np.array(table, np.int32)[column.code], found)
        if source.held >> BOOL & 1 and self._flags.max() >= 0:
            rows = np.flatnonzero(column.tag == BOOL)
            found[rows] = self._flags[column.num[rows]]
        for tag, as_integers in ((INT, True), (TIMESTAMP, True), (DOUBLE, False)):
            if source.held >> tag & 1:
                self._look_up(found, source, tag, as_integers=as_integers)
        return found

    def _look_up(self, found: Codes, source: Source, tag: int, *, as_integers: bool) -> None:
        column = source.column
        rows = np.flatnonzero(column.tag == tag)
        if self.strict:
            self._search(found, rows, tag, column.num[rows] if as_integers else column.dbl[rows])
        elif as_integers:
            self._search(found, rows, INT, column.num[rows])
        else:
            doubles = column.dbl[rows]
            whole = (np.floor(doubles) == doubles) & (doubles >= -(2.0**63)) & (doubles < 2.0**63)
            self._search(found, rows[whole], INT, doubles[whole].astype(np.int64))
            self._search(found, rows[~whole], DOUBLE, doubles[~whole])

    def _search(self, found: Codes, rows: Ints, tag: int, wanted: npt.NDArray[np.generic]) -> None:
        values, numbers = self._sorted[tag]
        if len(values) and len(rows):
            places = np.minimum(np.searchsorted(values, wanted), len(values) - 1)
            hit = values[places] == wanted
            found[rows[hit]] = numbers[places[hit]]


class KeyIndex(FieldIndex):
    """For one field: (group, value) -> entries, each once.

    groups, entries   int32[m]  the entry `entries[i]` of group `groups[i]` waits for `values[i]`
    """

    def __init__(self, ref: Ref, groups: Codes, values: Sequence[Value], entries: Codes, *, strict: bool) -> None:
        super().__init__(ref, groups, entries)
        self._values = Values(values, strict=strict)
        numbers = np.array([self._values.number(value) for value in values], np.int64)
        keys = self._place_of_group(groups) * len(self._values) + numbers
        self._keys, places = np.unique(keys, return_inverse=True)
        # an entry may wait for one value under two names, such as 0.0 and -0.0
        width = int(entries.max(initial=0)) + 1
        lists, distinct = np.divmod(np.unique(places.reshape(-1) * width + entries), width)
        self.runs = Runs(lists, distinct.astype(np.int32), len(self._keys))
        self._table: Codes | None = None
        cells = self.waiting_groups * len(self._values)
        if cells <= _TABLE_CELLS:
            self._table = np.full(cells, -1, np.int32)
            self._table[self._keys] = np.arange(len(self._keys))

    def on(self, source: Source) -> LookUp:
        """See `FieldIndex.on`: one list a pair."""
        numbers = self._values.of(source)

        def look_up(groups: Codes, rows: Ints) -> Iterator[tuple[Ints, Ints]]:
            held = numbers[rows]
            asked = np.flatnonzero(held >= 0)
            yield self._find(groups, asked, held[asked])

        return look_up

    def _find(self, groups: Codes, asked: Ints, numbers: Codes) -> tuple[Ints, Ints]:
        """Which of the asked pairs, whose rows hold the values with the numbers, have entries, and their list."""
        asked, local, numbers = self._local(groups, asked, numbers)
        keys = local * len(self._values) + numbers
        if self._table is not None:
            lists = self._table[keys].astype(np.int64)
            hit = lists >= 0
        else:
            lists = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
            hit = self._keys[lists] == keys
        return asked[hit], lists[hit]


class WordIndex(KeyIndex):
    """For one field: (group, word) -> entries; a topic leads to those of each of its words."""

    def __init__(self, ref: Ref, groups: Codes, words: Sequence[Value], entries: Codes) -> None:
        super().__init__(ref, groups, words, entries, strict=True)

    def on(self, source: Source) -> LookUp:
        """See `FieldIndex.on`: a list for each word of a topic that is asked for, however often it stands there."""
        number = self._values.numbers
        asked_for = [
            sorted({number[STRING, word] for word in words(str(text)) if (STRING, word) in number})
            if kind == STRING
            else []
            for kind, text in zip(source.texts.kind.tolist(), source.texts.values, strict=True)
        ]
        # rows without a text take the last place
        sizes = np.array([*map(len, asked_for), 0], np.int64)
        starts = np.cumsum(sizes) - sizes
        numbers = np.array([one for some in asked_for for one in some], np.int32)

        def look_up(groups: Codes, rows: Ints) -> Iterator[tuple[Ints, Ints]]:
            code = source.column.code[rows]
            left, place = sizes[code], starts[code]
            asked = np.flatnonzero(left)
            while len(asked):
                yield self._find(groups, asked, numbers[place[asked]])
                left[asked] -= 1
                place[asked] += 1
                asked = asked[left[asked] > 0]

        return look_up
