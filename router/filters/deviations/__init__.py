"""What text filters do otherwise under a compatibility mode (`bindery.router.compat`), as nodes of their own.

The tree of a filter says what it does, so the evaluators, the indexes, printing and the trace need not know of modes.
Importing the package registers the rules of its nodes.
"""

from __future__ import annotations

from bindery.router.filters.deviations import evaluation, printing
from bindery.router.filters.deviations.nodes import Flag, InTurn, OneOf, OnText, Same

__all__ = ["Flag", "InTurn", "OnText", "OneOf", "Same", "evaluation", "printing"]
