"""Whether some message may meet several conditions at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from bindery.router.columns import Ref
from bindery.router.filters.ast import And, Field, Literal, Node, rebuild
from bindery.router.filters.lint.truths import possible
from bindery.router.filters.sets.nodes import Accepts
from bindery.router.values import Value


def can_be_true(conjuncts: Iterable[Node], *, fixed: Mapping[Ref, Value] | None = None) -> bool:
    """Whether some message may meet all conditions, `fixed` fields having those values; True when in doubt."""
    known = {Field(ref): Literal(value) for ref, value in (fixed or {}).items()}
    parts = tuple(_replaced(part, known) if known else part for part in flattened(conjuncts))
    return True in possible(And(parts))


def flattened(conjuncts: Iterable[Node]) -> Iterator[Node]:
    """The conditions that must all be true, AND by AND."""
    for part in conjuncts:
        if isinstance(part, And):
            yield from flattened(part.parts)
        elif isinstance(part, Accepts):
            yield from flattened([part.part])
        else:
            yield part


def _replaced(node: Node, values: Mapping[Field, Literal]) -> Node:
    if isinstance(node, Field):
        return values.get(node, node)
    return rebuild(node, lambda child: _replaced(child, values))
