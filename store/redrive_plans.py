"""Plans of redrives: which unroutable rows are routed again, and with what: `DIR/redrives/<vhost>`.

How plans are kept is said in `bindery.store.plan_files`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from bindery.router.errors import UnsupportedTable
from bindery.router.message import MESSAGE_SCHEMA, SENT_SCHEMA, UNROUTABLE_SCHEMA
from bindery.store import effects
from bindery.store.paths import DataDir, encode_name
from bindery.store.places import at
from bindery.store.plan_files import REDRIVES, BatchPlan, PlanFolder, one_batch
from bindery.store.stream_names import REDRIVES as STREAM
from bindery.store.writer import BATCH_SCHEMA, SEQ

_ROUTING: Final = "planned_from"
#: What a plan's rows are told by: the row of the unroutable table that each is made from.
_KNOWN_BY: Final = (*MESSAGE_SCHEMA.names, "source", "routing", "routed_at")
#: What QueueWriter takes and no plan has: its rows reach a queue, whatever their sender asked for otherwise.
_ASKED: Final = [field for field in SENT_SCHEMA if field.name not in MESSAGE_SCHEMA.names]
#: A plan's rows: the rest of what QueueWriter takes, and of what the unroutable row behind each is told by.
_SCHEMA: Final = pa.schema(
    [
        *(field for field in BATCH_SCHEMA if field not in _ASKED),
        (_ROUTING, UNROUTABLE_SCHEMA.field("routing").type),
        ("routed_at", UNROUTABLE_SCHEMA.field("routed_at").type),
    ]
)


@dataclass(frozen=True, slots=True)
class Plan(BatchPlan):
    """A durable plan: rows that are routed again."""

    def messages(self) -> pa.RecordBatch:
        """The rows as one batch of BATCH_SCHEMA."""
        rows = self.rows
        for field in _ASKED:
            rows = rows.append_column(field, pa.nulls(len(rows), field.type))
        return one_batch(rows.select(BATCH_SCHEMA.names))

    def unroutable_rows(self) -> pa.Table:
        """The rows as the unroutable table has them, in the columns that they are told by."""
        known = [_ROUTING if name == "routing" else name for name in _KNOWN_BY]
        return self.rows.select(known).rename_columns(list(_KNOWN_BY))


class Plans:
    """The plans of one vhost."""

    def __init__(self, data: DataDir, vhost: str) -> None:
        self.stream = f"{STREAM}{vhost}"
        self._folder = at(data.root, REDRIVES, encode_name(vhost))
        self._files = PlanFolder(
            self._folder, _SCHEMA, kind="redrive", lost="rows marked as redriven in its batch lack copies"
        )

    def pending(self) -> list[int]:
        """The numbers of the plans that are not finished, ascending."""
        with effects.looking(self._folder):
            # what is left of plans that were never whole, or are done, has a suffix
            older = [name for name in self._folder.folders() if "." not in name]
        if older:
            raise UnsupportedTable(
                f"{self._folder / older[0]} is a plan of an older version",
                where=str(self._folder),
                hint="finish it with the version that began it",
            )
        return self._files.pending()

    def read(self, number: int) -> Plan | None:
        """A plan; None when somebody else has finished it. Raises UnsupportedTable for a damaged one."""
        return self._files.read_as(number, lambda file, version, clock_ms: Plan(file, self.stream, version, clock_ms))

    def write(self, rows: pa.Table, topology_version: int, clock_ms: int, *, after: int) -> Plan:
        """A plan for rows of the unroutable table, with a number above `after`; durable when this comes back.

        Raises StorageFailed; the plan may be there all the same, and is finished like any other.
        """
        planned = rows.select([*MESSAGE_SCHEMA.names, "source"])
        planned = planned.append_column(SEQ, pa.array(np.arange(rows.num_rows)))
        planned = planned.append_column(_ROUTING, rows["routing"]).append_column("routed_at", rows["routed_at"])
        file = self._files.write(planned, version=topology_version, clock_ms=clock_ms, after=after)
        return Plan(file, self.stream, topology_version, clock_ms)

    def discard(self, plan: Plan) -> None:
        """Remove a plan that is finished or was given up. Raises StorageFailed; then it is there to be finished."""
        self._files.discard(plan.file)
