"""The mark `redriven` on the rows of a plan: setting it is what claims them, and it is the evidence of the claim.

The marks of a plan are set in one commit that takes every row of the plan or none, and name the plan's batch.
So a plan has been marked if and only if rows of it stand under its batch, however many redrives look at
them at once and whatever has moved the rows to other files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.message import REDRIVEN, UNROUTABLE_SCHEMA
from bindery.store import faults, file_rows, tables
from bindery.store.actions import Transaction
from bindery.store.paths import DataDir
from bindery.store.redrive_plans import Plan
from bindery.store.rewriting import UNCHANGED, Rewriting, Unchanged
from bindery.store.row_bag import Places, RowBag, RowSearch
from bindery.store.stream_names import claim_of

_COLUMN: Final = "redriven"


class Marks:
    """The marks of one plan's rows."""

    def __init__(self, data: DataDir, vhost: str, plan: Plan) -> None:
        self._plan = plan
        self._log = tables.open_log(data.unroutable(vhost), tables.UNROUTABLE, vhost=vhost, files=True)
        tables.grow(self._log, tables.UNROUTABLE)
        #: Files in which rows of the plan stand under its batch.
        self._marked_files: set[str] = set()

    def stand(self) -> bool:
        """Whether the plan's rows are marked."""
        RowSearch(self._log, RowBag(self._plan.unroutable_rows()), UNROUTABLE_SCHEMA, only=self._under(None))
        return self._is_marked()

    def set(self) -> bool:
        """Claim the plan's rows, unless they are claimed; False when one is marked by another redrive, or gone.

        A plan is claimed in the order of numbers: one that comes after a later one is refused.
        """
        plan = self._plan
        once = Transaction(claim_of(plan.stream), plan.number)

        def settled(search: RowSearch) -> bool | None:
            if self._is_marked():
                return True
            if search.missing or (self._log.transaction_version(once.app_id) or 0) >= plan.number:
                return False
            faults.reach("redrive.marking", str(plan.place))
            return None

        value = {"topology_version": plan.topology_version, "batch": plan.batch}
        return self._write(plan.unroutable_rows(), None, value, settled, [once])

    def take_back(self, places: Places) -> None:
        """Take the mark from those rows of the plan that have it."""

        def settled(search: RowSearch) -> bool | None:
            return None if search.places else True

        rows = self._plan.unroutable_rows().take(pa.array(places))
        self._write(rows, self._plan.batch, None, settled, [])

    def _write(
        self,
        rows: pa.Table,
        instead_of: str | None,
        value: Mapping[str, Any] | None,
        settled: Callable[[RowSearch], bool | None],
        transactions: Iterable[Transaction],
    ) -> bool:
        """Mark rows that stand under the batch `instead_of`, in one commit, unless that is `settled` before."""
        log = self._log
        search = RowSearch(log, RowBag(rows), UNROUTABLE_SCHEMA, only=self._under(instead_of))

        def marked(file: str) -> pa.Table | Unchanged:
            return _with_mark(log.path, file, search.places[file], value) if file in search.places else UNCHANGED

        attempts = tables.attempts(log.path)
        info = {"bindery.change": "redrive", "bindery.batch": self._plan.batch}
        while True:
            with Rewriting(log, marked, prefix="redrive") as rewriting:
                for _ in attempts:
                    result = settled(search)
                    if result is not None:
                        return result
                    if rewriting.commit(transactions=transactions, info=info) is not None:
                        return True
                    log.refresh()
                    if not search.update():
                        break

    def _under(self, batch: str | None) -> Callable[[str, Places], npt.NDArray[np.bool_]]:
        """Tells which rows of a file stand under a batch, and notes whether any stands under the plan's."""

        def standing(file: str, places: Places) -> npt.NDArray[np.bool_]:
            marks = file_rows.read(self._log.path, file, UNROUTABLE_SCHEMA, columns=[_COLUMN])[_COLUMN]
            found = pc.struct_field(marks.take(pa.array(places)), "batch").to_pylist()
            if self._plan.batch in found:
                self._marked_files.add(file)
            return np.array([one == batch for one in found], np.bool_)

        return standing

    def _is_marked(self) -> bool:
        return not self._marked_files.isdisjoint(tables.files_of(self._log))


def _with_mark(path: str, file: str, places: Places, value: Mapping[str, Any] | None) -> pa.Table:
    """The rows of a file, also in columns that only a newer schema knows, with the mark at some places."""
    rows = file_rows.read_as_it_is(path, file)
    mask = np.zeros(rows.num_rows, np.bool_)
    mask[places] = True
    before = file_rows.read(path, file, UNROUTABLE_SCHEMA, columns=[_COLUMN])[_COLUMN].combine_chunks()
    column = pc.if_else(pa.array(mask), pa.scalar(value, REDRIVEN), before)
    at = rows.schema.get_field_index(_COLUMN)
    return rows.append_column(_COLUMN, column) if at < 0 else rows.set_column(at, _COLUMN, column)
