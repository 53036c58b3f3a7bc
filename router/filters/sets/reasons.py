"""Why the nodes of filter sets have their result."""

from __future__ import annotations

from bindery.router.filters.scalar import Context
from bindery.router.filters.sets.nodes import Equals, NestedMatches, StartsWith, TextForm, TopicMatches
from bindery.router.filters.trace import NOTHING, Because, Trace, missing, reason
from bindery.router.values import a_type


@reason(Equals, StartsWith, NestedMatches, TopicMatches)
def _reference(node: object, found: Trace, context: Context) -> Because:
    """A field that is missing, or holds a value that is not of the reference's type."""
    if found.result is True:
        return NOTHING
    field, reference = found.parts
    if isinstance(field.node, TextForm):
        (field,) = field.parts
    because = missing([field])
    kind, wanted = type(field.value), type(reference.value)
    if because != NOTHING or kind is wanted:
        return because
    return "type", f"{a_type(kind)} never matches {a_type(wanted)}"
