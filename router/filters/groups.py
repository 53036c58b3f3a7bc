"""Many filters at once: which members of a group accept which messages.

A group holds the filters that a message meets together (the bindings of one exchange and key). Compiling
(`bindery.router.filters.compiled`) finds for each filter an access predicate (`bindery.router.filters.access`)
and a shape (`bindery.router.filters.shapes`). Selecting (`bindery.router.filters.selecting`) then takes three
steps: the keys that a message holds lead to the filters that it may satisfy; candidates of one shape are
evaluated together; accepted filters become members again. Equal filters of a group are one entry.
"""

from __future__ import annotations

from bindery.router.columns import BatchView
from bindery.router.filters.bodies import Bodies
from bindery.router.filters.compiled import Codes, CompiledGroups, Ints
from bindery.router.filters.selecting import BatchFilters, Selection


class FilterGroups(CompiledGroups):
    """Filters in groups, compiled; picklable.

    `select` answers for pairs (message row, group) which members of the group accept the message. Its work
    depends on the members whose access predicate a message satisfies, not on the number of members.
    """

    def on(self, view: BatchView, bodies: Bodies | None = None) -> BatchFilters:
        """These filters over one batch, for whoever selects more than once; `bodies` are those that others see, too."""
        return BatchFilters(self, view, bodies=bodies)

    def select(self, view: BatchView, rows: Ints, groups: Codes) -> Selection:
        """See `BatchFilters.select`."""
        return self.on(view).select(rows, groups)

    def candidates(self, view: BatchView, rows: Ints, groups: Codes) -> int:
        """How many (pair, filter) combinations `select` looks at: the measure of its work."""
        return sum(len(block.pair) for block in self.on(view).candidates(rows, groups))
