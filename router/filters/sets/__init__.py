"""Filter sets: property filters, legacy bindings, selectors and groups as one `Filter` of dialect "filter-set".

    parse_filter_set({"f": {"descriptor": "amqp:properties-filter", "value": {"subject": "&P:order."}}})

Importing the package registers its nodes with both evaluators, the printer and the trace, so an unpickled filter works
at once.
"""

from __future__ import annotations

from bindery.router.filters.sets import printing, reasons, reference, vectors, ways
from bindery.router.filters.sets.parser import (
    DIALECT,
    canonical_text,
    parse_filter_set,
    parse_filter_set_text,
)
from bindery.router.filters.sets.reading import DEFAULT_SET_LIMITS, FilterSetLimits

__all__ = [
    "DEFAULT_SET_LIMITS",
    "DIALECT",
    "FilterSetLimits",
    "canonical_text",
    "parse_filter_set",
    "parse_filter_set_text",
    "printing",
    "reasons",
    "reference",
    "vectors",
    "ways",
]
