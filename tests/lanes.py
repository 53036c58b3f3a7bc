"""Which process runs a test when there are several: `make test` starts two.

Each file is run by one process, so that what a module sets up is set up once, and all that needs the session by one and
the same, which so starts the only session of the run. What takes longest begins first, so that no process has it left
when the others are done.
"""

from __future__ import annotations

from typing import Final

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

#: Where tests, or what they start, need the session of the run.
_SPARK: Final = ("tests/spark/", "tests/pages/")


#: What begins first: the lane with Spark, and files of few tests that take minutes.
_FIRST: Final = ("spark", "tests/faults/real/test_kills.py", "tests/faults/test_schedules.py")


class Lanes(LoadScopeScheduling):
    """Files and, as if it were one file, the folders with Spark; behind the first, those of most tests come first."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        for scope in reversed(_FIRST):
            if scope in self.workqueue:
                self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if nodeid.startswith(_SPARK) else nodeid.partition("::")[0]
