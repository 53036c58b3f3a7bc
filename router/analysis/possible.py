"""Which truths a filter can have at all, over every message.

A claim is only made where it is certain. A condition on one field that compares it with constants is
decided exactly: its truth is the same all over each interval between two neighbouring constants, so one
value per constant, per interval and per type stands for all values. Conditions on several fields combine
what their parts can be; everything else (patterns, arithmetic, XPATH) counts as "may be anything".
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from router.columns import Ref
from router.filters import scalar
from router.filters.ast import (
    And,
    Between,
    Call,
    Compare,
    Field,
    In,
    IsNull,
    Literal,
    Node,
    Not,
    Or,
    Truth,
    XPath,
    rebuild,
    walk,
)
from router.filters.sets.nodes import Accepts
from router.message import Message
from router.values import Table, Timestamp, Value

Truths = frozenset[bool | None]
ANYTHING: Final[Truths] = frozenset({False, None, True})
TWO_VALUED: Final[Truths] = frozenset({False, True})

#: Constants on one field up to which it is decided exactly.
MAX_CONSTANTS: Final = 40
_EXACT: Final = (Compare, Between, In, IsNull, Truth, And, Or, Not, Literal, Field)
_COMPARING: Final = (Compare, Between, In)


def truths(condition: Node) -> Truths:
    """The truths that the condition may have; a truth that is missing is impossible."""
    fields = _fields(condition)
    if not fields and not any(isinstance(node, Call | XPath) for node in walk(condition)):
        return frozenset({_evaluate(condition)})
    match condition:
        case And(parts):
            return _combined(parts, And, _least)
        case Or(parts):
            return _combined(parts, Or, _greatest)
        case Not(part):
            return frozenset(None if truth is None else not truth for truth in truths(part))
        case Accepts(part):
            return frozenset(truth is True for truth in truths(part))
        case IsNull(Field()):
            return TWO_VALUED
        case Compare(_, Field(), Literal(value)) if value is not None and value == value:  # noqa: PLR0124  # no NaN
            return ANYTHING
    if len(fields) == 1 and _is_exact(condition):
        return _decided(condition, fields[0])
    return ANYTHING


def can_be_true(conjuncts: Iterable[Node], *, fixed: Mapping[Ref, Value] | None = None) -> bool:
    """Whether some message may meet all conditions, `fixed` fields having those values; True when in doubt."""
    known = {Field(ref): Literal(value) for ref, value in (fixed or {}).items()}
    parts = tuple(_replaced(part, known) if known else part for part in flattened(conjuncts))
    return True in truths(And(parts))


def flattened(conjuncts: Iterable[Node]) -> Iterator[Node]:
    """The conditions that must all be true, AND by AND."""
    for part in conjuncts:
        if isinstance(part, And):
            yield from flattened(part.parts)
        elif isinstance(part, Accepts):
            yield from flattened([part.part])
        else:
            yield part


def _combined(
    parts: Sequence[Node], kind: Callable[[tuple[Node, ...]], Node], fold: Callable[[Iterable[bool | None]], bool | None]
) -> Truths:
    """AND or OR over parts: those on the same single field together, the groups independently."""
    groups: dict[Ref, list[Node]] = defaultdict(list)
    sets: list[Truths] = []
    for part in parts:
        fields = _fields(part)
        if len(fields) == 1 and _is_exact(part):
            groups[fields[0]].append(part)
        else:
            sets.append(truths(part))
    for ref, members in groups.items():
        sets.append(_decided(kind(tuple(members)), ref) if len(members) > 1 else _alone(members[0], ref))
    found: Truths = frozenset({fold(())})
    for possible in sets:
        found = frozenset(fold((one, other)) for one in found for other in possible)
    return found


def _alone(condition: Node, ref: Ref) -> Truths:
    if isinstance(condition, And | Or | Not):
        return _decided(condition, ref)
    return truths(condition)


def _least(values: Iterable[bool | None]) -> bool | None:
    result = scalar.all_of(*values)
    return result if isinstance(result, bool) else None


def _greatest(values: Iterable[bool | None]) -> bool | None:
    result = scalar.any_of(*values)
    return result if isinstance(result, bool) else None


def _fields(condition: Node) -> list[Ref]:
    return list(dict.fromkeys(node.ref for node in walk(condition) if isinstance(node, Field)))


def _is_exact(condition: Node) -> bool:
    """Whether the condition compares plain fields with constants and does nothing else."""
    constants = 0
    for node in walk(condition):
        if not isinstance(node, _EXACT):
            return False
        constants += isinstance(node, Literal)
    return constants <= MAX_CONSTANTS


def _decided(condition: Node, ref: Ref) -> Truths:
    field = Field(ref)
    return frozenset(
        _evaluate(_replaced(condition, {field: Literal(value)})) for value in _representatives(condition)
    )


def _replaced(node: Node, values: Mapping[Field, Literal]) -> Node:
    if isinstance(node, Field):
        return values.get(node, node)
    return rebuild(node, lambda child: _replaced(child, values))


def _evaluate(condition: Node) -> bool | None:
    result = scalar.Context(Message()).value(condition)
    return result if isinstance(result, bool) else None


def _representatives(condition: Node) -> Iterator[Value]:
    """Values that stand for all values of a field in comparisons with the condition's constants."""
    constants = [node.value for node in walk(condition) if isinstance(node, Literal)]
    numbers = sorted(
        {_exact(value) for value in constants if isinstance(value, int | float | Timestamp) and value == value}  # noqa: PLR0124  # no NaN
    )
    standing: list[Value] = [*numbers, *_between(numbers)]
    yield from standing
    if any(node.rules.converts_text for node in walk(condition) if isinstance(node, Compare | Between)):
        yield from (str(value) for value in standing)
        yield from ("true", "false")
    texts = sorted({value for value in constants if isinstance(value, str)})
    yield from texts
    yield from (text + "\0" for text in texts)  # between a text and the next one in code point order
    yield from sorted({value for value in constants if isinstance(value, bytes)})
    yield from (value + b"\0" for value in constants if isinstance(value, bytes))
    yield from ("", "\U0010ffff" * (1 + max((len(text) for text in texts), default=0)), b"", b"\xff" * 64)
    yield from (None, True, False, math.nan, (), Table())


def _exact(value: float | Timestamp) -> int | float:
    return value.ms if isinstance(value, Timestamp) else value


def _between(numbers: Sequence[int | float]) -> Iterator[int | float]:
    if not numbers:
        yield 0
        return
    yield -math.inf
    yield math.inf
    for low, high in zip(numbers, numbers[1:], strict=False):
        middle = low / 2 + high / 2
        if low < middle < high:
            yield middle
        elif isinstance(low, int) and isinstance(high, int) and high - low > 1:
            yield (low + high) // 2
