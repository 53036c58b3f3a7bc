"""Which process runs a test when there are several: `make test` starts two.

Each file is run by one process, so that what a module sets up is set up once, and all that needs the session by one and
the same, which so starts the only session of the run.
"""

from __future__ import annotations

from typing import Final

from xdist.scheduler import LoadScopeScheduling

#: Where tests, or what they start, need the session of the run.
_SPARK: Final = ("tests/spark/", "tests/pages/")


class Lanes(LoadScopeScheduling):
    """Files and, as if it were one file, the folders with Spark; those of most tests come first."""

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if nodeid.startswith(_SPARK) else nodeid.partition("::")[0]
