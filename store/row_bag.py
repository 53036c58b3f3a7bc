"""Rows looked for in data files by what they are, wherever a rewrite has put them.

Stream, batch and number name a message, but not for all time: in old data they occur again. So a row
is found by them, the time at which it was routed and everything that it holds. Rows that are equal in all
of it are interchangeable, and as many of them are found as were looked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.errors import InvalidInput
from bindery.store import file_rows
from bindery.store.actions import AddFile
from bindery.store.log import TableLog
from bindery.store.statistics import span_of, stated_span

#: The columns of a row that its key is made of.
KEY: Final = ("routing", "routed_at")

Places = npt.NDArray[np.int64]
Rows = npt.NDArray[np.bool_]
_NONE: Final[Places] = np.zeros(0, np.int64)


class RowBag:
    """Rows with their number; `counts` says for each class of equal rows how many are looked for."""

    def __init__(self, rows: pa.Table) -> None:
        """`rows` are compared by every column they have; raises InvalidInput without `routing` and `routed_at`."""
        for name in KEY:
            if name not in rows.column_names:
                raise InvalidInput(f"rows are not known without their column {name!r}", where="rows")
        self._rows = rows.combine_chunks()
        self._span = None if rows["routed_at"].null_count else span_of(rows)
        keys = row_keys(rows)
        self._keys = keys.unique()
        numbers = pc.index_in(keys, value_set=self._keys).to_numpy()
        _, self._first, occurring = np.unique(numbers, return_index=True, return_counts=True)
        self._single = occurring == 1
        #: (number of the key, text of the row) -> its class; filled for keys that occur more than once
        self._classes: dict[tuple[int, str], int] = {}
        classes = self._first[numbers]
        for row in np.flatnonzero(~self._single[numbers]).tolist():
            classes[row] = self._classes.setdefault((int(numbers[row]), self._text(row)), row)
        self.counts: Places = np.bincount(classes, minlength=rows.num_rows)

    def may_hold(self, path: str, file: AddFile) -> bool:
        """Whether a file of a table may hold any of the rows, by what is stated about it."""
        return self._span is None or stated_span(path, file).meets(self._span)

    def look(self, path: str, name: str, schema: pa.Schema) -> tuple[Places, Places]:
        """The places in a file of rows that are looked for, ascending, and the class of each."""
        keys = row_keys(file_rows.read(path, name, schema, columns=KEY))
        numbers = pc.index_in(keys, value_set=self._keys)
        places = np.flatnonzero(np.asarray(numbers.is_valid()))
        if not len(places):
            return places, places
        at = numbers.drop_null().to_numpy().astype(np.int64)
        found = file_rows.read(path, name, schema, columns=self._rows.column_names).take(pa.array(places))
        classes = self._first[at]
        # as a rule every key occurs once and its row is the one that is looked for
        if not (self._single[at].all() and found.equals(self._rows.take(pa.array(classes)))):
            classes = np.array([self._class_of(int(key), found, row) for row, key in enumerate(at)], np.int64)
        kept = classes >= 0
        return places[kept], classes[kept]

    def _class_of(self, key: int, found: pa.Table, row: int) -> int:
        text = _text_of(found, row)
        if not self._single[key]:
            return self._classes.get((key, text), -1)
        first = int(self._first[key])
        return first if text == self._text(first) else -1

    def _text(self, row: int) -> str:
        return _text_of(self._rows, row)


class RowSearch:
    """The rows of a bag in the files of a log with files, found again after each `refresh` of the log.

    places   which rows of which files are meant
    missing  how many rows the table does not have
    """

    def __init__(
        self, log: TableLog, bag: RowBag, schema: pa.Schema, *, only: Callable[[str, Places], Rows] | None = None
    ) -> None:
        """`only` tells which of the rows at some places of a file count. Searches the log's present version."""
        self._log = log
        self._bag = bag
        self._schema = schema
        self._only = only
        self._found: dict[str, tuple[Places, Places]] = {}
        self.places: Mapping[str, Places] = {}
        self.missing = 0
        self.update()

    def update(self) -> bool:
        """Search files that are new; True when the same rows are meant in every file that was known before.

        Files that come first give their rows first, so that rows which are appended change nothing.
        """
        files = self._log.files or {}
        known, before = self._found, self.places
        self._found = {name: known[name] if name in known else self._look(file) for name, file in files.items()}
        needed = self._bag.counts.tolist()
        chosen: dict[str, Places] = {}
        for name, (places, classes) in self._found.items():
            mine = []
            for place, one in zip(places.tolist(), classes.tolist(), strict=True):
                if needed[one]:
                    needed[one] -= 1
                    mine.append(place)
            if mine:
                chosen[name] = np.array(mine, np.int64)
        self.places, self.missing = chosen, sum(needed)
        return all(
            np.array_equal(before.get(name, _NONE), chosen.get(name, _NONE)) for name in known if name in self._found
        )

    def _look(self, file: AddFile) -> tuple[Places, Places]:
        if not self._bag.may_hold(self._log.path, file):
            return _NONE, _NONE
        places, classes = self._bag.look(self._log.path, file.path, self._schema)
        if self._only is None or not len(places):
            return places, classes
        kept = self._only(file.path, places)
        return places[kept], classes[kept]


def row_keys(rows: pa.Table) -> pa.ChunkedArray:
    """The identity of each row, and the time at which it was routed, as text."""
    routing = rows["routing"]
    parts: Iterable[pa.ChunkedArray] = (
        pc.struct_field(routing, "batch_id"),
        pc.struct_field(routing, "seq"),
        rows["routed_at"].cast(pa.int64()),
        pc.struct_field(routing, "stream"),
    )
    texts = [pc.fill_null(part.cast(pa.string()), "") for part in parts]
    return pc.binary_join_element_wise(*texts, ":")


def _text_of(rows: pa.Table, row: int) -> str:
    return repr(rows.slice(row, 1).to_pylist())
