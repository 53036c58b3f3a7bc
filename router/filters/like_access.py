"""The access predicate of LIKE: a pattern that begins with literal characters asks for texts with that head."""

from __future__ import annotations

from typing import Final

from bindery.router.filters import like
from bindery.router.filters.access import Access, Key, access
from bindery.router.filters.ast import Field, Like, Literal
from bindery.router.filters.payload import PAYLOAD
from bindery.router.filters.sets.vectors import head_of
from bindery.router.filters.spread import is_spread

#: One column of heads is made for each length, up to this many characters.
_LONGEST_HEAD: Final = 32


@access(Like)
def _like(node: Like) -> Access | None:
    """`'abc%'` is decided by the head alone; `'abc%x'` and `'ab_d'` are looked at when their head fits."""
    if not (isinstance(node.operand, Field) and isinstance(node.pattern, Literal)):
        return None
    if node.operand.ref.section == PAYLOAD or is_spread(node.operand.ref):
        return None  # heads do not tell a body that cannot be parsed, for which the filter is unknown
    text, escape = node.pattern.value, node.escape.value if isinstance(node.escape, Literal) else None
    if not isinstance(text, str) or (node.escape is not None and not isinstance(escape, str)):
        return None
    pattern = like.compile_pattern(text, escape if isinstance(escape, str) else None)
    prefix = like.literal_prefix(pattern) if pattern is not None else ""
    if not prefix:
        return None
    head = prefix[:_LONGEST_HEAD]
    exact = pattern is not None and len(pattern) == 2 and pattern[0].text == head and not pattern[1].text
    return Access((Key(head_of(node.operand.ref, len(head)), Literal(head), strict=True),), exact=exact)
