"""Message filters: four text languages, one tree, a scalar reference and a vectorised evaluator.

parse(text, dialect) -> Filter          the filter, or FilterError with the place and a hint
evaluate(filter, message)               True, False or None: the reference, one message at a time
FilterGroups(groups).select(view, …)    which filters accept which messages of a batch
"""

from __future__ import annotations

from router.filters.dialect import DIALECTS
from router.filters.filter import Filter, evaluate, is_troubled, parse
from router.filters.groups import FilterGroups
from router.filters.limits import DEFAULT_LIMITS, Limits
from router.filters.selecting import BatchFilters, Selection

__all__ = [
    "DEFAULT_LIMITS",
    "DIALECTS",
    "BatchFilters",
    "Filter",
    "FilterGroups",
    "Limits",
    "Selection",
    "evaluate",
    "is_troubled",
    "parse",
]
