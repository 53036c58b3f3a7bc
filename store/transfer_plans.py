"""Plans of moves and copies: which rows of a queue go where.

Those of moves are in `DIR/moves/<vhost>/<queue that they leave>`, those of copies to an exchange in
`DIR/copies/<vhost>/<queue that they are copied from>`. How plans are kept is said in `bindery.store.plan_files`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from bindery.router.message import QUEUE_SCHEMA
from bindery.store import effects, plan_files, stream_names
from bindery.store.destinations import Destination, from_stated
from bindery.store.paths import DataDir, encode_name
from bindery.store.places import at
from bindery.store.plan_files import BatchPlan, PlanFile, PlanFolder
from bindery.store.transfers import stream_of

_SOURCE: Final = "bindery.source"


@dataclass(frozen=True, slots=True)
class Plan(BatchPlan):
    """A durable plan: rows of `source` as they stand there, which go `to` another place, and what they arrive with."""

    source: str
    to: Destination


class Plans:
    """The plans of moves, or of copies, in one vhost."""

    def __init__(self, data: DataDir, vhost: str, *, copies: bool = False) -> None:
        #: Whether the rows stay in their queue.
        self.copies: Final = copies
        self._vhost = vhost
        self._root = at(data.root, plan_files.COPIES if copies else plan_files.MOVES, encode_name(vhost))

    def pending(self) -> list[Plan]:
        """The plans that are not finished, in the order of their numbers. Raises UnsupportedTable for a damaged one."""
        with effects.looking(self._root):
            names = {name.partition("/")[0] for name in self._root.within()}
        return sorted((plan for name in names for plan in self._within(name)), key=lambda plan: plan.number)

    def _within(self, folder: str) -> Iterator[Plan]:
        files = self._files(folder)
        for number in files.pending():
            plan = self._read(files, number)
            if plan is not None:
                yield plan

    def read(self, source: str, number: int) -> Plan | None:
        """A plan; None when there is none of that number. Raises UnsupportedTable for a damaged one."""
        return self._read(self._files(encode_name(source)), number)

    def write(self, rows: pa.Table, source: str, to: Destination, *, version: int, clock_ms: int, after: int) -> Plan:
        """A plan with a number above `after`; durable when this comes back.

        Raises StorageFailed; the plan may be there all the same, and is finished like any other.
        """
        stated = {_SOURCE: source, **to.stated()}
        files = self._files(encode_name(source))
        file = files.write(rows, version=version, clock_ms=clock_ms, after=after, stated=stated)
        return Plan(file, self.stream(source), version, clock_ms, source, to)

    def discard(self, plan: Plan) -> None:
        """Remove a plan that is finished or was given up. Raises StorageFailed; then it is there to be finished."""
        self._files(encode_name(plan.source)).discard(plan.file)

    def stream(self, source: str) -> str:
        """The stream of the moves or copies out of a queue, which is its own app id."""
        return stream_of(stream_names.COPIES if self.copies else stream_names.MOVES, self._vhost, source)

    def _files(self, folder: str) -> PlanFolder:
        kind = "copy" if self.copies else "move"
        lost = "some copies never arrive" if self.copies else "rows that have left their queue never arrive"
        return PlanFolder(self._root / folder, QUEUE_SCHEMA, kind=kind, lost=lost)

    def _read(self, files: PlanFolder, number: int) -> Plan | None:
        def plan(file: PlanFile, version: int, clock_ms: int) -> Plan:
            source = file.stated[_SOURCE]
            return Plan(file, self.stream(source), version, clock_ms, source, from_stated(file.stated))

        return files.read_as(number, plan)
