"""Message filters: several text languages, one tree, a scalar reference and a vectorised evaluator.

parse(text, dialect) -> Filter          the filter, or FilterError with the place and a hint
evaluate(filter, message)               True, False or None: the reference, one message at a time
FilterGroups(groups).select(view, …)    which filters accept which messages of a batch
"""

from __future__ import annotations

from bindery.router.filters import patterns  # noqa: F401  # it registers what reads them
from bindery.router.filters.dialect import DIALECTS
from bindery.router.filters.filter import Filter, evaluate, is_troubled, parse
from bindery.router.filters.groups import FilterGroups
from bindery.router.filters.limits import DEFAULT_LIMITS, Limits
from bindery.router.filters.selecting import BatchFilters, Selection

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
