"""Plans of moves: which rows leave a queue, and for which other one: `DIR/moves/<vhost>/<queue that they leave>`.

How plans are kept is said in `bindery.store.plan_files`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from bindery.router.message import QUEUE_SCHEMA
from bindery.store import effects
from bindery.store.paths import DataDir, encode_name
from bindery.store.places import at
from bindery.store.plan_files import BatchPlan, PlanFile, PlanFolder
from bindery.store.stream_names import MOVES
from bindery.store.transfers import stream_of

_SOURCE: Final = "bindery.source"
_TARGET: Final = "bindery.target"


@dataclass(frozen=True, slots=True)
class Plan(BatchPlan):
    """A durable plan: the rows that leave `source` for `target`, as they stand there, and what they arrive with."""

    source: str
    target: str


class Plans:
    """The plans of moves in one vhost."""

    def __init__(self, data: DataDir, vhost: str) -> None:
        self._vhost = vhost
        self._root = at(data.root, "moves", encode_name(vhost))

    def pending(self) -> list[Plan]:
        """The plans that are not finished, in the order of their numbers. Raises UnsupportedTable for a damaged one."""
        with effects.looking(self._root):
            names = {name.partition("/")[0] for name in self._root.within()}
        found: list[Plan] = []
        for name in names:
            files = self._files(name)
            read = (self._read(files, number) for number in files.pending())
            found += [plan for plan in read if plan is not None]
        return sorted(found, key=lambda plan: plan.number)

    def read(self, source: str, number: int) -> Plan | None:
        """A plan; None when there is none of that number. Raises UnsupportedTable for a damaged one."""
        return self._read(self._files(encode_name(source)), number)

    def write(self, rows: pa.Table, source: str, target: str, *, version: int, clock_ms: int, after: int) -> Plan:
        """A plan with a number above `after`; durable when this comes back.

        Raises StorageFailed; the plan may be there all the same, and is finished like any other.
        """
        stated = {_SOURCE: source, _TARGET: target}
        files = self._files(encode_name(source))
        file = files.write(rows, version=version, clock_ms=clock_ms, after=after, stated=stated)
        return Plan(file, self.stream(source), version, clock_ms, source, target)

    def discard(self, plan: Plan) -> None:
        """Remove a plan that is finished or was given up. Raises StorageFailed; then it is there to be finished."""
        self._files(encode_name(plan.source)).discard(plan.file)

    def stream(self, source: str) -> str:
        """The stream of the moves out of a queue, which is its own app id."""
        return stream_of(MOVES, self._vhost, source)

    def _files(self, folder: str) -> PlanFolder:
        return PlanFolder(
            self._root / folder, QUEUE_SCHEMA, kind="move", lost="rows that have left their queue never arrive"
        )

    def _read(self, files: PlanFolder, number: int) -> Plan | None:
        def plan(file: PlanFile, version: int, clock_ms: int) -> Plan:
            source, target = file.stated[_SOURCE], file.stated[_TARGET]
            return Plan(file, self.stream(source), version, clock_ms, source, target)

        return files.read_as(number, plan)
