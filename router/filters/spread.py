"""References that lead through lists: to every element of them, not to one place.

Patterns of EventBridge and SNS ask whether any element of a list fits. A path into a body then names members, each with
a mark behind it: `OBJECTS` for the maps that stand under the name, `VALUES` for the simple values and nulls, whether
the member is one itself or a list of them, lists inside lists included. A property that is a list is spread alike
(`ELEMENTS`).

What a reference finds in one message are its spots. Spots are numbered over a batch in the order in which they are
found, those of one holder one after the other, and so those of one row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from bindery.router.columns import NESTED, NULL, Column, Ref, column_of
from bindery.router.filters.payload import PAYLOAD, reference, referred
from bindery.router.values import Table, Value, nested_value

Ints = npt.NDArray[np.int64]

#: Steps of a path behind a name: the maps under it, and the simple values and nulls.
OBJECTS: Final = -1
VALUES: Final = -2
#: Section of references to the elements of another field, which their name says: `section/name`.
ELEMENTS: Final = "elements"
_ABSENT: Final = object()


def elements_ref(ref: Ref) -> Ref:
    """The reference to the elements of a field."""
    return Ref(ELEMENTS, f"{ref.section}/{ref.name}")


def of_elements(ref: Ref) -> Ref:
    """The field whose elements a reference is to; any other reference itself."""
    if ref.section != ELEMENTS:
        return ref
    section, name = ref.name.split("/", 1)
    return Ref(section, name)


def is_spread(ref: Ref) -> bool:
    """Whether a reference may find several values in one message."""
    if ref.section != PAYLOAD:
        return ref.section == ELEMENTS
    last = referred(ref)[1][-1:]
    return last in ((OBJECTS,), (VALUES,))


def holder_of(ref: Ref) -> Ref | None:
    """The reference to the maps in which a reference looks; None where it looks in the message or the whole body."""
    if ref.section == ELEMENTS:
        return None
    payload, path = referred(ref)
    return reference(payload, path[:-2]) if len(path) > 2 else None


def elements(value: Any, kind: int) -> Iterator[Any]:
    """The maps, or the simple values and nulls, that a value is or that stand in a list, in their order."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, list | tuple):
            pending += reversed(item)
        elif isinstance(item, dict | Table) == (kind == OBJECTS):
            yield item


def members(holder: Any, ref: Ref) -> list[Any]:
    """What a reference finds in a map that it looks in."""
    _, path = referred(ref)
    found = holder.get(path[-2], _ABSENT) if isinstance(holder, dict) else _ABSENT
    return [] if found is _ABSENT else list(elements(found, int(path[-1])))


def of_property(value: Value) -> list[Value]:
    """The elements of a property; none of a null or binary one, which a pattern does not see."""
    return [] if value is None else [item for item in elements(value, VALUES) if not isinstance(item, bytes)]


class Spots:
    """The spots of one reference in a batch.

    size      how many there are
    values    what stands at each, where the reference is to simple values
    troubled  the rows whose bodies could not be read
    """

    def __init__(self, troubled: Mapping[int, object]) -> None:
        self.size = 0
        self.values: list[Value] = []
        self.troubled = troubled
        self._holders: dict[int, tuple[int, int]] = {}
        self._rows: dict[int, tuple[int, int]] = {}
        self._made: dict[str, tuple[int, Any]] = {}

    def note(self, holder: int, row: int, first: int) -> None:
        """Keep that the spots from `first` on stand in a holder (a row, or a spot of another reference)."""
        if self.size > first:
            self._holders[holder] = first, self.size
            self._rows[row] = self._rows.get(row, (first, first))[0], self.size

    def in_holders(self, holders: Ints) -> tuple[Ints, Ints]:
        """For each holder its first spot, and how many it has."""
        return self._found("holders", self._holders, holders)

    def in_rows(self, rows: Ints) -> tuple[Ints, Ints]:
        """For each row its first spot, and how many it has."""
        return self._found("rows", self._rows, rows)

    def _found(self, name: str, found: Mapping[int, tuple[int, int]], numbers: Ints) -> tuple[Ints, Ints]:
        first, size = self._ranges(name, found)
        known = np.minimum(numbers, len(first) - 1)
        return first[known], size[known]

    def _ranges(self, name: str, found: Mapping[int, tuple[int, int]]) -> tuple[Ints, Ints]:
        """The ranges by number, made anew where some came since; behind the last there is an empty one."""
        made = self._made.get(name)
        if made is None or made[0] != self.size:
            length = max(found, default=-1) + 2
            first, size = np.zeros(length, np.int64), np.zeros(length, np.int64)
            places = np.fromiter(found, np.int64, len(found))
            ends = np.array(list(found.values()), np.int64).reshape(-1, 2)
            first[places], size[places] = ends[:, 0], ends[:, 1] - ends[:, 0]
            made = self._made[name] = self.size, (first, size)
        ranges: tuple[Ints, Ints] = made[1]
        return ranges

    def in_trouble(self, rows: Ints) -> npt.NDArray[np.bool_]:
        """bool[rows]: whose bodies could not be read."""
        if not self.troubled:
            return np.zeros(len(rows), np.bool_)
        return np.isin(rows, np.fromiter(self.troubled, np.int64, len(self.troubled)))

    @property
    def column(self) -> Column:
        """What stands at each spot, one row each."""
        made = self._made.get("column")
        if made is None or made[0] != self.size:
            column = column_of(self.values)
            column.tag[[value is None for value in self.values]] = NULL
            made = self._made["column"] = self.size, column
        found: Column = made[1]
        return found


class SpreadMembers:
    """References into bodies of one format that lead through lists, to be looked up in each body in one walk."""

    def __init__(self, refs: Iterable[Ref], troubled: Mapping[int, object]) -> None:
        self.spots: dict[Ref, Spots] = {}
        self._troubled = troubled
        self._inside: dict[Ref | None, dict[str, list[Ref]]] = {}
        for ref in refs:
            self._add(ref)

    def _add(self, ref: Ref) -> None:
        if ref in self.spots:
            return
        holder = holder_of(ref)
        if holder is not None:
            self._add(holder)
        self.spots[ref] = Spots(self._troubled)
        name = str(referred(ref)[1][-2])
        self._inside.setdefault(holder, {}).setdefault(name, []).append(ref)

    def take(self, row: int, body: Any) -> None:
        """Number the spots of a row's body."""
        if isinstance(body, dict) and self.spots:
            self._walk(row, body)

    def _walk(self, row: int, body: Any) -> None:
        """Level by level, as deep as the references name members; the spots of one holder are made together."""
        level: list[tuple[Ref | None, int, Any]] = [(None, row, body)]
        while level:
            further: list[tuple[Ref | None, int, Any]] = []
            for holder, number, item in level:
                names = self._inside.get(holder, {})
                for name in names if len(names) <= len(item) else [one for one in item if one in names]:
                    if name in item:
                        for ref in names[name]:
                            further += self._found(ref, number, row, item[name])
            level = further

    def _found(self, ref: Ref, holder: int, row: int, value: Any) -> list[tuple[Ref | None, int, Any]]:
        spots, kind = self.spots[ref], referred(ref)[1][-1]
        first = spots.size
        found = list(elements(value, int(kind)))
        spots.size += len(found)
        spots.note(holder, row, first)
        if kind == VALUES:
            spots.values += found
            return []
        return [(ref, first + place, item) for place, item in enumerate(found)]


def spots_of_column(column: Column) -> Spots:
    """The spots of the elements of a property: each list's, once for each distinct one."""
    spots = Spots({})
    lists = {
        code: of_property(nested_value(str(text)))
        for code, (text, kind) in enumerate(zip(column.distinct, column.kind.tolist(), strict=True))
        if kind == NESTED
    }
    for row, tag in enumerate(column.tag.tolist()):
        first = spots.size
        spots.values += lists[int(column.code[row])] if tag == NESTED else of_property(column.value(row))
        spots.size = len(spots.values)
        spots.note(row, row, first)
    return spots
