"""The one syntax tree behind all filter languages, and how a node type joins the two evaluators.

Nodes are frozen, hashable and picklable. An operand gives a value of `bindery.router.values` (None = null); a
condition gives a truth. A condition may stand where an operand is read (its truth is a boolean, unknown is
null); an operand that stands for a condition is wrapped in `Truth`.

Truths are four, ordered `FALSE < UNKNOWN < TROUBLED < TRUE`: AND is the minimum, OR the maximum, NOT swaps the
ends (`NEGATED`). TROUBLED is an unknown that comes from run-time trouble (overflow, wrong type in arithmetic,
division by zero …): for the result it is unknown, and a filter whose result is TROUBLED is counted. In the
scalar reference a truth is False, None, `TROUBLE` or True, and an operand in trouble is `TROUBLE` too.

Adding a node type from another module takes:

1.  A frozen slotted dataclass derived from `Operand` or `Condition`. Sub-nodes stand in its fields directly or
    in tuples of nodes; `children` finds them. A constant that differs from filter to filter of one shape belongs
    into a `Literal` child: evaluation replaces it by a `Parameter`, so that all filters of that shape are
    evaluated in one pass. Every other field becomes part of the shape, so keep it small and hashable.
2.  A scalar rule: `@bindery.router.filters.scalar.rule(MyNode)` on `(node, context) -> value or truth`;
    `context.value(child)` evaluates a sub-node, `context.message` is the message.
3.  A vectorised rule: `@bindery.router.filters.pairs.operand(MyNode)` or
    `@bindery.router.filters.pairs.condition(MyNode)` on `(node, pairs)`: an operand rule returns a `Vector`
    with one value per pair of message and filter, a condition rule a new uint8 array of truths.
    `pairs.column(ref)`, `pairs.operand(child)` and `pairs.truth(child)` give those of a reference and of
    sub-nodes, `pairs.rows` the batch row of each pair, `pairs.view` the batch. Work on texts goes once per
    distinct combination of values (`per_distinct`, `truth_per_distinct`).
4.  Optionally an access predicate: `@bindery.router.filters.access.access(MyNode)` on `(node) -> Access | None`.
    A node that can only be true when a field holds one of some keys returns them; it is then looked at for those
    messages only, and on all others it must be FALSE or UNKNOWN. `exact`: a key alone makes it true.
5.  A printing rule, when it has a textual form: `@bindery.router.filters.printer.prints(MyNode)`.
6.  A reason, when its parts do not say why it has its result: `@bindery.router.filters.trace.reason(MyNode)`.

Such a tree becomes a filter by `bindery.router.filters.Filter.of(expression, text=…, dialect=…)`; filters of every
origin can stand in one `FilterGroups`.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from bindery.router.columns import Ref
from bindery.router.filters.limits import XPathLimits
from bindery.router.values import Value

FALSE: Final = 0
UNKNOWN: Final = 1
TROUBLED: Final = 2
TRUE: Final = 3
#: NOT, by truth.
NEGATED: Final = (TRUE, UNKNOWN, TROUBLED, FALSE)


class Trouble(enum.Enum):
    """The value of an operand or condition that ran into trouble; see the module's text."""

    TROUBLE = "trouble"


TROUBLE: Final = Trouble.TROUBLE


@dataclass(frozen=True, slots=True)
class Rules:
    """What a language does differently when it evaluates; part of the nodes that it concerns.

    orders_text        < <= > >= order strings by code point and binaries bytewise (else: false)
    joins_text         + joins two strings
    floating_division  / of integers gives a double (else truncates)
    converts_text      a string that meets a number or boolean is read as one when it parses
    integer_bits       what an integer has; arithmetic beyond is trouble
    """

    orders_text: bool = False
    joins_text: bool = False
    floating_division: bool = False
    converts_text: bool = False
    integer_bits: int = 64

    @property
    def most(self) -> int:
        """The largest integer; the least is -most - 1."""
        return (1 << (self.integer_bits - 1)) - 1


@dataclass(frozen=True, slots=True)
class Node:
    """Base of all nodes."""

    is_condition: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Operand(Node):
    """A node that gives a value."""


@dataclass(frozen=True, slots=True)
class Condition(Node):
    """A node that gives a truth."""

    is_condition: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Literal(Operand):
    """A constant; equal when type and value are, so 1, 1.0 and TRUE are three."""

    value: Value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Literal):
            return False
        return type(self.value) is type(other.value) and repr(self.value) == repr(other.value)

    def __hash__(self) -> int:
        return hash((type(self.value), repr(self.value)))


@dataclass(frozen=True, slots=True)
class Field(Operand):
    """A field of the message, or one derived from it (`bindery.router.filters.fields`)."""

    ref: Ref


@dataclass(frozen=True, slots=True)
class Element(Operand):
    """A member of a nested value: an integer picks from a list (zero-based), a string from a map."""

    of: Operand
    index: Node


@dataclass(frozen=True, slots=True)
class Sign(Operand):
    """A unary + or -."""

    op: str
    operand: Node
    rules: Rules


@dataclass(frozen=True, slots=True)
class Arithmetic(Operand):
    """A chain of one precedence, left to right: `first op operand op operand …`."""

    first: Node
    ops: tuple[str, ...]
    rest: tuple[Node, ...]
    rules: Rules


@dataclass(frozen=True, slots=True)
class Call(Operand):
    """A function by its upper-case name, arity already checked."""

    function: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Parameter(Operand):
    """A literal lifted out of a filter's shape; `tag` is the column tag of its value."""

    slot: int
    tag: int


@dataclass(frozen=True, slots=True)
class Truth(Condition):
    """An operand read as a condition: a boolean gives itself, everything else unknown."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Compare(Condition):
    """`left op right` with op one of = <> < <= > >=."""

    op: str
    left: Node
    right: Node
    rules: Rules

    @property
    def sides(self) -> list[tuple[Field, Literal]]:
        """A field and a constant that are compared, whichever way round; nothing when there are other operands."""
        pairs = ((self.left, self.right), (self.right, self.left))
        return [(one, other) for one, other in pairs if isinstance(one, Field) and isinstance(other, Literal)]


@dataclass(frozen=True, slots=True)
class Between(Condition):
    """`operand >= low AND operand <= high`; negated: `operand < low OR operand > high`."""

    operand: Node
    low: Node
    high: Node
    negated: bool
    rules: Rules


@dataclass(frozen=True, slots=True)
class In(Condition):
    """Equal to any member, three-valued."""

    operand: Node
    members: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Like(Condition):
    """A pattern match over the whole text; a computed pattern longer than `longest` gives trouble."""

    operand: Node
    pattern: Node
    escape: Node | None
    longest: int


@dataclass(frozen=True, slots=True)
class IsNull(Condition):
    """Never unknown; also EXISTS, negated."""

    operand: Node


@dataclass(frozen=True, slots=True)
class XPath(Condition):
    """An XPath 1.0 expression over the body, two-valued (Artemis filter expressions, "XPath")."""

    expression: str
    limits: XPathLimits


@dataclass(frozen=True, slots=True)
class And(Condition):
    """True when every part is."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or(Condition):
    """True when any part is."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Not(Condition):
    """True when its part is false."""

    part: Node


_FIELDS: dict[type[Node], tuple[str, ...]] = {}


def _field_names(kind: type[Node]) -> tuple[str, ...]:
    names = _FIELDS.get(kind)
    if names is None:
        names = _FIELDS[kind] = tuple(member.name for member in dataclasses.fields(kind))
    return names


def children(node: Node) -> Iterator[Node]:
    """The direct sub-nodes, in order."""
    for name in _field_names(type(node)):
        content = getattr(node, name)
        if isinstance(content, Node):
            yield content
        elif isinstance(content, tuple):
            yield from (item for item in content if isinstance(item, Node))


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it, parents first, without recursion."""
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(reversed(list(children(current))))


def depth(node: Node) -> int:
    """Levels of the tree; a leaf has one. Needs no recursion, so it may judge any tree."""
    deepest, level = 0, [node]
    while level:
        deepest += 1
        level = [child for parent in level for child in children(parent)]
    return deepest


def rebuild(node: Node, change: Callable[[Node], Node]) -> Node:
    """The node with `change` applied to its direct sub-nodes; itself when nothing changed."""
    changes: dict[str, object] = {}
    for name in _field_names(type(node)):
        content = getattr(node, name)
        if isinstance(content, Node):
            replaced = change(content)
            if replaced is not content:
                changes[name] = replaced
        elif isinstance(content, tuple) and any(isinstance(item, Node) for item in content):
            items = tuple(change(item) if isinstance(item, Node) else item for item in content)
            if any(new is not old for new, old in zip(items, content, strict=True)):
                changes[name] = items
    return dataclasses.replace(node, **changes) if changes else node
